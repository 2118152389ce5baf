//! What holds for every network of a cluster.

use std::net::IpAddr;

use causeway_net::ipam::nodes::Family;
use causeway_net::network::id::NetworkId;
use causeway_net::network::masquerade::{self, MasqueradeError, RangeTooSmall, SharedMasquerade};
use causeway_net::network::offset::OutOfRange;
use ipnet::IpNet;

/// Settings of the cluster that show in rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Subnets of the default network. Their families are the cluster's.
    pub subnets: Vec<IpNet>,
    /// Ranges between the routers of the default network.
    pub join: Vec<IpNet>,
    /// Ranges of masquerade addresses, one of each family whatever the cluster's families are.
    pub masquerade: Vec<IpNet>,
    /// Largest packet that gateways let through.
    pub mtu: u32,
    /// Whether services have node ports, for gateways that do not say so themselves.
    pub node_ports: bool,
    /// Ports that translations use, as `first-last`; none leaves it to OVN.
    pub port_range: Option<String>,
    /// Whether networks carry multicast.
    pub multicast: bool,
    /// Packets of each kind that a chassis handles in a second. Upstream's is fixed.
    pub copp_rate: i64,
    /// Log lines of access rules in a second.
    pub acl_log_rate: i64,
    /// Port of Geneve, where it is not 6081.
    pub geneve_port: Option<u16>,
}

/// Ranges between the routers of a primary network whose config names none.
/// Source: ovn-kubernetes `config.ClusterManager` defaults.
pub const USER_JOIN: [&str; 2] = ["100.65.0.0/16", "fd99::/64"];

/// Ranges between the routers of the nodes of a layer 2 primary network whose config names none.
pub const USER_TRANSIT: [&str; 2] = ["100.88.0.0/16", "fd97::/64"];

/// Packets per second of the limits that upstream sets. Source: ovn-kubernetes `pkg/ovn/copp.go`.
pub const COPP_RATE: i64 = 25;

/// Log lines per second. Source: ovn-kubernetes `config.Logging`.
pub const ACL_LOG_RATE: i64 = 20;

impl Cluster {
    /// Whether the cluster has addresses of a family.
    #[must_use]
    pub fn has(&self, family: Family) -> bool {
        self.subnets.iter().any(|subnet| Family::of(subnet) == family)
    }

    /// Those of some ranges that are of the cluster's families, IPv4 first.
    pub(super) fn of_families<'r>(&self, ranges: &'r [IpNet]) -> impl Iterator<Item = &'r IpNet> {
        let (four, six) = (self.has(Family::V4), self.has(Family::V6));
        let of = move |family: Family, on: bool| {
            ranges.iter().filter(move |range| on && Family::of(range) == family)
        };
        of(Family::V4, four).chain(of(Family::V6, six))
    }

    /// The shared masquerade addresses of each of the cluster's families.
    ///
    /// # Errors
    /// A range ends before them.
    pub(super) fn shared(&self) -> Result<Vec<(IpNet, SharedMasquerade)>, OutOfRange> {
        self.of_families(&self.masquerade)
            .map(|range| masquerade::shared(*range).map(|shared| (range.trunc(), shared)))
            .collect()
    }

    /// The masquerade addresses of a network's gateway router and management port, in each of the cluster's families.
    ///
    /// # Errors
    /// The network has no id that may have some, or a range ends before them.
    pub(super) fn of_network(&self, id: NetworkId) -> Result<Vec<(IpAddr, IpAddr)>, MasqueradeError> {
        self.of_families(&self.masquerade)
            .map(|range| {
                let both = masquerade::of_network(*range, id)?;
                Ok((both.gateway_router.addr(), both.management_port.addr()))
            })
            .collect()
    }

    /// Whether the masquerade ranges hold every network that there can be. Asked at start: upstream finds out network by
    /// network, and retries for ever.
    ///
    /// # Errors
    /// The first range that is too small.
    pub fn check(&self) -> Result<(), RangeTooSmall> {
        self.of_families(&self.masquerade).try_for_each(|range| masquerade::check_holds_every_network(*range))
    }
}

/// The address of a list that is of the same family as another one.
pub(super) fn same_family<A: Copy + Into<IpAddr>>(
    addresses: impl IntoIterator<Item = A>,
    like: IpAddr,
) -> Option<A> {
    addresses.into_iter().find(|address| (*address).into().is_ipv4() == like.is_ipv4())
}

/// The block of all addresses that are this one.
pub(super) fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}
