//! What this room looks at: Uplinks, Nodes, UplinkStates, and which states belong to which Uplink.
//!
//! A [`World`] is made of the newest snapshots. Absence in it means absence, because a world exists only once every kind
//! has been listed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::NodeName;
use causeway_runtime::watch::{Lookup, NotReady, Snapshot, Store};

use super::error::UplinkError;
use super::users::Users;
use super::watched::{State, StateKey, Uplink, UplinkName};
use crate::groups::Groups;
use crate::observed::place::Node;
use crate::observed::{self, unlisted};
use crate::written::Written;

/// Where the newest snapshots come from.
#[derive(Clone, Debug)]
pub(super) struct Stores {
    /// Every Uplink.
    pub(super) uplinks: Store<UplinkName, Uplink>,
    /// Every UplinkState.
    pub(super) states: Store<StateKey, State>,
    /// Nodes and networks.
    pub(super) shared: observed::Stores,
    /// Which states belong to which Uplink.
    pub(super) index: StateIndex,
    /// Which networks use which Uplink.
    pub(super) users: Users,
    /// Uplinks as this process wrote them.
    pub(super) written: Written<UplinkName, Uplink>,
}

/// Everything that matters for one Uplink, at one moment.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The Uplink, if there is one of that name.
    pub(super) uplink: Option<Arc<Uplink>>,
    /// Every Node.
    pub(super) nodes: Snapshot<NodeName, Node>,
    /// Every UplinkState.
    pub(super) states: Snapshot<StateKey, State>,
    /// The states whose identity names the Uplink. A hint: the snapshot of states has the last word.
    pub(super) states_of: Vec<StateKey>,
    /// Whether a network uses the Uplink.
    pub(super) used: bool,
}

/// The world of one Uplink, out of the newest snapshots.
///
/// # Errors
/// A kind that has not been listed completely, or an Uplink that cannot be read: nothing may be concluded from
/// either.
pub(super) fn world(name: &UplinkName, stores: &Stores) -> Result<World, UplinkError> {
    stores.all_listed()?;
    // States first: what gives a state its right to exist was there before it, and must not be missed here.
    let states = stores.states.snapshot();
    let states_of = stores.index.states_of(name);
    let uplinks = stores.uplinks.snapshot();
    let watched = uplinks.lookup(name.as_str());
    if let Lookup::Unreadable(error) = watched {
        return Err(UplinkError::Unreadable { uplink: name.clone(), error: error.to_owned() });
    }
    let uplink = stores.written.newest(name, &watched);
    let used = stores.users.any(name);
    Ok(World { uplink, nodes: stores.shared.nodes(), states, states_of, used })
}

impl Stores {
    /// Waits until every kind has been listed once.
    pub(super) async fn wait_synced(&self) {
        self.uplinks.wait_synced().await;
        self.states.wait_synced().await;
        self.shared.wait_synced().await;
    }

    /// Whether the kinds of this room have been listed and are being watched.
    pub(super) fn readiness(&self) -> Result<(), NotReady> {
        self.uplinks.readiness()?;
        self.states.readiness()
    }

    fn all_listed(&self) -> Result<(), UplinkError> {
        let unlisted = unlisted(&self.uplinks).or(unlisted(&self.states)).or(self.shared.unlisted());
        unlisted.map_or(Ok(()), |kind| Err(UplinkError::NotListed { kind: kind.to_owned() }))
    }
}

/// Which states name which Uplink in their identity; kept by the watch of states, change by change.
#[derive(Clone, Debug, Default)]
pub(super) struct StateIndex(Arc<Mutex<Groups<UplinkName, StateKey>>>);

impl StateIndex {
    /// Takes over one change of one state.
    pub(super) fn change(&self, key: &StateKey, old: Option<&State>, new: Option<&State>) {
        let mut index = self.lock();
        if let Some(old) = old {
            index.remove(&old.uplink, key);
        }
        if let Some(new) = new {
            index.insert(new.uplink.clone(), key.clone());
        }
    }

    /// Every Uplink that a state names, whether it exists or not.
    #[must_use]
    pub(super) fn uplinks(&self) -> Vec<UplinkName> {
        self.lock().names().cloned().collect()
    }

    /// The states of an Uplink, in the order of their names.
    #[must_use]
    pub(super) fn states_of(&self, uplink: &UplinkName) -> Vec<StateKey> {
        self.lock().of(uplink)
    }

    fn lock(&self) -> MutexGuard<'_, Groups<UplinkName, StateKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
