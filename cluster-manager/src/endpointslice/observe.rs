//! What this room looks at: three watched kinds, and which of their objects belong together.
//!
//! A [`World`] is made of the newest snapshots. Absence in it means absence, because a world exists only once all three
//! kinds have been listed. Slices and their mirrors come by one watch, so a mirror is never seen before its source.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_runtime::watch::{Lookup, NotReady, Snapshot, Store};

use super::error::MirrorError;
use super::watched::{AttachmentKey, Machine, Mirror, Pod, PodKey, Primary, Slice, SliceKey, Source};
use super::written::Written;

/// Where the newest snapshots come from.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    /// Slices of Kubernetes and ours.
    pub(super) slices: Store<SliceKey, Slice>,
    /// Pods that have something to mirror.
    pub(super) pods: Store<PodKey, Pod>,
    /// Primary networks.
    pub(super) primaries: Store<AttachmentKey, Primary>,
    /// What belongs together.
    pub(super) index: Index,
    /// Mirrors as this process wrote them.
    pub(super) written: Written,
}

/// The primary network of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    /// Its name.
    pub(super) name: String,
    /// The object that makes it the namespace's; pods list their addresses under it.
    pub(super) attachment: AttachmentKey,
}

/// Everything that matters for the mirrors of one slice, at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The slice, if there is one to mirror.
    pub(super) source: Option<Arc<Source>>,
    /// Its mirrors, but for those on their way out.
    pub(super) mirrors: Vec<Arc<Mirror>>,
    /// The primary network of the namespace.
    pub(super) network: Option<Network>,
    /// Every pod that has something to mirror.
    pub(super) pods: Snapshot<PodKey, Pod>,
    /// The pods of the namespace that hold virtual machines.
    pub(super) machines: BTreeSet<PodKey>,
}

/// The world of one slice, out of the newest snapshots.
///
/// # Errors
/// A kind that has not been listed completely, or a slice or network that cannot be read: nothing may be concluded.
pub(super) fn world(key: &SliceKey, stores: &Stores) -> Result<World, MirrorError> {
    stores.all_listed()?;
    // Slices first: what gives a mirror its right to exist was there before it, and must not be missed here.
    let slices = stores.slices.snapshot();
    let unreadable = |object: &dyn std::fmt::Display, error: &str| MirrorError::Unreadable {
        object: object.to_string(),
        error: error.to_owned(),
    };
    let source = match slices.lookup(key) {
        Lookup::Present(slice) => match &**slice {
            Slice::Source(source) => Some(Arc::new(source.clone())),
            Slice::Mirror(_) => None,
        },
        Lookup::Absent => None,
        Lookup::Unreadable(error) => return Err(unreadable(key, error)),
    };
    let watched =
        stores.index.mirrors_of(key).into_iter().filter_map(|mirror| match &**slices.get(&mirror)? {
            Slice::Mirror(mirror) => Some(Arc::new(mirror.clone())),
            Slice::Source(_) => None,
        });
    let mut mirrors = stores.written.newest(key, watched.collect());
    mirrors.retain(|mirror| !mirror.is_terminating);

    let primaries = stores.primaries.snapshot();
    let mut candidates = Vec::new();
    for attachment in stores.index.primaries_in(key.namespace()) {
        if let Lookup::Present(primary) = primaries.lookup(&attachment) {
            candidates.push((primary.created, attachment, primary.network.clone()));
        }
    }
    if let Some((attachment, error)) =
        primaries.unreadable().find(|(attachment, _)| attachment.namespace() == key.namespace())
    {
        return Err(unreadable(attachment, error));
    }
    // A second primary network of a namespace is none.
    let network = candidates.into_iter().min().map(|(_, attachment, name)| Network { name, attachment });
    Ok(World {
        source,
        mirrors,
        network,
        pods: stores.pods.snapshot(),
        machines: stores.index.machines_in(key.namespace()),
    })
}

impl Stores {
    /// Waits until every kind has been listed once.
    pub(super) async fn wait_synced(&self) {
        self.slices.wait_synced().await;
        self.pods.wait_synced().await;
        self.primaries.wait_synced().await;
    }

    /// Whether every kind has been listed and is being watched.
    pub(super) fn readiness(&self) -> Result<(), NotReady> {
        self.slices.readiness()?;
        self.pods.readiness()?;
        self.primaries.readiness()
    }

    /// The pods of a virtual machine, in the newest snapshot.
    pub(super) fn pods_of_machine(&self, namespace: &str, machine: &Machine) -> Vec<PodKey> {
        let pods = self.pods.snapshot();
        let is_of_machine = |key: &PodKey| {
            let other = pods.get(key).and_then(|pod| pod.machine.as_ref());
            machine.domain.is_some() && other.is_some_and(|other| other.domain == machine.domain)
        };
        self.index.machines_in(namespace).into_iter().filter(is_of_machine).collect()
    }

    fn all_listed(&self) -> Result<(), MirrorError> {
        let synced = [
            (self.slices.kind(), *self.slices.synced().borrow()),
            (self.pods.kind(), *self.pods.synced().borrow()),
            (self.primaries.kind(), *self.primaries.synced().borrow()),
        ];
        match synced.into_iter().find(|(_, synced)| !synced) {
            Some((kind, _)) => Err(MirrorError::NotListed { kind: kind.to_owned() }),
            None => Ok(()),
        }
    }
}

/// What belongs together; kept by the watches, change by change.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(Arc<Mutex<Sets>>);

