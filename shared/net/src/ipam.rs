//! Handing out ids and subnets.
//!
//! In: the space there is, what objects are annotated with, who asks. Out: who has what. An allocator's state is always
//! what it was rebuilt from plus what it handed out since, so a restart that reads the annotations gives everybody what
//! they had.
//!
//! [`ids`] hands out numbers, [`evpn`] those of EVPN domains, [`nodes`] subnets of a network to nodes. A [`range`] is one
//! block of addresses of a network. All count in `slots`, a set of runs of taken positions in which every step is
//! logarithmic in the number of runs.
//!
//! Nothing is burnt by a write that fails: what was offered to a node or a name stays promised to it until it is
//! released, so the next attempt offers the same.
//!
//! First file to read: [`nodes`].

pub mod evpn;
pub mod ids;
pub mod nodes;
pub mod range;
mod slots;
