//! The only reconcile loop: every controller ("room") of Causeway plugs into it.
//!
//! In: keys, through a [`KeyQueue`]; a key says *look again*, it carries no data. Out: calls of
//! [`Room::reconcile`], which plans from the newest snapshots and applies the difference.
//!
//! * At most one pass per key at a time; any number of keys in parallel up to [`Limits::parallelism`].
//! * The first event of a key runs at once. Further ones merge while a pass runs (exactly one more pass follows)
//!   or within [`Pacing::min_interval`].
//! * A failed pass is retried for ever, with a backoff per key that success resets. An event during the backoff
//!   runs the key at once.
//! * A panic costs only the key it happened on: it is caught, counted, logged and retried like an error.
//! * After shutdown begins no pass starts; running ones may finish within [`Limits::drain`].
//!
//! Never does: decide anything about the domain, hold a lock while a room runs, or grow with the number of events.

mod metrics;
mod queue;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, debug, error, info_span, warn};

pub use self::metrics::EngineMetrics;
pub use self::queue::{KeyQueue, Pacing};

use self::metrics::{Outcome, RoomMeters};
use self::queue::Verdict;
use crate::backoff::jittered;
use crate::telemetry::chain;

/// A controller: one concern, reconciled key by key.
pub trait Room: Send + Sync + 'static {
    /// Short fixed name; the `room` field of logs and the `room` label of metrics.
    const NAME: &'static str;
    /// What is looked at again: usually the name of an object.
    type Key: Clone + Eq + Hash + Ord + Display + Send + Sync + 'static;
    /// Why a pass failed; its [`Retry`] class decides what happens next.
    type Error: std::error::Error + Retryable + Send + 'static;

    /// One pass: observe, plan, apply. An object that is gone is a normal outcome ([`Requeue::Gone`]).
    ///
    /// # Cancellation
    /// Dropped half-way only when shutdown outlasts [`Limits::drain`]; the next start must be able to repair that.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;
}

/// What a successful pass wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Nothing until the next event.
    Done,
    /// Another pass after this time, unless an event comes first.
    After(Duration),
    /// Nothing, and the key's object no longer exists: the engine forgets the key, so that the slow resync and
    /// the queue's memory do not keep it.
    Gone,
}

/// What a failed pass wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Again, after the key's backoff.
    Backoff,
    /// Not by itself: somebody has to change something, and that is an event.
    Never,
    /// Again after this time; the backoff does not grow (the other side said how long to wait).
    After(Duration),
}

/// An error that knows its [`Retry`] class.
pub trait Retryable {
    /// What should happen after this error.
    fn retry(&self) -> Retry;
}

impl Retryable for std::convert::Infallible {
    fn retry(&self) -> Retry {
        match *self {}
    }
}

/// Bounds of one engine.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Passes that may run at the same time, for different keys; at least one runs.
    pub parallelism: usize,
    /// Period of the safety net that looks at every known key again (jittered by a tenth); `None` for never.
    pub resync: Option<Duration>,
    /// How long running passes may take to finish once shutdown has begun.
    pub drain: Duration,
}

impl Default for Limits {
    /// Four passes, a resync every ten minutes, 1.5 s to drain (of the 2 s a whole process has).
    fn default() -> Self {
        Self { parallelism: 4, resync: Some(Duration::from_mins(10)), drain: Duration::from_millis(1500) }
    }
}

/// Runs `room` on the keys of `queue` until `stop` is cancelled and running passes have ended or
/// [`Limits::drain`] is over. A queue has one engine at a time: a second one on the same queue would steal its
/// wake-ups. One that follows takes up the keys whose passes the one before cut off.
///
/// # Cancellation
/// Cuts off the passes that run.
pub async fn run<R: Room>(
    room: R,
    queue: KeyQueue<R::Key>,
    limits: Limits,
    metrics: &EngineMetrics,
    stop: CancellationToken,
) {
    let meters = metrics.room(R::NAME);
    queue.report(meters.depth.clone(), meters.unfinished.clone());
    queue.resume();
    // A task of its own: one that runs several engines would ask all of them whenever one has something to do.
    let engine = AbortOnDropHandle::new(tokio::spawn(turn(Arc::new(room), queue, limits, meters, stop)));
    match engine.await {
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // Else the runtime is going down.
        Ok(()) | Err(_) => {}
    }
}

