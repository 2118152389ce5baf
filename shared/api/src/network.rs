//! What a network is: the part of the spec that UserDefinedNetwork and ClusterUserDefinedNetwork share.
//!
//! Values that this version does not know (a topology, role or transport of a newer API) are kept as they came, so
//! that an object which holds one can be read, reported and left alone. Fields hold text as users wrote it: what
//! a subnet or address means is decided in `causeway-net`.
//!
//! The rules are upstream's, word for word: people and scripts know the messages. Source: OVN-Kubernetes,
//! go-controller/pkg/crd/userdefinednetwork/v1.

#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a private module of its own")]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::schema::network as fragment;
use crate::wire::open_enum;

open_enum! {
    /// How the nodes' parts of a network are joined.
    pub enum Topology {
        /// One switch over all nodes.
        Layer2 = "Layer2",
        /// A subnet per node, routed.
        Layer3 = "Layer3",
        /// One switch over all nodes that leads into a network of the underlay.
        Localnet = "Localnet",
    }
}

open_enum! {
    /// What a network is to a pod.
    pub enum Role {
        /// The pod's way to everything but the kubelet.
        Primary = "Primary",
        /// A further interface.
        Secondary = "Secondary",
    }
}

open_enum! {
    /// How packets get from node to node; a network without one uses Geneve.
    pub enum Transport {
        /// Routed by the underlay without encapsulation.
        NoOverlay = "NoOverlay",
        /// VXLAN with BGP EVPN.
        Evpn = "EVPN",
    }
}

open_enum! {
    /// Whether pods get addresses from the network.
    pub enum IpamMode {
        /// They do.
        Enabled = "Enabled",
        /// They do not.
        Disabled = "Disabled",
    }
}

open_enum! {
    /// How long an address belongs to a workload.
    pub enum IpamLifecycle {
        /// As long as the claim of its virtual machine, over restarts and migrations.
        Persistent = "Persistent",
    }
}

open_enum! {
    /// Whether a function is on.
    pub enum Switch {
        /// On.
        Enabled = "Enabled",
        /// Off.
        Disabled = "Disabled",
    }
}

open_enum! {
    /// Who configures the routers that carry a network without overlay.
    pub enum Routing {
        /// The cluster's managed BGP.
        Managed = "Managed",
        /// The administrator, with RouteAdvertisements.
        Unmanaged = "Unmanaged",
    }
}

open_enum! {
    /// How a port of a Localnet network takes part in VLANs.
    pub enum VlanMode {
        /// Untagged for pods, one VLAN on the underlay.
        Access = "Access",
    }
}

