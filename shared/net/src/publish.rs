//! What a role writes into an UplinkState: its own half, nothing of the other side's.
//!
//! One apply carries the object's identity and the complete half of one field manager. What the half no longer has
//! is withdrawn by leaving it out: the API server removes a field that its manager stops sending.
//!
//! Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`.

use causeway_api::condition::{ConditionStatus, Wanted, find};
use causeway_api::uplink::UplinkType;
use causeway_api::uplink_state::{DiscoveryReason, OvsBridge, UplinkStateStatus};
use causeway_api::{GROUP, V1ALPHA1};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::host_data::HostData;
use crate::role::Role;
use crate::state_name::StateName;
use crate::wire::{self, Wire};

/// Why discovery did not succeed: a reason for programs and a message for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Reason of the condition.
    pub reason: DiscoveryReason,
    /// Message of the condition: object, node, what was found, what to do.
    pub message: String,
}

impl Failure {
    /// A failure with its reason and message.
    #[must_use]
    pub fn new(reason: DiscoveryReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What one pass of discovery found. A failure keeps what was known before it: a rejected bridge is published with
/// its rejection, host data with a bridge that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The host's half, where this role looks for it and found it.
    pub host: Option<HostData>,
    /// The bridge, where this role looks for it and found one, accepted or not.
    pub bridge: Option<String>,
    /// Message of the true condition, or why it is not true.
    pub verdict: Result<String, Failure>,
    /// The wire behind it, as far as this side sees it.
    pub wire: Wire,
}

impl Findings {
    /// Nothing found.
    #[must_use]
    pub fn failed(failure: Failure) -> Self {
        Self { host: None, bridge: None, verdict: Err(failure), wire: Wire::default() }
    }
}

/// The complete half that one role wants in the state.
#[derive(Clone, Debug, PartialEq)]
pub struct Half {
    role: Role,
    status: UplinkStateStatus,
    condition: Wanted,
    /// What this side says about the wire; none withdraws what it said.
    link: Option<Wanted>,
}

impl Half {
    /// The half that says what was found.
    ///
    /// `interface` is the interface that the Uplink names for this node; none keeps what the state says, for a
    /// node whose entry cannot be told.
    #[must_use]
    pub fn new(role: Role, interface: Option<&str>, current: &UplinkStateStatus, findings: Findings) -> Self {
        let link = wire::judge(role, &findings.wire, &current.conditions);
        let mut status =
            UplinkStateStatus { type_: Some(UplinkType::OvsBridge), ..UplinkStateStatus::default() };
        if role.writes_host_data() {
            status.host_interface_name =
                interface.map(str::to_owned).or_else(|| current.host_interface_name.clone());
            if let Some(host) = findings.host {
                status.mac_address = Some(host.mac.to_string());
                status.ip_addresses = sorted(host.addresses.iter().map(ToString::to_string));
                status.default_gateways = sorted(host.gateways.iter().map(ToString::to_string));
                let function = host.function.filter(|_| role.writes_host_function());
                status.host_function = function.and_then(crate::host_data::PciFunction::to_wire);
            }
        }
        if role.writes_bridge() {
            status.ovs_bridge = findings.bridge.map(|name| OvsBridge { name: Some(name) });
        }
        let (wanted_status, reason, message) = match findings.verdict {
            Ok(message) if role == Role::DpuHost => {
                (ConditionStatus::True, DiscoveryReason::HostDataDiscovered, message)
            }
            Ok(message) => (ConditionStatus::True, DiscoveryReason::Resolved, message),
            Err(failure) => (ConditionStatus::False, failure.reason, failure.message),
        };
        let condition = Wanted {
            type_: role.discovery_condition().as_str(),
            status: wanted_status,
            reason: reason.as_str(),
            message,
            observed_generation: None,
        };
        Self { role, status, condition, link }
    }

    /// The condition of this half.
    #[must_use]
    pub fn condition(&self) -> &Wanted {
        &self.condition
    }

    /// Whether the state already says all of this. The other side's half plays no part.
    #[must_use]
    pub fn is_met_by(&self, current: &UplinkStateStatus) -> bool {
        let want = &self.status;
        let host = !self.role.writes_host_data()
            || (want.host_interface_name == current.host_interface_name
                && want.mac_address == current.mac_address
                && want.ip_addresses == current.ip_addresses
                && want.default_gateways == current.default_gateways);
        let function = !self.role.writes_host_function() || want.host_function == current.host_function;
        let bridge = !self.role.writes_bridge() || want.ovs_bridge == current.ovs_bridge;
        let link = match &self.link {
            Some(link) => link.is_met_by(&current.conditions),
            None => find(&current.conditions, wire::own_condition(self.role).as_str()).is_none(),
        };
        let condition = self.condition.is_met_by(&current.conditions);
        want.type_ == current.type_ && host && function && bridge && condition && link
    }

    /// The status to apply: this half alone, with its conditions' transition times taken over from `current`.
    #[must_use]
    pub fn status(&self, current: &UplinkStateStatus, now: Timestamp) -> UplinkStateStatus {
        let wanted = [Some(&self.condition), self.link.as_ref()];
        let conditions =
            wanted.into_iter().flatten().map(|wanted| wanted.against(&current.conditions, now)).collect();
        UplinkStateStatus { conditions, ..self.status.clone() }
    }
}

/// Byte order of the texts, as upstream's discovery writes lists.
fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<_> = texts.collect();
    texts.sort_unstable();
    texts
}

/// Whose state an apply writes, and which object it expects to meet.
#[derive(Clone, Copy, Debug)]
pub struct Target<'t> {
    /// Name of the Uplink.
    pub uplink: &'t str,
    /// uid of the Uplink.
    pub uplink_uid: &'t str,
    /// Name of the Node.
    pub node: &'t str,
    /// uid of the state that was read; none to create it. With a uid the API server refuses to apply to another
    /// object of that name, and so to bring a deleted state back to life.
    pub state_uid: Option<&'t str>,
}

/// The body of an apply that gives up everything its manager owns, of the object that was read.
#[must_use]
pub fn nothing_of(name: &StateName, state_uid: Option<&str>) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{V1ALPHA1}"),
        "kind": "UplinkState",
        "metadata": {"name": name.as_str(), "uid": state_uid},
    })
}

/// The body of a server-side apply: identity, owner and the half of one field manager.
///
/// Every apply carries identity and owner, since a field that a manager leaves out is withdrawn.
#[must_use]
pub fn apply_body(target: Target<'_>, status: &UplinkStateStatus) -> Value {
    let api_version = format!("{GROUP}/{V1ALPHA1}");
    let mut body = json!({
        "apiVersion": api_version,
        "kind": "UplinkState",
        "metadata": {
            "name": StateName::of(target.uplink, target.node).as_str(),
            "ownerReferences": [{
                "apiVersion": api_version,
                "kind": "Uplink",
                "name": target.uplink,
                "uid": target.uplink_uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {"uplinkName": target.uplink, "nodeName": target.node},
        "status": status,
    });
    if let (Some(uid), Some(metadata)) =
        (target.state_uid, body.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("uid".to_owned(), Value::from(uid));
    }
    body
}

#[cfg(test)]
mod tests;
