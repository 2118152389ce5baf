//! `isolation explain`: how pods of primary networks are kept from the processes of a node, and what one process may do.
//!
//! In: the node's agent, over its socket; the pod, from the API server; a process of this machine. Out: an
//! [`model::Explanation`]. [`observe`] looks, [`plan`] judges, `render` writes; [`ask`] reads the command line's words.

pub mod ask;
pub mod model;
pub mod observe;
pub mod plan;
mod render;