/// Starts passes until `stop` is cancelled, and waits for the last ones.
async fn turn<R: Room>(
    room: Arc<R>,
    queue: KeyQueue<R::Key>,
    limits: Limits,
    meters: RoomMeters,
    stop: CancellationToken,
) {
    let parallelism = limits.parallelism.max(1);
    let mut passes = JoinSet::new();
    let next_resync = || limits.resync.map(|period| Instant::now() + jittered(period));
    let (mut stopped, mut resync) = (pin!(stop.cancelled()), pin!(at(next_resync())));
    while !stop.is_cancelled() {
        while passes.len() < parallelism {
            let Some(key) = queue.take(Instant::now()) else { break };
            passes.spawn(pass(Arc::clone(&room), queue.clone(), key, meters.clone()));
        }
        let free = passes.len() < parallelism;
        tokio::select! {
            biased; // stopping wins over more work
            () = stopped.as_mut() => {}
            Some(ended) = passes.join_next() => if let Err(error) = ended {
                error!(room = R::NAME, error = %error, "Pass ended outside its guard");
            },
            () = queue.changed(), if free => {}
            () = at(queue.next_due()), if free => {}
            () = resync.as_mut() => {
                debug!(room = R::NAME, "Slow resync");
                queue.enqueue_known();
                resync.set(at(next_resync()));
            }
        }
    }
    let drained = timeout(limits.drain, async { while passes.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        warn!(room = R::NAME, unfinished = passes.len(), "Passes cut off by shutdown");
        passes.abort_all();
    }
}

/// Ends at `instant`; never, if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// One pass of one key, with everything that must happen around it.
async fn pass<R: Room>(room: Arc<R>, queue: KeyQueue<R::Key>, key: R::Key, meters: RoomMeters) {
    let span = info_span!("pass", room = R::NAME, key = %key);
    let begun = Instant::now();
    // On the heap at once: what it takes to write to the API server is large, and a task's future is copied several times
    // before and after it runs.
    let guarded = AssertUnwindSafe(Box::pin(async { room.reconcile(&key).await })).catch_unwind();
    let result = guarded.instrument(span.clone()).await;
    let (outcome, verdict) = judge(&result);
    meters.record(outcome, begun.elapsed());
    let failures = queue.finish(&key, verdict, Instant::now(), fastrand::f64());
    if verdict == Verdict::Failed {
        meters.retries.inc();
    }
    span.in_scope(|| report(&result, failures, &meters));
}

/// The result of a pass: what the room said, or what it panicked with.
type Guarded<E> = Result<Result<Requeue, E>, Box<dyn Any + Send>>;

fn judge<E: Retryable>(result: &Guarded<E>) -> (Outcome, Verdict) {
    match result {
        Ok(Ok(Requeue::Done)) => (Outcome::Done, Verdict::Done),
        Ok(Ok(Requeue::Gone)) => (Outcome::Done, Verdict::Gone),
        Ok(Ok(Requeue::After(delay))) => (Outcome::Requeued, Verdict::After(*delay)),
        Ok(Err(error)) => match error.retry() {
            Retry::Backoff => (Outcome::Failed, Verdict::Failed),
            Retry::After(delay) => (Outcome::Deferred, Verdict::Deferred(delay)),
            Retry::Never => (Outcome::Refused, Verdict::Refused),
        },
        Err(_panic) => (Outcome::Panicked, Verdict::Failed),
    }
}

/// Logs what went wrong. Repeats of one key get rarer: the 1st, 2nd, 4th, 8th, ... failure in a row is a warning.
fn report<E: std::error::Error + Retryable>(result: &Guarded<E>, failures: u32, meters: &RoomMeters) {
    match result {
        Ok(Ok(_requeue)) => {}
        Ok(Err(error)) => match error.retry() {
            Retry::Backoff if failures.is_power_of_two() => {
                warn!(error = %chain(error), failures, "Pass failed; it is retried");
            }
            Retry::Backoff => debug!(error = %chain(error), failures, "Pass failed; it is retried"),
            Retry::After(delay) => warn!(error = %chain(error), after = ?delay, "Pass deferred"),
            Retry::Never => warn!(error = %chain(error), "Pass refused; the next event looks again"),
        },
        Err(payload) => {
            meters.panics.inc();
            error!(panic = panic_text(payload.as_ref()), failures, "Pass panicked; the key is retried");
        }
    }
}

/// The text of a panic, if it carried one.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
