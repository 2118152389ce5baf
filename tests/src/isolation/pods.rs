//! Pods as the API server has them when the network stack has annotated them, and what the sets should hold for them.

use std::net::IpAddr;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::World;
use super::table::Sets;

const NETWORKS: &str = "k8s.ovn.org/pod-networks";
const PORTS: &str = "k8s.ovn.org/open-default-ports";
const LOCKED: &str = "infrastructure-locked";

/// A pod that somebody makes.
#[derive(Debug, Clone)]
pub struct PodSpec {
    name: String,
    node: Option<String>,
    host_network: bool,
    annotations: Vec<(&'static str, String)>,
    addresses: Vec<String>,
}

impl PodSpec {
    /// A pod that nothing is known of.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let (annotations, addresses) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), node: None, host_network: false, annotations, addresses }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A pod with a primary network of its own, and these addresses on the default one.
    #[must_use]
    pub fn locked(name: &str, addresses: &[&str]) -> Self {
        Self::new(name).networks(&networks(LOCKED, addresses)).addresses(addresses)
    }

    /// A pod on the default network.
    #[must_use]
    pub fn default_network(name: &str, addresses: &[&str]) -> Self {
        Self::new(name).networks(&networks("primary", addresses)).addresses(addresses)
    }

    /// With the network of its host.
    #[must_use]
    pub fn host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// On another node than the world's.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// With this text of its networks.
    #[must_use]
    pub fn networks(mut self, text: &str) -> Self {
        self.annotations.push((NETWORKS, text.to_owned()));
        self
    }

    /// With these open ports.
    #[must_use]
    pub fn open(mut self, text: &str) -> Self {
        self.annotations.push((PORTS, text.to_owned()));
        self
    }

    /// With these addresses in its status.
    #[must_use]
    pub fn addresses(mut self, addresses: &[&str]) -> Self {
        self.addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        self
    }
}

/// The annotation of a pod whose default network has this role.
#[must_use]
pub fn networks(role: &str, addresses: &[&str]) -> String {
    let prefixed: Vec<String> = addresses
        .iter()
        .map(|address| if address.contains(':') { format!("{address}/64") } else { format!("{address}/24") })
        .collect();
    let own =
        json!({"ip_addresses": ["10.200.0.4/24"], "mac_address": "0a:58:0a:c8:00:04", "role": "primary"});
    let default = json!({"ip_addresses": prefixed, "mac_address": "0a:58:0a:80:00:07", "role": role});
    if role == LOCKED { json!({"default": default, "blue/blue": own}) } else { json!({"default": default}) }
        .to_string()
}

impl World {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.rig().client(), &self.namespace)
    }

    /// Makes a pod, with its status.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn make(&self, pod: &PodSpec) -> anyhow::Result<()> {
        let annotations: serde_json::Map<String, Value> =
            pod.annotations.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
        let node = pod.node.as_deref().unwrap_or(self.node.name());
        let object = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod.name, "annotations": annotations},
            "spec": {
                "nodeName": node, "hostNetwork": pod.host_network, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "one", "image": "none"}],
            },
        }))?;
        let pods = self.pods();
        pods.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("making pod {}", pod.name))?;
        let ips: Vec<Value> = pod.addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let status = json!({"status": {"phase": "Running", "podIPs": ips, "podIP": pod.addresses.first()}});
        pods.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Gives a pod another text of its open ports, or takes it away.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn open(&self, pod: &str, text: Option<&str>) -> anyhow::Result<()> {
        self.annotate(pod, PORTS, text).await
    }

    /// Gives a pod another text of its networks, or takes it away.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn connect(&self, pod: &str, text: Option<&str>) -> anyhow::Result<()> {
        self.annotate(pod, NETWORKS, text).await
    }

    async fn annotate(&self, pod: &str, key: &str, text: Option<&str>) -> anyhow::Result<()> {
        let patch = json!({"metadata": {"annotations": {key: text}}});
        self.pods().patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Lets a pod come to this phase.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn phase(&self, pod: &str, phase: &str) -> anyhow::Result<()> {
        let status = Patch::Merge(json!({"status": {"phase": phase}}));
        self.pods().patch_status(pod, &PatchParams::default(), &status).await?;
        Ok(())
    }

    /// Deletes a pod at once.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete(&self, pod: &str) -> anyhow::Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(pod, &now).await.with_context(|| format!("deleting pod {pod}"))?;
        Ok(())
    }
}

/// What the sets should hold for all pods that there are, whose annotations can be read.
///
/// # Errors
/// The API server cannot be asked.
pub async fn wanted(client: &Client) -> anyhow::Result<Sets> {
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
    let mut sets = Sets::empty();
    for pod in pods {
        add(&mut sets, &pod);
    }
    Ok(sets)
}

fn add(sets: &mut Sets, pod: &Pod) {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let annotation =
        |key: &str| pod.annotations().get(key).and_then(|text| serde_yaml_ng::from_str::<Value>(text).ok());
    let is_locked = annotation(NETWORKS)
        .is_some_and(|networks| networks.pointer("/default/role").is_some_and(|role| role == LOCKED));
    if spec.is_some_and(|spec| spec.host_network == Some(true))
        || matches!(phase, Some("Succeeded" | "Failed"))
        || !is_locked
    {
        return;
    }
    let addresses = status.and_then(|status| status.pod_ips.as_ref()).into_iter().flatten();
    let opened = annotation(PORTS).and_then(|ports| opened(&ports)).unwrap_or_default();
    for address in addresses.filter_map(|ip| ip.ip.parse::<IpAddr>().ok()) {
        let family = if address.is_ipv4() { "v4" } else { "v6" };
        sets.insert(&format!("udn-pod-default-ips-{family}"), address.to_string());
        for port in &opened {
            match port {
                None => sets.insert(&format!("udn-open-ports-icmp-{family}"), address.to_string()),
                Some(port) => sets.insert(&format!("udn-open-ports-{family}"), format!("{address} . {port}")),
            }
        }
    }
}

/// What a list opens: protocol and port as nft has them, nothing for ICMP; nothing at all if an entry is wrong.
fn opened(entries: &Value) -> Option<Vec<Option<String>>> {
    let of = |entry: &Value| match (entry.get("protocol")?.as_str()?, entry.get("port")) {
        ("icmp", None) => Some(None),
        (protocol @ ("tcp" | "udp" | "sctp"), Some(port)) => {
            let port = port.as_u64().filter(|port| *port <= 65535)?;
            Some(Some(format!("{protocol} . {port}")))
        }
        _ => None,
    };
    entries.as_array()?.iter().map(of).collect()
}
