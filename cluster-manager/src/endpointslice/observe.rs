//! What this room looks at: EndpointSlices, pods and primary networks, and which of them belong together.
//!
//! A [`World`] is made of the newest snapshots. Absence in it means absence, because a world exists only once every kind
//! has been listed. Slices and their mirrors come by one watch, so a mirror is never seen before its source.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::nad::Config;
use causeway_net::network::name::{NadKey, Namespace};
use causeway_runtime::watch::{Lookup, NamespacedName, NotReady, Snapshot, Store};

use super::error::MirrorError;
use super::watched::{Mirror, Slice, SliceKey, Source};
use crate::groups::Groups;
use crate::observed::nad::Nad;
use crate::observed::pod::{Machine, Pod};
use crate::observed::{self, unlisted};
use crate::written::Written;

/// Where the newest snapshots come from.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    /// Slices of Kubernetes and ours.
    pub(super) slices: Store<SliceKey, Slice>,
    /// Pods and networks.
    pub(super) shared: observed::Stores,
    /// What belongs together.
    pub(super) index: Index,
    /// Mirrors as this process wrote them. The API server makes up their names, so a pass that comes before the watch would
    /// make a second one.
    pub(super) written: Written<SliceKey, Mirror>,
}

/// The primary network of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// Its name.
    pub(super) name: String,
    /// The object that makes it the namespace's; pods list their addresses under it.
    pub(super) attachment: NadKey,
}

/// Everything that matters for the mirrors of one slice, at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The slice, if there is one to mirror.
    pub(super) source: Option<Arc<Source>>,
    /// Its mirrors, but for those on their way out.
    pub(super) mirrors: Vec<Arc<Mirror>>,
    /// Whether one of them was made and is not shown by the watch.
    pub(super) unseen: bool,
    /// The primary network of the namespace.
    pub(super) network: Option<Network>,
    /// Every pod that says something.
    pub(super) pods: Snapshot<NamespacedName, Pod>,
    /// The pods of the namespace that hold virtual machines.
    pub(super) machines: Vec<NamespacedName>,
}

/// The world of one slice, out of the newest snapshots.
///
/// # Errors
/// A kind that has not been listed completely, or a slice or network that cannot be read: nothing may be concluded.
pub(super) fn world(key: &SliceKey, stores: &Stores) -> Result<World, MirrorError> {
    stores.all_listed()?;
    // Slices first: what gives a mirror its right to exist was there before it, and must not be missed here.
    let slices = stores.slices.snapshot();
    let source = match slices.lookup(key) {
        Lookup::Present(slice) => match &**slice {
            Slice::Source(source) => Some(Arc::clone(source)),
            Slice::Mirror(_) => None,
        },
        Lookup::Absent => None,
        Lookup::Unreadable(error) => return Err(unreadable(key, error)),
    };
    let unseen = stores.written.unseen(|mirror| mirror.source == *key);
    let keys: BTreeSet<SliceKey> = stores.index.mirrors_of(key).into_iter().chain(unseen.clone()).collect();
    let newest = keys.into_iter().filter_map(|mirror| {
        let shown = slices.get(&mirror).and_then(|slice| slice.mirror());
        stores.written.newest(&mirror, &shown.map_or(Lookup::Absent, Lookup::Present))
    });
    Ok(World {
        source,
        mirrors: newest.filter(|mirror| !mirror.is_terminating).collect(),
        unseen: !unseen.is_empty(),
        network: network_of(key.namespace(), &stores.shared)?,
        pods: stores.shared.pods(),
        machines: stores.index.machines_in(key.namespace()),
    })
}

/// The primary network of a namespace.
fn network_of(namespace: &str, shared: &observed::Stores) -> Result<Option<Network>, MirrorError> {
    let nads = shared.nads();
    if let Some((nad, error)) = nads.unreadable().find(|(nad, _)| nad.namespace().as_str() == namespace) {
        return Err(unreadable(nad, error));
    }
    let candidates = shared.index.primary_in(&Namespace::from(namespace)).into_iter().filter_map(|key| {
        let nad = nads.get(&key)?;
        let network = primary(nad)?.to_owned();
        Some((nad.created, key, network))
    });
    // A second primary network of a namespace is none.
    Ok(candidates.min().map(|(_, attachment, name)| Network { name, attachment }))
}

/// The network of a NetworkAttachmentDefinition that makes it the primary one of its namespace.
#[must_use]
pub(super) fn primary(nad: &Nad) -> Option<&str> {
    nad.config().filter(|config| is_primary(config)).map(|config| config.name.as_str())
}

/// Whether a config is that of a namespace's primary network.
#[must_use]
pub(super) fn is_primary(config: &Config) -> bool {
    config.is_primary() && !config.is_default_network()
}

fn unreadable(object: &dyn fmt::Display, error: &str) -> MirrorError {
    MirrorError::Unreadable { object: object.to_string(), error: error.to_owned() }
}

impl Stores {
    /// Waits until every kind has been listed once.
    pub(super) async fn wait_synced(&self) {
        self.slices.wait_synced().await;
        self.shared.wait_synced().await;
    }

    /// Whether the kind of this room has been listed and is being watched.
    pub(super) fn readiness(&self) -> Result<(), NotReady> {
        self.slices.readiness()
    }

