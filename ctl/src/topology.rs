//! `causewayctl topology`: the logical topology of a node, drawn from its OVN Northbound database.
//!
//! In: the database, read once in one transaction. Out: for each network its routers and switches, what connects to what,
//! the ways out of the node; as text, JSON or a picture (SVG). Ports of pods are counted, not listed.
//!
//! * [`observe`] reads the rows ([`rows`]).
//! * [`plan`] says which network each belongs to, what leads where and what leads nowhere. Pure.
//! * [`render`] writes text, [`svg`] draws what [`layout`] has placed.
//!
//! Reads any version of the schema: a column that the database lacks is told and left out of the drawing.
//!
//! First file to read: [`model`].

#[cfg(test)]
mod fixture;
pub mod layout;
pub mod model;
pub mod observe;
pub mod plan;
pub mod render;
pub mod rows;
pub mod svg;
