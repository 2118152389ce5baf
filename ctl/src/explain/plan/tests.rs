use std::collections::BTreeMap;

use causeway_api::uplink::{Uplink, UplinkStatus};
use causeway_api::uplink_state::{OvsBridge, UplinkStateSpec, UplinkStateStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, Time};

use super::*;
use crate::agent::view::{FailureView, StoreView, UplinkView, VerdictView};
use crate::output::Shown;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::from_second(1_799_999_940).unwrap()),
    }
}

fn entry(selector: LabelSelector, interface: &str) -> NodeConfig {
    NodeConfig {
        type_: UplinkType::OvsBridge,
        node_selector: selector,
        host_interface_name: interface.into(),
    }
}

fn label(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
        match_expressions: None,
    }
}

fn node(name: &str, labels: &[(&str, &str)]) -> NodeRow {
    let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    NodeRow { name: name.into(), labels, annotations: BTreeMap::new() }
}

fn state(node: &str, interface: &str, conditions: Vec<Condition>) -> UplinkState {
    let spec = UplinkStateSpec { uplink_name: "blue".into(), node_name: node.into() };
    let mut state = UplinkState::new(&format!("blue.{node}"), spec);
    state.status = Some(UplinkStateStatus {
        host_interface_name: Some(interface.into()),
        ovs_bridge: Some(OvsBridge { name: Some("br-blue".into()) }),
        conditions,
        ..UplinkStateStatus::default()
    });
    state
}

/// A regular node `node-b` and a node with a card `node-a`, both resolved, and the Uplink ready.
fn whole() -> World {
    let mut uplink = Uplink::new(
        "blue",
        UplinkSpec {
            node_configs: vec![
                entry(label("kind", "regular"), "br0"),
                entry(label("kind", "card"), "eth0-16"),
            ],
        },
    );
    let ready = condition("Ready", "True", "Ready", "all 2 selected node(s) are resolved");
    uplink.status = Some(UplinkStatus { conditions: vec![ready] });
    World {
        uplink,
        nodes: vec![
            node("node-a", &[("kind", "card")]),
            node("node-b", &[("kind", "regular")]),
            node("node-c", &[]),
        ],
        states: vec![
            state(
                "node-a",
                "eth0-16",
                vec![
                    condition("HostDataReady", "True", "HostDataDiscovered", "found"),
                    condition("Resolved", "True", "Resolved", "found by function"),
                ],
            ),
            state("node-b", "br0", vec![condition("Resolved", "True", "Resolved", "found")]),
        ],
        agents: Vec::new(),
        only: None,
        now: now(),
    }
}

fn conditions(world: &mut World, index: usize) -> &mut Vec<Condition> {
    &mut world.states[index].status.as_mut().unwrap().conditions
}

/// `step reason node` of where it stops.
fn stops(change: impl FnOnce(&mut World)) -> String {
    let mut world = whole();
    change(&mut world);
    match explain(&world).stops_at {
        None => "nowhere".to_owned(),
        Some(stop) => {
            assert!(!stop.remedy.is_empty() && !stop.means.is_empty(), "{stop:?}");
            format!("{:?} {} {}", stop.step, stop.reason, stop.node.as_deref().unwrap_or("-"))
        }
    }
}

#[test]
fn a_ready_uplink_stops_nowhere() {
    assert_eq!(stops(|_| {}), "nowhere");
    let explanation = explain(&whole());
    assert_eq!((explanation.selected, explanation.resolved), (2, 2));
    assert_eq!(explanation.entries[1].nodes, ["node-a"]);
}

