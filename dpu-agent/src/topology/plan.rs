//! From networks and nodes to groups of rows. Pure.
//!
//! In: a [`Cluster`], the node whose databases these are, the other nodes on which a network is in use, where the network
//! leaves the node. Out: a [`Plan`]: for each [`Part`] of the network its rows, or why it has none yet. A part that cannot
//! be planned leaves what is there of it as it is, and the other parts go on.
//!
//! First file to read: `plan/routed.rs` for networks with a subnet per node, `plan/layer2.rs` for those with one subnet.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::masquerade::MasqueradeError;
use causeway_net::network::name::{NetworkName, NodeName};
use causeway_net::network::offset::OutOfRange;
use causeway_net::network::ovn::OvnNames;
use ipnet::IpNet;

use super::cluster::Cluster;
use super::exit::{Exit, ExitError};
use super::mark::{Marks, pairs};
use super::network::{Network, Shape};
use super::node::{Untold, ZoneNode};
use super::northbound::{GatewayChassis, LogicalSwitch, LogicalSwitchPort, Pairs, StaticRoute};
use super::rows::Rows;
use super::service::{DefaultService, ServiceName};

mod chassis;
mod external;
mod gateway;
mod layer2;
mod management;
mod routed;
mod secondary;
mod services;
mod shared;
mod transit;
mod zone;

pub(in crate::topology) use gateway::HOST_PRIORITY;

pub use chassis::{ChassisRow, remote_chassis};
pub use services::service_addresses;
pub use zone::{COPP, ZoneOptions, zone};

/// A part of a network in one zone. Parts are planned, written and removed each on its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// What the network has whatever nodes there are.
    Network,
    /// The node's own switch, its port to the router, its management port.
    Node,
    /// The node's way out.
    Gateway,
    /// The router's rules for the node's own addresses.
    HostAddresses,
    /// The node's side of the link between zones.
    Transit,
    /// Another node.
    Remote(NodeName),
    /// The way to a Service of the default network.
    Service(ServiceName),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network"),
            Self::Node => f.write_str("node"),
            Self::Gateway => f.write_str("gateway"),
            Self::HostAddresses => f.write_str("host addresses"),
            Self::Transit => f.write_str("transit"),
            Self::Remote(node) => write!(f, "remote node {node}"),
            Self::Service(service) => write!(f, "service {service}"),
        }
    }
}

/// Why a part has no rows yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A node has no id.
    #[error("failed to get node id for node - {node}: {cause}")]
    NoNodeId {
        /// The node.
        node: NodeName,
        /// Why.
        cause: Untold,
    },
    /// A node has no subnet in the network.
    #[error(
        "subnet annotation in the node {node:?} for the layer3 UDN {network} is missing: {cause}",
        node = node.as_str()
    )]
    NoSubnet {
        /// The node.
        node: NodeName,
        /// The network.
        network: NetworkName,
        /// Why.
        cause: Untold,
    },
    /// Another annotation of a node says nothing.
    #[error("node {node}: {cause}")]
    Node {
        /// The node.
        node: NodeName,
        /// Why.
        cause: Untold,
    },
    /// A node has no transit address of a family that it has a subnet of.
    #[error("node {node} has no transit switch port address of the family of {subnet}")]
    NoTransit {
        /// The node.
        node: NodeName,
        /// The subnet.
        subnet: IpNet,
    },
    /// A range has no address for the node.
    #[error("node {node}: {source}")]
    Range {
        /// The node.
        node: NodeName,
        /// Part of the text on purpose.
        source: OutOfRange,
    },
    /// The masquerade range ends before its shared addresses.
    #[error(transparent)]
    Masquerade(#[from] OutOfRange),
    /// The network has no masquerade addresses.
    #[error(transparent)]
    NetworkMasquerade(#[from] MasqueradeError),
    /// It is not known where the network leaves the node.
    #[error(transparent)]
    Exit(#[from] ExitError),
    /// The gateway has no address that the join address could leave by.
    #[error(
        "failed to find valid external IP family match for join subnet IP: {join} on gateway router: {router}"
    )]
    NoExternalAddress {
        /// The join address.
        join: IpAddr,
        /// The gateway router.
        router: String,
    },
    /// The host told addresses that are none.
    #[error("invalid other host address(es): [{}]", .0.join(" "))]
    HostAddresses(Vec<String>),
}

