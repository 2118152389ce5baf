//! The store against servers that misbehave, are old, or say exactly what a test wants.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

mod bad;
mod dialect;
mod fake;
mod lifecycle;
