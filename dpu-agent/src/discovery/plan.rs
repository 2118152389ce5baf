//! The bridge half of an UplinkState, from what was observed. Pure.
//!
//! Source: reference/uplinks-node.md 3.4, 5.3 to 5.6; texts: section 4.

use causeway_api::annotation::{DefaultGateway, GatewayAnnotationError};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::HostData;
use causeway_net::publish::{Failure, Findings};

use super::bridge;
use super::ovs::{BridgeView, OvsView};
use super::representor::{LocalFunction, NoRepresentor, Representors};

/// What the side with the bridge sees. Made only from complete observations.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    /// Open vSwitch.
    pub ovs: OvsView<'v>,
    /// Devices and what they stand for.
    pub representors: &'v Representors,
    /// Name of the Node.
    pub node: &'v str,
    /// The Node's default gateway, or why it is not known.
    pub default_gateway: &'v Result<DefaultGateway, GatewayAnnotationError>,
}

/// Discovery on a regular node: the host's half is at hand, the bridge is found from the interface's name.
#[must_use]
pub fn full(
    view: View<'_>,
    interface: &str,
    host: Result<HostData, Failure>,
    local: Option<&LocalFunction>,
) -> Findings {
    let host = match host {
        Ok(host) => host,
        Err(failure) => return Findings::failed(failure),
    };
    let bridge =
        default_bridge(view).and_then(|default| Ok((default, bridge_of_interface(view, interface, local)?)));
    let (default, name) = match bridge {
        Ok(found) => found,
        Err(failure) => return Findings { host: Some(host), ..Findings::failed(failure) },
    };
    let uplink = bridge::validate(name, default, view.ovs, |port| view.representors.is_host_facing(port));
    let verdict = uplink.and_then(|uplink| {
        if uplink == interface {
            return Err(Failure::new(
                DiscoveryReason::InvalidHostInterface,
                format!("host interface {interface} is the physical uplink port for OVS bridge {name}"),
            ));
        }
        Ok("Uplink discovery succeeded".to_owned())
    });
    Findings { host: Some(host), bridge: Some(name.to_owned()), verdict }
}

/// Discovery on a card: the host's half comes out of the state, the bridge is found by function or address.
#[must_use]
pub fn dpu(view: View<'_>, host: Result<HostData, Failure>) -> Findings {
    let found = host.and_then(|host| {
        let default = default_bridge(view)?;
        let (name, way) = bridge_of_host(view, &host)?;
        Ok((default, name, way))
    });
    let (default, name, way) = match found {
        Ok(found) => found,
        Err(failure) => return Findings::failed(failure),
    };
    let uplink = bridge::validate(name, default, view.ovs, |port| view.representors.is_host_facing(port));
    let verdict = uplink.map(|_uplink| format!("Uplink DPU bridge discovery succeeded via host {way}"));
    Findings { host: None, bridge: Some(name.to_owned()), verdict }
}

/// The bridge that may not be used, since the cluster's own traffic leaves through it.
fn default_bridge(view: View<'_>) -> Result<&str, Failure> {
    let unavailable = |text| Failure::new(DiscoveryReason::GatewayInfoUnavailable, text);
    match view.default_gateway {
        Err(error) => Err(unavailable(format!(
            "failed to determine the default shared gateway bridge for node {:?}: {error}",
            view.node
        ))),
        Ok(gateway) if gateway.bridge.is_empty() => Err(unavailable(format!(
            "default shared gateway bridge is not available for node {:?}",
            view.node
        ))),
        Ok(gateway) => Ok(&gateway.bridge),
    }
}

/// A bridge of that name, else the bridge of a port or interface of that name, else the bridge of its representor.
fn bridge_of_interface<'v>(
    view: View<'v>,
    interface: &str,
    local: Option<&LocalFunction>,
) -> Result<&'v str, Failure> {
    let not_found = |text| Failure::new(DiscoveryReason::BridgeNotFound, text);
    if let Some(bridge) = view.ovs.bridge(interface) {
        return Ok(bridge.name);
    }
    let direct = match view.ovs.bridge_of(interface) {
        Ok(bridge) => return Ok(bridge),
        Err(error) => error,
    };
    let Some(local) = local else {
        return Err(not_found(format!("failed to resolve OVS bridge for {interface}: {direct}")));
    };
    // The interface is a function of a device: why its representor did not help is the more useful half.
    let representor = view.representors.of_local(local).map_err(|error| {
        not_found(format!("failed to resolve OVS bridge for {interface}: {direct}; {error}"))
    })?;
    view.ovs.bridge_of(representor).map_err(|error| {
        not_found(format!("failed to resolve OVS bridge for {interface} representor {representor}: {error}"))
    })
}

/// By the published function, and on any failure of that by the published address.
fn bridge_of_host<'v>(view: View<'v>, host: &HostData) -> Result<(&'v str, &'static str), Failure> {
    let by_function = host.function.map(|function| {
        let representor =
            view.representors.of_function(function, host.mac).map_err(FunctionError::Representor)?;
        view.ovs.bridge_of(representor).map_err(|cause| FunctionError::Bridge(representor.to_owned(), cause))
    });
    if let Some(Ok(bridge)) = by_function {
        return Ok((bridge, "function"));
    }
    let bridges = view.ovs.external_bridges();
    if let Some(bridge) = bridges.iter().find(|bridge| leads_to(bridge, host, view.representors)) {
        return Ok((bridge.name, "MAC"));
    }
    let mut causes: Vec<String> =
        by_function.and_then(Result::err).map(|error| error.to_string()).into_iter().collect();
    causes.extend(bridges.iter().filter(|bridge| bridge.dangling_ports > 0).map(|bridge| {
        format!("OVS bridge {} refers to {} port(s) that do not exist", bridge.name, bridge.dangling_ports)
    }));
    let mut text = format!("failed to find DPU bridge for host MAC {}", host.mac);
    if !causes.is_empty() {
        text = format!("{text}: {}", causes.join("; "));
    }
    Err(Failure::new(DiscoveryReason::BridgeNotFound, text))
}

#[derive(Debug, thiserror::Error)]
enum FunctionError {
    #[error("{0}")]
    Representor(NoRepresentor),
    #[error("representor {0}: {1}")]
    Bridge(String, super::ovs::NotOnABridge),
}

fn leads_to(bridge: &BridgeView<'_>, host: &HostData, representors: &Representors) -> bool {
    bridge
        .interface_names()
        .any(|name| representors.is_host_facing(name) && representors.peer_mac(name) == Some(host.mac))
}

#[cfg(test)]
mod tests;
