//! The annotations of the side that holds the bridge. Pure.
//!
//! Source of which there are, and of texts: ovn-kubernetes, `pkg/node/default_node_network_controller.go`,
//! `pkg/node/gateway_init.go`, `pkg/util/node_annotations.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_agent::half::HostSide;
use causeway_agent::node_facts::Facts;
use causeway_agent::node_facts::view::NodeView;
use causeway_api::annotation::gateway::{self as codec, ExternalGateway, L3Gateway};
use causeway_api::annotation::node::{self as keys, Addresses};
use causeway_api::annotation::{GatewayMode as Mode, L3_GATEWAY_CONFIG, NODE_CHASSIS_ID};
use causeway_net::host_data::InterfaceAddress;
use causeway_net::network::name::NetworkName;
use causeway_runtime::settings::{Families, GatewayMode, GatewaySettings};
use ipnet::IpNet;
use ovsdb::Snapshot;

use super::card;
use super::gateway::{self, Bridge, DefaultRoute, Gear};
use super::rows::{BridgeType, Datapath, Port, Root, SYSTEM_ID};
use crate::discovery::ovs::OvsView;
use crate::discovery::representor::{LocalFunction, Representors};

/// What of the settings plays a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How the node reaches the outside.
    pub mode: GatewayMode,
    /// Families of the cluster.
    pub families: Families,
    /// Masquerade ranges, one of each family.
    pub masquerade: Vec<IpNet>,
    /// The gateway's own options.
    pub gateway: GatewaySettings,
    /// Addresses that tunnels end at; empty: the Node's own, or those of a card's Open vSwitch.
    pub encap_ips: Vec<IpAddr>,
}

/// What the kernel of this machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Addresses by interface, in kernel order.
    pub addresses: Vec<(String, IpNet)>,
    /// Default routes of the main table.
    pub defaults: Vec<DefaultRoute>,
}

/// Whose host the gateway's addresses are.
#[derive(Clone, Copy)]
pub(super) enum Host<'w> {
    /// This machine's: what an interface has.
    Here(&'w dyn HostSide),
    /// Another machine's: what it wrote on the Node.
    Elsewhere,
}

/// Everything that is looked at.
#[derive(Clone, Copy)]
pub(super) struct World<'w> {
    pub(super) options: &'w Options,
    pub(super) node: &'w NodeView,
    pub(super) ovs: &'w Snapshot,
    pub(super) kernel: &'w Kernel,
    pub(super) representors: &'w Representors,
    pub(super) function: &'w dyn Fn(&str) -> Option<LocalFunction>,
    pub(super) host: Host<'w>,
}

/// All facts of this side.
pub(super) fn facts(world: World<'_>) -> Facts {
    let mut facts = Facts::default();
    let Some(root) = Root::of(world.ovs) else {
        facts.wait("Open vSwitch has no configuration yet");
        return facts;
    };
    facts.tell(keys::LAYER2_TOPOLOGY_VERSION, keys::LAYER2_WITH_TRANSIT_ROUTER);
    chassis(root, &mut facts);
    let settings = match world.host {
        Host::Here(_) => world.options.gateway.clone(),
        Host::Elsewhere => card::settings(&world.options.gateway, root, &mut facts),
    };
    encapsulation(world, root, &mut facts);
    let gear = Gear {
        settings: &settings,
        mode: world.options.mode,
        families: world.options.families,
        masquerade: &world.options.masquerade,
        defaults: &world.kernel.defaults,
        ovs: OvsView::new(world.ovs),
        representors: world.representors,
        function: world.function,
    };
    let way = gateway::way_out(gear);
    let found = way.and_then(|way| Ok((gateway::bridge(gear, &way.interface)?, way.next_hops)));
    match found {
        Ok((bridge, next_hops)) => {
            packet_size(world, root, &settings, &bridge, &mut facts);
            gateway_config(world, gear, &bridge, next_hops, &mut facts);
        }
        Err(error) => facts.problem(error.reason(), error),
    }
    facts
}