    /// The pods of a virtual machine, in the newest snapshot.
    pub(super) fn pods_of_machine(&self, namespace: &str, machine: &Machine) -> Vec<NamespacedName> {
        let pods = self.shared.pods();
        let is_of_machine = |key: &NamespacedName| {
            let other = pods.get(key).and_then(|pod| pod.machine.as_ref());
            machine.domain.is_some() && other.is_some_and(|other| other.domain == machine.domain)
        };
        self.index.machines_in(namespace).into_iter().filter(is_of_machine).collect()
    }

    /// Whether there can be something to do about a slice: its namespace has a primary network, or it has a mirror.
    #[must_use]
    pub(super) fn is_of_concern(&self, source: &SliceKey) -> bool {
        self.shared.index.has_primary(source.namespace()) || self.index.is_mirrored(source)
    }

    /// Every slice about which there can be something to do.
    #[must_use]
    pub(super) fn of_concern(&self) -> BTreeSet<SliceKey> {
        self.index.of_concern(&self.shared.index.primary_namespaces())
    }

    fn all_listed(&self) -> Result<(), MirrorError> {
        let unlisted = unlisted(&self.slices).or(self.shared.unlisted());
        unlisted.map_or(Ok(()), |kind| Err(MirrorError::NotListed { kind: kind.to_owned() }))
    }
}

/// What belongs together; kept by the watches, change by change.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(Arc<Mutex<Sets>>);

#[derive(Debug, Default)]
struct Sets {
    /// Mirrors, by what they mirror.
    mirrors: Groups<SliceKey, SliceKey>,
    /// What there is to mirror, by namespace.
    sources: Groups<String, SliceKey>,
    /// What has a mirror, by namespace, whether it is there or not.
    mirrored: Groups<String, SliceKey>,
    /// Slices with the pod among their endpoints.
    slices: Groups<NamespacedName, SliceKey>,
    /// Pods with virtual machines, by namespace.
    machines: Groups<String, NamespacedName>,
}

impl Index {
    /// Takes over one change of one slice.
    pub(super) fn slice(&self, key: &SliceKey, old: Option<&Slice>, new: Option<&Slice>) {
        let mut sets = self.lock();
        let (before, after) = (pods_of(key, old), pods_of(key, new));
        for pod in before.difference(&after) {
            sets.slices.remove(pod, key);
        }
        for pod in after.difference(&before) {
            sets.slices.insert(pod.clone(), key.clone());
        }
        if matches!(new, Some(Slice::Source(_))) {
            sets.sources.insert(key.namespace().to_owned(), key.clone());
        } else {
            sets.sources.remove(key.namespace(), key);
        }
        if let Some(old) = old.and_then(Slice::mirror) {
            sets.mirrors.remove(&old.source, key);
            if !sets.mirrors.has(&old.source) {
                sets.mirrored.remove(key.namespace(), &old.source);
            }
        }
        if let Some(new) = new.and_then(Slice::mirror) {
            sets.mirrors.insert(new.source.clone(), key.clone());
            sets.mirrored.insert(key.namespace().to_owned(), new.source.clone());
        }
    }

    /// Takes over one change of one pod.
    pub(super) fn pod(&self, key: &NamespacedName, new: Option<&Pod>) {
        let mut sets = self.lock();
        if new.is_some_and(|pod| pod.machine.is_some()) {
            sets.machines.insert(key.namespace.clone(), key.clone());
        } else {
            sets.machines.remove(key.namespace.as_str(), key);
        }
    }

    /// The mirrors of a slice.
    #[must_use]
    pub(super) fn mirrors_of(&self, source: &SliceKey) -> Vec<SliceKey> {
        self.lock().mirrors.of(source)
    }

    /// Everything in a namespace that there is to mirror or that has a mirror.
    #[must_use]
    pub(super) fn sources_in(&self, namespace: &str) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        sets.sources.in_group(namespace).chain(sets.mirrored.in_group(namespace)).cloned().collect()
    }

    /// The slices that one of the pods is an endpoint of.
    #[must_use]
    pub(super) fn slices_of<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p NamespacedName>,
    ) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        pods.into_iter().flat_map(|pod| sets.slices.in_group(pod)).cloned().collect()
    }

    /// The pods of a namespace that hold virtual machines.
    #[must_use]
    pub(super) fn machines_in(&self, namespace: &str) -> Vec<NamespacedName> {
        self.lock().machines.of(namespace)
    }

    fn is_mirrored(&self, source: &SliceKey) -> bool {
        self.lock().mirrors.has(source)
    }

    fn of_concern(&self, with_network: &[Namespace]) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        let of_networks = with_network.iter().flat_map(|namespace| sets.sources.in_group(namespace.as_str()));
        of_networks.chain(sets.mirrors.names()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pods among the endpoints of a slice that is mirrored.
fn pods_of(key: &SliceKey, slice: Option<&Slice>) -> BTreeSet<NamespacedName> {
    let Some(Slice::Source(source)) = slice else { return BTreeSet::new() };
    let targets = source.content.endpoints.iter().filter_map(|endpoint| endpoint.target_ref.as_ref());
    let pods = targets.filter(|target| target.kind.as_deref() == Some("Pod"));
    pods.filter_map(|pod| Some(key.pod(pod.name.as_deref()?))).collect()
}
