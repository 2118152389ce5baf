use std::collections::BTreeMap;
use std::convert::Infallible;

use causeway_api::uplink::{NodeConfig, Uplink, UplinkSpec, UplinkType};
use causeway_api::uplink_state::{DiscoveryReason, UplinkStateSpec};
use causeway_net::role::Role;
use causeway_runtime::engine::{KeyQueue, Pacing};
use causeway_runtime::events::EventMetrics;
use causeway_runtime::watch::Store;
use http::{Request, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::client::Body;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::half::Found;

/// A side of `node-a` that finds nothing.
struct Blind;

impl Half for Blind {
    fn role(&self) -> Role {
        Role::Full
    }

    fn discover(&self, _ask: &Ask<'_>) -> Result<Found, NotObserved> {
        let failure = Failure::new(DiscoveryReason::HostInterfaceNotFound, "not there");
        Ok(Found { findings: Findings::failed(failure), relied_on: RelyOn::default() })
    }
}

/// Uplink `blue` selects `node-a`, whose watch shows no state, though one was written. Runs a pass with these answers to
/// what it asks, and says what it asked for and how it ended.
async fn pass_without_the_written_state(answers: &'static [(&str, u16)]) -> (Vec<String>, String) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let method = request.method().to_string();
        let code = answers.iter().find(|(known, _)| *known == method).map_or(500, |(_, code)| *code);
        log.lock().unwrap().push(method);
        let body = match code {
            200 | 201 => serde_json::to_value(published("11")).unwrap(),
            code => {
                let reason = if code == 404 { "NotFound" } else { "" };
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": ""})
            }
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    let client = Client::new(service, "default");
    let entry = NodeConfig {
        type_: UplinkType::OvsBridge,
        node_selector: LabelSelector::default(),
        host_interface_name: "breth0".into(),
    };
    let mut uplink = Uplink::new("blue", UplinkSpec { node_configs: vec![entry] });
    uplink.metadata.uid = Some("u1".into());
    let node = NodeFacts::of("node-a", BTreeMap::new(), &BTreeMap::new());
    let stores = Stores {
        uplinks: Store::fixed("Uplink", [("blue".to_owned(), UplinkFacts::of(&uplink).unwrap())]),
        states: Store::fixed("UplinkState", []),
        node: Store::fixed("Node", [("node-a".to_owned(), node)]),
    };
    let mut registry = Registry::default();
    let (recorder, _happenings) = Recorder::new(EventMetrics::register(&mut registry));
    let write_metrics = WriteMetrics::register(&mut registry);
    let room = StateRoom {
        node: "node-a".into(),
        half: Blind,
        stores,
        api: Api::all(client),
        writer: Writer::new("manager", write_metrics.clone()),
        write_metrics,
        looker: Looker::new(KeyQueue::new(Pacing::default())),
        written: Written::default(),
        ledger: Ledger::default(),
        recorder,
        reactions: Histogram::new([1.0]),
    };
    room.written.remember("blue.node-a", published("10"));
    let ended = match room.reconcile(&"blue".to_owned()).await {
        Ok(requeue) => format!("{requeue:?}"),
        Err(error) => format!("{error}: {:?}", error.retry()),
    };
    let asked = asked.lock().unwrap().clone();
    (asked, ended)
}

/// The state of `node-a` as the side above publishes it.
fn published(version: &str) -> UplinkState {
    let failure = Failure::new(DiscoveryReason::HostInterfaceNotFound, "not there");
    let none = UplinkStateStatus::default();
    let half = publish::Half::new(Role::Full, Some("breth0"), &none, Findings::failed(failure));
    let target = Target { uplink: "blue", uplink_uid: "u1", node: "node-a", state_uid: Some("s1") };
    let mut body: Value = publish::apply_body(target, &half.status(&none, Timestamp::UNIX_EPOCH));
    body["metadata"]["resourceVersion"] = json!(version);
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn a_written_state_that_the_watch_does_not_show_is_asked_for_and_made_again_if_it_is_gone() {
    let (asked, ended) = pass_without_the_written_state(&[("GET", 404), ("PATCH", 201)]).await;
    assert_eq!(asked, ["GET", "PATCH"]);
    assert_eq!(ended, format!("After({CONFIRM:?})"), "the watch may never show what is made and deleted");
}

#[tokio::test]
async fn a_written_state_that_is_there_is_not_written_again() {
    let (asked, ended) = pass_without_the_written_state(&[("GET", 200)]).await;
    assert_eq!((asked.as_slice(), ended.as_str()), (&["GET".to_owned()][..], "Done"));
}

#[tokio::test]
async fn a_written_state_that_cannot_be_asked_for_is_left_alone_and_asked_for_again() {
    let (asked, ended) = pass_without_the_written_state(&[("GET", 503)]).await;
    assert_eq!(asked, ["GET"]);
    assert_eq!(ended, "failed to read UplinkState blue.node-a: Backoff");
}

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
