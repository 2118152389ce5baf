//! Whether a snapshot is current, and why not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::connection::{CallError, ConnectionError};
use crate::schema::{SchemaMismatch, SchemaParseError};
use crate::snapshot::Snapshot;
use crate::update::UpdateError;

/// State of a store.
#[derive(Debug, Clone)]
pub enum Status {
    /// Nothing has been read yet, and nothing has failed yet.
    Connecting,
    /// The snapshot follows the database.
    Synced,
    /// The snapshot is what was last read, or empty. The store goes on trying.
    Lost {
        /// The latest failure.
        why: Arc<LostReason>,
    },
}

impl Status {
    /// Whether the snapshot follows the database.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced)
    }
}

impl fmt::Display for Status {
    /// One line, causes included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Synced => f.write_str("synced"),
            Self::Lost { why } => {
                write!(f, "lost: {why}")?;
                let mut cause = std::error::Error::source(&**why);
                while let Some(error) = cause {
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

/// Why the store has no connection with current contents.
#[derive(Debug, thiserror::Error)]
pub enum LostReason {
    /// No connection, or its end.
    #[error("connection")]
    Connection(#[from] ConnectionError),
    /// A request that is needed before reading was not answered well; the server may lack the database.
    #[error("reading database {database}")]
    Request {
        /// The database.
        database: String,
        /// Why.
        #[source]
        source: CallError,
    },
    /// The server's schema cannot be understood.
    #[error("schema of {database}")]
    BadSchema {
        /// The database.
        database: String,
        /// Why.
        #[source]
        source: SchemaParseError,
    },
    /// The server's schema has not what was declared.
    #[error("schema of {database} {version} does not fit: {}", list(.mismatches))]
    Mismatch {
        /// The database.
        database: String,
        /// Version of the server's schema.
        version: String,
        /// Every difference.
        mismatches: Vec<SchemaMismatch>,
    },
    /// An update could not be applied. Everything is read again.
    #[error("update")]
    Update(#[from] UpdateError),
    /// The server ended the monitor, because the database was converted, replaced or removed.
    #[error("server cancelled the monitor of {database}")]
    MonitorCanceled {
        /// The database.
        database: String,
    },
    /// The first connection is still being made.
    #[error("first connection not made yet")]
    NotYet,
    /// The store was told to stop.
    #[error("stopped")]
    Stopped,
}

fn list(mismatches: &[SchemaMismatch]) -> String {
    mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// There is no snapshot from which absence could be concluded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotCurrent {
    /// Nothing was read yet.
    #[error("the database has not been read yet")]
    NotRead,
    /// The connection is lost.
    #[error("the database is out of reach")]
    Lost(#[source] Arc<LostReason>),
}

/// The store was not synced in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not synced within {after:?}: {status}")]
pub struct NotSynced {
    /// The deadline.
    pub after: Duration,
    /// The last status.
    pub status: Status,
}

/// What was waited for did not show in a snapshot.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not seen within {after:?} ({status}; {last:?})")]
pub struct WaitError {
    /// The deadline.
    pub after: Duration,
    /// The last status.
    pub status: Status,
    /// The last snapshot.
    pub last: Snapshot,
}
