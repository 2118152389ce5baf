//! What the last pass over each Uplink wanted its condition to say.
//!
//! The status of an Uplink is written by this room alone, so its own writes must not wake it. A status that says something
//! else was written by somebody else: a person, or an earlier leader whose write came late. That one has to be looked at.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::condition::Wanted;

use super::watched::{Uplink, UplinkName};

/// The wishes, by Uplink. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected(Arc<Mutex<HashMap<UplinkName, Wanted>>>);

impl Expected {
    /// Takes over what a pass wants; none for an Uplink that is gone.
    pub(super) fn set(&self, name: &UplinkName, wanted: Option<Wanted>) {
        match wanted {
            Some(wanted) => self.lock().insert(name.clone(), wanted),
            None => self.lock().remove(name),
        };
    }

    /// Whether the Uplink says what it should, as far as is known.
    #[must_use]
    pub(super) fn is_met_by(&self, name: &UplinkName, uplink: &Uplink) -> bool {
        !uplink.owns_obsolete
            && self.lock().get(name).is_some_and(|wanted| wanted.is_met_by(&uplink.conditions))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UplinkName, Wanted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::condition::ConditionStatus;

    use super::*;
    use crate::uplink::fixtures::uplink;

    #[test]
    fn only_a_status_that_the_last_pass_wanted_is_expected() {
        let (name, expected) = (UplinkName::from("u"), Expected::default());
        let says = |reason| uplink("u", &[("br", "")]).condition("Ready", "True", reason, "m");
        assert!(!expected.is_met_by(&name, &says("Ready")), "nothing is known before the first pass");
        let wanted = Wanted {
            type_: "Ready",
            status: ConditionStatus::True,
            reason: "Ready",
            message: "m".into(),
            observed_generation: Some(1),
        };
        expected.set(&name, Some(wanted));
        assert!(expected.is_met_by(&name, &says("Ready")));
        assert!(!expected.is_met_by(&name, &says("Other")), "somebody wrote something else");
        assert!(!expected.is_met_by(&name, &uplink("u", &[])), "somebody took it away");
        let obsolete = Uplink { owns_obsolete: true, ..says("Ready") };
        assert!(!expected.is_met_by(&name, &obsolete));
        expected.set(&name, None);
        assert!(!expected.is_met_by(&name, &says("Ready")));
    }
}