#[test]
fn each_broken_situation_is_named_with_its_step_and_node() {
    type Change = fn(&mut World);
    let cases: &[(&str, Change, &str)] = &[
        (
            "a selector that cannot be used",
            |world| {
                world.uplink.spec.node_configs[1].node_selector.match_expressions =
                    Some(vec![LabelSelectorRequirement {
                        key: "kind".into(),
                        operator: "Foo".into(),
                        values: None,
                    }]);
            },
            "Spec InvalidSpec -",
        ),
        (
            "two entries select one node",
            |world| world.uplink.spec.node_configs[0].node_selector = LabelSelector::default(),
            "Selection NodeSelectorOverlap node-a",
        ),
        ("no node is selected", |world| world.nodes.clear(), "Selection NoMatchingNodes -"),
        ("a node has not published", |world| drop(world.states.remove(1)), "State MissingUplinkState node-b"),
        (
            "a state is another pair's",
            |world| world.states[1].spec.uplink_name = "red".into(),
            "State UplinkStateIdentityError node-b",
        ),
        (
            "the host finds no interface",
            |world| {
                conditions(world, 0)[0] =
                    condition("HostDataReady", "False", "HostInterfaceNotFound", "not there");
                conditions(world, 0)[1] = condition("Resolved", "False", "WaitingForDPUHost", "waiting");
            },
            "Host HostInterfaceNotFound node-a",
        ),
        (
            "the host of a card is silent",
            |world| {
                *conditions(world, 0) = vec![condition("Resolved", "False", "WaitingForDPUHost", "waiting")];
            },
            "Host Silent node-a",
        ),
        ("the card is silent", |world| drop(conditions(world, 0).pop()), "Bridge Silent node-a"),
        (
            "the card finds no bridge",
            |world| conditions(world, 0)[1] = condition("Resolved", "False", "BridgeNotFound", "none"),
            "Bridge BridgeNotFound node-a",
        ),
        (
            "a regular node finds no bridge",
            |world| conditions(world, 1)[0] = condition("Resolved", "False", "BridgeNotFound", "none"),
            "Bridge BridgeNotFound node-b",
        ),
        (
            "a reason from the future",
            |world| conditions(world, 1)[0] = condition("Resolved", "False", "FromTheFuture", "?"),
            "Bridge FromTheFuture node-b",
        ),
        ("a state says nothing", |world| conditions(world, 1).clear(), "State Silent node-b"),
        (
            "the spec names another interface than the state",
            |world| world.uplink.spec.node_configs[0].host_interface_name = "br9".into(),
            "Host Silent node-b",
        ),
        ("the cluster manager is silent", |world| world.uplink.status = None, "Manager Silent -"),
        (
            "the cluster manager says something else",
            |world| {
                let ready = condition("Ready", "False", "MissingUplinkState", "node-b");
                world.uplink.status.as_mut().unwrap().conditions = vec![ready];
            },
            "Manager MissingUplinkState -",
        ),
        (
            "the judgement is about an older spec",
            |world| {
                world.uplink.metadata.generation = Some(2);
                world.uplink.status.as_mut().unwrap().conditions[0].observed_generation = Some(1);
            },
            "Manager Silent -",
        ),
        (
            "the Uplink is being deleted",
            |world| world.uplink.metadata.deletion_timestamp = Some(Time(now())),
            "Manager UplinkTerminating -",
        ),
    ];
    for (what, change, want) in cases {
        assert_eq!(stops(change), *want, "{what}");
    }
}

#[test]
fn one_node_alone_is_judged_for_itself() {
    let break_a = |world: &mut World| {
        conditions(world, 0)[1] = condition("Resolved", "False", "BridgeNotFound", "none");
        world.uplink.status = None;
    };
    let only = |node: &str| {
        let node = node.to_owned();
        move |world: &mut World| {
            break_a(world);
            world.only = Some(node);
        }
    };
    assert_eq!(stops(only("node-a")), "Bridge BridgeNotFound node-a");
    assert_eq!(stops(only("node-b")), "nowhere");
    assert_eq!(stops(only("node-c")), "Selection NoMatchingNodes -");
}

#[test]
fn a_false_condition_beside_discovery_warns_and_does_not_stop() {
    let mut world = whole();
    conditions(&mut world, 1).push(condition("LinkConsistent", "False", "MTUMismatch", "1500 and 9000"));
    let explanation = explain(&world);
    assert_eq!(explanation.stops_at, None);
    let warning = &explanation.nodes[1].warnings[0];
    assert_eq!((warning.reason.as_str(), warning.step), ("MTUMismatch", Step::Link));
}

#[test]
fn a_state_that_nobody_selects_any_more_is_shown_and_does_not_count() {
    let mut world = whole();
    world.nodes[1].labels.clear();
    let explanation = explain(&world);
    let left = explanation.nodes.iter().find(|node| node.node == "node-b").unwrap();
    assert!(left.entries.is_empty() && left.stops_at.is_none() && left.rule.contains("left over"));
    assert_eq!(explanation.selected, 1);
}

