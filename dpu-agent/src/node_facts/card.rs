//! What a card knows otherwise: options from its own Open vSwitch, addresses from what the host wrote, the MAC from the
//! representor of the host's gateway interface. Pure.
//!
//! Source: ovn-kubernetes, `dist/images/ovnkube.sh`, `pkg/node/gateway_init.go`, `pkg/util/dpuops_linux.go`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_agent::node_facts::Facts;
use causeway_api::annotation::node as keys;
use causeway_runtime::settings::GatewaySettings;
use ipnet::IpNet;

use super::gateway::{Bridge, Gear, host_representor};
use super::plan::{Identity, World, render_primary};
use super::rows::Root;

/// The options, and what the card's Open vSwitch says for those that are not given.
pub(super) fn settings(given: &GatewaySettings, root: &Root, facts: &mut Facts) -> GatewaySettings {
    let or = |given: &Option<String>, key: &str| given.clone().or_else(|| root.text(key).map(str::to_owned));
    let mut bad = |key: &str, text: &str| {
        facts.problem(
            "InvalidGatewaySetting",
            format!("external_ids:{key} of Open vSwitch: bad value {text:?}"),
        );
    };
    let mut vlan = given.vlan;
    if vlan == 0
        && let Some(text) = root.text("ovn-gw-vlanid")
    {
        match text.parse().ok().filter(|vlan| *vlan <= 4095) {
            Some(told) => vlan = told,
            None => bad("ovn-gw-vlanid", text),
        }
    }
    let mut router_subnet = given.router_subnet;
    if router_subnet.is_none()
        && let Some(text) = root.text("ovn-gw-router-subnet")
    {
        match text.parse::<IpNet>() {
            Ok(told) => router_subnet = Some(told.trunc()),
            Err(_) => bad("ovn-gw-router-subnet", text),
        }
    }
    GatewaySettings {
        interface: or(&given.interface, "ovn-gw-interface"),
        next_hops: or(&given.next_hops, "ovn-gw-nexthop"),
        vlan,
        router_subnet,
        ..given.clone()
    }
}

/// The addresses that tunnels end at, as the card's Open vSwitch says; none: why is told.
///
/// The host's address is no end of a tunnel that the card makes.
pub(super) fn tunnel_ends(root: &Root, facts: &mut Facts) -> Option<BTreeSet<IpAddr>> {
    let Some(text) = root.text("ovn-encap-ip") else {
        facts.problem(
            "InvalidEncapIP",
            "no encapsulation address: give --encap-ip, or set external_ids:ovn-encap-ip of the card's Open vSwitch",
        );
        return None;
    };
    let mut addresses = BTreeSet::new();
    let mut is_whole = true;
    for part in text.split(',').map(str::trim) {
        if let Ok(address) = part.parse() {
            addresses.insert(address);
        } else {
            is_whole = false;
            facts.problem(
                "InvalidEncapIP",
                format!("invalid encapsulation address {part:?} in external_ids:ovn-encap-ip {text:?} of Open vSwitch"),
            );
        }
    }
    is_whole.then_some(addresses)
}

/// MAC and addresses of the host at the card's bridge.
///
/// Differs from upstream: a host's IPv6 address is told too where the cluster has IPv6; upstream refuses it on cards.
pub(super) fn identity(
    world: World<'_>,
    gear: Gear<'_>,
    bridge: &Bridge,
    facts: &mut Facts,
) -> Option<Identity> {
    let addresses = addresses(world, gear, bridge, facts);
    let representor = match host_representor(gear, &bridge.name) {
        Ok(representor) => representor,
        Err(error) => {
            facts.problem(error.reason(), error);
            return None;
        }
    };
    let Some(mac) = gear.representors.peer_mac(&representor) else {
        facts.problem(
            "NoGatewayBridge",
            format!("the MAC address of the host's function behind representor {representor} cannot be told"),
        );
        return None;
    };
    Some(Identity { mac: mac.to_string(), addresses: addresses? })
}

/// The host's addresses with the prefix lengths of the network that the card is in.
fn addresses(world: World<'_>, gear: Gear<'_>, bridge: &Bridge, facts: &mut Facts) -> Option<Vec<IpNet>> {
    let key = keys::DPU_HOST_ADDRESSES;
    let Some(text) = world.node.annotations.get(key) else {
        facts.wait(format!("annotation {key} is missing: the host's agent writes it"));
        return None;
    };
    let told = match keys::read_addresses(key, text) {
        Ok(told) => told,
        Err(error) => {
            facts.problem("InvalidHostAddress", error);
            return None;
        }
    };
    for entry in &told.bad {
        facts.problem("InvalidHostAddress", entry);
    }
    let ipv4 = told.value.ipv4.map(IpNet::V4).filter(|_| gear.families.ipv4);
    let ipv6 = told.value.ipv6.map(IpNet::V6).filter(|_| gear.families.ipv6);
    if gear.families.ipv4 && ipv4.is_none() {
        let node = &world.node.name;
        let text = format!("node primary DPU address annotation is empty for node {node}");
        facts.problem("InvalidHostAddress", text);
        return None;
    }
    let hosts: Vec<IpNet> = ipv4.into_iter().chain(ipv6).collect();
    facts.tell(keys::PRIMARY_ADDRESSES, render_primary(&hosts));
    let mut nets = Vec::new();
    for host in hosts {
        match on_wire(world, gear, bridge, host) {
            Ok(net) => nets.push(net),
            Err(text) => {
                facts.problem("InvalidHostAddress", text);
                return None;
            }
        }
    }
    Some(nets)
}

/// A host's address as the routers outside see it: within the configured subnet, or within one of the card's bridge.
fn on_wire(world: World<'_>, gear: Gear<'_>, bridge: &Bridge, host: IpNet) -> Result<IpNet, String> {
    let ip = host.addr();
    let router = gear.settings.router_subnet.filter(|subnet| subnet.addr().is_ipv4() == ip.is_ipv4());
    if let Some(subnet) = router {
        if !subnet.contains(&ip) {
            return Err(format!("host address {ip} is not in --gateway-router-subnet {subnet}"));
        }
        return Ok(with_length(ip, subnet.prefix_len()));
    }
    let of_bridge = world.kernel.addresses.iter().filter(|(interface, _)| *interface == bridge.name);
    let around = of_bridge.map(|(_, net)| net).find(|net| net.contains(&ip));
    let missing = || {
        format!(
            "no address of bridge {} has host address {ip} in its subnet: give --gateway-router-subnet",
            bridge.name
        )
    };
    around.map(|net| with_length(ip, net.prefix_len())).ok_or_else(missing)
}

fn with_length(ip: std::net::IpAddr, length: u8) -> IpNet {
    IpNet::new(ip, length).unwrap_or_else(|_| IpNet::from(ip))
}
