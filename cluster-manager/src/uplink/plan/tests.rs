//! The cases of selection (3) and of upstream's controller (6) that concern Uplinks and states, a row per check.

use std::sync::Arc;

use causeway_api::uplink::UplinkType;
use expect_test::{Expect, expect};
use jiff::Timestamp;

use super::*;
use crate::uplink::fixtures::{held_by_others, node, state, uplink, world};
use crate::uplink::watched::State;

type Nodes<'n> = &'n [(&'n str, &'n [(&'n str, &'n str)])];

const BLUE_A: Nodes<'_> = &[("node-a", &[("role", "blue")])];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Plans `br-blue` in this world and compares the steps. `row` names the case in a failure.
#[track_caller]
fn check(row: &str, uplink: Option<Uplink>, nodes: Nodes<'_>, states: &[(&str, State)], want: &Expect) {
    let name = UplinkName::from("br-blue");
    let plan = super::uplink(&name, &world(uplink, nodes, states)(&name), at(1_000));
    let found = format!("{row}\n{plan}");
    want.assert_eq(&found);
}

fn blue() -> Uplink {
    uplink("br-blue", &[("breth0", "role=blue")])
}

fn every() -> Uplink {
    uplink("br-blue", &[("breth0", "")])
}

fn own(node: &str) -> State {
    state("br-blue", node)
}

