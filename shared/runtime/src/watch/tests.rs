use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use prometheus_client::encoding::text::encode;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::fake_api::{FakeApi, Reply, client_of, status};

/// A ConfigMap as far as these tests read one.
#[derive(Debug, Clone, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::ConfigMap)]
struct Small {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

struct Bench {
    store: Store<String, String>,
    changes: mpsc::Receiver<String>,
    metrics: prometheus_client::registry::Registry,
    watch: JoinHandle<()>,
    stop: CancellationToken,
}

/// Watches the value of the key `v`; objects without it are absent.
fn bench(address: SocketAddr) -> Bench {
    let (sender, changes) = mpsc::channel(100);
    let mut metrics = crate::telemetry::registry();
    let watch_metrics = WatchMetrics::register(&mut metrics);
    let watch = Watch::new(Api::all(client_of(address)), config(), name, |object: Small| {
        assert_eq!(object.metadata.managed_fields, None);
        object.data.get("v").cloned()
    })
    .metered(&watch_metrics)
    .on_change(move |change| {
        let side = |value: &Option<Arc<String>>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        let broken = change.unreadable.as_ref().map_or("", |_| " unreadable");
        let line = format!("{}: {} -> {}{broken}", change.key, side(&change.old), side(&change.new));
        sender.try_send(line).expect("the test reads its changes");
    });
    let (store, stop) = (watch.store(), CancellationToken::new());
    let watch = tokio::spawn(watch.run(stop.clone()));
    Bench { store, changes, metrics, watch, stop }
}

impl Bench {
    #[track_caller]
    fn expect(&mut self, want: &str) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        async move {
            let change = tokio::time::timeout(Duration::from_secs(10), self.changes.recv()).await;
            assert_eq!(change.ok().flatten().as_deref(), Some(want), "{caller}");
        }
    }

    async fn connection(&self, want: impl Fn(&Connection) -> bool) -> Connection {
        let mut connection = self.store.connection();
        let reached =
            tokio::time::timeout(Duration::from_secs(10), connection.wait_for(|now| want(now))).await;
        reached.expect("the connection gets there").expect("the store exists").clone()
    }

    fn counts(&self, metric: &str) -> bool {
        let mut text = String::new();
        encode(&mut text, &self.metrics).expect("metrics encode");
        text.contains(metric)
    }
}

fn object(name: &str, uid: &str, version: u32, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "ns", "uid": uid, "resourceVersion": version.to_string(),
            "managedFields": [{ "manager": "kubectl", "operation": "Update", "fieldsV1": { "f:data": {} } }],
        },
        "data": data,
    })
}

fn event(kind: &str, object: &Value) -> Value {
    json!({ "type": kind, "object": object })
}

#[tokio::test]
async fn changes_carry_old_and_new_and_equal_slim_values_are_silent() {
    let api = FakeApi::start().await;
    api.list([object("a", "1", 1, &json!({ "v": "one" })), object("b", "2", 2, &json!({ "w": "x" }))]).await;
    let events = api.watch().await;
    let mut bench = bench(api.address);
    bench.expect("a: - -> one").await;
    bench.store.wait_synced().await;
    assert_eq!(bench.store.readiness(), Ok(()));
    let before = bench.store.snapshot();
    // What is not read does not wake anybody; what is read does.
    events
        .send(event("MODIFIED", &object("a", "1", 11, &json!({ "v": "one", "w": "y" }))))
        .await
        .expect("watched");
    events.send(event("MODIFIED", &object("a", "1", 12, &json!({ "v": "two" })))).await.expect("watched");
    bench.expect("a: one -> two").await;
    // An object that the slimming drops is absent, and one that it keeps again is new.
    events.send(event("MODIFIED", &object("a", "1", 13, &json!({})))).await.expect("watched");
    bench.expect("a: two -> -").await;
    events.send(event("ADDED", &object("b", "2", 14, &json!({ "v": "b" })))).await.expect("watched");
    bench.expect("b: - -> b").await;
    events.send(event("DELETED", &object("b", "2", 15, &json!({ "v": "b" })))).await.expect("watched");
    bench.expect("b: b -> -").await;
    assert!(bench.store.snapshot().is_empty());
    assert_eq!(before.get("a").map(|v| v.as_str()), Some("one"), "an old snapshot stays what it was");
    assert!(bench.counts("causeway_watch_changes_total{kind=\"ConfigMap\"} 5\n"));
    assert!(
        bench.counts("causeway_watch_last_event_timestamp_seconds{kind=\"ConfigMap\"} 1"),
        "a time of today"
    );
}

