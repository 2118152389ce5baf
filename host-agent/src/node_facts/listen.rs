//! When to look again: an address of the host came, went or changed.

use causeway_agent::node_facts::Waker;
use causeway_netlink::{Batch, Change, NetlinkStore};
use tokio_util::sync::CancellationToken;

use super::plan::MANAGEMENT_PORT;

/// Listens until `stop` is cancelled. Management ports come and go with networks and tell nothing about the host.
pub async fn listen(netlink: NetlinkStore, waker: Waker, stop: CancellationToken) {
    let mut changes = netlink.subscribe();
    loop {
        let batch = tokio::select! {
            () = stop.cancelled() => return,
            batch = changes.next() => batch,
        };
        match batch {
            None => return,
            Some(Batch::Resync) => waker.wake(),
            Some(Batch::Changes(changes)) => {
                let snapshot = netlink.snapshot();
                let is_foreign = |name: &str| !name.starts_with(MANAGEMENT_PORT);
                let concerns = |change: &Change| match change {
                    Change::Addresses { link, .. } => {
                        snapshot.links.get(*link).is_none_or(|link| is_foreign(link.name.as_str()))
                    }
                    // Another name, or one that a setting means, may be behind an address from now on.
                    Change::Link { old, new } => {
                        old.as_deref().map(|link| link.name) != new.as_deref().map(|link| link.name)
                            && old.iter().chain(new).any(|link| is_foreign(link.name.as_str()))
                    }
                    Change::Route { .. } | Change::Rule { .. } | Change::DevlinkPort { .. } => false,
                };
                if changes.iter().any(concerns) {
                    waker.wake();
                }
            }
        }
    }
}
