//! From what the kernel says about one interface to its gateway identity. Pure.
//!
//! Source, also of the texts: OVN-Kubernetes, `pkg/node/uplink/controller.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::{HostData, InterfaceAddress, PciFunction};
use causeway_net::mac::MacAddress;
use causeway_net::publish::Failure;
use causeway_net::wire::{AddressHealth, Detection, LinkFacts, Part, Wire};

/// What the kernel says about one interface. Exists only if the kernel's dumps were read to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceView {
    /// Hardware address, of any length.
    pub hardware_address: Vec<u8>,
    /// Addresses in kernel order.
    pub addresses: Vec<AddressView>,
    /// Routes over the interface, of the table that it uses: its VRF's when it is in one, main otherwise.
    pub routes: Vec<RouteView>,
    /// The SR-IOV function behind it.
    pub function: Option<PciFunction>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether there is a carrier, where the driver says so.
    pub carrier: Option<bool>,
}

/// One address of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressView {
    /// Address and prefix length.
    pub address: InterfaceAddress,
    /// Secondary (IPv4) or temporary (IPv6); the kernel has one flag for both.
    pub secondary: bool,
    /// Past its preferred lifetime.
    pub deprecated: bool,
    /// Label of an IPv4 address.
    pub label: Option<String>,
    /// What duplicate address detection says.
    pub detection: Detection,
}

/// One next hop of one route over the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteView {
    /// Destination; a zero length means a default route.
    pub destination: InterfaceAddress,
    /// Next hop; none for an on-link route.
    pub gateway: Option<IpAddr>,
    /// Metric: the lowest wins.
    pub metric: u32,
}

/// What of the cluster's configuration plays a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Families {
    /// The cluster uses IPv4.
    pub ipv4: bool,
    /// The cluster uses IPv6.
    pub ipv6: bool,
    /// Subnets of the masquerade addresses: an address in one of them is Causeway's own.
    pub masquerade: Vec<InterfaceAddress>,
}

/// The interface's gateway identity, or why it has none.
///
/// # Errors
/// The first step that fails: no such interface, no usable MAC, no address of a family that the cluster uses.
pub fn host_data(name: &str, view: Option<&InterfaceView>, families: &Families) -> Result<HostData, Failure> {
    let Some(view) = view else {
        return Err(Failure::new(
            DiscoveryReason::HostInterfaceNotFound,
            format!("host interface {name} was not found: Link not found"),
        ));
    };
    let mac = MacAddress::usable(&view.hardware_address).ok_or_else(|| {
        Failure::new(
            DiscoveryReason::InvalidHostInterface,
            format!("host interface {name} has no usable MAC address"),
        )
    })?;
    let mut addresses = Vec::new();
    for (wanted, is_ipv4, family) in [(families.ipv4, true, "IPv4"), (families.ipv6, false, "IPv6")] {
        if !wanted {
            continue;
        }
        let address = first_address(view, is_ipv4, families).ok_or_else(|| {
            Failure::new(
                DiscoveryReason::GatewayInfoUnavailable,
                format!("failed to read IP addresses from {name}: failed to find {family} address on interface {name}"),
            )
        })?;
        addresses.push(address);
    }
    let gateways = [(families.ipv4, true), (families.ipv6, false)]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .filter_map(|(_, is_ipv4)| default_gateway(view, is_ipv4))
        .collect();
    Ok(HostData { mac, addresses, gateways, function: view.function })
}

/// The host's end of the wire: the interface, and the addresses that could be the gateway's.
#[must_use]
pub fn wire(name: &str, view: &InterfaceView) -> Wire {
    let link = LinkFacts {
        part: Part::HostInterface,
        name: name.to_owned(),
        mtu: view.mtu,
        up: view.up,
        carrier: view.carrier,
    };
    let own = view.addresses.iter().filter(|found| !is_link_local(found.address.address));
    let addresses = own.map(|found| AddressHealth { address: found.address, detection: found.detection });
    Wire { links: vec![link], addresses: addresses.collect(), vlans: None }
}

/// The first address of a family that is fit to be a gateway's, with the prefix that the link really has.
fn first_address(view: &InterfaceView, is_ipv4: bool, families: &Families) -> Option<InterfaceAddress> {
    let usable = view.addresses.iter().filter(|found| found.address.address.is_ipv4() == is_ipv4);
    let mut usable = usable.filter(|found| is_usable(found, families));
    let address = usable.next()?.address;
    Some(if address.address.is_ipv6() && address.prefix == 128 { widened(address, view) } else { address })
}

fn is_usable(found: &AddressView, families: &Families) -> bool {
    let ip = found.address.address;
    let masqueraded = families.masquerade.iter().any(|subnet| contains(*subnet, ip));
    // keepalived labels its virtual addresses "<interface>:vip".
    let virtual_ip = found.label.as_deref().is_some_and(|label| label.ends_with("vip"));
    !is_link_local(ip) && !masqueraded && !virtual_ip && !found.secondary && !found.deprecated
}

/// An IPv6 address given as /128 (DHCPv6, or an operator's habit) gets the broadest prefix that the link has a route
/// for without a next hop.
fn widened(address: InterfaceAddress, view: &InterfaceView) -> InterfaceAddress {
    let on_link = view.routes.iter().filter(|route| route.gateway.is_none() && route.destination.prefix > 0);
    let lengths =
        on_link.filter(|route| contains(route.destination, address.address)).map(|r| r.destination.prefix);
    InterfaceAddress { prefix: lengths.min().unwrap_or(address.prefix), ..address }
}

/// The next hop of the family's best default route over the interface. The destination tells the family of the route,
/// which an IPv4 route by an IPv6 next hop does not share.
///
/// Differs from upstream: it publishes every default route's next hop in kernel order, from the main table alone, and
/// more than two of them are refused by the API for ever.
fn default_gateway(view: &InterfaceView, is_ipv4: bool) -> Option<IpAddr> {
    let defaults = view.routes.iter().filter(|route| route.destination.prefix == 0);
    let of_family = defaults.filter(|route| route.destination.address.is_ipv4() == is_ipv4);
    let with_gateway = of_family.filter_map(|route| Some((route.metric, route.gateway?)));
    // min_by_key keeps the first of equals: kernel order decides between the hops of one multipath route.
    with_gateway.min_by_key(|(metric, _)| *metric).map(|(_, gateway)| gateway)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Whether the subnet of `net` contains an address.
fn contains(net: InterfaceAddress, ip: IpAddr) -> bool {
    match (net.address, ip) {
        (IpAddr::V4(net_ip), IpAddr::V4(ip)) => masked4(net_ip, net.prefix) == masked4(ip, net.prefix),
        (IpAddr::V6(net_ip), IpAddr::V6(ip)) => masked6(net_ip, net.prefix) == masked6(ip, net.prefix),
        _ => false,
    }
}

fn masked4(ip: Ipv4Addr, prefix: u8) -> u32 {
    // A shift by the full width (prefix 0) leaves no bit.
    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
    ip.to_bits() & mask
}

fn masked6(ip: Ipv6Addr, prefix: u8) -> u128 {
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(u32::from(prefix))).unwrap_or(0);
    ip.to_bits() & mask
}

#[cfg(test)]
mod tests;
