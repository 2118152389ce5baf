//! What became of a transaction (RFC 7047 section 4.1.3).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Operation, Transaction};
use crate::rpc::RpcError;
use crate::store::LostReason;
use crate::value::{parse_uuid, shorten};

/// The result of one operation of a transaction that was committed.
#[derive(Debug, Clone, PartialEq)]
pub enum OperationResult {
    /// Identity of the new row.
    Inserted(Uuid),
    /// Number of rows that an update, mutation or deletion met.
    Count(u64),
    /// Rows that a select found, in their wire form.
    Rows(Vec<Map<String, Value>>),
    /// Nothing to tell (wait, comment).
    Done,
}

/// A transaction that the server has committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// One result per operation.
    pub results: Vec<OperationResult>,
    /// Snapshots of this generation or a later one contain the effect.
    ///
    /// ovsdb-server sends a connection all updates that are due before it sends the reply, and the store applies
    /// messages in order.
    pub generation: u64,
    names: Vec<(String, Uuid)>,
}

impl Committed {
    pub(crate) fn new(transaction: &Transaction, results: Vec<OperationResult>, generation: u64) -> Self {
        let names = transaction.operations().iter().zip(&results).filter_map(|pair| match pair {
            (Operation::Insert { name: Some(name), .. }, OperationResult::Inserted(uuid)) => {
                Some((name.clone(), *uuid))
            }
            _ => None,
        });
        let names = names.collect();
        Self { results, generation, names }
    }

    /// Identity of the row that was inserted under a name.
    #[must_use]
    pub fn inserted(&self, name: &str) -> Option<Uuid> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, uuid)| *uuid)
    }
}

/// Why a transaction was not committed, or why that is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransactError {
    /// There is no connection; nothing was sent.
    #[error("not connected to the database")]
    NotConnected(#[source] Arc<LostReason>),
    /// The store was stopped; nothing was sent.
    #[error("the store was stopped")]
    Stopped,
    /// The connection was lost before the reply. Whether the transaction was committed shows after the next sync.
    #[error("connection lost before the reply, outcome unknown")]
    Interrupted,
    /// No reply in time. Whether the transaction will be committed is unknown.
    #[error("no reply within {after:?}, outcome unknown")]
    Deadline {
        /// How long the caller waited.
        after: Duration,
    },
    /// The server refused the request as a whole.
    #[error("request refused")]
    Request(#[source] RpcError),
    /// A guard found other rows than expected: someone else was faster. Plan again from the newest snapshot.
    #[error("{table} has changed meanwhile (operation {operation})")]
    LostRace {
        /// Table of the guard.
        table: String,
        /// Position of the guard in the transaction.
        operation: usize,
    },
    /// The transaction violates a rule of the schema.
    #[error("constraint violation in {}: {details}", .table.as_deref().unwrap_or("transaction"))]
    Constraint {
        /// Table of the offending operation; `None` if the violation showed only at commit, then `details` names it.
        table: Option<String>,
        /// The server's explanation.
        details: String,
    },
    /// A row refers to a row that does not exist, or a row that is still referred to would be deleted.
    #[error("referential integrity violation: {details}")]
    Reference {
        /// The server's explanation; names table, column and rows.
        details: String,
    },
    /// The server could not write it down, as on a full disk. What the database holds is as before.
    #[error("the server could not store it: {details}")]
    NotStored {
        /// The server's explanation, with the system's where it tells it.
        details: String,
    },
    /// Any other refusal.
    #[error("{error} in {}: {details}", .table.as_deref().unwrap_or("transaction"))]
    Refused {
        /// Table of the offending operation.
        table: Option<String>,
        /// The server's error code.
        error: String,
        /// The server's explanation.
        details: String,
    },
    /// The reply is not one to this transaction.
    #[error("malformed reply: {found}")]
    Malformed {
        /// The start of the reply.
        found: String,
    },
}

impl TransactError {
    /// Whether planning again from the newest snapshot is the cure.
    #[must_use]
    pub fn is_race(&self) -> bool {
        matches!(self, Self::LostRace { .. })
    }

    /// Whether the transaction may have been committed nevertheless.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Deadline { .. } | Self::Malformed { .. })
    }
}

/// Checks a `transact` result operation by operation.
pub(crate) fn read(transaction: &Transaction, result: &Value) -> Result<Vec<OperationResult>, TransactError> {
    let malformed = || TransactError::Malformed { found: shorten(result) };
    let items = result.as_array().ok_or_else(malformed)?;
    // One result per operation; after the first failure nulls or nothing; one more if only the commit failed.
    for (position, item) in items.iter().enumerate() {
        if let Some(error) = item.get("error").and_then(Value::as_str) {
            let text = |member: &str| item.get(member).and_then(Value::as_str);
            let details = text("details").unwrap_or_default();
            // ovsdb-server tells the system's error beside its own (`ovsdb_error_to_json`).
            let details = match text("io-error") {
                Some(system) => format!("{details} ({system})"),
                None => details.to_owned(),
            };
            return Err(failure(transaction, position, error, details));
        }
    }
    let operations = transaction.operations();
    if items.len() != operations.len() {
        return Err(malformed());
    }
    operations
        .iter()
        .zip(items)
        .map(|(operation, item)| success(operation, item).ok_or_else(malformed))
        .collect()
}

fn failure(transaction: &Transaction, position: usize, error: &str, details: String) -> TransactError {
    let operation = transaction.operations().get(position);
    let table = operation.and_then(Operation::table).map(str::to_owned);
    match (error, operation) {
        ("timed out", Some(Operation::Wait { table, .. })) => {
            TransactError::LostRace { table: table.clone(), operation: position }
        }
        ("constraint violation", _) => TransactError::Constraint { table, details },
        ("referential integrity violation", _) => TransactError::Reference { details },
        ("I/O error" | "resources exhausted", _) => TransactError::NotStored { details },
        _ => TransactError::Refused { table, error: error.to_owned(), details },
    }
}

fn success(operation: &Operation, item: &Value) -> Option<OperationResult> {
    match operation {
        Operation::Insert { .. } => match item.get("uuid")?.as_array()?.as_slice() {
            [_, Value::String(text)] => parse_uuid(text).map(OperationResult::Inserted),
            _ => None,
        },
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            item.get("count")?.as_u64().map(OperationResult::Count)
        }
        Operation::Select { .. } => {
            let rows = item.get("rows")?.as_array()?;
            rows.iter().map(|row| row.as_object().cloned()).collect::<Option<_>>().map(OperationResult::Rows)
        }
        Operation::Wait { .. } | Operation::Comment(_) => Some(OperationResult::Done),
    }
}