#[tokio::test]
async fn an_object_made_anew_is_a_deletion_then_a_creation_even_if_equal() {
    let api = FakeApi::start().await;
    api.list([object("a", "1", 1, &json!({ "v": "one" }))]).await;
    let events = api.watch().await;
    let mut bench = bench(api.address);
    bench.expect("a: - -> one").await;
    events.send(event("MODIFIED", &object("a", "2", 11, &json!({ "v": "one" })))).await.expect("watched");
    bench.expect("a: one -> -").await;
    bench.expect("a: - -> one").await;
}

#[tokio::test]
async fn deletions_missed_while_disconnected_are_reported_after_the_next_list() {
    let mut api = FakeApi::start().await;
    api.list([object("a", "1", 1, &json!({ "v": "one" })), object("b", "2", 2, &json!({ "v": "two" }))])
        .await;
    let events = api.watch().await;
    let mut bench = bench(api.address);
    bench.expect("a: - -> one").await;
    bench.expect("b: - -> two").await;
    events
        .send(event("ERROR", &json!({ "code": 410, "reason": "Expired", "message": "too old" })))
        .await
        .expect("watched");
    let lost = bench.connection(|now| matches!(now, Connection::Disconnected(_))).await;
    assert!(lost.to_string().contains("too old"), "{lost}");
    assert_eq!(bench.store.snapshot().len(), 2, "nothing is concluded from being disconnected");
    api.list([object("b", "2", 2, &json!({ "v": "two" })), object("c", "3", 3, &json!({ "v": "three" }))])
        .await;
    let _events = api.watch().await;
    bench.expect("c: - -> three").await;
    bench.expect("a: one -> -").await;
    bench.connection(|now| *now == Connection::Connected).await;
    let targets =
        [api.next_request().await, api.next_request().await, api.next_request().await].map(|a| a.target);
    assert!(targets[0].contains("limit=100") && targets[2].contains("limit=100"), "{targets:?}");
    assert!(targets[1].contains("watch=true") && targets[1].contains("resourceVersion=10"), "{targets:?}");
}

#[tokio::test]
async fn a_server_that_is_away_at_start_is_waited_for_and_the_reason_can_be_read() {
    let reserved = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = reserved.local_addr().expect("bound");
    drop(reserved);
    let mut bench = bench(address);
    let away = bench.connection(|now| matches!(now, Connection::Disconnected(_))).await;
    assert!(away.to_string().contains("Connection refused"), "{away}");
    let NotReady::Disconnected { kind, error } = bench.store.readiness().expect_err("not ready") else {
        panic!("{:?}", bench.store.readiness());
    };
    assert_eq!(kind, "ConfigMap");
    assert!(error.contains("Connection refused"), "{error}");
    let api = FakeApi::start_at(address).await;
    api.list([object("a", "1", 1, &json!({ "v": "one" }))]).await;
    bench.expect("a: - -> one").await;
    bench.connection(|now| *now == Connection::Connected).await;
    assert!(*bench.store.synced().borrow());
}

