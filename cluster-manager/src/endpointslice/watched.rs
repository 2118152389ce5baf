//! The watched objects, cut down to what this room reads.
//!
//! Pods and NetworkAttachmentDefinitions that can give no address and no network are left out altogether: in a cluster
//! of mostly ordinary namespaces they cost nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use causeway_api::nad::{Config, GatewayMode, NetworkAttachmentDefinition};
use causeway_runtime::watch::NamespacedName;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;
use serde_json::Value;

/// Label of every slice: who keeps it.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Its value on slices that Kubernetes keeps.
pub(super) const KUBERNETES: &str = "endpointslice-controller.k8s.io";
/// Its value on mirrors.
pub(super) const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";
/// Label of Kubernetes' slices: the Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of Kubernetes' slices of Services without an address.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Label of mirrors: the Service.
pub(super) const MIRRORED_SERVICE: &str = "k8s.ovn.org/service-name";
/// Annotation of mirrors: name of the slice that was mirrored.
pub(super) const SOURCE: &str = "k8s.ovn.org/source-endpointslice";
/// Annotation of mirrors: version of the slice that was mirrored. Upstream's documents call it a label; it is none.
pub(super) const SOURCE_VERSION: &str = "k8s.ovn.org/source-endpointslice-version";
/// Annotation of mirrors: network of the addresses.
pub(super) const NETWORK: &str = "k8s.ovn.org/endpointslice-network";

/// Annotation of pods: their addresses by NetworkAttachmentDefinition.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
/// Its entry of the default network.
const DEFAULT: &str = "default";
/// Label of KubeVirt's pods, and its value on those that hold a virtual machine.
const KUBEVIRT: (&str, &str) = ("kubevirt.io", "virt-launcher");
/// Annotation of those pods: the virtual machine.
const DOMAIN: &str = "kubevirt.io/domain";
/// Annotation of those pods: the machine runs here now.
const TARGET_READY: &str = "kubevirt.io/migration-target-ready-timestamp";

/// Declares the key of one kind of object in a namespace, so that those of different kinds cannot be swapped.
macro_rules! object_key {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(NamespacedName);

        impl $name {
            /// The key of an object; none for one without namespace, which the API server never sends.
            #[must_use]
            pub(super) fn of(meta: &ObjectMeta) -> Option<Self> {
                causeway_runtime::watch::namespaced_name(meta).map(Self)
            }

            /// The namespace.
            #[must_use]
            pub(super) fn namespace(&self) -> &str {
                &self.0.namespace
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

object_key! {
    /// An EndpointSlice. As the key of this room: the one that is mirrored, also where it does not exist.
    SliceKey
}
object_key! {
    /// A pod.
    PodKey
}
object_key! {
    /// A NetworkAttachmentDefinition.
    AttachmentKey
}

/// Lets keys be made of their parts, and taken apart.
macro_rules! parts {
    ($($name:ident),+) => {$(
        impl $name {
            /// From its parts.
            #[must_use]
            pub(super) fn new(namespace: &str, name: &str) -> Self {
                Self(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
            }

            /// The name in the namespace.
            #[must_use]
            pub(super) fn name(&self) -> &str {
                &self.0.name
            }
        }
    )+};
}

parts!(SliceKey, PodKey);

/// What a slice says about its Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// Kind of its addresses.
    pub(super) address_type: String,
    /// Its endpoints, in their order.
    pub(super) endpoints: Vec<Endpoint>,
    /// Its ports.
    pub(super) ports: Vec<EndpointPort>,
}

/// An EndpointSlice that Kubernetes keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// Version of the object.
    pub(super) version: String,
    /// Its Service; empty where it names none.
    pub(super) service: String,
    /// Its owners: the Service.
    pub(super) owners: Vec<OwnerReference>,
    /// What its name was generated from, else its name.
    pub(super) prefix: String,
    /// What it says.
    pub(super) content: Content,
}

/// An EndpointSlice that this room keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mirror {
    /// Its key.
    pub(super) key: SliceKey,
    /// The slice that it mirrors.
    pub(super) source: SliceKey,
    /// uid of the object.
    pub(super) uid: String,
    /// Version of the object.
    pub(super) version: String,
    /// When it was made, in seconds since 1970.
    pub(super) created: i64,
    /// uids of whom it goes with.
    pub(super) owners: Vec<String>,
    /// Whether it is on its way out.
    pub(super) is_terminating: bool,
    /// Version of the slice that was mirrored.
    pub(super) source_version: Option<String>,
    /// Network of its addresses.
    pub(super) network: Option<String>,
    /// Its Service.
    pub(super) service: Option<String>,
    /// What it says.
    pub(super) content: Content,
}

/// An EndpointSlice as this room sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slice {
    /// Kubernetes' own.
    Source(Source),
    /// Ours.
    Mirror(Mirror),
}