#[test]
fn what_an_agent_adds_is_told_with_the_node_that_it_serves() {
    let mut world = whole();
    conditions(&mut world, 1)[0] = condition("Resolved", "False", "BridgeNotFound", "none");
    world.agents = vec![AgentView {
        socket: "/run/a.sock".into(),
        program: "node-agent".into(),
        version: "0.1.0".into(),
        role: "full".into(),
        node: "node-b".into(),
        pid: 1,
        started: None,
        taken: None,
        notes: Vec::new(),
        stores: vec![StoreView { name: "ovsdb".into(), ready: false, reason: "lost".into(), objects: None }],
        uplinks: Some(vec![UplinkView {
            name: "blue".into(),
            decision: "discover",
            detail: String::new(),
            interface: Some("br0".into()),
            rests_on: Vec::new(),
            host: BTreeMap::new(),
            bridge: None,
            verdict: Some(VerdictView {
                condition: "Resolved".into(),
                holds: true,
                reason: "Resolved".into(),
                message: String::new(),
                since: None,
            }),
            failure: Some(FailureView { message: "no server".into(), retry: "backoff".into(), at: None }),
            last_pass: None,
            passes: 3,
            writes: 1,
            last_write: None,
        }]),
        candidates: Vec::new(),
        kubelet: None,
        isolation: None,
        topology: None,
    }];
    let explanation = explain(&world);
    let [card, regular] = explanation.nodes.as_slice() else { panic!("two nodes") };
    assert!(card.agents.is_empty());
    assert_eq!(
        regular.agents,
        [
            "node-agent: ovsdb is not ready: lost",
            "node-agent: discover, 3 passes, 1 writes",
            "node-agent: last error: no server",
            "node-agent: says Resolved=True/Resolved, which is not (yet) in the state",
        ]
    );
}

#[test]
fn selectors_are_written_as_kubectl_writes_them() {
    let expression = |operator: &str, values: &[&str]| LabelSelectorRequirement {
        key: "rack".into(),
        operator: operator.into(),
        values: Some(values.iter().map(|&value| value.to_owned()).collect()),
    };
    let mut selector = label("kind", "card");
    selector.match_expressions = Some(vec![
        expression("In", &["a", "b"]),
        expression("NotIn", &["c"]),
        expression("Exists", &[]),
        expression("DoesNotExist", &[]),
        expression("Foo", &["d"]),
    ]);
    assert_eq!(
        selector_text(&selector),
        "kind=card, rack in (a,b), rack notin (c), rack, !rack, rack Foo (d)"
    );
    assert_eq!(selector_text(&LabelSelector::default()), "<all>");
}

#[test]
#[expect(clippy::needless_raw_string_hashes, reason = "expect-test writes the text so")]
fn the_text_reads_from_what_was_asked_to_what_to_do() {
    let mut world = whole();
    conditions(&mut world, 1)[0] =
        condition("Resolved", "False", "BridgeUplinkNotFound", "br0 has no physical port");
    world.only = Some("node-b".into());
    let text = explain(&world).text(now());
    expect_test::expect![[r#"
        Uplink blue: Ready=True/Ready for 1m
          all 2 selected node(s) are resolved

        Asked:
          entry 0: OVSBridge br0 on nodes with kind=regular
            selects node-b
          entry 1: OVSBridge eth0-16 on nodes with kind=card
            selects node-a

        Found: 0 of 1 selected node(s) resolved
          node node-b (entry 0): NOT RESOLVED
            Resolved=False/BridgeUplinkNotFound for 1m
              br0 has no physical port
            published: interface br0; bridge br-blue
            rule: the condition Resolved decides
            stops at the half with the bridge: BridgeUplinkNotFound
            do: add the physical port, or name it: `ovs-vsctl br-set-external-id BRIDGE bridge-uplink PORT`

        Stops at the half with the bridge of node node-b: BridgeUplinkNotFound
          found:  br0 has no physical port
          means:  the bridge has no physical port, or several and nothing says which leads out
          do:     add the physical port, or name it: `ovs-vsctl br-set-external-id BRIDGE bridge-uplink PORT`
    "#]]
    .assert_eq(&text);
}
