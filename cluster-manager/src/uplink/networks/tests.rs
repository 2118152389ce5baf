//! Whole passes over made snapshots, against an API server that answers with what it was sent.

mod sharing;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use causeway_net::activity::Mode;
use causeway_net::transport::Advertiser;
use causeway_net::uplinks_ready::Gate;
use causeway_runtime::engine::KeyQueue;
use causeway_runtime::leader::{LeaderMetrics, Leadership};
use causeway_runtime::watch::Store;
use causeway_runtime::writer::WriteMetrics;
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::fixtures::{shared, state, uplink};
use super::super::observe::StateIndex;
use super::super::users::Users;
use super::*;
use crate::allocation::ClusterPlan;
use crate::observed::fixtures::{Seen, cluster, cudn, layer3, terminating, with};
use crate::written::Written;

/// What there is, as the watches show it.
#[derive(Clone)]
struct World {
    cudn: Option<Value>,
    /// Other networks.
    others: Vec<Value>,
    /// RouteAdvertisements.
    advertisements: Vec<Value>,
    uplinks: Vec<Uplink>,
    unreadable_uplink: Option<&'static str>,
    nodes: Vec<(&'static str, &'static [(&'static str, &'static str)])>,
    states: Vec<State>,
    mode: GatewayMode,
    everywhere: bool,
    /// Status of the API server's answer.
    answer: u16,
}

const BLUE: &[(&str, &str)] = &[("role", "blue")];

fn key() -> CrKey {
    CrKey::Cudn("net".into())
}

/// A network over `br-blue`, which selects the only node and is resolved there.
fn good() -> World {
    World {
        cudn: Some(with(cudn("net", layer3()), "/spec/uplinks", json!(["br-blue"]))),
        others: Vec::new(),
        advertisements: Vec::new(),
        uplinks: vec![uplink("br-blue", &[("breth0", "role=blue")])],
        unreadable_uplink: None,
        nodes: vec![("node-a", BLUE)],
        states: vec![ready("node-a")],
        mode: GatewayMode::Shared,
        everywhere: true,
        answer: 200,
    }
}

/// A state of `br-blue` in which everything is ready.
fn ready(node: &str) -> State {
    let mut state = state("br-blue", node).resolved("breth0");
    state.facts.resolved = Gate::Open;
    state.facts.gateway = Gate::Open;
    state.facts.type_.clone_from(&state.type_);
    state.facts.interface.clone_from(&state.interface);
    state
}

fn room(world: &World, asked: &Arc<Mutex<Vec<String>>>) -> Networks {
    let (log, object, answer) = (Arc::clone(asked), world.cudn.clone().unwrap_or_default(), world.answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, mut object) = (Arc::clone(&log), object.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            log.lock().unwrap().push(format!("{} {}", parts.method, parts.uri.path()));
            object["status"] = body["status"].clone();
            object["metadata"]["resourceVersion"] = json!("100");
            let failure = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": answer,
                "reason": "x", "message": "x"});
            let body = if answer == 200 { object } else { failure };
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, std::convert::Infallible>(Response::builder().status(answer).body(body).unwrap())
        }
    });
    let client = Client::new(service, "default");
    let mut registry = Registry::default();
    let leadership = Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
    let named =
        world.uplinks.iter().map(|uplink| (UplinkName::from(uplink.facts.name.as_str()), uplink.clone()));
    let broken = world.unreadable_uplink.map(|error| (UplinkName::from("br-blue"), error));
    let states =
        world.states.iter().map(|state| (StateKey::from(state.derived_name().as_str()), state.clone()));
    let plan = ClusterPlan {
        ranges: Vec::new(),
        transit: ("100.88.0.0/16".parse().unwrap(), "fd97::/64".parse().unwrap()),
        defaults: causeway_api::nad::Defaults::default(),
        mode: if world.everywhere {
            Mode::Everywhere
        } else {
            Mode::OnDemand { grace: SignedDuration::from_secs(120) }
        },
        without_subnets: None,
    };
    let seen = Seen { cudns: world.cudn.iter().chain(&world.others).cloned().collect(), ..Seen::default() };
    let advertisers = world.advertisements.iter().map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        (name.into(), Advertiser::of(&serde_json::from_value(object.clone()).unwrap()).unwrap())
    });
    Networks {
        stores: Stores {
            uplinks: Store::fixed_unreadable("Uplink", named, broken),
            states: Store::fixed("UplinkState", states),
            shared: shared(&world.nodes, seen),
            index: StateIndex::default(),
            users: Users::default(),
            written: Written::default(),
        },
        book: Book::new(plan, &cluster(), &leadership),
        mode: world.mode,
        writer: Writer::new("clustermanager-uplink-controller", WriteMetrics::register(&mut registry)),
        api: Api::all(client),
        expected: Expected::default(),
        advertisers: Some(Store::fixed("RouteAdvertisements", advertisers)),
        rivals: Rivals::default(),
        wake: Wake::new(&KeyQueue::default(), &leadership),
    }
}

