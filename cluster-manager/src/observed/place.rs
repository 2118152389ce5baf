//! Namespaces and Nodes, cut down to what the rooms read.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::label::PRIMARY_NETWORK;
use k8s_openapi::api::core::v1::{Namespace as ApiNamespace, Node as ApiNode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::written::Versioned;

/// The watched part of a Namespace: its metadata.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ApiNamespace)]
pub(crate) struct WatchedNamespace {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
}

/// A Namespace as the rooms see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether it is being deleted.
    pub(crate) terminating: bool,
}

impl Place {
    /// From the watched object.
    pub(crate) fn of(namespace: WatchedNamespace) -> Self {
        let meta = namespace.metadata;
        Self { terminating: meta.deletion_timestamp.is_some(), labels: meta.labels.unwrap_or_default() }
    }

    /// Whether primary networks may be made in it.
    pub(crate) fn takes_primary(&self) -> bool {
        self.labels.contains_key(PRIMARY_NETWORK)
    }
}

/// The watched part of a Node: its metadata.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ApiNode)]
pub(crate) struct WatchedNode {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    pub(crate) metadata: ObjectMeta,
}

/// The API server's answer to a change of a Node, of which only the new version is read, or asked for: the rest is as it was, or
/// as it was written.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = ApiNode)]
pub(crate) struct AnsweredNode {
    #[serde(default, deserialize_with = "causeway_runtime::watch::version_alone")]
    metadata: ObjectMeta,
}

impl AnsweredNode {
    /// `metadata.resourceVersion`.
    pub(crate) fn version(self) -> Option<String> {
        self.metadata.resource_version
    }
}

/// A Node as the rooms see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// `metadata.uid`.
    pub(crate) uid: String,
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    /// When it was made, in seconds since 1970: ids go to the older one first.
    pub(crate) created: i64,
    /// Labels, for the selectors of Uplinks; some nodes get no subnets.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations of the network stack.
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Node {
    /// From the watched object; none for one without uid, which the API server never sends.
    pub(crate) fn of(node: WatchedNode) -> Option<Self> {
        let meta = node.metadata;
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.retain(|key, _| key.starts_with("k8s.ovn.org/"));
        Some(Self {
            uid: meta.uid?,
            version: meta.resource_version,
            created: meta.creation_timestamp.map_or(0, |time| time.0.as_second()),
            labels: meta.labels.unwrap_or_default(),
            annotations,
        })
    }

    /// Names of the annotations that are others than before, in their order.
    pub(crate) fn changed_annotations<'n>(&'n self, now: &'n Self) -> Vec<&'n str> {
        let names: BTreeSet<&String> = self.annotations.keys().chain(now.annotations.keys()).collect();
        let changed =
            names.into_iter().filter(|name| self.annotations.get(*name) != now.annotations.get(*name));
        changed.map(String::as_str).collect()
    }

    /// The same Node in this version, with changed annotations; without those that are none.
    pub(crate) fn annotated(
        &self,
        version: Option<String>,
        changes: BTreeMap<&'static str, Option<String>>,
    ) -> Self {
        let mut node = Self { version, ..self.clone() };
        for (key, value) in changes {
            match value {
                Some(value) => drop(node.annotations.insert(key.to_owned(), value)),
                None => drop(node.annotations.remove(key)),
            }
        }
        node
    }
}

impl Versioned for Node {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_that_was_written_is_what_it_was_with_the_changes_in_the_answered_version() {
        let read = |annotations: serde_json::Value| {
            let node = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
                "annotations": annotations}});
            Node::of(serde_json::from_value(node).unwrap()).unwrap()
        };
        let node = read(json!({"k8s.ovn.org/a": "1", "k8s.ovn.org/b": "2", "others.io/c": "3"}));
        let answer = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "8",
            "managedFields": [{"manager": "x"}], "annotations": {"k8s.ovn.org/a": "9"}}});
        let answer: AnsweredNode = serde_json::from_value(answer).unwrap();
        let changes =
            [("k8s.ovn.org/a", Some("4".to_owned())), ("k8s.ovn.org/b", None), ("k8s.ovn.org/d", None)];
        let written = node.annotated(answer.version(), BTreeMap::from(changes));
        let expected = Node { version: Some("8".to_owned()), ..read(json!({"k8s.ovn.org/a": "4"})) };
        assert_eq!(written, expected);
        assert_eq!(node.changed_annotations(&written), ["k8s.ovn.org/a", "k8s.ovn.org/b"]);
        assert_eq!(written.changed_annotations(&node), ["k8s.ovn.org/a", "k8s.ovn.org/b"]);
        assert!(node.changed_annotations(&node).is_empty());
    }
}
