//! Whole passes over made snapshots, against an API server that answers from a script: what is asked, in which
//! order, and what is not asked.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::events::{EventMetrics, Recorder};
use causeway_runtime::leader::LeaderMetrics;
use causeway_runtime::watch::Store;
use causeway_runtime::writer::WriteMetrics;
use expect_test::{Expect, expect};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fixtures::{held_by_others, shared, state, uplink};
use super::ownership::FinalizerOwner;
use super::*;

/// What the API server holds, as the watches show it.
struct Seen<'s> {
    uplink: Option<Uplink>,
    /// Why the Uplink exists and cannot be read.
    unreadable_uplink: Option<&'s str>,
    nodes: Nodes<'s>,
    states: &'s [State],
    /// Why the state of `node-a` exists and cannot be read.
    unreadable_state: Option<&'s str>,
}

type Nodes<'n> = &'n [(&'n str, &'n [(&'n str, &'n str)])];

/// What a pass ended with and what it asked for.
struct Pass {
    result: Result<Requeue, UplinkError>,
    asked: String,
    /// Severity, reason and note of what people were told.
    told: Vec<String>,
}

/// Runs one pass over `br-blue`. `answers` gives the status and body for a method and path; anything else that is
/// asked for fails the test.
async fn pass(
    uplink: Option<Uplink>,
    nodes: Nodes<'_>,
    states: &[State],
    answers: &[(&str, u16, Value)],
) -> Pass {
    let seen = Seen { uplink, unreadable_uplink: None, nodes, states, unreadable_state: None };
    pass_over(seen, answers).await
}

async fn pass_over(seen: Seen<'_>, answers: &[(&str, u16, Value)]) -> Pass {
    let asked = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&asked);
    let answers: Vec<(String, u16, Value)> =
        answers.iter().map(|(what, status, body)| ((*what).to_owned(), *status, body.clone())).collect();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answers) = (Arc::clone(&log), answers.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let what = format!("{} {}", parts.method, parts.uri.path());
            {
                let mut log = log.lock().unwrap();
                writeln!(log, "{} {}", parts.method, parts.uri).unwrap();
                if !body.is_empty() {
                    let body: Value = serde_json::from_slice(&body).unwrap();
                    writeln!(log, "  {}", without_times(body)).unwrap();
                }
            }
            let answer = answers.into_iter().find(|(known, ..)| *known == what);
            let (_, code, body) = answer.unwrap_or_else(|| panic!("asked for {what}"));
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let client = Client::new(service, "default");

    let name = UplinkName::from("br-blue");
    let index = StateIndex::default();
    let states: Vec<(StateKey, State)> = seen
        .states
        .iter()
        .map(|state| (StateKey::from(state.derived_name().as_str()), state.clone()))
        .collect();
    for (key, state) in &states {
        index.change(key, None, Some(state));
    }
    let stores = Stores {
        uplinks: Store::fixed_unreadable(
            "Uplink",
            seen.uplink.map(|uplink| (name.clone(), uplink)),
            seen.unreadable_uplink.map(|error| (name.clone(), error)),
        ),
        states: Store::fixed_unreadable(
            "UplinkState",
            states,
            seen.unreadable_state.map(|error| (StateKey::from("br-blue.node-a"), error)),
        ),
        shared: shared(seen.nodes, crate::observed::fixtures::Seen::default()),
        index,
        users: Users::default(),
        written: Written::default(),
    };
    let mut registry = Registry::default();
    let leadership = Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
    let (recorder, mut happenings) = Recorder::new(EventMetrics::register(&mut registry));
    let room = Uplinks {
        stores,
        reader: Reader::new(client.clone()),
        hand: Hand::new(client, WriteMetrics::register(&mut registry), leadership, recorder),
        metrics: Metrics::register(&mut registry),
        expected: Expected::default(),
    };
    let result = room.reconcile(&name).await;
    let asked = asked.lock().unwrap().clone();
    let mut told = Vec::new();
    while let Ok(happening) = happenings.try_recv() {
        assert_eq!(happening.regarding.uid.as_deref(), Some("uid-br-blue"));
        told.push(format!("{:?} {}: {}", happening.severity, happening.reason, happening.note));
    }
    Pass { result, asked, told }
}

/// The one value of a request that depends on the clock.
fn without_times(mut body: Value) -> Value {
    if let Some(time) = body.pointer_mut("/status/conditions/0/lastTransitionTime") {
        *time = json!("now");
    }
    body
}

#[track_caller]
fn check(pass: &Pass, want: &Expect) {
    want.assert_eq(&pass.asked);
}

