use std::collections::BTreeMap;

use prometheus_client::encoding::text::encode;
use tokio::time::timeout;

use super::*;
use crate::fake_api::{FakeApi, Reply, client_of, status};

fn happening(object: &str, note: &str) -> Happening {
    let regarding = ObjectReference {
        api_version: Some("k8s.ovn.org/v1alpha1".to_owned()),
        kind: Some("Uplink".to_owned()),
        name: Some(object.to_owned()),
        uid: Some(format!("uid-{object}")),
        ..ObjectReference::default()
    };
    Happening {
        regarding,
        related: None,
        severity: Severity::Warning,
        reason: "NoMatchingNodes".to_owned(),
        action: "Reconcile",
        note: note.to_owned(),
    }
}

/// A ledger and a clock of its own.
#[derive(Default)]
struct Bench {
    ledger: Ledger,
    second: u64,
}

impl Bench {
    fn now(&self, epoch: Instant) -> (Instant, Timestamp) {
        let wall = i64::try_from(self.second).expect("a short test");
        (epoch + Duration::from_secs(self.second), Timestamp::from_second(wall).expect("a time"))
    }

    /// Hands in `happening` and says in a word what is to be done.
    fn say(&mut self, epoch: Instant, happening: Happening) -> &'static str {
        let (now, wall) = self.now(epoch);
        match self.ledger.take_in(happening, now, wall) {
            Todo::Nothing => "nothing",
            Todo::Count => "count",
            Todo::Limit => "limit",
            Todo::Create { .. } => "create",
            Todo::Update { .. } => "update",
        }
    }
}

#[test]
fn repeats_count_in_one_event_and_are_written_together() {
    let (mut bench, epoch) = (Bench::default(), Instant::now());
    assert_eq!(bench.say(epoch, happening("a", "n")), "create");
    for second in 1..=5 {
        bench.second = second;
        assert_eq!(bench.say(epoch, happening("a", "n")), "count");
    }
    assert_eq!(bench.ledger.next_due(), Some(epoch + Duration::from_secs(10)));
    bench.second = 9;
    assert_eq!(bench.ledger.due(bench.now(epoch).0), Todo::Nothing);
    bench.second = 10;
    match bench.ledger.due(bench.now(epoch).0) {
        Todo::Update { count, at, .. } => assert_eq!((count, at.as_second()), (6, 5)),
        todo => panic!("{todo:?}"),
    }
    assert_eq!(bench.ledger.next_due(), None, "nothing is written twice");
}

#[test]
fn a_happening_that_comes_back_late_is_a_new_event() {
    let (mut bench, epoch) = (Bench::default(), Instant::now());
    assert_eq!(bench.say(epoch, happening("a", "n")), "create");
    bench.second = 6 * 60;
    assert_eq!(bench.say(epoch, happening("a", "n")), "create");
}

#[test]
fn different_events_of_one_object_are_limited_and_other_objects_are_not() {
    let (mut bench, epoch) = (Bench::default(), Instant::now());
    let count = |bench: &mut Bench, object: &str, number: std::ops::Range<u32>| {
        let mut words: BTreeMap<&str, u32> = BTreeMap::new();
        for note in number {
            *words.entry(bench.say(epoch, happening(object, &note.to_string()))).or_default() += 1;
        }
        words
    };
    assert_eq!(count(&mut bench, "a", 0..40), BTreeMap::from([("create", 25), ("limit", 15)]));
    assert_eq!(count(&mut bench, "b", 0..1), BTreeMap::from([("create", 1)]));
    bench.second = 60;
    assert_eq!(count(&mut bench, "a", 100..110), BTreeMap::from([("create", 2), ("limit", 8)]));
}

#[test]
fn memory_is_bounded_however_many_objects_there_are() {
    let (mut bench, epoch) = (Bench::default(), Instant::now());
    for object in 0..3000 {
        bench.second = object / 10;
        bench.say(epoch, happening(&object.to_string(), "n"));
    }
    let (series, buckets) = bench.ledger.sizes();
    assert!(series <= 1000 && buckets <= 1000, "{series} series, {buckets} buckets");
    assert_eq!(bench.say(epoch, happening("2999", "n")), "count", "the newest are remembered");
}

