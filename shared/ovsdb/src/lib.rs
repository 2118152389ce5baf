//! OVSDB client: typed rows, snapshots, change events and minimal transactions (RFC 7047 and ovsdb-server(7)).
//!
//! **In:** a remote in OVS's own syntax, row types declared with [`table!`], desired rows ([`Desired`]).
//! **Out:** [`Snapshot`]s that follow the database, [`Events`] by row, a [`Status`] that tells whether they are current,
//! and transactions that hold only what differs ([`diff()`]).
//!
//! ```text
//!  remote ── connection ── store::driver ──► snapshot (watch), events (broadcast), status (watch)
//!               ▲                                  │
//!               └──── transact ◄── diff(desired, snapshot)
//! ```
//!
//! * A snapshot is complete or it is the last complete one; which of the two, [`Store::current`] knows.
//! * Rows take the room of their values ([`FlatSet`], [`TextMap`]), an index that of a UUID for each key; the contents of a
//!   database are read row by row from their text.
//! * No change is lost: after a reconnection without resumption, old and new contents are compared. A subscriber that
//!   lags is told to look at everything.
//! * What is not claimed is not written; what a transaction relies on is guarded.
//! * The server's schema decides: what was declared and is missing or of another type is an error that names it.
//!
//! Never: knows what a table means, spawns tasks, polls, retries a transaction, deletes what no sweep covers, or follows
//! only the leader of a cluster (any member will do).
//!
//! First file to read: `store.rs`, then `store/driver.rs`; for writing `diff.rs`. The row declarations of a database live
//! with their users.

#![forbid(unsafe_code)]

mod backoff;
mod change;
mod client;
mod column;
mod connection;
mod decoder;
pub mod delta;
mod diff;
mod flat_set;
#[cfg(test)]
mod fuzz;
mod members;
mod options;
mod remote;
mod row;
mod rpc;
mod schema;
mod snapshot;
mod statistics;
mod store;
mod text_map;
mod tls;
mod transaction;
mod update;
mod value;

pub use change::{Change, RowChange};
pub use client::{Client, ClientError};
pub use column::{Arity, Column, MapColumn, Scalar, Shape, ShapeError};
pub use connection::{CallError, ConnectionError};
pub use decoder::{DecodeError, Decoder};
pub use diff::{Claim, Desired, DiffError, diff, pair};
pub use flat_set::FlatSet;
pub use options::Options;
pub use remote::{HostPort, Remote, RemoteError, Remotes};
pub use row::{ColumnRef, ColumnSpec, Index, Indexed, Row, TableSpec};
pub use rpc::RpcError;
pub use schema::{ColumnSchema, DatabaseSchema, SchemaMismatch, SchemaParseError, TableSchema};
pub use snapshot::{Snapshot, SnapshotBuilder};
pub use statistics::Statistics;
pub use store::{
    Batch, Driver, Event, Events, LostReason, NotCurrent, NotSynced, Status, Store, StoreBuilder, WaitError,
};
pub use text_map::TextMap;
pub use tls::{TlsError, TlsFiles};
pub use transaction::{
    Columns, Committed, Condition, Function, Mutation, Mutator, Operation, OperationResult, TransactError,
    Transaction,
};
pub use update::UpdateError;
pub use uuid::Uuid;
pub use value::{Atom, AtomicType, Datum, ElementType, ValueError};
