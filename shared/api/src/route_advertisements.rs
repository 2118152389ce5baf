//! `RouteAdvertisements`: which addresses of which networks are told to the routers outside.
//!
//! Source: OVN-Kubernetes, go-controller/pkg/crd/routeadvertisements/v1 and go-controller/pkg/crd/types.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::schema;
use crate::wire::{open_enum, wire_enum};

/// Networks, nodes and routers of an advertisement.
///
/// The API accepts an object without a spec, which reads as one that selects nothing.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "RouteAdvertisements",
    plural = "routeadvertisements",
    singular = "routeadvertisements",
    shortname = "ra",
    status = "RouteAdvertisementsStatus",
    derive = "PartialEq",
    doc = "Addresses of networks that are told to the routers outside, and which routers are told.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.status"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].reason"#,
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = "1")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(!has(self.nodeSelector.matchLabels) && !has(self.nodeSelector.matchExpressions)) || !('PodNetwork' in self.advertisements)")
        .message("If 'PodNetwork' is selected for advertisement, a 'nodeSelector' can't be specified as it needs to be advertised on all nodes"),
    validation = Rule::new("!self.networkSelectors.exists(i, i.networkSelectionType != 'DefaultNetwork' && i.networkSelectionType != 'ClusterUserDefinedNetworks')")
        .message("Only DefaultNetwork or ClusterUserDefinedNetworks can be selected")
)]
pub struct RouteAdvertisementsSpec {
    /// The VRF of the routers that are told: the default one when absent, each network's own for `auto`, else the VRF
    /// of this name.
    #[serde(rename = "targetVRF", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<String>")]
    pub target_vrf: Option<String>,
    /// The networks, at most one entry of each type.
    #[schemars(length(min = 1, max = 5))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["networkSelectionType".into()]))]
    pub network_selectors: Vec<NetworkSelector>,
    /// The nodes whose addresses are told. Must be empty where `PodNetwork` is advertised.
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: LabelSelector,
    /// The FRRConfigurations that name the routers. An empty selector selects all.
    #[schemars(schema_with = "schema::label_selector")]
    pub frr_configuration_selector: LabelSelector,
    /// What is told.
    #[schemars(length(min = 1, max = 2))]
    #[x_kube(merge_strategy = ListMerge::Atomic, validation = Rule::new("self.all(x, self.exists_one(y, x == y))"))]
    pub advertisements: Vec<Advertisement>,
}

// By hand because the object's own code is derived and wants a spec: serde offers a missing field to types that may
// be absent, and only to those.
impl<'de> Deserialize<'de> for RouteAdvertisementsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields {
            #[serde(rename = "targetVRF")]
            target_vrf: Option<String>,
            network_selectors: Vec<NetworkSelector>,
            node_selector: LabelSelector,
            frr_configuration_selector: LabelSelector,
            advertisements: Vec<Advertisement>,
        }
        let fields = Option::<Fields>::deserialize(deserializer)?.unwrap_or_default();
        Ok(Self {
            target_vrf: fields.target_vrf,
            network_selectors: fields.network_selectors,
            node_selector: fields.node_selector,
            frr_configuration_selector: fields.frr_configuration_selector,
            advertisements: fields.advertisements,
        })
    }
}

open_enum! {
    /// Kind of addresses.
    pub enum Advertisement {
        /// Addresses of pods.
        PodNetwork = "PodNetwork",
        /// Addresses of EgressIPs.
        EgressIp = "EgressIP",
    }
}

open_enum! {
    /// Kind of networks that a selector chooses from.
    pub enum SelectionType {
        /// The cluster's default network.
        DefaultNetwork = "DefaultNetwork",
        /// Networks of ClusterUserDefinedNetworks.
        ClusterUserDefinedNetworks = "ClusterUserDefinedNetworks",
        /// Primary networks of UserDefinedNetworks.
        PrimaryUserDefinedNetworks = "PrimaryUserDefinedNetworks",
        /// Secondary networks of UserDefinedNetworks.
        SecondaryUserDefinedNetworks = "SecondaryUserDefinedNetworks",
        /// Networks of NetworkAttachmentDefinitions.
        NetworkAttachmentDefinitions = "NetworkAttachmentDefinitions",
    }
}