const UPLINK: &str = "GET /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue";
const NETWORKS: &str = "GET /apis/k8s.ovn.org/v1/clusteruserdefinednetworks";
const NODE_A: &str = "GET /api/v1/nodes/node-a";
const DELETE_A: &str = "DELETE /apis/k8s.ovn.org/v1alpha1/uplinkstates/br-blue.node-a";
const STATUS: &str = "PATCH /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue/status";
const PATCH: &str = "PATCH /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue";

fn blue() -> Uplink {
    uplink("br-blue", &[("breth0", "role=blue")])
}

fn ready() -> Uplink {
    blue().condition("Ready", "True", "Ready", "all 1 selected node(s) are resolved")
}

fn resolved() -> [State; 1] {
    [state("br-blue", "node-a").resolved("breth0")]
}

/// The Uplink of `blue()` as the API server has it.
fn api_uplink() -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink",
        "metadata": {"name": "br-blue", "uid": "uid-br-blue", "generation": 1},
        "spec": {"nodeConfigs": [{"type": "OVSBridge", "hostInterfaceName": "breth0",
            "nodeSelector": {"matchLabels": {"role": "blue"}}}]},
    })
}

/// ClusterUserDefinedNetworks `net-<n>` with these Uplinks.
fn networks(uplinks: &[&str]) -> Value {
    let items: Vec<Value> = uplinks
        .iter()
        .enumerate()
        .map(|(number, uplink)| {
            json!({
                "metadata": {"name": format!("net-{number}")},
                "spec": {"namespaceSelector": {}, "uplinks": [uplink], "network": {"topology": "Layer3",
                    "layer3": {"role": "Primary", "subnets": [{"cidr": "10.0.0.0/16"}]}}},
            })
        })
        .collect();
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetworkList", "metadata": {}, "items": items})
}

fn api_node(role: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "n", "labels": {"role": role}}})
}

fn api_failure(code: u16, reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason})
}

fn gone() -> Value {
    api_failure(404, "NotFound")
}

fn deleted() -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Success"})
}

const BLUE_A: Nodes<'_> = &[("node-a", &[("role", "blue")])];
const RED_A: Nodes<'_> = &[("node-a", &[("role", "red")])];

#[tokio::test]
async fn what_is_as_it_should_be_costs_no_request() {
    let pass = pass(Some(ready()), BLUE_A, &resolved(), &[]).await;
    assert_eq!(pass.result.unwrap(), Requeue::Done);
    assert_eq!(pass.asked, "");
}

