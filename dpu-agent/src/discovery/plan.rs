//! The bridge half of an UplinkState, from what was observed. Pure.
//!
//! Source, also of the texts: OVN-Kubernetes, `pkg/node/uplink/controller.go`.

use causeway_api::annotation::{DefaultGateway, GatewayAnnotationError};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::HostData;
use causeway_net::publish::{Failure, Findings};
use causeway_net::wire::Wire;

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

/// What was planned: the findings but for the wire, and the way through the bridge for whoever looks at that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What to publish.
    pub findings: Findings,
    /// Ports of the way, if there is one from end to end.
    pub way: Option<Way>,
    /// Why the function that the host published did not lead to the bridge that its address led to. For the log: the
    /// condition's message is upstream's to the letter.
    pub instead_of_function: Option<String>,
}

/// Names of the links of a way through a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The bridge's port that leads to the host's interface; on a regular node that can be the interface itself.
    pub host_port: String,
    /// The bridge.
    pub bridge: String,
    /// The bridge's way out.
    pub uplink: String,
}

impl Planned {
    fn failed(failure: Failure) -> Self {
        Self { findings: Findings::failed(failure), way: None, instead_of_function: None }
    }
}

/// Discovery on a regular node: the host's half is at hand, the bridge is found from the interface's name.
#[must_use]
pub fn full(
    view: View<'_>,
    interface: &str,
    host: Result<HostData, Failure>,
    local: Option<&LocalFunction>,
) -> Planned {
    let host = match host {
        Ok(host) => host,
        Err(failure) => return Planned::failed(failure),
    };
    let found =
        default_bridge(view).and_then(|default| Ok((default, bridge_of_interface(view, interface, local)?)));
    let (default, place) = match found {
        Ok(found) => found,
        Err(failure) => {
            return Planned {
                findings: Findings { host: Some(host), ..Findings::failed(failure) },
                way: None,
                instead_of_function: None,
            };
        }
    };
    let name = place.bridge;
    let uplink = bridge::validate(name, default, view.ovs, |port| view.representors.is_host_facing(port));
    let uplink = uplink.and_then(|uplink| {
        if uplink == interface {
            return Err(Failure::new(
                DiscoveryReason::InvalidHostInterface,
                format!("host interface {interface} is the physical uplink port for OVS bridge {name}"),
            ));
        }
        Ok(uplink)
    });
    place.planned(Some(host), uplink, "Uplink discovery succeeded".to_owned())
}

/// Discovery on a card: the host's half comes out of the state, the bridge is found by function or address.
#[must_use]
pub fn dpu(view: View<'_>, host: Result<HostData, Failure>) -> Planned {
    let found = host.and_then(|host| {
        let default = default_bridge(view)?;
        let (place, by) = bridge_of_host(view, &host)?;
        Ok((default, place, by))
    });
    let (default, place, by) = match found {
        Ok(found) => found,
        Err(failure) => return Planned::failed(failure),
    };
    let uplink =
        bridge::validate(place.bridge, default, view.ovs, |port| view.representors.is_host_facing(port));
    let message = format!("Uplink DPU bridge discovery succeeded via host {}", by.how);
    Planned { instead_of_function: by.instead_of_function, ..place.planned(None, uplink, message) }
}

/// By what a card found the host's representor.
struct By {
    /// The end of the message.
    how: String,
    /// Why it was not the published function.
    instead_of_function: Option<String>,
}

/// Where the way from the host enters a bridge.
struct Place<'v> {
    bridge: &'v str,
    host_port: String,
}

