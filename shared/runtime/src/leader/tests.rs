use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;
use tokio::time::advance;

use super::lease::{Record, Seen, Step, View};
use super::*;
use crate::engine::{Retry, Retryable};
use crate::fake_api::{FakeApi, Reply};
use crate::settings::LeaderElection;
use crate::writer::{WriteError, Writer};

const TIMING: LeaderElection = LeaderElection {
    lease: Duration::from_secs(137),
    renew: Duration::from_secs(107),
    retry: Duration::from_secs(26),
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn record(holder: Option<&str>, renewed: i64) -> Record {
    Record {
        holder: holder.map(str::to_owned),
        duration: Some(Duration::from_secs(15)),
        renewed: Some(at(renewed)),
        transitions: 3,
        version: "7".to_owned(),
    }
}

/// What `me` does `after` having seen `record` first, with these renewals of its own.
fn step(record: Option<Record>, exists: bool, mine: &[Timestamp], after: Duration) -> Step {
    let first = Instant::now();
    let last = record.map(|record| Seen { record, at: first });
    let view = View { me: "me", timing: TIMING, mine, last: last.as_ref(), exists };
    match view.step(first + after) {
        Step::Wait(Some(until)) => Step::Wait(Some(Instant::now() + (until - first))),
        step => step,
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_only_when_it_is_free_over_or_ones_own() {
    let (others, own, free) = (record(Some("other"), 1), record(Some("me"), 1), record(None, 1));
    let soon = Duration::from_secs(1);
    let wait = |seconds| Step::Wait(Some(Instant::now() + Duration::from_secs(seconds)));
    let take = |record: &Record| Step::Take(record.clone());
    let silent = Record { duration: None, ..others.clone() };
    let rows = [
        ("nobody made one", None, false, vec![], soon, Step::Create),
        ("one that cannot be read", None, true, vec![], soon, Step::Wait(None)),
        ("let go", Some(free.clone()), true, vec![], soon, take(&free)),
        ("held by another", Some(others.clone()), true, vec![at(1)], soon, wait(15)),
        ("run out", Some(others.clone()), true, vec![], Duration::from_secs(15), take(&others)),
        ("held by another who names no duration", Some(silent), true, vec![], soon, wait(137)),
        ("ones own", Some(own.clone()), true, vec![at(1)], soon, take(&own)),
        ("held by a second process of this name", Some(own.clone()), true, vec![at(0)], soon, wait(15)),
        ("deleted while held", Some(others.clone()), false, vec![], soon, wait(15)),
        ("deleted long ago", Some(others), false, vec![], Duration::from_secs(15), Step::Create),
        ("deleted while ones own", Some(own), false, vec![at(1)], soon, Step::Create),
    ];
    for (row, record, exists, mine, after, want) in rows {
        assert_eq!(step(record, exists, &mine, after), want, "{row}");
    }
}

#[test]
fn what_is_written_into_a_lease_reads_back_equal() {
    let now = lease::now();
    let mut made = lease::created(LEASE, "me", TIMING, now);
    made.metadata.resource_version = Some("1".to_owned());
    let text = serde_json::to_string(&made).expect("JSON");
    let read = Record::of(serde_json::from_str(&text).expect("a Lease")).expect("a record");
    let want = Record {
        holder: Some("me".to_owned()),
        duration: Some(TIMING.lease),
        renewed: Some(now),
        transitions: 0,
        version: "1".to_owned(),
    };
    assert_eq!(read, want);
}

#[test]
fn every_change_of_a_lease_names_the_version_that_it_rests_on() {
    let record = record(Some("other"), 1);
    for patch in [
        lease::taken(&record, "me", TIMING, at(2)),
        lease::renewed("7", TIMING, at(2)),
        lease::released("7", at(2)),
    ] {
        assert_eq!(patch["metadata"]["resourceVersion"], json!("7"), "{patch}");
    }
    assert_eq!(lease::taken(&record, "me", TIMING, at(2))["spec"]["leaseTransitions"], json!(4));
    assert_eq!(lease::taken(&record, "other", TIMING, at(2))["spec"]["leaseTransitions"], json!(3));
    assert_eq!(lease::released("7", at(2))["spec"]["holderIdentity"], serde_json::Value::Null);
}

/// A writer that may write for `left`, with the switch that ends the term.
struct Fenced {
    api: FakeApi,
    maps: Api<ConfigMap>,
    writer: Writer,
    standing: watch::Sender<Standing>,
    leadership: Leadership,
}

async fn fenced(left: Duration) -> Fenced {
    let api = FakeApi::start().await;
    let maps = Api::namespaced(api.client(), "ns");
    let until = Some(Instant::now() + left);
    let over = CancellationToken::new();
    let (standing, stands) = watch::channel(Standing::Leading { until, over });
    let leadership = Leadership { standing: stands, terms: TaskTracker::new() };
    let mut registry = crate::telemetry::registry();
    let writer = Writer::new("test", WriteMetrics::register(&mut registry)).fenced(leadership.clone());
    Fenced { api, maps, writer, standing, leadership }
}

impl Fenced {
    async fn write(&self) -> Result<ConfigMap, WriteError> {
        self.writer.merge(&self.maps, "a", &json!({ "data": { "v": "1" } })).await
    }
}

#[tokio::test]
async fn a_leader_writes_and_a_standby_sends_nothing() {
    let mut fenced = fenced(Duration::from_mins(1)).await;
    fenced.api.reply(Reply::Json(200, json!({ "metadata": { "name": "a" } }))).await;
    fenced.write().await.expect("a leader may write");
    assert_eq!(fenced.api.next_request().await.method, "PATCH");
    fenced.standing.send_replace(Standing::Standby(Some("other".to_owned())));
    assert!(matches!(fenced.write().await, Err(WriteError::NotLeading)));
    assert!(fenced.api.asked.try_recv().is_err(), "a standby asked the API server");
    assert_eq!(fenced.leadership.standby().as_deref(), Some("standby, other leads"));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_waited_for_beyond_the_lease_even_if_the_api_server_is_slow() {
    let fenced = fenced(Duration::from_secs(3)).await;
    fenced.api.reply(Reply::Silence).await;
    let begun = Instant::now();
    assert!(matches!(fenced.write().await, Err(WriteError::NotLeading)));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(fenced.leadership.leads(), "a write does not end a term");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_beyond_its_lease_writes_nothing_before_its_elector_wakes() {
    let mut fenced = fenced(Duration::from_secs(3)).await;
    advance(Duration::from_secs(3)).await;
    assert!(matches!(&*fenced.standing.borrow(), Standing::Leading { .. }), "nobody ended the term");
    assert!(matches!(fenced.write().await, Err(WriteError::NotLeading)));
    assert!(fenced.api.asked.try_recv().is_err(), "the API server was asked");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_lease_left_no_time_for_is_tried_again() {
    let mut fenced = fenced(Duration::from_secs(3)).await;
    fenced.api.reply(Reply::Silence).await;
    let refused = fenced.write().await.expect_err("nobody answers");
    assert!(matches!(refused, WriteError::NotLeading), "{refused}");
    assert_eq!(refused.retry(), Retry::Backoff);
    assert_eq!(fenced.api.next_request().await.method, "PATCH");

    // The renewal was answered, the term goes on: nothing wakes a key that waits for no retry.
    let over = CancellationToken::new();
    let until = Some(Instant::now() + Duration::from_secs(3));
    fenced.standing.send_replace(Standing::Leading { until, over });
    fenced.api.reply(Reply::Json(200, json!({ "metadata": { "name": "a" } }))).await;
    fenced.write().await.expect("the lease is held again");
}

#[tokio::test]
async fn a_pass_that_runs_when_the_process_is_told_to_stop_may_finish_its_writes() {
    let fenced = fenced(Duration::from_mins(1)).await;
    let Standing::Leading { over, .. } = fenced.standing.borrow().clone() else { panic!("it leads") };
    over.cancel();
    fenced.api.reply(Reply::Json(200, json!({ "metadata": { "name": "a" } }))).await;
    fenced.write().await.expect("the lease is held until the pass has ended");
}

#[tokio::test]
async fn a_term_ends_with_the_loss_of_the_lease_and_another_begins_with_the_next_one() {
    let (standing, stands) = watch::channel(Standing::Standby(None));
    let leadership = Leadership { standing: stands, terms: TaskTracker::new() };
    let stop = CancellationToken::new();
    for _ in 0..2 {
        let over = stop.child_token();
        let lead = Standing::Leading { until: None, over: over.clone() };
        let (term, _) = tokio::join!(leadership.term(&stop), async { standing.send_replace(lead) });
        let term = term.expect("a term");
        assert!(!term.over().is_cancelled());
        over.cancel();
        standing.send_replace(Standing::Standby(None));
        assert!(term.over().is_cancelled());
    }
    stop.cancel();
    assert!(leadership.term(&stop).await.is_none());
}

#[tokio::test]
async fn alone_there_is_one_term_that_lasts_until_the_stop() {
    let mut registry = crate::telemetry::registry();
    let stop = CancellationToken::new();
    let leadership = Leadership::alone(&stop, &LeaderMetrics::register(&mut registry));
    let term = leadership.term(&stop).await.expect("a term");
    assert!(leadership.leads() && leadership.standby().is_none());
    stop.cancel();
    assert!(term.over().is_cancelled());
    assert!(leadership.term(&stop).await.is_none());
}
