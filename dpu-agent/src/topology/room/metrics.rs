//! What the room counts. Names begin with `topology_`.

use causeway_runtime::engine::EngineMetrics;
use causeway_runtime::events::EventMetrics;
use causeway_runtime::watch::WatchMetrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::super::write::Outcome;

/// Its numbers.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    transactions: Counter,
    operations: Counter,
    /// Passes over a network that the database did not take.
    pub(super) failures: Counter,
    /// Batches of changes that concerned a network.
    pub(super) changes: Counter,
    pub(super) engine: EngineMetrics,
    pub(super) watch: WatchMetrics,
    pub(super) events: EventMetrics,
}

impl Metrics {
    /// Adds them to `registry`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("topology");
        let metrics = Self {
            transactions: Counter::default(),
            operations: Counter::default(),
            failures: Counter::default(),
            changes: Counter::default(),
            engine: EngineMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            events: EventMetrics::register(registry),
        };
        registry.register(
            "transactions",
            "Transactions that OVN's databases took",
            metrics.transactions.clone(),
        );
        registry.register("operations", "Operations in them, guards included", metrics.operations.clone());
        registry.register(
            "write_failures",
            "Passes over a network whose rows could not be written",
            metrics.failures.clone(),
        );
        registry.register(
            "database_changes",
            "Updates of the Northbound database that concerned rows of the topology, the own ones included",
            metrics.changes.clone(),
        );
        metrics
    }

    pub(super) fn wrote(&self, outcome: Outcome) {
        if let Outcome::Changed { operations } = outcome {
            self.transactions.inc();
            self.operations.inc_by(u64::try_from(operations).unwrap_or(u64::MAX));
        }
    }
}
