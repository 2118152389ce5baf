use std::io;
use std::path::PathBuf;

use super::super::find::Source;
use super::*;

fn found(path: &str, id: u64) -> Found {
    Found { path: path.parse().unwrap(), id, source: Source::Search }
}

fn nowhere() -> Result<Found, NotFound> {
    Err(NotFound::Nowhere("/sys/fs/cgroup".into()))
}

fn cgroup(path: &str, generation: u64) -> Next {
    Next::Publish(Kubelet::Cgroup { path: path.to_owned(), generation })
}

fn closed(reason: &str) -> Next {
    Next::Publish(Kubelet::Unsupported { reason: reason.to_owned() })
}

const NOWHERE: &str = "no \"kubelet.service\" directory found under /sys/fs/cgroup";

/// A state that loads rules with this cgroup, generation 1.
fn holding(path: &str, id: u64) -> State {
    let mut state = State::default();
    assert_eq!(state.looked(Ok(found(path, id)), Cause::Start), Next::Check(found(path, id)));
    assert_eq!(state.checked(found(path, id), Ok(())), cgroup(path, 1));
    state
}

#[test]
fn a_cgroup_is_used_once_the_kernel_has_taken_it() {
    holding("a/kubelet.service", 7);
}

#[test]
fn looks_that_find_the_same_change_nothing() {
    let mut state = holding("a/kubelet.service", 7);
    for cause in [Cause::Changed, Cause::Slow, Cause::Start] {
        assert_eq!(state.looked(Ok(found("a/kubelet.service", 7)), cause), Next::Nothing, "{cause:?}");
    }
}

#[test]
fn a_remade_cgroup_and_a_restart_told_by_systemd_load_the_rules_again_without_asking_the_kernel() {
    let mut state = holding("a/kubelet.service", 7);
    assert_eq!(
        state.looked(Ok(found("a/kubelet.service", 8)), Cause::Changed),
        cgroup("a/kubelet.service", 2)
    );
    assert_eq!(
        state.looked(Ok(found("a/kubelet.service", 8)), Cause::Restarted),
        cgroup("a/kubelet.service", 3)
    );
    assert_eq!(state.looked(Ok(found("a/kubelet.service", 9)), Cause::Slow), cgroup("a/kubelet.service", 4));
}

#[test]
fn another_path_is_checked_first() {
    let mut state = holding("a/kubelet.service", 7);
    let other = found("b/kubelet.service", 8);
    assert_eq!(state.looked(Ok(other.clone()), Cause::Changed), Next::Check(other.clone()));
    assert_eq!(state.checked(other, Ok(())), cgroup("b/kubelet.service", 2));
}

#[test]
fn a_cgroup_that_goes_while_used_is_waited_for_and_given_up_after_a_while() {
    let mut state = holding("a/kubelet.service", 7);
    assert_eq!(state.looked(nowhere(), Cause::Changed), Next::Publish(Kubelet::Unknown));
    assert_eq!(state.looked(nowhere(), Cause::Changed), Next::Nothing);
    assert_eq!(state.looked(nowhere(), Cause::Slow), closed(NOWHERE));
    assert_eq!(
        state.looked(Ok(found("a/kubelet.service", 9)), Cause::Changed),
        cgroup("a/kubelet.service", 2)
    );
}

#[test]
fn a_cgroup_that_never_was_is_an_answer_at_once_and_found_when_it_appears() {
    let mut state = State::default();
    assert_eq!(state.looked(nowhere(), Cause::Start), closed(NOWHERE));
    assert_eq!(state.looked(nowhere(), Cause::Changed), closed(NOWHERE));
    let late = found("a/kubelet.service", 7);
    assert_eq!(state.looked(Ok(late.clone()), Cause::Changed), Next::Check(late.clone()));
    assert_eq!(state.checked(late, Ok(())), cgroup("a/kubelet.service", 1));
}

#[test]
fn a_refused_match_is_asked_about_again_only_when_time_has_passed() {
    let mut state = State::default();
    let one = found("a/kubelet.service", 7);
    assert_eq!(state.looked(Ok(one.clone()), Cause::Start), Next::Check(one.clone()));
    let refusal = Refusal::Match("Could not process rule: No such file or directory".to_owned());
    let reason = "the kernel does not support the nftables socket cgroupv2 match: Could not process rule: No such file or directory";
    assert_eq!(state.checked(one.clone(), Err(refusal)), closed(reason));
    assert_eq!(state.looked(Ok(one.clone()), Cause::Changed), Next::Nothing);
    assert_eq!(state.looked(Ok(one.clone()), Cause::Slow), Next::Check(one.clone()));
    assert_eq!(state.checked(one, Ok(())), cgroup("a/kubelet.service", 1));
}

#[test]
fn that_probes_are_not_supported_is_told_once() {
    let mut state = State::default();
    let kubelet = Kubelet::Unsupported { reason: "the node uses cgroup v1".to_owned() };
    assert_eq!(
        state.tell_probes(&kubelet),
        Some(Telling::ProbesNotSupported("the node uses cgroup v1".to_owned()))
    );
    assert_eq!(state.tell_probes(&kubelet), None);
    assert_eq!(State::default().tell_probes(&Kubelet::Unknown), None);
    let cgroup = Kubelet::Cgroup { path: "a".to_owned(), generation: 1 };
    assert_eq!(State::default().tell_probes(&cgroup), None);
}

#[test]
fn that_restarts_are_not_tracked_is_told_once_and_only_if_there_is_no_way_at_all() {
    let (no_unit, no_watch) = (Err("no unit".to_owned()), Err("no watch".to_owned()));
    for (systemd, directories) in [(Ok(()), Ok(())), (no_unit.clone(), Ok(())), (Ok(()), no_watch.clone())] {
        assert_eq!(holding("a/k", 1).tell_tracking(&systemd, &directories), None);
    }
    let mut state = holding("a/k", 1);
    let told = "no unit; and its cgroup cannot be watched: no watch".to_owned();
    assert_eq!(state.tell_tracking(&no_unit, &no_watch), Some(Telling::RestartTrackingUnavailable(told)));
    assert_eq!(state.tell_tracking(&no_unit, &no_watch), None);
    // Without a cgroup there is nothing to track.
    assert_eq!(State::default().tell_tracking(&no_unit, &no_watch), None);
}

#[test]
fn a_configured_path_that_is_not_there_is_told_as_such() {
    let mut state = State::default();
    let error = io::Error::from_raw_os_error(2);
    let (root, path) = (PathBuf::from("/sys/fs/cgroup"), "podruntime/kubelet".parse().unwrap());
    assert_eq!(
        state.looked(Err(NotFound::ConfiguredAbsent { root, path, error }), Cause::Start),
        closed(
            "configured kubelet cgroup path \"podruntime/kubelet\" is not present under /sys/fs/cgroup: No such file or directory (os error 2)"
        )
    );
}
