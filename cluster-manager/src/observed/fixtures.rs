//! Snapshots out of objects as the API server has them, for the tests of rooms.

use std::sync::Arc;

use causeway_net::ipam::nodes::Families;
use causeway_net::overlap::Internal;
use causeway_net::render::Cluster;
use causeway_runtime::watch::{Change, NamespacedName, Store};
use serde_json::{Value, json};

use super::*;

/// What the watches show.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// UserDefinedNetworks.
    pub(crate) udns: Vec<Value>,
    /// ClusterUserDefinedNetworks.
    pub(crate) cudns: Vec<Value>,
    /// NetworkAttachmentDefinitions.
    pub(crate) nads: Vec<Value>,
    /// Namespaces.
    pub(crate) namespaces: Vec<Value>,
    /// Pods.
    pub(crate) pods: Vec<Value>,
    /// Nodes.
    pub(crate) nodes: Vec<Value>,
    /// Names of Namespaces that exist and cannot be read.
    pub(crate) unreadable_namespaces: Vec<&'static str>,
    /// Network objects that exist and cannot be read.
    pub(crate) unreadable_crs: Vec<CrKey>,
    /// NetworkAttachmentDefinitions that exist and cannot be read.
    pub(crate) unreadable_nads: Vec<NadKey>,
}

/// Why something cannot be read.
pub(crate) const BROKEN: &str = "missing field `spec`";

fn read<K: serde::de::DeserializeOwned>(objects: &[Value]) -> Vec<K> {
    objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

fn meta(object: &Value) -> ObjectMeta {
    serde_json::from_value(object["metadata"].clone()).unwrap()
}

impl Seen {
    pub(crate) fn stores(&self, mode: GatewayMode) -> Stores {
        let index = Index::default();
        let keyed = |objects: &[Value], key: fn(&ObjectMeta) -> Option<CrKey>| -> Vec<CrKey> {
            objects.iter().map(|object| key(&meta(object)).unwrap()).collect()
        };
        let broken = |udn: bool| {
            let keys = self.unreadable_crs.iter().filter(move |key| matches!(key, CrKey::Udn(_)) == udn);
            keys.map(|key| (key.clone(), BROKEN)).collect::<Vec<_>>()
        };
        let udns = read(&self.udns).into_iter().map(|udn| Cr::of_udn(udn).unwrap());
        let udns = keyed(&self.udns, udn_key).into_iter().zip(udns);
        let cudns = read(&self.cudns).into_iter().map(|cudn| Cr::of_cudn(cudn).unwrap());
        let cudns = keyed(&self.cudns, cudn_key).into_iter().zip(cudns);
        let nads: Vec<(NadKey, Nad)> = self.nads.iter().map(|object| nad_of(object, mode)).collect();
        for (key, nad) in &nads {
            let new = Some(Arc::new(nad.clone()));
            index.nad(&Change { key, old: None, new, unreadable: None });
        }
        let pods: Vec<(NamespacedName, Pod)> = self.pods.iter().map(pod_of).collect();
        for (key, pod) in &pods {
            index.pod(&Change { key, old: None, new: Some(Arc::new(pod.clone())), unreadable: None });
        }
        let places = read::<WatchedNamespace>(&self.namespaces).into_iter().map(Place::of);
        let names = self.namespaces.iter().map(|object| Namespace::from(meta(object).name.unwrap()));
        let namespaces: Vec<(Namespace, Place)> = names.zip(places).collect();
        for (key, place) in &namespaces {
            index.place(&Change { key, old: None, new: Some(Arc::new(place.clone())), unreadable: None });
        }
        let nodes = read::<WatchedNode>(&self.nodes).into_iter().map(|node| Node::of(node).unwrap());
        let node_names = self.nodes.iter().map(|object| NodeName::from(meta(object).name.unwrap()));
        let broken_nads = self.unreadable_nads.iter().map(|key| (key.clone(), BROKEN));
        Stores {
            udns: Store::fixed_unreadable("UserDefinedNetwork", udns, broken(true)),
            cudns: Store::fixed_unreadable("ClusterUserDefinedNetwork", cudns, broken(false)),
            nads: Store::fixed_unreadable("NetworkAttachmentDefinition", nads, broken_nads),
            namespaces: Store::fixed_unreadable(
                "Namespace",
                namespaces,
                self.unreadable_namespaces.iter().map(|name| (Namespace::from(*name), BROKEN)),
            ),
            nodes: Store::fixed("Node", node_names.zip(nodes)),
            pods: Store::fixed("Pod", pods),
            mode,
            index,
            written_crs: Written::default(),
            written_nads: Written::default(),
            written_nodes: Written::default(),
        }
    }
}

impl Stores {
    /// The same with these pods, which the index does not know.
    pub(crate) fn with_pods(self, pods: impl IntoIterator<Item = (NamespacedName, Pod)>) -> Self {
        Self { pods: Store::fixed("Pod", pods), ..self }
    }
}

/// A NetworkAttachmentDefinition as the rooms see it.
pub(crate) fn nad_of(object: &Value, mode: GatewayMode) -> (NadKey, Nad) {
    let nad: WatchedNad = serde_json::from_value(object.clone()).unwrap();
    (nad::key(&nad.metadata).unwrap(), Nad::of(nad, mode).unwrap())
}

/// A Pod as the rooms see it.
pub(crate) fn pod_of(object: &Value) -> (NamespacedName, Pod) {
    let key = watch::namespaced_name(&meta(object)).unwrap();
    (key, Pod::of(serde_json::from_value(object.clone()).unwrap()).unwrap())
}

/// A Pod that runs on a Node and asks for these NetworkAttachmentDefinitions.
pub(crate) fn pod_on(node: &str, wanted: Vec<NadKey>) -> Pod {
    Pod {
        node: Some(node.into()),
        finished: false,
        host_network: false,
        host_addresses: Vec::new(),
        attached: Ok(Vec::new()),
        wanted,
        machine: None,
    }
}

/// `object` with `value` at a place, such as `/metadata/labels`.
pub(crate) fn with(mut object: Value, place: &str, value: Value) -> Value {
    let (parent, field) = place.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(field.to_owned(), value);
    object
}

/// `object` while it is being deleted.
pub(crate) fn terminating(object: Value) -> Value {
    with(object, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))
}

