//! What several rooms watch: network objects, NetworkAttachmentDefinitions, Namespaces, Nodes and Pods.
//!
//! In: the API server. Out: snapshots of slim values ([`Stores`]) and an [`index::Index`] of what belongs together. Each
//! kind is watched once, whichever rooms read it, and a value holds what any of them reads: so a room that is told of a
//! change first looks whether it is one of what it reads. Kinds of one room are watched by that room.
//!
//! Never does: decide anything, or write.

pub(crate) mod cr;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod index;
pub(crate) mod nad;
pub(crate) mod place;
pub(crate) mod pod;

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway_api::nad::GatewayMode;
use causeway_net::activity;
use causeway_net::namespaces::NamespaceSelector;
use causeway_net::network::name::{NadKey, Namespace, NodeName};
use causeway_runtime::health::Readiness;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Lookup, NamespacedName, NotReady, Snapshot, Store, Watch, WatchMetrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};

use self::cr::{Cr, CrKey, WatchedCudn, WatchedUdn};
use self::index::Index;
use self::nad::{Nad, WatchedNad};
use self::place::{Node, Place, WatchedNamespace, WatchedNode};
use self::pod::{Pod, WatchedPod};
use crate::written::Written;

/// Watches that are being set up: rooms subscribe, then [`Sources::start`] runs them.
pub(crate) struct Sources {
    pub(crate) udns: Watch<WatchedUdn, CrKey, Cr>,
    pub(crate) cudns: Watch<WatchedCudn, CrKey, Cr>,
    pub(crate) nads: Watch<WatchedNad, NadKey, Nad>,
    pub(crate) namespaces: Watch<WatchedNamespace, Namespace, Place>,
    pub(crate) nodes: Watch<WatchedNode, NodeName, Node>,
    pub(crate) pods: Watch<WatchedPod, NamespacedName, Pod>,
    pub(crate) stores: Stores,
}

/// Where the newest snapshots come from. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Stores {
    udns: Store<CrKey, Cr>,
    cudns: Store<CrKey, Cr>,
    nads: Store<NadKey, Nad>,
    namespaces: Store<Namespace, Place>,
    nodes: Store<NodeName, Node>,
    pods: Store<NamespacedName, Pod>,
    mode: GatewayMode,
    /// What belongs together.
    pub(crate) index: Index,
    /// Network objects as this process wrote them.
    pub(crate) written_crs: Written<CrKey, Cr>,
    /// NetworkAttachmentDefinitions as this process wrote them.
    pub(crate) written_nads: Written<NadKey, Nad>,
    /// Nodes as this process wrote them.
    pub(crate) written_nodes: Written<NodeName, Node>,
}

/// An object that exists, and why it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

fn udn_key(meta: &ObjectMeta) -> Option<CrKey> {
    nad::key(meta).map(CrKey::Udn)
}

fn cudn_key(meta: &ObjectMeta) -> Option<CrKey> {
    meta.name.as_deref().map(|name| CrKey::Cudn(name.into()))
}