impl Slice {
    /// From the API object. None for a slice that others keep, for one of a headless Service, and for a mirror that
    /// does not say of what.
    #[must_use]
    pub(super) fn of(slice: EndpointSlice) -> Option<Self> {
        let key = SliceKey::of(&slice.metadata)?;
        let EndpointSlice { metadata, address_type, endpoints, ports } = slice;
        let content = Content {
            address_type,
            endpoints: endpoints.unwrap_or_default(),
            ports: ports.unwrap_or_default(),
        };
        let mut labels = metadata.labels.unwrap_or_default();
        let mut annotations = metadata.annotations.unwrap_or_default();
        let version = metadata.resource_version.unwrap_or_default();
        match labels.get(MANAGED_BY)?.as_str() {
            KUBERNETES if !labels.contains_key(HEADLESS) => Some(Self::Source(Source {
                version,
                service: labels.remove(SERVICE_NAME).unwrap_or_default(),
                owners: metadata.owner_references.unwrap_or_default(),
                prefix: metadata
                    .generate_name
                    .filter(|prefix| !prefix.is_empty())
                    .unwrap_or_else(|| key.name().to_owned()),
                content,
            })),
            MIRRORS => Some(Self::Mirror(Mirror {
                source: SliceKey::new(key.namespace(), annotations.get(SOURCE)?),
                key,
                uid: metadata.uid?,
                version,
                created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
                owners: metadata.owner_references.into_iter().flatten().map(|owner| owner.uid).collect(),
                is_terminating: metadata.deletion_timestamp.is_some(),
                source_version: annotations.remove(SOURCE_VERSION),
                network: annotations.remove(NETWORK),
                service: labels.remove(MIRRORED_SERVICE),
                content,
            })),
            _ => None,
        }
    }

    /// The slice that a change of this one is about: itself, or what it mirrors.
    #[must_use]
    pub(super) fn concerns(&self, key: &SliceKey) -> SliceKey {
        match self {
            Self::Source(_) => key.clone(),
            Self::Mirror(mirror) => mirror.source.clone(),
        }
    }
}

/// The watched part of a pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ApiPod)]
pub(super) struct WatchedPod {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
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

/// A pod as this room sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pod {
    /// Where it can be reached.
    pub(super) reach: Reach,
    /// The virtual machine in it.
    pub(super) machine: Option<Machine>,
}

/// Where a pod can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// By its node's addresses, whatever the network.
    Host(Vec<IpAddr>),
    /// By its addresses on networks, by NetworkAttachmentDefinition; or why an entry cannot be read.
    Networks(BTreeMap<String, Result<Vec<IpAddr>, String>>),
    /// Its annotation cannot be read.
    Unreadable(String),
}

/// What a pod says about the virtual machine in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// The machine; it has to be there, but may be missing.
    pub(super) domain: Option<String>,
    /// When the pod was made, in seconds since 1970.
    pub(super) created: i64,
    /// Whether the pod has come to its end.
    pub(super) is_completed: bool,
    /// Whether the machine has arrived in it.
    pub(super) is_target_ready: bool,
}

