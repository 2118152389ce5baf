//! The smallest transaction that turns what is there into what is wanted.
//!
//! A [`Desired`] says which rows one owner wants and which part of each it owns ([`Claim`]); [`diff`] compares that with
//! a snapshot. Columns, elements and rows that no claim or sweep covers are never written. What the result relies on is
//! guarded: if a row or an owned value changed since the snapshot, the transaction fails as a whole with
//! [`TransactError::LostRace`](crate::TransactError::LostRace), and the caller plans again.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::change::AnyRow;
use crate::row::Row;
use crate::snapshot::Snapshot;
use crate::transaction::{Operation, Transaction};
use crate::value::{Atom, Datum};

mod claim;
mod desired;
mod pair;
mod row;

pub use claim::Claim;
pub use desired::Desired;
pub(crate) use desired::Reference;
pub use pair::pair;

/// A desired state that cannot be compared with the snapshot. Nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiffError {
    /// The snapshot comes from before the first sync.
    #[error("the database has not been read yet")]
    NotRead,
    /// The store was not opened with this table.
    #[error("table {table} is not part of the snapshot")]
    Undeclared {
        /// The table.
        table: &'static str,
    },
    /// A row that the claim demands to exist does not.
    #[error("no {table} {key}")]
    Missing {
        /// The table.
        table: &'static str,
        /// The key that was looked for.
        key: String,
    },
    /// Several rows have the key, and ownership does not tell them apart.
    #[error("{rows} rows of {table} match {key}")]
    Ambiguous {
        /// The table.
        table: &'static str,
        /// The key that was looked for.
        key: String,
        /// How many rows have it.
        rows: usize,
    },
    /// Two desired rows are the same row.
    #[error("{table} {key} is wanted twice")]
    Duplicate {
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
    },
    /// The desired row has no key in the index that identifies it.
    #[error("wanted row of {table} has no key in index {index}")]
    NoKey {
        /// The table.
        table: &'static str,
        /// The index.
        index: &'static str,
    },
    /// A value is wanted in an optional column that the server does not have.
    #[error("the server has no column {table}.{column}")]
    NoColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// A reference that another `Desired` handed out.
    #[error("{table}.{column} refers to a row that is not part of this desired state")]
    UnknownReference {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
}

/// The row that a desired row is, or will be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Existing(Uuid),
    New(String),
}

impl Target {
    fn atom(&self) -> Atom {
        match self {
            Self::Existing(uuid) => Atom::Uuid(*uuid),
            Self::New(name) => Atom::NamedUuid(name.clone()),
        }
    }
}

/// What is known before columns are compared: which row each reference stands for, and which rows will go or change.
struct Outlook<'a> {
    have: &'a Snapshot,
    targets: BTreeMap<Uuid, Target>,
    deleted: BTreeSet<Uuid>,
    /// Desired rows that exist and change, as they will be, as far as that does not depend on new rows.
    previews: BTreeMap<Uuid, AnyRow>,
}

impl Outlook<'_> {
    /// A row as it will be.
    fn row<T: Row>(&self, uuid: Uuid) -> Option<&T> {
        match self.previews.get(&uuid) {
            Some(preview) => preview.downcast_ref(),
            None => self.have.table::<T>()?.row(uuid).map(|row| &**row),
        }
    }

    /// A desired value with real or named rows in place of references; `None` if a reference is unknown.
    fn resolve(&self, datum: &Datum) -> Option<Datum> {
        let known = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => Reference::from_uuid(*uuid).is_none() || self.targets.contains_key(uuid),
            _ => true,
        };
        let complete = match datum {
            Datum::Set(atoms) => atoms.iter().all(known),
            Datum::Map(pairs) => pairs.iter().all(|(key, value)| known(key) && known(value)),
        };
        let replace = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => self.targets.get(uuid).map_or_else(|| atom.clone(), Target::atom),
            _ => atom.clone(),
        };
        complete.then(|| datum.map_atoms(replace))
    }

    fn is_deleted(&self, atom: &Atom) -> bool {
        matches!(atom, Atom::Uuid(uuid) if self.deleted.contains(uuid))
    }
}

/// Operations by the order in which they have to run: guards look at the state before the transaction.
#[derive(Default)]
struct Steps {
    guards: Vec<Operation>,
    inserts: Vec<Operation>,
    changes: Vec<Operation>,
    deletes: Vec<Operation>,
}

/// Compares a desired state with a snapshot.
///
/// Laws: if nothing differs the result is empty; applied to the snapshot's state it yields the desired state on all
/// that is owned and leaves everything else alone; a second pass after that is empty.
///
/// # Errors
/// [`DiffError`]; then nothing is to be written.
pub fn diff(want: &Desired, have: &Snapshot) -> Result<Transaction, DiffError> {
    if have.generation() == 0 {
        return Err(DiffError::NotRead);
    }
    let mut outlook =
        Outlook { have, targets: BTreeMap::new(), deleted: BTreeSet::new(), previews: BTreeMap::new() };
    let mut taken = BTreeSet::new();
    for entry in want.entries() {
        let (target, key) = entry.find(have, want)?;
        let identity = match &target {
            Target::Existing(uuid) => uuid.to_string(),
            Target::New(_) => key.clone(),
        };
        if !taken.insert((entry.table(), identity)) {
            return Err(DiffError::Duplicate { table: entry.table(), key });
        }
        outlook.targets.insert(entry.reference(), target);
    }
    let previews = want.entries().iter().filter_map(|entry| entry.preview(&outlook)).collect();
    outlook.previews = previews;
    let mut steps = Steps::default();
    let kept = outlook.targets.values().filter_map(|target| match target {
        Target::Existing(uuid) => Some(*uuid),
        Target::New(_) => None,
    });
    let kept: BTreeSet<Uuid> = kept.collect();
    for sweep in want.sweeps() {
        sweep.delete(have, &kept, &mut outlook.deleted, &mut steps)?;
    }
    for entry in want.entries() {
        entry.plan(&outlook, &mut steps)?;
    }
    let mut transaction = Transaction::default();
    transaction.extend(steps.guards);
    transaction.extend(steps.inserts);
    transaction.extend(steps.changes);
    transaction.extend(steps.deletes);
    Ok(transaction)
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
