//! Pods, cut down to what says which networks they use.

use std::collections::BTreeMap;

use causeway_net::activity::{self, Life, Netns, attachments};
use causeway_net::network::name::{NadKey, Namespace, NodeName};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Which networks a pod got. Source: k8s.ovn.org, written by the network stack.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// Which networks a pod wants beside its namespace's. Source: Kubernetes Network Custom Resource Definition De-facto
/// Standard v1.3, section 4.1.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

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
struct Status {
    phase: Option<String>,
}

/// A Pod as the rooms of tenant networks see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    /// The Node that it is bound to.
    pub(crate) node: Option<NodeName>,
    /// Whether it has ended: its containers use nothing any more.
    pub(crate) finished: bool,
    /// Whether it lives in the Node's own network.
    pub(crate) host_network: bool,
    /// NetworkAttachmentDefinitions that it is attached to, or why that cannot be read.
    pub(crate) attached: Result<Vec<NadKey>, String>,
    /// NetworkAttachmentDefinitions that it asks for.
    pub(crate) wanted: Vec<NadKey>,
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
        let namespace = Namespace::from(pod.metadata.namespace?);
        let annotations = pod.metadata.annotations.unwrap_or_default();
        Some(Self {
            node: pod.spec.node_name.filter(|name| !name.is_empty()).map(NodeName::from),
            finished: matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            host_network: pod.spec.host_network,
            attached: annotations.get(POD_NETWORKS).map_or_else(|| Ok(Vec::new()), |text| attached(text)),
            wanted: annotations
                .get(NETWORKS)
                // What cannot be read asks for nothing here: the pod fails at its start, in the runtime's own words.
                .and_then(|text| attachments(&namespace, text).ok())
                .unwrap_or_default(),
        })
    }
}

/// The NetworkAttachmentDefinitions of a `pod-networks` annotation: its keys but `default`. A pod with several interfaces in
/// one network has keys with an index behind a further slash.
fn attached(text: &str) -> Result<Vec<NadKey>, String> {
    #[expect(clippy::zero_sized_map_values, reason = "the values are read, whatever they are, and dropped")]
    let entries: BTreeMap<String, IgnoredAny> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut keys: Vec<NadKey> = entries
        .keys()
        .filter_map(|key| {
            let mut parts = key.split('/');
            match (parts.next(), parts.next()) {
                (Some(namespace), Some(name)) => format!("{namespace}/{name}").parse().ok(),
                _ => None,
            }
        })
        .collect();
    keys.dedup();
    Ok(keys)
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
        assert_eq!(pod.attached, Ok(keys(&["blue/net", "red/other"])));
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
}
