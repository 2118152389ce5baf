//! The Uplink controller: what an Uplink's nodes have found becomes its condition `Ready`; states that nobody needs
//! go.
//!
//! In: watches of Uplinks and UplinkStates, and what several rooms see of Nodes and networks. Out: the condition `Ready` on `uplinks/status` (server-side apply
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
mod rivals;
mod tally;
#[cfg(test)]
mod tests;
mod users;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use causeway_api::manager::FieldManager;
use causeway_api::uplink::Uplink as ApiUplink;
use causeway_api::uplink_state::UplinkState;
use causeway_net::transport::Advertiser;
use causeway_net::uplinks_ready::GatewayMode;
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::leader::Leadership;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Change, Watch};
use causeway_runtime::writer::Writer;
use jiff::Timestamp;
use kube::Api;
use prometheus_client::registry::Registry;
use tracing::debug;

use self::apply::Hand;
use self::confirm::Reader;
use self::error::UplinkError;
use self::metrics::Metrics;
use self::networks::Networks;
use self::observe::{StateIndex, Stores};
use self::rivals::{Advertisers, Rivals};
use self::tally::Tally;
use self::users::Users;
use self::watched::{State, StateKey, Uplink, UplinkName};
use crate::allocation::Book;
use crate::expected::Expected;
use crate::observed::Sources;
use crate::observed::cr::{Cr, CrKey};
use crate::wake::Wake;
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
    expected: Expected<UplinkName>,
}

impl Room for Uplinks {
    const NAME: &'static str = "uplink";
    type Key = UplinkName;
    type Error = UplinkError;

    async fn reconcile(&self, name: &UplinkName) -> Result<Requeue, UplinkError> {
        let world = observe::world(name, &self.stores)?;
        let mut plan = plan::uplink(name, &world, Timestamp::now());
        self.metrics.verdict(name, plan.verdict.as_ref());
        self.expected.set(name, plan.wanted.iter().cloned().collect());
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
    states: Watch<UplinkState, StateKey, State>,
    queue: KeyQueue<UplinkName>,
    room: Uplinks,
    told: Networks,
    told_queue: KeyQueue<CrKey>,
    leadership: Leadership,
}

impl Controller {
    /// A controller over this connection, with its metrics in `registry`, subscribed to what it needs.
    #[must_use]
    pub(crate) fn new(
        surroundings: &Surroundings,
        registry: &mut Registry,
        mode: GatewayMode,
        book: &Book,
        advertisers: Advertisers,
        sources: Sources,
    ) -> (Self, Sources) {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let pacing = || Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() };
        let (queue, told_queue) = (KeyQueue::new(pacing()), KeyQueue::new(pacing()));
        let uplinks = Watch::new(Api::all(client.clone()), watch::config(), UplinkName::of, |uplink| {
            Uplink::of(&uplink)
        });
        let states = Watch::new(Api::all(client.clone()), watch::config(), StateKey::of, State::of);
        let stores = Stores {
            uplinks: uplinks.store(),
            states: states.store(),
            shared: sources.stores.clone(),
            index: StateIndex::default(),
            users: Users::default(),
            written: Written::default(),
        };
        let hand = Hand::new(client.clone(), meters.writes.clone(), leadership.clone(), recorder.clone());
        let room = Uplinks {
            stores: stores.clone(),
            reader: Reader::new(client.clone()),
            hand: hand.remembering(stores.written.clone()),
            metrics: Metrics::register(registry),
            expected: Expected::default(),
        };
        let told = Networks {
            stores,
            book: book.clone(),
            mode,
            writer: Writer::new(FieldManager::ClusterManagerUplink.as_str(), meters.writes.clone())
                .fenced(leadership.clone()),
            api: Api::all(client.clone()),
            expected: Expected::default(),
            advertisers,
            rivals: Rivals::default(),
            wake: Wake::new(&told_queue, leadership),
        };
        book.wakes_of_activity(told_queue.clone());
        let bells = Bells {
            uplinks: Wake::new(&queue, leadership),
            networks: Wake::new(&told_queue, leadership),
            stores: room.stores.clone(),
            expected: room.expected.clone(),
            as_told: told.expected.clone(),
        };
        let (uplinks, states) = bells.subscribe(uplinks, states, Tally::register(registry));
        let sources = bells.subscribe_shared(sources);
        let (uplinks, states) = (uplinks.metered(&meters.watches), states.metered(&meters.watches));
        let leadership = leadership.clone();
        (Self { uplinks, states, queue, room, told, told_queue, leadership }, sources)
    }

