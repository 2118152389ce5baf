//! A network as the topology sees it: what its NADs say, as numbers.

use causeway_api::nad::Config;
use causeway_api::network::{Topology, Transport};
use causeway_net::addresses::{Addresses, BadAddresses};
use causeway_net::network::id::NetworkId;
use causeway_net::network::name::NetworkName;
use causeway_net::network::ovn::{self, OvnNames};
use causeway_net::network::tunnel_key::{ForeignKeys, TunnelKey, TunnelKeys};
use ipnet::IpNet;

use super::cluster::{Cluster, USER_JOIN, USER_TRANSIT};
use super::mark::{Marks, Words};

/// One network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: NetworkName,
    /// Its id.
    pub id: NetworkId,
    /// How its nodes are joined, with what only such a network has.
    pub shape: Shape,
    /// What pods get addresses of; for the default network the cluster's subnets.
    pub subnets: Vec<IpNet>,
    /// Largest packet, where the network has one of its own.
    pub mtu: Option<u32>,
}

/// How the nodes of a network are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The cluster's default network.
    Default(Primary),
    /// Each node has its own subnet; pods leave through the network.
    Layer3Primary(Primary),
    /// Each node has its own subnet; a further interface of pods.
    Layer3Secondary,
    /// One subnet over all nodes; pods leave through the network.
    Layer2Primary(Layer2),
    /// One subnet over all nodes; a further interface of pods.
    Layer2Secondary,
    /// One subnet in the underlay.
    Localnet {
        /// Name of the underlay's network in the bridge mappings.
        physical_network: String,
        /// VLAN in the underlay.
        vlan: Option<u32>,
    },
}

/// What a network has through which pods leave a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Ranges between its routers, of the cluster's families.
    pub join: Vec<IpNet>,
    /// Name of the Uplink that leads out; none for the default gateway.
    pub uplink: Option<String>,
}

/// What a layer 2 primary network has besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer2 {
    /// As other primary networks.
    pub primary: Primary,
    /// Ranges between the routers of its nodes, of the network's families.
    pub transit: Vec<IpNet>,
    /// Tunnel key of the switch.
    pub switch_key: TunnelKey,
    /// Tunnel key of the transit router.
    pub router_key: TunnelKey,
    /// Addresses of the gateway, where the config names some.
    pub gateways: Vec<std::net::IpAddr>,
    /// Subnets of the nodes' own ports, where the config names some.
    pub infrastructure: Vec<IpNet>,
}

/// Why a network has no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Its subnets mean nothing.
    #[error(transparent)]
    Addresses(#[from] BadAddresses),
    /// Only the default network has id 0.
    #[error("network {0}: invalid argument: network ID should be bigger that 0")]
    NoId(NetworkName),
    /// Layer 2 primary networks have two keys.
    #[error(
        "layer2 network {network} with transit router enabled requires exactly 2 tunnel keys, got: {keys:?}"
    )]
    TunnelKeys {
        /// The network.
        network: NetworkName,
        /// What is annotated.
        keys: Vec<u32>,
    },
    /// The two keys are not this network's.
    #[error("network {network}")]
    ForeignKeys {
        /// The network.
        network: NetworkName,
        /// What is wrong.
        #[source]
        source: ForeignKeys,
    },
    /// A value that this version has no rows for.
    #[error("network {network}: {what} is not supported")]
    Unsupported {
        /// The network.
        network: NetworkName,
        /// What.
        what: String,
    },
    /// A gateway of the config is no address.
    #[error("network {network}: invalid default gateway IP {text:?}")]
    Gateway {
        /// The network.
        network: NetworkName,
        /// What it is.
        text: String,
    },
    /// Another network has the same prefix.
    #[error("network {network} has the same names in OVN as network {holder}: rename one of them")]
    PrefixTaken {
        /// The network.
        network: NetworkName,
        /// Who has the prefix.
        holder: NetworkName,
    },
}