#[test]
fn a_selected_node_without_a_state_is_reported_and_no_state_is_made() {
    check(
        "6: Uplink role=blue; node-a blue, node-b red; no states",
        Some(blue()),
        &[("node-a", &[("role", "blue")]), ("node-b", &[("role", "red")])],
        &[],
        &expect![[r"
            6: Uplink role=blue; node-a blue, node-b red; no states
            write Ready=False/MissingUplinkState: 1 of 1 selected node(s) have readiness failures; examples: node-a=MissingUplinkState
        "]],
    );
}

#[test]
fn a_resolved_state_of_the_right_interface_makes_the_uplink_ready() {
    check(
        "6: one node, state resolved, type and interface match",
        Some(blue()),
        BLUE_A,
        &[("br-blue.node-a", own("node-a").resolved("breth0"))],
        &expect![[r"
            6: one node, state resolved, type and interface match
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
}

#[test]
fn every_failing_node_counts_and_three_are_named() {
    check(
        "6: 5 nodes with four different causes",
        Some(every()),
        &[("node-a", &[]), ("node-b", &[]), ("node-c", &[]), ("node-d", &[]), ("node-e", &[])],
        &[
            ("br-blue.node-a", own("node-a").unresolved("HostInterfaceNotFound")),
            ("br-blue.node-b", own("node-b").unresolved("BridgeNotFound")),
            (
                "br-blue.node-c",
                own("node-c").unresolved("WaitingForDPUHost").host_cause("InvalidHostInterface"),
            ),
            ("br-blue.node-d", own("node-d").unresolved("GatewayInfoUnavailable")),
            ("br-blue.node-e", own("node-e").resolved("breth0")),
        ],
        &expect![[r"
            6: 5 nodes with four different causes
            write Ready=False/UplinkStateNotResolved: 4 of 5 selected node(s) have readiness failures; examples: node-a=HostInterfaceNotFound, node-b=BridgeNotFound, node-c=InvalidHostInterface
        "]],
    );
}

#[test]
fn an_overlap_gives_the_reason_before_a_missing_state() {
    check(
        "6: node-a selected without state, node-b overlapping",
        Some(uplink("br-blue", &[("breth0", "role=blue"), ("breth1", "zone=east")])),
        &[("node-a", &[("role", "blue")]), ("node-b", &[("role", "blue"), ("zone", "east")])],
        &[],
        &expect![[r"
            6: node-a selected without state, node-b overlapping
            write Ready=False/NodeSelectorOverlap: 2 of 2 selected node(s) have readiness failures; examples: node-a=MissingUplinkState, node-b=NodeSelectorOverlap
        "]],
    );
}

#[test]
fn a_foreign_object_under_the_states_name_is_named_with_whose_it_is() {
    check(
        "6: state of node-a has uplinkName: br-red",
        Some(blue()),
        BLUE_A,
        &[("br-blue.node-a", state("br-red", "node-a").resolved("breth0"))],
        &expect![[r#"
            6: state of node-a has uplinkName: br-red
            write Ready=False/UplinkStateIdentityError: 1 of 1 selected node(s) have readiness failures; examples: node-a=UplinkStateIdentityError: uplinkName="br-red"
        "#]],
    );
    check(
        "6.5 check 3: another node's state under the name; it is selected too and stays",
        Some(every()),
        &[("node-a", &[]), ("node-b", &[])],
        &[("br-blue.node-a", own("node-b")), ("br-blue.node-b", own("node-b").resolved("breth0"))],
        &expect![[r#"
            6.5 check 3: another node's state under the name; it is selected too and stays
            write Ready=False/UplinkStateIdentityError: 1 of 2 selected node(s) have readiness failures; examples: node-a=UplinkStateIdentityError: nodeName="node-b"
        "#]],
    );
}

#[test]
fn an_overlapping_node_keeps_its_state() {
    check(
        "6: only overlapping node",
        Some(uplink("br-blue", &[("breth0", "role=blue"), ("breth0", "role=blue")])),
        BLUE_A,
        &[("br-blue.node-a", own("node-a").unresolved("NodeSelectorOverlap"))],
        &expect![[r"
            6: only overlapping node
            write Ready=False/NodeSelectorOverlap: 1 of 1 selected node(s) have readiness failures; examples: node-a=NodeSelectorOverlap
        "]],
    );
}

#[test]
fn a_selector_that_cannot_be_used_is_reported_with_its_cause_and_takes_no_state_away() {
    check(
        "6: selector Exists with a value",
        Some(uplink("br-blue", &[("breth0", "role Exists x")])),
        BLUE_A,
        &[("br-blue.node-a", own("node-a")), ("br-blue.node-gone", own("node-gone"))],
        &expect![[r#"
            6: selector Exists with a value
            write Ready=False/InvalidSpec: Uplink is not ready because its spec is not accepted: nodeConfig 0 has invalid nodeSelector: values of "role": operator Exists takes no values
        "#]],
    );
    check(
        "3: operator Invalid, no nodes",
        Some(uplink("br-blue", &[("breth0", "role Invalid")])),
        &[],
        &[],
        &expect![[r#"
            3: operator Invalid, no nodes
            write Ready=False/InvalidSpec: Uplink is not ready because its spec is not accepted: nodeConfig 0 has invalid nodeSelector: "Invalid" is not a valid label selector operator
        "#]],
    );
}

#[test]
fn selection_follows_the_cases_of_section_3() {
    let two = || Some(uplink("br-blue", &[("breth0", "role=blue"), ("breth1", "zone=east")]));
    let resolved = || [("br-blue.n", state("br-blue", "n").resolved("breth0"))];
    check(
        "3: role=blue on the node",
        two(),
        &[("n", &[("role", "blue")])],
        &resolved(),
        &expect![[r"
            3: role=blue on the node
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
    check(
        "3: role=red on the node",
        two(),
        &[("n", &[("role", "red")])],
        &[],
        &expect![[r"
            3: role=red on the node
            write Ready=False/NoMatchingNodes: no nodes match any Uplink nodeConfig
        "]],
    );
    check(
        "3: role=blue and zone=east on the node",
        two(),
        &[("n", &[("role", "blue"), ("zone", "east")])],
        &[],
        &expect![[r"
            3: role=blue and zone=east on the node
            write Ready=False/NodeSelectorOverlap: 1 of 1 selected node(s) have readiness failures; examples: n=NodeSelectorOverlap
        "]],
    );
    check(
        "3: {} and role=blue",
        Some(uplink("br-blue", &[("breth0", ""), ("breth1", "role=blue")])),
        &[("n", &[("role", "blue")])],
        &[],
        &expect![[r"
            3: {} and role=blue
            write Ready=False/NodeSelectorOverlap: 1 of 1 selected node(s) have readiness failures; examples: n=NodeSelectorOverlap
        "]],
    );
    check(
        "3: {} alone",
        Some(every()),
        &[("n", &[])],
        &resolved(),
        &expect![[r"
            3: {} alone
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
}

#[test]
fn obsolete_conditions_of_ours_are_withdrawn_and_those_of_others_cause_no_write() {
    let ready = || {
        blue()
            .condition("Ready", "True", "Ready", "all 1 selected node(s) are resolved")
            .condition("Degraded", "False", "Old", "")
    };
    let resolved = [("br-blue.node-a", own("node-a").resolved("breth0"))];
    let ours = Uplink { owns_obsolete: true, ..ready() };
    check(
        "6: Uplink has old Degraded and Referenced conditions",
        Some(ours),
        BLUE_A,
        &resolved,
        &expect![[r"
            6: Uplink has old Degraded and Referenced conditions
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
    check(
        "6.8: put there by another field manager",
        Some(ready()),
        BLUE_A,
        &resolved,
        &expect![[r"
            6.8: put there by another field manager
        "]],
    );
}

#[test]
fn a_state_made_before_its_node_was_selected_is_collected_and_counts_while_it_is_there() {
    check(
        "6: resolved state of a node that is not selected",
        Some(blue()),
        &[("node-a", &[("role", "red")])],
        &[("br-blue.node-a", own("node-a").resolved("breth0"))],
        &expect![[r"
            6: resolved state of a node that is not selected
            write Ready=False/NoMatchingNodes: no nodes match any Uplink nodeConfig
            delete br-blue.node-a: its Uplink does not select its Node
        "]],
    );
    check(
        "6: the node is selected later",
        Some(blue()),
        BLUE_A,
        &[("br-blue.node-a", own("node-a").resolved("breth0"))],
        &expect![[r"
            6: the node is selected later
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
}

#[test]
fn only_states_of_selected_nodes_survive() {
    // 6: start-up; here it holds at any time, and 6: node deleted at run time goes with it.
    check(
        "6: start-up: a selected node, an unselected node, a missing node",
        Some(blue().condition("Ready", "True", "Ready", "all 1 selected node(s) are resolved")),
        &[("node-a", &[("role", "blue")]), ("node-b", &[("role", "red")])],
        &[
            ("br-blue.node-a", own("node-a").resolved("breth0")),
            ("br-blue.node-b", own("node-b").resolved("breth0")),
            ("br-blue.node-x", own("node-x").resolved("breth0")),
        ],
        &expect![[r"
            6: start-up: a selected node, an unselected node, a missing node
            delete br-blue.node-b: its Uplink does not select its Node
            delete br-blue.node-x: its Node is gone
        "]],
    );
}

#[test]
fn the_states_of_a_missing_uplink_go_and_those_of_others_stay() {
    check(
        "6: Uplink br-blue not in cache, states of br-blue and br-red exist",
        None,
        BLUE_A,
        &[
            ("br-blue.node-a", own("node-a").resolved("breth0")),
            ("br-red.node-a", state("br-red", "node-a")),
            ("br-blue.node-z", state("br-red", "node-z")), // its name lies, its identity counts
        ],
        &expect![[r"
            6: Uplink br-blue not in cache, states of br-blue and br-red exist
            delete br-blue.node-a: its Uplink is gone
        "]],
    );
}

#[test]
fn an_index_that_is_behind_takes_no_other_uplinks_state_away() {
    let name = UplinkName::from("br-blue");
    let mut world = world(None, BLUE_A, &[("br-red.node-a", state("br-red", "node-a"))])(&name);
    world.states_of.push(StateKey::from("br-red.node-a"));
    assert_eq!(super::uplink(&name, &world, at(0)).steps, []);
}

#[test]
fn a_terminating_uplink_gives_up_its_states_before_our_finalizer() {
    check(
        "6: start-up, terminating Uplink, unreferenced, one state",
        Some(blue().terminating().finalizer(FinalizerOwner::Us)),
        BLUE_A,
        &[("br-blue.node-a", own("node-a").resolved("breth0"))],
        &expect![[r"
            6: start-up, terminating Uplink, unreferenced, one state
            write Ready=False/UplinkTerminating: Uplink is terminating and cannot accept new CUDN references
            delete br-blue.node-a: its Uplink is terminating
            release finalizer
        "]],
    );
    check(
        "6: held by a finalizer of someone else, selector unusable",
        Some(uplink("br-blue", &[("breth0", "role=a b")]).terminating()),
        BLUE_A,
        &[("br-blue.node-a", own("node-a"))],
        &expect![[r"
            6: held by a finalizer of someone else, selector unusable
            write Ready=False/UplinkTerminating: Uplink is terminating and cannot accept new CUDN references
            delete br-blue.node-a: its Uplink is terminating
        "]],
    );
}

#[test]
fn a_finalizer_that_nothing_needs_is_taken_off() {
    let ready =
        || blue().condition("Ready", "False", "NoMatchingNodes", "no nodes match any Uplink nodeConfig");
    check(
        "6: start-up, Uplink has the finalizer, nobody references it",
        Some(ready().finalizer(FinalizerOwner::Us)),
        &[],
        &[],
        &expect![[r"
            6: start-up, Uplink has the finalizer, nobody references it
            release finalizer
        "]],
    );
    check(
        "restored from a backup, so that an apply of ours would leave it",
        Some(ready().finalizer(held_by_others())),
        &[],
        &[],
        &expect![[r#"
            restored from a backup, so that an apply of ours would leave it
            release finalizer, leave ["example.com/other"]
        "#]],
    );
    check(
        "the same, while the status has to be written: the version would not fit any more",
        Some(blue().finalizer(held_by_others())),
        &[],
        &[],
        &expect![[r"
            the same, while the status has to be written: the version would not fit any more
            write Ready=False/NoMatchingNodes: no nodes match any Uplink nodeConfig
        "]],
    );
}

#[test]
fn a_state_of_an_earlier_uplink_of_the_name_does_not_count_and_one_without_owner_does() {
    let with = |state: State| [("br-blue.node-a", state.resolved("breth0"))];
    check(
        "owner of another uid",
        Some(blue()),
        BLUE_A,
        &with(own("node-a").owned_by("uid-earlier")),
        &expect![[r#"
            owner of another uid
            write Ready=False/UplinkStateIdentityError: 1 of 1 selected node(s) have readiness failures; examples: node-a=UplinkStateIdentityError: uplinkUID="uid-earlier"
        "#]],
    );
    check(
        "owner of this uid",
        Some(blue()),
        BLUE_A,
        &with(own("node-a").owned_by("uid-br-blue")),
        &expect![[r"
            owner of this uid
            write Ready=True/Ready: all 1 selected node(s) are resolved
        "]],
    );
}

#[test]
fn each_check_of_a_state_has_its_own_text() {
    let texts: Vec<String> = [
        own("node-a"),
        own("node-a").host_cause("HostInterfaceNotFound"),
        own("node-a").unresolved("WaitingForDPUHost"),
        own("node-a").unresolved("WaitingForDPUHost").host_cause("HostInterfaceNotFound"),
        own("node-a").unresolved("BridgeInvalid").host_cause("HostInterfaceNotFound"),
        own("node-a").unresolved(""),
        own("node-a").unresolved("AnythingAtAll"),
        own("node-a").resolved("other"),
        State { type_: Some(UplinkType::Unknown("Interface".into())), ..own("node-a").resolved("breth0") },
        State { type_: None, ..own("node-a").resolved("breth0") },
        own("node-a").resolved("breth0").host_cause("HostInterfaceNotFound"),
    ]
    .into_iter()
    .map(|state| {
        let name = UplinkName::from("br-blue");
        let plan =
            super::uplink(&name, &world(Some(blue()), BLUE_A, &[("br-blue.node-a", state)])(&name), at(0));
        let verdict = plan.verdict.unwrap();
        format!("{} {}", verdict.reason, verdict.message.rsplit("examples: ").next().unwrap_or_default())
    })
    .collect();
    expect![[r"
        UplinkStateNotResolved node-a=ResolvedConditionMissing
        UplinkStateNotResolved node-a=HostInterfaceNotFound
        UplinkStateNotResolved node-a=WaitingForDPUHost
        UplinkStateNotResolved node-a=HostInterfaceNotFound
        UplinkStateNotResolved node-a=BridgeInvalid
        UplinkStateNotResolved node-a=UplinkStateNotResolved
        UplinkStateNotResolved node-a=AnythingAtAll
        UplinkStateNotResolved node-a=NodeConfigMismatch
        UplinkStateNotResolved node-a=NodeConfigMismatch
        UplinkStateNotResolved node-a=NodeConfigMismatch
        Ready all 1 selected node(s) are resolved"]]
    .assert_eq(&texts.join("\n"));
}

#[test]
fn examples_are_sorted_as_whole_texts() {
    check(
        "6.5: node-10 stands before node-1",
        Some(every()),
        &[("node-1", &[]), ("node-10", &[]), ("node-2", &[]), ("node-3", &[])],
        &[],
        &expect![[r"
            6.5: node-10 stands before node-1
            write Ready=False/MissingUplinkState: 4 of 4 selected node(s) have readiness failures; examples: node-10=MissingUplinkState, node-1=MissingUplinkState, node-2=MissingUplinkState
        "]],
    );
}

#[test]
fn the_transition_time_moves_only_with_the_status_and_the_generation_is_reported() {
    let before = Uplink { generation: Some(7), ..blue() }.condition("Ready", "False", "InvalidSpec", "old");
    let name = UplinkName::from("br-blue");
    let written = |uplink: Uplink, states: &[(&str, State)]| {
        let plan = super::uplink(&name, &world(Some(uplink), BLUE_A, states)(&name), at(1_000));
        match plan.steps.as_slice() {
            [Step::WriteReady { condition, uid, .. }] => {
                assert_eq!(uid, "uid-br-blue");
                (condition.last_transition_time.0, condition.observed_generation)
            }
            other => panic!("unexpected steps {other:?}"),
        }
    };
    assert_eq!(written(before.clone(), &[]), (at(0), Some(7)));
    let resolved = [("br-blue.node-a", own("node-a").resolved("breth0"))];
    assert_eq!(written(before, &resolved), (at(1_000), Some(7)));
}

#[test]
fn a_new_generation_alone_is_written() {
    let mut seen =
        blue().condition("Ready", "False", "NoMatchingNodes", "no nodes match any Uplink nodeConfig");
    seen.generation = Some(2);
    check(
        "spec changed, same outcome",
        Some(seen),
        &[],
        &[],
        &expect![[r"
            spec changed, same outcome
            write Ready=False/NoMatchingNodes: no nodes match any Uplink nodeConfig
        "]],
    );
}

#[test]
fn an_unreadable_node_takes_no_state_away_unless_its_uplink_goes() {
    let unreadable = Lookup::Unreadable("a label is not a text");
    assert_eq!(stale(Some(&blue()), false, &unreadable), None);
    assert_eq!(stale(Some(&blue().terminating()), false, &unreadable), Some(Stale::UplinkTerminating));
    assert_eq!(stale(None, false, &unreadable), Some(Stale::UplinkGone));
    let other = Arc::new(node(&[]));
    assert_eq!(stale(Some(&blue()), false, &Lookup::Present(&other)), Some(Stale::NotSelected));
}
