//! Which interface leads out of a node, and by which bridge. Pure.
//!
//! Source, also of texts: ovn-kubernetes, `pkg/node/gateway_init.go`, `pkg/node/bridgeconfig/bridgeconfig.go`.

use std::net::IpAddr;

use causeway_net::network::masquerade;
use causeway_net::simulated;
use causeway_runtime::settings::{Families, GatewayMode, GatewaySettings};
use ipnet::IpNet;

use crate::discovery::bridge;
use crate::discovery::ovs::OvsView;
use crate::discovery::representor::{Flavour, LocalFunction, Representors};

/// A default route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultRoute {
    /// Interface that it leads through.
    pub interface: String,
    /// The router; none for a route that takes everything to be on the link.
    pub gateway: Option<IpAddr>,
    /// Lowest wins.
    pub metric: u32,
    /// Whether it is for IPv4.
    pub is_ipv4: bool,
}

/// What the way out is made of.
#[derive(Clone, Copy)]
pub(super) struct Gear<'g> {
    pub(super) settings: &'g GatewaySettings,
    pub(super) mode: GatewayMode,
    pub(super) families: Families,
    pub(super) masquerade: &'g [IpNet],
    pub(super) defaults: &'g [DefaultRoute],
    pub(super) ovs: OvsView<'g>,
    pub(super) representors: &'g Representors,
    /// The function of this machine behind an interface.
    pub(super) function: &'g dyn Fn(&str) -> Option<LocalFunction>,
}

/// The interface that leads out, and the routers behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WayOut {
    pub(super) interface: String,
    pub(super) next_hops: Vec<IpAddr>,
}

/// The bridge of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) name: String,
    /// What the host has its addresses on: the bridge itself, or a function whose representor is on it.
    pub(super) host_interface: String,
}

/// Why there is no way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoGateway {
    #[error("unexpected next-hops are provided, more than 2 next-hops is not allowed: {0}")]
    ManyNextHops(String),
    #[error("failed to parse configured next-hop: {0}")]
    BadNextHop(String),
    #[error("only one {family} next-hop is allowed: {text}")]
    TwoNextHops { family: &'static str, text: String },
    #[error(
        "unable to find default gateway and none provided via config: the main routing table has no default route; add one or name the interface by --gateway-interface"
    )]
    NoDefaultRoute,
    #[error(
        "IPv4 and IPv6 have default routes over different interfaces, {ipv4} and {ipv6}: name one by --gateway-interface"
    )]
    TwoInterfaces { ipv4: String, ipv6: String },
    #[error(
        "gateway interface {0} is on no Open vSwitch bridge: make a bridge with it as physical port and its addresses on the bridge"
    )]
    NoBridge(String),
    #[error("gateway interface {interface} has no representor: {cause}")]
    NoRepresentor { interface: String, cause: String },
    #[error("{0}")]
    NoUplink(String),
}

impl NoGateway {
    /// Reason of the Event.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::ManyNextHops(_) | Self::BadNextHop(_) | Self::TwoNextHops { .. } => "InvalidNextHop",
            Self::NoDefaultRoute | Self::TwoInterfaces { .. } => "NoDefaultGateway",
            Self::NoBridge(_) | Self::NoRepresentor { .. } => "NoGatewayBridge",
            Self::NoUplink(_) => "NoGatewayUplink",
        }
    }
}

/// The interface and routers that are configured, and for the rest those of the default routes.
pub(super) fn way_out(gear: Gear<'_>) -> Result<WayOut, NoGateway> {
    let mut next_hops = configured_hops(gear.settings.next_hops.as_deref(), gear.families)?;
    let configured = gear.settings.interface.as_deref().map(|name| match gear.ovs.bridge_of(name) {
        // Its addresses and routes are the bridge's.
        Ok(bridge) => bridge,
        Err(_) => name,
    });
    let missing = |hops: &[IpAddr], is_ipv4: bool| hops.iter().all(|hop: &IpAddr| hop.is_ipv4() != is_ipv4);
    let wanted = [(gear.families.ipv4, true), (gear.families.ipv6, false)];
    let best = |is_ipv4: bool| {
        let routes = gear.defaults.iter().filter(|route| route.is_ipv4 == is_ipv4);
        let on_interface =
            routes.filter(|route| configured.is_none_or(|interface| route.interface == interface));
        on_interface.filter(|route| route.gateway.is_some()).min_by_key(|route| route.metric)
    };
    let found: Vec<(bool, Option<&DefaultRoute>)> =
        wanted.into_iter().filter(|(on, _)| *on).map(|(_, is_ipv4)| (is_ipv4, best(is_ipv4))).collect();
    let interface = match configured {
        Some(interface) => interface.to_owned(),
        None => common_interface(&found)?,
    };
    for (is_ipv4, route) in found {
        if !missing(&next_hops, is_ipv4) {
            continue;
        }
        let dummy = || dummy_next_hop(gear, is_ipv4);
        next_hops.extend(route.and_then(|route| route.gateway).or_else(dummy));
    }
    Ok(WayOut { interface, next_hops })
}

