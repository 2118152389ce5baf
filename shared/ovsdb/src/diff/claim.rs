//! Which row is meant, and which part of it the writer owns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Outlook;
use crate::column::MapColumn;
use crate::row::{ColumnRef, Index, Row};
use crate::value::Atom;
use uuid::Uuid;

/// Decides whether an element or key is ours.
type Owned = dyn Fn(&Outlook<'_>, &Atom) -> bool + Send + Sync;

/// How much of a column is owned.
#[derive(Clone)]
pub(super) enum Ownership {
    /// All of it.
    Whole,
    /// The elements or keys for which this holds, besides those that are wanted.
    Part(Arc<Owned>),
}

/// How a desired row is recognised among the existing ones.
pub(super) enum Identity<T> {
    /// It has the same key in this index.
    Index(Index<T>),
    /// It is this row.
    Row(Uuid),
    /// It is the only row of its table.
    Only,
    /// It is none of them.
    Fresh,
}

/// A column whose value no other row may have when a new row is inserted.
#[derive(Clone)]
pub(super) enum Unique {
    Column(&'static str),
    Keys(&'static str, BTreeSet<Atom>),
}

/// Says which existing row a desired row is, which of its columns the writer owns, and what to do if there is none.
///
/// A column that is not mentioned is neither compared nor written. One claim serves any number of rows.
pub struct Claim<T: Row> {
    pub(super) identity: Identity<T>,
    pub(super) columns: BTreeMap<&'static str, Ownership>,
    pub(super) unique: Vec<Unique>,
    pub(super) must_exist: bool,
}

impl<T: Row> Claim<T> {
    fn new(identity: Identity<T>, must_exist: bool) -> Self {
        Self { identity, columns: BTreeMap::new(), unique: Vec::new(), must_exist }
    }

    /// The row with the same key in an index; inserted if there is none.
    ///
    /// If several rows have the key, the first one that a sweep of the table calls owned is meant (the sweep then
    /// deletes its doubles); without such a row the diff fails as ambiguous.
    #[must_use]
    pub fn by(index: Index<T>) -> Self {
        Self::new(Identity::Index(index), false)
    }

    /// The row with this identity, which must exist.
    #[must_use]
    pub fn row(uuid: Uuid) -> Self {
        Self::new(Identity::Row(uuid), true)
    }

    /// The only row of a table with a single row (`Open_vSwitch`, `NB_Global`); inserted if there is none.
    #[must_use]
    pub fn only() -> Self {
        Self::new(Identity::Only, false)
    }

    /// A row that does not exist yet: for rows without a key of their own, which their writer has looked for in the row
    /// that they live in ([`pair`](crate::pair)).
    #[must_use]
    pub fn fresh() -> Self {
        Self::new(Identity::Fresh, false)
    }

    /// Never insert: a missing row makes the diff fail. For rows that others create.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Owns every declared column as a whole. Later calls can narrow single columns.
    #[must_use]
    pub fn all(mut self) -> Self {
        self.columns = T::columns().iter().map(|column| (column.name, Ownership::Whole)).collect();
        self
    }

    /// Owns a column as a whole: it will have exactly the wanted value.
    #[must_use]
    pub fn whole<C>(mut self, column: ColumnRef<T, C>) -> Self {
        self.columns.insert(column.name(), Ownership::Whole);
        self
    }

    /// Owns nothing of a column; takes back what [`all`](Self::all) said.
    #[must_use]
    pub fn none<C>(mut self, column: ColumnRef<T, C>) -> Self {
        self.columns.remove(column.name());
        self
    }

    /// Owns these keys of a map: those without a wanted value are removed, all other keys survive.
    #[must_use]
    pub fn keys<C: MapColumn>(
        self,
        column: ColumnRef<T, C>,
        keys: impl IntoIterator<Item = impl Into<Atom>>,
    ) -> Self {
        let keys: BTreeSet<Atom> = keys.into_iter().map(Into::into).collect();
        self.part(column, move |key| keys.contains(key))
    }

    /// Owns the elements of a set, or keys of a map, for which `owned` holds; the rest survives. The wanted elements
    /// need not fulfil it. `|_| false` only ever adds.
    #[must_use]
    pub fn part<C>(
        mut self,
        column: ColumnRef<T, C>,
        owned: impl Fn(&Atom) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.columns.insert(column.name(), Ownership::Part(Arc::new(move |_, atom| owned(atom))));
        self
    }

    /// Owns those references to rows of `R` for which `owned` holds; other references survive. Rows are judged as they
    /// will be after the same diff; a reference to a row that it sweeps away is always dropped.
    #[must_use]
    pub fn references<C, R: Row>(
        mut self,
        column: ColumnRef<T, C>,
        owned: impl Fn(&R) -> bool + Send + Sync + 'static,
    ) -> Self {
        let judge = move |outlook: &Outlook<'_>, element: &Atom| match element {
            Atom::Uuid(uuid) => outlook.row::<R>(*uuid).is_some_and(&owned),
            _ => false,
        };
        self.columns.insert(column.name(), Ownership::Part(Arc::new(judge)));
        self
    }

    /// A new row is only inserted while no other row has the same value in this column; else the race is lost.
    #[must_use]
    pub fn unique<C>(mut self, column: ColumnRef<T, C>) -> Self {
        self.unique.push(Unique::Column(column.name()));
        self
    }

    /// A new row is only inserted while no other row has the same values under these keys of a map.
    #[must_use]
    pub fn unique_keys<C: MapColumn>(
        mut self,
        column: ColumnRef<T, C>,
        keys: impl IntoIterator<Item = impl Into<Atom>>,
    ) -> Self {
        self.unique.push(Unique::Keys(column.name(), keys.into_iter().map(Into::into).collect()));
        self
    }
}
