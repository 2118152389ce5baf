//! `Uplink`: a named way out of a node, for groups of nodes.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::wire::wire_enum;

/// Which interface carries the gateway identity of an Uplink, for each group of nodes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1alpha1",
    kind = "Uplink",
    plural = "uplinks",
    singular = "uplink",
    shortname = "uplink",
    status = "UplinkStatus",
    derive = "PartialEq",
    doc = "A named physical way out of the nodes that it selects. Networks refer to it by name.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = "1"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = "1")
)]
#[serde(rename_all = "camelCase")]
pub struct UplinkSpec {
    /// The interface of each group of nodes. At most one entry may select a node; a node that two entries select
    /// makes the Uplink not ready.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub node_configs: Vec<NodeConfig>,
}

/// The Uplink's interface on the nodes of one group.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfig {
    /// Kind of uplink. `OVSBridge`: the interface leads to a bridge of Open vSwitch that an administrator made.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schema::uplink_type")]
    pub type_: UplinkType,
    /// The nodes of this group. An empty selector selects every node.
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: LabelSelector,
    /// Name of the interface on the host that holds the gateway's addresses: the bridge's internal port on a
    /// regular node, the VF or SF on a node with a SmartNIC, the host's interface on a node with a DPU.
    #[schemars(length(min = 1, max = 15), regex(pattern = r"^[^/\s]+$"))]
    pub host_interface_name: String,
}

/// Kind of uplink. A value that this version does not know is kept as it came, to be reported.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum UplinkType {
    /// A bridge of Open vSwitch.
    #[serde(rename = "OVSBridge")]
    OvsBridge,
    /// A kind from a newer API.
    #[serde(untagged)]
    Unknown(String),
}

/// What Causeway found out about an Uplink as a whole.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UplinkStatus {
    /// Conditions of the whole Uplink; `Ready` says whether every selected node has found its bridge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl Uplink {
    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

wire_enum! {
    /// Condition types on an Uplink. Source: ovn-kubernetes `pkg/crd/uplink/v1alpha1`.
    pub enum UplinkCondition {
        /// Every selected node has found a matching interface and bridge.
        Ready = "Ready",
        /// Written by old upstream versions; removed when found.
        Degraded = "Degraded",
        /// Written by old upstream versions; removed when found.
        Referenced = "Referenced",
    }
}

wire_enum! {
    /// Reasons of the Uplink condition `Ready`. Source: ovn-kubernetes `pkg/crd/uplink/v1alpha1`.
    pub enum UplinkReason {
        /// Every selected node is resolved.
        Ready = "Ready",
        /// A selector cannot be used.
        InvalidSpec = "InvalidSpec",
        /// Two entries select the same node.
        NodeSelectorOverlap = "NodeSelectorOverlap",
        /// No entry selects any node.
        NoMatchingNodes = "NoMatchingNodes",
        /// A selected node has not published an UplinkState.
        MissingUplinkState = "MissingUplinkState",
        /// A selected node has not resolved its interface and bridge.
        UplinkStateNotResolved = "UplinkStateNotResolved",
        /// The object with a state's name belongs to another Uplink or node.
        UplinkStateIdentityError = "UplinkStateIdentityError",
        /// The Uplink is being deleted.
        UplinkTerminating = "UplinkTerminating",
    }
}

/// Finalizer that keeps an Uplink while a network refers to it.
pub const UPLINK_FINALIZER: &str = "k8s.ovn.org/uplink-protection";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_uplink_type_is_kept_and_written_back_as_it_came() {
        let known: UplinkType = serde_json::from_str(r#""OVSBridge""#).unwrap();
        let newer: UplinkType = serde_json::from_str(r#""Interface""#).unwrap();
        assert_eq!(known, UplinkType::OvsBridge);
        assert_eq!(newer, UplinkType::Unknown("Interface".into()));
        assert_eq!(serde_json::to_string(&newer).unwrap(), r#""Interface""#);
    }

    #[test]
    fn reasons_have_the_published_texts() {
        let texts: Vec<_> = UplinkReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Ready",
                "InvalidSpec",
                "NodeSelectorOverlap",
                "NoMatchingNodes",
                "MissingUplinkState",
                "UplinkStateNotResolved",
                "UplinkStateIdentityError",
                "UplinkTerminating"
            ]
        );
    }
}