impl Sources {
    /// The watches over this connection. `networks` tells where networks are needed: where all of them are everywhere,
    /// ordinary pods are not kept.
    pub(crate) fn new(
        client: &Client,
        mode: GatewayMode,
        networks: &activity::Mode,
        metrics: &WatchMetrics,
    ) -> Self {
        let all = watch::config;
        let udns = Watch::new(Api::all(client.clone()), all(), udn_key, Cr::of_udn).metered(metrics);
        let cudns = Watch::new(Api::all(client.clone()), all(), cudn_key, Cr::of_cudn).metered(metrics);
        let nads = Watch::new(Api::all(client.clone()), all(), nad::key, move |nad| Nad::of(nad, mode));
        let namespaces = Watch::new(
            Api::all(client.clone()),
            all(),
            |meta| meta.name.as_deref().map(Namespace::from),
            |namespace| Some(Place::of(namespace)),
        );
        let nodes = Watch::new(
            Api::all(client.clone()),
            all(),
            |meta| meta.name.as_deref().map(NodeName::from),
            Node::of,
        );
        let all_pods = *networks != activity::Mode::Everywhere;
        let pods = Watch::new(Api::all(client.clone()), all(), watch::namespaced_name, move |pod| {
            Pod::of(pod).filter(|pod| all_pods || pod.says_something())
        });
        let stores = Stores {
            udns: udns.store(),
            cudns: cudns.store(),
            nads: nads.store(),
            namespaces: namespaces.store(),
            nodes: nodes.store(),
            pods: pods.store(),
            mode,
            index: Index::default(),
            written_crs: Written::default(),
            written_nads: Written::default(),
            written_nodes: Written::default(),
        };
        // The index first: whoever subscribes later finds it up to date.
        let (index, written) = (stores.index.clone(), stores.written_nads.clone());
        let nads = nads.metered(metrics).on_change(move |change| {
            index.nad(change);
            written.seen(change.key, change.new.as_ref());
        });
        let written = stores.written_crs.clone();
        let udns = udns.on_change(move |change| written.seen(change.key, change.new.as_ref()));
        let written = stores.written_crs.clone();
        let cudns = cudns.on_change(move |change| written.seen(change.key, change.new.as_ref()));
        let written = stores.written_nodes.clone();
        let nodes =
            nodes.metered(metrics).on_change(move |change| written.seen(change.key, change.new.as_ref()));
        let index = stores.index.clone();
        let namespaces = namespaces.metered(metrics).on_change(move |change| index.place(change));
        let pods = pods.metered(metrics);
        Self { udns, cudns, nads, namespaces, nodes, pods, stores }
    }

    /// Starts the watches. An API server that is away is waited for; `readiness` says so meanwhile.
    pub(crate) fn start(self, tasks: &Tasks, readiness: &Readiness) {
        let Self { udns, cudns, nads, namespaces, nodes, pods, stores } = self;
        readiness.add("networks", move || stores.readiness().map_err(|error| error.to_string()));
        let stop = tasks.stop();
        tasks.spawn("watch of UserDefinedNetworks", udns.run(stop.clone()));
        tasks.spawn("watch of ClusterUserDefinedNetworks", cudns.run(stop.clone()));
        tasks.spawn("watch of NetworkAttachmentDefinitions", nads.run(stop.clone()));
        tasks.spawn("watch of Namespaces", namespaces.run(stop.clone()));
        tasks.spawn("watch of Nodes", nodes.run(stop.clone()));
        tasks.spawn("watch of Pods", pods.run(stop));
    }
}

impl Stores {
    /// Waits until every kind has been listed once.
    pub(crate) async fn wait_synced(&self) {
        self.udns.wait_synced().await;
        self.cudns.wait_synced().await;
        self.nads.wait_synced().await;
        self.namespaces.wait_synced().await;
        self.nodes.wait_synced().await;
        self.pods.wait_synced().await;
    }

    /// Whether every kind has been listed and is being watched.
    pub(crate) fn readiness(&self) -> Result<(), NotReady> {
        self.udns.readiness()?;
        self.cudns.readiness()?;
        self.nads.readiness()?;
        self.namespaces.readiness()?;
        self.nodes.readiness()?;
        self.pods.readiness()
    }

    /// A kind that has not been listed yet: nothing may be concluded from absence.
    pub(crate) fn unlisted(&self) -> Option<&str> {
        let kinds = [
            unlisted(&self.udns),
            unlisted(&self.cudns),
            unlisted(&self.nads),
            unlisted(&self.namespaces),
            unlisted(&self.nodes),
            unlisted(&self.pods),
        ];
        kinds.into_iter().flatten().next()
    }

    /// How nodes reach the outside; decides what a network config may say.
    pub(crate) const fn mode(&self) -> GatewayMode {
        self.mode
    }

    /// Forgets what this process wrote: another one may have written since.
    pub(crate) fn forget_written(&self) {
        self.written_crs.forget_all();
        self.written_nads.forget_all();
        self.written_nodes.forget_all();
    }

