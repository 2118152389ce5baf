//! Whole passes of the rooms over made snapshots, against an API server that answers with what it was sent.

mod order;

use std::collections::BTreeMap;
use std::sync::Mutex;

use causeway_api::annotation::{network as nad_annotation, node as node_annotation};
use causeway_api::nad::Defaults;
use causeway_net::activity::Mode;
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::events::{EventMetrics, Happening};
use causeway_runtime::leader::LeaderMetrics;
use causeway_runtime::writer::{WriteMetrics, Writer};
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::SignedDuration;
use kube::Client;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::observed::fixtures::{
    Seen, cluster, cudn, foreign_nad, layer3, pod, primary_config, primary_namespace, terminating, udn, with,
};
use crate::observed::place::Node;

/// The three rooms and what they asked for and told.
struct Rig {
    nads: Nads,
    nodes: Nodes,
    statuses: Statuses,
    book: Book,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    told: mpsc::Receiver<Happening>,
}

fn node(name: &str, version: &str, annotations: Value) -> Value {
    let object =
        json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version}});
    with(object, "/metadata/annotations", annotations)
}

fn everything_of(seen: &Seen) -> Vec<Value> {
    [&seen.udns, &seen.cudns, &seen.nads, &seen.nodes].into_iter().flatten().cloned().collect()
}

/// The rooms over what the watches show. `failure` is the status of every answer, if it is not success.
fn rig(seen: &Seen, mode: Mode, failure: Option<u16>, default: Option<&str>) -> Rig {
    let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let (log, objects) = (Arc::clone(&asked), everything_of(seen));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, objects) = (Arc::clone(&log), objects.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
            let path = parts.uri.path().trim_end_matches("/status").to_owned();
            log.lock().unwrap().push((format!("{} {}", parts.method, parts.uri.path()), body.clone()));
            let name = path.rsplit('/').next().unwrap();
            let is_nad = path.contains("network-attachment-definitions");
            let found = objects.into_iter().find(|object| {
                object["metadata"]["name"] == name
                    && (object["kind"] == "NetworkAttachmentDefinition") == is_nad
            });
            let mut object = found.unwrap_or_else(|| body.clone());
            for (key, value) in body["metadata"]["annotations"].as_object().into_iter().flatten() {
                object["metadata"]["annotations"][key] = value.clone();
            }
            object["metadata"]["resourceVersion"] = json!("100");
            if body["status"].is_object() {
                object["status"] = body["status"].clone();
            }
            if let Some(code) = failure {
                object = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                    "reason": "Conflict", "message": "x"});
            }
            let body = Body::from(serde_json::to_vec(&object).unwrap());
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(failure.unwrap_or(200)).body(body).unwrap(),
            )
        }
    });
    let client = Client::new(service, "default");
    let mut registry = Registry::default();
    let leadership = Leadership::alone(&CancellationToken::new(), &LeaderMetrics::register(&mut registry));
    let (recorder, told) = causeway_runtime::events::Recorder::new(EventMetrics::register(&mut registry));
    let writes = WriteMetrics::register(&mut registry);
    let plan = ClusterPlan {
        ranges: vec![causeway_net::ipam::nodes::HostRange {
            network: "10.128.0.0/16".parse().unwrap(),
            host_length: 24,
        }],
        transit: ("100.88.0.0/16".parse().unwrap(), "fd97::/64".parse().unwrap()),
        defaults: Defaults::default(),
        mode,
        without_subnets: None,
    };
    let book = Book::new(plan, &cluster(), &leadership);
    let stores = seen.stores(causeway_api::nad::GatewayMode::Shared);
    book.rebuild(&stores);
    let hand = |manager| Writer::new(manager, writes.clone());
    let default = default.map(|key| key.parse().unwrap());
    let nads = Nads::new(&client, hand, &book, &stores, &book.wake, &recorder, default);
    Rig {
        nodes: Nodes::new(&client, hand, &book, &stores, &book.wake, &recorder),
        statuses: Statuses::new(&client, hand, &book, &stores, nads.refused()),
        nads,
        book,
        asked,
        told,
    }
}

impl Rig {
    fn asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn notes(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.told.try_recv().ok())
            .map(|told| format!("{}: {}", told.reason, told.note))
            .collect()
    }
}

/// A definition of `blue/net` as its object makes it, without numbers.
fn owned(config: &str) -> Value {
    let owner = json!([{"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "name": "net", "uid": "uid-net",
        "controller": true}]);
    with(foreign_nad("blue", "net", config), "/metadata/ownerReferences", owner)
}

