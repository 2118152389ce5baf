//! What changes are passed on to.

use std::fmt;
use std::hash::Hash;

use causeway_runtime::engine::KeyQueue;
use causeway_runtime::leader::Leadership;

/// Puts keys into a room's queue as long as this process leads. A standby is not woken: it looks at everything when it
/// takes over, and keys that nobody takes would pile up. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Wake<Key> {
    queue: KeyQueue<Key>,
    leadership: Leadership,
}

impl<Key> fmt::Debug for Wake<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

impl<Key: Clone + Eq + Hash + Ord> Wake<Key> {
    /// Wakes the room that takes keys from `queue`.
    pub(crate) fn new(queue: &KeyQueue<Key>, leadership: &Leadership) -> Self {
        Self { queue: queue.clone(), leadership: leadership.clone() }
    }

    /// Whether anybody would be woken.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// A change concerns these keys.
    pub(crate) fn up(&self, keys: impl IntoIterator<Item = Key>) {
        let mut keys = keys.into_iter().peekable();
        // Most changes concern nobody: those are not worth a lock.
        if self.leads() && keys.peek().is_some() {
            self.queue.enqueue_all(keys);
        }
    }
}
