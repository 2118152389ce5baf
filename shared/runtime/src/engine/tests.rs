use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{advance, sleep};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("wanted failure")]
struct Wanted(Retry);

impl Retryable for Wanted {
    fn retry(&self) -> Retry {
        self.0
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Answer(Requeue),
    Fail(Retry),
    Panic,
    /// Takes this long, then is done.
    Work(Duration),
}

/// A room that reports each start and then does what the script of the key says, once per pass.
struct Scripted {
    started: mpsc::Sender<(&'static str, Instant)>,
    script: Mutex<BTreeMap<&'static str, Vec<Act>>>,
    gate: Arc<Semaphore>,
    finished: Arc<AtomicUsize>,
}

impl Room for Scripted {
    const NAME: &'static str = "scripted";
    type Key = &'static str;
    type Error = Wanted;

    async fn reconcile(&self, key: &Self::Key) -> Result<Requeue, Wanted> {
        self.started.send((*key, Instant::now())).await.expect("the test listens");
        let permit = self.gate.acquire().await.expect("the gate stays open");
        permit.forget();
        let act = {
            let mut script = self.script.lock().expect("no test panics under this lock");
            let acts = script.entry(key).or_default();
            if acts.is_empty() { Act::Answer(Requeue::Done) } else { acts.remove(0) }
        };
        let answer = match act {
            Act::Answer(requeue) => Ok(requeue),
            Act::Fail(retry) => Err(Wanted(retry)),
            Act::Panic => panic!("wanted panic"),
            Act::Work(time) => {
                sleep(time).await;
                Ok(Requeue::Done)
            }
        };
        self.finished.fetch_add(1, Ordering::SeqCst);
        answer
    }
}

struct Bench {
    queue: KeyQueue<&'static str>,
    started: mpsc::Receiver<(&'static str, Instant)>,
    gate: Arc<Semaphore>,
    finished: Arc<AtomicUsize>,
    stop: CancellationToken,
    engine: tokio::task::JoinHandle<()>,
    registry: Registry,
}

/// Passes do not wait at the gate unless a test takes the permits away.
fn bench(
    pacing: Pacing,
    limits: Limits,
    script: impl IntoIterator<Item = (&'static str, Vec<Act>)>,
) -> Bench {
    let (sender, started) = mpsc::channel(1000);
    let gate = Arc::new(Semaphore::new(1000));
    let finished = Arc::new(AtomicUsize::new(0));
    let room = Scripted {
        started: sender,
        script: Mutex::new(script.into_iter().collect()),
        gate: gate.clone(),
        finished: finished.clone(),
    };
    let mut registry = crate::telemetry::registry();
    let metrics = EngineMetrics::register(&mut registry);
    let queue = KeyQueue::new(pacing);
    let stop = CancellationToken::new();
    let engine = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { run(room, queue, limits, &metrics, stop).await }
    });
    Bench { queue, started, gate, finished, stop, engine, registry }
}

impl Bench {
    async fn next(&mut self) -> (&'static str, Instant) {
        self.started.recv().await.expect("the engine runs")
    }

