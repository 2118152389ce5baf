//! Watches of Kubernetes kinds: API server in, typed snapshots and change events out.
//!
//! A watched object is deserialised into a type that holds only what Causeway reads (`K`), turned into the slim
//! value of the store (`T`), and dropped. Subscribers are told synchronously, right after the snapshot changed,
//! usually to put a key into a [`crate::engine::KeyQueue`].
//!
//! * No event when the slim value is equal: what Causeway does not read cannot wake it.
//! * An object that was deleted and created again (another uid) is a deletion, then a creation.
//! * After every error the kind is listed anew, so that deletions missed meanwhile are reported.
//! * An object that cannot be read does not stall its kind: it is [`Lookup::Unreadable`], not absent.
//! * An API server that is away is waited for, for ever, and visible in [`Store::connection`].
//!
//! Never does: write, or decide from what it sees.

mod guard;
mod metrics;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use self::guard::{Guarded, Invalid};
pub use self::metrics::WatchMetrics;
pub use self::store::{Change, Connection, Lookup, NotReady, Snapshot, Store};

use self::metrics::KindMeters;
use self::store::Update;
use crate::backoff::Backoff;
use crate::telemetry::chain;

/// Delays between attempts while the API server cannot be reached.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// An attempt that lasted this long was a connection: the next failure starts with the first delay again.
const STABLE: Duration = Duration::from_secs(3);

/// Objects per page of a list: bounds the memory that a list needs at a time.
const PAGE_SIZE: u32 = 100;

/// Length of one watch call in seconds. A connection that silently died is noticed five seconds later at most.
const WATCH_SECONDS: u32 = 120;

/// A key of cluster-scoped objects: the name.
#[must_use]
pub fn name(meta: &ObjectMeta) -> Option<String> {
    meta.name.clone()
}

/// A key of namespaced objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The [`NamespacedName`] of an object; `None` for a cluster-scoped one.
#[must_use]
pub fn namespaced_name(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName { namespace: meta.namespace.clone()?, name: meta.name.clone()? })
}

/// The watch settings to start from: pages of 100 objects, consistent reads, a new watch call every 120 s. Add
/// selectors with [`watcher::Config::fields`] and [`watcher::Config::labels`].
///
/// Lists are paged rather than streamed because a streamed list may answer from a cache that is behind what this
/// process itself wrote before it restarted, and a restart must not write again.
#[must_use]
pub fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE_SIZE).timeout(WATCH_SECONDS)
}

/// For `#[serde(deserialize_with = "causeway_runtime::watch::slim_metadata")]` on the `metadata` field of a
/// watched type: keeps name, namespace, uid, versions, timestamps, labels, annotations, finalizers and owners,
/// and drops the rest, above all `managedFields`.
pub fn slim_metadata<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    // What is dropped is not even read: `managedFields` are trees, and most of the metadata of some kinds.
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        deletion_grace_period_seconds: slim.deletion_grace_period_seconds,
        labels: slim.labels,
        annotations: slim.annotations,
        finalizers: slim.finalizers,
        owner_references: slim.owner_references,
        ..ObjectMeta::default()
    })
}

/// For the answers of writes of which only the new version is wanted: keeps that, and reads nothing else.
pub fn version_alone<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let Version { resource_version } = Version::deserialize(deserializer)?;
    Ok(ObjectMeta { resource_version, ..ObjectMeta::default() })
}

/// What [`version_alone`] keeps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: Option<String>,
}

/// What [`slim_metadata`] keeps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

type KeyOf<Key> = Box<dyn Fn(&ObjectMeta) -> Option<Key> + Send + Sync>;
type Slim<K, T> = Box<dyn Fn(K) -> Option<T> + Send + Sync>;
type Subscriber<Key, T> = Box<dyn Fn(&Change<'_, Key, T>) + Send + Sync>;

/// A watch that is being set up; [`Watch::run`] starts it.
pub struct Watch<K, Key, T> {
    api: Api<Guarded<K>>,
    config: watcher::Config,
    key: KeyOf<Key>,
    slim: Slim<K, T>,
    store: Store<Key, T>,
    subscribers: Vec<Subscriber<Key, T>>,
    meters: Option<KindMeters>,
}

/// Bounds of watched types, written once.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
}

