//! Why isolation is not as it should be. Texts are upstream's where it has some.

use causeway_nft::NftError;
use causeway_runtime::engine::{Retry, Retryable};

/// A failed pass.
#[derive(Debug, thiserror::Error)]
pub(super) enum IsolationError {
    /// What there is cannot be read.
    #[error("could not read nftables rules for UDN host isolation")]
    Look(#[source] NftError),
    /// Chain, sets or rules.
    #[error("failed to setup UDN host isolation: could not setup nftables rules for UDN from host isolation")]
    SetUp(#[source] NftError),
    /// Elements.
    #[error("could not update nftables set for UDN pods")]
    Update(#[source] NftError),
    /// Removal.
    #[error("failed cleaning up UDN host isolation")]
    CleanUp(#[source] NftError),
}

impl Retryable for IsolationError {
    fn retry(&self) -> Retry {
        match self {
            Self::Look(_) | Self::SetUp(_) | Self::Update(_) | Self::CleanUp(_) => Retry::Backoff,
        }
    }
}
