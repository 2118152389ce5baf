//! The host side of a node: what an Uplink's interface looks like to the host.
//!
//! In: links, addresses, routes and sysfs of this network namespace; the Uplinks of this node. Out: the host's half of
//! each UplinkState, or on a regular node a value that the card side publishes together with its own half.
//!
//! Never talks to Open vSwitch or OVN: there is none on the host of a card.
//!
//! First file to read: [`discovery`].

#![forbid(unsafe_code)]

pub mod discovery;
