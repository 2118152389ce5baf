//! Identity of networks: what follows from a network's name, its id and a node's id.
//!
//! In: names of API objects, ids that an allocator handed out, the configured ranges. Out: the names and numbers that
//! every component derives in the same way: network names and the way back ([`name`]), network and node ids ([`id`]),
//! tunnel keys ([`tunnel_key`]), join and transit addresses of a node ([`node`]), masquerade addresses ([`masquerade`]),
//! what the cluster manager hands out for a network ([`duty`]), names of rows in OVN ([`ovn`]) and ids of those that have
//! no readable name ([`object_id`]).
//!
//! Never hands out an id itself: that is `ipam`'s.

pub mod duty;
pub mod id;
pub mod masquerade;
pub mod name;
pub mod node;
pub mod object_id;
pub mod offset;
pub mod ovn;
pub mod tunnel_key;
