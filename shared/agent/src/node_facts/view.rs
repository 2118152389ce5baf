//! The Node as those see it who tell about it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_runtime::watch;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

/// Prefix of the annotations that matter here.
const OURS: &str = "k8s.ovn.org/";

/// What is read of a Node.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Node)]
pub struct WatchedNode {
    #[serde(default, deserialize_with = "watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: WatchedStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct WatchedStatus {
    #[serde(default)]
    addresses: Vec<WatchedAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct WatchedAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// A Node, slim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its identity: another Node of the name is another one.
    pub uid: String,
    /// The server's version of it. Versions of one kind are numbers that grow (kubernetes.io, API concepts, "Resource
    /// versions").
    pub version: u64,
    /// Its annotations in the group of networks.
    pub annotations: BTreeMap<String, String>,
    /// The address that Kubernetes knows it by.
    pub address: Option<IpAddr>,
}

impl NodeView {
    /// Keeps what matters; nothing of an object without a name.
    #[must_use]
    pub fn of(node: WatchedNode) -> Option<Self> {
        let address = address(&node.status.addresses);
        let ObjectMeta { name, uid, resource_version, annotations, .. } = node.metadata;
        let annotations =
            annotations.unwrap_or_default().into_iter().filter(|(key, _)| key.starts_with(OURS));
        Some(Self {
            name: name?,
            uid: uid.unwrap_or_default(),
            version: resource_version.and_then(|version| version.parse().ok()).unwrap_or_default(),
            annotations: annotations.collect(),
            address,
        })
    }
}

/// The first internal address, else the first external one. Source: ovn-kubernetes, `util.GetNodePrimaryIP`.
fn address(addresses: &[WatchedAddress]) -> Option<IpAddr> {
    let first = |kind: &str| {
        let mut of_kind = addresses.iter().filter(|address| address.kind == kind);
        of_kind.find_map(|address| address.address.parse().ok())
    };
    first("InternalIP").or_else(|| first("ExternalIP"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(object: serde_json::Value) -> Option<NodeView> {
        NodeView::of(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn the_internal_address_comes_before_the_external_one_and_other_annotations_are_dropped() {
        let node = |addresses: serde_json::Value| {
            json!({
                "metadata": {
                    "name": "node-a", "uid": "1", "resourceVersion": "77",
                    "annotations": {"k8s.ovn.org/node-id": "2", "other": "x"},
                },
                "status": {"addresses": addresses},
            })
        };
        let external = json!({"type": "ExternalIP", "address": "198.51.100.2"});
        let internal = json!({"type": "InternalIP", "address": "192.0.2.2"});
        let second = json!({"type": "InternalIP", "address": "fd00::2"});
        let host = json!({"type": "Hostname", "address": "node-a"});
        let found = view(node(json!([host, external, internal, second]))).unwrap();
        assert_eq!(found.address.unwrap().to_string(), "192.0.2.2");
        assert_eq!(found.annotations, [("k8s.ovn.org/node-id".to_owned(), "2".to_owned())].into());
        assert_eq!((found.uid.as_str(), found.version), ("1", 77));
        assert_eq!(view(node(json!([host, external]))).unwrap().address.unwrap().to_string(), "198.51.100.2");
        assert_eq!(view(node(json!([host]))).unwrap().address, None);
        assert_eq!(view(json!({"metadata": {}})), None);
    }
}
