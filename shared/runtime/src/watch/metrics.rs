//! What watches count, per kind.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

type ByKind = [(&'static str, String); 1];

/// Metrics of all watches of a process. The `kind` label is bounded by the kinds that the program watches.
#[derive(Debug, Clone)]
pub struct WatchMetrics {
    changes: Family<ByKind, Counter>,
    errors: Family<ByKind, Counter>,
    unreadable: Family<ByKind, Counter>,
}

/// The metrics of one kind, looked up once.
#[derive(Debug)]
pub(super) struct KindMeters {
    pub(super) changes: Counter,
    pub(super) errors: Counter,
    pub(super) unreadable: Counter,
}

impl WatchMetrics {
    /// Adds the metrics of watches to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics =
            Self { changes: Family::default(), errors: Family::default(), unreadable: Family::default() };
        registry.register("watch_changes", "Changes that reached subscribers", metrics.changes.clone());
        registry.register("watch_errors", "Interruptions of watches", metrics.errors.clone());
        registry.register("watch_unreadable", "Objects that could not be read", metrics.unreadable.clone());
        metrics
    }

    pub(super) fn kind(&self, kind: &str) -> KindMeters {
        let labels = [("kind", kind.to_owned())];
        KindMeters {
            changes: self.changes.get_or_create(&labels).clone(),
            errors: self.errors.get_or_create(&labels).clone(),
            unreadable: self.unreadable.get_or_create(&labels).clone(),
        }
    }
}
