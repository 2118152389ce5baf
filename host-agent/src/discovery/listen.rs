//! Maps what changes in the kernel to the Uplinks whose answer rests on it.

use std::collections::BTreeSet;

use causeway_agent::look::Looker;
use causeway_netlink::{Batch, Change, IfIndex, NetlinkStore, Readiness, Snapshot};
use tokio_util::sync::CancellationToken;

/// Listens until `stop` is cancelled. Runs beside the store's task, which must be running too.
pub async fn listen(netlink: NetlinkStore, looker: Looker, stop: CancellationToken) {
    let mut changes = netlink.subscribe();
    let mut readiness = netlink.readiness();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            batch = changes.next() => match batch {
                None => return,
                Some(Batch::Resync) => looker.look_at_all(),
                Some(Batch::Changes(changes)) => {
                    let names = concerned(&changes, &netlink.snapshot());
                    looker.look(|rely| rely.interface.as_deref().is_some_and(|name| names.contains(name)));
                }
            },
            // What could not be observed can be now; an empty first dump comes without a batch.
            event = readiness.changed() => {
                if event.is_err() {
                    return;
                }
                if matches!(&*readiness.borrow_and_update(), Readiness::Ready) {
                    looker.look_at_all();
                }
            }
        }
    }
}

/// Names of the interfaces that changes concern.
fn concerned(changes: &[Change], snapshot: &Snapshot) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let name_of = |index: IfIndex| snapshot.links.get(index).map(|link| link.name.to_string());
    for change in changes {
        match change {
            Change::Link { old, new } => {
                for link in old.iter().chain(new) {
                    names.insert(link.name.to_string());
                    // A VRF's table is where its members' routes are.
                    if link.vrf_table().is_some() {
                        names
                            .extend(snapshot.links.members(link.index).map(|member| member.name.to_string()));
                    }
                }
            }
            Change::Addresses { link, .. } => names.extend(name_of(*link)),
            Change::Route { old, new } => {
                names.extend(old.iter().chain(new).flat_map(|route| route.links()).filter_map(name_of));
            }
            Change::Rule { .. } | Change::DevlinkPort { .. } => {}
        }
    }
    names
}
