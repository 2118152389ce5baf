//! OVSDB client: typed rows, snapshots, change events and minimal transactions.

mod column;
mod decoder;
mod remote;
mod tls;
mod value;