#[tokio::test]
async fn a_server_that_refuses_is_asked_again() {
    let api = FakeApi::start().await;
    api.reply(status(403, "Forbidden", "configmaps is forbidden")).await;
    api.reply(Reply::Json(200, json!("garbage"))).await;
    api.list([object("a", "1", 1, &json!({ "v": "one" }))]).await;
    let mut bench = bench(api.address);
    let refused = bench.connection(|now| matches!(now, Connection::Disconnected(_))).await;
    assert!(refused.to_string().contains("configmaps is forbidden"), "{refused}");
    bench.expect("a: - -> one").await;
    assert!(bench.counts("causeway_watch_errors_total{kind=\"ConfigMap\"} 2\n"));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_unreadable_not_absent_and_stalls_nobody() {
    let api = FakeApi::start().await;
    api.list([
        object("bad", "1", 1, &json!({ "v": ["list"] })),
        object("good", "2", 2, &json!({ "v": "one" })),
    ])
    .await;
    let events = api.watch().await;
    let mut bench = bench(api.address);
    bench.expect("bad: - -> - unreadable").await;
    bench.expect("good: - -> one").await;
    let snapshot = bench.store.snapshot();
    let Lookup::Unreadable(error) = snapshot.lookup("bad") else { panic!("{snapshot:?}") };
    assert!(error.contains("string"), "{error}");
    assert!(matches!(snapshot.lookup("good"), Lookup::Present(_)));
    assert!(matches!(snapshot.lookup("other"), Lookup::Absent));
    assert_eq!(snapshot.iter().count(), 1);
    assert_eq!(snapshot.unreadable().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["bad"]);
    assert!(bench.counts("causeway_watch_unreadable_total{kind=\"ConfigMap\"} 1\n"));
    events.send(event("MODIFIED", &object("bad", "1", 11, &json!({ "v": "fine" })))).await.expect("watched");
    bench.expect("bad: - -> fine").await;
    events.send(event("MODIFIED", &object("bad", "1", 12, &json!({ "v": 7 })))).await.expect("watched");
    bench.expect("bad: fine -> - unreadable").await;
    // The same trouble again is no news: the next change is the deletion.
    events.send(event("MODIFIED", &object("bad", "1", 13, &json!({ "v": 7 })))).await.expect("watched");
    events.send(event("DELETED", &object("bad", "1", 13, &json!({ "v": 7 })))).await.expect("watched");
    bench.expect("bad: - -> -").await;
}

#[tokio::test]
async fn a_stopped_watch_ends_even_in_the_middle_of_a_call() {
    let api = FakeApi::start().await;
    api.list([]).await;
    let _events = api.watch().await;
    let bench = bench(api.address);
    bench.store.wait_synced().await;
    bench.stop.cancel();
    tokio::time::timeout(Duration::from_secs(10), bench.watch)
        .await
        .expect("it ends")
        .expect("without a panic");
}

#[test]
fn keys_of_namespaced_objects_need_a_namespace() {
    let meta = |namespace: Option<&str>| ObjectMeta {
        name: Some("a".to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    };
    assert_eq!(namespaced_name(&meta(Some("ns"))).map(|key| key.to_string()).as_deref(), Some("ns/a"));
    assert_eq!(namespaced_name(&meta(None)), None);
    assert_eq!(name(&meta(None)).as_deref(), Some("a"));
}

#[test]
fn a_fixed_store_can_hold_what_cannot_be_read() {
    let store = Store::fixed_unreadable("Thing", [("a".to_owned(), 1)], [("b".to_owned(), "no such field")]);
    let snapshot = store.snapshot();
    assert!(matches!(snapshot.lookup("a"), Lookup::Present(_)));
    assert!(matches!(snapshot.lookup("b"), Lookup::Unreadable("no such field")));
    assert!(store.readiness().is_ok());
}

thread_local! {
    static COPIES: Cell<u32> = const { Cell::new(0) };
}

/// A key that counts how often keys are copied.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Copied(u32);

impl Clone for Copied {
    fn clone(&self) -> Self {
        COPIES.with(|copies| copies.set(copies.get() + 1));
        Self(self.0)
    }
}

#[test]
fn a_list_is_taken_over_without_copying_what_was_taken_over_before() {
    let store = Store::<Copied, u32>::fixed("Thing", []);
    let update = |number: u32, value: u32| {
        let value = Update::Present { uid: "1".into(), value: Arc::new(value) };
        // Whoever is told looks at the new snapshot, and lets go of it.
        store.update(&Copied(number), value, |_| assert!(!store.snapshot().is_empty()));
    };
    (0..1000).for_each(|number| update(number, 0));
    (0..1000).for_each(|number| update(number, 1));
    let copied = COPIES.with(Cell::get);
    assert!(copied < 10_000, "{copied} keys were copied for 2000 updates");
}
