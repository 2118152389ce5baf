//! What watches count, per kind.

use std::sync::atomic::{AtomicI64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

type ByKind = [(&'static str, String); 1];

/// Metrics of all watches of a process. The `kind` label is bounded by the kinds that the program watches.
#[derive(Debug, Clone)]
pub struct WatchMetrics {
    changes: Family<ByKind, Counter>,
    errors: Family<ByKind, Counter>,
    unreadable: Family<ByKind, Counter>,
    objects: Family<ByKind, Gauge>,
    heard: Family<ByKind, Gauge>,
}

/// The metrics of one kind, looked up once.
#[derive(Debug)]
pub(super) struct KindMeters {
    pub(super) changes: Counter,
    pub(super) errors: Counter,
    pub(super) unreadable: Counter,
    objects: Gauge,
    heard: Gauge,
    /// How many of the kind's objects are this watch's: others of the same kind have some too.
    own: AtomicI64,
}

impl WatchMetrics {
    /// Adds the metrics of watches to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            changes: Family::default(),
            errors: Family::default(),
            unreadable: Family::default(),
            objects: Family::default(),
            heard: Family::default(),
        };
        registry.register("watch_changes", "Changes that reached subscribers", metrics.changes.clone());
        registry.register("watch_errors", "Interruptions of watches", metrics.errors.clone());
        registry.register("watch_unreadable", "Objects that could not be read", metrics.unreadable.clone());
        registry.register("watch_objects", "Objects in the stores of a kind", metrics.objects.clone());
        registry.register_with_unit(
            "watch_last_event_timestamp",
            "When the API server last sent something about a kind, in seconds since 1970",
            Unit::Seconds,
            metrics.heard.clone(),
        );
        metrics
    }

    pub(super) fn kind(&self, kind: &str) -> KindMeters {
        let labels = [("kind", kind.to_owned())];
        KindMeters {
            changes: self.changes.get_or_create(&labels).clone(),
            errors: self.errors.get_or_create(&labels).clone(),
            unreadable: self.unreadable.get_or_create(&labels).clone(),
            objects: self.objects.get_or_create(&labels).clone(),
            heard: self.heard.get_or_create(&labels).clone(),
            own: AtomicI64::new(0),
        }
    }
}

impl KindMeters {
    /// The watch's store has so many objects now.
    pub(super) fn has(&self, objects: usize) {
        let now = i64::try_from(objects).unwrap_or(i64::MAX);
        self.objects.inc_by(now.saturating_sub(self.own.swap(now, Ordering::Relaxed)));
    }

    /// The API server has just sent something about this kind.
    pub(super) fn heard(&self) {
        self.heard.set(jiff::Timestamp::now().as_second());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_of_one_kind_count_their_objects_together() {
        let metrics = WatchMetrics::register(&mut Registry::default());
        let (one, other, another_kind) =
            (metrics.kind("Service"), metrics.kind("Service"), metrics.kind("Node"));
        one.has(1);
        other.has(3);
        another_kind.has(7);
        assert_eq!((one.objects.get(), another_kind.objects.get()), (4, 7));
        one.has(1);
        other.has(0);
        assert_eq!(one.objects.get(), 1);
    }
}
