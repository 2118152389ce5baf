//! Pods, cut down to what says which networks they use, and where they can be reached there.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_net::activity::{self, Life, Netns, attachments};
use causeway_net::network::name::{NadKey, Namespace, NodeName};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// Which networks a pod got, and its addresses there. Source: k8s.ovn.org, written by the network stack.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
/// Its entry of the default network.
const DEFAULT: &str = "default";

/// Which networks a pod wants beside its namespace's. Source: Kubernetes Network Custom Resource Definition De-facto
/// Standard v1.3, section 4.1.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Label of KubeVirt's pods, and its value on those that hold a virtual machine.
const KUBEVIRT: (&str, &str) = ("kubevirt.io", "virt-launcher");
/// Annotation of those pods: the virtual machine.
const DOMAIN: &str = "kubevirt.io/domain";
/// Annotation of those pods: the machine runs here now.
const TARGET_READY: &str = "kubevirt.io/migration-target-ready-timestamp";

/// The watched part of a Pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ApiPod)]
pub(crate) struct WatchedPod {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    #[serde(default)]
    host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodIp {
    #[serde(default)]
    ip: String,
}

/// A Pod as the rooms see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// The Node that it is bound to.
    pub(crate) node: Option<NodeName>,
    /// Whether it has ended: its containers use nothing any more.
    pub(crate) finished: bool,
    /// Whether it lives in the Node's own network.
    pub(crate) host_network: bool,
    /// Its addresses, where it lives in the Node's own network.
    pub(crate) host_addresses: Vec<IpAddr>,
    /// What it is attached to, in the order of keys, or why that cannot be read.
    pub(crate) attached: Result<Vec<Attachment>, String>,
    /// NetworkAttachmentDefinitions that it asks for.
    pub(crate) wanted: Vec<NadKey>,
    /// The virtual machine in it.
    pub(crate) machine: Option<Box<Machine>>,
}

/// That a pod is attached to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// By which NetworkAttachmentDefinition.
    pub(crate) nad: NadKey,
    /// Its addresses there, or why they cannot be read.
    pub(crate) addresses: Result<Vec<IpAddr>, String>,
}

/// What a pod says about the virtual machine in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The machine; it has to be there, but may be missing.
    pub(crate) domain: Option<String>,
    /// When the pod was made, in seconds since 1970.
    pub(crate) created: i64,
    /// Whether the pod has come to its end.
    pub(crate) is_completed: bool,
    /// Whether the machine has arrived in it.
    pub(crate) is_target_ready: bool,
}