/// A network as a ClusterUserDefinedNetwork describes it; a UserDefinedNetwork has a part of this.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.topology) && self.topology == 'Layer3' ? has(self.layer3): !has(self.layer3)")
        .message("spec.layer3 is required when topology is Layer3 and forbidden otherwise"),
    validation = Rule::new("has(self.topology) && self.topology == 'Layer2' ? has(self.layer2): !has(self.layer2)")
        .message("spec.layer2 is required when topology is Layer2 and forbidden otherwise"),
    validation = Rule::new("has(self.topology) && self.topology == 'Localnet' ? has(self.localnet): !has(self.localnet)")
        .message("spec.localnet is required when topology is Localnet and forbidden otherwise"),
    validation = Rule::new("!has(self.transport) || self.transport != 'NoOverlay' || (self.topology == 'Layer3' && has(self.layer3) && self.layer3.role == 'Primary')")
        .message("transport 'NoOverlay' is only supported for Layer3 primary networks"),
    validation = Rule::new("!has(self.transport) || self.transport != 'NoOverlay' || has(self.noOverlay)")
        .message("spec.noOverlay is required when type transport is 'NoOverlay'"),
    validation = Rule::new("(has(self.transport) && self.transport == 'NoOverlay') || !has(self.noOverlay)")
        .message("spec.noOverlay is forbidden when transport type is not 'NoOverlay'"),
    validation = Rule::new("!has(self.transport) || self.transport != 'EVPN' || ((self.topology == 'Layer2' && has(self.layer2) && self.layer2.role == 'Primary') || (self.topology == 'Layer3' && has(self.layer3) && self.layer3.role == 'Primary'))")
        .message("transport 'EVPN' is only supported for Layer2 or Layer3 primary networks"),
    validation = Rule::new("!has(self.transport) || self.transport != 'EVPN' || has(self.evpn)")
        .message("spec.evpn field is required when transport is 'EVPN'"),
    validation = Rule::new("(has(self.transport) && self.transport == 'EVPN') || !has(self.evpn)")
        .message("spec.evpn field is forbidden when transport is not 'EVPN'"),
    validation = Rule::new("!has(self.transport) || self.transport != 'EVPN' || self.topology != 'Layer2' || (has(self.evpn) && has(self.evpn.macVRF))")
        .message("spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'"),
    validation = Rule::new("!has(self.transport) || self.transport != 'EVPN' || self.topology != 'Layer3' || (has(self.evpn) && has(self.evpn.ipVRF))")
        .message("spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'"),
    validation = Rule::new("!has(self.transport) || self.transport != 'EVPN' || self.topology != 'Layer3' || !has(self.evpn) || !has(self.evpn.macVRF)")
        .message("spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'")
)]
pub struct NetworkSpec {
    /// How the nodes' parts of the network are joined; says which one of `layer2`, `layer3` and `localnet` is set.
    /// Cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("Topology is immutable"))]
    pub topology: Topology,
    /// A network of one subnet per node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Layer3>")]
    pub layer3: Option<Layer3>,
    /// A network of one subnet over all nodes. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Layer2>")]
    pub layer2: Option<Layer2>,
    /// A network of the underlay. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Localnet>")]
    pub localnet: Option<Localnet>,
    /// How packets get from node to node; Geneve when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Transport>")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("Transport is immutable"))]
    pub transport: Option<Transport>,
    /// Settings of transport `NoOverlay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<NoOverlay>")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("NoOverlay is immutable"))]
    pub no_overlay: Option<NoOverlay>,
    /// Settings of transport `EVPN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Evpn>")]
    pub evpn: Option<Evpn>,
}