impl Pod {
    /// From the watched object; none for one with nothing to mirror.
    #[must_use]
    pub(super) fn of(pod: WatchedPod) -> Option<Self> {
        let WatchedPod { metadata, spec, status } = pod;
        let labels = metadata.labels.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let machine = (labels.get(KUBEVIRT.0).map(String::as_str) == Some(KUBEVIRT.1)).then(|| Machine {
            domain: annotations.get(DOMAIN).filter(|domain| !domain.is_empty()).cloned(),
            created: metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            is_completed: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            is_target_ready: annotations.get(TARGET_READY).is_some_and(|time| !time.is_empty()),
        });
        let reach = if spec.host_network {
            Reach::Host(status.addresses())
        } else {
            match annotations.get(POD_NETWORKS).map(|text| networks(text)) {
                None => Reach::Networks(BTreeMap::new()),
                Some(Ok(networks)) => Reach::Networks(networks),
                Some(Err(cause)) => Reach::Unreadable(cause),
            }
        };
        let says_nothing = machine.is_none() && reach == Reach::Networks(BTreeMap::new());
        (!says_nothing).then_some(Self { reach, machine })
    }
}

impl PodStatus {
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

/// Addresses by NetworkAttachmentDefinition, but for the default network's. One bad entry does not spoil the others.
fn networks(text: &str) -> Result<BTreeMap<String, Result<Vec<IpAddr>, String>>, String> {
    let entries: BTreeMap<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let networks = entries.into_iter().filter(|(attachment, _)| attachment != DEFAULT);
    let networks = networks.map(|(attachment, entry)| (attachment, addresses(entry)));
    Ok(networks.filter(|(_, addresses)| addresses.as_ref().map_or(true, |some| !some.is_empty())).collect())
}

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

/// A NetworkAttachmentDefinition that is the primary network of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Primary {
    /// Name of the network.
    pub(super) network: String,
    /// When the object was made, in seconds since 1970.
    pub(super) created: i64,
}

