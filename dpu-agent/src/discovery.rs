//! Which bridge an Uplink uses.
//!
//! In: Open vSwitch, devices and devlink ports, the Uplink's entry, and the host's half: out of the state on a card, as a
//! value on a regular node. Out: the findings that `causeway-agent` publishes. Never reads the host's interface.
//!
//! `observe` reads the stores, [`plan`] decides over [`ovs`] and [`representor`], [`bridge`] judges the bridge.

pub mod bridge;
pub mod ovs;
pub mod plan;
pub mod representor;
