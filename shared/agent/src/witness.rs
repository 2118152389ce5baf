//! What people are told about a node's half of an Uplink: Events on the Uplink. Pure.
//!
//! In: the conditions of a state before and after a write of this side, or a state that is somebody else's. Out: a
//! [`Happening`] for each condition whose status or reason changed. A changed message alone is no news.

use causeway_api::condition::{self, ConditionStatus};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_api::{GROUP, V1ALPHA1};
use causeway_net::facts::UplinkFacts;
use causeway_net::lifecycle::ForeignState;
use causeway_runtime::events::{Happening, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Reason of an Event about a state that belongs to another pair: the one that the Uplink's `Ready` has for it.
const FOREIGN: &str = "UplinkStateIdentityError";

/// What changed for people between the conditions of a state `before` and those that this side wrote.
pub(crate) fn changes(
    uplink: &UplinkFacts,
    node: &str,
    before: &[Condition],
    wrote: &[Condition],
) -> Vec<Happening> {
    let news = wrote.iter().filter_map(|now| {
        let old = condition::find(before, &now.type_);
        let known = old.is_some_and(|old| (&old.status, &old.reason) == (&now.status, &now.reason));
        let text = format!("{node}: {}: {}", now.type_, now.message);
        (!known).then(|| happening(uplink, node, severity(old, now), &now.reason, text))
    });
    news.collect()
}

/// A state of the derived name that belongs to another pair.
pub(crate) fn foreign(uplink: &UplinkFacts, node: &str, foreign: &ForeignState) -> Happening {
    happening(uplink, node, Severity::Warning, FOREIGN, format!("{node}: {foreign}"))
}

/// What is only being waited for is no warning: an address that is being checked, and a host that has not come yet.
fn severity(old: Option<&Condition>, now: &Condition) -> Severity {
    let waits = now.status == ConditionStatus::Unknown.as_str()
        || (old.is_none() && now.reason == DiscoveryReason::WaitingForDpuHost.as_str());
    if waits || now.status == ConditionStatus::True.as_str() { Severity::Normal } else { Severity::Warning }
}

fn happening(uplink: &UplinkFacts, node: &str, severity: Severity, reason: &str, text: String) -> Happening {
    let regarding = ObjectReference {
        api_version: Some(format!("{GROUP}/{V1ALPHA1}")),
        kind: Some("Uplink".to_owned()),
        name: Some(uplink.name.clone()),
        uid: Some(uplink.uid.clone()),
        ..ObjectReference::default()
    };
    let related = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.to_owned()),
        ..ObjectReference::default()
    };
    Happening {
        regarding,
        related: Some(related),
        severity,
        reason: reason.to_owned(),
        action: "Discover",
        note: text,
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::uplink::{Uplink, UplinkSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn facts() -> UplinkFacts {
        let mut uplink = Uplink::new("blue", UplinkSpec { node_configs: Vec::new() });
        uplink.metadata.uid = Some("uid-blue".to_owned());
        UplinkFacts::of(&uplink).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        }
    }

    fn told(before: &[Condition], wrote: &[Condition]) -> Vec<String> {
        let told = changes(&facts(), "node-a", before, wrote);
        assert!(told.iter().all(|one| one.regarding.uid.as_deref() == Some("uid-blue")));
        told.iter().map(|one| format!("{:?} {}: {}", one.severity, one.reason, one.note)).collect()
    }

    #[test]
    fn a_new_status_or_reason_is_told_and_a_new_message_is_not() {
        let bad = condition("Resolved", "False", "BridgeNotFound", "no bridge");
        let good = condition("Resolved", "True", "Resolved", "");
        let rows: [(&[Condition], &Condition, &[&str]); 5] = [
            (&[], &bad, &["Warning BridgeNotFound: node-a: Resolved: no bridge"]),
            (std::slice::from_ref(&bad), &good, &["Normal Resolved: node-a: Resolved: "]),
            (
                std::slice::from_ref(&bad),
                &condition("Resolved", "False", "BridgeInvalid", "x"),
                &["Warning BridgeInvalid: node-a: Resolved: x"],
            ),
            (
                std::slice::from_ref(&bad),
                &condition("Resolved", "False", "BridgeNotFound", "other words"),
                &[],
            ),
            (std::slice::from_ref(&good), &good, &[]),
        ];
        for (before, now, want) in rows {
            assert_eq!(told(before, std::slice::from_ref(now)), want, "{before:?} then {now:?}");
        }
    }

    #[test]
    fn each_condition_of_this_side_is_told_by_itself() {
        let before = [condition("HostDataReady", "True", "HostDataDiscovered", "")];
        let wrote = [
            condition("Resolved", "True", "Resolved", ""),
            condition("LinkConsistent", "False", "MTUMismatch", "1500 and 9000"),
        ];
        assert_eq!(told(&before, &wrote).len(), 2);
    }

    #[test]
    fn what_is_only_waited_for_is_no_warning_until_it_was_there() {
        let waits = condition("Resolved", "False", "WaitingForDPUHost", "m");
        assert!(told(&[], std::slice::from_ref(&waits))[0].starts_with("Normal "));
        let before = [condition("Resolved", "True", "Resolved", "")];
        assert!(told(&before, &[waits])[0].starts_with("Warning "));
        let tentative = condition("LinkConsistent", "Unknown", "AddressTentative", "m");
        assert!(told(&[], &[tentative])[0].starts_with("Normal "));
    }
}
