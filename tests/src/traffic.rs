//! Traffic over the topology: two zones, each with databases, northd and ovn-controller of its own, tunnels between them,
//! and in each of them pods of every kind of network.
//!
//! In: two places that look like nodes: [`place`] makes them of the rig's nodes (userspace datapath), [`guest`] inside a
//! test kernel (kernel datapath). The rows are planned and written by the library of `dpu-agent`; ports of pods, which are
//! not the topology's, are bound by hand ([`pods`]). Out: [`cases::CASES`], which say what has to meet and what must not;
//! a pair that does not meet as it should leaves traces of OVN and Open vSwitch ([`trace`]).
//!
//! First file to read: [`world`].

pub mod cases;
pub mod guest;
pub mod networks;
pub mod place;
pub mod pods;
pub mod trace;
pub mod world;
