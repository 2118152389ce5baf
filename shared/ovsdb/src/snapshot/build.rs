//! Snapshots made by hand.

use std::sync::Arc;

use uuid::Uuid;

use super::{AnyTable, Snapshot, TypedTable};
use crate::column::{Arity, Shape};
use crate::row::Row;
use crate::schema::{ColumnSchema, TableLayout};

/// Makes a [`Snapshot`] without a server, as if the server had exactly the declared tables and columns.
#[derive(Default)]
pub struct SnapshotBuilder {
    tables: Vec<Arc<dyn AnyTable>>,
}

impl SnapshotBuilder {
    /// Adds an empty table. Adding a row of the table does so too.
    #[must_use]
    pub fn table<T: Row>(mut self) -> Self {
        if self.position::<T>().is_none() {
            self.tables.push(Arc::new(TypedTable::<T>::new(full_layout::<T>())));
        }
        self
    }

    /// Adds a row, or replaces the one with the same identity.
    #[must_use]
    pub fn row<T: Row>(self, uuid: Uuid, row: T) -> Self {
        let mut this = self.table::<T>();
        if let Some(slot) = this.position::<T>().and_then(|position| this.tables.get_mut(position))
            && let Some(table) = slot.as_any().downcast_ref::<TypedTable<T>>()
        {
            let mut table = table.clone();
            table.put(uuid, Some(&Arc::new(row)));
            *slot = Arc::new(table);
        }
        this
    }

    /// The snapshot; its generation is 1.
    #[must_use]
    pub fn build(self) -> Snapshot {
        Snapshot::empty(self.tables).with_generation(1)
    }

    fn position<T: Row>(&self) -> Option<usize> {
        self.tables.iter().position(|table| table.as_any().is::<TypedTable<T>>())
    }
}

fn full_layout<T: Row>() -> TableLayout {
    TableLayout { columns: T::columns().iter().map(|column| Some(widest(column.shape))).collect() }
}

fn widest(shape: Shape) -> ColumnSchema {
    let (min, max) = match shape.arity {
        Arity::One => (1, Some(1)),
        Arity::Optional => (0, Some(1)),
        Arity::Many => (0, None),
    };
    ColumnSchema { elements: shape.elements, min, max, ref_table: None }
}
