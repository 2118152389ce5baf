//! What happened to rows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::row::Row;

/// A row of any declared type.
pub(crate) type AnyRow = Arc<dyn Any + Send + Sync>;

/// One row that was inserted, changed or deleted.
#[derive(Clone)]
pub struct RowChange {
    table: &'static str,
    uuid: Uuid,
    old: Option<AnyRow>,
    new: Option<AnyRow>,
}

/// A [`RowChange`] of a known type.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<T> {
    /// The row.
    pub uuid: Uuid,
    /// Before; `None` if the row is new.
    pub old: Option<Arc<T>>,
    /// After; `None` if the row is gone.
    pub new: Option<Arc<T>>,
}

impl RowChange {
    pub(crate) fn new<T: Row>(uuid: Uuid, old: Option<Arc<T>>, new: Option<Arc<T>>) -> Self {
        Self { table: T::TABLE, uuid, old: old.map(|row| row as AnyRow), new: new.map(|row| row as AnyRow) }
    }

    /// Name of the table.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.table
    }

    /// Identity of the row.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The change as one of a `T`; `None` if it concerns another table.
    #[must_use]
    pub fn row<T: Row>(&self) -> Option<Change<T>> {
        let typed = |row: &Option<AnyRow>| match row {
            None => Some(None),
            Some(row) => row.clone().downcast::<T>().ok().map(Some),
        };
        // A row is never absent on both sides, so a change of another table fails in one of the two.
        Some(Change { uuid: self.uuid, old: typed(&self.old)?, new: typed(&self.new)? })
    }
}

impl fmt::Debug for RowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (&self.old, &self.new) {
            (None, _) => "insert",
            (Some(_), Some(_)) => "change",
            (Some(_), None) => "delete",
        };
        write!(f, "{what} {} {}", self.table, self.uuid)
    }
}
