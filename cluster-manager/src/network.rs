//! The network controller: UserDefinedNetworks and ClusterUserDefinedNetworks become NetworkAttachmentDefinitions.
//!
//! In: network objects, Namespaces, NetworkAttachmentDefinitions and who uses those, and what transports rest on
//! ([`transport`]). Out: a NetworkAttachmentDefinition in each namespace that a network is for, our finalizer on both, and
//! the conditions `NetworkCreated`, `TransportAccepted` and, of a network without Uplinks, `UplinksReady` (server-side
//! apply as `user-defined-network-controller`). The key is the network object.
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
mod evpn;
mod leftovers;
mod metrics;
mod observe;
mod plan;
#[cfg(test)]
mod tests;
mod transport;
mod verdict;
mod vtep;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::condition::Wanted;
use causeway_net::cudn_uplinks::{UplinkFeature, UplinksRefused, uplink_for_nads};
use causeway_net::network::name::{NadKey, Namespace};
use causeway_net::render::{self, Cluster, Feature, Rendered, Request, Vids};
use causeway_net::transport::{Advertiser, EvpnProblem};
use causeway_net::uplinks_ready::{self, GatewayMode};
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing, Requeue, Room};
use causeway_runtime::health::Readiness;
use causeway_runtime::settings::{Features, Settings};
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{Change, Store};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::apply::Hand;
use self::error::NetworkError;
use self::evpn::Domains;
use self::leftovers::{Everything, Leftovers};
use self::metrics::Objects;
use self::observe::{Halt, World};
use self::plan::SiteStep;
use self::transport::{CarrierWatches, Carriers};
use self::vtep::Vteps;
use crate::allocation::Book;
use crate::expected::Expected;
use crate::observed::cr::{Cr, CrKey};
use crate::observed::index::{Cause, Waiting};
use crate::observed::place::Place;
use crate::observed::{Sources, Stores};
use crate::wake::Wake;
use crate::written::UNSEEN;
use crate::{Meters, Surroundings};

pub(crate) use self::metrics::gauges;

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
    gateway_mode: GatewayMode,
    carriers: Carriers,
    domains: Domains,
    hand: Hand,
    book: Book,
    waiting: Waiting,
    expected: Expected<CrKey>,
    wake: Wake<CrKey>,
}

impl Room for Networks {
    const NAME: &'static str = "network";
    type Key = CrKey;
    type Error = NetworkError;

    async fn reconcile(&self, key: &CrKey) -> Result<Requeue, NetworkError> {
        let _at_work = self.book.at_work(&key.network());
        let mut world = observe::world(key, &self.stores, |cr, there| self.halt(cr, there))?;
        observe::second_primaries(&mut world, &self.stores, |namespace| self.book.primary_in(namespace));
        let vids = self.vids(key, &world);
        let plan = plan::network(&world, |cr, namespace| self.render(key, cr, namespace, &vids));
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
            self.book.scale().forget(&key.network());
            self.wake.up(self.domains.release(key));
            return Ok(if plan.orphans.is_empty() { Requeue::Gone } else { Requeue::Done });
        };
        if let Some(namespace) = world.unseen {
            // It was there before the object: the watch will show it, or one that can be read.
            self.waiting.set(key, BTreeSet::from([Cause::Namespace(namespace)]));
            return Ok(Requeue::Done);
        }
        let begun = Instant::now();
        let (mut outcome, rest) = apply::run(key, &cr, &plan, &self.hand).await?;
        if !(plan.sites.is_empty() && plan.removals.is_empty()) {
            self.book.scale().nads_synced(&key.network(), begun.elapsed());
        }
        if plan.sites.is_empty() && plan.halt.is_none() && !cr.terminating {
            outcome.problems.extend(self.futile(&cr));
        }
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
            let problem = self.evpn_problem(&cr);
            wanted.extend(self.carriers.accepted(&cr, problem.as_ref()));
            wanted.extend(self.without_uplinks(key, &cr));
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
    /// Why a network is left alone, whatever stands there; it has something in the namespaces `there`.
    fn halt(&self, cr: &Cr, there: &[Namespace]) -> Option<Halt> {
        if let Err(refused @ UplinksRefused::FeatureOff) = self.uplink(cr) {
            return Some(Halt::Ignored(refused.to_string()));
        }
        let problem = self.evpn_problem(cr)?;
        // A VTEP that loses its acceptance takes no network away.
        let frozen = problem.freezes_nads() && !there.is_empty();
        Some(if frozen { Halt::Frozen(there.to_vec()) } else { Halt::Evpn(problem) })
    }

