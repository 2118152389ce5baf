//! The part of `check` that looks at the machine it runs on: Open vSwitch, eswitches, interfaces, the agent.
//!
//! [`observe`] looks (with [`devlink`] and [`features`] for what netlink tells), [`plan`] judges. Never changes anything.

pub mod devlink;
pub mod features;
pub mod observe;
pub mod plan;
