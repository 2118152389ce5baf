//! The rows that one owner wants.

use std::any::Any;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use uuid::Uuid;

use super::claim::Claim;
use super::row::{Entry, Wanted};
use super::{DiffError, Steps};
use crate::row::{ColumnRef, Row};
use crate::snapshot::Snapshot;
use crate::transaction::{Condition, Function, Operation};

/// Stands for a desired row in other desired rows.
///
/// As a UUID it is above `BASE`. Row identities are random UUIDs of version 4 (RFC 7047 section 3.1 via RFC 4122), whose
/// version digit differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    position: usize,
}

impl Reference {
    const BASE: u128 = 0xffff_ffff_ffff_ffff << 64;

    pub(super) fn uuid(self) -> Uuid {
        Uuid::from_u128(Self::BASE | self.position as u128)
    }

    /// The name under which a transaction inserts the row.
    pub(crate) fn name(self) -> String {
        format!("row{}", self.position)
    }

    /// `None` if the UUID is that of an existing row.
    pub(crate) fn from_uuid(uuid: Uuid) -> Option<Self> {
        let bits = uuid.as_u128();
        let is_reference = bits & Self::BASE == Self::BASE;
        is_reference
            .then(|| usize::try_from(bits & !Self::BASE).ok())
            .flatten()
            .map(|position| Self { position })
    }
}

/// Rows that shall exist, and ownership of those that shall not.
#[derive(Default)]
pub struct Desired {
    entries: Vec<Box<dyn Entry>>,
    sweeps: Vec<Box<dyn AnySweep>>,
}

impl Desired {
    /// Wants a row. The result stands for the row in other desired rows, whether it exists already or not.
    pub fn row<T: Row>(&mut self, claim: &Arc<Claim<T>>, row: T) -> Uuid {
        let reference = Reference { position: self.entries.len() };
        self.entries.push(Box::new(Wanted { reference, row, claim: claim.clone() }));
        reference.uuid()
    }

    /// Deletes every row that `owned` calls ours and that is not wanted here. `owned` reads ownership from the column
    /// `mark`; the deletion is refused if that column changes meanwhile.
    ///
    /// The server refuses to delete a row that other rows refer to strongly: claim the referring columns too.
    pub fn sweep<T: Row, C>(
        &mut self,
        mark: ColumnRef<T, C>,
        owned: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) {
        self.sweeps.push(Box::new(Sweep { mark: mark.name(), owned: Box::new(owned) }));
    }

    /// Deletes one row, if it is there. Refused if its column `mark`, which said that it may go, changes meanwhile.
    pub fn delete<T: Row, C>(&mut self, uuid: Uuid, mark: ColumnRef<T, C>) {
        self.sweeps.push(Box::new(Removal::<T> { uuid, mark: mark.name(), rows: PhantomData }));
    }

    pub(super) fn entries(&self) -> &[Box<dyn Entry>] {
        &self.entries
    }

    pub(super) fn sweeps(&self) -> &[Box<dyn AnySweep>] {
        &self.sweeps
    }

    /// Whether a sweep calls the row ours.
    pub(super) fn owns<T: Row>(&self, row: &T) -> bool {
        self.sweeps
            .iter()
            .filter_map(|sweep| sweep.as_any().downcast_ref::<Sweep<T>>())
            .any(|sweep| (sweep.owned)(row))
    }
}

/// Decides whether a row is ours.
type Owned<T> = Box<dyn Fn(&T) -> bool + Send + Sync>;

struct Sweep<T: Row> {
    mark: &'static str,
    owned: Owned<T>,
}

pub(super) trait AnySweep: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    /// Plans the deletion of owned rows that are not `kept`, and adds them to `deleted`.
    fn delete(
        &self,
        have: &Snapshot,
        kept: &BTreeSet<Uuid>,
        deleted: &mut BTreeSet<Uuid>,
        steps: &mut Steps,
    ) -> Result<(), DiffError>;
}

impl<T: Row> AnySweep for Sweep<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn delete(
        &self,
        have: &Snapshot,
        kept: &BTreeSet<Uuid>,
        deleted: &mut BTreeSet<Uuid>,
        steps: &mut Steps,
    ) -> Result<(), DiffError> {
        let table = have.table::<T>().ok_or(DiffError::Undeclared { table: T::TABLE })?;
        for (uuid, row) in table.rows() {
            if kept.contains(&uuid) || !(self.owned)(row) || !deleted.insert(uuid) {
                continue; // wanted, foreign, or already swept by another sweep
            }
            plan_delete::<T>(uuid, row, self.mark, steps);
        }
        Ok(())
    }
}

/// One row that shall go.
struct Removal<T> {
    uuid: Uuid,
    mark: &'static str,
    rows: PhantomData<fn() -> T>,
}

impl<T: Row> AnySweep for Removal<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn delete(
        &self,
        have: &Snapshot,
        kept: &BTreeSet<Uuid>,
        deleted: &mut BTreeSet<Uuid>,
        steps: &mut Steps,
    ) -> Result<(), DiffError> {
        let table = have.table::<T>().ok_or(DiffError::Undeclared { table: T::TABLE })?;
        if let Some(row) = table.row(self.uuid)
            && !kept.contains(&self.uuid)
            && deleted.insert(self.uuid)
        {
            plan_delete::<T>(self.uuid, row, self.mark, steps);
        }
        Ok(())
    }
}

fn plan_delete<T: Row>(uuid: Uuid, row: &T, mark: &str, steps: &mut Steps) {
    let mut conditions = vec![Condition::row(uuid)];
    if let Some(value) = row.datum(mark) {
        conditions.push(Condition::new(mark, Function::Equal, value));
    }
    steps.guards.push(super::row::guard::<T>(uuid, conditions));
    steps
        .deletes
        .push(Operation::Delete { table: T::TABLE.to_owned(), conditions: vec![Condition::row(uuid)] });
}
