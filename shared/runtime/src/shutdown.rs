//! Supervised tasks and orderly stopping.
//!
//! One token says *stop*; every task of a process is spawned here and listens to it. A task that ends, fails or
//! panics before that is the end of the process: half a program is worse than a restart. How many tasks there are, also those
//! that nobody supervises, is a metric: what comes and goes must leave none.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info};

use crate::engine::panic_text;
use crate::telemetry::chain;

/// Why a process did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum TaskFailure {
    /// A task ended although nothing told it to.
    #[error("task {0} ended unexpectedly")]
    Ended(&'static str),
    /// A task failed.
    #[error("task {name} failed")]
    Failed {
        /// Which.
        name: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A task panicked.
    #[error("task {name} panicked: {text}")]
    Panicked {
        /// Which.
        name: &'static str,
        /// The panic's text.
        text: String,
    },
    /// Tasks did not stop in time.
    #[error("still running {after:?} after being told to stop: {}", names.join(", "))]
    Unfinished {
        /// How long was waited.
        after: Duration,
        /// Which.
        names: Vec<&'static str>,
    },
}

/// The tasks of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
    book: Arc<Mutex<Book>>,
}

#[derive(Debug, Default)]
struct Book {
    running: Vec<&'static str>,
    /// The first failure; later ones are usually its consequences.
    failure: Option<TaskFailure>,
}

impl Tasks {
    /// No tasks yet; a failing one will cancel `stop`.
    #[must_use]
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, tracker: TaskTracker::new(), book: Arc::default() }
    }

    /// The token that stops everything.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs `task` until [`Tasks::stop`] is cancelled, which it has to watch itself.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_fallible(name, task.map(Ok::<(), std::convert::Infallible>));
    }

    /// [`Tasks::spawn`] for a task that can fail.
    pub fn spawn_fallible<E>(
        &self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        self.book().running.push(name);
        let tasks = self.clone();
        self.tracker.spawn(async move {
            let result = AssertUnwindSafe(task).catch_unwind().await;
            let failure = match result {
                Ok(Ok(())) if tasks.stop.is_cancelled() => None,
                Ok(Ok(())) => Some(TaskFailure::Ended(name)),
                Ok(Err(error)) => Some(TaskFailure::Failed { name, source: error.into() }),
                Err(payload) => {
                    Some(TaskFailure::Panicked { name, text: panic_text(payload.as_ref()).to_owned() })
                }
            };
            tasks.ended(name, failure);
        });
    }

    /// Waits for [`Tasks::stop`], then for all tasks, at most `deadline`.
    pub async fn finish(self, deadline: Duration) -> Result<(), TaskFailure> {
        self.stop.cancelled().await;
        self.tracker.close();
        let ended = timeout(deadline, self.tracker.wait()).await;
        let mut book = self.book();
        match book.failure.take() {
            Some(failure) => Err(failure),
            None if ended.is_err() => {
                Err(TaskFailure::Unfinished { after: deadline, names: book.running.clone() })
            }
            None => Ok(()),
        }
    }

    fn ended(&self, name: &'static str, failure: Option<TaskFailure>) {
        let mut book = self.book();
        if let Some(at) = book.running.iter().position(|running| *running == name) {
            book.running.swap_remove(at);
        }
        if let Some(failure) = failure {
            error!(error = %chain(&failure), "Task lost");
            book.failure.get_or_insert(failure);
            self.stop.cancel();
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts at each scrape.
#[derive(Debug)]
struct Alive(RuntimeMetrics);

impl Collector for Alive {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(i64::try_from(self.0.num_alive_tasks()).unwrap_or(i64::MAX));
        let help = "Tasks of the process, one for each open connection among them";
        gauge.encode(encoder.encode_descriptor("tasks", help, None, gauge.metric_type())?)
    }
}

/// Adds the number of tasks to `registry`. Needs a tokio runtime, whose tasks are counted.
pub fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(Alive(Handle::current().metrics())));
}

/// Cancels `stop` at the first SIGTERM or SIGINT. Needs a tokio runtime.
pub fn stop_on_signals(stop: CancellationToken) -> io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = term.recv() => "SIGTERM",
            _ = int.recv() => "SIGINT",
            () = stop.cancelled() => return,
        };
        info!(signal = name, "Stopping");
        stop.cancel();
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use tokio::time::{Instant, sleep};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(2);

    fn until_stopped(tasks: &Tasks) -> impl Future<Output = ()> + Send + 'static {
        tasks.stop().cancelled_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_clean_stop_waits_for_every_task() {
        let tasks = Tasks::new(CancellationToken::new());
        let stopped = until_stopped(&tasks);
        tasks.spawn("slow", async {
            stopped.await;
            sleep(Duration::from_secs(1)).await;
        });
        let begun = Instant::now();
        tasks.stop().cancel();
        tasks.finish(DEADLINE).await.expect("a clean stop");
        assert!(begun.elapsed() >= Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_early_fails_or_panics_stops_the_others_and_is_named() {
        type Case = (fn(&Tasks), &'static str);
        let cases: [Case; 3] = [
            (|tasks| tasks.spawn("short", async {}), "task short ended unexpectedly"),
            (
                |tasks| tasks.spawn_fallible("broken", async { Err(io::Error::other("no more")) }),
                "task broken failed: no more",
            ),
            (|tasks| tasks.spawn("wild", async { panic!("ouch {}", 1) }), "task wild panicked: ouch 1"),
        ];
        for (spawn, want) in cases {
            let tasks = Tasks::new(CancellationToken::new());
            tasks.spawn("steady", until_stopped(&tasks));
            spawn(&tasks);
            let failure = tasks.finish(DEADLINE).await.expect_err("a task was lost");
            assert_eq!(chain(&failure).to_string(), want);
        }
    }

    #[tokio::test]
    async fn each_task_is_counted_until_it_ends_whoever_started_it() {
        let mut registry = crate::telemetry::registry();
        register(&mut registry);
        let counts = |count: usize| {
            let mut text = String::new();
            encode(&mut text, &registry).expect("a String takes any text");
            assert!(text.contains(&format!("\ncauseway_tasks {count}\n")), "not {count}: {text}");
        };
        counts(0);
        let tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("steady", until_stopped(&tasks));
        let stray = tokio::spawn(std::future::pending::<()>());
        counts(2);
        tasks.stop().cancel();
        tasks.finish(DEADLINE).await.expect("a clean stop");
        counts(1);
        stray.abort();
        stray.await.expect_err("it was aborted");
        counts(0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_left_behind_by_name() {
        let tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("steady", until_stopped(&tasks));
        tasks.spawn("stubborn", std::future::pending());
        tasks.stop().cancel();
        let failure = tasks.finish(DEADLINE).await.expect_err("one task hangs");
        assert_eq!(failure.to_string(), "still running 2s after being told to stop: stubborn");
    }
}
