//! The objects that this room alone watches, cut down to what it reads.
//!
//! What is left out cannot wake the room: a state's addresses, messages and transition times play no part in
//! `Ready`, so a change of them is no event.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use causeway_api::condition::{self, ConditionStatus};
use causeway_api::uplink::UplinkType;
use causeway_api::uplink_state::{DiscoveryReason, LinkReason, StateCondition, UplinkState};
use causeway_net::facts::UplinkFacts;
use causeway_net::network::name::NodeName;
use causeway_net::state_name::StateName;
use causeway_net::uplinks_ready::StateFacts;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::ownership::{self, FinalizerOwner};
use crate::written::Versioned;

/// The word of the metrics for what this version does not know.
const OTHER: &str = "other";

/// Declares a name of one kind of object, so that names of different kinds cannot be swapped.
macro_rules! object_name {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) struct $name(String);

        impl $name {
            /// The name as text.
            #[must_use]
            pub(super) fn as_str(&self) -> &str {
                &self.0
            }

            /// The name of an object; none for metadata without one, which the API server never sends.
            #[must_use]
            pub(super) fn of(meta: &ObjectMeta) -> Option<Self> {
                meta.name.clone().map(Self)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

object_name! {
    /// Name of an Uplink, also of one that does not exist.
    UplinkName
}
object_name! {
    /// Name of an UplinkState object. Says nothing about whose state it is: that stands in its spec.
    StateKey
}

/// An Uplink as this room sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Uplink {
    /// Name, uid, selectors, and whether it is being deleted.
    pub(super) facts: UplinkFacts,
    /// Version of the object: a write that rests on it fails if somebody else, also a later leader, wrote meanwhile.
    pub(super) version: Option<String>,
    /// Generation of its spec.
    pub(super) generation: Option<i64>,
    /// Conditions as they stand.
    pub(super) conditions: Vec<Condition>,
    /// Whether our field manager owns a condition that is no longer written: the next apply withdraws it.
    pub(super) owns_obsolete: bool,
    /// Our finalizer, if it is there.
    pub(super) finalizer: Option<FinalizerOwner>,
}

impl Uplink {
    /// From the API object; none for one without name or uid, which the API server never sends.
    #[must_use]
    pub(super) fn of(uplink: &causeway_api::uplink::Uplink) -> Option<Self> {
        Some(Self {
            facts: UplinkFacts::of(uplink)?,
            version: uplink.metadata.resource_version.clone(),
            generation: uplink.metadata.generation,
            conditions: uplink.conditions().to_vec(),
            owns_obsolete: ownership::owns_obsolete_condition(&uplink.metadata),
            finalizer: ownership::finalizer(&uplink.metadata),
        })
    }

    /// Whether the two differ in what a verdict rests on, so in more than their status.
    #[must_use]
    pub(super) fn differs_beyond_status(&self, other: &Self) -> bool {
        self.facts != other.facts || self.generation != other.generation || self.finalizer != other.finalizer
    }
}

impl Versioned for Uplink {
    fn uid(&self) -> &str {
        &self.facts.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

/// An UplinkState as this room sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// uid of the object: a deletion names it, so that a newer object of the name stays.
    pub(super) uid: String,
    /// The Uplink that it belongs to.
    pub(super) uplink: UplinkName,
    /// The Node that it belongs to.
    pub(super) node: NodeName,
    /// uids of the Uplinks of that name that own the object.
    pub(super) owner_uids: Vec<String>,
    /// Kind of uplink that the node looked for.
    pub(super) type_: Option<UplinkType>,
    /// Interface that the node looked at.
    pub(super) interface: Option<String>,
    /// What the condition `Resolved` says.
    pub(super) resolved: Resolved,
    /// Reason of a false `HostDataReady`: the host's side of the story.
    pub(super) host_cause: Option<String>,
    /// What its conditions say, for the metrics only.
    pub(super) told: Vec<Told>,
    /// What it says to networks that use the Uplink.
    pub(super) facts: StateFacts,
}

/// What one condition of a state says, in the words of the metrics: whatever is unknown here is `other`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Told {
    /// Its type, status and reason.
    pub(super) label: [(&'static str, &'static str); 3],
    /// When its status last changed, in seconds since 1970.
    pub(super) since: i64,
}

impl Told {
    fn of(condition: &Condition) -> Self {
        let type_ = StateCondition::from_str(&condition.type_).map_or(OTHER, StateCondition::as_str);
        let status = ConditionStatus::from_str(&condition.status).map_or(OTHER, ConditionStatus::as_str);
        let discovery = DiscoveryReason::from_str(&condition.reason).map(DiscoveryReason::as_str);
        let link = LinkReason::from_str(&condition.reason).map(LinkReason::as_str);
        let reason = discovery.or(link).unwrap_or(OTHER);
        Self {
            label: [("type", type_), ("status", status), ("reason", reason)],
            since: condition.last_transition_time.0.as_second(),
        }
    }
}

/// What the condition `Resolved` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// There is no such condition.
    Missing,
    /// True.
    Yes,
    /// False or unknown, with its reason.
    No(String),
}