impl PlanError {
    /// The node that has to tell something else; none where it is not a node's fault.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::NoNodeId { node, .. }
            | Self::NoSubnet { node, .. }
            | Self::Node { node, .. }
            | Self::NoTransit { node, .. }
            | Self::Range { node, .. }
            | Self::Exit(ExitError::Gateway { node, .. }) => Some(node),
            Self::Exit(_)
            | Self::Masquerade(_)
            | Self::NetworkMasquerade(_)
            | Self::NoExternalAddress { .. }
            | Self::HostAddresses(_) => None,
        }
    }

    /// Whether something is only not there yet, so that nobody has to be told: the next event brings it.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::NoSubnet { cause, .. } | Self::Node { cause, .. } => cause.is_missing(),
            Self::Exit(error) => matches!(error, ExitError::NoState { .. }),
            Self::NoNodeId { .. }
            | Self::NoTransit { .. }
            | Self::Range { .. }
            | Self::Masquerade(_)
            | Self::NetworkMasquerade(_)
            | Self::NoExternalAddress { .. }
            | Self::HostAddresses(_) => false,
        }
    }
}

/// What is wanted of one network in one zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Each part's rows; an empty group is one of which nothing shall be there.
    pub parts: BTreeMap<Part, Rows>,
    /// Parts that cannot be planned: what is there of them stays.
    pub problems: BTreeMap<Part, PlanError>,
}

impl Plan {
    fn put(&mut self, part: Part, rows: Result<Rows, PlanError>) {
        match rows {
            Ok(rows) => drop(self.parts.insert(part, rows)),
            Err(error) => drop(self.problems.insert(part, error)),
        }
    }

    /// All rows as one group.
    #[must_use]
    pub fn rows(&self) -> Rows {
        let mut all = Rows::default();
        self.parts.values().cloned().for_each(|rows| all.extend(rows));
        all
    }
}

/// Where a network leads besides its own nodes, if it is one through which pods leave.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    /// Where it leaves the node.
    pub exit: &'a Result<Exit, ExitError>,
    /// Services of the default network that it reaches.
    pub services: &'a [DefaultService],
}

/// Plans one network. `remotes` are the other nodes on which it is in use.
#[must_use]
pub fn plan<'n>(
    cluster: &Cluster,
    network: &Network,
    node: &ZoneNode,
    ways: Ways<'_>,
    remotes: impl IntoIterator<Item = &'n ZoneNode>,
) -> Plan {
    let cx = Cx { cluster, network, node, names: network.names(), marks: network.marks() };
    let exit = ways.exit;
    let mut plan = match &network.shape {
        Shape::Default(primary) | Shape::Layer3Primary(primary) => {
            routed::primary(&cx, primary, exit, remotes)
        }
        Shape::Layer3Secondary => routed::secondary(&cx, remotes),
        Shape::Layer2Primary(layer2) => layer2::plan(&cx, layer2, exit, remotes),
        Shape::Layer2Secondary => secondary::layer2(&cx),
        Shape::Localnet { physical_network, vlan } => secondary::localnet(&cx, physical_network, *vlan),
    };
    services::ways(&cx, ways.services, &mut plan);
    plan
}

/// What every planner of a network looks at.
struct Cx<'a> {
    cluster: &'a Cluster,
    network: &'a Network,
    node: &'a ZoneNode,
    names: OvnNames,
    marks: Marks,
}

impl Cx<'_> {
    /// Its gateway router on this node.
    fn gateway_router(&self) -> String {
        self.names.gateway_router(self.node.name.as_str())
    }

    /// The switch with this node's pods.
    fn pod_switch(&self) -> String {
        self.network.pod_switch(self.node.name.as_str())
    }

    /// This node's subnets in the network.
    fn node_subnets(&self) -> Result<&[IpNet], PlanError> {
        subnets_of(self.network, self.node)
    }

    fn chassis(&self) -> Result<&str, PlanError> {
        chassis_of(self.node)
    }

    /// `gateway_mtu`, where the node's gateways can tell packets that are too large.
    fn gateway_mtu(&self) -> Pairs {
        let mtu = self.node.gateway_mtu.then(|| ("gateway_mtu", self.cluster.mtu.to_string()));
        pairs(mtu)
    }
}

