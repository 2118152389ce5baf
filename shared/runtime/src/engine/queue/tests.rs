use std::collections::BTreeMap;

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

const GAP: Duration = Duration::from_millis(10);

#[derive(Debug, Clone)]
enum Op {
    Event(u8),
    Remind(u8, u64),
    Take,
    /// Ends the n-th running pass.
    Finish(usize, Verdict),
    Advance(u64),
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        4 => Just(Verdict::Done),
        2 => Just(Verdict::Failed),
        1 => Just(Verdict::Gone),
        1 => Just(Verdict::Refused),
        1 => (0..40_u64).prop_map(|ms| Verdict::After(Duration::from_millis(ms))),
        1 => (0..40_u64).prop_map(|ms| Verdict::Deferred(Duration::from_millis(ms))),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4_u8).prop_map(Op::Event),
        1 => (0..4_u8, 0..40_u64).prop_map(|(key, ms)| Op::Remind(key, ms)),
        4 => Just(Op::Take),
        4 => (0..4_usize, verdict()).prop_map(|(n, verdict)| Op::Finish(n, verdict)),
        2 => (0..30_u64).prop_map(Op::Advance),
    ]
}

/// What an onlooker knows of one key, kept without any queue or timer structure.
#[derive(Debug, Default)]
struct Ledger {
    running: bool,
    /// Something asked for a pass since the last one started.
    owed: bool,
    /// When a timer, a retry or a merged event could have been due at the earliest; several may stand.
    reasons: Vec<Instant>,
    started: Option<Instant>,
}

struct Onlooker {
    queue: KeyQueue<u8>,
    keys: BTreeMap<u8, Ledger>,
    now: Instant,
}

impl Onlooker {
    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            Op::Event(key) => {
                self.queue.enqueue_at(*key, self.now);
                let now = self.now;
                let ledger = self.keys.entry(*key).or_default();
                ledger.owed = true;
                ledger.reasons.push(ledger.started.map_or(now, |at| now.max(at + GAP)));
            }
            Op::Remind(key, ms) => {
                let due = self.now + Duration::from_millis(*ms);
                self.queue.enqueue_later(*key, due);
                let ledger = self.keys.entry(*key).or_default();
                ledger.owed = true;
                ledger.reasons.push(due);
            }
            Op::Take => {
                self.take()?;
            }
            Op::Finish(n, verdict) => {
                let running: Vec<u8> =
                    self.keys.iter().filter(|(_, l)| l.running).map(|(key, _)| *key).collect();
                if let Some(key) = running.get(*n) {
                    self.finish(*key, *verdict);
                }
            }
            Op::Advance(ms) => self.now += Duration::from_millis(*ms),
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<u8>, TestCaseError> {
        let Some(key) = self.queue.take(self.now) else {
            let due = |l: &Ledger| !l.running && l.reasons.iter().any(|at| *at <= self.now);
            let missed: Vec<&u8> = self.keys.iter().filter(|(_, l)| due(l)).map(|(key, _)| key).collect();
            prop_assert!(missed.is_empty(), "due but not offered: {missed:?}");
            return Ok(None);
        };
        let now = self.now;
        let ledger = self.keys.entry(key).or_default();
        prop_assert!(!ledger.running, "two passes of {key} at once");
        prop_assert!(ledger.reasons.iter().any(|at| *at <= now), "{key} ran without a reason or too early");
        *ledger = Ledger { running: true, started: Some(now), ..Ledger::default() };
        Ok(Some(key))
    }

    /// How many keys are in a pass.
    fn running(&self) -> i64 {
        self.keys.values().filter(|ledger| ledger.running).map(|_| 1).sum()
    }

    /// How many keys wait for a pass and for nothing else.
    fn ready(&self) -> i64 {
        self.queue.lock().entries.values().filter(|entry| entry.phase == Phase::Ready).map(|_| 1).sum()
    }

