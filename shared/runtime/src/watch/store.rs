//! The snapshot store of one kind.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use imbl::OrdMap;
use tokio::sync::watch;

/// Handle to the newest snapshot of one kind. Cheap to clone.
pub struct Store<Key, T>(Arc<Shared<Key, T>>);

struct Shared<Key, T> {
    kind: Box<str>,
    snapshot: RwLock<Snapshot<Key, T>>,
    synced: watch::Sender<bool>,
    connection: watch::Sender<Connection>,
}

/// All objects of one kind at one moment. A clone shares everything and costs no more than two pointers.
pub struct Snapshot<Key, T> {
    objects: OrdMap<Key, Object<T>>,
}

struct Object<T> {
    uid: Box<str>,
    content: Content<T>,
}

enum Content<T> {
    Readable(Arc<T>),
    Unreadable(Arc<str>),
}

/// What a snapshot knows of one key.
#[derive(Debug)]
pub enum Lookup<'a, T> {
    /// The object exists.
    Present(&'a Arc<T>),
    /// The object exists, and this is why it cannot be read. Nothing may be concluded or cleaned up from it.
    Unreadable(&'a str),
    /// The object does not exist (or is filtered out), provided that the store is synced.
    Absent,
}

/// One change of one object. `old` and `new` are `None` where the object was or is absent or unreadable.
#[derive(Debug)]
pub struct Change<'a, Key, T> {
    /// Which object.
    pub key: &'a Key,
    /// Its value before.
    pub old: Option<Arc<T>>,
    /// Its value now.
    pub new: Option<Arc<T>>,
    /// Why it cannot be read now.
    pub unreadable: Option<Arc<str>>,
}

/// Whether the API server was reachable when last tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    /// Not tried to the end yet.
    Connecting,
    /// Connected.
    Connected,
    /// Lost, or never had, because of this; attempts go on.
    Disconnected(String),
}

/// Why a store cannot be relied on yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The first list is not complete.
    #[error("the first list of {0} has not arrived")]
    Listing(String),
    /// The API server cannot be reached.
    #[error("the watch of {kind} is interrupted: {error}")]
    Disconnected {
        /// The watched kind.
        kind: String,
        /// The last error.
        error: String,
    },
}

/// What the watch saw of an object.
pub(super) enum Update<T> {
    Present { uid: Box<str>, value: Arc<T> },
    Unreadable { uid: Box<str>, error: Arc<str> },
    Absent,
}

impl<Key, T> Clone for Store<Key, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Key, T> Clone for Snapshot<Key, T> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone() }
    }
}

impl<Key, T> fmt::Debug for Store<Key, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("kind", &self.0.kind).finish_non_exhaustive()
    }
}

impl<Key: Ord + fmt::Debug, T: fmt::Debug> fmt::Debug for Snapshot<Key, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).entries(self.unreadable()).finish()
    }
}

impl<T> Clone for Object<T> {
    fn clone(&self) -> Self {
        let content = match &self.content {
            Content::Readable(value) => Content::Readable(Arc::clone(value)),
            Content::Unreadable(error) => Content::Unreadable(Arc::clone(error)),
        };
        Self { uid: self.uid.clone(), content }
    }
}

impl<T> Object<T> {
    fn value(&self) -> Option<&Arc<T>> {
        match &self.content {
            Content::Readable(value) => Some(value),
            Content::Unreadable(_) => None,
        }
    }

    fn error(&self) -> Option<&Arc<str>> {
        match &self.content {
            Content::Readable(_) => None,
            Content::Unreadable(error) => Some(error),
        }
    }
}

impl<Key, T> Store<Key, T> {
    /// The watched kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The newest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<Key, T> {
        self.0.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the first list is complete, so that absence means something; stays `true` from then on.
    #[must_use]
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.0.synced.subscribe()
    }

    /// Waits until the first list is complete.
    pub async fn wait_synced(&self) {
        // An error means the sender is gone, which `self` rules out.
        drop(self.synced().wait_for(|synced| *synced).await);
    }

    /// The state of the connection, with the last error while it is lost.
    #[must_use]
    pub fn connection(&self) -> watch::Receiver<Connection> {
        self.0.connection.subscribe()
    }

    /// Whether the store is synced and connected; for readiness checks.
    pub fn readiness(&self) -> Result<(), NotReady> {
        if let Connection::Disconnected(error) = &*self.0.connection.borrow() {
            return Err(NotReady::Disconnected { kind: self.kind().to_owned(), error: error.clone() });
        }
        if *self.0.synced.borrow() { Ok(()) } else { Err(NotReady::Listing(self.kind().to_owned())) }
    }

    pub(super) fn connected(&self) -> bool {
        self.0.connection.send_if_modified(|connection| {
            std::mem::replace(connection, Connection::Connected) != Connection::Connected
        })
    }

    pub(super) fn disconnected(&self, error: String) {
        self.0.connection.send_replace(Connection::Disconnected(error));
    }

    pub(super) fn set_synced(&self) {
        self.0.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }
}

