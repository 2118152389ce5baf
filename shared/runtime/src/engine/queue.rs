//! The keyed queue: events merge, timers merge, one pass per key.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;

/// How often one key may run.
#[derive(Debug, Clone, Copy)]
pub struct Pacing {
    /// Shortest time from the start of one pass of a key to the start of the next that an *event* asks for.
    /// Events in between merge into one pass at its end. `None`: none.
    pub min_interval: Option<Duration>,
    /// Delays after failed passes.
    pub backoff: Backoff,
}

impl Default for Pacing {
    /// No minimum interval; 50 ms doubling up to 30 s after failures.
    fn default() -> Self {
        Self { min_interval: None, backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(30)) }
    }
}

/// Handle to the keys that want a pass. Cheap to clone; no call waits.
///
/// Memory is bounded by the number of distinct keys, never by the number of events.
#[derive(Debug)]
pub struct KeyQueue<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    pacing: Pacing,
}

#[derive(Debug)]
struct State<K> {
    entries: HashMap<K, Entry>,
    ready: VecDeque<K>,
    timers: BTreeSet<(Instant, K)>,
    running: usize,
    gauges: Gauges,
}

/// Where a queue says how much there is to do.
#[derive(Debug, Default)]
struct Gauges {
    /// Keys that wait for a free pass.
    depth: Gauge,
    /// Keys that wait for a pass or are in one, of this queue and of others.
    unfinished: Gauge,
    /// How many of those are this queue's.
    own: i64,
}

impl Gauges {
    fn set(&mut self, ready: usize, running: usize) {
        let number = |keys: usize| i64::try_from(keys).unwrap_or(i64::MAX);
        self.depth.set(number(ready));
        let own = number(ready.saturating_add(running));
        if own != self.own {
            self.unfinished.inc_by(own - self.own);
            self.own = own;
        }
    }
}

impl Drop for Gauges {
    /// What a queue that is gone had to do is nobody's any more.
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

/// What is known of one key. Invariants: `Ready` has no timer; the timer of an `Idle` key is in `State::timers`, that
/// of a `Running` one is not: it begins to count when the pass ends.
#[derive(Debug, Default)]
struct Entry {
    phase: Phase,
    timer: Option<Instant>,
    started: Option<Instant>,
    failures: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Ready,
    Running {
        again: bool,
    },
}

/// How a pass ended, as far as scheduling is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Success; wait for events.
    Done,
    /// Success; forget the key.
    Gone,
    /// Success; look again after this time.
    After(Duration),
    /// Failure; look again after the backoff.
    Failed,
    /// Failure that only an event can change.
    Refused,
    /// Failure whose cause named a time.
    Deferred(Duration),
}

impl<K> Clone for KeyQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash + Ord> Default for KeyQueue<K> {
    fn default() -> Self {
        Self::new(Pacing::default())
    }
}

