//! Discovery of one node: the watches, the queue and the engine, ready to run.

use std::time::Duration;

use causeway_api::uplink_state::UplinkState;
use causeway_runtime::engine::{self, EngineMetrics, KeyQueue, Limits, Pacing};
use causeway_runtime::watch::{Change, WatchMetrics};
use causeway_runtime::writer::{WriteMetrics, Writer};
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::half::Half;
use crate::look::Looker;
use crate::room::{StateRoom, Written};
use crate::stores::{Stores, Watches};

/// Discovery of one node, set up and not yet running.
pub struct Discovery<H> {
    room: StateRoom<H>,
    watches: Watches,
    queue: KeyQueue<String>,
    limits: Limits,
    engine_metrics: EngineMetrics,
}

/// Where the numbers of discovery go.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Passes.
    pub engine: EngineMetrics,
    /// Watches.
    pub watch: WatchMetrics,
    /// Writes.
    pub write: WriteMetrics,
}

impl Metrics {
    /// Adds the numbers of discovery to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            engine: EngineMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            write: WriteMetrics::register(registry),
        }
    }
}

impl<H: Half> Discovery<H> {
    /// Sets up discovery for the node named `node`, with the eyes of one side.
    pub fn new(client: &Client, node: &str, resync: Option<Duration>, metrics: Metrics, half: H) -> Self {
        let queue = KeyQueue::new(Pacing::default());
        let looker = Looker::new(queue.clone());
        let written = Written::default();
        let mut watches = Watches::new(client, node);
        watches.uplinks = watches.uplinks.metered(&metrics.watch).on_change({
            let queue = queue.clone();
            move |change| queue.enqueue(change.key.clone())
        });
        watches.states = watches.states.metered(&metrics.watch).on_change({
            let (queue, written) = (queue.clone(), written.clone());
            move |change: &Change<'_, String, UplinkState>| {
                if change.new.is_none() {
                    written.forget(change.key);
                }
                // The identity cannot change, but an object can be replaced by one of another pair.
                let both = change.old.iter().chain(&change.new);
                queue.enqueue_all(both.map(|state| state.spec.uplink_name.clone()));
            }
        });
        watches.node = watches.node.metered(&metrics.watch).on_change({
            let (queue, uplinks) = (queue.clone(), watches.uplinks.store());
            move |_| queue.enqueue_all(uplinks.snapshot().iter().map(|(name, _)| name.clone()))
        });
        let manager = half.role().discovery_manager().as_str();
        let room = StateRoom {
            node: node.to_owned(),
            half,
            stores: watches.stores(),
            api: Api::all(client.clone()),
            writer: Writer::new(manager, metrics.write),
            looker,
            written,
        };
        let limits = Limits { resync, ..Limits::default() };
        Self { room, watches, queue, limits, engine_metrics: metrics.engine }
    }

    /// The stores that the watches fill, for readiness.
    #[must_use]
    pub fn stores(&self) -> Stores {
        self.room.stores.clone()
    }

    /// How listeners outside Kubernetes ask for another look.
    #[must_use]
    pub fn looker(&self) -> Looker {
        self.room.looker.clone()
    }

    /// Runs until `stop` is cancelled. No pass starts before every kind was listed: absence means something only then.
    pub async fn run(self, stop: CancellationToken) {
        let Self { room, watches, queue, limits, engine_metrics } = self;
        let stores = room.stores.clone();
        let passes = async {
            if stop.run_until_cancelled(stores.wait_synced()).await.is_some() {
                engine::run(room, queue, limits, &engine_metrics, stop.clone()).await;
            }
        };
        tokio::join!(
            watches.uplinks.run(stop.clone()),
            watches.states.run(stop.clone()),
            watches.node.run(stop.clone()),
            passes
        );
    }
}
