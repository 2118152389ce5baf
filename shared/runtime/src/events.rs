//! Kubernetes Events: what happened to an object, for the people who `kubectl describe` it.
//!
//! In: [`Happening`]s, through a [`Recorder`] that never waits. Out: Event objects of `events.k8s.io/v1`, written by one
//! task, [`Publisher`]. Repeats of one happening become one Event with a count; an object that gives rise to many different
//! ones is limited (as client-go's spam filter does, per object). What is not written is counted, and nothing else depends
//! on it: no pass waits for an Event or fails with it.
//!
//! Never does: decide what is worth telling, keep what could not be written.

mod series;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Client};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::series::{Ledger, Todo};
use crate::telemetry::chain;
use crate::writer::{WriteError, WriteMetrics, Writer};

/// Happenings that wait for the publisher; more are dropped.
const QUEUE: usize = 256;

/// How long writing one Event may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long a publisher goes on after it was told to stop, for the last words of everybody else who stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// Longest note in bytes. Source: the validation of `events.k8s.io/v1` Event.
const MAX_NOTE: usize = 1024;

/// How much of an object's name goes into the name of its Events, which has 253 characters at most.
const MAX_NAME: usize = 200;

/// Namespace of Events about objects that have none. Source: the validation of `events.k8s.io/v1` Event.
const CLUSTER_NAMESPACE: &str = "default";

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Happening {
    /// The object, with its uid: `kubectl describe` looks for it.
    pub regarding: ObjectReference,
    /// Another object that has to do with it.
    pub related: Option<ObjectReference>,
    /// How it is meant.
    pub severity: Severity,
    /// Why, in CamelCase.
    pub reason: String,
    /// What was being done, in CamelCase.
    pub action: &'static str,
    /// A sentence for people; cut at 1,024 bytes.
    pub note: String,
}

/// How an Event is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Things go their way.
    Normal,
    /// Somebody may have to look.
    Warning,
}

/// What becomes of happenings, counted.
#[derive(Debug, Clone)]
pub struct EventMetrics {
    outcomes: Family<[(&'static str, &'static str); 1], Counter>,
    writes: WriteMetrics,
}

/// Takes happenings. Cheap to clone; no call waits.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Happening>,
    metrics: EventMetrics,
}

/// Writes Events, in a task of its own.
pub struct Publisher {
    queue: mpsc::Receiver<Happening>,
    client: Client,
    writer: Writer,
    reporter: Reporter,
    metrics: EventMetrics,
    ledger: Ledger,
}

/// Who tells.
#[derive(Debug, Clone)]
pub struct Reporter {
    /// The program, for example `causeway-cluster-manager`.
    pub program: &'static str,
    /// Which of its processes: the identity of the replica, or the node.
    pub instance: String,
}

impl EventMetrics {
    /// Adds the numbers of Events to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            outcomes: Family::default(),
            writes: WriteMetrics::register_as("event_writes", "Requests that write Events", registry),
        };
        registry.register(
            "events",
            "What became of Events: written, repeated (counted in one that exists), limited, dropped or failed",
            metrics.outcomes.clone(),
        );
        metrics
    }

    fn count(&self, outcome: &'static str) {
        self.outcomes.get_or_create(&[("outcome", outcome)]).inc();
    }
}

impl Recorder {
    /// A recorder, and where its happenings come out.
    #[must_use]
    pub fn new(metrics: EventMetrics) -> (Self, mpsc::Receiver<Happening>) {
        let (queue, happenings) = mpsc::channel(QUEUE);
        (Self { queue, metrics }, happenings)
    }

    /// Hands `happening` over to be told. Never waits: where too many wait already, it is dropped and counted.
    pub fn record(&self, happening: Happening) {
        if self.queue.try_send(happening).is_err() {
            self.metrics.count("dropped");
        }
    }
}

impl Publisher {
    /// A publisher in the name of `reporter`, and the recorder that feeds it.
    #[must_use]
    pub fn new(client: Client, reporter: Reporter, metrics: EventMetrics) -> (Recorder, Self) {
        let (recorder, queue) = Recorder::new(metrics.clone());
        let writer = Writer::new(reporter.program, metrics.writes.clone()).with_deadline(DEADLINE);
        (recorder, Self { queue, client, writer, reporter, metrics, ledger: Ledger::default() })
    }

    /// Writes until every recorder is gone. Told to stop, it takes that for as long as a farewell may last; what waits
    /// then is not told.
    pub async fn run(mut self, stop: CancellationToken) {
        let farewell = async {
            stop.cancelled().await;
            sleep(FAREWELL).await;
        };
        tokio::select! {
            () = self.publish() => {}
            () = farewell => {}
        }
        stop.cancelled().await;
    }

    async fn publish(&mut self) {
        loop {
            let due = self.ledger.next_due();
            let todo = tokio::select! {
                biased;
                happening = self.queue.recv() => match happening {
                    Some(happening) => self.ledger.take_in(happening, Instant::now(), Timestamp::now()),
                    None => return,
                },
                () = at(due) => self.ledger.due(Instant::now()),
            };
            self.write(todo).await;
        }
    }

    async fn write(&mut self, todo: Todo) {
        match todo {
            Todo::Nothing => {}
            Todo::Count => self.metrics.count("repeated"),
            Todo::Limit => self.metrics.count("limited"),
            Todo::Create { name, happening, at } => {
                let event = self.event(name.clone(), &happening, at);
                let result = self.writer.create(&self.api(&happening), &event).await;
                self.account(result.map(drop), "written", &happening);
            }
            Todo::Update { name, happening, count, at } => {
                let series = EventSeries { count, last_observed_time: MicroTime(at) };
                let api = self.api(&happening);
                let result = self.writer.merge(&api, &name, &json!({ "series": series })).await;
                self.account(result.map(drop), "updated", &happening);
            }
        }
    }

    /// A failure is forgotten with its series, so that the next happening of the kind starts anew.
    fn account(&mut self, result: Result<(), WriteError>, outcome: &'static str, happening: &Happening) {
        match result {
            Ok(()) => self.metrics.count(outcome),
            Err(error) => {
                self.metrics.count("failed");
                self.ledger.forget(happening);
                debug!(reason = happening.reason, error = %chain(&error), "Event not written");
            }
        }
    }

    fn api(&self, happening: &Happening) -> Api<Event> {
        let namespace = happening.regarding.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
        Api::namespaced(self.client.clone(), namespace)
    }

    fn event(&self, name: String, happening: &Happening, at: Timestamp) -> Event {
        let namespace = happening.regarding.namespace.clone().unwrap_or_else(|| CLUSTER_NAMESPACE.to_owned());
        let metadata = ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() };
        let note = happening.note.get(..happening.note.floor_char_boundary(MAX_NOTE)).unwrap_or_default();
        Event {
            metadata,
            action: Some(happening.action.to_owned()),
            event_time: Some(MicroTime(at)),
            note: Some(note.to_owned()),
            reason: Some(happening.reason.clone()),
            regarding: Some(happening.regarding.clone()),
            related: happening.related.clone(),
            reporting_controller: Some(self.reporter.program.to_owned()),
            reporting_instance: Some(self.reporter.instance.clone()),
            type_: Some(happening.severity.as_str().to_owned()),
            ..Event::default()
        }
    }
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Ends at `instant`; never, if there is none.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
