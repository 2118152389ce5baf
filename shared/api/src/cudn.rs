//! `ClusterUserDefinedNetwork`: a network of many namespaces, made by an administrator.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::network::NetworkSpec;
use crate::schema;
use crate::schema::network as fragment;

/// The network of all namespaces that a selector chooses.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterUserDefinedNetwork",
    plural = "clusteruserdefinednetworks",
    singular = "clusteruserdefinednetwork",
    shortname = "cudn",
    status = "ClusterUserDefinedNetworkStatus",
    derive = "PartialEq",
    doc = "A network of the namespaces that it selects, isolated from all others.",
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.network.topology", priority = "1"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.network..role", priority = "1"),
    printcolumn(name = "Uplink", type_ = "string", json_path = ".spec.uplinks[0]", priority = "1"),
    printcolumn(
        name = "Created",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="NetworkCreated")].status"#,
        priority = "1"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="NetworkCreated")].reason"#,
        priority = "1"
    ),
    printcolumn(
        name = "Allocated",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="NetworkAllocationSucceeded")].status"#,
        priority = "1"
    ),
    printcolumn(
        name = "UplinksReady",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UplinksReady")].status"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.uplinks) || ((self.network.topology == 'Layer2' && has(self.network.layer2) && self.network.layer2.role == 'Primary') || (self.network.topology == 'Layer3' && has(self.network.layer3) && self.network.layer3.role == 'Primary'))")
        .message("spec.uplinks is supported only for primary Layer2 and Layer3 networks"),
    validation = Rule::new("!has(self.uplinks) || !has(self.network.transport) || self.network.transport != 'EVPN'")
        .message("spec.uplinks is not supported with EVPN transport")
)]
pub struct ClusterUserDefinedNetworkSpec {
    /// The namespaces that the network is for. An empty selector selects every namespace.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,
    /// The network.
    pub network: NetworkSpec,
    /// The Uplink that leads out of the network, by name; the nodes' default gateway when absent. Primary Layer2 and
    /// Layer3 networks only. Cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::uplinks")]
    pub uplinks: Vec<String>,
}

/// What became of a network.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ClusterUserDefinedNetworkStatus {
    /// Conditions of the network; each type has one writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl ClusterUserDefinedNetwork {
    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}
