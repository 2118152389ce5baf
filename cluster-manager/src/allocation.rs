//! Numbers and subnets of networks: ids and tunnel keys on NetworkAttachmentDefinitions, ids and subnets on Nodes, and the
//! condition `NetworkAllocationSucceeded`.
//!
//! In: NetworkAttachmentDefinitions, whoever made them, and Nodes. Out: annotations of both, one patch per object whatever
//! changed at a time; the condition, and an Event for each node that did not get what it needs.
//!
//! * One [`ledger`] knows who has what. It is made from annotations when this process begins to lead, and follows changes
//!   from then on; nothing is kept anywhere else.
//! * Three rooms use it: [`nads`] brings networks in and out, [`nodes`] annotates Nodes, [`status`] tells how a network
//!   fares. Each looks at the object that changed and at nothing else.
//!
//! Never does: touch annotations of other owners, or hand the same thing to two.
//!
//! First file to read: [`ledger`].

mod connect;
mod egress;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod metrics;
mod nads;
mod nodes;
mod pace;
mod status;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_api::nad::Config;
use causeway_net::activity::Mode;
use causeway_net::network::name::{NadKey, Namespace, NetworkName, NodeName};
use causeway_net::render::{self, Cluster, ConfigError};
use causeway_runtime::engine::{self, KeyQueue, Limits, Pacing};
use causeway_runtime::health::Readiness;
use causeway_runtime::leader::Leadership;
use causeway_runtime::settings::Features;
use causeway_runtime::shutdown::Tasks;
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::ledger::{ClusterPlan, Identity};

use self::connect::{ConnectName, ConnectWatch, Connects};
use self::egress::{Egress, EgressIpName, EgressWatch, Needs};
use self::ledger::{Ledger, Starved, Stir};
use self::metrics::{Figures, Subnets};
use self::nads::Nads;
use self::nodes::Nodes;
use self::pace::Pace;
use self::status::Statuses;
use self::turns::{AtWork, FIRST_WORD, Turns};
use crate::observed::cr::{Cr, CrKey};
use crate::observed::nad::Nad;
use crate::observed::{Sources, Stores};
use crate::scale::ScaleMetrics;
use crate::{Meters, Surroundings};

/// Shortest time between two looks at one Node: networks that come in one moment are annotated together.
const NODE_INTERVAL: Duration = Duration::from_millis(10);

/// Looks at Nodes at a time. While all are busy, changes gather for the others.
const NODE_PASSES: usize = 8;

/// Looks at NetworkAttachmentDefinitions and networks at a time.
const PASSES: usize = 32;

/// Handle to the ledger. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Book {
    ledger: Arc<Mutex<Ledger>>,
    /// What a network that somebody wrote by hand must get on with.
    cluster: Arc<Cluster>,
    /// Whether the ledger is that of this term.
    made: Arc<AtomicBool>,
    pace: Pace,
    turns: Turns,
    wake: Wake,
    scale: ScaleMetrics,
}

/// Where a network is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// On every node, as every network.
    Everywhere,
    /// On these nodes.
    On(BTreeSet<NodeName>),
    /// Nobody has taken stock yet; whoever asks is woken then.
    Unknown,
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").finish_non_exhaustive()
    }
}

impl Book {
    /// A book in which nobody has anything yet.
    pub(crate) fn new(plan: ClusterPlan, cluster: &Cluster, leadership: &Leadership) -> Self {
        let wake = Wake {
            nads: KeyQueue::new(Pacing::default()),
            nodes: KeyQueue::new(Pacing { min_interval: Some(NODE_INTERVAL), ..Pacing::default() }),
            statuses: KeyQueue::new(Pacing::default()),
            uplinks: Arc::default(),
            networks: Arc::default(),
            leadership: leadership.clone(),
        };
        let ledger = Arc::new(Mutex::new(Ledger::new(plan)));
        let (cluster, scale) = (Arc::new(cluster.clone()), ScaleMetrics::default());
        Self {
            ledger,
            cluster,
            made: Arc::default(),
            pace: Pace::default(),
            turns: Turns::default(),
            wake,
            scale,
        }
    }

    /// The same book, that keeps metrics with a series for each network.
    pub(crate) fn scaled(self, scale: ScaleMetrics) -> Self {
        Self { scale, ..self }
    }

    /// Metrics with a series for each network.
    pub(crate) const fn scale(&self) -> &ScaleMetrics {
        &self.scale
    }

