//! The Uplink controller: what an Uplink's nodes have found becomes its condition `Ready`; states that nobody needs
//! go.
//!
//! In: watches of Uplinks, Nodes and UplinkStates. Out: the condition `Ready` on `uplinks/status` (server-side apply
//! as `clustermanager-uplink-controller`), deletions of UplinkStates, and the end of our finalizer. The key is the
//! name of an Uplink, also of one that does not exist: its states have to go.
//!
//! * Only what a change concerns is looked at ([`affected`]), and each Uplink at most ten times a second: a thousand
//!   states that change at once make a few writes.
//! * A selector that cannot be used becomes `InvalidSpec` and takes no state away.
//! * A state is deleted only if every kind has been listed, the newest snapshots say so, and the API server itself
//!   confirms it ([`confirm`]); the request names the object's uid.
//!
//! Never does: create or change an UplinkState, touch what another field manager owns, write what is already so.
//!
//! First file to read: [`plan`].

mod affected;
mod apply;
mod confirm;
mod error;
#[cfg(test)]
mod fixtures;
mod metrics;
mod observe;
mod ownership;
mod plan;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
mod watched;

use std::time::Duration;

use causeway_api::uplink::Uplink as ApiUplink;
use causeway_api::uplink_state::UplinkState;
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, NotReady, Watch};
use jiff::Timestamp;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tracing::debug;

use self::apply::Hand;
use self::confirm::Reader;
use self::error::UplinkError;
use self::metrics::Metrics;
use self::observe::{StateIndex, Stores};
use self::watched::{Node, NodeName, State, StateKey, Uplink, UplinkName, WatchedNode};
use crate::Meters;

/// Shortest time between two looks at one Uplink that events ask for: each look reads every selected node, and
/// nodes of a large cluster change together.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// The room that the engine runs.
#[derive(Debug)]
struct Uplinks {
    stores: Stores,
    reader: Reader,
    hand: Hand,
    metrics: Metrics,
}

impl Room for Uplinks {
    const NAME: &'static str = "uplink";
    type Key = UplinkName;
    type Error = UplinkError;

    async fn reconcile(&self, name: &UplinkName) -> Result<Requeue, UplinkError> {
        let world = observe::world(name, &self.stores)?;
        let plan = plan::uplink(name, &world, Timestamp::now());
        self.metrics.verdict(name, plan.verdict.as_ref());
        if plan.steps.is_empty() {
            debug!(uplink = %name, "Nothing to do");
        }
        confirm::deletions(name, &plan, &self.reader).await?;
        apply::run(name, &plan, &self.hand, &self.metrics).await?;
        Ok(if world.uplink.is_some() { Requeue::Done } else { Requeue::Gone })
    }
}

/// The controller with its watches, before it is started.
pub struct Controller {
    uplinks: Watch<ApiUplink, UplinkName, Uplink>,
    nodes: Watch<WatchedNode, NodeName, Node>,
    states: Watch<UplinkState, StateKey, State>,
    queue: KeyQueue<UplinkName>,
    room: Uplinks,
}

impl Controller {
    /// A controller over this connection, with its metrics in `registry`.
    #[must_use]
    pub fn new(client: &Client, meters: &Meters, registry: &mut Registry) -> Self {
        let queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        let (uplinks, nodes, states, stores) = watches(client, &queue);
        let room = Uplinks {
            stores,
            reader: Reader::new(client.clone()),
            hand: Hand::new(client.clone(), meters.writes.clone()),
            metrics: Metrics::register(registry),
        };
        Self {
            uplinks: uplinks.metered(&meters.watches),
            nodes: nodes.metered(&meters.watches),
            states: states.metered(&meters.watches),
            queue,
            room,
        }
    }

    /// Starts the watches, and the engine once every kind has been listed. An API server that is away is waited
    /// for; `readiness` says so meanwhile.
    pub fn start(self, tasks: &Tasks, readiness: &Readiness, meters: &Meters, resync: Option<Duration>) {
        let stores = self.room.stores.clone();
        readiness.add("uplink", move || stores.readiness().map_err(|error| error.to_string()));

        let stop = tasks.stop();
        tasks.spawn("watch of Uplinks", self.uplinks.run(stop.clone()));
        tasks.spawn("watch of Nodes", self.nodes.run(stop.clone()));
        tasks.spawn("watch of UplinkStates", self.states.run(stop.clone()));

        let (room, queue, metrics) = (self.room, self.queue, meters.engine.clone());
        let limits = Limits { resync, ..Limits::default() };
        tasks.spawn("uplink", async move {
            if stop.run_until_cancelled(room.stores.wait_synced()).await.is_some() {
                engine::run(room, queue, limits, &metrics, stop).await;
            }
        });
    }
}

impl Stores {
    /// Whether every kind has been listed and is being watched.
    fn readiness(&self) -> Result<(), NotReady> {
        self.uplinks.readiness()?;
        self.nodes.readiness()?;
        self.states.readiness()
    }
}

type Watches = (
    Watch<ApiUplink, UplinkName, Uplink>,
    Watch<WatchedNode, NodeName, Node>,
    Watch<UplinkState, StateKey, State>,
    Stores,
);

/// The three watches, each of which puts the Uplinks that a change concerns into `queue`.
fn watches(client: &Client, queue: &KeyQueue<UplinkName>) -> Watches {
    let uplinks =
        Watch::new(Api::all(client.clone()), watch::config(), UplinkName::of, |uplink: ApiUplink| {
            Uplink::of(&uplink)
        });
    let nodes = Watch::new(Api::all(client.clone()), watch::config(), NodeName::of, |node: WatchedNode| {
        Some(Node::of(node))
    });
    let states = Watch::new(Api::all(client.clone()), watch::config(), StateKey::of, State::of);
    let stores = Stores {
        uplinks: uplinks.store(),
        nodes: nodes.store(),
        states: states.store(),
        index: StateIndex::default(),
    };

    let keys = queue.clone();
    let uplinks = uplinks.on_change(move |change| {
        let only_status = match (change.old.as_deref(), change.new.as_deref()) {
            (Some(old), Some(new)) => !new.differs_beyond_status(old),
            _ => false,
        };
        if !only_status {
            keys.enqueue(change.key.clone());
        }
    });
    let (keys, all) = (queue.clone(), stores.clone());
    let nodes = nodes.on_change(move |change| {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        keys.enqueue_all(affected::by_node(old, new, &all.uplinks.snapshot()));
    });
    let (keys, all) = (queue.clone(), stores.clone());
    let states = states.on_change(move |change| {
        let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
        all.index.change(key, old, new);
        let concerned = affected::by_state(key, old, new, &all.uplinks.snapshot(), &all.nodes.snapshot());
        keys.enqueue_all(concerned);
    });
    (uplinks, nodes, states, stores)
}