impl Network {
    /// The cluster's default network.
    #[must_use]
    pub fn default_network(cluster: &Cluster) -> Self {
        let join = cluster.of_families(&cluster.join).copied().collect();
        Self {
            name: NetworkName::default_network(),
            id: NetworkId::DEFAULT,
            shape: Shape::Default(Primary { join, uplink: None }),
            subnets: cluster.subnets.iter().map(IpNet::trunc).collect(),
            mtu: None,
        }
    }

    /// A network from the config of one of its NADs and what the cluster manager annotated there.
    ///
    /// # Errors
    /// The config means nothing, or asks for something that there are no rows for.
    pub fn of(
        config: &Config,
        id: NetworkId,
        tunnel_keys: &[u32],
        cluster: &Cluster,
    ) -> Result<Self, NetworkError> {
        let name = NetworkName::from(config.name.as_str());
        let Some(topology) = &config.topology else { return Ok(Self::default_network(cluster)) };
        if id.is_default() {
            return Err(NetworkError::NoId(name));
        }
        let unsupported = |what: String| NetworkError::Unsupported { network: name.clone(), what };
        match &config.transport {
            None => {}
            Some(Transport::NoOverlay) => return Err(unsupported("transport no-overlay".to_owned())),
            Some(Transport::Evpn) => return Err(unsupported("transport evpn".to_owned())),
            Some(Transport::Unknown(other)) => return Err(unsupported(format!("transport {other}"))),
        }
        let addresses = Addresses::of(config)?;
        let subnets: Vec<IpNet> = addresses.subnets.networks().iter().map(IpNet::trunc).collect();
        let primary = || Primary {
            join: chosen(&addresses.join, &USER_JOIN, |range| cluster.of_families(range).copied().collect()),
            uplink: config.uplink.clone(),
        };
        let shape = match (topology, config.is_primary()) {
            (Topology::Layer3, true) => Shape::Layer3Primary(primary()),
            (Topology::Layer3, false) => Shape::Layer3Secondary,
            (Topology::Layer2, true) => {
                let (switch_key, router_key) = keys(&name, id, tunnel_keys)?;
                let of_network = |ranges: &[IpNet]| {
                    let has = |range: &&IpNet| subnets.iter().any(|subnet| is_four(subnet) == is_four(range));
                    ranges.iter().filter(has).copied().collect()
                };
                let gateway = |text: &String| {
                    text.parse()
                        .map_err(|_| NetworkError::Gateway { network: name.clone(), text: text.clone() })
                };
                Shape::Layer2Primary(Layer2 {
                    primary: primary(),
                    transit: chosen(&addresses.transit, &USER_TRANSIT, of_network),
                    switch_key,
                    router_key,
                    gateways: config.default_gateway_ips.iter().map(gateway).collect::<Result<_, _>>()?,
                    infrastructure: addresses.infrastructure.clone(),
                })
            }
            (Topology::Layer2, false) => Shape::Layer2Secondary,
            (Topology::Localnet, _) => Shape::Localnet {
                physical_network: config.physical_network.clone().unwrap_or_else(|| config.name.clone()),
                vlan: config.vlan,
            },
            (Topology::Unknown(other), _) => return Err(unsupported(format!("topology {other}"))),
        };
        Ok(Self { name, id, shape, subnets, mtu: config.mtu })
    }

    /// Names of its rows.
    #[must_use]
    pub fn names(&self) -> OvnNames {
        OvnNames::of(&self.name)
    }

