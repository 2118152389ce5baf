//! Reconcile engine, watches, writes, configuration, telemetry, health and shutdown.
//!
//! Start with [`start`] (how a binary is put together) and [`engine`] (how a controller runs). The README beside
//! this crate says what comes in, what goes out and what it never does.
#![forbid(unsafe_code)]

pub mod backoff;
pub mod client;
pub mod credentials;
pub mod engine;
pub mod events;
#[cfg(test)]
mod fake_api;
pub mod health;
pub mod leader;
pub mod local;
pub mod settings;
pub mod shutdown;
pub mod start;
pub mod telemetry;
pub mod watch;
pub mod writer;