/// A network of one subnet per node, cut out of larger ones.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.role != 'Secondary' || self.subnets == oldSelf.subnets")
        .message("Subnets is immutable for Secondary role"),
    validation = Rule::new("self.role != 'Secondary' || !has(self.subnets) || self.subnets.size() <= 2")
        .message("Secondary networks may define at most 2 subnets"),
    validation = Rule::new("self.role != 'Secondary' || size(self.subnets) != 2 || !isCIDR(self.subnets[0].cidr) || !isCIDR(self.subnets[1].cidr) || cidr(self.subnets[0].cidr).ip().family() != cidr(self.subnets[1].cidr).ip().family()")
        .message("When 2 CIDRs are set for Secondary networks, they must be from different IP families"),
    validation = Rule::new("!has(self.joinSubnets) || has(self.role) && self.role == 'Primary'")
        .message("JoinSubnets is only supported for Primary network"),
    validation = Rule::new("!has(self.subnets) || !has(self.mtu) || !self.subnets.exists_one(i, isCIDR(i.cidr) && cidr(i.cidr).ip().family() == 6) || self.mtu >= 1280")
        .message("MTU should be greater than or equal to 1280 when IPv6 subnet is used"),
    validation = Rule::new("!has(oldSelf.subnets) || oldSelf.subnets.all(old, self.subnets.exists(new, new.cidr == old.cidr))")
        .message("Removing existing subnets is not allowed"),
    validation = Rule::new("!has(self.subnets) || self.subnets.size() == 1 || !self.subnets.exists(i, self.subnets.exists(j, i != j && cidr(i.cidr).containsCIDR(j.cidr)))")
        .message("Subnets must not overlap or contain each other"),
    validation = Rule::new("!has(self.subnets) || self.subnets.size() == 1 || !self.subnets.exists(i, self.subnets.filter(j, j.cidr == i.cidr).size() > 1)")
        .message("Subnets with same CIDR are not allowed"),
    validation = Rule::new("!has(oldSelf.subnets) || oldSelf.subnets.all(old, self.subnets.exists(new, new.cidr == old.cidr && (!has(old.hostSubnet) && !has(new.hostSubnet) || has(old.hostSubnet) && has(new.hostSubnet) && old.hostSubnet == new.hostSubnet)))")
        .message("hostSubnet is immutable"),
    validation = Rule::new("!has(self.subnets) || self.subnets.size() == 1 || self.subnets.all(i, self.subnets.all(j, cidr(i.cidr).ip().family() != cidr(j.cidr).ip().family() || (has(i.hostSubnet) == has(j.hostSubnet) && (!has(i.hostSubnet) || i.hostSubnet == j.hostSubnet))))")
        .message("Subnets from the same IP family must use the same hostSubnet value")
)]
pub struct Layer3 {
    /// What the network is to a pod. Cannot be changed.
    #[x_kube(validation = Rule::new("self == oldSelf").message("role is immutable"))]
    pub role: Role,
    /// Largest packet; the cluster's default when absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::mtu")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("mtu is immutable"))]
    pub mtu: Option<i32>,
    /// The subnets that nodes get theirs of, in the order in which they are used up. A primary network can get more
    /// later; a secondary network has at most one of each family.
    #[schemars(length(min = 1, max = 400))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub subnets: Vec<Layer3Subnet>,
    /// Subnets between the network's routers, at most one of each family; `100.65.0.0/16` and `fd99::/64` when
    /// absent. Primary networks only. Cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::join_subnets_of_layer3")]
    pub join_subnets: Vec<String>,
}

/// A subnet that nodes get theirs of.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.hostSubnet) || !isCIDR(self.cidr) || self.hostSubnet > cidr(self.cidr).prefixLength()")
        .message("HostSubnet must be smaller than CIDR subnet"),
    validation = Rule::new("!has(self.hostSubnet) || !isCIDR(self.cidr) || (cidr(self.cidr).ip().family() != 4 || self.hostSubnet < 32)")
        .message("HostSubnet must < 32 for ipv4 CIDR")
)]
pub struct Layer3Subnet {
    /// The subnet.
    #[schemars(schema_with = "fragment::cidr")]
    pub cidr: String,
    /// Prefix length of a node's subnet; 24 for IPv4 and 64 for IPv6 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::host_subnet")]
    pub host_subnet: Option<i32>,
}

