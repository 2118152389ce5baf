//! `causewayctl`: explains an Uplink and isolation of pods, draws the logical topology of a node, checks an installation, gathers
//! what a supporter needs.
//!
//! In: the API server, as the person who calls it; the sockets of agents; on a node the kernel, Open vSwitch and OVN's
//! Northbound database. Out: text, JSON or a picture, and an exit code for scripts ([`exit`]).
//!
//! Never writes to the cluster or to the machine, but for `dump`'s target. Judgements ([`explain::plan`], [`isolation::plan`],
//! [`check::plan`], [`local::plan`], [`topology::plan`]) are pure functions of what was observed; `observe` modules look, `render` modules write text.
//!
//! First file to read: [`cli`], then [`explain::plan`].

#![forbid(unsafe_code)]

pub mod agent;
pub mod check;
pub mod cli;
pub mod cluster;
#[cfg(test)]
mod docs;
pub mod dump;
pub mod error;
pub mod exit;
pub mod explain;
pub mod isolation;
pub mod local;
pub mod output;
pub mod remedy;
pub mod topology;

pub use cli::run;
