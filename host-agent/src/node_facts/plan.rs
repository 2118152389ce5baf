//! The annotations of the host. Pure.
//!
//! Source: ovn-kubernetes, `pkg/node/node_ip_handler_linux.go`, `initGatewayDPUHostPreStart` of
//! `pkg/node/gateway_init.go`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_agent::half::HostSide;
use causeway_agent::node_facts::Facts;
use causeway_agent::node_facts::view::NodeView;
use causeway_api::annotation::node::{self as keys, Addresses};
use causeway_net::host_data::HostData;
use causeway_runtime::settings::{Families, SubnetPair};
use ipnet::IpNet;

/// Beginning of the names of management ports. Source: ovn-kubernetes, `types.K8sMgmtIntfNamePrefix`.
pub(super) const MANAGEMENT_PORT: &str = "ovn-k8s-mp";

/// Addresses of egress IPs on this node; they are lent, not the node's. JSON arrays of addresses.
/// Source: ovn-kubernetes, `pkg/util/node_annotations.go`.
const LENT: [&str; 2] = ["k8s.ovn.org/secondary-host-egress-ips", "k8s.ovn.org/bridge-egress-ips"];

/// The gateway interface that is the one with the management port's function: comes with management ports of cards.
const BY_MANAGEMENT_PORT: &str = "derive-from-mgmt-port";

/// What of the settings plays a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Families of the cluster.
    pub families: Families,
    /// Masquerade ranges.
    pub masquerade: SubnetPair,
    /// The bridge is on a card.
    pub has_card: bool,
    /// Interface that leads out, on the host of a card.
    pub gateway_interface: Option<String>,
}

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its interface.
    pub interface: String,
    /// Address and prefix length.
    pub net: IpNet,
}

/// All facts of the host.
pub(super) fn facts(options: &Options, node: &NodeView, found: &[Found], eyes: &dyn HostSide) -> Facts {
    let mut facts = Facts::default();
    let ranges = Addresses { ipv4: Some(options.masquerade.v4), ipv6: Some(options.masquerade.v6) };
    facts.tell(keys::MASQUERADE_SUBNETS, keys::render_addresses(&ranges));
    if options.has_card {
        behind_card(options, node, found, eyes, &mut facts);
    } else {
        let cidrs = cidrs(options, node, found);
        if cidrs.is_empty() {
            // At start interfaces may not be set up yet: an empty list would take services away from the node.
            facts.wait("this node has no address of the cluster's families");
        } else {
            facts.tell(keys::HOST_CIDRS, keys::render_host_cidrs(&cidrs));
        }
    }
    facts
}

/// Every address of the host that others can reach it by and that is its own.
fn cidrs(options: &Options, node: &NodeView, found: &[Found]) -> Vec<IpNet> {
    let lent = lent(node);
    let own = found.iter().filter(|found| {
        let ip = found.net.addr();
        let enabled = if ip.is_ipv4() { options.families.ipv4 } else { options.families.ipv6 };
        let reserved = match ip {
            IpAddr::V4(ip) => options.masquerade.v4.contains(&ip),
            IpAddr::V6(ip) => options.masquerade.v6.contains(&ip),
        };
        enabled
            && !reserved
            && !is_local(ip)
            && !lent.contains(&ip)
            && !found.interface.starts_with(MANAGEMENT_PORT)
    });
    own.map(|found| found.net).collect()
}

fn is_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

/// What cannot be read lends nothing.
fn lent(node: &NodeView) -> BTreeSet<IpAddr> {
    let texts = LENT.iter().filter_map(|key| node.annotations.get(*key));
    let lists = texts.filter_map(|text| keys::read_encap_ips(text).ok());
    lists.flat_map(|read| read.value).collect()
}

/// The host of a card tells where Kubernetes finds it, and the address of what leads to the card.
fn behind_card(options: &Options, node: &NodeView, found: &[Found], eyes: &dyn HostSide, facts: &mut Facts) {
    let Some(address) = node.address else {
        facts.wait(format!("{} doesn't have an address with type InternalIP or ExternalIP", node.name));
        return;
    };
    let around = found.iter().find(|found| found.net.contains(&address) && !is_local(found.net.addr()));
    let Some(known_by) = around.map(|found| found.interface.as_str()) else {
        facts.problem(
            "GatewayInfoUnavailable",
            format!("failed to find network interface with IP: {address}"),
        );
        return;
    };
    let gateway = options.gateway_interface.as_deref().unwrap_or(known_by);
    if gateway == BY_MANAGEMENT_PORT {
        facts.problem(
            "GatewayInfoUnavailable",
            "--gateway-interface=derive-from-mgmt-port comes with management ports on cards: name the interface",
        );
        return;
    }
    let Some(primary) = data(eyes, gateway, facts) else { return };
    let known = if gateway == known_by { Some(primary.clone()) } else { data(eyes, known_by, facts) };
    let Some(known) = known else { return };
    let both = nets(&known).chain(nets(&primary));
    // Differs from upstream, which tells the IPv4 addresses alone.
    facts.tell(keys::HOST_CIDRS, keys::render_host_cidrs(&both.collect::<Vec<_>>()));
    let mut addresses = Addresses::default();
    for net in nets(&primary) {
        match net {
            IpNet::V4(net) => addresses.ipv4 = Some(net),
            IpNet::V6(net) => addresses.ipv6 = Some(net),
        }
    }
    facts.tell(keys::DPU_HOST_ADDRESSES, keys::render_addresses(&addresses));
}

fn data(eyes: &dyn HostSide, interface: &str, facts: &mut Facts) -> Option<HostData> {
    match eyes.host_data(interface) {
        Ok(Ok(data)) => return Some(data),
        Ok(Err(failure)) => facts.problem(failure.reason.as_str(), failure.message),
        Err(missed) => facts.wait(missed.message),
    }
    None
}

fn nets(data: &HostData) -> impl Iterator<Item = IpNet> + '_ {
    data.addresses.iter().filter_map(|address| IpNet::new(address.address, address.prefix).ok())
}

#[cfg(test)]
mod tests;