fn blue() -> Seen {
    Seen {
        udns: vec![udn("blue", "net", layer3())],
        nads: vec![owned(&primary_config("blue/net", "blue_net"))],
        namespaces: vec![primary_namespace("blue")],
        nodes: vec![node("n1", "3", json!({}))],
        ..Seen::default()
    }
}

fn key() -> NadKey {
    "blue/net".parse().unwrap()
}

const NAD: &str = "PATCH /apis/k8s.cni.cncf.io/v1/namespaces/blue/network-attachment-definitions/net";
const NODE: &str = "PATCH /api/v1/nodes/n1/status";
const UDN: &str = "PATCH /apis/k8s.ovn.org/v1/namespaces/blue/userdefinednetworks/net/status";

#[tokio::test]
async fn a_definition_is_annotated_in_one_patch_that_names_what_it_rests_on() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    rig.nads.reconcile(&key()).await.unwrap();
    let want = json!({"metadata": {"uid": "uid-blue-net", "resourceVersion": "7", "annotations": {
        nad_annotation::NETWORK_NAME: "blue_net", nad_annotation::NETWORK_ID: "1", nad_annotation::TUNNEL_KEYS: "[]"}}});
    assert_eq!(rig.asked(), [(NAD.to_owned(), want)]);
    rig.nads.reconcile(&key()).await.unwrap();
    assert_eq!(rig.asked(), [], "before the watch shows it, too");
}

#[tokio::test]
async fn only_the_annotation_that_is_wrong_is_written_and_none_on_one_that_goes() {
    let annotations = json!({nad_annotation::NETWORK_NAME: "blue_net", nad_annotation::NETWORK_ID: "9",
        nad_annotation::TUNNEL_KEYS: "[1]", "theirs": "x"});
    let nad = with(blue().nads[0].clone(), "/metadata/annotations", annotations);
    let rig = rig(&Seen { nads: vec![nad.clone()], ..blue() }, Mode::Everywhere, None, None);
    rig.nads.reconcile(&key()).await.unwrap();
    let asked = rig.asked();
    assert_eq!(asked[0].1["metadata"]["annotations"], json!({nad_annotation::TUNNEL_KEYS: "[]"}));
    let rig = self::rig(&Seen { nads: vec![terminating(nad)], ..blue() }, Mode::Everywhere, None, None);
    rig.nads.reconcile(&key()).await.unwrap();
    assert_eq!(rig.asked(), []);
}

#[tokio::test]
async fn a_node_is_annotated_in_one_patch_that_rests_on_the_newest_version() {
    let mut seen = blue();
    let rig = rig(&seen, Mode::Everywhere, Some(409), None);
    let error = rig.nodes.reconcile(&"n1".into()).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Backoff);
    let first = rig.asked();
    assert_eq!((first[0].0.as_str(), &first[0].1["metadata"]["resourceVersion"]), (NODE, &json!("3")));
    let subnets = json!({"default": ["10.128.0.0/24"], "blue_net": ["10.50.0.0/24"]});
    let annotations = &first[0].1["metadata"]["annotations"];
    let read: Value =
        serde_json::from_str(annotations[node_annotation::NODE_SUBNETS].as_str().unwrap()).unwrap();
    assert_eq!((read, annotations[node_annotation::NODE_ID].clone()), (subnets, json!("2")));
    // The watch shows what came between.
    seen.nodes = vec![node("n1", "8", json!({"k8s.ovn.org/host-cidrs": "[]"}))];
    let next = self::rig(&seen, Mode::Everywhere, None, None);
    let nodes = Nodes::clone(&next.nodes);
    nodes.reconcile(&"n1".into()).await.unwrap();
    let second = next.asked();
    assert_eq!(second[0].1["metadata"]["resourceVersion"], json!("8"));
    assert_eq!(&second[0].1["metadata"]["annotations"], annotations, "the same, and nobody else's");
    nodes.reconcile(&"n1".into()).await.unwrap();
    assert_eq!(next.asked(), []);
}

