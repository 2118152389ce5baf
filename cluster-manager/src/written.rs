//! Objects that this process wrote and that the watch has not shown yet.
//!
//! A pass that comes before the watch would plan from the object as it was before the write: it would write the same again,
//! with another transition time, create what is there already, and name a version that is not the newest any more.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_runtime::watch::Lookup;
use tokio::time::Instant;

/// How long an object that was created counts as there although the watch does not show it. One that is deleted again
/// while the watch is interrupted never shows up.
pub(crate) const UNSEEN: Duration = Duration::from_secs(10);

/// What tells one state of an object from another.
pub(crate) trait Versioned {
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn version(&self) -> Option<&str>;
}

/// The objects of one kind, by key. Cheap to clone.
pub(crate) struct Written<Key, T>(Arc<Mutex<HashMap<Key, Entry<T>>>>);

struct Entry<T> {
    object: Arc<T>,
    /// Until when it counts although the watch shows nothing of its name; none for an object that was there before.
    unseen: Option<Instant>,
}

impl<Key, T> Default for Written<Key, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Key, T> Clone for Written<Key, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Key, T> fmt::Debug for Written<Key, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl<Key: Hash + Eq + Clone, T: Versioned> Written<Key, T> {
    /// Takes over the API server's answer to a change. Answers may come in another order than the changes were made in: the
    /// newest state is kept.
    pub(crate) fn remember(&self, key: &Key, object: T) {
        self.keep(key, object, None);
    }

    /// Takes over the API server's answer to a creation.
    pub(crate) fn created(&self, key: &Key, object: T) {
        self.keep(key, object, Some(Instant::now() + UNSEEN));
    }

    fn keep(&self, key: &Key, object: T, unseen: Option<Instant>) {
        let mut written = self.lock();
        let before = written.get(key);
        if before.is_some_and(|before| is_newer(before.object.as_ref(), &object)) {
            return;
        }
        // What was created stays so while it is changed and the watch shows nothing of it yet.
        let unseen = unseen.or_else(|| before.and_then(|before| before.unseen));
        written.insert(key.clone(), Entry { object: Arc::new(object), unseen });
    }

    /// Forgets one object: the API server knows otherwise.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Forgets everything: another process may have written since.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    /// Those that were created, that `pick` picks, and that the watch has not shown.
    pub(crate) fn unseen(&self, pick: impl Fn(&T) -> bool) -> Vec<Key> {
        let now = Instant::now();
        let written = self.lock();
        let unseen = written.iter().filter(|(_, entry)| entry.unseen.is_some_and(|until| now < until));
        unseen.filter(|(_, entry)| pick(entry.object.as_ref())).map(|(key, _)| key.clone()).collect()
    }

    /// Takes over what the watch shows from now on: what it has caught up with, or knows to be gone, is forgotten.
    pub(crate) fn seen(&self, key: &Key, object: Option<&Arc<T>>) {
        let mut written = self.lock();
        let overtaken = written
            .get(key)
            .is_some_and(|ours| object.is_none_or(|seen| !is_newer(ours.object.as_ref(), seen)));
        if overtaken {
            written.remove(key);
        }
    }

