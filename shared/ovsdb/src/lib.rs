//! OVSDB client: typed rows, snapshots, change events and minimal transactions.

mod change;
mod column;
mod decoder;
pub mod delta;
mod remote;
mod row;
mod schema;
mod snapshot;
mod tls;
mod update;
mod value;

pub use change::{Change, RowChange};
pub use column::{Arity, Column, Scalar, Shape, ShapeError};
pub use decoder::{DecodeError, Decoder};
pub use remote::{HostPort, Remote, RemoteError, Remotes};
pub use row::{ColumnRef, ColumnSpec, Index, Indexed, Row, TableSpec};
pub use schema::{ColumnSchema, DatabaseSchema, SchemaMismatch, SchemaParseError, TableSchema};
pub use snapshot::{Snapshot, SnapshotBuilder};
pub use tls::{TlsError, TlsFiles};
pub use update::UpdateError;
pub use uuid::Uuid;
pub use value::{Atom, AtomicType, Datum, ElementType, ValueError};
