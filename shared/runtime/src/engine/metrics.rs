//! What the engine counts, per room.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of the pass duration buckets, in seconds: half a millisecond to ten seconds.
const DURATION_BOUNDS: [f64; 9] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

type ByRoom = [(&'static str, &'static str); 1];
type ByRoomAndOutcome = [(&'static str, &'static str); 2];

/// Metrics of all rooms of a process; register once, hand to each [`super::run`].
#[derive(Debug, Clone)]
pub struct EngineMetrics {
    passes: Family<ByRoomAndOutcome, Counter>,
    seconds: Family<ByRoom, Histogram, fn() -> Histogram>,
    depth: Family<ByRoom, Gauge>,
    unfinished: Gauge,
    retries: Family<ByRoom, Counter>,
    panics: Family<ByRoom, Counter>,
}

impl EngineMetrics {
    /// Adds the engine's metrics to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            passes: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(DURATION_BOUNDS)),
            depth: Family::default(),
            unfinished: Gauge::default(),
            retries: Family::default(),
            panics: Family::default(),
        };
        registry.register("reconcile_passes", "Passes by room and outcome", metrics.passes.clone());
        registry.register_with_unit(
            "reconcile_pass_duration",
            "Duration of passes",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register("reconcile_queue_depth", "Keys that wait for a pass", metrics.depth.clone());
        // One number, not one for each room: whoever adds up several of them one after the other may miss a pass of one room
        // that asks for one of another.
        registry.register(
            "reconcile_unfinished",
            "Keys of all rooms that wait for a pass or are in one",
            metrics.unfinished.clone(),
        );
        registry.register(
            "reconcile_retries",
            "Passes scheduled again with backoff",
            metrics.retries.clone(),
        );
        registry.register("reconcile_panics", "Panics caught in passes", metrics.panics.clone());
        metrics
    }

    pub(super) fn room(&self, room: &'static str) -> RoomMeters {
        let labels = [("room", room)];
        RoomMeters {
            room,
            passes: self.passes.clone(),
            seconds: self.seconds.get_or_create(&labels).clone(),
            depth: self.depth.get_or_create(&labels).clone(),
            unfinished: self.unfinished.clone(),
            retries: self.retries.get_or_create(&labels).clone(),
            panics: self.panics.get_or_create(&labels).clone(),
        }
    }
}

/// The metrics of one room, looked up once.
#[derive(Debug, Clone)]
pub(super) struct RoomMeters {
    room: &'static str,
    passes: Family<ByRoomAndOutcome, Counter>,
    seconds: Histogram,
    pub(super) depth: Gauge,
    /// Of all rooms together.
    pub(super) unfinished: Gauge,
    pub(super) retries: Counter,
    pub(super) panics: Counter,
}

impl RoomMeters {
    pub(super) fn record(&self, outcome: Outcome, took: Duration) {
        self.passes.get_or_create(&[("room", self.room), ("outcome", outcome.label())]).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

/// How a pass ended, as the `outcome` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Requeued,
    Failed,
    Refused,
    Deferred,
    Panicked,
}

impl Outcome {
    fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Requeued => "requeued",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Deferred => "deferred",
            Self::Panicked => "panicked",
        }
    }
}
