//! The contents of the declared tables at one moment.
//!
//! Snapshots are immutable and cheap to clone: tables and indexes are persistent maps, rows are shared.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::change::RowChange;
use crate::row::{Index, Row};
use crate::schema::TableLayout;
use crate::update::{TableUpdate, UpdateError};
use crate::value::Atom;

mod build;
mod table;

pub use build::SnapshotBuilder;
pub(crate) use table::{AnyTable, TypedTable};

/// Typed rows of one database.
#[derive(Clone)]
pub struct Snapshot {
    generation: u64,
    tables: Arc<[Arc<dyn AnyTable>]>,
}

impl Snapshot {
    pub(crate) fn empty(tables: Vec<Arc<dyn AnyTable>>) -> Self {
        Self { generation: 0, tables: tables.into() }
    }

    /// A snapshot made by hand, for tests of planners.
    #[must_use]
    pub fn builder() -> SnapshotBuilder {
        SnapshotBuilder::default()
    }

    /// Grows by one with every update that the server sent; 0 means that nothing has been read yet.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All rows of a table, ordered by identity.
    ///
    /// A table that the store was not opened with is empty here; debug builds assert that this does not happen, and
    /// [`diff`](crate::diff()) refuses such tables.
    pub fn rows<T: Row>(&self) -> impl Iterator<Item = (Uuid, &Arc<T>)> {
        self.declared::<T>().into_iter().flat_map(TypedTable::rows)
    }

    /// Number of rows of a table.
    #[must_use]
    pub fn len<T: Row>(&self) -> usize {
        self.declared::<T>().map_or(0, TypedTable::len)
    }

    /// Whether a table has no rows.
    #[must_use]
    pub fn is_empty<T: Row>(&self) -> bool {
        self.len::<T>() == 0
    }

    /// The row with a known identity.
    #[must_use]
    pub fn row<T: Row>(&self, uuid: Uuid) -> Option<&Arc<T>> {
        self.declared::<T>()?.row(uuid)
    }

    /// The rows that have `key` in a declared index, ordered by identity. Costs no scan.
    pub fn find<T: Row>(
        &self,
        index: Index<T>,
        key: impl Into<Atom>,
    ) -> impl Iterator<Item = (Uuid, &Arc<T>)> {
        let key = key.into();
        self.declared::<T>().into_iter().flat_map(move |table| table.find(index.name, key.clone()))
    }

    /// The first row that has `key` in a declared index: for indexes that are unique.
    #[must_use]
    pub fn find_one<T: Row>(&self, index: Index<T>, key: impl Into<Atom>) -> Option<(Uuid, &Arc<T>)> {
        self.find(index, key).next()
    }

    /// Whether the server has this declared column; only `optional` columns can be missing.
    #[must_use]
    pub fn has_column<T: Row>(&self, column: &str) -> bool {
        self.declared::<T>().is_some_and(|table| table.has_column(column))
    }

    pub(crate) fn table<T: Row>(&self) -> Option<&TypedTable<T>> {
        self.tables.iter().find_map(|table| table.as_any().downcast_ref())
    }

    fn declared<T: Row>(&self) -> Option<&TypedTable<T>> {
        let table = self.table::<T>();
        debug_assert!(table.is_some(), "table {} was not declared when the store was opened", T::TABLE);
        table
    }

    /// The same tables, empty, as the given schema lays them out.
    pub(crate) fn cleared(&self, layouts: &[TableLayout]) -> Self {
        let tables = self.tables.iter().zip(layouts).map(|(table, layout)| table.cleared(layout)).collect();
        Self { generation: self.generation, tables }
    }

    pub(crate) fn with_generation(mut self, generation: u64) -> Self {
        self.generation = generation;
        self
    }

    /// The next snapshot, and what differs.
    pub(crate) fn apply(&self, updates: &[TableUpdate<'_>]) -> Result<(Self, Vec<RowChange>), UpdateError> {
        let mut changes = Vec::new();
        let mut tables = self.tables.to_vec();
        for update in updates {
            let mut known = false;
            for table in tables.iter_mut().filter(|table| table.name() == update.table) {
                *table = table.apply(&update.rows, &mut changes)?;
                known = true;
            }
            if !known {
                return Err(UpdateError::UnknownTable { table: update.table.to_string() });
            }
        }
        Ok((Self { generation: self.generation + 1, tables: tables.into() }, changes))
    }

    /// What differs from an older snapshot of the same tables. Costs a pass over both.
    pub(crate) fn changes_since(&self, old: &Self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (new, old) in self.tables.iter().zip(old.tables.iter()) {
            new.changes_since(old.as_ref(), &mut changes);
        }
        changes
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}", self.generation)?;
        self.tables.iter().try_for_each(|table| write!(f, ", {} {}", table.count(), table.name()))
    }
}

#[cfg(test)]
mod tests;
