//! Why nft did not do what it was asked for.

use std::io;
use std::time::Duration;

/// A failed run of the `nft` program.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// There is no such program.
    #[error("the program {program:?} is not installed; nftables 1.0.1 or newer is needed")]
    Missing {
        /// Its name or path.
        program: String,
    },
    /// The program cannot be run.
    #[error("cannot run {program:?}")]
    Start {
        /// Its name or path.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It did not end in time and was killed.
    #[error("nft did not end within {after:?} while {doing}")]
    Deadline {
        /// What it did.
        doing: &'static str,
        /// How long it had.
        after: Duration,
    },
    /// nft or the kernel refused.
    #[error("nft failed while {doing}: {said}")]
    Refused {
        /// What was asked for.
        doing: &'static str,
        /// What nft wrote.
        said: String,
    },
    /// It listed what cannot be read.
    #[error("nft listed what cannot be read")]
    Garbled(#[from] serde_json::Error),
}

impl NftError {
    /// Whether nft says that something it was asked about does not exist.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        // The text of ENOENT, which nft writes for a table, chain, set or element that is not there.
        matches!(self, Self::Refused { said, .. } if said.contains("No such file or directory"))
    }
}
