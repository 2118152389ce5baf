//! Which ClusterUserDefinedNetworks use which Uplink; kept by their watch, change by change.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::watched::UplinkName;
use crate::observed::cr::{Cr, CrKey};

/// The users of Uplinks, also of Uplinks that do not exist. A network counts until its object is really gone. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Users(Arc<Mutex<HashMap<UplinkName, BTreeSet<CrKey>>>>);

impl Users {
    /// Takes over one change of one network; returns the Uplinks that are used by more or by fewer than before.
    pub(super) fn change(&self, key: &CrKey, old: Option<&Cr>, new: Option<&Cr>) -> Vec<UplinkName> {
        let names = |cr: Option<&Cr>| -> BTreeSet<UplinkName> {
            cr.into_iter().flat_map(|cr| &cr.uplinks).map(|name| UplinkName::from(name.as_str())).collect()
        };
        let (before, after) = (names(old), names(new));
        let mut users = self.lock();
        for name in before.difference(&after) {
            if let Some(keys) = users.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    users.remove(name);
                }
            }
        }
        for name in &after {
            users.entry(name.clone()).or_default().insert(key.clone());
        }
        before.symmetric_difference(&after).cloned().collect()
    }

    /// Whether a network uses the Uplink.
    #[must_use]
    pub(super) fn any(&self, uplink: &UplinkName) -> bool {
        self.lock().contains_key(uplink)
    }

    /// The networks that use the Uplink.
    #[must_use]
    pub(super) fn of(&self, uplink: &UplinkName) -> Vec<CrKey> {
        self.lock().get(uplink).into_iter().flatten().cloned().collect()
    }

    /// Every network that uses an Uplink.
    #[must_use]
    pub(super) fn all(&self) -> BTreeSet<CrKey> {
        self.lock().values().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UplinkName, BTreeSet<CrKey>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
