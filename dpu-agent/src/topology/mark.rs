//! Marks: the notes in `external_ids` that say whose a row is. Source: ovn-kubernetes `types` and `libovsdb/ops`.
//!
//! These are upstream's marks and no others: a row that upstream wrote for the same network is one of ours, so a cluster
//! can change over without a single row changing.

use causeway_net::network::name::NetworkName;

pub use causeway_net::network::object_id::{OWNER_CONTROLLER, OWNER_TYPE};

use super::northbound::Pairs;

/// The network of a row; its raw name.
pub const NETWORK: &str = "k8s.ovn.org/network";
/// How the network's nodes are joined.
pub const TOPOLOGY: &str = "k8s.ovn.org/topology";
/// What the network is to a pod.
pub const ROLE: &str = "k8s.ovn.org/role";
/// The remote node that a row of a layer 2 network stands for.
pub const NODE: &str = "k8s.ovn.org/node";
/// The node of a port of a transit switch.
pub const TRANSIT_NODE: &str = "node";
/// The remote node that a route between zones leads to.
pub const ROUTE_NODE: &str = "ic-node";
/// A distributed router.
pub const CLUSTER_ROUTER: &str = "k8s-cluster-router";
/// The first address outside of a gateway router.
pub const PHYSICAL_IP: &str = "physical_ip";
/// All of them.
pub const PHYSICAL_IPS: &str = "physical_ips";
/// The port with the node's own address.
pub const GATEWAY_PHYSICAL_IP: &str = "gateway-physical-ip";
/// The route to the masquerade range of the default network.
pub const MASQUERADE_ROUTE: &str = "k8s.ovn.org/node-masquerade-subnet";
/// The Service that a route leads to, of those that every network reaches.
pub const DEFAULT_SERVICE: &str = "k8s.ovn.org/udn-enabled-default-service";

/// Every note that the topology writes; notes of others in the same rows stay.
pub const KEYS: &[&str] = &[
    NETWORK,
    TOPOLOGY,
    ROLE,
    NODE,
    TRANSIT_NODE,
    ROUTE_NODE,
    CLUSTER_ROUTER,
    PHYSICAL_IP,
    PHYSICAL_IPS,
    GATEWAY_PHYSICAL_IP,
    MASQUERADE_ROUTE,
    DEFAULT_SERVICE,
];

/// The words of topologies and roles, as rows carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The topology's.
    pub topology: &'static str,
    /// The role's.
    pub role: &'static str,
}

/// The marks of one network's rows; none for the default network's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    network: Option<(String, Words)>,
}

impl Marks {
    /// The marks of a network.
    #[must_use]
    pub fn of(network: &NetworkName, words: Option<Words>) -> Self {
        Self { network: words.map(|words| (network.as_str().to_owned(), words)) }
    }

    /// Network and topology.
    #[must_use]
    pub fn plain(&self) -> Pairs {
        let words = self
            .network
            .iter()
            .flat_map(|(network, words)| [(NETWORK, network.as_str()), (TOPOLOGY, words.topology)]);
        words.collect()
    }

    /// Network, topology and role.
    #[must_use]
    pub fn with_role(&self) -> Pairs {
        let mut pairs = self.plain();
        pairs.extend(self.network.iter().map(|(_, words)| (ROLE, words.role)));
        pairs
    }
}

/// Pairs from texts.
pub(super) fn pairs<K: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (K, V)>) -> Pairs {
    pairs.into_iter().collect()
}