fn chassis(root: &Root, facts: &mut Facts) {
    match root.text(SYSTEM_ID) {
        Some(id) => facts.tell(NODE_CHASSIS_ID, id),
        None => facts.problem(
            "NoChassisID",
            "Open vSwitch has no external_ids:system-id: set it, it names the node's chassis in OVN",
        ),
    }
}

/// The addresses that tunnels end at: the configured ones, else the one that Kubernetes knows the node by, or on a card what
/// its Open vSwitch says. Each has to be this machine's.
fn encapsulation(world: World<'_>, root: &Root, facts: &mut Facts) {
    let given = &world.options.encap_ips;
    let addresses = match (world.host, world.node.address) {
        _ if !given.is_empty() => given.iter().copied().collect(),
        (Host::Here(_), Some(address)) => BTreeSet::from([address]),
        (Host::Here(_), None) => {
            facts.wait(format!(
                "{} doesn't have an address with type InternalIP or ExternalIP",
                world.node.name
            ));
            return;
        }
        (Host::Elsewhere, _) => {
            let Some(addresses) = card::tunnel_ends(root, facts) else { return };
            addresses
        }
    };
    let mut bad = false;
    let foreign = addresses
        .iter()
        .filter(|address| world.kernel.addresses.iter().all(|(_, known)| known.addr() != **address));
    for address in foreign {
        bad = true;
        facts.problem(
            "InvalidEncapIP",
            format!("encapsulation address {address} is not an address of this node"),
        );
    }
    if !bad {
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        facts.tell(keys::ENCAP_IPS, keys::render_encap_ips(&addresses));
    }
}

/// Whether the gateway can tell packets that are too large for pods. Offloaded flows cannot.
///
/// A datapath says what it can do once somebody has made its row, as ovn-controller does. Without a row it can: kernels have
/// the action since 5.2 and Open vSwitch since 2.12, both older than what networks need anyway. Differs from upstream, which
/// asks ovs-vswitchd by a command (`ovs-appctl dpif/show-dp-features`) once, at start.
fn packet_size(
    world: World<'_>,
    root: &Root,
    settings: &GatewaySettings,
    bridge: &Bridge,
    facts: &mut Facts,
) {
    let offloads = root.other_config.get("hw-offload").is_some_and(|value| value != "false");
    if !settings.checks_packet_size || offloads {
        facts.tell(keys::GATEWAY_MTU_SUPPORT, "false");
        return;
    }
    let kind = world.ovs.find_one(BridgeType::by_name(), bridge.name.as_str());
    let kind = kind.map(|(_, row)| row.datapath_type.as_str()).filter(|kind| !kind.is_empty());
    let datapath = root.datapaths.get(kind.unwrap_or("system"));
    let told = datapath.and_then(|uuid| world.ovs.row::<Datapath>(*uuid));
    let cannot =
        told.is_some_and(|row| row.capabilities.get("check_pkt_len").is_none_or(|can| can != "true"));
    if cannot {
        facts.tell(keys::GATEWAY_MTU_SUPPORT, "false");
    } else {
        facts.remove(keys::GATEWAY_MTU_SUPPORT);
    }
}

/// Identity and addresses of a gateway.
pub(super) struct Identity {
    pub(super) mac: String,
    pub(super) addresses: Vec<IpNet>,
}

