use causeway_api::uplink::{NodeConfig, UplinkSpec, UplinkType};
use causeway_api::uplink_state::UplinkState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;

use super::*;

/// Everything that there is in one test.
#[derive(Default)]
struct World {
    uplinks: BTreeMap<String, UplinkFacts>,
    states: BTreeMap<StateName, StateFacts>,
    unreadable: BTreeMap<String, &'static str>,
    nodes: BTreeMap<NodeName, BTreeMap<String, String>>,
    rivals: BTreeMap<(&'static str, &'static str), Vec<String>>,
}

impl View for World {
    fn uplink(&self, name: &str) -> Found<'_, UplinkFacts> {
        match (self.uplinks.get(name), self.unreadable.get(name)) {
            (Some(uplink), _) => Found::Present(uplink),
            (None, Some(error)) => Found::Unreadable(error),
            (None, None) => Found::Absent,
        }
    }

    fn state(&self, name: &StateName) -> Found<'_, StateFacts> {
        match (self.states.get(name), self.unreadable.get(name.as_str())) {
            (Some(state), _) => Found::Present(state),
            (None, Some(error)) => Found::Unreadable(error),
            (None, None) => Found::Absent,
        }
    }

    fn rivals(&self, uplink: &str, node: &NodeName) -> Vec<String> {
        self.rivals.get(&(uplink, node.as_str())).cloned().unwrap_or_default()
    }
}

fn config(labels: &[(&str, &str)]) -> NodeConfig {
    let labels = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    NodeConfig {
        type_: UplinkType::OvsBridge,
        node_selector: LabelSelector { match_labels: Some(labels), match_expressions: None },
        host_interface_name: "br-up".into(),
    }
}

fn facts(name: &str, configs: &[NodeConfig]) -> UplinkFacts {
    UplinkFacts {
        name: name.into(),
        uid: format!("uid-{name}"),
        terminating: false,
        configs: NodeConfigs::parse(&UplinkSpec { node_configs: configs.to_vec() }),
    }
}

/// A state with conditions `type=status/reason`.
fn state(uplink: &str, node: &str, conditions: &[&str]) -> StateFacts {
    let condition = |text: &&str| {
        let (type_, rest) = text.split_once('=').unwrap();
        let (status, reason) = rest.split_once('/').unwrap();
        json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    let state: UplinkState = serde_json::from_value(json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState",
        "metadata": {"name": format!("{uplink}.{node}")},
        "spec": {"uplinkName": uplink, "nodeName": node},
        "status": {"type": "OVSBridge", "hostInterfaceName": "br-up", "conditions": conditions},
    }))
    .unwrap();
    StateFacts::of(&state)
}

impl World {
    fn with_nodes(names: &[&str]) -> Self {
        let nodes = names.iter().map(|name| (NodeName::from(*name), BTreeMap::new())).collect();
        Self { nodes, ..Self::default() }
    }

    fn uplink(mut self, uplink: UplinkFacts) -> Self {
        self.uplinks.insert(uplink.name.clone(), uplink);
        self
    }

    fn state(mut self, uplink: &str, node: &str, conditions: &[&str]) -> Self {
        self.states.insert(StateName::of(uplink, node), state(uplink, node, conditions));
        self
    }

    fn verdict(&self, uplinks: &[&str]) -> Verdict {
        let uplinks: Vec<String> = uplinks.iter().map(|&name| name.to_owned()).collect();
        let network = Network { name: "c", uplinks: &uplinks, carrier: Carrier::of(None) };
        let active = self.nodes.iter().map(|(name, labels)| (name.clone(), labels)).collect();
        verdict(network, GatewayMode::Shared, &active, self)
    }

    #[track_caller]
    fn says(&self, uplinks: &[&str], want: &str) {
        let found = self.verdict(uplinks);
        assert_eq!(format!("{}/{}: {}", found.status(), found.reason, found.message), want);
    }
}

const RESOLVED: &str = "Resolved=True/Resolved";
const GATEWAY: &str = "GatewayReady=True/GatewayConfigured";
const HOST_DATA: &str = "HostDataReady=True/HostDataDiscovered";
const HOST_GATEWAY: &str = "HostGatewayReady=True/GatewayConfigured";
const READY: &str = "True/UplinksReady: Uplinks are ready for all active CUDN nodes";

/// One node, one Uplink that selects every node, the node's state with these conditions.
fn one(conditions: &[&str]) -> World {
    World::with_nodes(&["node-a"])
        .uplink(facts("br-blue", &[config(&[])]))
        .state("br-blue", "node-a", conditions)
}

