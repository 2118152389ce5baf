//! What an Uplink's interface looks like to the host.
//!
//! In: links, addresses, routes and sysfs. Out: the host's half of the state. `observe` reads the stores, [`plan`]
//! decides.

pub mod plan;