/// Where a pod can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach<'p> {
    /// By its node's addresses, whatever the network.
    Host(&'p [IpAddr]),
    /// By its addresses on networks.
    Networks(&'p [Attachment]),
    /// Its annotation cannot be read.
    Unreadable(&'p str),
}

impl Pod {
    /// The pod as the model of who needs what sees it.
    pub(crate) fn activity(&self) -> activity::Pod {
        activity::Pod {
            node: self.node.clone(),
            life: if self.finished { Life::Finished } else { Life::Running },
            netns: if self.host_network { Netns::Hosts } else { Netns::Own },
            attachments: self.wanted.clone(),
        }
    }

    /// From the watched object; none for one without a namespace, which the API server never sends.
    pub(crate) fn of(pod: WatchedPod) -> Option<Self> {
        let WatchedPod { metadata, spec, status } = pod;
        let namespace = Namespace::from(metadata.namespace?);
        let (labels, annotations) =
            (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default());
        let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let machine = (labels.get(KUBEVIRT.0).map(String::as_str) == Some(KUBEVIRT.1)).then(|| Machine {
            domain: annotations.get(DOMAIN).filter(|domain| !domain.is_empty()).cloned(),
            created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            is_completed: finished,
            is_target_ready: annotations.get(TARGET_READY).is_some_and(|time| !time.is_empty()),
        });
        Some(Self {
            node: spec.node_name.filter(|name| !name.is_empty()).map(NodeName::from),
            finished,
            host_network: spec.host_network,
            host_addresses: if spec.host_network { status.addresses() } else { Vec::new() },
            attached: annotations.get(POD_NETWORKS).map_or_else(|| Ok(Vec::new()), |text| attached(text)),
            wanted: annotations
                .get(NETWORKS)
                // What cannot be read asks for nothing here: the pod fails at its start, in the runtime's own words.
                .and_then(|text| attachments(&namespace, text).ok())
                .unwrap_or_default(),
            machine: machine.map(Box::new),
        })
    }

    /// Whether it says more than that it runs somewhere on the default network: in a cluster of mostly ordinary pods
    /// nobody has to remember the others, unless pods decide where networks are needed.
    pub(crate) fn says_something(&self) -> bool {
        self.machine.is_some() || self.reach() != Reach::Networks(&[])
    }

    /// Where it can be reached.
    pub(crate) fn reach(&self) -> Reach<'_> {
        match &self.attached {
            _ if self.host_network => Reach::Host(&self.host_addresses),
            Ok(attached) => Reach::Networks(attached),
            Err(error) => Reach::Unreadable(error),
        }
    }
}

impl Status {
    /// The addresses of the status; older writers give one only.
    fn addresses(self) -> Vec<IpAddr> {
        let several = self.pod_ips.unwrap_or_default().into_iter().map(|ip| ip.ip);
        let all: Vec<IpAddr> = several.filter_map(|ip| ip.parse().ok()).collect();
        if all.is_empty() { self.pod_ip.and_then(|ip| ip.parse().ok()).into_iter().collect() } else { all }
    }
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    ip_addresses: Option<Vec<String>>,
    #[serde(default)]
    ip_address: Option<String>,
}

/// What a `pod-networks` annotation says but for the default network. One bad entry does not spoil the others. A pod with
/// several interfaces in one network has keys with an index behind a further slash; Services lead to the first only.
fn attached(text: &str) -> Result<Vec<Attachment>, String> {
    let entries: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let entries = entries.into_iter().filter(|(key, _)| key != DEFAULT);
    let mut attached: Vec<Attachment> = entries
        .filter_map(|(key, entry)| {
            let mut parts = key.splitn(3, '/');
            let (namespace, name, index) = (parts.next()?, parts.next()?, parts.next());
            let nad: NadKey = format!("{namespace}/{name}").parse().ok()?;
            let addresses = if index.is_none() { addresses(entry) } else { Ok(Vec::new()) };
            Some(Attachment { nad, addresses })
        })
        .collect();
    // Stable: the key without an index stands before those with one.
    attached.sort_by(|one, other| one.nad.cmp(&other.nad));
    attached.dedup_by(|later, first| later.nad == first.nad);
    attached.shrink_to_fit();
    Ok(attached)
}

/// Addresses of an entry, without the lengths of their networks.
fn addresses(entry: Value) -> Result<Vec<IpAddr>, String> {
    let entry: Entry = serde_json::from_value(entry).map_err(|error| error.to_string())?;
    let mut texts = entry.ip_addresses.unwrap_or_default();
    if texts.is_empty() {
        texts.extend(entry.ip_address);
    }
    let address = |text: &String| {
        let address = text.split_once('/').map_or(text.as_str(), |(address, _)| address);
        address.parse::<IpAddr>().map_err(|_not_one| format!("{text:?} is no address"))
    };
    texts.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(texts: &[&str]) -> Vec<NadKey> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn pod(annotations: &serde_json::Value, rest: &serde_json::Value) -> Pod {
        let mut object = json!({"metadata": {"namespace": "blue", "name": "p", "annotations": annotations}});
        let parts = object.as_object_mut().unwrap();
        parts.extend(rest.as_object().unwrap().clone());
        Pod::of(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn attached_networks_are_the_keys_but_default_with_and_without_index() {
        let text = r#"{"default":{"ip":"x"},"blue/net":{},"blue/net/1":{},"red/other":{}}"#;
        let pod = pod(&json!({ POD_NETWORKS: text }), &json!({}));
        let attached = pod.attached.unwrap().into_iter().map(|attachment| attachment.nad);
        assert_eq!(attached.collect::<Vec<_>>(), keys(&["blue/net", "red/other"]));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_not_one_without_networks() {
        let pod = pod(&json!({ POD_NETWORKS: "{" }), &json!({}));
        assert!(pod.attached.unwrap_err().contains("EOF"));
    }

    #[test]
    fn wanted_networks_are_read_in_both_forms() {
        let of = |text: &str| pod(&json!({ NETWORKS: text }), &json!({})).wanted;
        assert_eq!(of("net, red/other@eth1 ,"), keys(&["blue/net", "red/other"]));
        assert_eq!(
            of(r#"[{"name":"net"},{"name":"other","namespace":"red","ips":["1.2.3.4/8"]}]"#),
            keys(&["blue/net", "red/other"])
        );
        assert_eq!(of("[{"), []);
        assert_eq!(of("a/b/c"), []);
    }

    #[test]
    fn an_ended_pod_and_one_of_the_nodes_own_network_are_told_apart_from_others() {
        let ended = pod(&json!({}), &json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}}));
        assert!(ended.finished && !ended.host_network && ended.node == Some(NodeName::from("n1")));
        let host = pod(&json!({}), &json!({"spec": {"hostNetwork": true}, "status": {"phase": "Running"}}));
        assert!(!host.finished && host.host_network && host.node.is_none());
    }

    fn annotated(text: &str) -> Pod {
        pod(&json!({ POD_NETWORKS: text }), &json!({}))
    }

    #[test]
    fn only_pods_of_the_default_network_say_nothing() {
        let ordinary =
            json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
        assert!(!pod(&json!({}), &ordinary).says_something());
        assert!(
            !annotated(r#"{"default":{"ip_addresses":["10.128.0.5/24"],"mac_address":""}}"#).says_something()
        );
        for text in [r#"{"a/b":{"ip_addresses":null,"mac_address":""}}"#, "{"] {
            assert!(annotated(text).says_something(), "{text}");
        }
        assert!(pod(&json!({}), &json!({"spec": {"hostNetwork": true}})).says_something());
        let mut machine = json!({"metadata": {"namespace": "blue", "name": "p"}});
        machine["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
        assert!(Pod::of(serde_json::from_value(machine).unwrap()).unwrap().says_something());
    }

    #[test]
    fn addresses_of_networks_are_read_without_their_lengths() {
        let text = r#"{"default":{"ip_addresses":["10.128.0.5/24"]},
            "a/b":{"ip_addresses":["10.20.0.5/24","fd00:20:0:0::5/64"]},"a/c":{"ip_address":"10.30.0.5/24"},
            "a/c/1":{"ip_address":"10.30.0.6/24"},"a/d/1":{"ip_address":"10.40.0.6/24"}}"#;
        let of = |nad: &str, addresses: &[&str]| Attachment {
            nad: nad.parse().unwrap(),
            addresses: Ok(addresses.iter().map(|address| address.parse().unwrap()).collect()),
        };
        let wanted = [of("a/b", &["10.20.0.5", "fd00:20::5"]), of("a/c", &["10.30.0.5"]), of("a/d", &[])];
        assert_eq!(annotated(text).attached.unwrap(), wanted);
    }

    #[test]
    fn one_bad_entry_does_not_spoil_the_others() {
        for text in ["{", "[]"] {
            assert!(matches!(annotated(text).reach(), Reach::Unreadable(_)), "{text}");
        }
        for bad in [r#"{"ip_addresses":["x/24"]}"#, r#"{"ip_addresses":7}"#, "7"] {
            let text = format!(r#"{{"a/b":{bad},"a/c":{{"ip_addresses":["10.30.0.5/24"]}}}}"#);
            let networks = annotated(&text).attached.unwrap();
            assert_eq!(
                [networks[0].addresses.is_ok(), networks[1].addresses.is_ok()],
                [false, true],
                "{text}"
            );
        }
    }

    #[test]
    fn a_pod_on_the_hosts_network_has_the_addresses_of_its_status() {
        let addresses = |status: Value| {
            let pod = pod(&json!({}), &json!({"spec": {"hostNetwork": true}, "status": status}));
            assert_eq!(pod.reach(), Reach::Host(&pod.host_addresses));
            pod.host_addresses
        };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let both = json!({"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(addresses(both), [ip("192.0.2.1"), ip("2001:db8::1")]);
        assert_eq!(addresses(json!({"podIP": "192.0.2.1"})), [ip("192.0.2.1")]);
        assert!(addresses(json!({})).is_empty());
    }
}
