//! Scenarios over real parts, shared by the demo, the tests and the benches.
//!
//! In: a rig (`causeway-rig`) and the programs that cargo built. Out: [`blue::BlueWorld`], a cluster with a host and its
//! simulated card, a regular node, and Causeway running on all of them. Never decides what is right: that is the
//! business of whoever uses the scenario.
//!
//! First file to read: [`blue`].

#![forbid(unsafe_code)]
#![allow(clippy::large_futures, reason = "a scenario is one future that runs once")]

pub mod access;
pub mod bench;
pub mod blue;
pub mod chaos;
pub mod churn;
pub mod control;
pub mod demo;
pub mod isolation;
pub mod manifests;
pub mod observer;
pub mod replay;
pub mod rest;
pub mod rounds;
pub mod states;
pub mod topology;
pub mod traffic;