#[tokio::test]
async fn the_echo_of_an_annotation_is_no_news_and_what_others_change_is() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    let (name, read) =
        (NodeName::from("n1"), |node: Value| Node::of(serde_json::from_value(node).unwrap()).unwrap());
    let before = read(node("n1", "3", json!({})));
    rig.nodes.reconcile(&name).await.unwrap();
    let written = rig.asked().remove(0).1["metadata"]["annotations"].clone();
    let with_subnets = |subnets: &Value, node_id: &str| {
        let mut annotations = written.clone();
        annotations[node_annotation::NODE_SUBNETS] = subnets.clone();
        annotations[node_annotation::NODE_ID] = json!(node_id);
        read(node("n1", "5", annotations))
    };
    let subnets = &written[node_annotation::NODE_SUBNETS];
    let (after, id) =
        (read(node("n1", "4", written.clone())), written[node_annotation::NODE_ID].as_str().unwrap());
    let is_news = |old: &Node, new: &Node| rig.book.lock().is_news(&name, old, new);
    assert!(is_news(&before, &after), "more than its subnets came");
    assert!(!is_news(&after, &with_subnets(subnets, id)), "only the version is another");
    let edited = with_subnets(&json!("{}"), id);
    assert!(is_news(&after, &edited), "somebody edited it");
    assert!(!is_news(&edited, &after), "it says what it was to say");
    assert!(is_news(&edited, &with_subnets(subnets, "77")), "and something else changed");
    assert!(rig.book.lock().is_news(&"other".into(), &edited, &after), "nobody has looked at that one");
}

#[tokio::test]
async fn a_node_that_went_meanwhile_is_no_failure() {
    let rig = rig(&blue(), Mode::Everywhere, Some(404), None);
    assert_eq!(rig.nodes.reconcile(&"n1".into()).await.unwrap(), Requeue::Done);
    assert_eq!(rig.nodes.reconcile(&"gone".into()).await.unwrap(), Requeue::Gone);
}

#[tokio::test]
async fn where_networks_follow_pods_a_node_is_looked_at_when_something_ends() {
    let grace = SignedDuration::from_secs(120);
    let mut seen = blue();
    seen.pods = vec![with(pod("blue", "p", &[]), "/spec", json!({"nodeName": "n1"}))];
    let rig = rig(&seen, Mode::OnDemand { grace }, None, None);
    assert_eq!(rig.nodes.reconcile(&"n1".into()).await.unwrap(), Requeue::Done);
    let (pod_key, _) = crate::observed::fixtures::pod_of(&seen.pods[0]);
    let stir = rig.book.lock().pod(&pod_key, None, Timestamp::now());
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]), "it is woken, and waits from then on");
    let Requeue::After(wait) = rig.nodes.reconcile(&"n1".into()).await.unwrap() else { panic!("no timer") };
    assert!(wait <= Duration::from_mins(2), "{wait:?}");
    let end = Timestamp::now() + grace;
    rig.book.lock().expire(end);
    rig.asked();
    assert_eq!(rig.nodes.reconcile(&"n1".into()).await.unwrap(), Requeue::Done);
    let text = rig.asked()[0].1["metadata"]["annotations"][node_annotation::NODE_SUBNETS].clone();
    assert_eq!(text, json!(r#"{"default":["10.128.0.0/24"]}"#));
}

#[tokio::test]
async fn a_broken_config_is_told_once_and_its_network_goes_on() {
    let seen = blue();
    let mut rig = rig(&seen, Mode::Everywhere, None, None);
    rig.nads.reconcile(&key()).await.unwrap();
    let broken = Seen { nads: vec![owned("{")], ..seen };
    rig.nads = with_stores(&rig, &broken);
    for _ in 0..2 {
        rig.nads.reconcile(&key()).await.unwrap();
    }
    let notes = rig.notes();
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.starts_with("InvalidConfig: Failed to parse network config: "), "{note}");
    assert_eq!(rig.book.lock().network_names(), ["blue_net".into()]);
}

