//! VTEPs: what is written about them, and who is woken.

use causeway_api::vtep::VTEP;
use causeway_runtime::events::{EventMetrics, Happening, Recorder};
use causeway_runtime::watch::{Change, Store};
use causeway_runtime::writer::Writer;
use tokio::sync::mpsc;

use super::*;
use crate::network::vtep::{Vtep, VtepName, Vteps};
use crate::observed::place::Node;

const PATH: &str = "/apis/k8s.ovn.org/v1/vteps";

fn vtep(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "VTEP",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "4", "generation": 2,
            "finalizers": ["k8s.ovn.org/vtep-protection"]},
        "spec": {"cidrs": [cidr], "mode": "Unmanaged"}})
}

fn evpn(name: &str, vtep: &str) -> Value {
    cudn(
        name,
        json!({"topology": "Layer3", "transport": "EVPN", "evpn": {"vtep": vtep, "ipVRF": {"vni": 7}},
        "layer3": {"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]}}),
    )
}

fn node(name: &str, vteps: Option<&str>) -> Value {
    let annotations: serde_json::Map<String, Value> =
        vteps.map(|text| ("k8s.ovn.org/vteps".to_owned(), json!(text))).into_iter().collect();
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": annotations}})
}

fn slim(object: &Value) -> (VtepName, Vtep) {
    let object: VTEP = serde_json::from_value(object.clone()).unwrap();
    (object.metadata.name.as_deref().unwrap().into(), Vtep::of(object).unwrap())
}

struct Judge {
    room: Vteps,
    api: Arc<Api>,
    told: mpsc::Receiver<Happening>,
}

fn judge(vteps: &[Value], seen: &Seen) -> Judge {
    let api = Arc::new(Api::default());
    for object in vteps {
        let path = format!("{PATH}/{}", object["metadata"]["name"].as_str().unwrap());
        api.objects.lock().unwrap().insert(path, object.clone());
    }
    let mut registry = Registry::default();
    let (recorder, told) = Recorder::new(EventMetrics::register(&mut registry));
    let metrics = WriteMetrics::register(&mut registry);
    let room = Vteps::new(
        &client(&api),
        |manager| Writer::new(manager, metrics),
        recorder,
        Store::fixed("VTEP", vteps.iter().map(slim)),
        seen.stores(GatewayMode::Local.into()),
    );
    Judge { room, api, told }
}

impl Judge {
    /// Method and path of each write of a pass.
    async fn pass(&self, name: &str) -> Vec<String> {
        self.api.log.lock().unwrap().clear();
        self.room.reconcile(&VtepName::from(name)).await.unwrap();
        let log = self.api.log.lock().unwrap().clone();
        log.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    fn accepted(&self, name: &str) -> String {
        let object = self.api.objects.lock().unwrap().get(&format!("{PATH}/{name}")).cloned().unwrap();
        let condition = &object["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["observedGeneration"]), (&json!("Accepted"), &json!(2)));
        let part = |key: &str| condition[key].as_str().unwrap().to_owned();
        format!("{}/{}: {}", part("status"), part("reason"), part("message"))
    }

    fn notes(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.told.try_recv().ok())
            .map(|told| format!("{} {}: {}", told.regarding.name.unwrap(), told.reason, told.note))
            .collect()
    }

    /// The VTEPs that are looked at next.
    async fn woken(&self) -> Vec<String> {
        let room = Seeing(Arc::default());
        let (all, stop) = (Arc::clone(&room.0), CancellationToken::new());
        let queue = self.room.queue.clone();
        queue.enqueue(VtepName::from("~last"));
        let end = stop.clone();
        let meters = causeway_runtime::engine::EngineMetrics::register(&mut Registry::default());
        let run = engine::run(
            Until(room, end),
            queue,
            Limits { parallelism: 1, resync: None, ..Limits::default() },
            &meters,
            stop,
        );
        run.await;
        let mut all = all.lock().unwrap().clone();
        all.sort_unstable();
        all
    }
}

/// Remembers the keys that it gets.
#[derive(Clone)]
struct Seeing(Arc<Mutex<Vec<String>>>);

/// The same, until the last one comes.
#[derive(Clone)]
struct Until(Seeing, CancellationToken);

impl Room for Until {
    const NAME: &'static str = "test";
    type Key = VtepName;
    type Error = std::convert::Infallible;

    async fn reconcile(&self, key: &VtepName) -> Result<Requeue, Self::Error> {
        if key.as_ref() == "~last" {
            self.1.cancel();
        } else {
            self.0.0.lock().unwrap().push(key.to_string());
        }
        Ok(Requeue::Done)
    }
}

#[tokio::test]
async fn a_vtep_is_protected_and_judged_once_and_what_is_wrong_is_told_once() {
    let new = with(vtep("v", "100.70.0.0/24"), "/metadata/finalizers", json!([]));
    let mut seen = Seen {
        nodes: vec![node("n1", None), node("n2", Some(r#"{"v":{"ips":["100.70.0.2"]}}"#))],
        ..Seen::default()
    };
    let mut judge = self::judge(&[new], &seen);
    let (whole, status) = (format!("PATCH {PATH}/v"), format!("PATCH {PATH}/v/status"));
    assert_eq!(judge.pass("v").await, [whole, status]);
    let missing = "AllocationFailed: node n1 is missing the k8s.ovn.org/vteps annotation";
    assert_eq!(judge.accepted("v"), format!("False/{missing}"));
    assert_eq!(judge.notes(), [format!("v {missing}")]);
    assert_eq!(judge.pass("v").await, [""; 0], "before the watch shows it, too");

    let judged = judge.api.objects.lock().unwrap().get(&format!("{PATH}/v")).cloned().unwrap();
    let mut again = self::judge(std::slice::from_ref(&judged), &seen);
    assert_eq!(again.pass("v").await, [""; 0], "a restart writes nothing");
    seen.nodes = vec![node("n2", Some(r#"{"v":{"ips":["100.70.0.2"]}}"#))];
    let mut fine = self::judge(&[judged], &seen);
    assert_eq!(fine.pass("v").await.len(), 1);
    assert_eq!(fine.accepted("v"), "True/Allocated: VTEP allocation succeeded");
    assert_eq!((again.notes(), fine.notes()), (vec![], vec![]));
}

#[tokio::test]
async fn a_vtep_that_goes_waits_for_the_networks_that_rest_on_it() {
    let going = terminating(vtep("v", "100.70.0.0/24"));
    let going = with(going, "/metadata/finalizers", json!(["example.com/x", "k8s.ovn.org/vtep-protection"]));
    let seen = Seen { cudns: vec![terminating(evpn("e1", "v"))], ..Seen::default() };
    assert_eq!(judge(std::slice::from_ref(&going), &seen).pass("v").await, [""; 0]);
    let judge = judge(&[going], &Seen { cudns: vec![evpn("e1", "other")], ..Seen::default() });
    assert_eq!(judge.pass("v").await, [format!("PATCH {PATH}/v")]);
    let left = judge.api.objects.lock().unwrap().get(&format!("{PATH}/v")).cloned().unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/x"]), "those of others stay");
}

#[tokio::test]
async fn vteps_that_overlap_are_both_refused_until_one_is_gone() {
    let (a, b) = (vtep("a", "100.70.0.0/16"), vtep("b", "100.70.1.0/24"));
    let judge = self::judge(&[a.clone(), b.clone()], &Seen::default());
    judge.pass("a").await;
    judge.pass("b").await;
    assert_eq!(judge.accepted("a"), "False/CIDROverlap: CIDRs overlap with VTEPs: [b]");
    assert_eq!(judge.accepted("b"), "False/CIDROverlap: CIDRs overlap with VTEPs: [a]");
    // One that is on its way out, and that nothing keeps, counts no more.
    let gone = with(terminating(b), "/metadata/finalizers", json!([]));
    let judge = self::judge(&[a, gone], &Seen::default());
    judge.pass("a").await;
    assert_eq!(judge.accepted("a"), "True/Allocated: VTEP allocation succeeded");
}

#[tokio::test]
async fn a_vtep_is_looked_at_when_what_it_rests_on_changes() {
    let (a, b) = (vtep("a", "100.70.0.0/24"), vtep("b", "100.71.0.0/24"));
    let judge = judge(&[a.clone(), b], &Seen::default());
    let (name, now) = slim(&a);
    let (_, told) = slim(&with(a.clone(), "/status", json!({"conditions": []})));
    let (_, wider) = slim(&with(a, "/spec/cidrs", json!(["100.70.0.0/15"])));
    let change = |old: &Vtep, new: Option<&Vtep>| {
        let (old, new) = (Some(Arc::new(old.clone())), new.map(|new| Arc::new(new.clone())));
        judge.room.changed(&Change { key: &name, old, new, unreadable: None });
    };
    change(&now, Some(&told));
    assert_eq!(judge.woken().await, ["a"], "its own condition");
    change(&now, Some(&wider));
    assert_eq!(judge.woken().await, ["a", "b"], "others may overlap now");
    change(&now, None);
    assert_eq!(judge.woken().await, ["a", "b"]);

    let node = |annotations: Value| -> Node {
        let object = json!({"metadata": {"name": "n", "uid": "u", "annotations": annotations}});
        Node::of(serde_json::from_value(object).unwrap()).unwrap()
    };
    let (bare, other) = (node(json!({})), node(json!({"k8s.ovn.org/node-id": "2"})));
    judge.room.node_changed(Some(&bare), Some(&other));
    assert_eq!(judge.woken().await, [""; 0], "another annotation");
    judge.room.node_changed(Some(&bare), Some(&node(json!({"k8s.ovn.org/vteps": "{}"}))));
    assert_eq!(judge.woken().await, ["a", "b"]);
    judge.room.node_changed(None, Some(&bare));
    assert_eq!(judge.woken().await, ["a", "b"], "a new node");

    let cr = |object: Value| Cr::of_cudn(serde_json::from_value(object).unwrap()).unwrap();
    let (on_a, on_b, plain) = (cr(evpn("e", "a")), cr(evpn("e", "b")), cr(cudn("e", layer3())));
    judge.room.network_changed(Some(&on_a), Some(&on_b));
    assert_eq!(judge.woken().await, ["a", "b"]);
    judge.room.network_changed(Some(&on_a), None);
    assert_eq!(judge.woken().await, ["a"]);
    judge.room.network_changed(Some(&plain), None);
    assert_eq!(judge.woken().await, [""; 0]);
}