pub(crate) fn namespace(name: &str, labels: Value) -> Value {
    with(json!({"metadata": {"name": name, "uid": format!("uid-{name}")}}), "/metadata/labels", labels)
}

/// A namespace that takes primary networks.
pub(crate) fn primary_namespace(name: &str) -> Value {
    namespace(name, json!({"k8s.ovn.org/primary-user-defined-network": "", "team": "a"}))
}

/// A Pod, attached to these NetworkAttachmentDefinitions.
pub(crate) fn pod(namespace: &str, name: &str, attached: &[&str]) -> Value {
    let entries: serde_json::Map<String, Value> =
        attached.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
    let text = Value::Object(entries).to_string();
    json!({"metadata": {"namespace": namespace, "name": name, "annotations": {"k8s.ovn.org/pod-networks": text}}})
}

/// The spec of a primary Layer3 network.
pub(crate) fn layer3() -> Value {
    json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}]}})
}

/// The spec of a secondary Layer2 network.
pub(crate) fn layer2_secondary() -> Value {
    json!({"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.30.0.0/16"]}})
}

/// A UserDefinedNetwork that is protected.
pub(crate) fn udn(namespace: &str, name: &str, spec: Value) -> Value {
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "5", "finalizers": ["k8s.ovn.org/user-defined-network-protection"]},
    });
    with(object, "/spec", spec)
}

/// A ClusterUserDefinedNetwork for the namespaces of team `a`, that is protected.
pub(crate) fn cudn(name: &str, network: Value) -> Value {
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "generation": 1,
            "resourceVersion": "5", "finalizers": ["k8s.ovn.org/user-defined-network-protection"]},
        "spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}},
    });
    with(object, "/spec/network", network)
}

/// A NetworkAttachmentDefinition that somebody wrote by hand.
pub(crate) fn foreign_nad(namespace: &str, name: &str, config: &str) -> Value {
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"),
            "resourceVersion": "7"},
        "spec": {"config": config},
    })
}

/// The config of a primary network that somebody wrote by hand.
pub(crate) fn primary_config(key: &str, network: &str) -> String {
    json!({"cniVersion": "1.1.0", "type": "ovn-k8s-cni-overlay", "netAttachDefName": key, "name": network,
        "topology": "layer3", "role": "primary", "subnets": "10.50.0.0/16"})
    .to_string()
}

/// A cluster of IPv4 in which nothing is switched on.
pub(crate) fn cluster() -> Cluster {
    let subnets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Cluster {
        internal: Internal {
            cluster: subnets(&["10.128.0.0/14"]),
            services: subnets(&["172.30.0.0/16"]),
            join: subnets(&["100.64.0.0/16", "fd98::/64"]),
            masquerade: subnets(&["169.254.0.0/17", "fd69::/112"]),
            transit: subnets(&["100.88.0.0/16", "fd97::/64"]),
            user_join: subnets(&["100.65.0.0/16", "fd99::/64"]),
        },
        families: Families::V4,
        gateway_mode: GatewayMode::Shared,
        mtu: 1400,
        features: std::collections::BTreeSet::new(),
    }
}