fn gateway_config(
    world: World<'_>,
    gear: Gear<'_>,
    bridge: &Bridge,
    next_hops: Vec<IpAddr>,
    facts: &mut Facts,
) {
    let identity = match world.host {
        Host::Here(host) => {
            let told = told(world, gear, bridge, host, facts);
            if let Some(identity) = &told {
                let primary = render_primary(&identity.addresses);
                facts.tell(keys::PRIMARY_ADDRESSES, primary);
            }
            told
        }
        Host::Elsewhere => card::identity(world, gear, bridge, facts),
    };
    let external = match &gear.settings.external_interface {
        None => Some(None),
        Some(interface) => external(world, gear, interface, facts).map(Some),
    };
    // A second gateway that cannot be told yet would look like one that is gone.
    let (Some(identity), Some(external)) = (identity, external) else { return };
    let config = L3Gateway {
        mode: match gear.mode {
            GatewayMode::Local => Mode::Local,
            GatewayMode::Shared => Mode::Shared,
            GatewayMode::Disabled => Mode::Disabled,
        },
        bridge: bridge.name.clone(),
        interface: interface_id(&bridge.name, &world.node.name),
        mac: identity.mac,
        addresses: identity.addresses,
        external,
        next_hops,
        node_port: Some(gear.settings.node_ports),
        vlan: Some(gear.settings.vlan),
    };
    let gateways: BTreeMap<String, L3Gateway> = [(NetworkName::DEFAULT.to_owned(), config)].into();
    facts.tell(L3_GATEWAY_CONFIG, codec::render(&gateways));
}

/// Name of the bridge's port in OVN.
fn interface_id(bridge: &str, node: &str) -> String {
    format!("{bridge}_{node}")
}

/// The second gateway.
fn external(world: World<'_>, gear: Gear<'_>, interface: &str, facts: &mut Facts) -> Option<ExternalGateway> {
    let Host::Here(host) = world.host else {
        facts.problem("NoGatewayBridge", "a card has no second gateway: leave --exgw-interface out");
        return None;
    };
    // It has no function of its own: what carries the first gateway's traffic is not asked for here.
    let plain = GatewaySettings { accelerated_interface: None, ..gear.settings.clone() };
    match gateway::bridge(Gear { settings: &plain, ..gear }, interface) {
        Ok(bridge) => {
            let identity = told(world, gear, &bridge, host, facts)?;
            Some(ExternalGateway {
                interface: interface_id(&bridge.name, &world.node.name),
                mac: identity.mac,
                addresses: identity.addresses,
            })
        }
        Err(error) => {
            facts.problem(error.reason(), error);
            None
        }
    }
}

/// MAC and addresses of the host's interface at a bridge of this machine.
fn told(
    world: World<'_>,
    gear: Gear<'_>,
    bridge: &Bridge,
    host: &dyn HostSide,
    facts: &mut Facts,
) -> Option<Identity> {
    let data = match host.host_data(&bridge.host_interface) {
        Ok(Ok(data)) => data,
        Ok(Err(failure)) => {
            facts.problem(failure.reason.as_str(), failure.message);
            return None;
        }
        Err(missed) => {
            facts.wait(missed.message);
            return None;
        }
    };
    let mac = if gear.ovs.bridge(&bridge.host_interface).is_some() {
        // The bridge's own interface: Open vSwitch decides its address.
        let Some(mac) = mac_in_use(world.ovs, &bridge.host_interface) else {
            facts.wait(format!("Open vSwitch has not told the MAC address of {}", bridge.host_interface));
            return None;
        };
        mac
    } else {
        data.mac.to_string()
    };
    let addresses = data.addresses.iter().filter_map(net);
    Some(Identity { mac, addresses: addresses.collect() })
}

pub(super) fn mac_in_use(ovs: &Snapshot, interface: &str) -> Option<String> {
    ovs.find_one(Port::by_name(), interface)?.1.mac_in_use.as_deref().map(str::to_ascii_lowercase)
}

fn net(address: &InterfaceAddress) -> Option<IpNet> {
    IpNet::new(address.address, address.prefix).ok()
}

/// The first address of each family.
pub(super) fn render_primary(addresses: &[IpNet]) -> String {
    let ipv4 = addresses.iter().find_map(|net| if let IpNet::V4(net) = net { Some(*net) } else { None });
    let ipv6 = addresses.iter().find_map(|net| if let IpNet::V6(net) = net { Some(*net) } else { None });
    keys::render_addresses(&Addresses { ipv4, ipv6 })
}

#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod tests;