    /// The Uplink that leads out of a network.
    fn uplink<'c>(&self, cr: &'c Cr) -> Result<Option<&'c str>, UplinksRefused> {
        let feature = if self.features.uplinks() { UplinkFeature::On } else { UplinkFeature::Off };
        uplink_for_nads(&cr.uplinks, feature, self.gateway_mode)
    }

    /// What `UplinksReady` says of a network that has none: known from the beginning, it goes out with the rest.
    fn without_uplinks(&self, key: &CrKey, cr: &Cr) -> Option<Wanted> {
        let is_told = self.features.uplinks() && matches!(key, CrKey::Cudn(_)) && cr.uplinks.is_empty();
        let wanted = is_told.then(|| uplinks_ready::without_uplinks().wanted())?;
        Some(Wanted { observed_generation: cr.generation, ..wanted })
    }

    /// What would be wrong in every namespace that the network were for. Upstream tells nothing before there is one.
    fn futile(&self, cr: &Cr) -> Option<String> {
        match self.uplink(cr) {
            Err(refused @ UplinksRefused::GatewayMode(_)) => {
                Some(not_generated(&format!("failed to render CNI network config: {refused}")))
            }
            Err(UplinksRefused::FeatureOff) | Ok(_) => None,
        }
    }

    /// Why EVPN cannot be the transport of a network that asks for it.
    fn evpn_problem(&self, cr: &Cr) -> Option<EvpnProblem> {
        self.carriers.evpn_problem(cr, self.features, self.gateway_mode)
    }

    /// The VLAN ids of a network that is to be made somewhere.
    fn vids(&self, key: &CrKey, world: &World) -> Result<Vids, String> {
        let cr = world.cr.as_ref().filter(|cr| !cr.terminating && !world.sites.is_empty());
        let Some(cr) = cr else { return Ok(Vids::default()) };
        let (vids, relieved) = self.domains.vids(key, cr);
        self.wake.up(relieved.into_iter().filter(|other| other != key));
        vids
    }

    /// Gives up namespaces in which the network neither makes anything nor has made something that is not seen yet.
    fn give_up_claims(&self, key: &CrKey, world: &World, making: BTreeSet<Namespace>) {
        let unseen = world.sites.iter().filter(|site| site.unseen).map(|site| site.namespace.clone());
        for namespace in self.hand.claims.keep_only(key, &unseen.chain(making).collect()) {
            let waiting = self.waiting.for_cause(&Cause::Namespace(namespace));
            self.wake.up(waiting.into_iter().filter(|other| other != key));
        }
    }

    fn render(
        &self,
        key: &CrKey,
        cr: &Cr,
        namespace: &Namespace,
        vids: &Result<Vids, String>,
    ) -> Result<Rendered, String> {
        let vids = *vids.as_ref().map_err(|error| format!("failed to allocate EVPN IDs: {error}"))?;
        let (network, nad) = (key.network(), key.nad_in(namespace));
        let uplink = cr.uplinks.first().map(String::as_str);
        let request = Request { spec: &cr.network, network: &network, nad: &nad, uplink, vids };
        render::render(&request, &self.cluster).map_err(|error| not_generated(&error.to_string()))
    }
}

fn not_generated(why: &str) -> String {
    format!("failed to generate NetworkAttachmentDefinition: {why}")
}

/// Switches of the cluster that decide what networks can ask for.
pub(crate) fn features(settings: &Settings) -> BTreeSet<Feature> {
    let features = settings.features;
    let local = settings.gateway_mode == causeway_runtime::settings::GatewayMode::Local;
    let switches = [
        (Feature::PreconfiguredAddresses, features.preconfigured_udn_addresses()),
        (Feature::PersistentIps, features.persistent_ips),
        (Feature::Evpn, features.evpn && features.advertises_routes() && local),
    ];
    switches.into_iter().filter(|(_, on)| *on).map(|(feature, _)| feature).collect()
}

/// The controller, before it runs.
pub(crate) struct Controller {
    room: Networks,
    queue: KeyQueue<CrKey>,
    /// What is to be taken away where Uplinks are off.
    leftovers: Option<Leftovers>,
    /// Who judges VTEPs where networks can rest on some.
    vteps: Option<Vteps>,
}

/// Watches that only this room needs, before they run.
pub(crate) struct OwnWatches(CarrierWatches);

impl OwnWatches {
    /// The RouteAdvertisements, where their feature is on.
    pub(crate) fn advertisers(&self) -> Option<Store<Arc<str>, Advertiser>> {
        self.0.advertisers()
    }

