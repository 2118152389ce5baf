//! The main job as a story that a person can watch, and that fails if anything in it is not true.
//!
//! [`story`] is what happens ([`networks`] an act of it), [`telling`] is how it is printed, [`picture`] draws the two halves.

pub mod networks;
pub mod picture;
pub mod story;
pub mod telling;