fn subnets_of<'n>(network: &Network, node: &'n ZoneNode) -> Result<&'n [IpNet], PlanError> {
    node.subnets_of(network.name.as_str()).map_err(|cause| PlanError::NoSubnet {
        node: node.name.clone(),
        network: network.name.clone(),
        cause,
    })
}

fn chassis_of(node: &ZoneNode) -> Result<&str, PlanError> {
    let missing = |cause: &Untold| PlanError::Node { node: node.name.clone(), cause: cause.clone() };
    node.chassis.as_deref().map_err(missing)
}

fn id_of(node: &ZoneNode) -> Result<causeway_net::network::id::NodeId, PlanError> {
    node.id.clone().map_err(|cause| PlanError::NoNodeId { node: node.name.clone(), cause })
}

/// The node's addresses in the join ranges of the cluster's families.
fn join_of(join: &[IpNet], node: &ZoneNode) -> Result<Vec<IpNet>, PlanError> {
    let id = id_of(node)?;
    join.iter()
        .map(|range| {
            id.address_in(*range).map_err(|source| PlanError::Range { node: node.name.clone(), source })
        })
        .collect()
}

/// The MAC address of a port with several addresses: the first IPv4 one decides, else the last one.
fn mac_of(addresses: impl IntoIterator<Item = IpAddr>) -> String {
    let addresses: Vec<IpAddr> = addresses.into_iter().collect();
    let deciding = addresses.iter().find(|address| address.is_ipv4()).or(addresses.last());
    deciding.map(|address| MacAddress::of_ip(*address).to_string()).unwrap_or_default()
}

/// The port of a switch that a router's port is wired to.
fn router_type_port(name: &str, router_port: &str, address: &str) -> LogicalSwitchPort {
    LogicalSwitchPort {
        name: name.to_owned(),
        kind: "router".to_owned(),
        addresses: [address.to_owned()].into(),
        options: pairs([("router-port", router_port)]),
        ..LogicalSwitchPort::default()
    }
}

/// `other_config` of a switch with these subnets.
fn subnet_config(subnets: &[IpNet]) -> Pairs {
    pairs(subnets.iter().map(|subnet| match subnet {
        IpNet::V4(subnet) => ("subnet", subnet.trunc().to_string()),
        IpNet::V6(subnet) => ("ipv6_prefix", subnet.network().to_string()),
    }))
}

/// `other_config` of a switch that reaches over zones.
fn interconnect_config(switch: &str, tunnel_key: u32) -> Pairs {
    let mut config = pairs([
        ("mcast_snoop", "true"),
        ("mcast_querier", "false"),
        ("mcast_flood_unregistered", "true"),
        ("interconn-ts", switch),
    ]);
    config.insert("requested-tnl-key", &tunnel_key.to_string());
    config
}

fn gateway_chassis(port: &str, chassis: &str) -> GatewayChassis {
    GatewayChassis {
        name: causeway_net::network::ovn::gateway_chassis(port, chassis),
        chassis_name: chassis.to_owned(),
        priority: 1,
    }
}

fn route(prefix: String, nexthop: IpAddr, external_ids: Pairs) -> StaticRoute {
    StaticRoute { ip_prefix: prefix, nexthop: nexthop.to_string(), external_ids, ..StaticRoute::default() }
}

fn source_route(prefix: String, nexthop: IpAddr, external_ids: Pairs) -> StaticRoute {
    StaticRoute { policy: Some("src-ip".to_owned()), ..route(prefix, nexthop, external_ids) }
}

/// `ip4` or `ip6`, as expressions of OVN name the families.
fn ip_word(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip4" } else { "ip6" }
}

fn switch(name: String, other_config: Pairs, external_ids: Pairs) -> LogicalSwitch {
    LogicalSwitch { name, other_config, external_ids, ..LogicalSwitch::default() }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod examples;
#[cfg(test)]
pub(in crate::topology) mod fixture;
