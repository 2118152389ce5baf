//! What both halves of a node do with their UplinkStates: watch, decide what becomes of a state, publish one half.
//!
//! In: the Uplinks, the UplinkStates of one node and its Node from the API server; what this side sees, through
//! [`half::Half`]. Out: creation, server-side apply of this role's half, deletion of UplinkStates; to people on this machine
//! what was seen and decided ([`introspect`]).
//!
//! Never looks at a kernel or at Open vSwitch: that is what the [`half::Half`] of `host-agent` or `dpu-agent` is for. Exists
//! because both agents, and the regular node's that joins them, need the same life cycle around different eyes.
//!
//! First file to read: [`room`], then [`half`].

#![forbid(unsafe_code)]

pub mod discovery;
pub mod half;
pub mod heard;
pub mod introspect;
pub mod kernel;
pub mod look;
pub mod node_facts;
pub mod room;
pub mod stores;
mod witness;
