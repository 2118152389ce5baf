//! What the last pass over each object wanted its own conditions to say.
//!
//! Conditions of one type have one writer, so a room's own writes must not wake it. A condition that says something else was
//! written by somebody else: a person, or an earlier leader whose write came late. That one has to be looked at.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::condition::Wanted;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The wishes, by object. Cheap to clone.
pub(crate) struct Expected<Key>(Arc<Mutex<HashMap<Key, Vec<Wanted>>>>);

impl<Key> Default for Expected<Key> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<Key> Clone for Expected<Key> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Key> fmt::Debug for Expected<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expected").finish_non_exhaustive()
    }
}

impl<Key: Hash + Eq + Clone> Expected<Key> {
    /// Takes over what a pass wants; nothing for an object that is gone.
    pub(crate) fn set(&self, key: &Key, wanted: Vec<Wanted>) {
        if wanted.is_empty() {
            self.lock().remove(key);
        } else {
            self.lock().insert(key.clone(), wanted);
        }
    }

    /// Forgets everything: objects may have gone while nobody looked.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }

    /// Whether the conditions of an object say what they should, as far as is known.
    pub(crate) fn are_met_by(&self, key: &Key, conditions: &[Condition]) -> bool {
        self.lock().get(key).is_some_and(|wanted| wanted.iter().all(|wanted| wanted.is_met_by(conditions)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Wanted>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::condition::ConditionStatus;
    use jiff::Timestamp;

    use super::*;

    fn wanted(type_: &'static str, message: &str) -> Wanted {
        Wanted {
            type_,
            status: ConditionStatus::True,
            reason: "Ready",
            message: message.into(),
            observed_generation: Some(1),
        }
    }

    fn says(wanted: &[Wanted]) -> Vec<Condition> {
        wanted.iter().map(|wanted| wanted.against(&[], Timestamp::UNIX_EPOCH)).collect()
    }

    #[test]
    fn only_conditions_that_the_last_pass_wanted_are_expected() {
        let expected = Expected::default();
        let (own, other) = (wanted("Own", "m"), wanted("Another's", "whatever"));
        assert!(
            !expected.are_met_by(&"n", &says(std::slice::from_ref(&own))),
            "nothing is known before the first pass"
        );
        expected.set(&"n", vec![own.clone()]);
        assert!(expected.are_met_by(&"n", &says(&[other.clone(), own.clone()])));
        assert!(
            !expected.are_met_by(&"n", &says(&[wanted("Own", "changed")])),
            "somebody wrote something else"
        );
        assert!(!expected.are_met_by(&"n", &says(&[other])), "somebody took it away");
        expected.set(&"n", Vec::new());
        assert!(!expected.are_met_by(&"n", &says(std::slice::from_ref(&own))));
        expected.set(&"n", vec![own.clone()]);
        expected.forget_all();
        assert!(!expected.are_met_by(&"n", &says(&[own])));
    }
}