fn failed(reason: &str) -> String {
    format!(
        "False/{reason}: 1 active node/uplink readiness check(s) failed; examples: br-blue/node-a={reason}"
    )
}

#[test]
fn one_nodes_conditions_decide_as_published() {
    let conflict = "GatewayReady=False/UplinkConfigurationConflict";
    let cases: &[(&[&str], String)] = &[
        (&[RESOLVED, GATEWAY], READY.to_owned()),
        (&[RESOLVED], failed("UplinksNotReady")),
        (&[], failed("UplinkNotResolvedForNode")),
        (&["Resolved=False/HostInterfaceNotFound", GATEWAY], failed("UplinkNotResolvedForNode")),
        (&["Resolved=Unknown/", GATEWAY], failed("UplinkNotResolvedForNode")),
        (&[RESOLVED, "GatewayReady=False/UplinkBridgeMappingFailed"], failed("UplinkBridgeMappingFailed")),
        (
            &[RESOLVED, "GatewayReady=False/GatewayConfigurationPending"],
            failed("GatewayConfigurationPending"),
        ),
        (&[RESOLVED, "GatewayReady=False/UplinkVRFAttachmentFailed"], failed("UplinkVRFAttachmentFailed")),
        (
            &[RESOLVED, "GatewayReady=False/UplinkGatewayProgrammingFailed"],
            failed("UplinkGatewayProgrammingFailed"),
        ),
        (&[RESOLVED, conflict], failed("UplinkConfigurationConflict")),
        (&[RESOLVED, "GatewayReady=False/SomethingElse"], failed("UplinksNotReady")),
        // A reason of this very condition that no gateway has.
        (&[RESOLVED, "GatewayReady=False/UplinkNotFound"], failed("UplinksNotReady")),
        (&[RESOLVED, "GatewayReady=Unknown/UplinkVRFAttachmentFailed"], failed("UplinkVRFAttachmentFailed")),
        (&[RESOLVED, GATEWAY, HOST_DATA], failed("UplinksNotReady")),
        (&[RESOLVED, GATEWAY, HOST_DATA, HOST_GATEWAY], READY.to_owned()),
        (
            &[RESOLVED, GATEWAY, HOST_DATA, "HostGatewayReady=False/UplinkVRFAttachmentFailed"],
            failed("UplinkVRFAttachmentFailed"),
        ),
        // The host's gateway plays no part where the host says nothing.
        (&[RESOLVED, GATEWAY, "HostGatewayReady=False/UplinkVRFAttachmentFailed"], READY.to_owned()),
        (&[RESOLVED, conflict, HOST_DATA], failed("UplinkConfigurationConflict")),
        (&[RESOLVED, GATEWAY, "HostDataReady=False/HostInterfaceNotFound"], failed("UplinksNotReady")),
        // Upstream takes the node for ready here.
        (
            &[RESOLVED, GATEWAY, "HostDataReady=False/HostInterfaceNotFound", HOST_GATEWAY],
            failed("UplinkNotResolvedForNode"),
        ),
    ];
    for (conditions, want) in cases {
        let found = one(conditions).verdict(&["br-blue"]);
        assert_eq!(
            format!("{}/{}: {}", found.status(), found.reason, found.message),
            *want,
            "{conditions:?}"
        );
    }
}

#[test]
fn before_any_node_is_looked_at_the_first_problem_wins() {
    let world = one(&[RESOLVED, GATEWAY]);
    world.says(&[], "True/UplinksReady: CUDN does not reference an Uplink");
    world.says(&["br-red"], "False/UplinkNotFound: Uplink br-red is missing");
    let mut unreadable = one(&[]);
    unreadable.unreadable.insert("br-red".into(), "no kind");
    unreadable.says(&["br-red"], "False/UplinkNotFound: failed to get Uplink br-red: no kind");
    // What failed before is not told.
    unreadable.says(&["br-blue", "gone"], "False/UplinkNotFound: Uplink gone is missing");

    let uplinks = ["br-blue".to_owned()];
    let network = Network { name: "c", uplinks: &uplinks, carrier: Carrier::of(Some(&Transport::Evpn)) };
    let active = BTreeMap::new();
    let says = |network, mode| verdict(network, mode, &active, &world);
    assert_eq!(Carrier::of(Some(&Transport::NoOverlay)), Carrier::Supported);
    let mode = says(network, GatewayMode::Local);
    assert_eq!(mode.reason, UplinksReason::UplinkUnsupportedGatewayMode);
    assert_eq!(mode.message, "Uplink requires shared gateway mode, got local");
    assert_eq!(
        says(network, GatewayMode::Disabled).message,
        "Uplink requires shared gateway mode, got disabled"
    );
    let evpn = says(network, GatewayMode::Shared);
    assert_eq!(evpn.reason, UplinksReason::UplinkUnsupportedTransport);
    assert_eq!(evpn.message, "Uplink is not supported with EVPN transport");
    let unknown = nodes_unknown(network, "boom");
    assert_eq!(unknown.reason, UplinksReason::UplinkNotResolvedForNode);
    assert_eq!(unknown.message, "failed to list active nodes for CUDN c: boom");
}

