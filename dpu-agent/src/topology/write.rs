//! From a plan to the smallest transaction.
//!
//! In: a network's [`Plan`], which of its parts are meant, a snapshot. Out: a transaction that brings
//! these parts, and nothing else, to what is planned. A part that is not planned keeps its rows; one that is planned to be
//! empty, or a network that is gone, loses them.
//!
//! First file to read: `write/desired.rs`.

use std::collections::BTreeSet;

use causeway_net::network::name::{NetworkName, NodeName};
use ipnet::IpNet;
use ovsdb::{DiffError, Snapshot, TransactError, Transaction, diff};

use super::own::Owner;
use super::plan::{Part, Plan};
use super::rows::Rows;

mod children;
mod desired;
mod services;
mod zone;

/// How often a change that lost a race is planned anew before somebody else has to decide when to go on.
const RACES: usize = 8;

/// Which parts of a network a change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// These.
    Only(BTreeSet<Part>),
    /// All but these.
    AllBut(BTreeSet<Part>),
}

impl Parts {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self::AllBut(BTreeSet::new())
    }

    /// Whether a part is one of them.
    #[must_use]
    pub fn covers(&self, part: &Part) -> bool {
        match self {
            Self::Only(parts) => parts.contains(part),
            Self::AllBut(parts) => !parts.contains(part),
        }
    }

    /// These without the parts that cannot be planned.
    fn without_problems(&self, plan: &Plan) -> Self {
        match self {
            Self::Only(parts) => {
                Self::Only(parts.iter().filter(|part| !plan.problems.contains_key(*part)).cloned().collect())
            }
            Self::AllBut(parts) => Self::AllBut(parts.iter().chain(plan.problems.keys()).cloned().collect()),
        }
    }
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The rows cannot be compared with what is there.
    #[error("rows of network {network} cannot be planned against the database")]
    Diff {
        /// The network.
        network: NetworkName,
        /// Why.
        #[source]
        source: DiffError,
    },
    /// What is there is not known.
    #[error("the Northbound database is not current")]
    NotCurrent(#[from] ovsdb::NotCurrent),
    /// The server refused, or could not be asked.
    #[error("rows of network {network} could not be written")]
    Transact {
        /// The network.
        network: NetworkName,
        /// Why.
        #[source]
        source: TransactError,
    },
}

/// What a change came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to do.
    Unchanged,
    /// One transaction with this many operations.
    Changed {
        /// Their number, guards included.
        operations: usize,
    },
}

/// The side of a zone that writes: whose zone it is, and what the whole zone has.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The node.
    pub node: NodeName,
    /// Join ranges of the default network.
    pub default_join: Vec<IpNet>,
    /// Rows of the zone itself.
    pub rows: Rows,
}

impl Zone {
    /// The change that brings the zone's own rows to what is planned.
    ///
    /// # Errors
    /// They cannot be compared with what is there.
    pub fn change(&self, have: &Snapshot) -> Result<Transaction, DiffError> {
        let mut want = ovsdb::Desired::default();
        zone::rows(&mut want, &self.rows, have);
        diff(&want, have)
    }

    /// The change that brings parts of a network to what is planned.
    ///
    /// # Errors
    /// They cannot be compared with what is there.
    pub fn network_change(
        &self,
        network: &NetworkName,
        plan: &Plan,
        parts: &Parts,
        have: &Snapshot,
    ) -> Result<Transaction, DiffError> {
        let parts = parts.without_problems(plan);
        let mut rows = Rows::default();
        let meant = plan.parts.iter().filter(|(part, _)| parts.covers(part));
        meant.for_each(|(_, group)| rows.extend(group.clone()));
        let owner = Owner::new(network, &self.node, &self.default_join);
        diff(&desired::of(self, owner, parts, &rows, have)?, have)
    }

    /// The change that brings the sets of addresses of Services to what is planned. Where not `all` Services are known,
    /// nothing is taken out of them.
    ///
    /// # Errors
    /// They cannot be compared with what is there.
    pub fn services_change(rows: &Rows, all: bool, have: &Snapshot) -> Result<Transaction, DiffError> {
        diff(&services::sets(rows, all, have), have)
    }

    /// The change that removes a network.
    ///
    /// # Errors
    /// It cannot be compared with what is there.
    pub fn removal(&self, network: &NetworkName, have: &Snapshot) -> Result<Transaction, DiffError> {
        self.network_change(network, &Plan::default(), &Parts::all(), have)
    }

    /// Writes the zone's own rows.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write(&self, store: &ovsdb::Store) -> Result<Outcome, WriteError> {
        let network = NetworkName::default_network();
        commit(store, &network, |have| self.change(have)).await
    }

    /// Writes parts of a network.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_network(
        &self,
        store: &ovsdb::Store,
        network: &NetworkName,
        plan: &Plan,
        parts: &Parts,
    ) -> Result<Outcome, WriteError> {
        commit(store, network, |have| self.network_change(network, plan, parts, have)).await
    }

    /// Writes the sets of addresses of Services.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn write_services(store: &ovsdb::Store, rows: &Rows, all: bool) -> Result<Outcome, WriteError> {
        let network = NetworkName::default_network();
        commit(store, &network, |have| Self::services_change(rows, all, have)).await
    }

    /// Removes a network.
    ///
    /// # Errors
    /// [`WriteError`].
    pub async fn remove_network(
        &self,
        store: &ovsdb::Store,
        network: &NetworkName,
    ) -> Result<Outcome, WriteError> {
        commit(store, network, |have| self.removal(network, have)).await
    }
}

/// Plans against the newest snapshot and commits; plans anew after a lost race. The snapshot holds the change when this
/// returns: a server sends a change to those who follow before it answers who made it (ovsdb-server(7), "monitor").
pub(super) async fn commit(
    store: &ovsdb::Store,
    network: &NetworkName,
    change: impl Fn(&Snapshot) -> Result<Transaction, DiffError>,
) -> Result<Outcome, WriteError> {
    let mut races = 0;
    loop {
        let have = store.current()?;
        let change = change(&have).map_err(|source| WriteError::Diff { network: network.clone(), source })?;
        if change.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let operations = change.operations().len();
        let change = change.with_comment(&format!("causeway: network {network}"));
        match store.transact(&change).await {
            Ok(_) => return Ok(Outcome::Changed { operations }),
            Err(error) if error.is_race() && races < RACES => races += 1,
            Err(source) => return Err(WriteError::Transact { network: network.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests;
