//! When to look again: a management port changed in Open vSwitch or in the kernel.

use causeway_netlink::{Batch, Change, NetlinkStore, Snapshot, TABLE_MAIN};
use causeway_runtime::engine::KeyQueue;
use ovsdb::{Event, Status};
use tokio_util::sync::CancellationToken;

use super::PortKey;
use super::index::Index;
use super::rows::{self, ManagementInterface};
use crate::discovery::ovs::INTEGRATION_BRIDGE;
use crate::vswitch::Bridge;

/// Listens to Open vSwitch until `stop` is cancelled.
pub(super) async fn to_ovs(
    store: ovsdb::Store,
    queue: KeyQueue<PortKey>,
    index: Index,
    stop: CancellationToken,
) {
    let (_, mut events) = store.subscribe();
    let mut status = store.status();
    let all = || {
        queue.enqueue_all(rows::present(&store.last_known()));
        queue.enqueue_all(index.all());
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => match event {
                None => return,
                Some(Event::Resync(_)) => all(),
                Some(Event::Changes(batch)) => {
                    // Ports of pods change the bridge's row all the time; that it comes is another thing.
                    let came = batch.rows::<Bridge>().any(|change| {
                        change.old.is_none() && change.new.is_some_and(|row| row.name == INTEGRATION_BRIDGE)
                    });
                    if came {
                        all();
                    }
                    for change in batch.rows::<ManagementInterface>() {
                        let rows = change.old.iter().chain(&change.new);
                        queue.enqueue_all(rows.filter_map(|row| rows::key(&row.name)));
                    }
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                if matches!(&*status.borrow_and_update(), Status::Synced) {
                    all();
                }
            }
        }
    }
}

/// Listens to the kernel until `stop` is cancelled.
pub(super) async fn to_kernel(netlink: NetlinkStore, queue: KeyQueue<PortKey>, stop: CancellationToken) {
    let hear = |batch: &Batch, now: &Snapshot| match batch {
        Batch::Resync => {
            queue.enqueue_all(now.links.iter().filter_map(|link| rows::key(link.name.as_str())));
        }
        Batch::Changes(changes) => {
            queue.enqueue_all(changes.iter().flat_map(|change| concerned(change, now)));
        }
    };
    netlink.listen(&stop, hear).await;
}

fn concerned(change: &Change, snapshot: &Snapshot) -> Vec<PortKey> {
    let of_link = |link| snapshot.links.get(link).and_then(|link| rows::key(link.name.as_str()));
    match change {
        Change::Link { old, new } => {
            old.iter().chain(new).filter_map(|link| rows::key(link.name.as_str())).collect()
        }
        Change::Addresses { link, .. } => of_link(*link).into_iter().collect(),
        Change::Route { old, new } => {
            let in_main = old.iter().chain(new).filter(|route| route.key.table == TABLE_MAIN);
            in_main.flat_map(|route| route.links()).filter_map(of_link).collect()
        }
        Change::Rule { .. } | Change::DevlinkPort { .. } => Vec::new(),
    }
}
