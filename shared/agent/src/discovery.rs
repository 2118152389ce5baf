//! Discovery of one node: the watches, the queue and the engine, ready to run.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway_api::uplink_state::UplinkState;
use causeway_net::facts::UplinkFacts;
use causeway_net::state_name::StateName;
use causeway_runtime::engine::{self, EngineMetrics, KeyQueue, Limits, Pacing};
use causeway_runtime::events::{EventMetrics, Publisher, Reporter};
use causeway_runtime::watch::{Change, Snapshot, WatchMetrics};
use causeway_runtime::writer::{WriteMetrics, Writer};
use kube::{Api, Client};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use crate::half::Half;
use crate::introspect::ledger::{Ledger, Noted};
use crate::introspect::uplinks::UplinkRoom;
use crate::look::Looker;
use crate::room::{StateRoom, Written};
use crate::stores::{Stores, Watches};

/// Who tells people about discovery, as `kubectl describe` shows it.
const PROGRAM: &str = "causeway-uplink-discovery";

/// Upper bounds of the buckets of reactions, in seconds: a millisecond to a second.
const REACTION_BOUNDS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 1.0];

/// Discovery of one node, set up and not yet running.
pub struct Discovery<H> {
    room: StateRoom<H>,
    watches: Watches,
    queue: KeyQueue<String>,
    limits: Limits,
    engine_metrics: EngineMetrics,
    publisher: Publisher,
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
    /// Events.
    pub events: EventMetrics,
    /// From a change of the kernel or of Open vSwitch to the decision that follows from it.
    pub reactions: Histogram,
}

impl Metrics {
    /// Adds the numbers of discovery to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let reactions = Histogram::new(REACTION_BOUNDS);
        registry.register_with_unit(
            "uplink_discovery_reaction",
            "From a change of the kernel or of Open vSwitch to the decision that follows from it, before it is written",
            Unit::Seconds,
            reactions.clone(),
        );
        Self {
            reactions,
            engine: EngineMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            write: WriteMetrics::register(registry),
            events: EventMetrics::register(registry),
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
            let (queue, written, uplinks) = (queue.clone(), written.clone(), watches.uplinks.store());
            let node = node.to_owned();
            move |change: &Change<'_, String, UplinkState>| {
                if change.new.is_none() {
                    written.forget(change.key);
                }
                let versions =
                    change.old.iter().chain(&change.new).map(|state| state.spec.uplink_name.as_str());
                queue.enqueue_all(concerned(change.key, versions, &node, &uplinks.snapshot()));
            }
        });
        watches.node = watches.node.metered(&metrics.watch).on_change({
            let (queue, uplinks) = (queue.clone(), watches.uplinks.store());
            move |_| queue.enqueue_all(uplinks.snapshot().iter().map(|(name, _)| name.clone()))
        });
        let ledger = Ledger::default();
        let manager = half.role().discovery_manager().as_str();
        let reporter = Reporter { program: PROGRAM, instance: node.to_owned() };
        let (recorder, publisher) = Publisher::new(client.clone(), reporter, metrics.events);
        let room = StateRoom {
            node: node.to_owned(),
            half,
            stores: watches.stores(),
            api: Api::all(client.clone()),
            writer: Writer::new(manager, metrics.write.clone()),
            write_metrics: metrics.write,
            looker,
            written,
            ledger,
            recorder,
            reactions: metrics.reactions,
        };
        let limits = Limits { resync, ..Limits::default() };
        Self { room, watches, queue, limits, engine_metrics: metrics.engine, publisher }
    }

    /// The stores that the watches fill, for readiness.
    #[must_use]
    pub fn stores(&self) -> Stores {
        self.room.stores.clone()
    }

    /// What discovery sees and decided, for introspection.
    #[must_use]
    pub fn section(&self) -> UplinkRoom {
        let StateRoom { node, half, stores, ledger, .. } = &self.room;
        UplinkRoom::new(node, half.role(), stores.clone(), ledger.clone())
    }

    /// How listeners outside Kubernetes ask for another look.
    #[must_use]
    pub fn looker(&self) -> Looker {
        self.room.looker.clone()
    }

    /// Runs until `stop` is cancelled. No pass starts before every kind was listed: absence means something only then.
    pub async fn run(self, stop: CancellationToken) {
        let Self { room, watches, queue, limits, engine_metrics, publisher } = self;
        let stores = room.stores.clone();
        let passes = async {
            if stop.run_until_cancelled(stores.wait_synced()).await.is_some() {
                engine::run(Noted(room), queue, limits, &engine_metrics, stop.clone()).await;
            }
        };
        tokio::join!(
            watches.uplinks.run(stop.clone()),
            watches.states.run(stop.clone()),
            watches.node.run(stop.clone()),
            publisher.run(stop.clone()),
            passes
        );
    }
}

/// The Uplinks that a change of a state concerns: those that its versions name, which differ where an object was replaced
/// by one of another pair, and, where one of them has a name that is not its own, those whose state it keeps away.
fn concerned<'c>(
    state: &str,
    versions: impl Iterator<Item = &'c str>,
    node: &str,
    uplinks: &Snapshot<String, UplinkFacts>,
) -> BTreeSet<String> {
    let is_named = |uplink: &str| StateName::of(uplink, node).as_str() == state;
    let mut concerned: BTreeSet<String> = versions.map(str::to_owned).collect();
    if !concerned.iter().all(|uplink| is_named(uplink)) {
        concerned.extend(uplinks.iter().map(|(name, _)| name).filter(|name| is_named(name)).cloned());
    }
    concerned
}

#[cfg(test)]
mod tests {
    use causeway_api::uplink::UplinkSpec;
    use causeway_net::selection::NodeConfigs;
    use causeway_runtime::watch::Store;

    use super::*;

    #[track_caller]
    fn check(state: &str, versions: &[&str], want: &[&str]) {
        let uplink = |name: &str| {
            let configs = Ok(NodeConfigs::parse(&UplinkSpec { node_configs: vec![] }).unwrap());
            (name.to_owned(), UplinkFacts { name: name.into(), uid: "1".into(), terminating: false, configs })
        };
        let uplinks = Store::fixed("Uplink", ["blue", "red"].map(uplink)).snapshot();
        let found = concerned(state, versions.iter().copied(), "node-a", &uplinks);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_change_of_a_state_concerns_its_uplink_and_the_one_whose_name_it_takes() {
        check("blue.node-a", &["blue"], &["blue"]);
        check("blue.node-a", &["blue", "blue"], &["blue"]);
        // The other pair's object goes: now there is room for ours.
        check("blue.node-a", &["red"], &["blue", "red"]);
        check("odd", &["red"], &["red"]);
        check("odd", &["gone"], &["gone"]);
    }
}
