//! When to look again: the kernel or Open vSwitch changed something that facts rest on.

use causeway_agent::node_facts::Waker;
use causeway_netlink::{Change, NetlinkStore};
use ovsdb::{Event, Snapshot, Status};
use tokio_util::sync::CancellationToken;

use super::rows::{BridgeType, Datapath, Port, Root};
use crate::discovery::ovs::{INTEGRATION_BRIDGE, OvsView};
use crate::vswitch::Bridge;

/// Beginning of the names of management ports: they come and go with networks, and tell nothing about the node.
/// Source: ovn-kubernetes, `types.K8sMgmtIntfNamePrefix`.
const MANAGEMENT_PORT: &str = "ovn-k8s-mp";

/// Listens to Open vSwitch until `stop` is cancelled.
pub async fn to_ovs(store: ovsdb::Store, waker: Waker, stop: CancellationToken) {
    let (_, mut events) = store.subscribe();
    let mut status = store.status();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => match event {
                None => return,
                Some(Event::Resync(_)) => waker.wake(),
                Some(Event::Changes(batch)) => {
                    if concerns_facts(&batch, &store.last_known()) {
                        waker.wake();
                    }
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                if matches!(&*status.borrow_and_update(), Status::Synced) {
                    waker.wake();
                }
            }
        }
    }
}

/// Ports of pods come and go by the hundreds, all on the integration bridge: nothing of it matters. A port that leaves
/// another bridge is a change of that bridge's row.
fn concerns_facts(batch: &ovsdb::Batch, now: &Snapshot) -> bool {
    let ovs = OvsView::new(now);
    let matters = |port: &Port| ovs.bridge_of(&port.name).is_ok_and(|bridge| bridge != INTEGRATION_BRIDGE);
    let is_external = |bridge: &Bridge| bridge.name != INTEGRATION_BRIDGE;
    batch.rows::<Root>().next().is_some()
        || batch.rows::<Datapath>().next().is_some()
        || batch.rows::<BridgeType>().next().is_some()
        || batch
            .rows::<Bridge>()
            .any(|change| change.old.iter().chain(&change.new).any(|row| is_external(row)))
        || batch.rows::<Port>().any(|change| change.new.is_some_and(|port| matters(&port)))
}

/// Listens to addresses, default routes and devices until `stop` is cancelled.
pub async fn to_kernel(netlink: NetlinkStore, waker: Waker, stop: CancellationToken) {
    netlink.listen_if(&stop, concerns, || waker.wake()).await;
}

fn concerns(change: &Change, now: &causeway_netlink::Snapshot) -> bool {
    let is_foreign = |name: &str| !name.starts_with(MANAGEMENT_PORT);
    match change {
        Change::Link { old, new } => {
            let is_other = old.as_deref().map(identity) != new.as_deref().map(identity);
            is_other && old.iter().chain(new).any(|link| is_foreign(link.name.as_str()))
        }
        Change::Addresses { link, .. } => {
            now.links.get(*link).is_none_or(|link| is_foreign(link.name.as_str()))
        }
        Change::Route { old, new } => old.iter().chain(new).any(|route| route.is_default()),
        Change::DevlinkPort { .. } => true,
        Change::Rule { .. } => false,
    }
}

/// What of a link facts rest on; traffic and carriers are not among it.
fn identity(link: &causeway_netlink::Link) -> impl PartialEq + '_ {
    (link.index, link.name, &link.address, link.master, link.alias(), link.phys_port_name())
}