    /// Lets everything run that can run now; paused time does not move.
    async fn settle(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("metrics encode");
        text
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[tokio::test(start_paused = true)]
async fn the_first_event_runs_at_once() {
    let mut bench = bench(Pacing::default(), Limits::default(), []);
    let before = Instant::now();
    bench.queue.enqueue("a");
    assert_eq!(bench.next().await, ("a", before));
}

#[tokio::test(start_paused = true)]
async fn events_during_a_pass_make_exactly_one_more_pass() {
    let mut bench = bench(Pacing::default(), Limits::default(), []);
    bench.gate.forget_permits(1000);
    bench.queue.enqueue("a");
    bench.next().await;
    (0..100).for_each(|_| bench.queue.enqueue("a"));
    bench.settle().await;
    assert!(bench.started.try_recv().is_err(), "never two passes of a key at once");
    bench.gate.add_permits(10);
    bench.next().await;
    bench.settle().await;
    assert_eq!(bench.finished.load(Ordering::SeqCst), 2);
    assert!(bench.started.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn events_within_the_minimum_interval_merge_into_one_pass_at_its_end() {
    let pacing = Pacing { min_interval: Some(millis(100)), ..Pacing::default() };
    let mut bench = bench(pacing, Limits::default(), []);
    bench.queue.enqueue("a");
    let (_, first) = bench.next().await;
    bench.settle().await;
    for _ in 0..5 {
        advance(millis(10)).await;
        bench.queue.enqueue("a");
    }
    let (_, second) = bench.next().await;
    assert!((millis(100)..=millis(102)).contains(&(second - first)), "{:?}", second - first);
    sleep(millis(500)).await;
    assert!(bench.started.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn keys_run_in_parallel_only_up_to_the_limit() {
    let mut bench = bench(Pacing::default(), Limits { parallelism: 2, ..Limits::default() }, []);
    bench.gate.forget_permits(1000);
    bench.queue.enqueue_all(["a", "b", "c"]);
    assert_eq!([bench.next().await.0, bench.next().await.0], ["a", "b"]);
    bench.settle().await;
    assert!(bench.started.try_recv().is_err());
    assert!(bench.text().contains("causeway_reconcile_queue_depth{room=\"scripted\"} 1\n"));
    assert!(bench.text().contains("causeway_reconcile_unfinished 3\n"));
    bench.gate.add_permits(1);
    assert_eq!(bench.next().await.0, "c");
    assert!(bench.text().contains("causeway_reconcile_queue_depth{room=\"scripted\"} 0\n"));
    assert!(bench.text().contains("causeway_reconcile_unfinished 2\n"), "nothing waits, and passes run");
    bench.gate.add_permits(2);
    bench.settle().await;
    assert!(bench.text().contains("causeway_reconcile_unfinished 0\n"));
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_a_growing_delay_for_ever() {
    let fail = Act::Fail(Retry::Backoff);
    let mut bench = bench(Pacing::default(), Limits::default(), [("a", vec![fail; 20])]);
    bench.queue.enqueue("a");
    let mut starts = Vec::new();
    for _ in 0..21 {
        starts.push(bench.next().await.1);
    }
    let waits: Vec<Duration> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] >= millis(25) && waits[0] <= millis(52), "{:?}", waits[0]);
    assert!(waits[19] >= millis(15_000) && waits[19] <= millis(30_002), "{:?}", waits[19]);
    bench.settle().await;
    assert!(bench.text().contains("causeway_reconcile_retries_total{room=\"scripted\"} 20\n"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_waits_for_the_next_event() {
    let limits = Limits { resync: None, ..Limits::default() };
    let mut bench = bench(Pacing::default(), limits, [("a", vec![Act::Fail(Retry::Never)])]);
    bench.queue.enqueue("a");
    bench.next().await;
    sleep(Duration::from_hours(24)).await;
    assert!(bench.started.try_recv().is_err());
    bench.queue.enqueue("a");
    bench.next().await;
}

#[tokio::test(start_paused = true)]
async fn a_pass_and_an_error_can_name_the_time_of_the_next_look() {
    let acts = vec![Act::Answer(Requeue::After(millis(700))), Act::Fail(Retry::After(millis(900)))];
    let mut bench = bench(Pacing::default(), Limits::default(), [("a", acts)]);
    bench.queue.enqueue("a");
    let starts = [bench.next().await.1, bench.next().await.1, bench.next().await.1];
    assert!((700..=702).contains(&(starts[1] - starts[0]).as_millis()));
    assert!((900..=902).contains(&(starts[2] - starts[1]).as_millis()));
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_only_its_key_and_is_retried_and_counted() {
    let mut bench = bench(Pacing::default(), Limits::default(), [("bad", vec![Act::Panic])]);
    bench.queue.enqueue_all(["bad", "good"]);
    let order = [bench.next().await.0, bench.next().await.0, bench.next().await.0];
    assert_eq!(order, ["bad", "good", "bad"]);
    bench.settle().await;
    let text = bench.text();
    assert!(text.contains("causeway_reconcile_panics_total{room=\"scripted\"} 1\n"), "{text}");
    assert!(
        text.contains("causeway_reconcile_passes_total{room=\"scripted\",outcome=\"done\"} 2\n"),
        "{text}"
    );
    assert!(text.contains("causeway_reconcile_pass_duration_seconds_count{room=\"scripted\"} 3\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_slow_resync_looks_at_known_keys_but_not_at_gone_ones() {
    let limits = Limits { resync: Some(Duration::from_mins(1)), ..Limits::default() };
    let mut bench = bench(Pacing::default(), limits, [("gone", vec![Act::Answer(Requeue::Gone)])]);
    bench.queue.enqueue_all(["gone", "here"]);
    let (_, begun) = bench.next().await;
    bench.next().await;
    let (key, again) = bench.next().await;
    assert_eq!(key, "here");
    assert!((54..=67).contains(&(again - begun).as_secs()), "{:?}", again - begun);
    assert_eq!(bench.next().await.0, "here", "the resync goes on");
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_running_passes_finish_and_starts_no_new_ones() {
    let mut bench = bench(
        Pacing::default(),
        Limits { parallelism: 1, ..Limits::default() },
        [("a", vec![Act::Work(millis(800))])],
    );
    bench.queue.enqueue_all(["a", "b"]);
    bench.next().await;
    bench.stop.cancel();
    bench.engine.await.expect("the engine ends");
    assert_eq!(bench.finished.load(Ordering::SeqCst), 1);
    assert!(bench.started.recv().await.is_none(), "b never started");
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_pass_that_hangs() {
    let hang = Act::Work(Duration::from_hours(1));
    let mut bench = bench(Pacing::default(), Limits::default(), [("a", vec![hang])]);
    bench.queue.enqueue("a");
    bench.next().await;
    let before = Instant::now();
    bench.stop.cancel();
    bench.engine.await.expect("the engine ends");
    assert!((1500..=1502).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    assert_eq!(bench.finished.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_producers_on_many_threads_lose_nothing() {
    let limits = Limits { parallelism: 8, ..Limits::default() };
    let mut bench = bench(Pacing::default(), limits, []);
    let keys = ["a", "b", "c", "d", "e"];
    let producers: Vec<_> = (0..4)
        .map(|_| {
            let queue = bench.queue.clone();
            tokio::spawn(async move {
                for round in 0..40 {
                    queue.enqueue(keys[round % keys.len()]);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("producers do not fail");
    }
    bench.queue.enqueue("last");
    while bench.next().await.0 != "last" {}
}

#[tokio::test(start_paused = true)]
async fn a_second_engine_takes_up_the_passes_that_the_first_one_cut_off() {
    let queue = KeyQueue::new(Pacing::default());
    let mut registry = Registry::default();
    let metrics = EngineMetrics::register(&mut registry);
    let (started, mut starts) = mpsc::channel(10);
    for act in [Act::Work(Duration::from_hours(1)), Act::Answer(Requeue::Done)] {
        let room = Scripted {
            started: started.clone(),
            script: Mutex::new(BTreeMap::from([("a", vec![act])])),
            gate: Arc::new(Semaphore::new(9)),
            finished: Arc::default(),
        };
        let stop = CancellationToken::new();
        let engine = run(room, queue.clone(), Limits::default(), &metrics, stop.clone());
        if matches!(act, Act::Work(_)) {
            queue.enqueue("a");
        }
        let ((), start) = tokio::join!(engine, async {
            let start = starts.recv().await;
            stop.cancel();
            start
        });
        assert_eq!(start.map(|(key, _)| key), Some("a"), "{act:?}");
        let mut text = String::new();
        encode(&mut text, &registry).expect("metrics encode");
        let left = u8::from(matches!(act, Act::Work(_)));
        assert!(text.contains(&format!("reconcile_unfinished {left}\n")), "{act:?}: {text}");
    }
}
