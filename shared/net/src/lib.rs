//! Rules of Causeway's domain that more than one binary needs. Pure: no I/O, no clock, no async.
//!
//! In: API objects (`causeway-api`) and facts that an agent observed. Out: decisions and values: which entry of an
//! Uplink selects a node ([`selection`]), how a state is named ([`state_name`]), what a role publishes and clears
//! ([`publish`]), what becomes of a state ([`lifecycle`]), what the host told the card ([`host_data`]).
//!
//! For tenant networks: names and numbers of networks and nodes ([`network`]), who gets which id and subnet ([`ipam`]),
//! the config of a network's NADs ([`render`]) and whether its addresses collide with the cluster's ([`overlap`]), which
//! node needs which network ([`activity`]), whether its Uplinks are ready there ([`uplinks_ready`]) and in which routing
//! domain they lie ([`routing_domain`]), whether its transport works ([`transport`]) and what that rests on ([`vtep`]), what conditions say of all that
//! ([`network_condition`]).
//!
//! Never reads a store, the environment or the time: all of it comes in as arguments.
//!
//! First file to read: [`lifecycle`], then [`publish`]; for tenant networks [`network`], then [`render`].

#![forbid(unsafe_code)]

pub mod activity;
pub mod addresses;
pub mod cudn_uplinks;
pub mod facts;
pub mod host_data;
pub mod ipam;
pub mod lifecycle;
pub mod mac;
pub mod namespaces;
pub mod network;
pub mod network_condition;
pub mod overlap;
pub mod publish;
pub mod render;
pub mod role;
pub mod routing_domain;
pub mod selection;
pub mod selector;
pub mod simulated;
pub mod state_name;
pub mod takeover;
pub mod transport;
pub mod uplinks_ready;
pub mod vtep;
pub mod wire;