#[tokio::test]
async fn a_definition_written_by_hand_that_cannot_be_a_network_of_this_cluster_is_told_why_and_is_none() {
    let by_hand = |change: &str| {
        let config = primary_config("blue/net", "by-hand");
        foreign_nad("blue", "net", &config.replace("10.50.0.0/16", change))
    };
    let overlap = "Failed to parse network config: invalid subnet configuration: pod or join subnet overlaps with \
                   already configured internal subnets: ";
    for (subnets, why) in [
        (
            "172.30.4.0/22",
            format!(r#"{overlap}user defined subnet "172.30.4.0/22" overlaps service subnet "172.30.0.0/16""#),
        ),
        (
            "fd00:50::/48",
            "Failed to parse network config: invalid subnet configuration: error while parsing subnets: network \
             by-hand is attempting to use ipv6 subnets but the cluster does not support ipv6"
                .to_owned(),
        ),
    ] {
        let seen = Seen { udns: Vec::new(), nads: vec![by_hand(subnets)], ..blue() };
        let mut rig = rig(&seen, Mode::Everywhere, None, None);
        rig.nads.reconcile(&key()).await.unwrap();
        assert_eq!(rig.notes(), [format!("InvalidConfig: {why}")]);
        assert_eq!((rig.book.lock().network_names(), rig.asked().len()), (Vec::new(), 0), "{subnets}");
        // Put right, it is one.
        rig.nads = with_stores(&rig, &Seen { nads: vec![by_hand("10.50.0.0/16")], ..seen });
        rig.nads.reconcile(&key()).await.unwrap();
        assert_eq!(rig.book.lock().network_names(), ["by-hand".into()]);
        // Spoilt again, what it was goes on until somebody decides.
        rig.nads = with_stores(&rig, &Seen { nads: vec![by_hand(subnets)], ..blue() });
        rig.nads.reconcile(&key()).await.unwrap();
        assert_eq!(rig.book.lock().network_names(), ["by-hand".into()]);
    }
}

/// The room of definitions over other snapshots.
fn with_stores(rig: &Rig, seen: &Seen) -> Nads {
    let mut nads = rig.nads.clone();
    nads.stores = seen.stores(causeway_api::nad::GatewayMode::Shared);
    nads
}

#[tokio::test]
async fn a_definition_that_somebody_edits_does_not_cost_its_network_anything() {
    let edits = [
        primary_config("blue/net", "another"),
        primary_config("blue/net", "blue_net").replace("\"primary\"", "\"secondary\""),
        primary_config("blue/net", "blue_net").replace("layer3", "layer2"),
        "{\"type\":\"bridge\"}".to_owned(),
        r#"{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay"}"#.to_owned(),
    ];
    for config in edits {
        let seen = blue();
        let mut rig = rig(&seen, Mode::Everywhere, None, None);
        rig.nads.reconcile(&key()).await.unwrap();
        rig.nodes.reconcile(&"n1".into()).await.unwrap();
        rig.asked();
        rig.nads = with_stores(&rig, &Seen { nads: vec![owned(&config)], ..seen.clone() });
        rig.nads.reconcile(&key()).await.unwrap();
        assert_eq!(rig.book.lock().network_names(), ["blue_net".into()], "{config}");
        rig.nads = with_stores(&rig, &seen);
        rig.nads.reconcile(&key()).await.unwrap();
        let asked = rig.asked();
        assert_eq!(
            asked.last().unwrap().1["metadata"]["annotations"][nad_annotation::NETWORK_ID],
            json!("1")
        );
        rig.nodes.reconcile(&"n1".into()).await.unwrap();
        assert_eq!(rig.asked(), [], "{config}");
    }
}

#[tokio::test]
async fn the_network_of_a_hand_written_definition_ends_although_an_object_of_its_name_waits() {
    let mut seen = blue();
    seen.nads = vec![foreign_nad("blue", "net", &primary_config("blue/net", "by-hand"))];
    let mut rig = rig(&seen, Mode::Everywhere, None, None);
    assert_eq!(rig.book.lock().network_names(), ["by-hand".into()]);
    rig.nads = with_stores(&rig, &Seen { nads: Vec::new(), ..seen });
    assert_eq!(rig.nads.reconcile(&key()).await.unwrap(), Requeue::Gone);
    assert_eq!(rig.book.lock().network_names(), []);
}

#[tokio::test]
async fn a_network_waits_for_its_definition_only_as_long_as_its_object_makes_it() {
    let comes_back = |change: fn(Seen) -> Seen| async move {
        let seen = blue();
        let mut rig = rig(&seen, Mode::Everywhere, None, None);
        rig.nads = with_stores(&rig, &change(Seen { nads: Vec::new(), ..seen }));
        rig.nads.reconcile(&key()).await.unwrap();
        let names = rig.book.lock().network_names();
        !names.is_empty()
    };
    assert!(comes_back(|seen| seen).await);
    assert!(!comes_back(|seen| Seen { udns: Vec::new(), ..seen }).await, "the object is gone");
    let going = |seen: Seen| Seen { udns: seen.udns.into_iter().map(terminating).collect(), ..seen };
    assert!(!comes_back(going).await, "it is being deleted");
    let place =
        |seen: Seen| Seen { namespaces: seen.namespaces.into_iter().map(terminating).collect(), ..seen };
    assert!(!comes_back(place).await, "its namespace is");
    let other = |seen: Seen| Seen { udns: Vec::new(), cudns: vec![cudn("net", layer3())], ..seen };
    assert!(!comes_back(other).await, "another object of the name makes another network");
}

#[tokio::test]
async fn the_definition_of_the_default_network_is_made_where_it_is_missing() {
    let rig = rig(&blue(), Mode::Everywhere, None, Some("ovn/default"));
    let default: NadKey = "ovn/default".parse().unwrap();
    assert_eq!(rig.nads.reconcile(&default).await.unwrap(), Requeue::Done);
    let asked = rig.asked();
    assert_eq!(asked[0].0, "POST /apis/k8s.cni.cncf.io/v1/namespaces/ovn/network-attachment-definitions");
    let config = r#"{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}"#;
    assert_eq!(asked[0].1["spec"]["config"], json!(config));
}

#[tokio::test]
async fn a_network_is_told_how_it_fares_and_a_terminating_one_nothing() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    let network: NetworkName = "blue_net".into();
    rig.statuses.reconcile(&network).await.unwrap();
    let asked = rig.asked();
    assert_eq!(asked[0].0, UDN);
    let condition = &asked[0].1["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("NetworkAllocationSucceeded"), &json!("True"))
    );
    assert_eq!(
        (
            condition["observedGeneration"].clone(),
            asked[0].1["status"]["conditions"].as_array().unwrap().len()
        ),
        (json!(1), 1)
    );
    rig.statuses.reconcile(&network).await.unwrap();
    assert_eq!(rig.asked(), []);

    let going = Seen { udns: blue().udns.into_iter().map(terminating).collect(), ..blue() };
    let rig = self::rig(&going, Mode::Everywhere, None, None);
    assert_eq!(rig.statuses.reconcile(&network).await.unwrap(), Requeue::Done);
    assert_eq!(rig.asked(), []);
    for unknown in ["default", "by-hand", "cluster_udn_gone"] {
        assert_eq!(rig.statuses.reconcile(&unknown.into()).await.unwrap(), Requeue::Gone, "{unknown}");
    }
}