    fn finish(&mut self, key: u8, verdict: Verdict) {
        let failures = self.queue.finish(&key, verdict, self.now, 0.5);
        let ledger = self.keys.entry(key).or_default();
        ledger.running = false;
        let wish = match verdict {
            Verdict::Done | Verdict::Refused => None,
            Verdict::Gone => {
                // A forgotten key has no last start; a key that is still owed something is not forgotten.
                if ledger.reasons.is_empty() {
                    ledger.started = None;
                }
                None
            }
            Verdict::After(delay) | Verdict::Deferred(delay) => Some(delay),
            Verdict::Failed => Some(Pacing::default().backoff.delay(failures, 0.5)),
        };
        if let Some(delay) = wish {
            ledger.owed = true;
            ledger.reasons.push(self.now + delay);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// No key is lost, no key runs twice at once, early or for nothing, and an event during a pass leads to
    /// another pass.
    #[test]
    fn the_queue_keeps_its_promises_under_any_sequence(ops in prop::collection::vec(op(), 0..120)) {
        let queue = KeyQueue::new(Pacing { min_interval: Some(GAP), ..Pacing::default() });
        let (depth, unfinished) = (Gauge::default(), Gauge::default());
        queue.report(depth.clone(), unfinished.clone());
        let mut onlooker = Onlooker { queue, keys: BTreeMap::new(), now: Instant::now() };
        for op in &ops {
            onlooker.step(op)?;
            prop_assert_eq!((depth.get(), depth.get() + onlooker.running()), (onlooker.ready(), unfinished.get()));
        }
        // Everything owed is delivered once time passes and passes succeed ...
        for _ in 0..3 {
            let running: Vec<u8> = onlooker.keys.iter().filter(|(_, l)| l.running).map(|(k, _)| *k).collect();
            for key in running {
                onlooker.finish(key, Verdict::Done);
            }
            onlooker.now += Duration::from_hours(1);
            while onlooker.take()?.is_some() {}
        }
        prop_assert!(onlooker.keys.values().all(|ledger| !ledger.owed), "a key was lost");
        // ... and then nothing is left.
        prop_assert!(onlooker.queue.next_due().is_none());
        prop_assert!(onlooker.queue.take(onlooker.now).is_none());
        prop_assert_eq!((depth.get(), unfinished.get()), (0, 0));
    }
}

#[test]
fn a_thousand_events_of_one_key_are_one_pass() {
    let queue = KeyQueue::default();
    let now = Instant::now();
    (0..1000).for_each(|_| queue.enqueue_at("a", now));
    assert_eq!(queue.take(now), Some("a"));
    assert_eq!(queue.take(now), None);
    queue.finish(&"a", Verdict::Done, now, 0.0);
    assert_eq!(queue.take(now), None);
}

#[test]
fn queues_count_what_they_have_to_do_into_one_number_until_they_are_gone() {
    let (unfinished, later) = (Gauge::default(), Gauge::default());
    let [one, two] = [KeyQueue::default(), KeyQueue::default()];
    let now = Instant::now();
    one.enqueue_at("a", now);
    one.report(Gauge::default(), unfinished.clone());
    two.report(Gauge::default(), unfinished.clone());
    assert_eq!(unfinished.get(), 1, "what was there before counts");
    assert_eq!(one.take(now), Some("a"));
    two.enqueue_at("b", now);
    two.enqueue_later("c", now + GAP);
    assert_eq!(unfinished.get(), 2, "a timer alone is nothing to do");
    one.finish(&"a", Verdict::Done, now, 0.0);
    assert_eq!(unfinished.get(), 1);
    two.report(Gauge::default(), later.clone());
    assert_eq!((unfinished.get(), later.get()), (0, 1), "another engine counts elsewhere");
    drop(two);
    assert_eq!(later.get(), 0);
}

#[test]
fn the_engine_is_woken_only_for_what_it_has_not_seen() {
    let queue = KeyQueue::default();
    let now = Instant::now();
    let is_woken = || queue.changed().now_or_never().is_some();
    queue.enqueue_all([]);
    assert!(!is_woken(), "nothing happened");
    queue.enqueue_at("a", now);
    assert!(is_woken());
    queue.enqueue_at("a", now);
    assert!(!is_woken(), "it is ready already");
    assert_eq!(queue.take(now), Some("a"));
    queue.enqueue_all(["a"]);
    queue.enqueue_later("a", now + GAP);
    assert!(!is_woken(), "it runs, and its end is heard of");
    queue.finish(&"a", Verdict::Done, now, 0.0);
    assert_eq!(queue.take(now), Some("a"));
    queue.finish(&"a", Verdict::Done, now, 0.0);
    queue.enqueue_later("a", now + 2 * GAP);
    assert!(is_woken(), "there is a time to wait for");
    queue.enqueue_later("a", now + 3 * GAP);
    assert!(!is_woken(), "an earlier time stands");
    queue.enqueue_later("a", now + GAP);
    assert!(is_woken());
}

#[test]
fn keys_run_in_the_order_of_their_first_event() {
    let queue = KeyQueue::default();
    let now = Instant::now();
    for key in ["b", "a", "b", "c"] {
        queue.enqueue_at(key, now);
    }
    let order: Vec<&str> = std::iter::from_fn(|| queue.take(now)).collect();
    assert_eq!(order, ["b", "a", "c"]);
}

#[test]
fn the_backoff_doubles_and_success_resets_it() {
    let queue = KeyQueue::default();
    let mut now = Instant::now();
    let mut waits = Vec::new();
    queue.enqueue_at("a", now);
    for verdict in [Verdict::Failed, Verdict::Failed, Verdict::Failed, Verdict::Done, Verdict::Failed] {
        assert_eq!(queue.take(now), Some("a"));
        queue.finish(&"a", verdict, now, 1.0);
        match queue.next_due() {
            Some(due) => {
                waits.push((due - now).as_millis());
                now = due;
            }
            None => queue.enqueue_at("a", now),
        }
    }
    assert_eq!(waits, [50, 100, 200, 50]);
}

#[test]
fn an_event_during_the_backoff_runs_the_key_at_once() {
    let queue = KeyQueue::default();
    let now = Instant::now();
    queue.enqueue_at("a", now);
    assert_eq!(queue.take(now), Some("a"));
    queue.finish(&"a", Verdict::Failed, now, 1.0);
    assert_eq!(queue.take(now), None);
    queue.enqueue_at("a", now);
    assert_eq!(queue.take(now), Some("a"));
    assert_eq!(queue.next_due(), None, "the retry is no longer needed");
}

#[test]
fn a_key_that_is_gone_is_forgotten_unless_it_is_asked_for() {
    let queue = KeyQueue::default();
    let now = Instant::now();
    queue.enqueue_all(["gone", "back"]);
    assert_eq!(queue.take(now), Some("gone"));
    assert_eq!(queue.take(now), Some("back"));
    queue.enqueue_at("back", now);
    queue.finish(&"gone", Verdict::Gone, now, 0.0);
    queue.finish(&"back", Verdict::Gone, now, 0.0);
    let known: Vec<&str> = queue.lock().entries.keys().copied().collect();
    assert_eq!(known, ["back"]);
    assert_eq!(queue.take(now), Some("back"));
}