impl<Key: Clone + Ord, T: PartialEq> Store<Key, T> {
    /// An empty store of `kind` that no watch fills: what [`Store::update`] and tests start from.
    pub(super) fn new(kind: String) -> Self {
        Self(Arc::new(Shared {
            kind: kind.into_boxed_str(),
            snapshot: RwLock::new(Snapshot { objects: OrdMap::new() }),
            synced: watch::Sender::new(false),
            connection: watch::Sender::new(Connection::Connecting),
        }))
    }

    /// A synced store with these objects, for tests of rooms: no watch changes it.
    #[must_use]
    pub fn fixed(kind: &str, objects: impl IntoIterator<Item = (Key, T)>) -> Self {
        let store = Self::new(kind.to_owned());
        for (key, value) in objects {
            store.update(&key, Update::Present { uid: Box::default(), value: Arc::new(value) }, |_| {});
        }
        store.connected();
        store.set_synced();
        store
    }

    /// [`Store::fixed`], beside objects that exist and cannot be read, each with the reason.
    #[must_use]
    pub fn fixed_unreadable<'e>(
        kind: &str,
        objects: impl IntoIterator<Item = (Key, T)>,
        unreadable: impl IntoIterator<Item = (Key, &'e str)>,
    ) -> Self {
        let store = Self::fixed(kind, objects);
        for (key, error) in unreadable {
            store.update(&key, Update::Unreadable { uid: Box::default(), error: error.into() }, |_| {});
        }
        store
    }

    /// Makes the snapshot show `update` and tells what that changed. `tell` runs after the snapshot was replaced
    /// and without any lock.
    pub(super) fn update(&self, key: &Key, update: Update<T>, tell: impl Fn(&Change<'_, Key, T>)) {
        // Without holding the snapshot: a map that nobody else holds is changed in place, and no part of it is copied.
        let before = self.snapshot().objects.get(key).cloned();
        let before = before.as_ref();
        let old = before.and_then(Object::value).cloned();
        let (new, unreadable, uid) = match update {
            Update::Absent if before.is_none() => return,
            Update::Absent => {
                self.write(|objects| drop(objects.remove(key)));
                return tell(&Change { key, old, new: None, unreadable: None });
            }
            Update::Present { uid, value } => (Some(value), None, uid),
            Update::Unreadable { uid, error } => (None, Some(error), uid),
        };
        let same_object = before.is_some_and(|before| before.uid == uid);
        let old_error = before.and_then(Object::error);
        if same_object && new == old && unreadable.as_ref() == old_error {
            return;
        }
        let recreated = before.is_some() && !same_object;
        if recreated {
            self.write(|objects| drop(objects.remove(key)));
            tell(&Change { key, old: old.clone(), new: None, unreadable: None });
        }
        let content = match (&new, &unreadable) {
            (Some(value), _) => Content::Readable(Arc::clone(value)),
            (None, error) => Content::Unreadable(error.clone().unwrap_or_default()),
        };
        self.write(|objects| drop(objects.insert(key.clone(), Object { uid, content })));
        tell(&Change { key, old: old.filter(|_| !recreated), new, unreadable });
    }

    /// The keys that the store holds and `listed` does not.
    pub(super) fn missing_from(&self, listed: &HashSet<Key>) -> Vec<Key>
    where
        Key: Hash,
    {
        self.snapshot().objects.keys().filter(|key| !listed.contains(key)).cloned().collect()
    }

    fn write(&self, change: impl FnOnce(&mut OrdMap<Key, Object<T>>)) {
        change(&mut self.0.snapshot.write().unwrap_or_else(PoisonError::into_inner).objects);
    }
}

impl<Key: Ord, T> Snapshot<Key, T> {
    /// The object of `key`, if it exists and can be read. Where absence leads to cleaning up, use
    /// [`Snapshot::lookup`]: an unreadable object is not an absent one.
    pub fn get<Q>(&self, key: &Q) -> Option<&Arc<T>>
    where
        Key: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.objects.get(key).and_then(Object::value)
    }

    /// What is known of `key`.
    pub fn lookup<Q>(&self, key: &Q) -> Lookup<'_, T>
    where
        Key: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self.objects.get(key).map(|object| &object.content) {
            Some(Content::Readable(value)) => Lookup::Present(value),
            Some(Content::Unreadable(error)) => Lookup::Unreadable(error),
            None => Lookup::Absent,
        }
    }

    /// The readable objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<T>)> {
        self.objects.iter().filter_map(|(key, object)| Some((key, object.value()?)))
    }

    /// The objects that cannot be read, with the reason.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.objects.iter().filter_map(|(key, object)| Some((key, object.error()?.as_ref())))
    }

    /// How many objects there are, readable or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Connected => f.write_str("connected"),
            Self::Disconnected(error) => write!(f, "disconnected: {error}"),
        }
    }
}
