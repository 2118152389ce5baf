//! The network controller: UserDefinedNetworks and ClusterUserDefinedNetworks become NetworkAttachmentDefinitions.
//!
//! In: network objects, Namespaces, NetworkAttachmentDefinitions, and who uses those. Out: a NetworkAttachmentDefinition in
//! each namespace that a network is for, our finalizer on both, and the conditions `NetworkCreated` and
//! `TransportAccepted` (server-side apply as `user-defined-network-controller`). The key is the network object.
//!
//! * A network that cannot get on says what it waits for ([`crate::observed::index::Waiting`]); a change of that wakes it.
//!   Nothing is polled and nothing is given up.
//! * A namespace has one primary network: the first that gets it keeps it. Two that come at once are told apart by a claim.
//! * A NetworkAttachmentDefinition that is put right, deleted by hand or stripped of its finalizer is made again; one that
//!   somebody else made is reported and left alone; one that pods use stays until they are gone.
//!
//! Never does: allocate anything (that is [`crate::allocation`]), or touch conditions of others.
//!
//! First file to read: [`plan`].

mod apply;
mod claims;
mod error;
mod observe;
mod plan;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::nad::Config;
use causeway_api::network::Transport;
use causeway_net::network::name::{NadKey, Namespace};
use causeway_net::render::{self, Cluster, Feature, Request, Vids};
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::leader::Leadership;
use causeway_runtime::settings::{Features, GatewayMode as SettingsMode, Settings};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use self::apply::Hand;
use self::error::NetworkError;
use self::observe::{Halt, World};
use self::plan::SiteStep;
use crate::allocation::Book;
use crate::expected::Expected;
use crate::observed::cr::{Cr, CrKey};
use crate::observed::index::{Cause, Waiting};
use crate::observed::nad::Nad;
use crate::observed::place::Place;
use crate::observed::{Sources, Stores};
use crate::written::UNSEEN;
use crate::{Meters, Surroundings};

/// Shortest time between two looks at one network that events ask for.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Looks at a time: each waits for the API server most of its time.
const PASSES: usize = 32;

/// The room that the engine runs.
#[derive(Clone)]
struct Networks {
    stores: Stores,
    cluster: Arc<Cluster>,
    features: Features,
    local_gateway: bool,
    hand: Hand,
    book: Book,
    waiting: Waiting,
    expected: Expected<CrKey>,
    wake: Wake,
}

impl Room for Networks {
    const NAME: &'static str = "network";
    type Key = CrKey;
    type Error = NetworkError;

    async fn reconcile(&self, key: &CrKey) -> Result<Requeue, NetworkError> {
        let _at_work = self.book.at_work();
        let mut world = observe::world(key, &self.stores, |cr| self.halt(cr))?;
        observe::second_primaries(&mut world, &self.stores, |namespace| self.book.primary_in(namespace));
        let plan = plan::network(&world, |cr, namespace| self.render(key, cr, namespace));
        // Before anything is done: a change that comes meanwhile must find who waits for it.
        let making = plan.sites.iter().filter(|(_, step)| matches!(step, SiteStep::Create(_)));
        let making: BTreeSet<Namespace> = making.map(|(namespace, _)| namespace.clone()).collect();
        let may_wait = making.iter().flat_map(|namespace| plan::causes(&key.nad_in(namespace)));
        self.waiting.set(key, plan.causes.iter().cloned().chain(may_wait).collect());
        self.give_up_claims(key, &world, making);
        apply::orphans(&world, &plan, &self.hand).await?;
        let Some(cr) = world.cr.clone() else {
            self.expected.set(key, Vec::new());
            self.book.settle(&key.network(), &BTreeSet::new());
            return Ok(if plan.orphans.is_empty() { Requeue::Gone } else { Requeue::Done });
        };
        if let Some(namespace) = world.unseen {
            // It was there before the object: the watch will show it, or one that can be read.
            self.waiting.set(key, BTreeSet::from([Cause::Namespace(namespace)]));
            return Ok(Requeue::Done);
        }
        let (outcome, rest) = apply::run(key, &cr, &plan, &self.hand).await?;
        self.waiting.set(key, rest.causes);
        if cr.terminating && outcome.problems.is_empty() {
            return Ok(Requeue::Done);
        }
        let there = outcome.there.iter().map(|namespace| key.nad_in(namespace));
        let there: BTreeSet<NadKey> = there.chain(outcome.terminating.iter().cloned()).collect();
        if outcome.halt.is_none() && !cr.terminating {
            self.book.settle(&key.network(), &there);
        }
        let has_no_place = matches!(key, CrKey::Udn(_)) && plan.sites.is_empty();
        if outcome.halt.is_some() || cr.terminating || !has_no_place {
            let mut wanted = vec![verdict::created(key, &cr, &outcome)];
            let evpn = self.evpn_problem(&cr);
            wanted.extend(verdict::transport(&cr, self.features.advertises_routes(), evpn));
            self.expected.set(key, wanted.clone());
            self.hand.tell(key, &wanted, Timestamp::now()).await?;
        }
        if let Some(error) = rest.again {
            return Err(error);
        }
        // Something that is gone before the watch showed it is missed by nobody else.
        let unseen = rest.unseen || world.sites.iter().any(|site| site.unseen);
        Ok(if unseen { Requeue::After(UNSEEN) } else { Requeue::Done })
    }
}

