//! Whether a bridge may serve as an Uplink, and which of its ports leads out. Pure.
//!
//! Source, also of the texts: OVN-Kubernetes, `pkg/node/uplink/controller.go`.

use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::publish::Failure;

use super::ovs::{BridgeView, INTEGRATION_BRIDGE, OvsView};

/// Checks a bridge that was found and returns its physical uplink.
///
/// `is_representor` tells interfaces that lead to a host or guest: they are never the way out.
///
/// # Errors
/// Why the bridge may not serve, or has no physical uplink that can be told.
pub fn validate<'v>(
    name: &str,
    default_gateway_bridge: &str,
    ovs: OvsView<'v>,
    is_representor: impl Fn(&str) -> bool,
) -> Result<&'v str, Failure> {
    if name == INTEGRATION_BRIDGE {
        return Err(Failure::new(
            DiscoveryReason::BridgeInvalid,
            format!("OVN integration bridge {name} cannot be used as an Uplink bridge"),
        ));
    }
    if name == default_gateway_bridge {
        return Err(Failure::new(
            DiscoveryReason::DefaultGatewayBridgeUnsupported,
            format!("default shared gateway bridge {name} cannot be used as an Uplink bridge"),
        ));
    }
    physical_uplink(name, ovs, is_representor)
}

/// The interface that leads out of a bridge. One answer serves discovery and, later, programming.
///
/// 1. What `external_ids:bridge-uplink` names, if it is on this bridge: the administrator's word.
/// 2. The only port with a physical interface.
/// 3. The bridge's name without `br`, if that is on this bridge.
///
/// Differs from upstream, where discovery asks 2, 1, 3 and programming asks 1, 2, 3, an interface anywhere in the
/// database will do, an empty interface type does not count as physical although Open vSwitch treats it as `system`,
/// and a regular node takes representors for uplinks.
fn physical_uplink<'v>(
    name: &str,
    ovs: OvsView<'v>,
    is_representor: impl Fn(&str) -> bool,
) -> Result<&'v str, Failure> {
    let fail = |text: String| Failure::new(DiscoveryReason::BridgeUplinkNotFound, text);
    let bridge =
        ovs.bridge(name).ok_or_else(|| fail(format!("failed to get OVS bridge {name}: object not found")))?;
    let stated = bridge.bridge_uplink;
    if let Some(stated) = stated.and_then(|stated| bridge.own_interface(stated)) {
        return Ok(stated);
    }
    let candidates = physical_ports(&bridge, is_representor);
    // A bond of Open vSwitch is a port without an interface of its name: it cannot be the answer.
    if let Some(only) = the_only(&candidates).and_then(|only| bridge.own_interface(only)) {
        return Ok(only);
    }
    let from_name = name.strip_prefix("br").filter(|rest| !rest.is_empty());
    if let Some(found) = from_name.and_then(|rest| bridge.own_interface(rest)) {
        return Ok(found);
    }
    let what = match stated.or(from_name) {
        Some(expected) => format!("failed to find interface for bridge {name} physical uplink {expected}"),
        None => format!("failed to resolve physical uplink for OVS bridge {name}"),
    };
    let hint = match (stated.map(|stated| ovs.bridge_of(stated)), candidates.as_slice()) {
        (Some(Ok(other)), _) => format!("it is on bridge {other}"),
        (_, []) => "the bridge has no physical port; add one".to_owned(),
        (_, many) => format!(
            "ports {} could be it; name one in external_ids:bridge-uplink of the bridge",
            many.join(", ")
        ),
    };
    Err(fail(format!("{what}: {hint}")))
}

/// Ports with a physical interface that does not lead to a host or guest.
fn physical_ports<'v>(bridge: &BridgeView<'v>, is_representor: impl Fn(&str) -> bool) -> Vec<&'v str> {
    let physical = bridge.ports.iter().filter(|(_, interfaces)| {
        interfaces.iter().any(|(name, kind)| is_physical(kind) && !is_representor(name))
    });
    physical.map(|(name, _)| *name).collect()
}

fn the_only<'v>(names: &[&'v str]) -> Option<&'v str> {
    match names {
        [only] => Some(only),
        _ => None,
    }
}

/// Open vSwitch takes an empty type for `system` (vswitchd(8), Interface type).
fn is_physical(kind: &str) -> bool {
    matches!(kind, "system" | "")
}

#[cfg(test)]
mod tests;
