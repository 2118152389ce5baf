//! Namespaces and Nodes, cut down to what the rooms read.

use std::collections::BTreeMap;

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
}

impl Versioned for Node {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}
