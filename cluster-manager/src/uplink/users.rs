//! Which ClusterUserDefinedNetworks use which Uplink; kept by their watch, change by change.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::watched::UplinkName;
use crate::groups::Groups;
use crate::observed::cr::{Cr, CrKey};

/// The users of Uplinks, also of Uplinks that do not exist. A network counts until its object is really gone. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Users(Arc<Mutex<Groups<UplinkName, CrKey>>>);

impl Users {
    /// Takes over one change of one network; returns the Uplinks that are used by more or by fewer than before.
    pub(super) fn change(&self, key: &CrKey, old: Option<&Cr>, new: Option<&Cr>) -> Vec<UplinkName> {
        let names = |cr: Option<&Cr>| -> BTreeSet<UplinkName> {
            cr.into_iter().flat_map(|cr| &cr.uplinks).map(|name| UplinkName::from(name.as_str())).collect()
        };
        let (before, after) = (names(old), names(new));
        let mut users = self.lock();
        for name in before.difference(&after) {
            users.remove(name, key);
        }
        for name in &after {
            users.insert(name.clone(), key.clone());
        }
        before.symmetric_difference(&after).cloned().collect()
    }

    /// Whether a network uses the Uplink.
    #[must_use]
    pub(super) fn any(&self, uplink: &UplinkName) -> bool {
        self.lock().has(uplink)
    }

    /// The networks that use the Uplink.
    #[must_use]
    pub(super) fn of(&self, uplink: &UplinkName) -> Vec<CrKey> {
        self.lock().of(uplink)
    }

    /// Every network that uses an Uplink.
    #[must_use]
    pub(super) fn all(&self) -> BTreeSet<CrKey> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Groups<UplinkName, CrKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::observed::fixtures::{cudn, layer3, terminating, with};

    fn key(name: &str) -> CrKey {
        CrKey::Cudn(name.into())
    }

    fn network(name: &str, uplinks: &[&str]) -> Cr {
        let object = with(cudn(name, layer3()), "/spec/uplinks", json!(uplinks));
        Cr::of_cudn(serde_json::from_value(object).unwrap()).unwrap()
    }

    fn names(names: &[&str]) -> Vec<UplinkName> {
        names.iter().map(|name| UplinkName::from(*name)).collect()
    }

    #[test]
    fn a_change_names_the_uplinks_that_are_used_by_more_or_by_fewer() {
        let users = Users::default();
        let (a, b) = (network("n", &["a"]), network("n", &["b"]));
        assert_eq!(users.change(&key("n"), None, Some(&a)), names(&["a"]));
        assert_eq!(users.change(&key("n"), Some(&a), Some(&a)), [], "nothing changed");
        assert_eq!(users.change(&key("n"), Some(&a), Some(&b)), names(&["a", "b"]));
        assert_eq!((users.any(&"a".into()), users.any(&"b".into())), (false, true));
        assert_eq!(users.change(&key("n"), Some(&b), None), names(&["b"]));
        assert!(!users.any(&"b".into()) && users.lock().is_empty(), "nothing is kept");
    }

    #[test]
    fn an_uplink_is_used_until_its_last_network_is_really_gone() {
        let users = Users::default();
        let (one, two) = (network("one", &["u"]), network("two", &["u"]));
        users.change(&key("one"), None, Some(&one));
        users.change(&key("two"), None, Some(&two));
        assert_eq!(users.of(&"u".into()), [key("one"), key("two")]);
        let object = terminating(with(cudn("one", layer3()), "/spec/uplinks", json!(["u"])));
        let going = Cr::of_cudn(serde_json::from_value(object).unwrap()).unwrap();
        assert_eq!(users.change(&key("one"), Some(&one), Some(&going)), []);
        users.change(&key("two"), Some(&two), None);
        assert!(users.any(&"u".into()), "it is being deleted, and not gone");
        assert_eq!(users.all(), BTreeSet::from([key("one")]));
        users.change(&key("one"), Some(&going), None);
        assert!(!users.any(&"u".into()) && users.all().is_empty());
    }
}