/// The interface of the default routes of all families.
fn common_interface(found: &[(bool, Option<&DefaultRoute>)]) -> Result<String, NoGateway> {
    let over = |wanted: bool| {
        let route = found.iter().find(|(is_ipv4, _)| *is_ipv4 == wanted).and_then(|(_, route)| *route);
        route.map(|route| route.interface.clone())
    };
    match (over(true), over(false)) {
        (Some(ipv4), Some(ipv6)) if ipv4 != ipv6 => Err(NoGateway::TwoInterfaces { ipv4, ipv6 }),
        (Some(interface), _) | (None, Some(interface)) => Ok(interface),
        (None, None) => Err(NoGateway::NoDefaultRoute),
    }
}

/// Where the host routes, the gateway router hands everything to the host by an address that nobody has.
fn dummy_next_hop(gear: Gear<'_>, is_ipv4: bool) -> Option<IpAddr> {
    if gear.mode != GatewayMode::Local {
        return None;
    }
    let range = gear.masquerade.iter().find(|range| range.addr().is_ipv4() == is_ipv4)?;
    masquerade::shared(*range).ok().map(|shared| shared.dummy_next_hop)
}

/// At most one router of each family.
pub(super) fn configured_hops(text: Option<&str>, families: Families) -> Result<Vec<IpAddr>, NoGateway> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 2 {
        return Err(NoGateway::ManyNextHops(text.to_owned()));
    }
    let mut hops: Vec<IpAddr> = Vec::new();
    for part in parts {
        let hop: IpAddr = part.parse().map_err(|_| NoGateway::BadNextHop(text.to_owned()))?;
        let (enabled, family) = if hop.is_ipv4() { (families.ipv4, "IPv4") } else { (families.ipv6, "IPv6") };
        if enabled && hops.iter().any(|known| known.is_ipv4() == hop.is_ipv4()) {
            return Err(NoGateway::TwoNextHops { family, text: text.to_owned() });
        }
        // A router of a family that the cluster does not have is nobody's.
        if enabled {
            hops.push(hop);
        }
    }
    Ok(hops)
}

/// The bridge of an interface that leads out.
pub(super) fn bridge(gear: Gear<'_>, interface: &str) -> Result<Bridge, NoGateway> {
    if let Some(accelerated) = gear.settings.accelerated_interface.as_deref() {
        let representor = representor(gear, accelerated)?;
        return behind(gear, accelerated, representor);
    }
    // A function of this machine that is no port itself leads out by its representor.
    if gear.ovs.bridge_of(interface).is_err()
        && let Ok(representor) = representor(gear, interface)
    {
        return behind(gear, interface, representor);
    }
    let name =
        gear.ovs.bridge_of(interface).map_err(|_| NoGateway::NoBridge(interface.to_owned()))?.to_owned();
    with_uplink(gear, Bridge { host_interface: name.clone(), name })
}

fn representor<'g>(gear: Gear<'g>, interface: &str) -> Result<&'g str, NoGateway> {
    let none = |cause: String| NoGateway::NoRepresentor { interface: interface.to_owned(), cause };
    let function =
        (gear.function)(interface).ok_or_else(|| none("it is no virtual function or subfunction".into()))?;
    gear.representors.of_local(&function).map_err(|error| none(error.to_string()))
}

fn behind(gear: Gear<'_>, interface: &str, representor: &str) -> Result<Bridge, NoGateway> {
    let name = gear.ovs.bridge_of(representor).map_err(|_| NoGateway::NoBridge(representor.to_owned()))?;
    with_uplink(gear, Bridge { name: name.to_owned(), host_interface: interface.to_owned() })
}

/// A gateway that leads nowhere is none, unless the host routes and it was allowed.
fn with_uplink(gear: Gear<'_>, found: Bridge) -> Result<Bridge, NoGateway> {
    let may_lack = gear.mode == GatewayMode::Local && gear.settings.allow_no_uplink;
    match bridge::validate(&found.name, "", gear.ovs, |port| gear.representors.is_host_facing(port)) {
        Ok(_) => Ok(found),
        Err(_) if may_lack => Ok(found),
        Err(failure) => Err(NoGateway::NoUplink(failure.message)),
    }
}

/// The representor of the host's gateway interface on a card.
pub(super) fn host_representor(gear: Gear<'_>, bridge: &str) -> Result<String, NoGateway> {
    let none = |cause: String| NoGateway::NoRepresentor { interface: "of the host".into(), cause };
    let view = gear.ovs.bridge(bridge).ok_or_else(|| none(format!("there is no bridge {bridge}")))?;
    if let Some(configured) = gear.settings.representor.as_deref() {
        let own = view.own_interface(configured);
        let elsewhere = || none(format!("{configured} is not on bridge {bridge}"));
        return own.map(str::to_owned).ok_or_else(elsewhere);
    }
    let found = view.interface_names().find(|name| stands_for_host(gear.representors, name));
    let missing = || none(format!("dpu host interface was not found for bridge {bridge:?}"));
    found.map(str::to_owned).ok_or_else(missing)
}

/// Whether a port stands for the host's physical function; among simulated pairs the first one is the gateway's.
fn stands_for_host(representors: &Representors, name: &str) -> bool {
    match representors {
        Representors::Switchdev(devices) => {
            devices.iter().any(|device| device.name == name && device.flavour == Flavour::Pf)
        }
        Representors::Simulated { .. } => simulated::representor_index(name) == Some(0),
    }
}

#[cfg(test)]
mod tests;