impl State {
    /// From the API object; none for one without uid, which the API server never sends.
    #[must_use]
    pub(super) fn of(state: UplinkState) -> Option<Self> {
        let conditions = state.conditions();
        let resolved = match condition::find(conditions, StateCondition::Resolved.as_str()) {
            None => Resolved::Missing,
            Some(found) if found.status == ConditionStatus::True.as_str() => Resolved::Yes,
            Some(found) => Resolved::No(found.reason.clone()),
        };
        let host_cause = condition::find(conditions, StateCondition::HostDataReady.as_str())
            .filter(|found| found.status == ConditionStatus::False.as_str() && !found.reason.is_empty())
            .map(|found| found.reason.clone());
        let told = conditions.iter().map(Told::of).collect();
        let facts = StateFacts::of(&state);
        let owners = state.metadata.owner_references.iter().flatten();
        let owner_uids = owners
            .filter(|owner| owner.kind == "Uplink" && owner.name == state.spec.uplink_name)
            .map(|owner| owner.uid.clone())
            .collect();
        let (type_, interface) =
            state.status.map(|status| (status.type_, status.host_interface_name)).unwrap_or_default();
        Some(Self {
            uid: state.metadata.uid?,
            uplink: UplinkName(state.spec.uplink_name),
            node: NodeName::from(state.spec.node_name),
            owner_uids,
            type_,
            interface,
            resolved,
            host_cause,
            told,
            facts,
        })
    }

    /// Whether the two differ in what a verdict rests on.
    #[must_use]
    pub(super) fn differs_beyond_metrics(&self, other: &Self) -> bool {
        let Self { uid, uplink, node, owner_uids, type_, interface, resolved, host_cause, told: _, facts: _ } =
            self;
        (uid, uplink, node, owner_uids) != (&other.uid, &other.uplink, &other.node, &other.owner_uids)
            || (type_, interface, resolved, host_cause)
                != (&other.type_, &other.interface, &other.resolved, &other.host_cause)
    }

    /// The name that this state's identity asks for.
    #[must_use]
    pub(super) fn derived_name(&self) -> StateName {
        StateName::of(self.uplink.as_str(), self.node.as_str())
    }

    /// The uid of an earlier Uplink of the same name that this state was made for. A state without an owner counts
    /// for the Uplink of today.
    #[must_use]
    pub(super) fn earlier_owner(&self, uplink_uid: &str) -> Option<&str> {
        self.owner_uids.iter().find(|uid| *uid != uplink_uid).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolved() -> Value {
        json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState",
            "metadata": {"name": "blue.node-a", "uid": "s1"},
            "spec": {"uplinkName": "blue", "nodeName": "node-a"},
            "status": {
                "type": "OVSBridge", "hostInterfaceName": "breth0", "macAddress": "02:00:00:00:00:01",
                "conditions": [condition("Resolved", "True", "Resolved")],
            },
        })
    }

    fn condition(type_: &str, status: &str, reason: &str) -> Value {
        let time = "2026-01-01T00:00:00Z";
        json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": time})
    }

    fn state(object: Value) -> State {
        State::of(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn neither_gateways_nor_addresses_nor_times_are_part_of_a_verdict() {
        let before = state(resolved());
        let failing = condition("GatewayReady", "False", "UplinkVRFAttachmentFailed");
        for (pointer, value) in [
            ("/status/conditions/1", failing),
            ("/status/macAddress", json!("02:00:00:00:00:02")),
            ("/status/ipAddresses", json!(["192.0.2.1/24"])),
            ("/status/conditions/0/lastTransitionTime", json!("2026-01-02T00:00:00Z")),
            ("/status/conditions/0/message", json!("other words")),
        ] {
            let mut object = resolved();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            match object.pointer_mut(parent).unwrap() {
                Value::Array(conditions) => conditions.push(value),
                place => place[field] = value,
            }
            let after = state(object);
            assert_eq!(after.resolved, Resolved::Yes, "{pointer}");
            assert!(!before.differs_beyond_metrics(&after), "{pointer}");
        }
        let mut other = resolved();
        other["status"]["conditions"][0]["status"] = json!("False");
        assert!(before.differs_beyond_metrics(&state(other)));
    }
}
