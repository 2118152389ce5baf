//! The side of a node that holds the bridge: the card, or a regular node itself.
//!
//! In: Open vSwitch, links, devlink and sysfs of this machine; the Uplinks and UplinkStates of the node it serves. Out:
//! which bridge an Uplink uses, in the UplinkState.
//!
//! Never reads the host's interface by itself: on a card the host publishes it in the state, on a regular node the
//! host side hands it over as a value.
//!
//! First file to read: [`discovery`].

#![forbid(unsafe_code)]

pub mod discovery;
pub mod vswitch;
