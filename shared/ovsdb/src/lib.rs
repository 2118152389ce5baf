//! OVSDB client: typed rows, snapshots, change events and minimal transactions.