    /// Calls `hear` with each change of RouteAdvertisements too.
    pub(crate) fn heard_by(
        self,
        hear: impl Fn(&Change<'_, Arc<str>, Advertiser>) + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.heard_by(hear))
    }

    /// Starts them.
    pub(crate) fn start(self, tasks: &Tasks, readiness: &Readiness) {
        self.0.start(tasks, readiness);
    }
}

impl Controller {
    /// A controller, subscribed to what it needs.
    pub(crate) fn new(
        surroundings: &Surroundings,
        cluster: Cluster,
        settings: &Settings,
        book: &Book,
        sources: Sources,
    ) -> (Self, Sources, OwnWatches) {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let (features, gateway_mode) = (settings.features, crate::gateway_mode(settings));
        let carriers = CarrierWatches::new(client, features, gateway_mode, &meters.watches);
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
        let wake = Wake::new(&queue, leadership);
        let room = Networks {
            stores,
            cluster: Arc::new(cluster),
            features,
            gateway_mode,
            carriers: carriers.carriers(),
            domains: Domains::default(),
            hand,
            book: book.clone(),
            waiting: Waiting::default(),
            expected: Expected::default(),
            wake: wake.clone(),
        };
        book.wakes_of_numbers(queue.clone());
        let sources = subscribe(sources, &wake, &room);
        let hand = |manager| {
            causeway_runtime::writer::Writer::new(manager, meters.writes.clone()).fenced(leadership.clone())
        };
        let vteps = carriers
            .vteps()
            .map(|store| Vteps::new(client, hand, recorder.clone(), store, room.stores.clone()));
        let judged = vteps.clone().map(|vteps| (vteps, wake.clone()));
        let sources = judge(sources, judged.clone());
        let carriers = carriers.judged(judged).on_change(&room.stores, move |keys| wake.up(keys));
        let leftovers = (!features.uplinks())
            .then(|| Leftovers::new(client, meters.writes.clone(), leadership.clone(), room.stores.clone()));
        (Self { room, queue, leftovers, vteps }, sources, OwnWatches(carriers))
    }

    /// Adds the numbers of network objects to `registry`.
    pub(crate) fn count_objects(&self, registry: &mut Registry) {
        let objects = Objects::new(self.room.stores.clone(), self.room.wake.clone());
        registry.register_collector(Box::new(objects));
    }

    /// Waits until what only this room watches has been listed once.
    pub(crate) async fn wait_synced(&self) {
        self.room.carriers.wait_synced().await;
    }

    /// Everything is looked at once at the beginning of a term.
    pub(crate) fn begin(&self) {
        let Networks { stores, waiting, expected, hand, .. } = &self.room;
        // Objects may have gone, and others may have written, while another one led.
        waiting.forget_all();
        expected.forget_all();
        hand.claims.forget_all();
        self.room.domains.rebuild(stores);
        if let Some(leftovers) = &self.leftovers {
            leftovers.queue.enqueue(Everything);
        }
        if let Some(vteps) = &self.vteps {
            vteps.begin();
        }
        self.queue.enqueue_all(stores.crs().into_iter().map(|(key, _)| key));
        self.queue.enqueue_all(stores.index.controllers());
    }

    /// Runs the room for one term of leadership.
    pub(crate) async fn run(&self, meters: &Meters, resync: Option<Duration>, over: &CancellationToken) {
        let limits = Limits { parallelism: PASSES, resync, ..Limits::default() };
        let networks =
            engine::run(self.room.clone(), self.queue.clone(), limits, &meters.engine, over.clone());
        let leftovers = async {
            if let Some(room) = &self.leftovers {
                engine::run(room.clone(), room.queue.clone(), limits, &meters.engine, over.clone()).await;
            }
        };
        let vteps = async {
            if let Some(room) = &self.vteps {
                engine::run(room.clone(), room.queue.clone(), limits, &meters.engine, over.clone()).await;
            }
        };
        tokio::join!(networks, leftovers, vteps);
    }
}

/// VTEPs are judged anew when nodes' addresses change, or who rests on them.
fn judge(sources: Sources, room: Option<(Vteps, Wake<CrKey>)>) -> Sources {
    let Some((room, wake)) = room else { return sources };
    let (vteps, woken) = (room.clone(), wake.clone());
    let nodes = sources.nodes.on_change(move |change| {
        if woken.leads() {
            vteps.node_changed(change.old.as_deref(), change.new.as_deref());
        }
    });
    let cudns = sources.cudns.on_change(move |change| {
        if wake.leads() {
            room.network_changed(change.old.as_deref(), change.new.as_deref());
        }
    });
    Sources { cudns, nodes, ..sources }
}

/// Each watch wakes the networks that a change concerns.
fn subscribe(sources: Sources, wake: &Wake<CrKey>, room: &Networks) -> Sources {
    let of_cr = |wake: &Wake<CrKey>, room: &Networks| {
        let (wake, expected) = (wake.clone(), room.expected.clone());
        move |key: &CrKey, old: Option<&Cr>, new: Option<&Cr>| {
            if !expected.are_echoed(key, old, new) {
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
        if new.is_some() {
            all.hand.claims.seen(key);
        }
        if plan::is_news_to_rivals(old, new) {
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