/// One pass; the condition that the network has then, and what was asked.
async fn told(world: &World) -> (String, String, Vec<String>) {
    let asked = Arc::default();
    let room = room(world, &asked);
    assert_eq!(room.reconcile(&key()).await.unwrap(), Requeue::Done);
    let cr = room.stores.shared.cr(&key()).unwrap().unwrap();
    let [condition] = cr.conditions.as_slice() else { panic!("{:?}", cr.conditions) };
    assert_eq!((condition.type_.as_str(), condition.observed_generation), ("UplinksReady", Some(1)));
    assert_eq!(condition.status == "True", condition.reason == "UplinksReady");
    let asked = asked.lock().unwrap().clone();
    (condition.reason.clone(), condition.message.clone(), asked)
}

#[tokio::test]
async fn each_state_of_affairs_has_its_reason_and_its_text() {
    let gate = |state: State, gateway: Gate| {
        let mut state = state;
        state.facts.gateway = gateway;
        vec![state]
    };
    let failing =
        |reason: &str| format!("1 active node/uplink readiness check(s) failed; examples: {reason}");
    for (what, world, reason, message) in [
        ("ready", good(), "UplinksReady", "Uplinks are ready for all active CUDN nodes".to_owned()),
        (
            "local gateways",
            World { mode: GatewayMode::Local, ..good() },
            "UplinkUnsupportedGatewayMode",
            "Uplink requires shared gateway mode, got local".to_owned(),
        ),
        (
            "EVPN",
            World {
                cudn: good().cudn.map(|cudn| with(cudn, "/spec/network/transport", json!("EVPN"))),
                ..good()
            },
            "UplinkUnsupportedTransport",
            "Uplink is not supported with EVPN transport".to_owned(),
        ),
        (
            "no Uplink of the name",
            World { uplinks: Vec::new(), ..good() },
            "UplinkNotFound",
            "Uplink br-blue is missing".to_owned(),
        ),
        (
            "an Uplink that cannot be read",
            World { uplinks: Vec::new(), unreadable_uplink: Some("why"), ..good() },
            "UplinkNotFound",
            "failed to get Uplink br-blue: why".to_owned(),
        ),
        (
            "a terminating Uplink",
            World { uplinks: vec![uplink("br-blue", &[("breth0", "role=blue")]).terminating()], ..good() },
            "UplinkTerminating",
            failing("br-blue=UplinkTerminating"),
        ),
        (
            "a node that is not selected",
            World { nodes: vec![("node-a", &[])], ..good() },
            "UplinkNotFoundForNode",
            failing("br-blue/node-a=UplinkNotFoundForNode"),
        ),
        (
            "no state",
            World { states: Vec::new(), ..good() },
            "UplinkNotResolvedForNode",
            failing("br-blue/node-a=UplinkNotResolvedForNode"),
        ),
        (
            "no gateway yet",
            World { states: gate(ready("node-a"), Gate::Missing), ..good() },
            "UplinksNotReady",
            failing("br-blue/node-a=UplinksNotReady"),
        ),
        (
            "a gateway that failed",
            World {
                states: gate(ready("node-a"), Gate::Closed("UplinkBridgeMappingFailed".to_owned())),
                ..good()
            },
            "UplinkBridgeMappingFailed",
            failing("br-blue/node-a=UplinkBridgeMappingFailed"),
        ),
    ] {
        let (told_reason, told_message, asked) = told(&world).await;
        assert_eq!((told_reason.as_str(), told_message), (reason, message), "{what}");
        assert_eq!(asked, ["PATCH /apis/k8s.ovn.org/v1/clusteruserdefinednetworks/net/status"], "{what}");
    }
}

