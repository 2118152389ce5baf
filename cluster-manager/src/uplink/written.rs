//! Uplinks that this process wrote and that the watch has not shown yet.
//!
//! A pass that comes before the watch would plan from the object as it was before the write: it would write the same again,
//! with another transition time, and name a version that is not the newest any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_runtime::watch::Lookup;

use super::watched::{Uplink, UplinkName};

/// The Uplinks, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(Arc<Mutex<HashMap<UplinkName, Arc<Uplink>>>>);

impl Written {
    /// Takes over the API server's answer to a write.
    pub(super) fn remember(&self, name: &UplinkName, uplink: Uplink) {
        self.lock().insert(name.clone(), Arc::new(uplink));
    }

    /// Forgets everything: another process may have written since.
    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    /// The newer of what the watch shows and what was written. An Uplink that the watch shows as gone is gone.
    pub(super) fn newest(&self, name: &UplinkName, watched: &Lookup<'_, Uplink>) -> Option<Arc<Uplink>> {
        let mut written = self.lock();
        let Lookup::Present(watched) = watched else {
            written.remove(name);
            return None;
        };
        if let Some(ours) = written.get(name) {
            if version(ours) > version(watched) && ours.facts.uid == watched.facts.uid {
                return Some(Arc::clone(ours));
            }
            written.remove(name);
        }
        Some(Arc::clone(watched))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UplinkName, Arc<Uplink>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resource versions of one kind are numbers that grow (kubernetes.io, API concepts, "Resource versions").
fn version(uplink: &Uplink) -> Option<u64> {
    uplink.version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uplink::fixtures::uplink;

    fn of_version(version: &str) -> Uplink {
        Uplink { version: Some(version.to_owned()), ..uplink("u", &[]) }
    }

    #[test]
    fn what_was_written_counts_until_the_watch_has_caught_up() {
        let (name, written) = (UplinkName::from("u"), Written::default());
        let newest = |watched: &Uplink| {
            let watched = Arc::new(watched.clone());
            written.newest(&name, &Lookup::Present(&watched)).unwrap().version.clone().unwrap()
        };
        assert_eq!(newest(&of_version("9")), "9");
        written.remember(&name, of_version("10"));
        assert_eq!(newest(&of_version("9")), "10");
        assert_eq!(newest(&of_version("10")), "10");
        assert_eq!(newest(&of_version("9")), "9", "it was forgotten when the watch had caught up");
    }

    #[test]
    fn another_uplink_of_the_name_or_none_is_not_hidden_by_what_was_written() {
        let (name, written) = (UplinkName::from("u"), Written::default());
        let mut other = of_version("8");
        other.facts.uid = "another".to_owned();
        let other = Arc::new(other);
        written.remember(&name, of_version("10"));
        assert_eq!(written.newest(&name, &Lookup::Present(&other)), Some(Arc::clone(&other)));
        written.remember(&name, of_version("10"));
        assert_eq!(written.newest(&name, &Lookup::Absent), None);
        let old = Arc::new(of_version("9"));
        assert_eq!(written.newest(&name, &Lookup::Present(&old)), Some(Arc::clone(&old)));
    }
}
