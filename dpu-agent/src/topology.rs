//! The logical topology of this node's zone: every network's rows in the OVN Northbound database.
//!
//! In: networks, nodes and their annotations, where networks leave the node. Out: the rows, and only the changes that are
//! needed to have them.
//!
//! * [`cluster`], [`network`], [`node`], [`exit`], [`service`]: the inputs, parsed.
//! * [`plan`]: from inputs to [`rows`]. Pure.
//! * [`northbound`]: the tables. [`mark`] and `own`: whose a row is.
//! * [`southbound`]: chassis of other nodes; [`chassis_settings`]: this node's own.
//! * [`mod@write`]: from a plan to the smallest transaction.
//!
//! * [`room`]: watches all of that and keeps the databases so. All other modules do no I/O but for the write itself.
//!
//! Never writes what belongs to pods, load balancers, policies or isolation.
//!
//! First file to read: [`plan`], then [`room`].

pub mod chassis_settings;
pub mod cluster;
pub(crate) mod configured;
pub mod exit;
#[cfg(test)]
mod golden;
pub mod mark;
pub mod network;
pub mod node;
pub mod northbound;
mod own;
pub mod plan;
pub mod room;
pub mod rows;
pub mod service;
pub mod southbound;
pub mod write;

pub use own::networks;
