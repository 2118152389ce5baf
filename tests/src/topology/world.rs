//! A node with a zone of OVN, nodes and networks that are objects on the API server alone, and an agent that writes them.
//!
//! In: which nodes and networks there are, as the cluster manager and the nodes would annotate them. Out: what is in the
//! Northbound database beside what the planners say of just these inputs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use causeway_api::nad::{Config, GatewayMode, NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec};
use causeway_dpu_agent::topology::cluster::{ACL_LOG_RATE, COPP_RATE, Cluster};
use causeway_dpu_agent::topology::network::Network;
use causeway_dpu_agent::topology::northbound;
use causeway_dpu_agent::topology::service::{DefaultService, ServiceName};
use causeway_rig::{KUBECONFIG, Node, OvnZone, Ovs, Process, Program, Rig, RigOptions};
use k8s_openapi::api::core::v1::{Node as NodeObject, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use ovsdb::{Remote, Snapshot, Store};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::manifests;

mod planned;
mod rows;

pub use self::rows::{Rows, rows};

/// Longer than anything here takes on a loaded machine.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// Where the agent serves `/metrics` and `/readyz` in its node.
const HEALTH: &str = "127.0.0.1:9410";

/// What everything about networks needs to be on, with the addresses of the worked examples. Ports of translations are left
/// to the kernel, which has the same everywhere. Without a gateway mode the agent tells nothing about the node: the tests do.
pub const ON: &[&str] = &[
    "--enable-multi-network",
    "--enable-network-segmentation",
    "--cluster-subnets=10.128.0.0/14/24",
    "--k8s-service-cidrs=172.16.1.0/24",
    "--gateway-v4-masquerade-subnet=169.254.0.0/17",
    "--gateway-v6-masquerade-subnet=fd69::/112",
    "--nodeport",
];

/// The cluster that [`ON`] describes.
#[must_use]
pub fn cluster() -> Cluster {
    let nets = |texts: &[&str]| texts.iter().filter_map(|text| text.parse().ok()).collect();
    Cluster {
        subnets: nets(&["10.128.0.0/14"]),
        join: nets(&["100.64.0.0/16", "fd98::/64"]),
        masquerade: nets(&["169.254.0.0/17", "fd69::/112"]),
        mtu: 1400,
        node_ports: true,
        port_range: Some("32768-60999".to_owned()),
        multicast: false,
        copp_rate: COPP_RATE,
        acl_log_rate: ACL_LOG_RATE,
        geneve_port: None,
    }
}

/// What a made-up network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A subnet for each node, for pods to leave through.
    Layer3,
    /// One subnet, for pods to leave through.
    Layer2,
    /// A subnet for each node, as a further interface.
    Layer3Secondary,
    /// One subnet, as a further interface.
    Layer2Secondary,
    /// The underlay.
    Localnet,
}

/// A made-up network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSpec {
    /// Its name; its NAD is called so too, with a dash for what no object's name may have.
    pub name: String,
    /// Its id.
    pub id: u32,
    /// What it is.
    pub kind: Kind,
}

impl NetworkSpec {
    /// A network.
    #[must_use]
    pub fn new(name: &str, id: u32, kind: Kind) -> Self {
        Self { name: name.to_owned(), id, kind }
    }

    /// Name of its NAD.
    #[must_use]
    pub fn nad(&self) -> String {
        self.name.replace(['_', '.', '/'], "-")
    }

    /// Its config.
    #[must_use]
    pub fn config(&self) -> String {
        let (high, low) = (self.id / 250, self.id % 250 + 1);
        let fields = match self.kind {
            Kind::Layer3 => json!({"topology": "layer3", "role": "primary", "subnets": "10.200.0.0/16/24"}),
            Kind::Layer3Secondary => {
                json!({"topology": "layer3", "subnets": format!("10.{}.0.0/16/24", 201 + high)})
            }
            Kind::Layer2 => json!({"topology": "layer2", "role": "primary", "subnets": "10.201.0.0/16"}),
            Kind::Layer2Secondary => json!({"topology": "layer2", "subnets": format!("10.210.{low}.0/24")}),
            Kind::Localnet => json!({"topology": "localnet", "physicalNetworkName": "underlay", "vlanID": 7}),
        };
        let mut config = json!({
            "cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "name": self.name,
            "netAttachDefName": format!("default/{}", self.nad()),
        });
        if let (Some(config), Some(fields)) = (config.as_object_mut(), fields.as_object()) {
            config.extend(fields.clone());
        }
        config.to_string()
    }

