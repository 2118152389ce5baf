//! Measures on real parts. Each writes one file into `target/bench/` and says whether its goal holds.
//!
//! [`measure`] is the form of a result, [`hand`] changes facts without a program in between, [`react`] measures how
//! soon the API server has what changed on a machine, [`footprint`] what it costs when nothing happens.

pub mod footprint;
pub mod hand;
pub mod measure;
pub mod react;
