//! Maps what changes in the kernel to the Uplinks whose answer rests on it.

use std::collections::BTreeSet;

use causeway_agent::look::Looker;
use causeway_netlink::{Batch, Change, IfIndex, NetlinkStore, Snapshot};
use tokio_util::sync::CancellationToken;

/// Listens until `stop` is cancelled. Runs beside the store's task, which must be running too.
pub async fn listen(netlink: NetlinkStore, looker: Looker, stop: CancellationToken) {
    let hear = |batch: &Batch, now: &Snapshot| match batch {
        Batch::Resync => looker.look_at_all(),
        Batch::Changes(changes) => {
            let names = concerned(changes, now);
            looker.look(|rely| rely.interface.as_deref().is_some_and(|name| names.contains(name)));
        }
    };
    netlink.listen(&stop, hear).await;
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
