//! `VTEP`: the addresses from which nodes send packets of EVPN networks.
//!
//! Source: OVN-Kubernetes, go-controller/pkg/crd/vtep/v1.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::schema::network as fragment;
use crate::wire::{open_enum, wire_enum};

/// Our finalizer on a VTEP that networks may rest on.
pub const VTEP_FINALIZER: &str = "k8s.ovn.org/vtep-protection";

/// Key of the annotation of a Node with its addresses, by VTEP.
pub const NODE_VTEPS: &str = "k8s.ovn.org/vteps";

/// Reads [`NODE_VTEPS`]: `{"evpn-vtep":{"ips":["100.64.0.1"]}}`.
///
/// # Errors
/// It is not that.
pub fn read_node_vteps(text: &str) -> Result<BTreeMap<String, Vec<String>>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        ips: Vec<String>,
    }
    let entries: BTreeMap<String, Entry> = serde_json::from_str(text)?;
    Ok(entries.into_iter().map(|(vtep, entry)| (vtep, entry.ips)).collect())
}

/// Addresses of nodes.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "VTEP",
    plural = "vteps",
    singular = "vtep",
    status = "VtepStatus",
    derive = "PartialEq",
    doc = "The addresses from which nodes send packets of EVPN networks.",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].reason"#
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.mode != 'Managed' || size(self.cidrs) >= size(oldSelf.cidrs)")
        .message("CIDRs cannot be removed in managed mode; only appending new CIDRs or expanding the existing CIDRs is allowed"),
    validation = Rule::new("self.mode != 'Managed' || self.cidrs.all(i, v, i >= size(oldSelf.cidrs) || (cidr(v).containsIP(cidr(oldSelf.cidrs[i]).ip()) && cidr(v).prefixLength() <= cidr(oldSelf.cidrs[i]).prefixLength()))")
        .message("In managed mode, existing CIDRs must remain at the same position and can only be expanded to a wider mask; shrinking the mask or reordering is not allowed")
)]
pub struct VtepSpec {
    /// Where the addresses are from.
    #[schemars(schema_with = "fragment::vtep_cidrs")]
    pub cidrs: Vec<String>,
    /// Who gives nodes their addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::vtep_mode")]
    pub mode: Option<VtepMode>,
}

open_enum! {
    /// Who gives nodes their addresses.
    pub enum VtepMode {
        /// The cluster manager.
        Managed = "Managed",
        /// Somebody else: nodes find them on their interfaces.
        Unmanaged = "Unmanaged",
    }
}

/// Whether networks can rest on it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct VtepStatus {
    /// Conditions; `Accepted` says whether every node has its address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl VTEP {
    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

wire_enum! {
    /// Condition types of VTEPs.
    pub enum VtepCondition {
        /// Networks can rest on it.
        Accepted = "Accepted",
    }
}

wire_enum! {
    /// Reasons of `Accepted`.
    pub enum VtepReason {
        /// The condition holds.
        Allocated = "Allocated",
        /// Nobody gives nodes addresses in managed mode.
        ManagedModeNotSupported = "ManagedModeNotSupported",
        /// Another VTEP has some of its addresses.
        CidrOverlap = "CIDROverlap",
        /// EVPN needs IPv4.
        EvpnIpv6NotSupported = "EVPNIPv6NotSupported",
        /// A node has no address.
        AllocationFailed = "AllocationFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_published_ones() {
        let texts: Vec<&str> = VtepReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(
            texts.join(" "),
            "Allocated ManagedModeNotSupported CIDROverlap EVPNIPv6NotSupported AllocationFailed"
        );
        assert_eq!(VtepCondition::ALL.len(), 1);
    }

    #[test]
    fn a_mode_of_a_newer_api_is_read_and_none_is_none() {
        let read = |spec: serde_json::Value| serde_json::from_value::<VtepSpec>(spec).unwrap().mode;
        assert_eq!(read(serde_json::json!({"cidrs": ["10.0.0.0/24"]})), None);
        let future = read(serde_json::json!({"cidrs": [], "mode": "Shared"}));
        assert_eq!(future, Some(VtepMode::Unknown("Shared".into())));
    }
}
