//! What isolation left on a node where it is off now goes.

use causeway_nft::{Nft, NftError, clean_up};
use causeway_runtime::engine::{Requeue, Room};
use tracing::{debug, info};

use super::error::IsolationError;
use super::metrics::Metrics;
use super::plan::OWNED;
use super::room::Table;

/// Removes chain and sets, once.
///
/// Differs from upstream, which ends the process if that fails: here it is tried again while the rest of the agent works.
pub(super) struct Removal {
    pub(super) nft: Nft,
    pub(super) metrics: Metrics,
}

impl Room for Removal {
    const NAME: &'static str = "isolation_removal";
    type Key = Table;
    type Error = IsolationError;

    async fn reconcile(&self, _key: &Table) -> Result<Requeue, IsolationError> {
        match self.remove().await {
            Ok(()) => Ok(Requeue::Gone),
            Err(error @ NftError::Missing { .. }) => {
                // Whoever put rules here had the program, so there are most likely none.
                info!(%error, "Rules of host isolation are not looked for");
                Ok(Requeue::Gone)
            }
            Err(error) => {
                self.metrics.errors.inc();
                Err(IsolationError::CleanUp(error))
            }
        }
    }
}

impl Removal {
    async fn remove(&self) -> Result<(), NftError> {
        self.metrics.looks.inc();
        let transaction = clean_up(&OWNED, &self.nft.list(&OWNED).await?);
        if transaction.is_empty() {
            debug!("Nothing of host isolation to remove");
            return Ok(());
        }
        self.nft.apply(&transaction).await?;
        self.metrics.transaction("rules");
        info!(table = OWNED.table, "Host isolation removed");
        Ok(())
    }
}
