//! The contents of `update`, `update2` and `update3`, and of the replies to the monitor requests.

use std::borrow::Cow;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::column::ShapeError;
use crate::members::Members;
use crate::value::{ValueError, parse_uuid, shorten_text};

/// The two notations of table updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// RFC 7047 section 4.1.6: whole new rows.
    Whole,
    /// ovsdb-server(7): `initial`, `insert`, `modify` with differences, `delete`.
    Delta,
}

/// What happened to one row. Its columns are taken apart when they are applied: all rows of a database at once would be
/// many times as large as its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowUpdate<'a> {
    /// The row is now this; absent columns have their default.
    Whole(&'a RawValue),
    /// These columns changed by these differences.
    Modify(&'a RawValue),
    /// The row is gone.
    Delete,
}

/// An update that cannot be applied: the server breaks its own schema, or the snapshot is out of step.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The JSON has not the form of an update.
    #[error("malformed update: {found}")]
    Malformed {
        /// The start of the JSON.
        found: String,
    },
    /// A table that was not asked for.
    #[error("update for table {table}, which is not monitored")]
    UnknownTable {
        /// The table.
        table: String,
    },
    /// A change or deletion of a row that was never announced.
    #[error("update of row {uuid} in table {table}, which does not exist")]
    UnknownRow {
        /// The table.
        table: &'static str,
        /// The row.
        uuid: Uuid,
    },
    /// A value of the wrong type.
    #[error("value of {table}.{column} in row {uuid}")]
    Value {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        uuid: Uuid,
        /// What is wrong with it.
        #[source]
        source: ValueError,
    },
    /// A number of elements that the declared type cannot hold.
    #[error("value of {table}.{column} in row {uuid}")]
    Shape {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        uuid: Uuid,
        /// What is wrong with it.
        #[source]
        source: ShapeError,
    },
}

impl UpdateError {
    pub(crate) fn malformed(found: &RawValue) -> Self {
        Self::Malformed { found: shorten_text(found.get()) }
    }
}

/// The rows of one table in an update.
pub(crate) struct TableUpdate<'a> {
    pub(crate) table: Cow<'a, str>,
    pub(crate) rows: Vec<(Uuid, RowUpdate<'a>)>,
}

/// Takes a `<table-updates>` or `<table-updates2>` object apart.
pub(crate) fn parse(json: &RawValue, notation: Notation) -> Result<Vec<TableUpdate<'_>>, UpdateError> {
    let Members(tables) = Members::of(json).ok_or_else(|| UpdateError::malformed(json))?;
    tables
        .into_iter()
        .map(|(table, body)| {
            let Members(rows) = Members::of(body).ok_or_else(|| UpdateError::malformed(body))?;
            let rows = rows
                .into_iter()
                .map(|(uuid, row)| {
                    let uuid = parse_uuid(&uuid).ok_or_else(|| UpdateError::malformed(body))?;
                    let members = Members::of(row).ok_or_else(|| UpdateError::malformed(row))?;
                    let update = match notation {
                        Notation::Whole => whole(&members),
                        Notation::Delta => delta(&members),
                    };
                    Ok((uuid, update.ok_or_else(|| UpdateError::malformed(row))?))
                })
                .collect::<Result<_, UpdateError>>()?;
            Ok(TableUpdate { table, rows })
        })
        .collect()
}

fn whole<'a>(row: &Members<'a>) -> Option<RowUpdate<'a>> {
    match (row.get("old"), row.get("new")) {
        (_, Some(new)) => Some(RowUpdate::Whole(new)),
        (Some(_), None) => Some(RowUpdate::Delete),
        (None, None) => None,
    }
}

fn delta<'a>(row: &Members<'a>) -> Option<RowUpdate<'a>> {
    let (kind, body) = row.0.first()?;
    match &**kind {
        "initial" | "insert" => Some(RowUpdate::Whole(body)),
        "modify" => Some(RowUpdate::Modify(body)),
        "delete" => Some(RowUpdate::Delete),
        _ => None,
    }
}
