//! The Uplink controller: what an Uplink's nodes have found becomes its condition `Ready`; states that nobody needs
//! go.
//!
//! In: watches of Uplinks, Nodes and UplinkStates. Out: the condition `Ready` on `uplinks/status` (server-side apply
//! as `clustermanager-uplink-controller`), deletions of UplinkStates, and the end of our finalizer. The key is the
//! name of an Uplink, also of one that does not exist: its states have to go.
//!
//! * Only what a change concerns is looked at ([`affected`]), and each Uplink is written at most ten times a second
//!   ([`pace`]): a thousand states that change at once make a few writes.
//! * A selector that cannot be used becomes `InvalidSpec` and takes no state away.
//! * A state is deleted only if every kind has been listed, the newest snapshots say so, and the API server itself
//!   confirms it ([`confirm`]); the request names the object's uid.
//!
//! * Only the leader writes. Each write of a status names the version that it rests on, so one that is overtaken, by
//!   a newer spec or by a later leader, fails; what is written by others is looked at and put right.
//!
//! Never does: create or change an UplinkState, touch what another field manager owns, write what is already so.
//!
//! First file to read: [`plan`].

mod affected;
mod apply;
mod confirm;
mod error;
mod expected;
#[cfg(test)]
mod fixtures;
mod metrics;
mod networks;
mod observe;
mod ownership;
mod pace;
mod plan;
#[cfg(test)]
mod replay;
mod tally;
#[cfg(test)]
mod tests;
mod users;
mod watched;

use std::time::Duration;

use causeway_api::manager::FieldManager;
use causeway_api::uplink::Uplink as ApiUplink;
use causeway_api::uplink_state::UplinkState;
use causeway_net::uplinks_ready::GatewayMode;
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::leader::Leadership;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, NotReady, Watch};
use causeway_runtime::writer::Writer;
use jiff::Timestamp;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tracing::debug;

use self::apply::Hand;
use self::confirm::Reader;
use self::error::UplinkError;
use self::expected::Expected;
use self::metrics::Metrics;
use self::networks::Networks;
use self::observe::{StateIndex, Stores};
use self::tally::Tally;
use self::users::Users;
use self::watched::{Node, NodeName, State, StateKey, Uplink, UplinkName, WatchedNode};
use crate::allocation::Book;
use crate::observed::cr::CrKey;
use crate::observed::{self, Sources};
use crate::written::Written;
use crate::{Meters, Surroundings};

/// Shortest time between two looks at one Uplink that events ask for: each look reads every selected node, and
/// nodes of a large cluster change together. How often it is written is another matter ([`pace`]).
const MIN_INTERVAL: Duration = Duration::from_millis(2);

/// The room that the engine runs.
#[derive(Clone, Debug)]
struct Uplinks {
    stores: Stores,
    reader: Reader,
    hand: Hand,
    metrics: Metrics,
    expected: Expected,
}

impl Room for Uplinks {
    const NAME: &'static str = "uplink";
    type Key = UplinkName;
    type Error = UplinkError;

    async fn reconcile(&self, name: &UplinkName) -> Result<Requeue, UplinkError> {
        let world = observe::world(name, &self.stores)?;
        let mut plan = plan::uplink(name, &world, Timestamp::now());
        self.metrics.verdict(name, plan.verdict.as_ref());
        self.expected.set(name, plan.wanted.clone());
        let wait = self.hand.paced(name, world.uplink.as_deref(), &mut plan);
        if plan.steps.is_empty() {
            debug!(uplink = %name, "Nothing to do");
        }
        confirm::unused(name, &plan, &self.reader).await?;
        confirm::deletions(name, &plan, &self.reader).await?;
        apply::run(name, &plan, &self.hand, &self.metrics).await?;
        Ok(match wait {
            Some(wait) => Requeue::After(wait),
            None if world.uplink.is_some() => Requeue::Done,
            None => Requeue::Gone,
        })
    }
}

/// The controller with its watches, before it is started.
pub struct Controller {
    uplinks: Watch<ApiUplink, UplinkName, Uplink>,
    nodes: Watch<WatchedNode, NodeName, Node>,
    states: Watch<UplinkState, StateKey, State>,
    queue: KeyQueue<UplinkName>,
    room: Uplinks,
    told: Networks,
    told_queue: KeyQueue<CrKey>,
    leadership: Leadership,
    /// Who uses an Uplink is known once these are listed.
    networks: observed::Stores,
}

