//! The node's own interface in a network.

use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use causeway_net::network::name::NetworkName;
use causeway_net::network::offset::nth;
use ipnet::IpNet;

use super::super::network::Shape;
use super::super::northbound::LogicalSwitchPort;
use super::super::rows::Rows;
use super::{Cx, PlanError, shared};

/// Positions of the gateway's and the node's own address in a subnet.
/// Source: ovn-kubernetes `util.GetNodeGatewayIfAddr`, `util.GetNodeManagementIfAddr`.
const GATEWAY: u32 = 1;
const MANAGEMENT: u32 = 2;

/// The addresses of one subnet that are not for pods.
#[derive(Clone, Copy)]
pub(super) struct Own {
    /// The subnet.
    pub(super) subnet: IpNet,
    /// The router's.
    pub(super) gateway: IpAddr,
    /// The node's.
    pub(super) management: IpAddr,
}

impl Own {
    /// The router's with the subnet's length.
    pub(super) fn gateway_net(&self) -> IpNet {
        // The length is that of a subnet of the same family.
        IpNet::new_assert(self.gateway, self.subnet.prefix_len())
    }
}

/// What is not for pods in each of some subnets.
pub(super) fn own(cx: &Cx<'_>, subnets: &[IpNet]) -> Result<Vec<Own>, PlanError> {
    let range = |source| PlanError::Range { node: cx.node.name.clone(), source };
    let (gateways, infrastructure) = match &cx.network.shape {
        Shape::Layer2Primary(layer2) => (layer2.gateways.as_slice(), layer2.infrastructure.as_slice()),
        _ => (&[][..], &[][..]),
    };
    let one = |subnet: &IpNet| {
        let named = gateways.iter().copied().find(|address| subnet.contains(address));
        let gateway = match named {
            Some(address) => address,
            None => nth(*subnet, GATEWAY).map_err(range)?,
        };
        let part = infrastructure.iter().find(|part| subnet.contains(*part));
        let management = match part.and_then(|part| first_besides(*part, gateway)) {
            Some(address) => address,
            None => nth(*subnet, MANAGEMENT).map_err(range)?,
        };
        Ok(Own { subnet: *subnet, gateway, management })
    };
    subnets.iter().map(one).collect()
}

/// The first address of a block that a host can have and that is not the gateway's.
fn first_besides(block: IpNet, gateway: IpAddr) -> Option<IpAddr> {
    [1, 2].into_iter().filter_map(|index| nth(block, index).ok()).find(|address| *address != gateway)
}

/// The MAC address of the node's interface: what the node says for the default network, else that of its address in the
/// first subnet, whatever that one's family is.
fn mac(cx: &Cx<'_>, own: &[Own]) -> String {
    let told = cx.network.is_default().then(|| cx.node.management_macs.get(NetworkName::DEFAULT)).flatten();
    let computed = || own.first().map(|own| MacAddress::of_ip(own.management).to_string());
    told.map(|mac| mac.to_ascii_lowercase()).or_else(computed).unwrap_or_default()
}

/// The interface's port, and the rules that let it reach pods.
pub(super) fn port(cx: &Cx<'_>, rows: &mut Rows, switch: &str, own: &[Own]) {
    let mut address = mac(cx, own);
    for own in own {
        address.push(' ');
        address.push_str(&own.management.to_string());
        shared::node_rule(cx, rows, switch, own.management);
    }
    let name = cx.names.management_port(cx.node.name.as_str());
    let row = LogicalSwitchPort { name, addresses: [address].into(), ..LogicalSwitchPort::default() };
    rows.switch_port(switch, row);
    shared::members(cx, rows);
}

/// The translation of what leaves by the node's interface: from the network's addresses, which may be another network's
/// too, to one that is this network's alone.
pub(super) fn translation(
    cx: &Cx<'_>,
    rows: &mut Rows,
    router: &str,
    port: &str,
    own: &[Own],
) -> Result<(), PlanError> {
    let masquerade = cx.cluster.of_network(cx.network.id)?;
    let Some(first) = own.first() else { return Ok(()) };
    let mac = MacAddress::of_ip(first.management);
    for own in own {
        let like = own.management.is_ipv4();
        let Some((_, external)) = masquerade.iter().find(|(_, address)| address.is_ipv4() == like) else {
            continue;
        };
        let mut nat = super::gateway::source_nat(cx, *external, &own.subnet.trunc().to_string());
        nat.logical_port = Some(port.to_owned());
        nat.condition = format!("eth.dst == {mac}");
        rows.nat(router, nat);
    }
    Ok(())
}