/// Networks of one kind.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.networkSelectionType) ? true : has(self.clusterUserDefinedNetworkSelector) ? self.networkSelectionType == 'ClusterUserDefinedNetworks' : self.networkSelectionType != 'ClusterUserDefinedNetworks'")
        .message("Inconsistent selector: both networkSelectionType ClusterUserDefinedNetworks and clusterUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("!has(self.networkSelectionType) ? true : has(self.primaryUserDefinedNetworkSelector) ? self.networkSelectionType == 'PrimaryUserDefinedNetworks' : self.networkSelectionType != 'PrimaryUserDefinedNetworks'")
        .message("Inconsistent selector: both networkSelectionType PrimaryUserDefinedNetworks and primaryUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("!has(self.networkSelectionType) ? true : has(self.secondaryUserDefinedNetworkSelector) ? self.networkSelectionType == 'SecondaryUserDefinedNetworks' : self.networkSelectionType != 'SecondaryUserDefinedNetworks'")
        .message("Inconsistent selector: both networkSelectionType SecondaryUserDefinedNetworks and secondaryUserDefinedNetworkSelector have to be set or neither"),
    validation = Rule::new("!has(self.networkSelectionType) ? true : has(self.networkAttachmentDefinitionSelector) ? self.networkSelectionType == 'NetworkAttachmentDefinitions' : self.networkSelectionType != 'NetworkAttachmentDefinitions'")
        .message("Inconsistent selector: both networkSelectionType NetworkAttachmentDefinitions and networkAttachmentDefinitionSelector have to be set or neither")
)]
pub struct NetworkSelector {
    /// Kind of networks; says which one of the selectors below is set.
    pub network_selection_type: SelectionType,
    /// Which networks of ClusterUserDefinedNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<ByNetwork>")]
    pub cluster_user_defined_network_selector: Option<ByNetwork>,
    /// Which primary networks of UserDefinedNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<ByNamespace>")]
    pub primary_user_defined_network_selector: Option<ByNamespace>,
    /// Which secondary networks of UserDefinedNetworks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<ByNamespaceAndNetwork>")]
    pub secondary_user_defined_network_selector: Option<ByNamespaceAndNetwork>,
    /// Which networks of NetworkAttachmentDefinitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<ByNamespaceAndNetwork>")]
    pub network_attachment_definition_selector: Option<ByNamespaceAndNetwork>,
}

/// Networks by their labels.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ByNetwork {
    /// Labels of the networks' objects. An empty selector selects all.
    #[schemars(schema_with = "schema::label_selector")]
    pub network_selector: LabelSelector,
}

/// Networks by the labels of their namespaces.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ByNamespace {
    /// Labels of the namespaces. An empty selector selects all.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,
}

/// Networks by their labels and those of their namespaces.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ByNamespaceAndNetwork {
    /// Labels of the namespaces. An empty selector selects all.
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: LabelSelector,
    /// Labels of the networks' objects. An empty selector selects all.
    #[schemars(schema_with = "schema::label_selector")]
    pub network_selector: LabelSelector,
}

/// What became of an advertisement.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct RouteAdvertisementsStatus {
    /// `Accepted`, or `Not Accepted: ` and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<String>")]
    pub status: Option<String>,
    /// Conditions of the advertisement; `Accepted` says whether routers were configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl RouteAdvertisements {
    /// Conditions of the status, none when there is no status yet.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

wire_enum! {
    /// Condition types on RouteAdvertisements.
    pub enum AdvertisementCondition {
        /// The object was checked and the routers' configurations were written.
        Accepted = "Accepted",
    }
}

wire_enum! {
    /// Reasons of the condition `Accepted`.
    pub enum AdvertisementReason {
        /// The condition holds.
        Accepted = "Accepted",
        /// The object asks for what cannot be.
        ConfigurationError = "ConfigurationError",
        /// Something that the object needs is not there yet.
        ConfigurationPending = "ConfigurationPending",
        /// Something failed that is not about the object.
        InternalError = "InternalError",
    }
}