#[tokio::test]
async fn the_condition_is_applied_by_force_and_names_the_uplinks_uid() {
    let pass = pass(Some(blue()), BLUE_A, &resolved(), &[(STATUS, 200, api_uplink())]).await;
    check(
        &pass,
        &expect![[r#"
            PATCH /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue/status?&force=true&fieldManager=clustermanager-uplink-controller
              {"apiVersion":"k8s.ovn.org/v1alpha1","kind":"Uplink","metadata":{"name":"br-blue","resourceVersion":"5","uid":"uid-br-blue"},"status":{"conditions":[{"lastTransitionTime":"now","message":"all 1 selected node(s) are resolved","observedGeneration":1,"reason":"Ready","status":"True","type":"Ready"}]}}
        "#]],
    );
    assert_eq!(pass.result.unwrap(), Requeue::Done);
}

#[tokio::test]
async fn a_state_of_a_missing_uplink_is_deleted_by_uid_once_the_api_server_confirms() {
    let answers = [(UPLINK, 404, gone()), (DELETE_A, 200, deleted())];
    let pass = pass(None, BLUE_A, &resolved(), &answers).await;
    check(
        &pass,
        &expect![[r#"
            GET /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue
            DELETE /apis/k8s.ovn.org/v1alpha1/uplinkstates/br-blue.node-a?
              {"preconditions":{"uid":"uid-br-blue.node-a"}}
        "#]],
    );
    assert_eq!(pass.result.unwrap(), Requeue::Gone);
}

#[tokio::test]
async fn a_state_that_was_seen_before_its_uplink_stays() {
    let answers = [(UPLINK, 200, api_uplink()), (NODE_A, 200, api_node("blue"))];
    let pass = pass(None, BLUE_A, &resolved(), &answers).await;
    check(
        &pass,
        &expect![[r"
            GET /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue
            GET /api/v1/nodes/node-a
        "]],
    );
    let error = pass.result.unwrap_err();
    assert_eq!(
        (error.retry(), matches!(error, UplinkError::Behind { .. })),
        (Retry::Backoff, true),
        "{error}"
    );
}

#[tokio::test]
async fn a_state_that_was_seen_before_its_nodes_new_label_stays_and_no_condition_is_written() {
    let answers = [(UPLINK, 200, api_uplink()), (NODE_A, 200, api_node("blue"))];
    let pass = pass(Some(ready()), RED_A, &resolved(), &answers).await;
    assert!(matches!(pass.result, Err(UplinkError::Behind { .. })), "{:?}", pass.result);
    assert!(!pass.asked.contains("DELETE") && !pass.asked.contains("PATCH"), "{}", pass.asked);
}

#[tokio::test]
async fn a_state_of_a_node_that_is_really_not_selected_goes_after_the_condition_is_written() {
    let answers = [
        (UPLINK, 200, api_uplink()),
        (NODE_A, 200, api_node("red")),
        (STATUS, 200, api_uplink()),
        (DELETE_A, 200, deleted()),
    ];
    let pass = pass(Some(ready()), RED_A, &resolved(), &answers).await;
    pass.result.unwrap();
    let order: Vec<&str> = pass.asked.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        order.iter().filter(|verb| !verb.is_empty()).collect::<Vec<_>>(),
        [&"GET", &"GET", &"PATCH", &"DELETE"]
    );
}

#[tokio::test]
async fn nothing_is_deleted_on_the_word_of_an_api_server_that_fails() {
    let answers = [(UPLINK, 500, api_failure(500, "InternalError"))];
    let pass = pass(None, BLUE_A, &resolved(), &answers).await;
    assert!(matches!(pass.result, Err(UplinkError::Read { .. })), "{:?}", pass.result);
    assert!(!pass.asked.contains("DELETE"), "{}", pass.asked);
}

/// The Uplink of `blue()` as the API server has it, being deleted.
fn api_terminating() -> Value {
    let mut uplink = api_uplink();
    uplink["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    uplink
}

fn terminating() -> Uplink {
    blue()
        .condition(
            "Ready",
            "False",
            "UplinkTerminating",
            "Uplink is terminating and cannot accept new CUDN references",
        )
        .terminating()
}

#[tokio::test]
async fn a_terminating_uplink_loses_its_states_and_then_our_finalizer_alone() {
    let answers = [
        (NETWORKS, 200, networks(&[])),
        (UPLINK, 200, api_terminating()),
        (DELETE_A, 200, deleted()),
        (PATCH, 200, api_uplink()),
    ];
    let pass = pass(Some(terminating().finalizer(FinalizerOwner::Us)), BLUE_A, &resolved(), &answers).await;
    check(
        &pass,
        &expect![[r#"
            GET /apis/k8s.ovn.org/v1/clusteruserdefinednetworks?
            GET /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue
            DELETE /apis/k8s.ovn.org/v1alpha1/uplinkstates/br-blue.node-a?
              {"preconditions":{"uid":"uid-br-blue.node-a"}}
            PATCH /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue?&force=true&fieldManager=clustermanager-uplink-controller
              {"apiVersion":"k8s.ovn.org/v1alpha1","kind":"Uplink","metadata":{"name":"br-blue","uid":"uid-br-blue"}}
        "#]],
    );
    pass.result.unwrap();
}

#[tokio::test]
async fn the_finalizer_stays_while_a_state_cannot_be_deleted() {
    let answers = [
        (NETWORKS, 200, networks(&[])),
        (UPLINK, 200, api_terminating()),
        (DELETE_A, 409, api_failure(409, "Conflict")),
    ];
    let pass = pass(Some(terminating().finalizer(FinalizerOwner::Us)), BLUE_A, &resolved(), &answers).await;
    assert!(matches!(pass.result, Err(UplinkError::Delete { .. })), "{:?}", pass.result);
    assert!(!pass.asked.contains("PATCH"), "{}", pass.asked);
}

#[tokio::test]
async fn a_finalizer_that_others_set_too_is_taken_out_of_the_list_that_was_seen() {
    let answers = [(NETWORKS, 200, networks(&["another"])), (PATCH, 200, api_uplink())];
    let pass = pass(Some(terminating().finalizer(held_by_others())), &[], &[], &answers).await;
    check(
        &pass,
        &expect![[r#"
            GET /apis/k8s.ovn.org/v1/clusteruserdefinednetworks?
            PATCH /apis/k8s.ovn.org/v1alpha1/uplinks/br-blue?&fieldManager=clustermanager-uplink-controller
              {"metadata":{"finalizers":["example.com/other"],"resourceVersion":"7","uid":"uid-br-blue"}}
        "#]],
    );
    pass.result.unwrap();
}

#[tokio::test]
async fn an_uplink_that_a_network_uses_by_now_is_not_given_up() {
    let answers = [(NETWORKS, 200, networks(&["another", "br-blue"]))];
    let pass = pass(Some(terminating().finalizer(FinalizerOwner::Us)), BLUE_A, &resolved(), &answers).await;
    check(&pass, &expect!["GET /apis/k8s.ovn.org/v1/clusteruserdefinednetworks?\n"]);
    let error = pass.result.unwrap_err();
    assert!(matches!(&error, UplinkError::Used { network, .. } if network == "net-1"), "{error}");
    assert_eq!(error.retry(), Retry::Backoff);
}

#[tokio::test]
async fn a_state_that_is_gone_already_is_as_good_as_deleted() {
    let pass = pass(None, BLUE_A, &resolved(), &[(UPLINK, 404, gone()), (DELETE_A, 404, gone())]).await;
    assert_eq!(pass.result.unwrap(), Requeue::Gone);
}

#[tokio::test]
async fn a_write_to_an_uplink_that_went_meanwhile_is_an_error_that_is_tried_again() {
    let writes = [
        (STATUS, blue(), BLUE_A, resolved().to_vec()),
        (PATCH, terminating().finalizer(FinalizerOwner::Us), &[] as Nodes<'_>, Vec::new()),
    ];
    for (asked, uplink, nodes, states) in writes {
        let answers = [(NETWORKS, 200, networks(&[])), (asked, 404, gone())];
        let pass = pass(Some(uplink), nodes, &states, &answers).await;
        let error = pass.result.unwrap_err();
        assert_eq!(error.retry(), Retry::Backoff, "{asked}: {error}");
        assert!(!pass.asked.contains("DELETE") && pass.told.is_empty(), "{asked}: {}", pass.asked);
    }
}

#[tokio::test]
async fn an_uplink_that_cannot_be_read_is_left_alone_with_its_states() {
    let seen = Seen {
        uplink: None,
        unreadable_uplink: Some("unknown variant"),
        nodes: BLUE_A,
        states: &resolved(),
        unreadable_state: None,
    };
    let pass = pass_over(seen, &[]).await;
    let error = pass.result.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Uplink br-blue cannot be read (unknown variant); its states are left alone"
    );
    assert_eq!((error.retry(), pass.asked.as_str()), (Retry::Never, ""));
}

#[tokio::test]
async fn a_state_that_cannot_be_read_is_named_with_its_cause_and_not_taken_for_absent() {
    let seen = Seen {
        uplink: Some(ready()),
        unreadable_uplink: None,
        nodes: BLUE_A,
        states: &[],
        unreadable_state: Some("missing field `nodeName`"),
    };
    let pass = pass_over(seen, &[(STATUS, 200, api_uplink())]).await;
    pass.result.unwrap();
    let text = "1 of 1 selected node(s) have readiness failures; examples: \
                node-a=UplinkStateLookupFailed: missing field `nodeName`";
    assert!(pass.asked.contains(text), "{}", pass.asked);
    assert!(pass.asked.contains("MissingUplinkState") && !pass.asked.contains("DELETE"), "{}", pass.asked);
}

#[tokio::test]
async fn people_are_told_of_a_new_reason_once_it_is_written_and_of_nothing_else() {
    let answers = [(STATUS, 200, api_uplink())];
    let all = "all 1 selected node(s) are resolved";
    let pass_told = |uplink: Uplink, states: Vec<State>| {
        let answers = answers.clone();
        async move { pass(Some(uplink), BLUE_A, &states, &answers).await.told }
    };
    let first = pass_told(blue(), Vec::new()).await;
    assert_eq!(first.len(), 1);
    assert!(first[0].starts_with("Normal MissingUplinkState: 1 of 1 selected"), "{first:?}");
    let lost = pass_told(ready(), Vec::new()).await;
    assert!(lost[0].starts_with("Warning MissingUplinkState: "), "{lost:?}");
    let found = blue().condition("Ready", "False", "MissingUplinkState", "");
    assert_eq!(pass_told(found, resolved().to_vec()).await, [format!("Normal Ready: {all}")]);
    let reworded = blue().condition("Ready", "True", "Ready", "another text");
    assert_eq!(pass_told(reworded, resolved().to_vec()).await, [""; 0]);
    let refused = [(STATUS, 409, api_failure(409, "Conflict"))];
    let pass = pass(Some(blue()), BLUE_A, &resolved(), &refused).await;
    assert!(pass.result.is_err() && pass.told.is_empty(), "{:?}", pass.told);
}
