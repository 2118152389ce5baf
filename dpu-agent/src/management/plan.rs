//! What the kernel lacks of a management port. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_net::mac::MacAddress;
use ipnet::IpNet;

use super::network::ManagedNetwork;

/// What the kernel has of a management port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the link is up.
    pub up: bool,
    /// Its MAC address.
    pub mac: Option<MacAddress>,
    /// Its addresses, those of the link alone left out.
    pub addresses: Vec<IpNet>,
    /// Routes of the main table over it, by a router.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// Its permanent neighbours.
    pub neighbours: Vec<(IpAddr, MacAddress)>,
    /// Settings by path; those that the kernel does not have are left out.
    pub sysctls: BTreeMap<String, String>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A setting of the kernel.
    Sysctl {
        /// Its path below `/proc/sys`.
        path: String,
        /// Its value.
        value: &'static str,
    },
    /// The link goes up.
    SetUp,
    /// An address goes.
    RemoveAddress(IpNet),
    /// An address comes.
    AddAddress(IpNet),
    /// A route of the main table comes, or leads by another router.
    Route {
        /// Destination.
        destination: IpNet,
        /// Router.
        gateway: IpAddr,
    },
    /// A neighbour is where it is, for ever.
    Neighbour {
        /// Its address.
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddress,
    },
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sysctl { path, value } => write!(f, "set {path} to {value}"),
            Self::SetUp => f.write_str("set up"),
            Self::RemoveAddress(address) => write!(f, "remove {address}"),
            Self::AddAddress(address) => write!(f, "add {address}"),
            Self::Route { destination, gateway } => write!(f, "route {destination} via {gateway}"),
            Self::Neighbour { address, mac } => write!(f, "neighbour {address} at {mac}"),
        }
    }
}

/// Settings that a port needs: packets are forwarded between it and others, and their way back may be another one.
/// Source: ovn-kubernetes, `pkg/node/managementport/port_linux.go`.
#[must_use]
pub fn sysctls(port: &ManagedNetwork) -> Vec<(String, &'static str)> {
    let (name, has) = (port.interface(), |four: bool| {
        port.addresses.iter().any(|address| address.addr().is_ipv4() == four)
    });
    let mut wanted = Vec::new();
    if has(true) {
        wanted.push((format!("net/ipv4/conf/{name}/forwarding"), "1"));
        wanted.push((format!("net/ipv4/conf/{name}/rp_filter"), "2"));
    }
    if has(false) {
        // Kernels before 6.17 forward IPv6 everywhere or nowhere, and have no such setting.
        wanted.push((format!("net/ipv6/conf/{name}/force_forwarding"), "1"));
    }
    wanted
}

/// The changes that make the kernel have a port as it should be, in an order that it accepts.
///
/// A link whose MAC address Open vSwitch has not set yet stays down: its address on the link would be made of another MAC.
#[must_use]
pub fn steps(port: &ManagedNetwork, seen: &Seen) -> Vec<Step> {
    if !seen.up && seen.mac != Some(port.mac) {
        return Vec::new();
    }
    let mut steps = Vec::new();
    for (path, value) in sysctls(port) {
        if seen.sysctls.get(&path).is_some_and(|have| have != value) {
            steps.push(Step::Sysctl { path, value });
        }
    }
    if !seen.up {
        steps.push(Step::SetUp);
    }
    steps.extend(addresses(&port.addresses, &seen.addresses));
    if let Some(default) = &port.default {
        let routes = default.routes.iter().filter(|route| !seen.routes.contains(route));
        steps.extend(
            routes.map(|(destination, gateway)| Step::Route { destination: *destination, gateway: *gateway }),
        );
        let neighbours = default.neighbours.iter().filter(|known| !seen.neighbours.contains(known));
        steps.extend(neighbours.map(|(address, mac)| Step::Neighbour { address: *address, mac: *mac }));
    }
    steps
}

/// Where an address is missing, the family's others are of a subnet that the node had before, or have another length.
/// They go first, so that what a crash leaves behind is taken up again. Where none is missing, others are somebody else's.
fn addresses(wanted: &[IpNet], have: &[IpNet]) -> Vec<Step> {
    let mut steps = Vec::new();
    for four in [true, false] {
        let of_family = |net: &&IpNet| net.addr().is_ipv4() == four;
        let wanted: Vec<&IpNet> = wanted.iter().filter(of_family).collect();
        let missing: Vec<&IpNet> = wanted.iter().copied().filter(|net| !have.contains(net)).collect();
        if missing.is_empty() {
            continue;
        }
        let stale = have.iter().filter(of_family).filter(|net| !wanted.contains(net));
        steps.extend(stale.map(|net| Step::RemoveAddress(*net)));
        steps.extend(missing.into_iter().map(|net| Step::AddAddress(*net)));
    }
    steps
}

#[cfg(test)]
mod tests;