    /// The network that its NAD describes.
    ///
    /// # Errors
    /// The planners take no such network.
    pub fn network(&self, cluster: &Cluster) -> anyhow::Result<Network> {
        let config = Config::read(&self.config(), &format!("default/{}", self.nad()), GatewayMode::Shared)?;
        Ok(Network::of(&config, self.id.try_into()?, &self.tunnel_keys(), cluster)?)
    }

    fn tunnel_keys(&self) -> Vec<u32> {
        if self.kind == Kind::Layer2 { vec![16_711_683 + self.id, 16_715_779 + self.id] } else { Vec::new() }
    }

    fn is_routed(&self) -> bool {
        matches!(self.kind, Kind::Layer3 | Kind::Layer3Secondary)
    }

    /// Its NAD, as the cluster manager annotates it.
    #[must_use]
    pub fn object(&self) -> NetworkAttachmentDefinition {
        let spec = NetworkAttachmentDefinitionSpec { config: self.config() };
        let mut nad = NetworkAttachmentDefinition::new(&self.nad(), spec);
        let annotations = [
            ("k8s.ovn.org/network-name", self.name.clone()),
            ("k8s.ovn.org/network-id", self.id.to_string()),
            ("k8s.ovn.org/tunnel-keys", format!("{:?}", self.tunnel_keys()).replace(' ', "")),
        ];
        nad.metadata.namespace = Some("default".to_owned());
        nad.metadata.annotations =
            Some(annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
        nad
    }
}

/// Annotations of the `n`th node, without its subnets.
#[must_use]
pub fn annotations(n: u16) -> BTreeMap<String, String> {
    let (high, low) = (n / 200, n % 200 + 1);
    let gateway = json!({"default": {
        "mode": "shared", "bridge-id": "br-ex", "interface-id": format!("br-ex_node{n}"),
        "mac-address": format!("02:42:ac:1e:{high:02x}:{low:02x}"),
        "ip-addresses": [format!("172.30.{high}.{low}/16")], "next-hops": ["172.30.255.254"],
        "node-port-enable": "true",
    }});
    let all = [
        ("node-id", (n + 1).to_string()),
        ("node-chassis-id", format!("chassis-{n}")),
        ("l3-gateway-config", gateway.to_string()),
        ("node-transit-switch-port-ifaddr", json!({"ipv4": format!("100.88.{high}.{low}/16")}).to_string()),
        ("host-cidrs", json!([format!("172.30.{high}.{low}/16")]).to_string()),
        ("node-encap-ips", json!([format!("172.30.{high}.{low}")]).to_string()),
    ];
    all.into_iter().map(|(key, value)| (format!("k8s.ovn.org/{key}"), value)).collect()
}

/// A subnet of a node in a network.
fn subnet(spec: Option<&NetworkSpec>, n: u16) -> String {
    match spec.map(|spec| (spec.kind, spec.id)) {
        Some((Kind::Layer3Secondary, id)) => format!("10.{}.{n}.0/24", 201 + id / 250),
        Some(_) => format!("10.200.{n}.0/24"),
        None => format!("10.128.{n}.0/24"),
    }
}

/// The `node-subnets` of the `n`th node.
fn subnets<'s>(networks: impl Iterator<Item = &'s NetworkSpec>, n: u16) -> String {
    let of = networks
        .filter(|spec| spec.is_routed())
        .map(|spec| (spec.name.clone(), json!([subnet(Some(spec), n)])));
    let all = of.chain([("default".to_owned(), json!([subnet(None, n)]))]);
    serde_json::Value::Object(all.collect()).to_string()
}