impl<K: Clone + Eq + Hash + Ord> KeyQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(pacing: Pacing) -> Self {
        let state = State {
            entries: HashMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            running: 0,
            gauges: Gauges::default(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), pacing }))
    }

    /// Something that concerns `key` happened: a pass that starts after this call is certain to follow.
    pub fn enqueue(&self, key: K) {
        self.enqueue_at(key, Instant::now());
    }

    /// [`KeyQueue::enqueue`] for several keys under one lock.
    pub fn enqueue_all(&self, keys: impl IntoIterator<Item = K>) {
        let now = Instant::now();
        let mut state = self.lock();
        let mut changed = false;
        for key in keys {
            changed |= state.event(key, now, self.0.pacing.min_interval);
        }
        drop(state);
        self.tell(changed);
    }

    /// Looks at `key` again in `delay`, or with the first pass that starts before: one timer per key, the
    /// earliest wins, and the start of a pass cancels timers set before it (the pass sees the newest state and
    /// asks again with [`super::Requeue::After`] if it has to).
    pub fn enqueue_after(&self, key: K, delay: Duration) {
        self.enqueue_later(key, Instant::now() + delay);
    }

    pub(super) fn enqueue_at(&self, key: K, now: Instant) {
        let changed = self.lock().event(key, now, self.0.pacing.min_interval);
        self.tell(changed);
    }

    pub(super) fn enqueue_later(&self, key: K, due: Instant) {
        let changed = self.lock().remind(key, due);
        self.tell(changed);
    }

    /// Wakes the engine, if there is something to take or to wait for that was not there before.
    fn tell(&self, changed: bool) {
        if changed {
            self.0.changed.notify_one();
        }
    }

    /// Keys whose pass an earlier engine cut off become ready again.
    pub(super) fn resume(&self) {
        let mut state = self.lock();
        let cut: Vec<K> = state
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.phase, Phase::Running { .. }))
            .map(|(key, _)| key.clone())
            .collect();
        for key in cut {
            state.running = state.running.saturating_sub(1);
            state.make_ready(key);
        }
    }

    /// Every key not yet forgotten gets an event.
    pub(super) fn enqueue_known(&self) {
        let keys: Vec<K> = self.lock().entries.keys().cloned().collect();
        self.enqueue_all(keys);
    }

    /// Waits until the queue may have changed since the last wait.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// When the next timer fires.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lock().timers.first().map(|(due, _)| *due)
    }

    /// The next key to run; its pass has begun when this returns.
    pub(super) fn take(&self, now: Instant) -> Option<K> {
        self.lock().take(now)
    }

    /// Ends the pass of `key`; returns its failures in a row. `roll` is the jitter of [`Backoff::delay`]. The engine hears
    /// of it by the end of the pass's task.
    pub(super) fn finish(&self, key: &K, verdict: Verdict, now: Instant, roll: f64) -> u32 {
        self.lock().finish(key, verdict, now, &self.0.pacing, roll)
    }

    /// Keeps `depth` at the number of keys that wait for a free pass, and counts those and the ones that are in a pass into
    /// `unfinished`, which other queues count into as well.
    pub(super) fn report(&self, depth: Gauge, unfinished: Gauge) {
        let mut state = self.lock();
        // The new one counts before the old one stops, as both may be the same.
        let mut gauges = Gauges { depth, unfinished, own: 0 };
        gauges.set(state.ready.len(), state.running);
        state.gauges = gauges;
        state.measure();
    }

    /// A panic under this lock is impossible short of a failed allocation; the state stays usable anyway.
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    /// Whether a key became ready, or a timer was set. A key that waits or runs already is no news to the engine.
    fn event(&mut self, key: K, now: Instant, min_interval: Option<Duration>) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        match &mut entry.phase {
            Phase::Ready => false,
            Phase::Running { again } => {
                *again = true;
                false
            }
            Phase::Idle => match entry.started.zip(min_interval).map(|(at, gap)| at + gap) {
                Some(earliest) if earliest > now => self.remind(key, earliest),
                _ => {
                    self.make_ready(key);
                    true
                }
            },
        }
    }

    /// Sets the timer of `key` to `due` unless an earlier one, or a pass that is about to start, makes it moot. Whether it did
    /// and the key does not run: the timer of one that runs begins to count at its end.
    fn remind(&mut self, key: K, due: Instant) -> bool {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.phase == Phase::Ready || entry.timer.is_some_and(|timer| timer <= due) {
            return false;
        }
        let waits = entry.phase == Phase::Idle;
        let replaced = entry.timer.replace(due);
        if waits {
            if let Some(later) = replaced {
                self.timers.remove(&(later, key.clone()));
            }
            self.timers.insert((due, key));
        }
        waits
    }

    fn make_ready(&mut self, key: K) {
        let entry = self.entries.entry(key.clone()).or_default();
        entry.phase = Phase::Ready;
        if let Some(timer) = entry.timer.take() {
            self.timers.remove(&(timer, key.clone()));
        }
        self.ready.push_back(key);
        self.measure();
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        while self.timers.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, key)) = self.timers.pop_first() else { break };
            self.entries.entry(key.clone()).or_default().timer = None;
            self.make_ready(key);
        }
        let key = self.ready.pop_front()?;
        self.running += 1;
        self.measure();
        let entry = self.entries.entry(key.clone()).or_default();
        entry.phase = Phase::Running { again: false };
        entry.started = Some(now);
        Some(key)
    }

    fn finish(&mut self, key: &K, verdict: Verdict, now: Instant, pacing: &Pacing, roll: f64) -> u32 {
        let Some(entry) = self.entries.get_mut(key) else { return 0 };
        let again = entry.phase == Phase::Running { again: true };
        entry.phase = Phase::Idle;
        entry.failures = match verdict {
            Verdict::Done | Verdict::Gone | Verdict::After(_) | Verdict::Refused => 0,
            Verdict::Failed => entry.failures.saturating_add(1),
            Verdict::Deferred(_) => entry.failures,
        };
        let failures = entry.failures;
        let wish = match verdict {
            Verdict::Done | Verdict::Gone | Verdict::Refused => None,
            Verdict::After(delay) | Verdict::Deferred(delay) => Some(delay),
            Verdict::Failed => Some(pacing.backoff.delay(failures, roll)),
        };
        let reminder = entry.timer.take();
        for due in reminder.into_iter().chain(wish.map(|delay| now + delay)) {
            self.remind(key.clone(), due);
        }
        if again {
            self.event(key.clone(), now, pacing.min_interval);
        } else if verdict == Verdict::Gone && self.entries.get(key).is_some_and(|entry| entry.timer.is_none())
        {
            self.entries.remove(key);
        }
        // Last: a key that is to run again is at no time one that has nothing to do.
        self.running = self.running.saturating_sub(1);
        self.measure();
        failures
    }

    fn measure(&mut self) {
        self.gauges.set(self.ready.len(), self.running);
    }
}

#[cfg(test)]
mod tests;