#[tokio::test]
async fn a_network_whose_name_somebody_took_hears_that_and_not_how_the_other_one_fares() {
    let by_hand = primary_config("a/taken", "blue_net").replace("primary", "secondary");
    let nads = vec![foreign_nad("a", "taken", &by_hand), blue().nads.remove(0)];
    let mut rig = rig(&Seen { nads, ..blue() }, Mode::Everywhere, None, None);
    let network: NetworkName = "blue_net".into();
    // Before anybody looked at its definition nothing is said.
    rig.statuses.reconcile(&network).await.unwrap();
    assert_eq!(rig.asked(), []);
    rig.nads.reconcile(&key()).await.unwrap();
    let why = "NAD blue/net CNI config does not match that of network blue_net: role";
    assert!(rig.notes()[0].starts_with(&format!("InvalidConfig: {why}")));
    rig.statuses.reconcile(&network).await.unwrap();
    let asked = rig.asked();
    let condition = &asked[0].1["status"]["conditions"][0];
    assert_eq!((asked[0].0.as_str(), &condition["type"]), (UDN, &json!("NetworkAllocationSucceeded")));
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("InternalError")));
    assert!(condition["message"].as_str().unwrap().starts_with(why), "{condition}");
    // The other one is gone.
    rig.nads = with_stores(&rig, &blue());
    rig.nads.reconcile(&"a/taken".parse().unwrap()).await.unwrap();
    rig.nads.reconcile(&key()).await.unwrap();
    rig.asked();
    rig.statuses.reconcile(&network).await.unwrap();
    assert_eq!(rig.asked()[0].1["status"]["conditions"][0]["status"], json!("True"));
}