    /// Marks of its rows.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let words = |topology, role| Some(Words { topology, role });
        let words = match &self.shape {
            Shape::Default(_) => None,
            Shape::Layer3Primary(_) => words("layer3", "primary"),
            Shape::Layer3Secondary => words("layer3", "secondary"),
            Shape::Layer2Primary(_) => words("layer2", "primary"),
            Shape::Layer2Secondary => words("layer2", "secondary"),
            Shape::Localnet { .. } => words("localnet", "secondary"),
        };
        Marks::of(&self.name, words)
    }

    /// What the network has as one through which pods leave.
    #[must_use]
    pub fn primary(&self) -> Option<&Primary> {
        match &self.shape {
            Shape::Default(primary) | Shape::Layer3Primary(primary) => Some(primary),
            Shape::Layer2Primary(layer2) => Some(&layer2.primary),
            Shape::Layer3Secondary | Shape::Layer2Secondary | Shape::Localnet { .. } => None,
        }
    }

    /// Name of the router that joins its nodes' parts, where it has one.
    #[must_use]
    pub fn distributed_router(&self) -> Option<String> {
        let names = self.names();
        match &self.shape {
            Shape::Default(_) | Shape::Layer3Primary(_) | Shape::Layer3Secondary => {
                Some(names.cluster_router())
            }
            Shape::Layer2Primary(_) => Some(names.transit_router()),
            Shape::Layer2Secondary | Shape::Localnet { .. } => None,
        }
    }

    /// Name of the switch with a node's pods.
    #[must_use]
    pub fn pod_switch(&self, node: &str) -> String {
        let names = self.names();
        match &self.shape {
            Shape::Default(_) | Shape::Layer3Primary(_) | Shape::Layer3Secondary => names.node_switch(node),
            Shape::Layer2Primary(_) | Shape::Layer2Secondary => names.layer2_switch(),
            Shape::Localnet { .. } => names.localnet_switch(),
        }
    }

    /// Name of the pod switch's port to the router, where there is a router.
    #[must_use]
    pub fn router_port_of_pod_switch(&self, node: &str) -> Option<String> {
        let switch = self.pod_switch(node);
        match &self.shape {
            Shape::Default(_) | Shape::Layer3Primary(_) | Shape::Layer3Secondary => {
                Some(ovn::switch_to_router(&switch))
            }
            Shape::Layer2Primary(_) => Some(ovn::switch_to_transit_router(&switch)),
            Shape::Layer2Secondary | Shape::Localnet { .. } => None,
        }
    }

    /// Whether this is the default network.
    #[must_use]
    pub fn is_default(&self) -> bool {
        matches!(self.shape, Shape::Default(_))
    }
}

/// The networks that can be in one zone together, and why the others cannot: of several whose rows would have the same
/// names, the one with the lowest id stays.
#[must_use]
pub fn admitted(networks: Vec<Network>) -> (Vec<Network>, Vec<NetworkError>) {
    let collisions = ovn::prefix_collisions(networks.iter().map(|network| (&network.name, network.id)));
    let refused: Vec<NetworkError> = collisions
        .into_iter()
        .map(|(network, holder)| NetworkError::PrefixTaken {
            network: network.clone(),
            holder: holder.clone(),
        })
        .collect();
    let is_refused = |name: &NetworkName| {
        refused
            .iter()
            .any(|error| matches!(error, NetworkError::PrefixTaken { network, .. } if network == name))
    };
    let admitted = networks.into_iter().filter(|network| !is_refused(&network.name)).collect();
    (admitted, refused)
}

fn is_four(range: &IpNet) -> bool {
    matches!(range, IpNet::V4(_))
}

/// The ranges that a config names, else those that a network has without.
fn chosen(named: &[IpNet], default: &[&str], keep: impl Fn(&[IpNet]) -> Vec<IpNet>) -> Vec<IpNet> {
    if named.is_empty() {
        let default: Vec<IpNet> = default.iter().filter_map(|text| text.parse().ok()).collect();
        keep(&default)
    } else {
        keep(named)
    }
}

fn keys(name: &NetworkName, id: NetworkId, keys: &[u32]) -> Result<(TunnelKey, TunnelKey), NetworkError> {
    if keys.len() != 2 {
        return Err(NetworkError::TunnelKeys { network: name.clone(), keys: keys.to_vec() });
    }
    let router = TunnelKeys::second_of(keys, id)
        .map_err(|source| NetworkError::ForeignKeys { network: name.clone(), source })?;
    Ok((TunnelKey::of(id), router))
}