    /// Adds the numbers of node subnets to `registry`.
    pub(crate) fn count_subnets(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Subnets(self.clone())));
    }

    /// The figures of every network; none while this process does not lead.
    fn figures(&self) -> Vec<(NetworkName, Figures)> {
        let ledger = self.lock();
        if self.made.load(Ordering::Acquire) { ledger.figures() } else { Vec::new() }
    }

    /// Says that a network comes or goes, as long as the answer is kept.
    pub(crate) fn at_work(&self, network: &NetworkName) -> AtWork<'_> {
        AtWork::new(self, network)
    }

    /// Wakes whoever has to do with what a change of a network stirred up; Nodes once the first word about it is said, if it is
    /// being made.
    fn stirred_of(&self, network: &NetworkName, mut stir: Stir) {
        if self.turns.holds(network, &stir.nodes) {
            self.wake.nodes_after(std::mem::take(&mut stir.nodes), FIRST_WORD);
        }
        self.wake.stirred(stir);
    }

    /// How long a Node has to wait for networks that come or go; none where it is its turn.
    fn waits(&self, node: &NodeName) -> Option<Duration> {
        let nodes = self.lock().node_count();
        self.pace.wait(node, nodes, Instant::now())
    }

    /// The NetworkAttachmentDefinition of the primary network of a namespace.
    pub(crate) fn primary_in(&self, namespace: &Namespace) -> Option<NadKey> {
        self.lock().primary_in(namespace)
    }

    /// The numbers of a network that is about to be made.
    ///
    /// # Errors
    /// None are left; the text is for people.
    pub(crate) fn identify(&self, network: &NetworkName, config: &Config) -> Result<Identity, String> {
        self.lock().identify(network, config)
    }

    /// Takes over which NetworkAttachmentDefinitions a network has or is getting; what it has is free if there are none.
    pub(crate) fn settle(&self, network: &NetworkName, wanted: &BTreeSet<NadKey>) {
        let now = Timestamp::now();
        let stirs = {
            let mut ledger = self.lock();
            let pruned = ledger.expect_only(network, wanted, now);
            let freed = if wanted.is_empty() { ledger.disown(network, now) } else { Stir::default() };
            [pruned, freed]
        };
        for stir in stirs {
            self.wake.stirred(stir);
        }
        self.relieve();
    }

    /// Wakes who was refused for want of numbers, if some are free by now.
    fn relieve(&self) {
        let relieved = self.lock().relieved();
        self.wake.relieved(relieved);
    }

    /// The nodes that need a network.
    pub(crate) fn needed_on(&self, network: &NetworkName) -> Needed {
        let ledger = self.lock();
        match ledger.needed_on(network) {
            None => Needed::Everywhere,
            Some(_) if !self.made.load(Ordering::Acquire) => Needed::Unknown,
            Some(nodes) => Needed::On(nodes),
        }
    }

    /// Networks that are on other nodes than before go into `queue` from now on.
    pub(crate) fn wakes_of_activity(&self, queue: KeyQueue<CrKey>) {
        *self.wake.uplinks.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    }

    /// Networks that were refused for want of numbers go into `queue` once some are free.
    pub(crate) fn wakes_of_numbers(&self, queue: KeyQueue<CrKey>) {
        *self.wake.networks.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    }

    /// Whether a config can be a network of this cluster. One that a network object stands behind was looked at when it was
    /// made, and what became of it is told there.
    ///
    /// # Errors
    /// It cannot.
    fn accepts(&self, key: &NadKey, nad: &Nad, config: &Config) -> Result<(), ConfigError> {
        if nad.controller.is_some() || config.is_default_network() {
            return Ok(());
        }
        render::accept(config, key, &self.cluster).map(drop)
    }

    /// Makes the book anew from what is annotated.
    #[cfg(test)]
    pub(crate) fn rebuild(&self, stores: &Stores) {
        self.rebuild_with(stores, None, None);
    }

    /// The same, with what EgressIPs need and ClusterNetworkConnects connect.
    fn rebuild_with(&self, stores: &Stores, egress: Option<&Egress>, connects: Option<&Connects>) {
        // First of all: a pod that changes after the snapshot waits for the new ledger.
        let mut ledger = self.lock();
        let (nads, nodes) = (stores.nads(), stores.nodes());
        // Pods matter only where networks follow them.
        let pods = stores.pods();
        let plan = ledger.plan().clone();
        let follows_pods = plan.mode != Mode::Everywhere;
        let is_accepted = |(key, nad): &(&NadKey, &Arc<Nad>)| {
            nad.config().is_none_or(|config| self.accepts(key, nad, config).is_ok())
        };
        *ledger = Ledger::rebuild(
            plan,
            nads.iter().filter(is_accepted).map(|(key, nad)| (key.clone(), Arc::clone(nad))),
            nodes.iter().map(|(name, node)| (name.clone(), Arc::clone(node))),
            pods.iter().filter(|_| follows_pods).map(|(key, pod)| (key.clone(), Arc::clone(pod))),
            egress.map(Egress::needs).unwrap_or_default(),
            connects.map(Connects::connected).unwrap_or_default(),
            Timestamp::now(),
        );
        self.made.store(true, Ordering::Release);
        drop(ledger);
        if follows_pods {
            // Also those without a definition: whoever asked for their nodes before this was told nothing.
            self.wake.uplinks(stores.cudns().iter().map(|(key, _)| key.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the rooms wake each other with. A standby is not woken. Cheap to clone.
#[derive(Clone, Debug)]
struct Wake {
    nads: KeyQueue<NadKey>,
    nodes: KeyQueue<NodeName>,
    statuses: KeyQueue<NetworkName>,
    /// Of the room that tells networks of their Uplinks, if there is one.
    uplinks: Arc<Mutex<Option<KeyQueue<CrKey>>>>,
    /// Of the room that makes networks, if there is one.
    networks: Arc<Mutex<Option<KeyQueue<CrKey>>>>,
    leadership: Leadership,
}

impl Wake {
    /// Wakes whoever has to do with what a change stirred up.
    fn stirred(&self, stir: Stir) {
        if !self.leadership.leads() {
            return;
        }
        self.nodes.enqueue_all(stir.nodes);
        self.uplinks(stir.networks.iter().filter_map(CrKey::of_network));
        self.statuses.enqueue_all(stir.networks);
    }

    /// Wakes whoever tells ClusterUserDefinedNetworks of their Uplinks.
    fn uplinks(&self, keys: impl Iterator<Item = CrKey>) {
        if let Some(queue) = &*self.uplinks.lock().unwrap_or_else(PoisonError::into_inner) {
            queue.enqueue_all(keys.filter(|key| matches!(key, CrKey::Cudn(_))));
        }
    }

    /// Wakes who was refused for want of numbers.
    fn relieved(&self, relieved: BTreeSet<Starved>) {
        if !self.leadership.leads() {
            return;
        }
        let networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        for starved in relieved {
            match starved {
                Starved::Nad(key) => self.nads.enqueue(key),
                Starved::Network(network) => {
                    if let Some((queue, key)) = networks.as_ref().zip(CrKey::of_network(&network)) {
                        queue.enqueue(key);
                    }
                }
            }
        }
    }

    /// Wakes whoever makes a network.
    fn network(&self, key: CrKey) {
        let networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = networks.as_ref().filter(|_| self.leadership.leads()) {
            queue.enqueue(key);
        }
    }

    fn nad(&self, key: &NadKey) {
        if self.leadership.leads() {
            self.nads.enqueue(key.clone());
        }
    }

    fn nodes(&self, names: impl IntoIterator<Item = NodeName>) {
        if self.leadership.leads() {
            self.nodes.enqueue_all(names);
        }
    }

    /// Wakes these after that time, if nothing else does before.
    fn nodes_after(&self, names: impl IntoIterator<Item = NodeName>, delay: Duration) {
        if self.leadership.leads() {
            names.into_iter().for_each(|name| self.nodes.enqueue_after(name, delay));
        }
    }

    fn statuses(&self, names: impl IntoIterator<Item = NetworkName>) {
        if self.leadership.leads() {
            self.statuses.enqueue_all(names);
        }
    }
}

/// The three rooms, before they run.
pub(crate) struct Allocation {
    book: Book,
    stores: Stores,
    wake: Wake,
    nads: Nads,
    nodes: Nodes,
    statuses: Statuses,
    /// Who else needs networks on nodes, where that matters.
    egress: Option<Egress>,
    /// Which networks are connected, where that matters.
    connects: Option<Connects>,
}

/// Watches that only these rooms need, before they run.
pub(crate) struct OwnWatches {
    egress: Option<EgressWatch>,
    connects: Option<ConnectWatch>,
}

impl OwnWatches {
    /// Starts them.
    pub(crate) fn start(self, tasks: &Tasks, readiness: &Readiness) {
        if let Some(watch) = self.egress {
            egress::start(watch, tasks, readiness);
        }
        if let Some(watch) = self.connects {
            connect::start(watch, tasks, readiness);
        }
    }
}

impl Allocation {
    /// The rooms, subscribed to what they need. `default_nad` is made for the default network, if it is not there.
    pub(crate) fn new(
        surroundings: &Surroundings,
        book: &Book,
        default_nad: Option<NadKey>,
        features: Features,
        sources: Sources,
    ) -> (Self, Sources, OwnWatches) {
        let Surroundings { client, meters, leadership, recorder } = surroundings;
        let stores = sources.stores.clone();
        let wake = book.wake.clone();
        let hand = |manager| {
            causeway_runtime::writer::Writer::new(manager, meters.writes.clone()).fenced(leadership.clone())
        };
        let nads = Nads::new(client, hand, book, &stores, &wake, recorder, default_nad);
        let nodes = Nodes::new(client, hand, book, &stores, &wake, recorder);
        let statuses = Statuses::new(client, hand, book, &stores, nads.refused());
        let sources = subscribe(sources, book, &statuses);
        let follows = book.lock().plan().mode != Mode::Everywhere;
        let watch = (features.egress_ips && follows).then(|| egress::watch(client, &meters.watches));
        let egress = watch.as_ref().map(|watch| Egress::new(watch.store(), stores.clone()));
        let (sources, egress_watch) = follow(sources, watch, egress.as_ref(), book);
        let watch = (features.network_connect && follows).then(|| connect::watch(client, &meters.watches));
        let connects = watch.as_ref().map(|watch| Connects::new(watch.store(), stores.clone()));
        let (sources, connect_watch) = connect(sources, watch, connects.as_ref(), book);
        let rooms = Self { book: book.clone(), stores, wake, nads, nodes, statuses, egress, connects };
        (rooms, sources, OwnWatches { egress: egress_watch, connects: connect_watch })
    }

    /// Runs the rooms for one term of leadership.
    pub(crate) async fn run(&self, meters: &Meters, resync: Option<Duration>, over: &CancellationToken) {
        let limits = |parallelism| Limits { parallelism, resync, ..Limits::default() };
        let engine = &meters.engine;
        tokio::join!(
            engine::run(self.nads.clone(), self.wake.nads.clone(), limits(PASSES), engine, over.clone()),
            engine::run(
                self.nodes.clone(),
                self.wake.nodes.clone(),
                limits(NODE_PASSES),
                engine,
                over.clone()
            ),
            engine::run(
                self.statuses.clone(),
                self.wake.statuses.clone(),
                limits(PASSES),
                engine,
                over.clone()
            ),
        );
        // Until the next term nobody follows changes.
        self.book.made.store(false, Ordering::Release);
    }

    /// Waits until what only these rooms watch has been listed once.
    pub(crate) async fn wait_synced(&self) {
        if let Some(egress) = &self.egress {
            egress.wait_synced().await;
        }
        if let Some(connects) = &self.connects {
            connects.wait_synced().await;
        }
    }

    /// Takes stock at the beginning of a term: everything is looked at once.
    pub(crate) fn begin(&self) {
        self.nads.begin();
        self.statuses.begin();
        self.book.turns.forget_calls();
        self.book.rebuild_with(&self.stores, self.egress.as_ref(), self.connects.as_ref());
        self.wake.nads.enqueue_all(self.stores.nads().iter().map(|(key, _)| key.clone()));
        self.wake.nads.enqueue_all(self.nads.default_nad().cloned());
        self.wake.nodes.enqueue_all(self.stores.nodes().iter().map(|(name, _)| name.clone()));
        self.wake.statuses.enqueue_all(self.stores.crs().into_iter().map(|(key, _)| key.network()));
    }
}

/// EgressIPs, and Namespaces that they choose, decide where networks are needed.
fn follow(
    sources: Sources,
    watch: Option<EgressWatch>,
    egress: Option<&Egress>,
    book: &Book,
) -> (Sources, Option<EgressWatch>) {
    let Some((watch, egress)) = watch.zip(egress) else { return (sources, None) };
    let needs = |book: &Book, name: &EgressIpName, needs: &Needs| {
        let stir = book.lock().egress_ip(name, needs, Timestamp::now());
        book.wake.stirred(stir);
    };
    let (all, ledger) = (egress.clone(), book.clone());
    let watch = watch.on_change(move |change| {
        if ledger.wake.leadership.leads() {
            needs(&ledger, change.key, &all.after(change));
        }
    });
    let (all, ledger) = (egress.clone(), book.clone());
    let namespaces = sources.namespaces.on_change(move |change| {
        if ledger.wake.leadership.leads() {
            all.concerned(change).iter().for_each(|(name, needed)| needs(&ledger, name, needed));
        }
    });
    (Sources { namespaces, ..sources }, Some(watch))
}

/// ClusterNetworkConnects, and what they choose, decide where networks are needed because of others.
fn connect(
    sources: Sources,
    watch: Option<ConnectWatch>,
    connects: Option<&Connects>,
    book: &Book,
) -> (Sources, Option<ConnectWatch>) {
    let Some((watch, connects)) = watch.zip(connects) else { return (sources, None) };
    let connected = |book: &Book, name: &ConnectName, networks: &BTreeSet<NetworkName>| {
        let stir = book.lock().connect(name, networks, Timestamp::now());
        book.wake.stirred(stir);
    };
    let (all, ledger) = (connects.clone(), book.clone());
    let watch = watch.on_change(move |change| {
        if ledger.wake.leadership.leads() {
            connected(&ledger, change.key, &all.after(change));
        }
    });
    let (all, ledger) = (connects.clone(), book.clone());
    let namespaces = sources.namespaces.on_change(move |change| {
        if ledger.wake.leadership.leads() {
            for (name, networks) in all.on_namespace(change) {
                connected(&ledger, &name, &networks);
            }
        }
    });
    let of_network = || {
        let (all, ledger) = (connects.clone(), book.clone());
        move |key: &CrKey, old: Option<&Cr>, new: Option<&Cr>| {
            if ledger.wake.leadership.leads() {
                for (name, networks) in all.on_network(key, old, new) {
                    connected(&ledger, &name, &networks);
                }
            }
        }
    };
    let (of_tenant, of_cluster) = (of_network(), of_network());
    let udns = sources.udns.on_change(move |change| {
        of_tenant(change.key, change.old.as_deref(), change.new.as_deref());
    });
    let cudns = sources.cudns.on_change(move |change| {
        of_cluster(change.key, change.old.as_deref(), change.new.as_deref());
    });
    (Sources { udns, cudns, namespaces, ..sources }, Some(watch))
}

/// Each watch wakes the room for what changed.
fn subscribe(sources: Sources, book: &Book, statuses: &Statuses) -> Sources {
    let wake = &book.wake;
    let woken = wake.clone();
    let nads = sources.nads.on_change(move |change| woken.nad(change.key));
    let annotated = book.clone();
    let nodes = sources.nodes.on_change(move |change| {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        // One without a value before and after could not be read, and is gone or back now.
        let is_news = old.zip(new).is_none_or(|(old, new)| {
            old.uid != new.uid || old.labels != new.labels || annotated.lock().is_news(change.key, old, new)
        });
        if is_news {
            annotated.wake.nodes([change.key.clone()]);
        }
    });
    // What a definition says beyond its network object counts once the object says so too.
    let of_object = |wake: &Wake| {
        let (woken, index) = (wake.clone(), sources.stores.index.clone());
        move |key: &CrKey, old: Option<&Cr>, new: Option<&Cr>| {
            if old.zip(new).is_some_and(|(old, new)| old.network != new.network) {
                index.controlled_by(key).iter().for_each(|nad| woken.nad(nad));
            }
        }
    };
    let (on_tenant, on_cluster) = (of_object(wake), of_object(wake));
    let (woken, room) = (wake.clone(), statuses.clone());
    let udns = sources.udns.on_change(move |change| {
        on_tenant(change.key, change.old.as_deref(), change.new.as_deref());
        if room.is_news(change.key, change.old.as_deref(), change.new.as_deref()) {
            woken.statuses([change.key.network()]);
        }
    });
    let (woken, room) = (wake.clone(), statuses.clone());
    let cudns = sources.cudns.on_change(move |change| {
        on_cluster(change.key, change.old.as_deref(), change.new.as_deref());
        if room.is_news(change.key, change.old.as_deref(), change.new.as_deref()) {
            woken.statuses([change.key.network()]);
        }
    });
    let sources = Sources { udns, cudns, nads, nodes, ..sources };
    if book.lock().plan().mode == Mode::Everywhere {
        return sources;
    }
    let book = book.clone();
    let pods = sources.pods.on_change(move |change| {
        if book.wake.leadership.leads() {
            let stir = book.lock().pod(change.key, change.new.as_deref(), Timestamp::now());
            book.wake.stirred(stir);
        }
    });
    Sources { pods, ..sources }
}