#[test]
fn an_uplink_that_goes_or_cannot_be_used_is_told_whatever_its_nodes_say() {
    let terminating = UplinkFacts { terminating: true, ..facts("br-blue", &[config(&[])]) };
    let world = one(&[RESOLVED, GATEWAY]).uplink(terminating);
    world.says(
        &["br-blue"],
        "False/UplinkTerminating: 1 active node/uplink readiness check(s) failed; examples: br-blue=UplinkTerminating",
    );
    let mut bad = config(&[]);
    bad.node_selector.match_labels = Some([("ra ck".to_owned(), String::new())].into());
    let found = one(&[]).uplink(facts("br-blue", &[bad])).verdict(&["br-blue"]);
    assert_eq!(found.reason, UplinksReason::UplinkNotResolvedForNode);
    let start = "Uplink br-blue has invalid nodeConfigs: nodeConfig 0 has invalid nodeSelector: ";
    assert!(found.message.starts_with(start), "{}", found.message);
}

#[test]
fn without_active_nodes_an_uplink_that_exists_is_ready() {
    World::default().uplink(facts("br-blue", &[config(&[])])).says(&["br-blue"], READY);
    World::default().says(&["br-blue"], "False/UplinkNotFound: Uplink br-blue is missing");
}

#[test]
fn only_active_nodes_are_looked_at() {
    let world = World::with_nodes(&["node-b"]).uplink(facts("br-blue", &[config(&[])])).state(
        "br-blue",
        "node-b",
        &[RESOLVED, GATEWAY],
    );
    world.says(&["br-blue"], READY);
}

#[test]
fn nodes_that_no_entry_or_several_entries_select_are_told_apart() {
    let mut world = World::with_nodes(&["node-a"]).uplink(facts("br-blue", &[config(&[("rack", "r1")])]));
    world.says(&["br-blue"], &failed("UplinkNotFoundForNode"));
    world.nodes.insert("node-a".into(), [("rack".to_owned(), "r1".to_owned())].into());
    world.says(&["br-blue"], &failed("UplinkNotResolvedForNode"));
    world
        .uplink(facts("br-blue", &[config(&[]), config(&[("rack", "r1")])]))
        .says(&["br-blue"], &failed("UplinkOverlapOnNode"));
}

#[test]
fn a_state_of_somebody_else_or_of_an_earlier_uplink_counts_for_nothing() {
    let not_resolved = failed("UplinkNotResolvedForNode");
    let name = StateName::of("br-blue", "node-a");
    let mut world = one(&[]);
    for other in
        [state("br-red", "node-a", &[RESOLVED, GATEWAY]), state("br-blue", "node-b", &[RESOLVED, GATEWAY])]
    {
        world.states.insert(name.clone(), other);
        world.says(&["br-blue"], &not_resolved);
    }
    let mut earlier = state("br-blue", "node-a", &[RESOLVED, GATEWAY]);
    earlier.owner_uids = vec!["uid-of-before".into()];
    world.states.insert(name.clone(), earlier.clone());
    world.says(&["br-blue"], &not_resolved);
    earlier.owner_uids = vec!["uid-br-blue".into()];
    world.states.insert(name.clone(), earlier);
    world.says(&["br-blue"], READY);
    world.states.remove(&name);
    world.unreadable.insert(name.as_str().to_owned(), "no kind");
    world.says(&["br-blue"], &not_resolved);
}

#[test]
fn an_uplink_edited_to_another_interface_waits_until_the_node_has_looked_at_it() {
    let mut world = one(&[RESOLVED, GATEWAY]);
    let edited = NodeConfig { host_interface_name: "br-other".into(), ..config(&[]) };
    world.uplinks.insert("br-blue".into(), facts("br-blue", &[edited]));
    world.says(&["br-blue"], &failed("UplinkNotResolvedForNode"));
}