#[derive(Debug, Default)]
struct Sets {
    /// Mirrors, by what they mirror.
    mirrors: HashMap<SliceKey, BTreeSet<SliceKey>>,
    /// What there is to mirror, by namespace.
    sources: HashMap<String, BTreeSet<SliceKey>>,
    /// What has a mirror, by namespace, whether it is there or not.
    mirrored: HashMap<String, BTreeSet<SliceKey>>,
    /// Slices with the pod among their endpoints.
    slices: HashMap<PodKey, BTreeSet<SliceKey>>,
    /// Primary networks, by namespace.
    primaries: HashMap<String, BTreeSet<AttachmentKey>>,
    /// Pods with virtual machines, by namespace.
    machines: HashMap<String, BTreeSet<PodKey>>,
}

impl Index {
    /// Takes over one change of one slice.
    pub(super) fn slice(&self, key: &SliceKey, old: Option<&Slice>, new: Option<&Slice>) {
        let mut sets = self.lock();
        let (before, after) = (pods_of(key, old), pods_of(key, new));
        for pod in before.difference(&after) {
            take(&mut sets.slices, pod, key);
        }
        for pod in after.difference(&before) {
            sets.slices.entry(pod.clone()).or_default().insert(key.clone());
        }
        if matches!(new, Some(Slice::Source(_))) {
            sets.sources.entry(key.namespace().to_owned()).or_default().insert(key.clone());
        } else {
            take(&mut sets.sources, key.namespace(), key);
        }
        if let Some(Slice::Mirror(old)) = old {
            take(&mut sets.mirrors, &old.source, key);
            if !sets.mirrors.contains_key(&old.source) {
                take(&mut sets.mirrored, key.namespace(), &old.source);
            }
        }
        if let Some(Slice::Mirror(new)) = new {
            sets.mirrors.entry(new.source.clone()).or_default().insert(key.clone());
            sets.mirrored.entry(key.namespace().to_owned()).or_default().insert(new.source.clone());
        }
    }

    /// Takes over one change of one pod.
    pub(super) fn pod(&self, key: &PodKey, new: Option<&Pod>) {
        let mut sets = self.lock();
        if new.is_some_and(|pod| pod.machine.is_some()) {
            sets.machines.entry(key.namespace().to_owned()).or_default().insert(key.clone());
        } else {
            take(&mut sets.machines, key.namespace(), key);
        }
    }

    /// Takes over one change of one primary network.
    pub(super) fn primary(&self, key: &AttachmentKey, new: Option<&Primary>) {
        let mut sets = self.lock();
        if new.is_some() {
            sets.primaries.entry(key.namespace().to_owned()).or_default().insert(key.clone());
        } else {
            take(&mut sets.primaries, key.namespace(), key);
        }
    }

    /// The mirrors of a slice.
    #[must_use]
    pub(super) fn mirrors_of(&self, source: &SliceKey) -> BTreeSet<SliceKey> {
        self.lock().mirrors.get(source).cloned().unwrap_or_default()
    }

    /// Everything in a namespace that there is to mirror or that has a mirror.
    #[must_use]
    pub(super) fn sources_in(&self, namespace: &str) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        [&sets.sources, &sets.mirrored]
            .into_iter()
            .filter_map(|of| of.get(namespace))
            .flatten()
            .cloned()
            .collect()
    }

    /// Whether there can be something to do about a slice: its namespace has a primary network, or it has a mirror.
    #[must_use]
    pub(super) fn is_of_concern(&self, source: &SliceKey) -> bool {
        let sets = self.lock();
        sets.primaries.contains_key(source.namespace()) || sets.mirrors.contains_key(source)
    }

    /// Every slice about which there can be something to do.
    #[must_use]
    pub(super) fn of_concern(&self) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        let of_networks = sets.primaries.keys().filter_map(|namespace| sets.sources.get(namespace)).flatten();
        of_networks.chain(sets.mirrors.keys()).cloned().collect()
    }

    /// The slices that one of the pods is an endpoint of.
    #[must_use]
    pub(super) fn slices_of<'p>(&self, pods: impl IntoIterator<Item = &'p PodKey>) -> BTreeSet<SliceKey> {
        let sets = self.lock();
        pods.into_iter().filter_map(|pod| sets.slices.get(pod)).flatten().cloned().collect()
    }

    /// The primary networks of a namespace.
    #[must_use]
    pub(super) fn primaries_in(&self, namespace: &str) -> BTreeSet<AttachmentKey> {
        self.lock().primaries.get(namespace).cloned().unwrap_or_default()
    }

    /// The pods of a namespace that hold virtual machines.
    #[must_use]
    pub(super) fn machines_in(&self, namespace: &str) -> BTreeSet<PodKey> {
        self.lock().machines.get(namespace).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a value out of the set of a key, and the set out with the last one.
fn take<K, Q, V>(sets: &mut HashMap<K, BTreeSet<V>>, key: &Q, value: &V)
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
    V: Ord,
{
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

/// The pods among the endpoints of a slice that is mirrored.
fn pods_of(key: &SliceKey, slice: Option<&Slice>) -> BTreeSet<PodKey> {
    let Some(Slice::Source(source)) = slice else { return BTreeSet::new() };
    let targets = source.content.endpoints.iter().filter_map(|endpoint| endpoint.target_ref.as_ref());
    let pods = targets.filter(|target| target.kind.as_deref() == Some("Pod"));
    pods.filter_map(|pod| Some(PodKey::new(key.namespace(), pod.name.as_deref()?))).collect()
}
