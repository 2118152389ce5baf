//! Compares one desired row with the existing one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use super::claim::{Claim, Identity, Ownership, Unique};
use super::desired::{Desired, Reference};
use super::{DiffError, Outlook, Steps, Target};
use crate::change::AnyRow;
use crate::row::Row;
use crate::snapshot::{Snapshot, TypedTable};
use crate::transaction::{Columns, Condition, Function, Mutation, Mutator, Operation};
use crate::value::{Atom, Datum};

/// One desired row and its claim.
pub(super) struct Wanted<T: Row> {
    pub(super) reference: Reference,
    pub(super) row: T,
    pub(super) claim: Arc<Claim<T>>,
}

/// A desired row of any table.
pub(super) trait Entry: Send + Sync {
    fn table(&self) -> &'static str;
    fn reference(&self) -> Uuid;
    /// The row that is meant, and a readable key for messages.
    fn find(&self, have: &Snapshot, want: &Desired) -> Result<(Target, String), DiffError>;
    /// The existing row as it will be; `None` if the row is new, or stays as it is.
    fn preview(&self, outlook: &Outlook<'_>) -> Option<(Uuid, AnyRow)>;
    fn plan(&self, outlook: &Outlook<'_>, steps: &mut Steps) -> Result<(), DiffError>;
}

/// The guard that a row exists and meets the conditions.
pub(super) fn guard<T: Row>(uuid: Uuid, conditions: Vec<Condition>) -> Operation {
    const COLUMN: &str = "_uuid";
    Operation::Wait {
        table: T::TABLE.to_owned(),
        conditions,
        columns: vec![COLUMN.to_owned()],
        rows: vec![Columns::from([(COLUMN.to_owned(), Datum::scalar(uuid))])],
    }
}

impl<T: Row> Entry for Wanted<T> {
    fn table(&self) -> &'static str {
        T::TABLE
    }

    fn reference(&self) -> Uuid {
        self.reference.uuid()
    }

    fn find(&self, have: &Snapshot, want: &Desired) -> Result<(Target, String), DiffError> {
        let table = have.table::<T>().ok_or(DiffError::Undeclared { table: T::TABLE })?;
        let (key, mut found) = match &self.claim.identity {
            Identity::Index(index) => {
                let no_key = || DiffError::NoKey { table: T::TABLE, index: index.name };
                let key = (index.keys)(&self.row).into_iter().next().ok_or_else(no_key)?;
                (key.to_string(), table.find(index.name, key).collect::<Vec<_>>())
            }
            Identity::Row(uuid) => {
                (uuid.to_string(), table.row(*uuid).map(|row| (*uuid, row)).into_iter().collect())
            }
            Identity::Only => ("row".to_owned(), table.rows().collect()),
            Identity::Fresh => (self.reference.name(), Vec::new()),
        };
        if found.len() > 1 {
            let rows = found.len();
            found.retain(|(_, row)| want.owns::<T>(row));
            if found.is_empty() {
                return Err(DiffError::Ambiguous { table: T::TABLE, key, rows });
            }
        }
        let target = match found.first() {
            Some((uuid, _)) => Target::Existing(*uuid),
            None if self.claim.must_exist => return Err(DiffError::Missing { table: T::TABLE, key }),
            None => Target::New(self.reference.name()),
        };
        Ok((target, key))
    }

    fn preview(&self, outlook: &Outlook<'_>) -> Option<(Uuid, AnyRow)> {
        let (uuid, have) = self.existing(outlook)?;
        let mut differing = self.differing(have).peekable();
        differing.peek()?;
        let mut row = T::clone(have);
        for (column, ownership) in differing {
            let Some((wanted, present)) = self.row.datum(column).zip(have.datum(column)) else { continue };
            let new = match ownership {
                Ownership::Whole => wanted,
                Ownership::Part(owned) => merged(&wanted, present, |atom| owned(outlook, atom)),
            };
            // A value that refers to new rows does not fit yet; the column then shows its present value.
            row.set_datum(column, outlook.resolve(&new).as_ref()).ok();
        }
        Some((uuid, Arc::new(row)))
    }

    fn plan(&self, outlook: &Outlook<'_>, steps: &mut Steps) -> Result<(), DiffError> {
        let table = outlook.have.table::<T>().ok_or(DiffError::Undeclared { table: T::TABLE })?;
        match self.existing(outlook) {
            Some((uuid, row)) => self.change(outlook, table, uuid, row, steps),
            None => self.insert(outlook, table, steps),
        }
    }
}

/// A value that is owned in part, with the wanted part in place of the owned one.
fn merged(wanted: &Datum, present: Datum, owned: impl Fn(&Atom) -> bool) -> Datum {
    match (wanted, present) {
        (Datum::Set(wanted), Datum::Set(mut present)) => {
            present.retain(|atom| !owned(atom));
            present.extend(wanted.iter().cloned());
            Datum::Set(present)
        }
        (Datum::Map(wanted), Datum::Map(mut present)) => {
            present.retain(|key, _| !owned(key));
            present.extend(wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
            Datum::Map(present)
        }
        (_, present) => present, // both are of the same column, so this does not happen
    }
}

impl<T: Row> Wanted<T> {
    /// The row that is meant, if it exists.
    fn existing<'a>(&self, outlook: &Outlook<'a>) -> Option<(Uuid, &'a Arc<T>)> {
        match outlook.targets.get(&self.reference.uuid()) {
            Some(Target::Existing(uuid)) => outlook.have.table::<T>()?.row(*uuid).map(|row| (*uuid, row)),
            _ => None,
        }
    }

    /// The claimed columns that have not the wanted value already; most rows have none.
    fn differing(&self, have: &T) -> impl Iterator<Item = (&'static str, &Ownership)> {
        let columns = self.claim.columns.iter().map(|(column, ownership)| (*column, ownership));
        columns.filter(|(column, _)| !self.row.same(have, column))
    }

    /// The wanted value of a claimed column with references resolved; `None` if there is nothing to say about it.
    fn value(
        &self,
        outlook: &Outlook<'_>,
        table: &TypedTable<T>,
        column: &'static str,
    ) -> Result<Option<Datum>, DiffError> {
        let Some(wanted) = self.row.datum(column) else { return Ok(None) };
        if !table.has_column(column) {
            return Err(DiffError::NoColumn { table: T::TABLE, column });
        }
        let unknown = DiffError::UnknownReference { table: T::TABLE, column };
        outlook.resolve(&wanted).map(Some).ok_or(unknown)
    }

    fn insert(
        &self,
        outlook: &Outlook<'_>,
        table: &TypedTable<T>,
        steps: &mut Steps,
    ) -> Result<(), DiffError> {
        let mut row = Columns::new();
        for &column in self.claim.columns.keys() {
            if let Some(wanted) = self.value(outlook, table, column)?
                && table.default_datum(column).as_ref() != Some(&wanted)
            {
                row.insert(column.to_owned(), wanted);
            }
        }
        for unique in &self.claim.unique {
            let condition = match unique {
                Unique::Column(column) => self
                    .value(outlook, table, column)?
                    .map(|value| Condition::new(column, Function::Equal, value)),
                Unique::Keys(column, keys) => match self.value(outlook, table, column)? {
                    Some(Datum::Map(mut pairs)) => {
                        pairs.retain(|key, _| keys.contains(key));
                        Some(Condition::new(column, Function::Includes, Datum::Map(pairs)))
                    }
                    _ => None,
                },
            };
            steps.guards.extend(condition.map(|condition| Operation::Wait {
                table: T::TABLE.to_owned(),
                conditions: vec![condition],
                columns: vec!["_uuid".to_owned()],
                rows: Vec::new(),
            }));
        }
        let name = Some(self.reference.name());
        steps.inserts.push(Operation::Insert { table: T::TABLE.to_owned(), row, name });
        Ok(())
    }

    fn change(
        &self,
        outlook: &Outlook<'_>,
        table: &TypedTable<T>,
        uuid: Uuid,
        have: &T,
        steps: &mut Steps,
    ) -> Result<(), DiffError> {
        let mut update = Columns::new();
        let mut mutations = Vec::new();
        let mut guards = vec![Condition::row(uuid)];
        for (column, ownership) in self.differing(have) {
            let Some(wanted) = self.value(outlook, table, column)? else { continue };
            let Some(present) = have.datum(column) else { continue };
            match ownership {
                Ownership::Whole if wanted != present => {
                    guards.push(Condition::new(column, Function::Equal, present));
                    update.insert(column.to_owned(), wanted);
                }
                Ownership::Whole => {}
                Ownership::Part(owned) => {
                    let owned = |atom: &Atom| outlook.is_deleted(atom) || owned(outlook, atom);
                    let part = part(column, &wanted, &present, owned);
                    guards.extend(part.guard);
                    mutations.extend(part.mutations);
                }
            }
        }
        let (table, conditions) = (T::TABLE.to_owned(), vec![Condition::row(uuid)]);
        if update.is_empty() && mutations.is_empty() {
            return Ok(());
        }
        steps.guards.push(guard::<T>(uuid, guards));
        if !update.is_empty() {
            let (table, conditions) = (table.clone(), conditions.clone());
            steps.changes.push(Operation::Update { table, conditions, row: update });
        }
        if !mutations.is_empty() {
            steps.changes.push(Operation::Mutate { table, conditions, mutations });
        }
        Ok(())
    }
}

/// The change of a column that is owned in part.
#[derive(Default)]
struct PartChange {
    /// What has to be there still, because it will be removed or replaced.
    guard: Option<Condition>,
    mutations: Vec<Mutation>,
}

fn part(column: &str, wanted: &Datum, present: &Datum, owned: impl Fn(&Atom) -> bool) -> PartChange {
    match (wanted, present) {
        (Datum::Set(wanted), Datum::Set(present)) => {
            let removed: BTreeSet<Atom> =
                present.difference(wanted).filter(|atom| owned(atom)).cloned().collect();
            let added: BTreeSet<Atom> = wanted.difference(present).cloned().collect();
            let (guard, removed) = (Datum::Set(removed.clone()), Datum::Set(removed));
            PartChange::new(column, guard, removed, Datum::Set(added))
        }
        (Datum::Map(wanted), Datum::Map(present)) => {
            let written: BTreeMap<Atom, Atom> = wanted
                .iter()
                .filter(|(key, value)| present.get(key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let dropped = |key: &Atom| !wanted.contains_key(key) && owned(key);
            let replaced: BTreeMap<Atom, Atom> = present
                .iter()
                .filter(|(key, _)| written.contains_key(key) || dropped(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            // Written keys are removed first even where they are free now: `insert` leaves an existing pair alone,
            // so a key that somebody sets meanwhile would silently keep that value.
            let cleared: BTreeSet<Atom> = replaced.keys().chain(written.keys()).cloned().collect();
            PartChange::new(column, Datum::Map(replaced), Datum::Set(cleared), Datum::Map(written))
        }
        // The types of a row's columns do not change, so both are sets or both are maps.
        _ => PartChange::default(),
    }
}

impl PartChange {
    fn new(column: &str, guard: Datum, removed: Datum, added: Datum) -> Self {
        let mutation = |mutator, value: Datum| {
            (!value.is_empty()).then(|| Mutation { column: column.to_owned(), mutator, value })
        };
        let guard = (!guard.is_empty()).then(|| Condition::new(column, Function::Includes, guard));
        let mutations = [mutation(Mutator::Delete, removed), mutation(Mutator::Insert, added)]
            .into_iter()
            .flatten()
            .collect();
        Self { guard, mutations }
    }
}
