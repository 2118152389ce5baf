use causeway_api::uplink_state::UplinkStateSpec;

use super::*;

fn state(version: &str) -> UplinkState {
    let spec = UplinkStateSpec { uplink_name: "blue".into(), node_name: "node-a".into() };
    let mut state = UplinkState::new("blue.node-a", spec);
    state.metadata.resource_version = Some(version.into());
    state
}

fn newest(written: &Written, watched: Option<&str>) -> Option<String> {
    let watched = watched.map(|version| Arc::new(state(version)));
    written.newest("blue.node-a", watched.as_ref())?.metadata.resource_version.clone()
}

#[test]
fn a_watch_that_is_behind_our_own_write_is_not_believed() {
    let written = Written::default();
    written.remember("blue.node-a", state("10"));
    assert_eq!(newest(&written, None).as_deref(), Some("10"), "created, and not seen yet");
    assert_eq!(newest(&written, Some("9")).as_deref(), Some("10"));
}

#[test]
fn versions_are_compared_as_numbers_and_a_watch_that_caught_up_wins() {
    let written = Written::default();
    written.remember("blue.node-a", state("9"));
    assert_eq!(newest(&written, Some("10")).as_deref(), Some("10"));
    assert_eq!(newest(&written, None), None, "what was caught up with is forgotten");
}

#[test]
fn a_deleted_state_is_not_remembered() {
    let written = Written::default();
    written.remember("blue.node-a", state("10"));
    written.forget("blue.node-a");
    assert_eq!(newest(&written, None), None);
}

#[test]
fn only_errors_that_no_event_heals_are_retried() {
    let missed = NotObserved {
        reason: causeway_api::uplink_state::DiscoveryReason::BridgeNotFound,
        message: "no socket".into(),
    };
    assert_eq!(PassError::NotObserved(missed).retry(), Retry::Never);
    let unreadable = PassError::Unreadable { kind: "Uplink", name: "blue".into(), cause: "bad".into() };
    assert_eq!(unreadable.retry(), Retry::Never);
    let lost = PassError::Write {
        verb: "publish",
        state: StateName::of("blue", "node-a"),
        source: WriteError::Deadline(Duration::from_secs(1)),
    };
    assert_eq!(lost.retry(), Retry::Backoff);
}