    /// A network object, in its newest state.
    ///
    /// # Errors
    /// It exists, and cannot be read.
    pub(crate) fn cr(&self, key: &CrKey) -> Result<Option<Arc<Cr>>, Unreadable> {
        let snapshot = match key {
            CrKey::Udn(_) => self.udns.snapshot(),
            CrKey::Cudn(_) => self.cudns.snapshot(),
        };
        let watched = snapshot.lookup(key);
        readable(&watched)?;
        Ok(self.written_crs.newest(key, &watched))
    }

    /// A NetworkAttachmentDefinition, in its newest state.
    ///
    /// # Errors
    /// It exists, and cannot be read.
    pub(crate) fn nad(&self, key: &NadKey) -> Result<Option<Arc<Nad>>, Unreadable> {
        let snapshot = self.nads.snapshot();
        let watched = snapshot.lookup(key);
        readable(&watched)?;
        Ok(self.written_nads.newest(key, &watched))
    }

    /// A Node, in its newest state.
    ///
    /// # Errors
    /// It exists, and cannot be read.
    pub(crate) fn node(&self, key: &NodeName) -> Result<Option<Arc<Node>>, Unreadable> {
        let snapshot = self.nodes.snapshot();
        let watched = snapshot.lookup(key);
        readable(&watched)?;
        Ok(self.written_nodes.newest(key, &watched))
    }

    /// Every network object of either kind that can be read.
    pub(crate) fn crs(&self) -> Vec<(CrKey, Arc<Cr>)> {
        let (udns, cudns) = (self.udns.snapshot(), self.cudns.snapshot());
        let all = udns.iter().chain(cudns.iter());
        all.map(|(key, cr)| (key.clone(), Arc::clone(cr))).collect()
    }

    /// All ClusterUserDefinedNetworks.
    pub(crate) fn cudns(&self) -> Snapshot<CrKey, Cr> {
        self.cudns.snapshot()
    }

    /// All NetworkAttachmentDefinitions.
    pub(crate) fn nads(&self) -> Snapshot<NadKey, Nad> {
        self.nads.snapshot()
    }

    /// All Namespaces.
    pub(crate) fn namespaces(&self) -> Snapshot<Namespace, Place> {
        self.namespaces.snapshot()
    }

    /// The Namespaces that a selector selects and that are not being deleted.
    pub(crate) fn selected(&self, selector: &NamespaceSelector) -> Vec<(Namespace, Arc<Place>)> {
        let namespaces = self.namespaces.snapshot();
        let is_selected = |place: &Place| !place.terminating && selector.selects(&place.labels);
        let Some((label, values)) = selector.one_of() else {
            let selected = namespaces.iter().filter(|(_, place)| is_selected(place));
            return selected.map(|(name, place)| (name.clone(), Arc::clone(place))).collect();
        };
        // The index may be a change ahead of the snapshot, or behind it: then this is asked again because of that change.
        let named: BTreeSet<Namespace> = values.flat_map(|value| self.index.labelled(label, value)).collect();
        let found = named.into_iter().filter_map(|name| match namespaces.lookup(&name) {
            Lookup::Present(place) if is_selected(place) => Some((name, Arc::clone(place))),
            _ => None,
        });
        found.collect()
    }

    /// All Nodes.
    pub(crate) fn nodes(&self) -> Snapshot<NodeName, Node> {
        self.nodes.snapshot()
    }

    /// All Pods.
    pub(crate) fn pods(&self) -> Snapshot<NamespacedName, Pod> {
        self.pods.snapshot()
    }
}

/// The kind of a store, if it has not been listed yet.
pub(crate) fn unlisted<Key, T>(store: &Store<Key, T>) -> Option<&str> {
    (!*store.synced().borrow()).then(|| store.kind())
}

fn readable<T>(lookup: &Lookup<'_, T>) -> Result<(), Unreadable> {
    match lookup {
        Lookup::Unreadable(error) => Err(Unreadable((*error).to_owned())),
        Lookup::Present(_) | Lookup::Absent => Ok(()),
    }
}