impl Networks {
    /// Why a network is left alone, whatever stands there.
    fn halt(&self, cr: &Cr) -> Option<Halt> {
        if !cr.uplinks.is_empty() && !self.features.uplinks() {
            let why = "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN";
            return Some(Halt::Ignored(why));
        }
        self.evpn_problem(cr).map(Halt::Evpn)
    }

    /// Why EVPN cannot be the transport of a network that asks for it.
    fn evpn_problem(&self, cr: &Cr) -> Option<&'static str> {
        if cr.network.transport != Some(Transport::Evpn) {
            return None;
        }
        if !self.features.evpn || !self.features.advertises_routes() {
            return Some("EVPN transport requested but EVPN feature is not enabled");
        }
        if !self.local_gateway {
            return Some("EVPN transport requested but EVPN feature is only supported in local gateway mode");
        }
        Some("EVPN transport requested but this version serves no VTEP objects")
    }

    /// Gives up namespaces in which the network neither makes anything nor has made something that is not seen yet.
    fn give_up_claims(&self, key: &CrKey, world: &World, making: BTreeSet<Namespace>) {
        let unseen = world.sites.iter().filter(|site| site.unseen).map(|site| site.namespace.clone());
        for namespace in self.hand.claims.keep_only(key, &unseen.chain(making).collect()) {
            let waiting = self.waiting.for_cause(&Cause::Namespace(namespace));
            self.wake.up(waiting.into_iter().filter(|other| other != key));
        }
    }

    fn render(&self, key: &CrKey, cr: &Cr, namespace: &Namespace) -> Result<Config, String> {
        let (network, nad) = (key.network(), key.nad_in(namespace));
        let request = Request {
            spec: &cr.network,
            network: &network,
            nad: &nad,
            uplink: cr.uplinks.first().map(String::as_str),
            vids: Vids::default(),
        };
        let rendered = render::render(&request, &self.cluster);
        rendered.map(|rendered| rendered.config).map_err(|error| error.to_string())
    }
}

/// Switches of the cluster that decide what networks can ask for.
pub(crate) fn features(settings: &Settings) -> BTreeSet<Feature> {
    let features = settings.features;
    let local = settings.gateway_mode == SettingsMode::Local;
    let switches = [
        (Feature::PreconfiguredAddresses, features.preconfigured_udn_addresses()),
        (Feature::PersistentIps, features.persistent_ips),
        (Feature::Evpn, features.evpn && features.advertises_routes() && local),
    ];
    switches.into_iter().filter(|(_, on)| *on).map(|(feature, _)| feature).collect()
}

/// What changes are passed on to. A standby is not woken.
#[derive(Clone, Debug)]
struct Wake {
    queue: KeyQueue<CrKey>,
    leadership: Leadership,
}

impl Wake {
    fn up(&self, keys: impl IntoIterator<Item = CrKey>) {
        if self.leadership.leads() {
            self.queue.enqueue_all(keys);
        }
    }
}

/// The controller, before it runs.
pub(crate) struct Controller {
    room: Networks,
    queue: KeyQueue<CrKey>,
}

impl Controller {
    /// A controller, subscribed to what it needs.
    pub(crate) fn new(
        surroundings: &Surroundings,
        cluster: Cluster,
        settings: &Settings,
        book: &Book,
        sources: Sources,
    ) -> (Self, Sources) {
        let Surroundings { client, meters, leadership, recorder: _ } = surroundings;
        let queue = KeyQueue::new(Pacing { min_interval: Some(MIN_INTERVAL), ..Pacing::default() });
        let stores = sources.stores.clone();
        let hand = Hand::new(
            client.clone(),
            meters.writes.clone(),
            leadership.clone(),
            cluster.gateway_mode,
            stores.clone(),
            book.clone(),
        );
        let wake = Wake { queue: queue.clone(), leadership: leadership.clone() };
        let room = Networks {
            stores,
            cluster: Arc::new(cluster),
            features: settings.features,
            local_gateway: settings.gateway_mode == SettingsMode::Local,
            hand,
            book: book.clone(),
            waiting: Waiting::default(),
            expected: Expected::default(),
            wake: wake.clone(),
        };
        book.wakes_of_numbers(queue.clone());
        let sources = subscribe(sources, &wake, &room);
        (Self { room, queue }, sources)
    }