/// The world.
pub struct World {
    /// The rig.
    pub rig: Rig,
    /// The machine.
    pub machine: Node,
    /// Its Open vSwitch.
    pub ovs: Ovs,
    /// Its zone of OVN.
    pub zone: OvnZone,
    /// Follows the Northbound database.
    pub store: Store,
    /// Nodes by number; 1 is the agent's.
    pub nodes: BTreeMap<u16, BTreeMap<String, String>>,
    /// Networks by name.
    pub networks: BTreeMap<String, NetworkSpec>,
    /// Services that networks reach: at first the API server's own one.
    pub services: BTreeMap<ServiceName, DefaultService>,
    _stop: DropGuard,
}

impl World {
    /// Starts everything but the agent, with the agent's own Node.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::with(RigOptions::bare()).await
    }

    /// As [`World::start`], on a rig of one's own.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn with(options: RigOptions) -> anyhow::Result<Self> {
        let rig = Rig::start(options).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        let machine = rig.node("node1").start().await?;
        let ovs = machine.ovs().await?;
        let zone = machine.ovn_zone(&ovs).await?;
        let remote = Remote::Unix(zone.northbound_socket().to_owned());
        let (store, driver) = northbound::declare(Store::builder(remote, "OVN_Northbound")).build();
        let stop = CancellationToken::new();
        tokio::spawn(driver.run(stop.clone()));
        store.synced(DEADLINE).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut world = Self {
            rig,
            machine,
            ovs,
            zone,
            store,
            nodes: BTreeMap::new(),
            networks: BTreeMap::new(),
            services: BTreeMap::new(),
            _stop: stop.drop_guard(),
        };
        world.join(1).await?;
        // The API server makes it after it is ready.
        let look = || async {
            let service =
                world.service("default", "kubernetes").await.map_err(|error| format!("{error:#}"))?;
            service.filter(|service| !service.addresses.is_empty()).ok_or_else(|| "no Service".to_owned())
        };
        let service = world.rig.wait_for("Service default/kubernetes", DEADLINE, look).await?;
        world.services.insert(service.name.clone(), service);
        Ok(world)
    }

    /// A Service as the API server has it.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn service(&self, namespace: &str, name: &str) -> anyhow::Result<Option<DefaultService>> {
        let api: Api<Service> = Api::namespaced(self.rig.client(), namespace);
        let spec = api.get_opt(name).await?.and_then(|service| service.spec);
        let addresses = spec.and_then(|spec| spec.cluster_ips).map(|all| {
            let addresses = all.iter().filter_map(|text| text.parse().ok());
            DefaultService { name: ServiceName::new(namespace, name), addresses: addresses.collect() }
        });
        Ok(addresses)
    }

    fn node_api(&self) -> Api<NodeObject> {
        Api::all(self.rig.client())
    }

    fn nad_api(&self) -> Api<NetworkAttachmentDefinition> {
        Api::namespaced(self.rig.client(), "default")
    }

    /// Adds the `n`th node, or brings it to what it should be.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn join(&mut self, n: u16) -> anyhow::Result<()> {
        let mut all = annotations(n);
        all.insert("k8s.ovn.org/node-subnets".to_owned(), subnets(self.networks.values(), n));
        let name = format!("node{n}");
        if n != 1 {
            let object: NodeObject =
                serde_json::from_value(json!({"metadata": {"name": name, "annotations": all}}))?;
            match self.node_api().create(&PostParams::default(), &object).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error).context(name),
            }
        }
        let changes = all.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
        let changes: Vec<_> = changes.collect();
        self.annotate(&name, &changes).await?;
        self.nodes.insert(n, all);
        Ok(())
    }

    /// Removes the `n`th node.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn leave(&mut self, n: u16) -> anyhow::Result<()> {
        self.nodes.remove(&n);
        self.node_api().delete(&format!("node{n}"), &DeleteParams::default()).await?;
        Ok(())
    }

    /// Changes annotations of a node; [`World::nodes`] is left to the caller.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn annotate(&self, node: &str, changes: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
        let changes: BTreeMap<&str, Option<&str>> = changes.iter().copied().collect();
        let patch = Patch::Merge(json!({"metadata": {"annotations": changes}}));
        self.node_api().patch(node, &PatchParams::default(), &patch).await.context("annotating a node")?;
        Ok(())
    }

    /// Adds networks: first the nodes' subnets of them, then their NADs, each as the cluster manager leaves it.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn add(&mut self, specs: &[NetworkSpec]) -> anyhow::Result<()> {
        self.announce(specs).await?;
        for spec in specs {
            self.create(spec).await?;
        }
        Ok(())
    }

    /// Gives nodes their subnets of networks that are about to come.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn announce(&mut self, specs: &[NetworkSpec]) -> anyhow::Result<()> {
        self.networks.extend(specs.iter().map(|spec| (spec.name.clone(), spec.clone())));
        self.give_subnets().await
    }

    /// Makes the NAD of a network that was announced.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn create(&self, spec: &NetworkSpec) -> anyhow::Result<()> {
        let made = self.nad_api().create(&PostParams::default(), &spec.object()).await;
        made.map(drop).with_context(|| spec.nad())
    }

    /// Removes networks.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn remove(&mut self, names: &[&str]) -> anyhow::Result<()> {
        for name in names {
            let spec = self.networks.remove(*name).with_context(|| format!("there is no network {name}"))?;
            self.nad_api().delete(&spec.nad(), &DeleteParams::default()).await?;
        }
        self.give_subnets().await
    }

    async fn give_subnets(&mut self) -> anyhow::Result<()> {
        let numbers: Vec<u16> = self.nodes.keys().copied().collect();
        for n in numbers {
            let all = subnets(self.networks.values(), n);
            let key = "k8s.ovn.org/node-subnets";
            self.annotate(&format!("node{n}"), &[(key, Some(&all))]).await?;
            self.nodes.entry(n).or_default().insert(key.to_owned(), all);
        }
        Ok(())
    }

    /// The agent's program with these arguments beside those that all need.
    #[must_use]
    pub fn program(&self, binary: &str, more: &[&str]) -> Program {
        let usual =
            ["--init-node", "node1", "--k8s-kubeconfig", KUBECONFIG, "--metrics-bind-address", HEALTH];
        Program::built(binary).args(usual).args(more)
    }

    /// Starts the agent of a regular node.
    ///
    /// # Errors
    /// It does not start.
    pub async fn agent(&self) -> anyhow::Result<Process> {
        self.machine.spawn(self.program("node-agent", ON)).await
    }

    /// What the agent answers at a path.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn ask(&self, path: &str) -> anyhow::Result<String> {
        self.machine.exec(["curl", "-s", "-S", "--max-time", "5", &format!("http://{HEALTH}{path}")]).await
    }

    /// Waits until the agent's readiness is a text that `accept` likes.
    ///
    /// # Errors
    /// It stays another.
    pub async fn until_readiness(&self, what: &str, accept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let accept = &accept;
        let look = || async move {
            let text = self.ask("/readyz").await.map_err(|error| format!("{error:#}"))?;
            if accept(text.trim()) { Ok(()) } else { Err(text) }
        };
        self.rig.wait_for(&format!("the agent to report {what}"), DEADLINE, look).await
    }

    /// Waits until the agent is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn ready(&self) -> anyhow::Result<()> {
        self.until_readiness("that it is ready", |text| text.starts_with("ok")).await
    }

    /// A counter of the agent's.
    ///
    /// # Errors
    /// The agent does not answer, or has no such counter.
    pub async fn metric(&self, name: &str) -> anyhow::Result<u64> {
        let text = self.ask("/metrics").await?;
        let line = text.lines().find(|line| line.starts_with(name)).with_context(|| format!("no {name}"))?;
        let (_, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
        value.parse().with_context(|| line.to_owned())
    }

    /// Bytes that the agent sent to the Northbound database.
    ///
    /// # Errors
    /// As [`World::metric`].
    pub async fn sent_bytes(&self) -> anyhow::Result<u64> {
        self.metric("causeway_topology_sent_bytes_total{database=\"northbound\"}").await
    }

    /// Transactions that the agent's databases took from it.
    ///
    /// # Errors
    /// As [`World::metric`].
    pub async fn transactions(&self) -> anyhow::Result<u64> {
        self.metric("causeway_topology_transactions_total").await
    }

    /// Waits until there are so many of them.
    ///
    /// # Errors
    /// There stay fewer.
    pub async fn until_transactions(&self, many: u64) -> anyhow::Result<u64> {
        let look = || async {
            match self.transactions().await {
                Ok(found) if found >= many => Ok(found),
                Ok(found) => Err(format!("{found} transactions")),
                Err(error) => Err(format!("{error:#}")),
            }
        };
        self.rig.wait_for(&format!("{many} transactions"), DEADLINE, look).await
    }

    /// Waits until the Northbound database is what the planners say.
    ///
    /// # Errors
    /// It stays different.
    pub async fn converged(&self) -> anyhow::Result<Snapshot> {
        self.converged_with(&[]).await
    }

    /// As [`World::converged`], where these networks may be there too.
    ///
    /// # Errors
    /// As there.
    pub async fn converged_with(&self, others: &[&str]) -> anyhow::Result<Snapshot> {
        let last = std::sync::Mutex::new(Vec::new());
        let found = self.store.wait_for(DEADLINE, |have| {
            let differences = self.differences_with(have, others);
            let is_right = differences.as_ref().is_ok_and(Vec::is_empty);
            if let Ok(mut last) = last.lock() {
                *last = differences.unwrap_or_else(|error| vec![format!("{error:#}")]);
            }
            is_right.then(|| have.clone())
        });
        let found = found.await;
        let last = last.into_inner().unwrap_or_default();
        found.map_err(|error| {
            anyhow::anyhow!("the database differs in {last:?} after {:?} ({})", error.after, error.status)
        })
    }

    /// Waits for something in the Northbound database.
    ///
    /// # Errors
    /// It does not come.
    pub async fn until(&self, what: &str, found: impl Fn(&Snapshot) -> bool) -> anyhow::Result<Snapshot> {
        let snapshot = self.store.wait_for(DEADLINE, |have| found(have).then(|| have.clone())).await;
        snapshot.map_err(|error| anyhow::anyhow!("{what}: {} after {:?}", error.status, error.after))
    }

    /// How many transactions the Northbound database's file has seen, as the size of its journal.
    ///
    /// # Errors
    /// There is no such file.
    pub async fn journal(&self) -> anyhow::Result<u64> {
        let size = self.machine.exec(["stat", "-c", "%s", "/var/lib/ovn/ovnnb_db.db"]).await?;
        size.trim().parse().context("the size of the journal")
    }

    /// Events about an object, as `kubectl` finds them: reasons and notes.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn events(&self, kind: &str, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let text = self.rig.kubectl(["get", "events.events.k8s.io", "-A", "-o", "json"]).await?;
        let list: serde_json::Value = serde_json::from_str(&text)?;
        let items = list.get("items").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
        let of = |event: &serde_json::Value| {
            let regarding = event.get("regarding")?;
            let is = regarding.get("kind")? == kind && regarding.get("name")? == name;
            let text = |key: &str| event.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
            is.then(|| Some((text("reason")?, text("note")?))).flatten()
        };
        Ok(items.iter().filter_map(of).collect())
    }

    /// Waits for an Event about an object whose note holds a text.
    ///
    /// # Errors
    /// None comes.
    pub async fn until_event(&self, kind: &str, name: &str, reason: &str, text: &str) -> anyhow::Result<()> {
        let look = || async move {
            let events = self.events(kind, name).await.map_err(|error| format!("{error:#}"))?;
            let found = events.iter().any(|(why, note)| why == reason && note.contains(text));
            if found { Ok(()) } else { Err(format!("{events:?}")) }
        };
        self.rig.wait_for(&format!("an Event {reason} about {kind} {name}: {text}"), DEADLINE, look).await
    }
}
