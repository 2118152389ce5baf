//! What isolation counts.

use causeway_runtime::engine::EngineMetrics;
use causeway_runtime::events::EventMetrics;
use causeway_runtime::watch::WatchMetrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ledger::Ledger;
use super::plan::SetId;

/// Its numbers. Names begin with `isolation_`, also those of engine, watch and Events: the ones without are of the
/// process's other rooms.
#[derive(Debug, Clone)]
pub(super) struct Metrics {
    elements: Family<[(&'static str, &'static str); 1], Gauge>,
    /// Transactions that the kernel took, by what they change.
    transactions: Family<[(&'static str, &'static str); 1], Counter>,
    pub(super) looks: Counter,
    pub(super) foreign: Counter,
    pub(super) errors: Counter,
    pub(super) engine: EngineMetrics,
    pub(super) watch: WatchMetrics,
    pub(super) events: EventMetrics,
}

impl Metrics {
    /// Adds them to `registry`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("isolation");
        let metrics = Self {
            elements: Family::default(),
            transactions: Family::default(),
            looks: Counter::default(),
            foreign: Counter::default(),
            errors: Counter::default(),
            engine: EngineMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            events: EventMetrics::register(registry),
        };
        registry.register("elements", "Elements that a set should have", metrics.elements.clone());
        registry.register(
            "transactions",
            "Transactions of nftables, by whether rules change or elements alone",
            metrics.transactions.clone(),
        );
        registry.register("looks", "Listings of the table", metrics.looks.clone());
        registry.register(
            "foreign_changes",
            "Times that somebody else changed what is isolation's",
            metrics.foreign.clone(),
        );
        registry.register("nft_errors", "Failed listings and transactions", metrics.errors.clone());
        metrics
    }

    pub(super) fn transaction(&self, changes: &'static str) {
        self.transactions.get_or_create(&[("changes", changes)]).inc();
    }

    pub(super) fn count(&self, ledger: &Ledger, sets: impl IntoIterator<Item = SetId>) {
        for set in sets {
            let count = i64::try_from(ledger.count(set)).unwrap_or(i64::MAX);
            self.elements.get_or_create(&[("set", set.name())]).set(count);
        }
    }
}
