//! OVSDB client: typed rows, snapshots, change events and minimal transactions.

mod backoff;
mod change;
mod client;
mod column;
mod connection;
mod decoder;
pub mod delta;
mod diff;
mod options;
mod remote;
mod row;
mod rpc;
mod schema;
mod snapshot;
mod statistics;
mod store;
mod tls;
mod transaction;
mod update;
mod value;

pub use change::{Change, RowChange};
pub use client::{Client, ClientError};
pub use column::{Arity, Column, Scalar, Shape, ShapeError};
pub use connection::{CallError, ConnectionError};
pub use decoder::{DecodeError, Decoder};
pub use diff::{Claim, Desired, DiffError, diff};
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
pub use tls::{TlsError, TlsFiles};
pub use transaction::{
    Columns, Committed, Condition, Function, Mutation, Mutator, Operation, OperationResult, TransactError,
    Transaction,
};
pub use update::UpdateError;
pub use uuid::Uuid;
pub use value::{Atom, AtomicType, Datum, ElementType, ValueError};
