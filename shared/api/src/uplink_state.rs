//! `UplinkState`: what one node found for one Uplink. The two halves of a node with a DPU meet here.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::uplink::UplinkType;
use crate::wire::wire_enum;

/// Identity of an UplinkState. The object's name is derived from it and must never be parsed.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1alpha1",
    kind = "UplinkState",
    plural = "uplinkstates",
    singular = "uplinkstate",
    status = "UplinkStateStatus",
    derive = "PartialEq",
    doc = "What one node found and did for one Uplink. Belongs to Causeway alone; deleting it makes the node write it again.",
    printcolumn(name = "Uplink", type_ = "string", json_path = ".spec.uplinkName"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(
        name = "Resolved",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Resolved")].status"#
    ),
    printcolumn(
        name = "HostDataReady",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="HostDataReady")].status"#,
        priority = "1"
    ),
    printcolumn(
        name = "GatewayReady",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="GatewayReady")].status"#,
        priority = "1"
    ),
    printcolumn(name = "Bridge", type_ = "string", json_path = ".status.ovsBridge.name", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Resolved")].reason"#,
        priority = "1"
    ),
    printcolumn(
        name = "HostReason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="HostDataReady")].reason"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = "1"),
    selectable = ".spec.uplinkName",
    selectable = ".spec.nodeName"
)]
#[serde(rename_all = "camelCase")]
pub struct UplinkStateSpec {
    /// The Uplink that this state belongs to.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("uplinkName is immutable"))]
    pub uplink_name: String,
    /// The node that this state belongs to.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("nodeName is immutable"))]
    pub node_name: String,
}

/// What the node found. Each field has one writer: the host agent or the DPU agent, or the one agent of a regular
/// node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UplinkStateStatus {
    /// Kind of uplink, as the Uplink's entry for this node says.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::uplink_type")]
    pub type_: Option<UplinkType>,
    /// The host's interface that was looked at. Written by the side that sees the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::interface_name")]
    pub host_interface_name: Option<String>,
    /// The bridge of Open vSwitch behind that interface. Written by the side that sees the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::ovs_bridge")]
    pub ovs_bridge: Option<OvsBridge>,
    /// MAC address of the host's interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mac_address")]
    pub mac_address: Option<String>,
    /// PCI function behind the host's interface, where it is an SR-IOV function: the card finds the representor by
    /// it without a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::host_function")]
    pub host_function: Option<HostFunction>,
    /// Addresses of the host's interface with their prefix length, at most one of each family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::ip_addresses")]
    pub ip_addresses: Vec<String>,
    /// Next hops of the default routes over the host's interface, at most one of each family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::default_gateways")]
    pub default_gateways: Vec<String>,
    /// Conditions of this node's half or halves; each has one writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A bridge of Open vSwitch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct OvsBridge {
    /// Name of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A PCI function of the host, by the indices that a card uses to name representors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct HostFunction {
    /// Index of the physical function, not negative.
    #[serde(rename = "pfID")]
    pub pf_id: i32,
    /// Index of the virtual function on it; absent when the interface is the physical function itself.
    #[serde(rename = "vfID", default, skip_serializing_if = "Option::is_none")]
    pub vf_id: Option<i32>,
}

impl UplinkState {
    /// The status, empty when there is none yet.
    #[must_use]
    pub fn status_or_default(&self) -> std::borrow::Cow<'_, UplinkStateStatus> {
        match &self.status {
            Some(status) => std::borrow::Cow::Borrowed(status),
            None => std::borrow::Cow::Owned(UplinkStateStatus::default()),
        }
    }

    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

wire_enum! {
    /// Condition types on an UplinkState. Source: ovn-kubernetes `pkg/crd/uplink/v1alpha1`.
    pub enum StateCondition {
        /// The bridge behind the host's interface is known and usable.
        Resolved = "Resolved",
        /// The host's half is published (only where host and bridge are on different sides).
        HostDataReady = "HostDataReady",
        /// Gateways of every active network are programmed on the side of the bridge.
        GatewayReady = "GatewayReady",
        /// Gateways of every active network are programmed on the host of a DPU.
        HostGatewayReady = "HostGatewayReady",
        /// Ours, not upstream's: the wire behind the Uplink is up and fits together, as the side with the bridge sees it.
        LinkConsistent = "LinkConsistent",
        /// Ours, not upstream's: the same, as the host of a card sees it.
        HostLinkConsistent = "HostLinkConsistent",
    }
}

wire_enum! {
    /// Reasons of `LinkConsistent` and `HostLinkConsistent`. They never change what `Resolved` means.
    pub enum LinkReason {
        /// Nothing is wrong with the wire.
        Consistent = "LinkConsistent",
        /// A link is down or has no carrier.
        LinkDown = "LinkDown",
        /// Links that must carry the same packets have different MTUs.
        MtuMismatch = "MTUMismatch",
        /// Somebody else has an address of the interface.
        DuplicateAddress = "DuplicateAddress",
        /// Whether somebody else has an address of the interface is not known yet.
        AddressTentative = "AddressTentative",
        /// The VLAN of the host's port does not leave through the bridge's uplink.
        VlanMismatch = "VLANMismatch",
    }
}

wire_enum! {
    /// Reasons of the discovery conditions `Resolved` and `HostDataReady`. Source: ovn-kubernetes `pkg/crd/uplink/v1alpha1`.
    pub enum DiscoveryReason {
        /// `Resolved` is true.
        Resolved = "Resolved",
        /// `HostDataReady` is true.
        HostDataDiscovered = "HostDataDiscovered",
        /// The host has no interface of that name.
        HostInterfaceNotFound = "HostInterfaceNotFound",
        /// The interface cannot be a gateway's interface.
        InvalidHostInterface = "InvalidHostInterface",
        /// Addresses, routes or the default gateway's data could not be read.
        GatewayInfoUnavailable = "GatewayInfoUnavailable",
        /// No bridge could be found behind the interface.
        BridgeNotFound = "BridgeNotFound",
        /// The bridge has no physical uplink port that can be told.
        BridgeUplinkNotFound = "BridgeUplinkNotFound",
        /// The bridge may not serve as an Uplink.
        BridgeInvalid = "BridgeInvalid",
        /// The bridge is the node's default gateway bridge.
        DefaultGatewayBridgeUnsupported = "DefaultGatewayBridgeUnsupported",
        /// Two entries of the Uplink select this node.
        NodeSelectorOverlap = "NodeSelectorOverlap",
        /// The card has not seen usable data of its host yet.
        WaitingForDpuHost = "WaitingForDPUHost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_status_survives_reading_and_writing() {
        let text = r#"{"type":"OVSBridge","hostInterfaceName":"eth0-16","ovsBridge":{"name":"breth-uplink"},
            "macAddress":"02:42:ac:1c:00:02","hostFunction":{"pfID":0,"vfID":16},"ipAddresses":["172.31.0.10/24"],
            "defaultGateways":["172.31.0.1"],"conditions":[{"type":"Resolved","status":"True","reason":"Resolved",
            "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}"#;
        let status: UplinkStateStatus = serde_json::from_str(text).unwrap();
        let back: serde_json::Value = serde_json::to_value(&status).unwrap();
        assert_eq!(back, serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn empty_fields_are_left_out_so_that_an_apply_withdraws_them() {
        assert_eq!(serde_json::to_string(&UplinkStateStatus::default()).unwrap(), "{}");
    }
}