/// A network of one subnet over all nodes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message("Layer2 is immutable"),
    validation = Rule::new("has(self.ipam) && has(self.ipam.mode) && self.ipam.mode != 'Enabled' || has(self.subnets)")
        .message("Subnets is required with ipam.mode is Enabled or unset"),
    validation = Rule::new("!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode != 'Disabled' || !has(self.subnets)")
        .message("Subnets must be unset when ipam.mode is Disabled"),
    validation = Rule::new("!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode != 'Disabled' || self.role == 'Secondary'")
        .message("Disabled ipam.mode is only supported for Secondary network"),
    validation = Rule::new("!has(self.joinSubnets) || has(self.role) && self.role == 'Primary'")
        .message("JoinSubnets is only supported for Primary network"),
    validation = Rule::new("!has(self.subnets) || !has(self.mtu) || !self.subnets.exists_one(i, isCIDR(i) && cidr(i).ip().family() == 6) || self.mtu >= 1280")
        .message("MTU should be greater than or equal to 1280 when IPv6 subnet is used"),
    validation = Rule::new("!has(self.defaultGatewayIPs) || has(self.role) && self.role == 'Primary'")
        .message("defaultGatewayIPs is only supported for Primary network"),
    validation = Rule::new("!has(self.defaultGatewayIPs) || self.defaultGatewayIPs.all(ip, self.subnets.exists(subnet, cidr(subnet).containsIP(ip)))")
        .message("defaultGatewayIPs must belong to one of the subnets specified in the subnets field"),
    validation = Rule::new("!has(self.defaultGatewayIPs) || size(self.defaultGatewayIPs) == size(self.subnets)")
        .message("defaultGatewayIPs must be specified for all IP families"),
    validation = Rule::new("!has(self.reservedSubnets) || has(self.subnets)")
        .message("reservedSubnets must be unset when subnets is unset"),
    validation = Rule::new("!has(self.reservedSubnets) || has(self.role) && self.role == 'Primary'")
        .message("reservedSubnets is only supported for Primary network"),
    validation = Rule::new("!has(self.infrastructureSubnets) || has(self.subnets)")
        .message("infrastructureSubnets must be unset when subnets is unset"),
    validation = Rule::new("!has(self.infrastructureSubnets) || has(self.role) && self.role == 'Primary'")
        .message("infrastructureSubnets is only supported for Primary network"),
    validation = Rule::new("!has(self.infrastructureSubnets) || !has(self.defaultGatewayIPs) || self.defaultGatewayIPs.all(ip, self.infrastructureSubnets.exists(subnet, cidr(subnet).containsIP(ip)))")
        .message("defaultGatewayIPs have to belong to infrastructureSubnets"),
    validation = Rule::new("!has(self.reservedSubnets) || self.reservedSubnets.all(e, self.subnets.exists(s, cidr(s).containsCIDR(cidr(e))))")
        .message("reservedSubnets must be subnetworks of the networks specified in the subnets field")
        .field_path(".reservedSubnets"),
    validation = Rule::new("!has(self.infrastructureSubnets) || self.infrastructureSubnets.all(e, self.subnets.exists(s, cidr(s).containsCIDR(cidr(e))))")
        .message("infrastructureSubnets must be subnetworks of the networks specified in the subnets field")
        .field_path(".infrastructureSubnets"),
    validation = Rule::new("!has(self.infrastructureSubnets) || !has(self.reservedSubnets) || self.infrastructureSubnets.all(infra, !self.reservedSubnets.exists(reserved, cidr(infra).containsCIDR(reserved) || cidr(reserved).containsCIDR(infra)))")
        .message("infrastructureSubnets and reservedSubnets must not overlap"),
    validation = Rule::new("!has(self.infrastructureSubnets) || self.infrastructureSubnets.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())")
        .message("infrastructureSubnets must be a masked network address (no host bits set)"),
    validation = Rule::new("!has(self.reservedSubnets) || self.reservedSubnets.all(s, isCIDR(s) && cidr(s) == cidr(s).masked())")
        .message("reservedSubnets must be a masked network address (no host bits set)")
)]
pub struct Layer2 {
    /// What the network is to a pod.
    pub role: Role,
    /// Largest packet; the cluster's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::mtu")]
    pub mtu: Option<i32>,
    /// The network's subnets, at most one of each family. Required unless addresses are off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::dual_stack_cidrs")]
    pub subnets: Vec<String>,
    /// Parts of the subnets that are given to pods only on request. Needs preconfigured addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::reserved_subnets")]
    pub reserved_subnets: Vec<String>,
    /// Parts of the subnets for the gateways and management ports of nodes. Needs preconfigured addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::infrastructure_subnets")]
    pub infrastructure_subnets: Vec<String>,
    /// The gateways' addresses, one for each subnet; the first usable of each when absent. Needs preconfigured
    /// addresses.
    #[serde(rename = "defaultGatewayIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::default_gateway_ips")]
    pub default_gateway_ips: Vec<String>,
    /// Subnets between the network's routers, at most one of each family; `100.65.0.0/16` and `fd99::/64` when
    /// absent. Primary networks only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::dual_stack_cidrs")]
    pub join_subnets: Vec<String>,
    /// Whether and for how long pods get addresses from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Ipam>")]
    pub ipam: Option<Ipam>,
}

