//! `UserDefinedNetwork`: a network of one namespace, made by the tenant that owns the namespace.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::network::{Layer2, Layer3, NetworkSpec, Topology};
use crate::schema;
use crate::schema::network as fragment;

/// The network of a namespace.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "UserDefinedNetwork",
    plural = "userdefinednetworks",
    singular = "userdefinednetwork",
    shortname = "udn",
    namespaced,
    status = "UserDefinedNetworkStatus",
    derive = "PartialEq",
    doc = "A network of the namespace that it is in, isolated from all others.",
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.topology", priority = "1"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec..role", priority = "1"),
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
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.topology) && self.topology == 'Layer3' ? has(self.layer3): !has(self.layer3)")
        .message("spec.layer3 is required when topology is Layer3 and forbidden otherwise"),
    validation = Rule::new("has(self.topology) && self.topology == 'Layer2' ? has(self.layer2): !has(self.layer2)")
        .message("spec.layer2 is required when topology is Layer2 and forbidden otherwise")
)]
pub struct UserDefinedNetworkSpec {
    /// How the nodes' parts of the network are joined; says which one of `layer2` and `layer3` is set. Cannot be
    /// changed.
    #[schemars(schema_with = "fragment::topology_of_udn")]
    pub topology: Topology,
    /// A network of one subnet per node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Layer3>")]
    pub layer3: Option<Layer3>,
    /// A network of one subnet over all nodes. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Layer2>")]
    pub layer2: Option<Layer2>,
}

/// What became of a network.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct UserDefinedNetworkStatus {
    /// Conditions of the network; each type has one writer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl UserDefinedNetworkSpec {
    /// The same network in the terms of a ClusterUserDefinedNetwork, which has all that this has.
    #[must_use]
    pub fn network(&self) -> NetworkSpec {
        NetworkSpec {
            topology: self.topology.clone(),
            layer3: self.layer3.clone(),
            layer2: self.layer2.clone(),
            localnet: None,
            transport: None,
            no_overlay: None,
            evpn: None,
        }
    }
}

impl UserDefinedNetwork {
    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}
