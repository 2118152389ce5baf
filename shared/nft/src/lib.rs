//! Chains and sets of one table of nftables: what should be there, what is, and the difference in one transaction.
//!
//! In: a [`Desired`] part of a table, the contents that its sets should have, and the `nft` program. Out: an [`Observed`]
//! part, a [`Transaction`] that makes the one the other ([`diff`], pure), and word of changes that others made
//! ([`Watcher`]).
//!
//! * Only named chains and sets of one `inet` table are looked at and touched. Everything else in that table, and every
//!   other table, belongs to somebody else.
//! * A transaction is one run of `nft`, which the kernel takes as a whole or not at all; packets see the rules before
//!   or those after. Sets change element by element.
//! * Deletions are of what was seen. The verb `destroy` is not used: kernels before 6.3 do not know it.
//!
//! Listings are JSON, read with the types of the crate `nftables`. Transactions are nft's own text, because its JSON
//! cannot say all of them: `socket cgroupv2` is refused as input and listed without its level, and a chain's comment
//! has no place in the crate's types (nft 1.1.3, `src/parser_json.c`, `src/json.c`; nftables 0.6.3, `src/schema.rs`).
//! Programs are started here and not by that crate's helpers, which lose what nft writes to stderr and know no deadline.
//!
//! Never does: decide which rules there should be, retry, or change what it did not look at.
//!
//! First file to read: [`diff`](mod@diff).

#![forbid(unsafe_code)]

mod command;
pub mod diff;
mod error;
mod listing;
pub mod model;
mod monitor;
mod observed;
mod render;
mod wire;

pub use self::command::Nft;
pub use self::diff::{clean_up, diff, diff_elements};
pub use self::error::NftError;
pub use self::model::{
    Cgroup, CgroupPath, Chain, Command, Contents, Desired, Element, Family, Hook, InvalidCgroupPath, Match,
    Owned, Protocol, Rule, Set, SetKind, Transaction, Verdict,
};
pub use self::monitor::{OwnWrites, Watcher};
pub use self::observed::{Observed, ObservedChain, ObservedSet};
