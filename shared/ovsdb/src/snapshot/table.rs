//! One table of a snapshot: its rows and indexes.

use std::any::Any;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::change::RowChange;
use crate::delta;
use crate::members::Members;
use crate::row::{ColumnSpec, Row};
use crate::schema::{ColumnSchema, TableLayout};
use crate::update::{RowUpdate, UpdateError};
use crate::value::{Atom, Datum};

/// A table without its row type, as a snapshot holds it.
pub(crate) trait AnyTable: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> &'static str;
    fn count(&self) -> usize;
    fn cleared(&self, layout: &TableLayout) -> Arc<dyn AnyTable>;
    fn apply(
        &self,
        updates: &[(Uuid, RowUpdate<'_>)],
        changes: &mut Vec<RowChange>,
    ) -> Result<Arc<dyn AnyTable>, UpdateError>;
    fn changes_since(&self, old: &dyn AnyTable, changes: &mut Vec<RowChange>);
}

/// The rows of one table.
#[derive(Clone)]
pub(crate) struct TypedTable<T: Row> {
    layout: Arc<TableLayout>,
    rows: OrdMap<Uuid, Arc<T>>,
    /// One per declared index, in that order.
    indexes: Vec<OrdSet<(Key, Uuid)>>,
}

/// What an index holds of a key: as long as the key of a row that refers to another, whatever the key is. An index of as
/// many texts would take more than the rows do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The key itself.
    Row(Uuid),
    /// The hash of another key; keys that share it are told apart by the rows.
    Hash([u8; 8]),
}

impl Key {
    fn of(key: &Atom) -> Self {
        let mut hasher = DefaultHasher::new();
        match key {
            Atom::Uuid(uuid) => return Self::Row(*uuid),
            Atom::Integer(number) => number.hash(&mut hasher),
            Atom::Real(number) => number.to_bits().hash(&mut hasher),
            Atom::Boolean(is) => is.hash(&mut hasher),
            Atom::String(text) | Atom::NamedUuid(text) => text.hash(&mut hasher),
        }
        Self::Hash(hasher.finish().to_ne_bytes())
    }
}

impl<T: Row> TypedTable<T> {
    pub(crate) fn new(layout: TableLayout) -> Self {
        let indexes = T::indexes().iter().map(|_| OrdSet::new()).collect();
        Self { layout: Arc::new(layout), rows: OrdMap::new(), indexes }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (Uuid, &Arc<T>)> {
        self.rows.iter().map(|(uuid, row)| (*uuid, row))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, uuid: Uuid) -> Option<&Arc<T>> {
        self.rows.get(&uuid)
    }

    pub(crate) fn find(&self, index: &str, key: Atom) -> impl Iterator<Item = (Uuid, &Arc<T>)> {
        let mut declared = T::indexes().iter().zip(&self.indexes);
        let short = Key::of(&key);
        declared
            .find(|(declared, _)| declared.name == index)
            .into_iter()
            .flat_map(move |(declared, entries)| {
                let range = (short, Uuid::nil())..=(short, Uuid::max());
                entries.range(range).map(|(_, uuid)| (declared.keys, *uuid))
            })
            .filter_map(|(keys, uuid)| Some((keys, uuid, self.rows.get(&uuid)?)))
            .filter(move |(keys, _, row)| matches!(short, Key::Row(_)) || keys(row).contains(&key))
            .map(|(_, uuid, row)| (uuid, row))
    }

    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.columns().any(|(column, known)| column.name == name && known.is_some())
    }

    /// The value of a column nobody has written; `None` if the server does not have the column.
    pub(crate) fn default_datum(&self, name: &str) -> Option<Datum> {
        let (_, known) = self.columns().find(|(column, _)| column.name == name)?;
        known.map(ColumnSchema::default_datum)
    }

    fn columns(&self) -> impl Iterator<Item = (&'static ColumnSpec, Option<&ColumnSchema>)> {
        T::columns().iter().zip(self.layout.columns.iter().map(Option::as_ref))
    }