/// A network of the underlay.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf").message("Localnet is immutable"),
    validation = Rule::new("!has(self.ipam) || !has(self.ipam.mode) || self.ipam.mode == 'Enabled' ? has(self.subnets) : !has(self.subnets)")
        .message("Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise"),
    validation = Rule::new("!has(self.excludeSubnets) || has(self.subnets)")
        .message("excludeSubnets must be unset when subnets is unset"),
    validation = Rule::new("!has(self.subnets) || !has(self.mtu) || !self.subnets.exists_one(i, isCIDR(i) && cidr(i).ip().family() == 6) || self.mtu >= 1280")
        .message("MTU should be greater than or equal to 1280 when an IPv6 subnet is used")
)]
pub struct Localnet {
    /// What the network is to a pod: always `Secondary`.
    #[schemars(schema_with = "fragment::role_of_localnet")]
    pub role: Role,
    /// The network of the underlay, by the name that nodes map to a bridge (`ovn-bridge-mappings`).
    #[schemars(schema_with = "fragment::physical_network_name")]
    pub physical_network_name: String,
    /// The network's subnets, at most one of each family. Required unless addresses are off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::dual_stack_cidrs")]
    pub subnets: Vec<String>,
    /// Parts of the subnets that pods never get: addresses that others on the underlay use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragment::exclude_subnets")]
    pub exclude_subnets: Vec<String>,
    /// Whether and for how long pods get addresses from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Ipam>")]
    pub ipam: Option<Ipam>,
    /// Largest packet; the cluster's default and 100 bytes more when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::mtu")]
    pub mtu: Option<i32>,
    /// The VLAN of the underlay; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Vlan>")]
    pub vlan: Option<Vlan>,
}

/// Whether and for how long pods get addresses from the network.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
#[x_kube(
    validation = Rule::new("!has(self.lifecycle) || self.lifecycle != 'Persistent' || !has(self.mode) || self.mode == 'Enabled'")
        .message("lifecycle Persistent is only supported when ipam.mode is Enabled")
)]
pub struct Ipam {
    /// Whether pods get addresses from the network; `Enabled` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<IpamMode>")]
    pub mode: Option<IpamMode>,
    /// `Persistent`: a virtual machine keeps its addresses over restarts and migrations. When absent an address
    /// belongs to one pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<IpamLifecycle>")]
    pub lifecycle: Option<IpamLifecycle>,
}

/// The VLAN of a network of the underlay.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.mode) && self.mode == 'Access' ? has(self.access): !has(self.access)")
        .message("vlan access config is required when vlan mode is 'Access', and forbidden otherwise")
)]
pub struct Vlan {
    /// How the network's ports take part in VLANs.
    pub mode: VlanMode,
    /// Settings of mode `Access`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<VlanAccess>")]
    pub access: Option<VlanAccess>,
}

/// The one VLAN that an access port is in.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct VlanAccess {
    /// Number of the VLAN.
    #[schemars(schema_with = "fragment::vlan_id")]
    pub id: i32,
}

/// Settings of a network that the underlay routes without encapsulation.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoOverlay {
    /// Whether packets that leave the cluster get the node's address.
    #[serde(rename = "outboundSNAT")]
    pub outbound_snat: Switch,
    /// Who configures the routers.
    pub routing: Routing,
}