#[test]
fn an_event_has_a_name_that_the_api_server_takes() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    let object = format!("{}.{}", "u".repeat(199), "v".repeat(50));
    let todo = ledger.take_in(happening(&object, "n"), now, Timestamp::UNIX_EPOCH);
    let Todo::Create { name, .. } = todo else { panic!("{todo:?}") };
    assert_eq!(name, format!("{}.0", "u".repeat(199)));
}

struct Running {
    recorder: Recorder,
    registry: Registry,
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

fn run(client: Client) -> Running {
    let mut registry = crate::telemetry::registry();
    let metrics = EventMetrics::register(&mut registry);
    let reporter = Reporter { program: "causeway-test", instance: "t0".to_owned() };
    let (recorder, publisher) = Publisher::new(client, reporter, metrics);
    let stop = CancellationToken::new();
    let task = tokio::spawn(publisher.run(stop.clone()));
    Running { recorder, registry, task, stop }
}

impl Running {
    async fn has_counted(&self, line: &str) {
        let counted = async {
            loop {
                let mut text = String::new();
                encode(&mut text, &self.registry).expect("metrics encode");
                if text.lines().any(|found| found == line) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), counted).await.unwrap_or_else(|_| panic!("never {line}"));
    }
}

#[tokio::test]
async fn an_event_of_an_object_without_namespace_is_made_in_the_default_one() {
    let mut api = FakeApi::start().await;
    let running = run(api.client());
    api.reply(Reply::Json(201, serde_json::json!({ "metadata": { "name": "x" }, "eventTime": null }))).await;
    running.recorder.record(happening("a", &"é".repeat(1000)));
    let asked = api.next_request().await;
    assert!(
        asked.target.starts_with("/apis/events.k8s.io/v1/namespaces/default/events?"),
        "{}",
        asked.target
    );
    let body = &asked.body;
    assert_eq!(
        (&body["type"], &body["reason"], &body["regarding"]["uid"], &body["reportingInstance"]),
        (&"Warning".into(), &"NoMatchingNodes".into(), &"uid-a".into(), &"t0".into())
    );
    assert_eq!(body["note"].as_str().map(str::len), Some(1024));
    running.has_counted("causeway_events_total{outcome=\"written\"} 1").await;
    running.stop.cancel();
    running.task.await.expect("it ends");
}

#[tokio::test]
async fn last_words_are_written_after_the_stop_and_end_with_the_last_who_could_speak() {
    let mut api = FakeApi::start().await;
    let running = run(api.client());
    running.stop.cancel();
    running.recorder.record(happening("a", "n"));
    assert_eq!(api.next_request().await.method, "POST");
    api.reply(Reply::Json(201, serde_json::json!({ "metadata": { "name": "x" }, "eventTime": null }))).await;
    running.has_counted("causeway_events_total{outcome=\"written\"} 1").await;
    drop(running.recorder);
    running.task.await.expect("it ends");
}

#[tokio::test]
async fn what_the_api_server_refuses_is_counted_and_tried_anew_with_the_next_happening() {
    let mut api = FakeApi::start().await;
    let running = run(api.client());
    for _ in 0..2 {
        api.reply(status(403, "Forbidden", "no events for you")).await;
        running.recorder.record(happening("a", "n"));
        assert_eq!(api.next_request().await.method, "POST");
    }
    running.has_counted("causeway_events_total{outcome=\"failed\"} 2").await;
}

#[tokio::test]
async fn a_silent_api_server_costs_events_and_no_time() {
    let api = FakeApi::start().await;
    let running = run(client_of(api.address));
    for note in 0..QUEUE + 100 {
        running.recorder.record(happening("a", &note.to_string()));
    }
    let mut text = String::new();
    encode(&mut text, &running.registry).expect("metrics encode");
    assert!(text.contains("causeway_events_total{outcome=\"dropped\"} 100\n"), "{text}");
}