    /// The newer of what the watch shows and what was written. An object that the watch shows as gone is gone.
    pub(crate) fn newest<Q>(&self, key: &Q, watched: &Lookup<'_, T>) -> Option<Arc<T>>
    where
        Key: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let mut written = self.lock();
        let watched = match watched {
            Lookup::Present(watched) => Some(*watched),
            Lookup::Absent | Lookup::Unreadable(_) => None,
        };
        let Some(ours) = written.get(key) else { return watched.cloned() };
        let counts = match watched {
            Some(watched) => is_newer(ours.object.as_ref(), watched),
            None => ours.unseen.is_some_and(|until| Instant::now() < until),
        };
        if counts {
            return Some(Arc::clone(&ours.object));
        }
        written.remove(key);
        watched.cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `ours` is a later state of the object that the watch shows.
fn is_newer<T: Versioned>(ours: &T, watched: &T) -> bool {
    ours.uid() == watched.uid() && version(ours) > version(watched)
}

/// Resource versions of one kind are numbers that grow (kubernetes.io, API concepts, "Resource versions").
fn version(object: &impl Versioned) -> Option<u64> {
    object.version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing(&'static str, &'static str);

    impl Versioned for Thing {
        fn uid(&self) -> &str {
            self.0
        }

        fn version(&self) -> Option<&str> {
            Some(self.1)
        }
    }

    type Things = Written<&'static str, Thing>;

    fn newest(written: &Things, watched: Option<Thing>) -> Option<Thing> {
        let watched = watched.map(Arc::new);
        let lookup = watched.as_ref().map_or(Lookup::Absent, Lookup::Present);
        written.newest("u", &lookup).map(|found| found.as_ref().clone())
    }

    #[test]
    fn what_was_written_counts_until_the_watch_has_caught_up() {
        let written = Things::default();
        let of_version = |version| Some(Thing("a", version));
        assert_eq!(newest(&written, of_version("9")), of_version("9"));
        written.remember(&"u", Thing("a", "10"));
        assert_eq!(newest(&written, of_version("9")), of_version("10"));
        assert_eq!(newest(&written, of_version("10")), of_version("10"));
        assert_eq!(
            newest(&written, of_version("9")),
            of_version("9"),
            "it was forgotten when the watch had caught up"
        );
    }

    #[test]
    fn another_object_of_the_name_or_none_is_not_hidden_by_what_was_written() {
        let written = Things::default();
        written.remember(&"u", Thing("a", "10"));
        assert_eq!(newest(&written, Some(Thing("b", "8"))), Some(Thing("b", "8")));
        written.remember(&"u", Thing("a", "10"));
        assert_eq!(newest(&written, None), None);
        assert_eq!(newest(&written, Some(Thing("a", "9"))), Some(Thing("a", "9")));
    }

    #[test]
    fn an_answer_that_comes_late_does_not_hide_a_newer_one() {
        let written = Things::default();
        written.remember(&"u", Thing("a", "11"));
        written.remember(&"u", Thing("a", "10"));
        assert_eq!(newest(&written, Some(Thing("a", "9"))), Some(Thing("a", "11")));
        written.remember(&"u", Thing("b", "8"));
        assert_eq!(
            newest(&written, Some(Thing("b", "7"))),
            Some(Thing("b", "8")),
            "another object of the name"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_created_is_there_before_the_watch_shows_it_but_not_for_ever() {
        let written = Things::default();
        written.created(&"u", Thing("a", "10"));
        assert_eq!(newest(&written, None), Some(Thing("a", "10")));
        tokio::time::advance(UNSEEN).await;
        assert_eq!(newest(&written, None), None);
    }

    #[tokio::test]
    async fn the_watch_has_the_last_word_on_what_was_created() {
        let written = Things::default();
        written.created(&"u", Thing("a", "10"));
        written.seen(&"u", Some(&Arc::new(Thing("a", "9"))));
        assert_eq!(newest(&written, None), Some(Thing("a", "10")), "an older state says nothing");
        written.seen(&"u", Some(&Arc::new(Thing("a", "10"))));
        assert_eq!(newest(&written, None), None, "it was seen, and is gone since");
    }

    #[tokio::test]
    async fn what_the_api_server_denies_is_forgotten_and_nothing_else() {
        let written = Things::default();
        written.created(&"u", Thing("a", "10"));
        written.forget(&"v");
        assert_eq!(newest(&written, None), Some(Thing("a", "10")));
        written.forget(&"u");
        assert_eq!(newest(&written, None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_created_can_be_asked_for_until_the_watch_shows_it() {
        let written = Things::default();
        written.created(&"u", Thing("a", "10"));
        written.remember(&"v", Thing("a", "11"));
        assert_eq!(written.unseen(|thing| thing.0 == "a"), ["u"], "the other one was there before");
        assert_eq!(written.unseen(|thing| thing.0 == "b"), [""; 0]);
        written.seen(&"u", Some(&Arc::new(Thing("a", "10"))));
        assert_eq!(written.unseen(|_| true), [""; 0]);
        written.created(&"u", Thing("a", "12"));
        tokio::time::advance(UNSEEN).await;
        assert_eq!(written.unseen(|_| true), [""; 0], "one that the watch never shows is gone");
    }

    #[tokio::test]
    async fn a_list_that_shows_another_object_of_the_name_or_none_ends_what_was_written() {
        let written = Things::default();
        for watched in [None, Some(Arc::new(Thing("b", "3")))] {
            written.created(&"u", Thing("a", "10"));
            written.seen(&"u", watched.as_ref());
            assert_eq!(newest(&written, None), None, "{watched:?}");
            assert!(written.lock().is_empty(), "nothing is kept");
        }
    }
}