#[tokio::test]
async fn a_network_without_uplinks_is_told_by_the_one_who_makes_it() {
    let asked = Arc::default();
    let world = World { cudn: Some(cudn("net", layer3())), ..good() };
    assert_eq!(room(&world, &asked).reconcile(&key()).await.unwrap(), Requeue::Done);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_deletion_alone_makes_nobody_say_the_same_of_another_generation() {
    let (asked, said) = (Arc::default(), Arc::default());
    let before = room(&good(), &said);
    before.reconcile(&key()).await.unwrap();
    let told = before.stores.shared.cr(&key()).unwrap().unwrap().conditions.clone();
    let going = with(good().cudn.map(terminating).unwrap(), "/metadata/generation", json!(2));
    let going = with(going, "/status", json!({ "conditions": told }));
    let room = room(&World { cudn: Some(going), ..good() }, &asked);
    room.reconcile(&key()).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_network_that_is_being_deleted_is_still_told_the_truth() {
    let world = World { cudn: good().cudn.map(terminating), states: Vec::new(), ..good() };
    assert_eq!(told(&world).await.0, "UplinkNotResolvedForNode");
}

#[tokio::test]
async fn what_is_so_already_is_not_written_again_and_a_network_that_is_gone_is_forgotten() {
    let asked = Arc::default();
    let mut room = room(&good(), &asked);
    room.reconcile(&key()).await.unwrap();
    asked.lock().unwrap().clear();
    room.reconcile(&key()).await.unwrap();
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    let conditions = room.stores.shared.cr(&key()).unwrap().unwrap().conditions.clone();
    assert!(room.expected.are_met_by(&key(), &conditions), "its own write wakes nobody");
    let mut edited = conditions.clone();
    edited[0].message = "somebody else's".to_owned();
    assert!(!room.expected.are_met_by(&key(), &edited), "somebody else's does");
    room.stores.shared = Seen::default().stores(GatewayMode::Shared.into());
    assert_eq!(room.reconcile(&key()).await.unwrap(), Requeue::Gone);
    assert!(!room.expected.are_met_by(&key(), &conditions), "nothing is kept");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_told_nothing() {
    let asked = Arc::default();
    let mut room = room(&good(), &asked);
    room.stores.shared =
        Seen { unreadable_crs: vec![key()], ..Seen::default() }.stores(GatewayMode::Shared.into());
    let error = room.reconcile(&key()).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Never);
    assert!(error.to_string().ends_with("what it says of its Uplinks is left alone"), "{error}");
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_write_that_fails_is_tried_again_and_one_to_a_network_that_went_is_not() {
    for (answer, fails) in [(409, true), (500, true), (404, false)] {
        let room = room(&World { answer, ..good() }, &Arc::default());
        let result = room.reconcile(&key()).await;
        assert_eq!(result.is_err(), fails, "{answer}");
        assert!(result.err().is_none_or(|error| error.retry() == Retry::Backoff), "{answer}");
    }
}

#[tokio::test]
async fn where_networks_follow_pods_nothing_is_said_before_anybody_knows_the_nodes() {
    let world = World { everywhere: false, states: Vec::new(), ..good() };
    let asked = Arc::default();
    let room = room(&world, &asked);
    assert_eq!(room.reconcile(&key()).await.unwrap(), Requeue::Done);
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    room.book.rebuild(&room.stores.shared);
    room.reconcile(&key()).await.unwrap();
    let cr = room.stores.shared.cr(&key()).unwrap().unwrap();
    let message = "Uplinks are ready for all active CUDN nodes";
    assert_eq!(cr.conditions[0].message, message, "no node needs it");
    assert_eq!(room.book.needed_on(&key().network()), Needed::On(BTreeSet::new()));
}
