//! `uplink explain`: what was asked, what each side found, which rule decided, where it stops and what to do.
//!
//! In: the Uplink, the Nodes, the UplinkStates; where agents can be asked, their answers. Out: an [`model::Explanation`].
//! [`observe`] looks, [`plan`] judges, `render` writes; [`model`] has the types.

pub mod model;
pub mod observe;
pub mod plan;
mod render;
