//! What the management port of a network is. Pure.
//!
//! Source: ovn-kubernetes, `pkg/node/managementport`, `util.GetNodeManagementIfAddr`, `util.GetNodeGatewayIfAddr`. The same
//! addresses and MAC stand in OVN: `topology::plan` computes them for the port there, and a test holds both to each other.

use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::id::NetworkId;
use causeway_net::network::masquerade;
use causeway_net::network::name::NetworkName;
use causeway_net::network::offset::{OutOfRange, nth};
use ipnet::IpNet;

use crate::topology::cluster::Cluster;
use crate::topology::network::{Network, Shape};
use crate::topology::node::{Untold, ZoneNode};

/// Beginning of the names of management ports. Source: ovn-kubernetes, `types.K8sMgmtIntfNamePrefix`.
pub const PREFIX: &str = "ovn-k8s-mp";

/// Positions of the router's and the node's own address in a subnet.
const GATEWAY: u32 = 1;
const MANAGEMENT: u32 = 2;

/// The management port of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedNetwork {
    /// The network's name.
    pub network: NetworkName,
    /// Its id.
    pub id: NetworkId,
    /// Logical port in OVN: `iface-id` of the interface.
    pub interface_id: String,
    /// MAC address.
    pub mac: MacAddress,
    /// Largest packet.
    pub mtu: u32,
    /// Its addresses, of all families that the network has here.
    pub addresses: Vec<IpNet>,
    /// What else the kernel needs for the default network; none for others, whose routes stand in their VRF.
    pub default: Option<DefaultRoutes>,
}

/// Ways through the default network's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultRoutes {
    /// Destinations, each by a router.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// Where the routers are: their one MAC address.
    pub neighbours: Vec<(IpAddr, MacAddress)>,
}

/// Why there is no port yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPort {
    /// The node does not say enough.
    #[error(transparent)]
    Untold(#[from] Untold),
    /// A subnet ends before its second address.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// There is no subnet.
    #[error("network {0} has no subnet here")]
    NoSubnet(NetworkName),
    /// The MAC that the node tells is none.
    #[error("MAC address {0:?} of the management port cannot be read")]
    Mac(String),
}

impl ManagedNetwork {
    /// Name of the interface: at most four digits follow, so it is never longer than the kernel allows.
    #[must_use]
    pub fn interface(&self) -> String {
        format!("{PREFIX}{}", self.id.get())
    }

    /// The port of a network on a node; none for a network through which pods do not leave. `mtu` is that of networks that
    /// name none.
    ///
    /// # Errors
    /// What it would be made of is not known.
    pub fn of(
        network: &Network,
        node: &ZoneNode,
        cluster: &Cluster,
        mtu: u32,
    ) -> Result<Option<Self>, NoPort> {
        let (subnets, gateways, blocks) = match &network.shape {
            Shape::Default(_) | Shape::Layer3Primary(_) => {
                (node.subnets_of(network.name.as_str())?, &[][..], &[][..])
            }
            Shape::Layer2Primary(layer2) => {
                (network.subnets.as_slice(), layer2.gateways.as_slice(), layer2.infrastructure.as_slice())
            }
            Shape::Layer3Secondary | Shape::Layer2Secondary | Shape::Localnet { .. } => return Ok(None),
        };
        let own = subnets.iter().map(|subnet| Own::of(*subnet, gateways, blocks));
        let own: Vec<Own> = own.collect::<Result<_, _>>()?;
        let first = own.first().ok_or_else(|| NoPort::NoSubnet(network.name.clone()))?;
        let told = network.is_default().then(|| node.management_macs.get(NetworkName::DEFAULT)).flatten();
        let mac = match told {
            Some(text) => text.parse().map_err(|_| NoPort::Mac(text.clone()))?,
            None => MacAddress::of_ip(first.management),
        };
        Ok(Some(Self {
            network: network.name.clone(),
            id: network.id,
            interface_id: network.names().management_port(node.name.as_str()),
            mac,
            mtu: network.mtu.unwrap_or(mtu),
            addresses: own.iter().map(Own::address).collect(),
            default: network.is_default().then(|| routes(cluster, &own)),
        }))
    }
}

/// The addresses of one subnet that are not for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    subnet: IpNet,
    gateway: IpAddr,
    management: IpAddr,
}

impl Own {
    fn of(subnet: IpNet, gateways: &[IpAddr], blocks: &[IpNet]) -> Result<Self, OutOfRange> {
        let named = gateways.iter().copied().find(|gateway| subnet.contains(gateway));
        let gateway = named.map_or_else(|| nth(subnet, GATEWAY), Ok)?;
        let block = blocks.iter().find(|block| subnet.contains(*block));
        let of_block = block.and_then(|block| {
            let hosts = [1, 2].into_iter().filter_map(|position| nth(*block, position).ok());
            hosts.into_iter().find(|address| *address != gateway)
        });
        let management = of_block.map_or_else(|| nth(subnet, MANAGEMENT), Ok)?;
        Ok(Self { subnet, gateway, management })
    }

    /// With the subnet's length, which is of the same family.
    fn address(&self) -> IpNet {
        IpNet::new_assert(self.management, self.subnet.prefix_len())
    }
}

/// Where the node finds the default network's pods, and those of services that keep the client's address.
fn routes(cluster: &Cluster, own: &[Own]) -> DefaultRoutes {
    let mut ways = DefaultRoutes::default();
    // The router has one MAC address, made of its IPv4 address where it has one.
    let four = own.iter().find(|own| own.gateway.is_ipv4()).or_else(|| own.first());
    for own in own {
        let like = |net: &&IpNet| net.addr().is_ipv4() == own.gateway.is_ipv4();
        let pods = cluster.subnets.iter().filter(like).map(IpNet::trunc);
        let ranges = cluster.masquerade.iter().filter(like);
        let local = ranges.filter_map(|range| masquerade::shared(*range).ok());
        let destinations = pods.chain(local.map(|shared| IpNet::from(shared.host_local_traffic)));
        ways.routes.extend(destinations.map(|destination| (destination, own.gateway)));
        ways.neighbours.extend(four.map(|four| (own.gateway, MacAddress::of_ip(four.gateway))));
    }
    ways
}

#[cfg(test)]
mod tests;