impl Primary {
    /// From the API object; none for one of others, of a secondary network, or that no component takes.
    #[must_use]
    pub(super) fn of(attachment: &NetworkAttachmentDefinition, mode: GatewayMode) -> Option<Self> {
        let config: Config = attachment.read(mode).ok()?;
        let created = attachment.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        (config.is_primary() && !config.is_default_network())
            .then_some(Self { network: config.name, created })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(object: Value) -> Option<Pod> {
        Pod::of(serde_json::from_value(object).unwrap())
    }

    fn annotated(text: &str) -> Option<Reach> {
        pod(json!({"metadata": {"annotations": {"k8s.ovn.org/pod-networks": text}}})).map(|pod| pod.reach)
    }

    #[test]
    fn a_pod_with_nothing_to_mirror_is_left_out() {
        assert_eq!(pod(json!({"metadata": {"name": "p"}, "status": {"podIP": "10.0.0.1"}})), None);
        assert_eq!(annotated(r#"{"default":{"ip_addresses":["10.128.0.5/24"],"mac_address":""}}"#), None);
        assert_eq!(annotated(r#"{"a/b":{"ip_addresses":null,"mac_address":""}}"#), None);
    }

    #[test]
    fn addresses_of_networks_are_read_without_their_lengths() {
        let text = r#"{"default":{"ip_addresses":["10.128.0.5/24"]},
            "a/b":{"ip_addresses":["10.20.0.5/24","fd00:20:0:0::5/64"]},"a/c":{"ip_address":"10.30.0.5/24"}}"#;
        let wanted = [
            ("a/b".to_owned(), Ok(vec!["10.20.0.5".parse().unwrap(), "fd00:20::5".parse().unwrap()])),
            ("a/c".to_owned(), Ok(vec!["10.30.0.5".parse().unwrap()])),
        ];
        assert_eq!(annotated(text), Some(Reach::Networks(wanted.into())));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_not_one_without_addresses() {
        for text in ["{", "[]"] {
            assert!(matches!(annotated(text), Some(Reach::Unreadable(_))), "{text}");
        }
        for bad in [r#"{"ip_addresses":["x/24"]}"#, r#"{"ip_addresses":7}"#, "7"] {
            let text = format!(r#"{{"a/b":{bad},"a/c":{{"ip_addresses":["10.30.0.5/24"]}}}}"#);
            let Some(Reach::Networks(networks)) = annotated(&text) else { panic!("{text}") };
            assert!(networks["a/b"].is_err() && networks["a/c"].is_ok(), "{text}");
        }
    }

    #[test]
    fn a_pod_on_the_hosts_network_has_the_addresses_of_its_status() {
        let reach =
            |status: Value| pod(json!({"spec": {"hostNetwork": true}, "status": status})).unwrap().reach;
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let both = json!({"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(reach(both), Reach::Host(vec![ip("192.0.2.1"), ip("2001:db8::1")]));
        assert_eq!(reach(json!({"podIP": "192.0.2.1"})), Reach::Host(vec![ip("192.0.2.1")]));
        assert_eq!(reach(json!({})), Reach::Host(Vec::new()));
    }

    fn slice(labels: &Value, annotations: &Value) -> Option<Slice> {
        Slice::of(
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": "web-x", "uid": "u", "resourceVersion": "7",
                    "labels": labels, "annotations": annotations},
                "addressType": "IPv4", "endpoints": null,
            }))
            .unwrap(),
        )
    }

    #[test]
    fn slices_that_others_keep_and_those_of_headless_services_are_left_out() {
        // Cases: slice with managed-by `my-controller`; headless service.
        assert_eq!(slice(&json!({MANAGED_BY: "my-controller"}), &json!({})), None);
        assert_eq!(slice(&json!({}), &json!({})), None);
        assert_eq!(slice(&json!({MANAGED_BY: KUBERNETES, HEADLESS: ""}), &json!({})), None);
        // Nobody can say what a mirror without its source is for.
        assert_eq!(slice(&json!({MANAGED_BY: MIRRORS}), &json!({})), None);
        assert!(matches!(slice(&json!({MANAGED_BY: KUBERNETES}), &json!({})), Some(Slice::Source(_))));
    }

    #[test]
    fn a_headless_mirror_is_a_mirror() {
        // Were it left out, a second one would be made beside it.
        let mirror = slice(&json!({MANAGED_BY: MIRRORS, HEADLESS: ""}), &json!({SOURCE: "web-y"})).unwrap();
        assert_eq!(mirror.concerns(&SliceKey::new("ns", "web-x")), SliceKey::new("ns", "web-y"));
    }

    #[test]
    fn only_primary_networks_of_ours_count() {
        let primary = |config: &str| {
            let mut attachment = NetworkAttachmentDefinition::new(
                "net",
                causeway_api::nad::NetworkAttachmentDefinitionSpec::default(),
            );
            attachment.metadata.namespace = Some("ns".to_owned());
            attachment.spec.config = config.to_owned();
            Primary::of(&attachment, GatewayMode::Shared).map(|primary| primary.network)
        };
        let good = r#"{"cniVersion":"1.0.0","name":"l3-network","type":"ovn-k8s-cni-overlay","topology":"layer3",
            "subnets":"10.128.0.0/16/24","mtu":1300,"netAttachDefName":"ns/net","role":"primary"}"#;
        assert_eq!(primary(good), Some("l3-network".to_owned()));
        for bad in [
            good.replace("primary", "secondary"),
            good.replace("ovn-k8s-cni-overlay", "other"),
            good.replace("ns/net", "ns/other"),
            good.replace(r#""topology":"layer3","#, ""),
            "null".to_owned(),
            String::new(),
        ] {
            assert_eq!(primary(&bad), None, "{bad}");
        }
    }
}
