//! Listening to a store for as long as a task runs.

use tokio_util::sync::CancellationToken;

use super::{NetlinkStore, Readiness};
use crate::change::{Batch, Change};
use crate::snapshot::Snapshot;

impl NetlinkStore {
    /// Calls `hear` with each batch and the newest snapshot, until `stop` is cancelled or the store's task ends.
    ///
    /// A store that becomes ready is told as [`Batch::Resync`] too: an empty first dump, and a kernel that could not be
    /// read for a while and has not changed meanwhile, come without a batch. So does one that is ready already, once: what
    /// changed before this call is not missed. `hear` must not block.
    pub async fn listen(&self, stop: &CancellationToken, mut hear: impl FnMut(&Batch, &Snapshot)) {
        let mut changes = self.subscribe();
        let mut readiness = self.readiness();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                batch = changes.next() => match batch {
                    None => return,
                    Some(batch) => hear(&batch, &self.snapshot()),
                },
                event = readiness.changed() => {
                    if event.is_err() {
                        return;
                    }
                    let is_ready = matches!(&*readiness.borrow_and_update(), Readiness::Ready);
                    if is_ready {
                        hear(&Batch::Resync, &self.snapshot());
                    }
                }
            }
        }
    }

    /// Calls `wake` after each batch with a change that `concerns` it, and when everything has to be looked at again; until
    /// `stop` is cancelled or the store's task ends. As [`NetlinkStore::listen`] otherwise.
    pub async fn listen_if(
        &self,
        stop: &CancellationToken,
        concerns: impl Fn(&Change, &Snapshot) -> bool,
        mut wake: impl FnMut(),
    ) {
        let hear = |batch: &Batch, now: &Snapshot| {
            let concerned = match batch {
                Batch::Resync => true,
                Batch::Changes(changes) => changes.iter().any(|change| concerns(change, now)),
            };
            if concerned {
                wake();
            }
        };
        self.listen(stop, hear).await;
    }
}

#[cfg(test)]
mod tests;