#[tokio::test]
async fn a_new_generation_is_looked_at_though_its_condition_reads_as_before() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    let network: NetworkName = "blue_net".into();
    rig.statuses.reconcile(&network).await.unwrap();
    let object = with(blue().udns.remove(0), "/status", rig.asked()[0].1["status"].clone());
    let of_generation = |generation: i64| {
        let object = with(object.clone(), "/metadata/generation", json!(generation));
        Cr::of_udn(serde_json::from_value(object).unwrap()).unwrap()
    };
    let (key, told, edited) = (CrKey::of_network(&network).unwrap(), of_generation(1), of_generation(2));
    let untold = Cr { conditions: Vec::new(), ..told.clone() };
    assert!(!rig.statuses.is_news(&key, Some(&untold), Some(&told)), "its own write wakes nobody");
    assert!(rig.statuses.is_news(&key, Some(&told), Some(&edited)));
    assert!(rig.statuses.is_news(&key, None, Some(&told)));
}

#[tokio::test]
async fn finalizers_and_conditions_of_others_are_no_news_and_a_condition_that_somebody_took_is() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    let network: NetworkName = "blue_net".into();
    rig.statuses.reconcile(&network).await.unwrap();
    let object = with(blue().udns.remove(0), "/status", rig.asked()[0].1["status"].clone());
    let told = Cr::of_udn(serde_json::from_value(object).unwrap()).unwrap();
    let key = CrKey::of_network(&network).unwrap();
    let of_others = Cr { finalizers: vec!["x".to_owned()], ..told.clone() };
    assert!(!rig.statuses.is_news(&key, Some(&told), Some(&of_others)));
    let mut created = told.clone();
    created.conditions[0].type_ = "NetworkCreated".to_owned();
    let both = Cr { conditions: [&told, &created].map(|cr| cr.conditions[0].clone()).into(), ..told.clone() };
    assert!(!rig.statuses.is_news(&key, Some(&told), Some(&both)));
    assert!(rig.statuses.is_news(&key, Some(&both), Some(&created)), "somebody took it away");
    let mut edited = told.clone();
    edited.conditions[0].message = "x".to_owned();
    assert!(rig.statuses.is_news(&key, Some(&told), Some(&edited)), "somebody wrote something else");
    assert!(!rig.statuses.is_news(&key, Some(&edited), Some(&told)), "it says again what it should");
    let going = Cr { terminating: true, ..told.clone() };
    assert!(rig.statuses.is_news(&key, Some(&told), Some(&going)));
}

#[tokio::test]
async fn what_is_not_so_any_more_of_a_network_is_not_said_any_more() {
    let condition = |type_: &str, status: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": "x", "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let said = json!({"conditions": [condition("NetworkAllocationSucceeded", "False", "n3"),
        condition("NodesSelected", "True", "1 node(s) rendered with network")]});
    let told = |seen: Seen, mode| async move {
        let rig = rig(&seen, mode, None, None);
        rig.statuses.reconcile(&"blue_net".into()).await.unwrap();
        let asked = rig.asked().into_iter().map(|(path, body)| {
            assert_eq!(path, UDN);
            let conditions = body["status"]["conditions"].as_array().unwrap().clone();
            let words = |condition: &Value| {
                format!("{}={}", condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap())
            };
            conditions.iter().map(words).collect::<Vec<_>>().join(" ")
        });
        asked.collect::<Vec<_>>()
    };
    let with_status = with(blue().udns[0].clone(), "/status", said);
    let seen = Seen { udns: vec![with_status], ..blue() };
    let on_demand = Mode::OnDemand { grace: SignedDuration::from_secs(120) };
    // Networks follow pods no more.
    assert_eq!(told(seen.clone(), Mode::Everywhere).await, ["NetworkAllocationSucceeded=True", ""]);
    // The last definition is gone, as the network is for no namespace.
    let nowhere = Seen { nads: Vec::new(), ..seen.clone() };
    let all = ["NetworkAllocationSucceeded=True", "NodesSelected=False"];
    assert_eq!(told(nowhere, on_demand).await, all);
    // Of one that was never anywhere, and of one whose config is broken for a moment, nothing is said.
    assert_eq!(told(Seen { nads: Vec::new(), ..blue() }, on_demand).await, [""; 0]);
    assert_eq!(told(Seen { nads: vec![owned("{")], ..seen }, on_demand).await, [""; 0]);
}