impl Place<'_> {
    /// The findings about a bridge that was found: with the way through it, or with why it may not serve.
    fn planned(self, host: Option<HostData>, uplink: Result<&str, Failure>, message: String) -> Planned {
        let bridge = self.bridge.to_owned();
        let way = uplink.as_ref().ok().map(|uplink| Way {
            host_port: self.host_port,
            bridge: bridge.clone(),
            uplink: (*uplink).to_owned(),
        });
        let verdict = uplink.map(|_| message);
        let findings = Findings { host, bridge: Some(bridge), verdict, wire: Wire::default() };
        Planned { findings, way, instead_of_function: None }
    }
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
) -> Result<Place<'v>, Failure> {
    let not_found = |text| Failure::new(DiscoveryReason::BridgeNotFound, text);
    let place = |bridge, host_port: &str| Place { bridge, host_port: host_port.to_owned() };
    if let Some(bridge) = view.ovs.bridge(interface) {
        return Ok(place(bridge.name, interface));
    }
    let direct = match view.ovs.bridge_of(interface) {
        Ok(bridge) => return Ok(place(bridge, interface)),
        Err(error) => error,
    };
    let Some(local) = local else {
        return Err(not_found(format!("failed to resolve OVS bridge for {interface}: {direct}")));
    };
    // The interface is a function of a device: why its representor did not help is the more useful half.
    let representor = view.representors.of_local(local).map_err(|error| {
        not_found(format!("failed to resolve OVS bridge for {interface}: {direct}; {error}"))
    })?;
    let bridge = view.ovs.bridge_of(representor).map_err(|error| {
        not_found(format!("failed to resolve OVS bridge for {interface} representor {representor}: {error}"))
    })?;
    Ok(place(bridge, representor))
}

/// By the published function, and on any failure of that by the published address. The text says how, and what else the
/// address was found on.
fn bridge_of_host<'v>(view: View<'v>, host: &HostData) -> Result<(Place<'v>, By), Failure> {
    let by_function = host.function.map(|function| {
        let representor =
            view.representors.of_function(function, host.mac).map_err(FunctionError::Representor)?;
        let bridge = view.ovs.bridge_of(representor);
        let bridge = bridge.map_err(|cause| FunctionError::Bridge(representor.to_owned(), cause))?;
        Ok::<_, FunctionError>(Place { bridge, host_port: representor.to_owned() })
    });
    let failed = match by_function {
        Some(Ok(place)) => {
            return Ok((place, By { how: "function".to_owned(), instead_of_function: None }));
        }
        Some(Err(error)) => Some(error.to_string()),
        None => None,
    };
    let bridges = view.ovs.external_bridges();
    let mut matching =
        bridges.iter().filter_map(|bridge| Some((bridge, port_to(bridge, host, view.representors)?)));
    if let Some((bridge, port)) = matching.next() {
        let place = Place { bridge: bridge.name, host_port: port.to_owned() };
        let also: Vec<_> = matching.map(|(bridge, port)| format!("{} (port {port})", bridge.name)).collect();
        let how = if also.is_empty() {
            "MAC".to_owned()
        } else {
            format!("MAC; the MAC is also on bridge {}, the first bridge by name is used", also.join(", "))
        };
        return Ok((place, By { how, instead_of_function: failed }));
    }
    let mut causes: Vec<String> = failed.into_iter().collect();
    causes.extend(bridges.iter().filter(|bridge| bridge.dangling_ports > 0).map(|bridge| {
        format!("OVS bridge {} refers to {} port(s) that do not exist", bridge.name, bridge.dangling_ports)
    }));
    let mut text = format!("failed to find DPU bridge for host MAC {}", host.mac);
    if !causes.is_empty() {
        text = format!("{text}: {}", causes.join("; "));
    }
    Err(Failure::new(DiscoveryReason::BridgeNotFound, text))
}

/// Whether the published function tells the bridge. By the address alone the first bridge by name wins, so another
/// one can be a better answer later, and so can the function's.
#[must_use]
pub fn leads_by_function(view: View<'_>, host: &HostData) -> bool {
    let representor =
        host.function.and_then(|function| view.representors.of_function(function, host.mac).ok());
    representor.is_some_and(|representor| view.ovs.bridge_of(representor).is_ok())
}

#[derive(Debug, thiserror::Error)]
enum FunctionError {
    #[error("{0}")]
    Representor(NoRepresentor),
    #[error("representor {0}: {1}")]
    Bridge(String, super::ovs::NotOnABridge),
}

/// The bridge's port that leads to the host's interface, by the address on its other side.
fn port_to<'v>(bridge: &BridgeView<'v>, host: &HostData, representors: &Representors) -> Option<&'v str> {
    bridge
        .interface_names()
        .find(|name| representors.is_host_facing(name) && representors.peer_mac(name) == Some(host.mac))
}

#[cfg(test)]
mod tests;