/// Settings of a network that BGP EVPN stretches over VXLAN.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.macVRF) || has(self.ipVRF)")
        .message("at least one of macVRF or ipVRF must be specified"),
    validation = Rule::new("!has(self.macVRF) || !has(self.ipVRF) || self.macVRF.vni != self.ipVRF.vni")
        .message("macVRF and ipVRF must use different VNIs")
)]
pub struct Evpn {
    /// Name of the VTEP whose addresses the nodes send from.
    #[schemars(length(min = 1))]
    pub vtep: String,
    /// The network's bridge domain; required for Layer2 and forbidden for Layer3.
    #[serde(rename = "macVRF", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Vrf>")]
    pub mac_vrf: Option<Vrf>,
    /// The network's routing domain; required for Layer3.
    #[serde(rename = "ipVRF", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::plain::<Vrf>")]
    pub ip_vrf: Option<Vrf>,
}

/// A virtual routing or bridging domain of EVPN.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Vrf {
    /// VXLAN network identifier, unique for the VTEP.
    #[schemars(schema_with = "fragment::vni")]
    pub vni: i32,
    /// Route target that the domain imports and exports, such as `65000:100`; follows from AS number and VNI when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragment::route_target")]
    pub route_target: Option<String>,
}

/// The one part of a spec that its topology calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout<'n> {
    /// A subnet per node.
    Layer3(&'n Layer3),
    /// One subnet over all nodes.
    Layer2(&'n Layer2),
    /// A network of the underlay.
    Localnet(&'n Localnet),
}

/// Why a spec does not describe a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The part that the topology calls for is not there.
    #[error("invalid topology specified: topology {topology} is specified but {topology} config is nil")]
    Missing {
        /// The topology.
        topology: Topology,
    },
    /// A topology of a newer API.
    #[error("invalid topology specified: topology {0:?} is not known to this version")]
    Unknown(String),
}

impl NetworkSpec {
    /// The part of the spec that its topology calls for.
    pub fn layout(&self) -> Result<Layout<'_>, LayoutError> {
        let found = match &self.topology {
            Topology::Layer3 => self.layer3.as_ref().map(Layout::Layer3),
            Topology::Layer2 => self.layer2.as_ref().map(Layout::Layer2),
            Topology::Localnet => self.localnet.as_ref().map(Layout::Localnet),
            Topology::Unknown(other) => return Err(LayoutError::Unknown(other.clone())),
        };
        found.ok_or_else(|| LayoutError::Missing { topology: self.topology.clone() })
    }

    /// What the network is to a pod; none where the spec describes no network.
    #[must_use]
    pub fn role(&self) -> Option<&Role> {
        self.layout().ok().map(Layout::role)
    }

    /// Whether it is the primary network of its namespaces.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.role() == Some(&Role::Primary)
    }
}

impl<'n> Layout<'n> {
    /// What the network is to a pod.
    #[must_use]
    pub fn role(self) -> &'n Role {
        match self {
            Self::Layer3(layer3) => &layer3.role,
            Self::Layer2(layer2) => &layer2.role,
            Self::Localnet(localnet) => &localnet.role,
        }
    }

    /// Largest packet, where the spec says.
    #[must_use]
    pub fn mtu(self) -> Option<i32> {
        match self {
            Self::Layer3(layer3) => layer3.mtu,
            Self::Layer2(layer2) => layer2.mtu,
            Self::Localnet(localnet) => localnet.mtu,
        }
    }

    /// How pods get addresses, where the spec says; Layer3 networks always give some.
    #[must_use]
    pub fn ipam(self) -> Option<&'n Ipam> {
        match self {
            Self::Layer3(_) => None,
            Self::Layer2(layer2) => layer2.ipam.as_ref(),
            Self::Localnet(localnet) => localnet.ipam.as_ref(),
        }
    }
}

impl Ipam {
    /// Whether pods get addresses from the network. An unknown mode is none that does.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        matches!(self.mode, None | Some(IpamMode::Enabled))
    }

    /// Whether virtual machines keep their addresses.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.lifecycle == Some(IpamLifecycle::Persistent)
    }
}

#[cfg(test)]
mod tests;