#[tokio::test]
async fn a_node_that_gets_nothing_is_an_event_on_the_network_and_in_its_condition() {
    let config = primary_config("blue/net", "blue_net").replace("10.50.0.0/16", "10.50.0.0/24/24");
    let nodes = ["n1", "n2"].map(|name| node(name, "3", json!({}))).to_vec();
    let mut rig = rig(&Seen { nads: vec![owned(&config)], nodes, ..blue() }, Mode::Everywhere, None, None);
    for name in ["n1", "n2", "n2"] {
        rig.nodes.reconcile(&name.into()).await.unwrap();
    }
    let inner = "error allocating network for node n2, network name blue_net: no subnets available";
    let note = format!("NetworkAllocationFailed: Error occurred for node n2: {inner}");
    assert_eq!(rig.notes(), [note]);
    rig.asked();
    rig.statuses.reconcile(&"blue_net".into()).await.unwrap();
    let message = rig.asked()[0].1["status"]["conditions"][0]["message"].clone();
    let text = "Network allocation failed for at least one node: n2, check UDN events for more info.";
    assert_eq!(message, json!(text));
}

#[tokio::test]
async fn what_a_definition_says_beyond_its_network_object_gives_nodes_nothing() {
    let own = with(layer3(), "/layer3/subnets", json!([{"cidr": "10.50.0.0/16", "hostSubnet": 16}]));
    let config = |subnets: &str| primary_config("blue/net", "blue_net").replace("10.50.0.0/16", subnets);
    let seen = Seen {
        udns: vec![udn("blue", "net", own.clone())],
        nads: vec![owned(&config("10.50.0.0/16/16"))],
        nodes: vec![node("n1", "3", json!({})), node("n2", "3", json!({}))],
        ..blue()
    };
    let mut rig = rig(&seen, Mode::Everywhere, None, None);
    let edited = Seen { nads: vec![owned(&config("10.50.0.0/16/16,10.60.0.0/16/16"))], ..seen.clone() };
    let fails = |rig: &Rig| rig.book.lock().node(&"n2".into(), &BTreeMap::new()).failures.len();
    rig.book.lock().node(&"n1".into(), &BTreeMap::new());
    rig.nads = with_stores(&rig, &edited);
    rig.nads.reconcile(&key()).await.unwrap();
    assert_eq!(fails(&rig), 1, "somebody appended a range to the definition");
    let ranges =
        json!([{"cidr": "10.50.0.0/16", "hostSubnet": 16}, {"cidr": "10.60.0.0/16", "hostSubnet": 16}]);
    let grown = Seen { udns: vec![udn("blue", "net", with(own, "/layer3/subnets", ranges))], ..edited };
    rig.nads = with_stores(&rig, &grown);
    rig.nads.reconcile(&key()).await.unwrap();
    let verdict = rig.book.lock().node(&"n2".into(), &BTreeMap::new());
    assert!(verdict.failures.is_empty() && verdict.told.contains("blue_net"), "{verdict:?}");
}

#[tokio::test]
async fn the_numbers_of_subnets_have_upstreams_names_while_this_process_leads() {
    let rig = rig(&blue(), Mode::Everywhere, None, None);
    rig.nodes.reconcile(&"n1".into()).await.unwrap();
    let mut registry = causeway_runtime::telemetry::upstream_registry();
    rig.book.count_subnets(registry.sub_registry_with_prefix("clustermanager"));
    let text = |registry: &Registry| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    };
    for line in [
        r#"ovnkube_clustermanager_num_v4_host_subnets{network_name="default"} 256"#,
        r#"ovnkube_clustermanager_num_v6_host_subnets{network_name="default"} 0"#,
        r#"ovnkube_clustermanager_allocated_v4_host_subnets{network_name="blue_net"} 1"#,
        r#"ovnkube_clustermanager_allocated_v6_host_subnets{network_name="blue_net"} 0"#,
    ] {
        let text = text(&registry);
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text(&registry).contains("udn_nodes_rendered"), "networks are everywhere");
    rig.book.made.store(false, Ordering::Release);
    assert_eq!(text(&registry), "# EOF\n");
}

#[tokio::test]
async fn where_networks_follow_pods_the_nodes_of_each_are_counted() {
    let mut seen = blue();
    seen.pods = vec![with(pod("blue", "p", &[]), "/spec", json!({"nodeName": "n1"}))];
    seen.nads.push(foreign_nad("red", "hand", &primary_config("red/hand", "hand")));
    let rig = rig(&seen, Mode::OnDemand { grace: SignedDuration::from_secs(120) }, None, None);
    let mut registry = Registry::default();
    rig.book.count_subnets(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let rendered: Vec<&str> = text.lines().filter(|line| line.starts_with("udn_nodes_rendered")).collect();
    assert_eq!(rendered, [r#"udn_nodes_rendered{network_name="blue_net"} 1"#]);
}