#[test]
fn failures_are_counted_all_and_named_in_part() {
    World::with_nodes(&["node-a", "node-b"]).uplink(facts("br-blue", &[config(&[])])).says(
        &["br-blue"],
        "False/UplinkNotResolvedForNode: 2 active node/uplink readiness check(s) failed; examples: \
         br-blue/node-a=UplinkNotResolvedForNode, br-blue/node-b=UplinkNotResolvedForNode",
    );
    one(&[RESOLVED, "GatewayReady=False/UplinkBridgeMappingFailed"])
        .uplink(facts("br-red", &[config(&[])]))
        .says(
            &["br-blue", "br-red"],
            "False/UplinksNotReady: 2 active node/uplink readiness check(s) failed; examples: \
         br-blue/node-a=UplinkBridgeMappingFailed, br-red/node-a=UplinkNotResolvedForNode",
        );
    // Whole texts are sorted by bytes: `-` and digits stand before `=`, so node-10 before node-1.
    World::with_nodes(&["node-1", "node-10", "node-2", "node-3"]).uplink(facts("u", &[config(&[])])).says(
        &["u"],
        "False/UplinkNotResolvedForNode: 4 active node/uplink readiness check(s) failed; examples: \
         u/node-10=UplinkNotResolvedForNode, u/node-1=UplinkNotResolvedForNode, u/node-2=UplinkNotResolvedForNode",
    );
}

/// The captured Uplink that selects one of five nodes, whose state is not there.
#[test]
fn the_captured_message_comes_out_byte_for_byte() {
    let mut world = World::with_nodes(&["node-000", "node-001", "node-002", "node-003", "node-004"])
        .uplink(facts("missing", &[config(&[("rack", "r1")])]));
    world.nodes.insert("node-001".into(), [("rack".to_owned(), "r1".to_owned())].into());
    world.says(
        &["missing"],
        "False/UplinksNotReady: 5 active node/uplink readiness check(s) failed; examples: \
         missing/node-000=UplinkNotFoundForNode, missing/node-001=UplinkNotResolvedForNode, \
         missing/node-002=UplinkNotFoundForNode",
    );
}

#[test]
fn the_wish_is_the_verdict() {
    let wanted = one(&[]).verdict(&["br-blue"]).wanted();
    assert_eq!((wanted.type_, wanted.status), ("UplinksReady", ConditionStatus::False));
    assert_eq!(wanted.reason, "UplinkNotResolvedForNode");
}

#[test]
fn networks_that_cannot_share_an_uplink_are_named_before_gateways_are_looked_at() {
    let rivals = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let shared = |conditions: &[&str], names: &[&str]| {
        let mut world = one(conditions);
        world.rivals.insert(("br-blue", "node-a"), rivals(names));
        world
    };
    let told = |who: &str| {
        format!(
            "False/UplinkConfigurationConflict: 1 active node/uplink readiness check(s) failed; examples: \
             br-blue/node-a=UplinkConfigurationConflict (also used by {who})"
        )
    };
    // Whatever the gateway says: it is of all networks of the Uplink.
    for gateway in [GATEWAY, "GatewayReady=False/GatewayConfigurationPending", "Other=True/Any"] {
        shared(&[RESOLVED, gateway], &["red"]).says(&["br-blue"], &told("red"));
    }
    shared(&[RESOLVED], &["a", "b", "c"]).says(&["br-blue"], &told("a, b, c"));
    shared(&[RESOLVED], &["a", "b", "c", "d", "e"]).says(&["br-blue"], &told("a, b, c and 2 more"));
    shared(&[RESOLVED, GATEWAY], &[]).says(&["br-blue"], READY);
    // Where nothing is resolved there is nothing to share yet.
    let unresolved = "False/UplinkNotResolvedForNode: 1 active node/uplink readiness check(s) failed; examples: \
                      br-blue/node-a=UplinkNotResolvedForNode";
    shared(&["Resolved=False/BridgeNotFound"], &["red"]).says(&["br-blue"], unresolved);
    // Of several nodes only one may be shared.
    let mut two = World::with_nodes(&["node-a", "node-b"]).uplink(facts("br-blue", &[config(&[])]));
    for node in ["node-a", "node-b"] {
        two = two.state("br-blue", node, &[RESOLVED, GATEWAY]);
    }
    two.rivals.insert(("br-blue", "node-b"), rivals(&["red"]));
    let want = told("red").replace("node-a", "node-b");
    two.says(&["br-blue"], &want);
}
