//! Mirrors that this process wrote and that the watch has not shown yet.
//!
//! The API server makes up the names of mirrors, so a pass that comes before the watch would make a second one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::watched::{Mirror, SliceKey};

/// The mirrors, by what they mirror. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Mutex<HashMap<SliceKey, Arc<Mirror>>>>);

impl Written {
    /// Takes over the API server's answer to a write. A source has one mirror, so the newest counts.
    pub(super) fn remember(&self, mirror: Mirror) {
        self.lock().insert(mirror.source.clone(), Arc::new(mirror));
    }

    /// Takes over what the watch shows of a mirror: what was there before the change, and now. A change of the
    /// remembered mirror that is not older than it, or its end, means that the watch has caught up.
    pub(super) fn seen(&self, old: Option<&Mirror>, new: Option<&Mirror>) {
        let Some(shown) = new.or(old) else { return };
        let mut written = self.lock();
        if let Some(ours) = written.get(&shown.source)
            && ours.uid == shown.uid
            && new.is_none_or(|new| version(new) >= version(ours))
        {
            written.remove(&shown.source);
        }
    }

    /// Forgets what was written about one slice: the API server knows otherwise.
    pub(super) fn forget(&self, source: &SliceKey) {
        self.lock().remove(source);
    }

    /// Forgets everything: another process may have written since.
    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    /// The mirrors that the watch shows, with what was written since.
    pub(super) fn newest(&self, source: &SliceKey, mut watched: Vec<Arc<Mirror>>) -> Vec<Arc<Mirror>> {
        let Some(ours) = self.lock().get(source).cloned() else { return watched };
        match watched.iter_mut().find(|mirror| mirror.uid == ours.uid) {
            Some(same) if version(same) >= version(&ours) => {}
            Some(same) => *same = ours,
            None => watched.push(ours),
        }
        watched
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SliceKey, Arc<Mirror>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resource versions of one kind are numbers that grow (kubernetes.io, API concepts, "Resource versions").
fn version(mirror: &Mirror) -> Option<u64> {
    mirror.version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpointslice::fixtures::mirror_of;

    fn of_version(uid: &str, version: &str) -> Arc<Mirror> {
        let mut mirror = mirror_of("web");
        (mirror.uid, mirror.version) = (uid.to_owned(), version.to_owned());
        Arc::new(mirror)
    }

    fn versions(written: &Written, watched: &[Arc<Mirror>]) -> Vec<String> {
        let newest = written.newest(&SliceKey::new("blue", "web"), watched.to_vec());
        newest.iter().map(|mirror| format!("{}@{}", mirror.uid, mirror.version)).collect()
    }

    #[test]
    fn a_new_mirror_is_there_before_the_watch_shows_it_and_gone_when_the_watch_says_so() {
        let written = Written::default();
        let new = of_version("a", "10");
        written.remember((*new).clone());
        assert_eq!(versions(&written, &[]), ["a@10"]);
        assert_eq!(versions(&written, std::slice::from_ref(&new)), ["a@10"]);
        written.seen(None, Some(&new));
        written.seen(Some(&new), None);
        assert!(versions(&written, &[]).is_empty());
    }

    #[test]
    fn a_mirror_whose_end_is_the_first_thing_that_is_seen_is_gone() {
        let written = Written::default();
        written.remember((*of_version("a", "10")).clone());
        written.seen(Some(&of_version("a", "9")), None);
        assert!(versions(&written, &[]).is_empty());
    }

    #[test]
    fn a_changed_mirror_counts_until_the_watch_has_caught_up() {
        let written = Written::default();
        written.remember((*of_version("a", "10")).clone());
        written.seen(None, Some(&of_version("a", "9")));
        assert_eq!(versions(&written, &[of_version("a", "9"), of_version("b", "3")]), ["a@10", "b@3"]);
        assert_eq!(versions(&written, &[of_version("a", "11")]), ["a@11"]);
        written.seen(Some(&of_version("a", "9")), Some(&of_version("a", "10")));
        assert_eq!(versions(&written, &[of_version("a", "9")]), ["a@9"], "it was forgotten");
    }

    #[test]
    fn what_the_api_server_denies_is_forgotten() {
        let written = Written::default();
        written.remember((*of_version("a", "10")).clone());
        written.forget(&SliceKey::new("blue", "other"));
        assert_eq!(versions(&written, &[]), ["a@10"]);
        written.forget(&SliceKey::new("blue", "web"));
        assert!(versions(&written, &[]).is_empty());
    }
}