impl<K, Key, T> Watch<K, Key, T>
where
    K: Watched,
    Key: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static,
    T: PartialEq + Send + Sync + 'static,
{
    /// Watches what `api` and `config` select. `key` names an object (an object without a key is skipped); `slim`
    /// keeps what is needed of it, or `None` to treat the object as absent.
    pub fn new(
        api: Api<Guarded<K>>,
        config: watcher::Config,
        key: impl Fn(&ObjectMeta) -> Option<Key> + Send + Sync + 'static,
        slim: impl Fn(K) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            api,
            config,
            key: Box::new(key),
            slim: Box::new(slim),
            store: Store::new(K::kind(&()).into_owned()),
            subscribers: Vec::new(),
            meters: None,
        }
    }

    /// The store this watch fills; empty and not ready until [`Watch::run`] got the first list.
    #[must_use]
    pub fn store(&self) -> Store<Key, T> {
        self.store.clone()
    }

    /// Calls `subscriber` for each change, in order, after the snapshot holds it. The call is synchronous and
    /// must be quick: it typically puts keys into a queue.
    #[must_use]
    pub fn on_change(mut self, subscriber: impl Fn(&Change<'_, Key, T>) + Send + Sync + 'static) -> Self {
        self.subscribers.push(Box::new(subscriber));
        self
    }

    /// Counts events, errors and unreadable objects of this kind.
    #[must_use]
    pub fn metered(mut self, metrics: &WatchMetrics) -> Self {
        self.meters = Some(metrics.kind(self.store.kind()));
        self
    }

    /// Watches until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut failures = 0_u32;
        loop {
            let begun = Instant::now();
            // An attempt always lists first: it costs one list per lost connection, tells at once whether the
            // server is back, and finds what was missed.
            let events = watcher(self.api.clone(), self.config.clone());
            let Some(error) = stop.run_until_cancelled(self.follow(events)).await else { return };
            failures = if begun.elapsed() < STABLE { failures.saturating_add(1) } else { 1 };
            let text = chain(&error).to_string();
            let delay = RECONNECT.random_delay(failures);
            let kind = self.store.kind();
            if failures.is_power_of_two() {
                warn!(kind, error = text, failures, retry_in = ?delay, "Watch interrupted");
            } else {
                debug!(kind, error = text, failures, retry_in = ?delay, "Watch interrupted");
            }
            if let Some(meters) = &self.meters {
                meters.errors.inc();
            }
            self.store.disconnected(text);
            if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Takes over events until the first error.
    async fn follow(&self, events: impl Stream<Item = watcher::Result<Event<Guarded<K>>>>) -> watcher::Error {
        let mut events = std::pin::pin!(events);
        let mut listed = HashSet::new();
        loop {
            let event = match events.next().await {
                Some(Ok(event)) => event,
                Some(Err(error)) => return error,
                None => return watcher::Error::NoResourceVersion, // the stream never ends by itself
            };
            // `Init` is made before the server was asked; everything else is word from the server.
            if !matches!(event, Event::Init) && self.store.connected() {
                info!(kind = self.store.kind(), "Watch connected");
            }
            if let Some(meters) = self.meters.as_ref().filter(|_| !matches!(event, Event::Init)) {
                meters.heard();
            }
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => listed.extend(self.upsert(object)),
                Event::InitDone => {
                    self.store.missing_from(&listed).into_iter().for_each(|key| self.remove(&key));
                    listed = HashSet::new();
                    self.store.set_synced();
                }
                Event::Apply(object) => {
                    self.upsert(object);
                }
                Event::Delete(object) => {
                    if let Some(key) = (self.key)(object.meta()) {
                        self.remove(&key);
                    }
                }
            }
        }
    }

    /// Takes over one object; returns its key.
    fn upsert(&self, object: Guarded<K>) -> Option<Key> {
        let key = (self.key)(object.meta())?;
        let uid: Box<str> = object.meta().uid.as_deref().unwrap_or_default().into();
        let update = match object.0 {
            Ok(object) => match (self.slim)(object) {
                Some(value) => Update::Present { uid, value: Arc::new(value) },
                None => Update::Absent,
            },
            Err(invalid) => {
                let error = invalid.error;
                warn!(kind = self.store.kind(), object = ?key, error, "Object cannot be read");
                if let Some(meters) = &self.meters {
                    meters.unreadable.inc();
                }
                Update::Unreadable { uid, error: error.into() }
            }
        };
        self.store.update(&key, update, |change| self.tell(change));
        Some(key)
    }

    fn remove(&self, key: &Key) {
        self.store.update(key, Update::Absent, |change| self.tell(change));
    }

    fn tell(&self, change: &Change<'_, Key, T>) {
        if let Some(meters) = &self.meters {
            meters.changes.inc();
            meters.has(self.store.snapshot().len());
        }
        for subscriber in &self.subscribers {
            subscriber(change);
        }
    }
}