impl Controller {
    /// A controller over this connection, with its metrics in `registry`.
    #[must_use]
    pub(crate) fn new(
        surroundings: &Surroundings,
        registry: &mut Registry,
        mode: GatewayMode,
        book: &Book,
        sources: Sources,
    ) -> (Self, Sources) {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        let told_queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        let wake = Wake {
            queue: queue.clone(),
            networks: told_queue.clone(),
            leadership: leadership.clone(),
            expected: Expected::default(),
        };
        let (uplinks, nodes, states, stores) = watches(client, &wake, &Tally::register(registry));
        let told = Networks {
            stores: stores.clone(),
            seen: sources.stores.clone(),
            book: book.clone(),
            mode,
            writer: Writer::new(FieldManager::ClusterManagerUplink.as_str(), meters.writes.clone())
                .fenced(leadership.clone()),
            api: Api::all(client.clone()),
            expected: crate::expected::Expected::default(),
        };
        book.wakes_of_activity(told_queue.clone());
        let (woken, users, as_told) = (wake.clone(), stores.users.clone(), told.expected.clone());
        let cudns = sources.cudns.on_change(move |change| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            woken.up(users.change(change.key, old, new));
            let echo = old.zip(new).is_some_and(|(old, new)| {
                !new.differs_beyond_status(old) && as_told.are_met_by(change.key, &new.conditions)
            });
            if !echo {
                woken.networks([change.key.clone()]);
            }
        });
        let sources = Sources { cudns, ..sources };
        let written = stores.written.clone();
        let hand = Hand::new(client.clone(), meters.writes.clone(), leadership.clone(), recorder.clone());
        let room = Uplinks {
            stores,
            reader: Reader::new(client.clone()),
            hand: hand.remembering(written),
            metrics: Metrics::register(registry),
            expected: wake.expected,
        };
        let controller = Self {
            leadership: leadership.clone(),
            uplinks: uplinks.metered(&meters.watches),
            nodes: nodes.metered(&meters.watches),
            states: states.metered(&meters.watches),
            queue,
            room,
            told,
            told_queue,
            networks: sources.stores.clone(),
        };
        (controller, sources)
    }

    /// Starts the watches, and in each term of leadership the engine, once every kind has been listed. An API server
    /// that is away is waited for; `readiness` says so meanwhile. A standby has the same snapshots as the leader, so it
    /// takes over without reading anything.
    pub fn start(self, tasks: &Tasks, readiness: &Readiness, meters: &Meters, resync: Option<Duration>) {
        let stores = self.room.stores.clone();
        readiness.add("uplink", move || stores.readiness().map_err(|error| error.to_string()));

        let stop = tasks.stop();
        tasks.spawn("watch of Uplinks", self.uplinks.run(stop.clone()));
        tasks.spawn("watch of Nodes", self.nodes.run(stop.clone()));
        tasks.spawn("watch of UplinkStates", self.states.run(stop.clone()));

        let (room, queue, metrics, leadership, networks) =
            (self.room, self.queue, meters.engine.clone(), self.leadership, self.networks);
        let (told, told_queue) = (self.told, self.told_queue);
        let limits = Limits { resync, ..Limits::default() };
        tasks.spawn("uplink", async move {
            let listed = async { tokio::join!(room.stores.wait_synced(), networks.wait_synced()) };
            if stop.run_until_cancelled(listed).await.is_none() {
                return;
            }
            while let Some(term) = leadership.term(&stop).await {
                // From here on changes wake the room; what came before is in the snapshots.
                room.stores.written.forget_all();
                told.expected.forget_all();
                queue.enqueue_all(room.everything());
                told_queue.enqueue_all(networks.cudns().iter().map(|(key, _)| key.clone()));
                let uplinks = engine::run(room.clone(), queue.clone(), limits, &metrics, term.over());
                let told = engine::run(told.clone(), told_queue.clone(), limits, &metrics, term.over());
                tokio::join!(uplinks, told);
                room.metrics.forget_verdicts();
            }
        });
    }
}

impl Uplinks {
    /// Every key that there can be something to do for.
    fn everything(&self) -> Vec<UplinkName> {
        let uplinks = self.stores.uplinks.snapshot();
        uplinks.iter().map(|(name, _)| name.clone()).chain(self.stores.index.uplinks()).collect()
    }
}

/// What changes are passed on to. A standby is not woken: it looks at everything when it takes over, and keys that nobody
/// takes would pile up.
#[derive(Clone)]
struct Wake {
    queue: KeyQueue<UplinkName>,
    networks: KeyQueue<CrKey>,
    leadership: Leadership,
    expected: Expected,
}

impl Wake {
    fn networks(&self, keys: impl IntoIterator<Item = CrKey>) {
        if self.leadership.leads() {
            self.networks.enqueue_all(keys);
        }
    }

    fn up(&self, names: impl IntoIterator<Item = UplinkName>) {
        if self.leadership.leads() {
            self.queue.enqueue_all(names);
        }
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

/// The three watches, each of which wakes the room for the Uplinks that a change concerns.
fn watches(client: &Client, wake: &Wake, tally: &Tally) -> Watches {
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
        users: Users::default(),
        written: Written::default(),
    };

    let (woken, written, users) = (wake.clone(), stores.written.clone(), stores.users.clone());
    let uplinks = uplinks.on_change(move |change| {
        // What the watch has caught up with need not be kept.
        written.seen(change.key, change.new.as_ref());
        let facts = |uplink: Option<&Uplink>| uplink.map(|uplink| uplink.facts.clone());
        if facts(change.old.as_deref()) != facts(change.new.as_deref()) {
            woken.networks(users.of(change.key));
        }
        let as_expected = match (change.old.as_deref(), change.new.as_deref()) {
            (Some(old), Some(new)) => {
                !new.differs_beyond_status(old) && woken.expected.is_met_by(change.key, new)
            }
            _ => false,
        };
        if !as_expected {
            woken.up([change.key.clone()]);
        }
    });
    let (woken, all) = (wake.clone(), stores.clone());
    let nodes = nodes.on_change(move |change| {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        woken.up(affected::by_node(old, new, &all.uplinks.snapshot()));
        if old != new {
            woken.networks(all.users.all());
        }
    });
    let (woken, all, tally) = (wake.clone(), stores.clone(), tally.clone());
    let states = states.on_change(move |change| {
        let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
        all.index.change(key, old, new);
        tally.change(old, new);
        let more_than_metrics = old.zip(new).is_none_or(|(old, new)| new.differs_beyond_metrics(old));
        let facts = |state: Option<&State>| state.map(|state| state.facts.clone());
        if !more_than_metrics && facts(old) == facts(new) {
            return;
        }
        let uplinks = affected::by_state(key, old, new, &all.uplinks.snapshot(), &all.nodes.snapshot());
        woken.networks(uplinks.iter().flat_map(|uplink| all.users.of(uplink)));
        if more_than_metrics {
            woken.up(uplinks);
        }
    });
    (uplinks, nodes, states, stores)
}
