use std::collections::BTreeMap;

use causeway_api::uplink::UplinkSpec;
use causeway_api::uplink_state::UplinkStateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, OwnerReference,
};

use super::*;
use crate::selection::NodeConfigs;

fn config(labels: &[(&str, &str)]) -> NodeConfig {
    NodeConfig {
        type_: UplinkType::OvsBridge,
        node_selector: LabelSelector { match_labels: Some(map(labels)), match_expressions: None },
        host_interface_name: "breth0".into(),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn uplink(node_configs: Vec<NodeConfig>) -> UplinkFacts {
    let configs = NodeConfigs::parse(&UplinkSpec { node_configs });
    UplinkFacts { name: "blue".into(), uid: "u1".into(), terminating: false, configs }
}

fn state(uplink: &str, node: &str) -> UplinkState {
    let mut state = UplinkState::new(
        "blue.node-a",
        UplinkStateSpec { uplink_name: uplink.into(), node_name: node.into() },
    );
    state.metadata.uid = Some("s1".into());
    state
}

#[track_caller]
fn check(
    uplink: Option<&UplinkFacts>,
    labels: Option<&[(&str, &str)]>,
    state: Option<&UplinkState>,
    want: &str,
) {
    let node = labels.map(|labels| NodeFacts::of("node-a", map(labels), &BTreeMap::new()));
    let world = World {
        role: Role::Full,
        uplink_name: "blue",
        node_name: "node-a",
        uplink,
        node: node.as_ref(),
        state,
    };
    let found = match next(&world) {
        Next::Nothing => "nothing".to_owned(),
        Next::ForeignState(foreign) => format!("foreign: {foreign}"),
        Next::NodeMissing => "node missing".to_owned(),
        Next::Delete { uid } => format!("delete {uid}"),
        Next::Discover { config, .. } => format!("discover {}", config.host_interface_name),
        Next::Refuse { failure, .. } => format!("refuse {}: {}", failure.reason, failure.message),
    };
    assert_eq!(found, want);
}

const BLUE: Option<&[(&str, &str)]> = Some(&[("role", "blue")]);
const RED: Option<&[(&str, &str)]> = Some(&[("role", "red")]);

#[test]
fn a_selected_node_is_discovered_with_or_without_a_state() {
    let blue = uplink(vec![config(&[("role", "blue")])]);
    check(Some(&blue), BLUE, None, "discover breth0");
    check(Some(&blue), BLUE, Some(&state("blue", "node-a")), "discover breth0");
}

#[test]
fn a_node_that_is_not_selected_has_no_state() {
    let blue = uplink(vec![config(&[("role", "blue")])]);
    check(Some(&blue), RED, Some(&state("blue", "node-a")), "delete s1");
    check(Some(&blue), RED, None, "nothing");
}

#[test]
fn the_state_of_an_uplink_that_is_gone_is_deleted() {
    check(None, BLUE, Some(&state("blue", "node-a")), "delete s1");
    check(None, BLUE, None, "nothing");
    check(None, None, Some(&state("blue", "node-a")), "delete s1");
}

#[test]
fn a_state_of_another_pair_is_left_alone_whatever_happens() {
    let text = r#"foreign: uplink state blue.node-a reports uplinkName "red" and nodeName "node-a", expected uplinkName "blue" and nodeName "node-a""#;
    check(Some(&uplink(vec![config(&[])])), BLUE, Some(&state("red", "node-a")), text);
    check(None, BLUE, Some(&state("red", "node-a")), text);
}

#[test]
fn two_matching_entries_are_refused_and_published() {
    check(
        Some(&uplink(vec![config(&[]), config(&[])])),
        BLUE,
        None,
        r#"refuse NodeSelectorOverlap: multiple Uplink "blue" nodeConfigs select node "node-a""#,
    );
}

#[test]
fn an_invalid_selector_is_refused_with_its_text() {
    let mut bad = config(&[]);
    bad.node_selector.match_expressions =
        Some(vec![LabelSelectorRequirement { key: "rack".into(), operator: "Foo".into(), values: None }]);
    check(
        Some(&uplink(vec![bad])),
        BLUE,
        None,
        r#"refuse GatewayInfoUnavailable: nodeConfig 0 has invalid nodeSelector: "Foo" is not a valid label selector operator"#,
    );
}

#[test]
fn an_entry_of_a_newer_type_is_reported() {
    let mut newer = config(&[]);
    newer.type_ = UplinkType::Unknown("Interface".into());
    let want = "refuse GatewayInfoUnavailable: the nodeConfig of Uplink \"blue\" that selects node \"node-a\" has type \
                \"Interface\", which this version does not support; use OVSBridge or update Causeway";
    check(Some(&uplink(vec![newer])), BLUE, None, want);
}

#[test]
fn a_terminating_uplink_keeps_its_state_and_gets_no_new_one() {
    let mut blue = uplink(vec![config(&[])]);
    blue.terminating = true;
    check(Some(&blue), BLUE, Some(&state("blue", "node-a")), "discover breth0");
    check(Some(&blue), BLUE, None, "nothing");
    let mut overlap = uplink(vec![config(&[]), config(&[])]);
    overlap.terminating = true;
    check(Some(&overlap), BLUE, None, "nothing");
}

#[test]
fn the_state_of_an_earlier_uplink_of_the_same_name_is_replaced() {
    let mut old = state("blue", "node-a");
    let owner = OwnerReference {
        kind: "Uplink".into(),
        name: "blue".into(),
        uid: "u0".into(),
        ..OwnerReference::default()
    };
    old.metadata.owner_references = Some(vec![owner]);
    check(Some(&uplink(vec![config(&[])])), BLUE, Some(&old), "delete s1");
}

#[test]
fn without_the_node_object_nothing_is_written() {
    check(Some(&uplink(vec![config(&[])])), None, None, "node missing");
    check(Some(&uplink(vec![config(&[])])), None, Some(&state("blue", "node-a")), "node missing");
}

#[test]
fn a_card_leaves_removal_to_the_agent_of_its_host_where_there_is_one() {
    let old = state("blue", "node-a");
    let labelled = |labels: &[(&str, &str)]| NodeFacts::of("node-a", map(labels), &BTreeMap::new());
    let (with_agent, without) = (labelled(&[(DPU_HOST, "")]), labelled(&[("role", "red")]));
    let cases = [
        (Role::Dpu, Some(&with_agent), Next::Nothing),
        (Role::Dpu, None, Next::Nothing),
        (Role::Dpu, Some(&without), Next::Delete { uid: "s1".into() }),
        (Role::DpuHost, Some(&with_agent), Next::Delete { uid: "s1".into() }),
        (Role::Full, Some(&without), Next::Delete { uid: "s1".into() }),
    ];
    for (role, node, want) in cases {
        let world =
            World { role, uplink_name: "blue", node_name: "node-a", uplink: None, node, state: Some(&old) };
        assert_eq!(next(&world), want, "{role:?} {node:?}");
    }
}