    /// Puts or removes one row, keeps the indexes in step, and returns the row that was there.
    pub(crate) fn put(&mut self, uuid: Uuid, new: Option<&Arc<T>>) -> Option<Arc<T>> {
        let old = match new {
            Some(row) => self.rows.insert(uuid, row.clone()),
            None => self.rows.remove(&uuid),
        };
        for (declared, entries) in T::indexes().iter().zip(&mut self.indexes) {
            let keys = |row: Option<&Arc<T>>| row.map(|row| (declared.keys)(row)).unwrap_or_default();
            let (before, after) = (keys(old.as_ref()), keys(new));
            if before == after {
                continue;
            }
            for key in before {
                entries.remove(&(Key::of(&key), uuid));
            }
            for key in after {
                entries.insert((Key::of(&key), uuid));
            }
        }
        old
    }

    /// A row that the server sent as a whole.
    fn whole(&self, uuid: Uuid, values: &RawValue) -> Result<T, UpdateError> {
        let values = Members::of(values).ok_or_else(|| UpdateError::malformed(values))?;
        let mut row = T::default();
        for (column, known) in self.columns() {
            let Some(known) = known else {
                set(&mut row, uuid, column.name, None)?;
                continue;
            };
            let datum = match values.get(column.name) {
                Some(value) => read::<T>(uuid, column.name, value, known)?,
                None => known.default_datum(),
            };
            set(&mut row, uuid, column.name, Some(&datum))?;
        }
        Ok(row)
    }

    /// An old row with the differences that the server sent.
    fn modified(&self, uuid: Uuid, old: &T, values: &RawValue) -> Result<T, UpdateError> {
        let values = Members::of(values).ok_or_else(|| UpdateError::malformed(values))?;
        let mut row = old.clone();
        for (column, known) in self.columns() {
            let (Some(known), Some(value)) = (known, values.get(column.name)) else { continue };
            let sent = read::<T>(uuid, column.name, value, known)?;
            let new = match old.datum(column.name) {
                Some(before) if known.is_composite() => delta::apply(&before, &sent).unwrap_or(sent),
                _ => sent,
            };
            set(&mut row, uuid, column.name, Some(&new))?;
        }
        Ok(row)
    }
}

fn read<T: Row>(
    uuid: Uuid,
    column: &'static str,
    value: &RawValue,
    known: &ColumnSchema,
) -> Result<Datum, UpdateError> {
    Datum::from_text(value, known.elements).map_err(|source| UpdateError::Value {
        table: T::TABLE,
        column,
        uuid,
        source,
    })
}

fn set<T: Row>(
    row: &mut T,
    uuid: Uuid,
    column: &'static str,
    datum: Option<&Datum>,
) -> Result<(), UpdateError> {
    row.set_datum(column, datum).map_err(|source| UpdateError::Shape {
        table: T::TABLE,
        column,
        uuid,
        source,
    })
}

impl<T: Row> AnyTable for TypedTable<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &'static str {
        T::TABLE
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    fn cleared(&self, layout: &TableLayout) -> Arc<dyn AnyTable> {
        Arc::new(Self::new(layout.clone()))
    }

    fn apply(
        &self,
        updates: &[(Uuid, RowUpdate<'_>)],
        changes: &mut Vec<RowChange>,
    ) -> Result<Arc<dyn AnyTable>, UpdateError> {
        let mut next = self.clone();
        for &(uuid, update) in updates {
            let unknown = || UpdateError::UnknownRow { table: T::TABLE, uuid };
            let new = match update {
                RowUpdate::Whole(values) => Some(Arc::new(self.whole(uuid, values)?)),
                RowUpdate::Modify(values) => {
                    let old = self.rows.get(&uuid).ok_or_else(unknown)?;
                    Some(Arc::new(self.modified(uuid, old, values)?))
                }
                RowUpdate::Delete => {
                    self.rows.get(&uuid).ok_or_else(unknown)?;
                    None
                }
            };
            let old = next.put(uuid, new.as_ref());
            if old != new {
                changes.push(RowChange::new(uuid, old, new));
            }
        }
        Ok(Arc::new(next))
    }

    fn changes_since(&self, old: &dyn AnyTable, changes: &mut Vec<RowChange>) {
        let Some(old) = old.as_any().downcast_ref::<Self>() else { return };
        for (uuid, before) in old.rows() {
            let after = self.rows.get(&uuid);
            if after != Some(before) {
                changes.push(RowChange::new(uuid, Some(before.clone()), after.cloned()));
            }
        }
        for (uuid, after) in self.rows() {
            if !old.rows.contains_key(&uuid) {
                changes.push(RowChange::new(uuid, None, Some(after.clone())));
            }
        }
    }
}