    /// Everything is looked at once at the beginning of a term.
    pub(crate) fn begin(&self) {
        let Networks { stores, waiting, expected, hand, .. } = &self.room;
        // Objects may have gone, and others may have written, while another one led.
        waiting.forget_all();
        expected.forget_all();
        hand.claims.forget_all();
        self.queue.enqueue_all(stores.crs().into_iter().map(|(key, _)| key));
        self.queue.enqueue_all(stores.index.controllers());
    }

    /// Runs the room for one term of leadership.
    pub(crate) async fn run(&self, meters: &Meters, resync: Option<Duration>, over: &CancellationToken) {
        let limits = Limits { parallelism: PASSES, resync, ..Limits::default() };
        engine::run(self.room.clone(), self.queue.clone(), limits, &meters.engine, over.clone()).await;
    }
}

/// Each watch wakes the networks that a change concerns.
fn subscribe(sources: Sources, wake: &Wake, room: &Networks) -> Sources {
    let of_cr = |wake: &Wake, room: &Networks| {
        let (wake, expected) = (wake.clone(), room.expected.clone());
        move |key: &CrKey, old: Option<&Cr>, new: Option<&Cr>| {
            let echo = old.zip(new).is_some_and(|(old, new)| {
                !new.differs_beyond_status(old) && expected.are_met_by(key, &new.conditions)
            });
            if !echo {
                wake.up([key.clone()]);
            }
        }
    };
    let woken = of_cr(wake, room);
    let udns = sources.udns.on_change(move |change| {
        woken(change.key, change.old.as_deref(), change.new.as_deref());
    });
    let woken = of_cr(wake, room);
    let cudns = sources.cudns.on_change(move |change| {
        woken(change.key, change.old.as_deref(), change.new.as_deref());
    });

    let (woken, all) = (wake.clone(), room.clone());
    let nads = sources.nads.on_change(move |change| {
        let (key, namespace) = (change.key, change.key.namespace());
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let controllers = [old, new].into_iter().flatten().filter_map(|nad| nad.controller.as_ref());
        woken.up(controllers.map(|controller| controller.cr.clone()));
        woken.up(all.waiting.for_cause(&Cause::Nad(key.clone())));
        let primary = |nad: Option<&Nad>| nad.is_some_and(Nad::is_primary);
        if new.is_some() {
            all.hand.claims.seen(key);
        }
        if primary(old) && !primary(new) {
            woken.up(all.waiting.for_cause(&Cause::Namespace(namespace.clone())));
        }
    });

    let (woken, all) = (wake.clone(), room.clone());
    let namespaces = sources.namespaces.on_change(move |change| {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        woken.up(all.waiting.for_cause(&Cause::Namespace(change.key.clone())));
        woken.up(all.stores.index.networks_in(change.key));
        let (before, after) = (living(old), living(new));
        let cudns = all.stores.cudns();
        let concerned = cudns.iter().filter(|(_, cr)| {
            let chooses = |place: Option<&Place>| place.is_some_and(|place| cr.chooses(&place.labels));
            chooses(before) != chooses(after)
        });
        woken.up(concerned.map(|(key, _)| key.clone()));
    });

    let (woken, all) = (wake.clone(), room.clone());
    let pods = sources.pods.on_change(move |change| {
        let freed = all.stores.index.pod(change);
        woken.up(freed.into_iter().flat_map(|nad| all.waiting.for_cause(&Cause::Nad(nad))));
        let blind = |pod: Option<&crate::observed::pod::Pod>| pod.is_some_and(|pod| pod.attached.is_err());
        if blind(change.old.as_deref()) {
            let namespace = Namespace::from(change.key.namespace.as_str());
            woken.up(all.waiting.for_cause(&Cause::Namespace(namespace)));
        }
    });
    Sources { udns, cudns, nads, namespaces, pods, ..sources }
}

/// A Namespace that is not being deleted.
fn living(place: Option<&Place>) -> Option<&Place> {
    place.filter(|place| !place.terminating)
}
