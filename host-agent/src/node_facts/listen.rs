//! When to look again: an address of the host came, went or changed.

use causeway_agent::node_facts::Waker;
use causeway_netlink::{Change, NetlinkStore, Snapshot};
use tokio_util::sync::CancellationToken;

use super::plan::MANAGEMENT_PORT;

/// Listens until `stop` is cancelled. Management ports come and go with networks and tell nothing about the host.
pub async fn listen(netlink: NetlinkStore, waker: Waker, stop: CancellationToken) {
    netlink.listen_if(&stop, concerns, || waker.wake()).await;
}

fn concerns(change: &Change, now: &Snapshot) -> bool {
    let is_foreign = |name: &str| !name.starts_with(MANAGEMENT_PORT);
    match change {
        Change::Addresses { link, .. } => {
            now.links.get(*link).is_none_or(|link| is_foreign(link.name.as_str()))
        }
        // Another name, or one that a setting means, may be behind an address from now on.
        Change::Link { old, new } => {
            old.as_deref().map(|link| link.name) != new.as_deref().map(|link| link.name)
                && old.iter().chain(new).any(|link| is_foreign(link.name.as_str()))
        }
        Change::Route { .. } | Change::Rule { .. } | Change::DevlinkPort { .. } => false,
    }
}