    /// Who calls this with a change of RouteAdvertisements has the networks told that it concerns.
    pub(crate) fn advertised(&self) -> impl Fn(&Change<'_, Arc<str>, Advertiser>) + Send + Sync + 'static {
        let (wake, stores) = (self.told.wake.clone(), self.told.stores.shared.clone());
        move |change| wake.up(rivals::concerned(change, &stores))
    }

    /// Starts the watches, and in each term of leadership the engine, once every kind has been listed. An API server
    /// that is away is waited for; `readiness` says so meanwhile. A standby has the same snapshots as the leader, so it
    /// takes over without reading anything.
    pub fn start(self, tasks: &Tasks, readiness: &Readiness, meters: &Meters, resync: Option<Duration>) {
        let stores = self.room.stores.clone();
        readiness.add("uplink", move || stores.readiness().map_err(|error| error.to_string()));

        let stop = tasks.stop();
        tasks.spawn("watch of Uplinks", self.uplinks.run(stop.clone()));
        tasks.spawn("watch of UplinkStates", self.states.run(stop.clone()));

        let (room, queue, metrics, leadership) =
            (self.room, self.queue, meters.engine.clone(), self.leadership);
        let (told, told_queue) = (self.told, self.told_queue);
        let limits = Limits { resync, ..Limits::default() };
        tasks.spawn("uplink", async move {
            let synced = async {
                room.stores.wait_synced().await;
                if let Some(advertisers) = &told.advertisers {
                    advertisers.wait_synced().await;
                }
            };
            if stop.run_until_cancelled(synced).await.is_none() {
                return;
            }
            while let Some(term) = leadership.term(&stop).await {
                // From here on changes wake the room; what came before is in the snapshots.
                room.stores.written.forget_all();
                room.expected.forget_all();
                told.expected.forget_all();
                told.rivals.forget_all();
                queue.enqueue_all(room.everything());
                told_queue.enqueue_all(room.stores.shared.cudns().iter().map(|(key, _)| key.clone()));
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

/// What each change wakes: the Uplinks that it concerns, and the networks that are told of them.
#[derive(Clone)]
struct Bells {
    uplinks: Wake<UplinkName>,
    networks: Wake<CrKey>,
    stores: Stores,
    /// What Uplinks should say.
    expected: Expected<UplinkName>,
    /// What networks were told.
    as_told: Expected<CrKey>,
}

type OwnWatches = (Watch<ApiUplink, UplinkName, Uplink>, Watch<UplinkState, StateKey, State>);

impl Bells {
    /// To the kinds of this room.
    fn subscribe(
        &self,
        uplinks: Watch<ApiUplink, UplinkName, Uplink>,
        states: Watch<UplinkState, StateKey, State>,
        tally: Tally,
    ) -> OwnWatches {
        let bells = self.clone();
        let uplinks = uplinks.on_change(move |change| {
            // What the watch has caught up with need not be kept.
            bells.stores.written.seen(change.key, change.new.as_ref());
            bells.uplink(change.key, change.old.as_deref(), change.new.as_deref());
        });
        let bells = self.clone();
        let states = states.on_change(move |change| {
            let (key, old, new) = (change.key, change.old.as_deref(), change.new.as_deref());
            bells.stores.index.change(key, old, new);
            tally.change(old, new);
            bells.state(key, old, new);
        });
        (uplinks, states)
    }

    /// To the kinds that several rooms see.
    fn subscribe_shared(&self, sources: Sources) -> Sources {
        let bells = self.clone();
        let nodes = sources.nodes.on_change(move |change| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            if affected::is_seen(old, new) {
                bells.uplinks.up(affected::by_node(old, new, &bells.stores.uplinks.snapshot()));
                bells.networks.up(bells.stores.users.all());
            }
        });
        let bells = self.clone();
        let cudns = sources.cudns.on_change(move |change| {
            bells.network(change.key, change.old.as_deref(), change.new.as_deref());
        });
        Sources { cudns, nodes, ..sources }
    }

    fn uplink(&self, name: &UplinkName, old: Option<&Uplink>, new: Option<&Uplink>) {
        if old.map(|old| &old.facts) != new.map(|new| &new.facts) {
            self.networks.up(self.stores.users.of(name));
        }
        let echo = old.zip(new).is_some_and(|(old, new)| {
            // What is to be withdrawn is in no condition that is expected.
            let as_expected = !new.owns_obsolete && self.expected.are_met_by(name, &new.conditions);
            !new.differs_beyond_status(old) && as_expected
        });
        if !echo {
            self.uplinks.up([name.clone()]);
        }
    }

    fn state(&self, key: &StateKey, old: Option<&State>, new: Option<&State>) {
        let more_than_metrics = old.zip(new).is_none_or(|(old, new)| new.differs_beyond_metrics(old));
        if !more_than_metrics && old.map(|old| &old.facts) == new.map(|new| &new.facts) {
            return;
        }
        let (all, nodes) = (self.stores.uplinks.snapshot(), self.stores.shared.nodes());
        let uplinks = affected::by_state(key, old, new, &all, &nodes);
        self.networks.up(uplinks.iter().flat_map(|uplink| self.stores.users.of(uplink)));
        if more_than_metrics {
            self.uplinks.up(uplinks);
        }
    }

    fn network(&self, key: &CrKey, old: Option<&Cr>, new: Option<&Cr>) {
        self.uplinks.up(self.stores.users.change(key, old, new));
        // Most networks name no Uplink, and their conditions change several times: nothing of that is told here.
        let names_none = |cr: Option<&Cr>| cr.is_some_and(|cr| cr.uplinks.is_empty());
        let is_news = !(names_none(old) && names_none(new));
        if is_news && !self.as_told.are_echoed(key, old, new) {
            self.networks.up([key.clone()]);
        }
    }
}
