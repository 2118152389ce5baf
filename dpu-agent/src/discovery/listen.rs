//! Maps what changes in Open vSwitch and among devices to the Uplinks whose answer rests on it.

use std::collections::BTreeSet;

use causeway_agent::look::Looker;
use causeway_netlink::{Batch, Change, Link, NetlinkStore};
use ovsdb::{Event, Snapshot, Status};
use tokio_util::sync::CancellationToken;

use super::observe::is_simulated;
use super::ovs::OvsView;
use crate::vswitch::{Bridge, Interface, Port};

/// Listens to Open vSwitch until `stop` is cancelled.
pub async fn to_ovs(store: ovsdb::Store, looker: Looker, stop: CancellationToken) {
    let (_, mut events) = store.subscribe();
    let mut status = store.status();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => match event {
                None => return,
                Some(Event::Resync(_)) => looker.look_at_all(),
                Some(Event::Changes(batch)) => {
                    let touched = Touched::by(&batch, &store.last_known());
                    looker.look(|rely| {
                        !rely.complete
                            || rely.bridge.as_deref().is_some_and(|name| touched.bridges.contains(name))
                            || rely.interface.as_deref().is_some_and(|name| touched.names.contains(name))
                    });
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                // What could not be observed while the connection was lost, can be now, with or without changes.
                if matches!(&*status.borrow_and_update(), Status::Synced) {
                    looker.look_at_all();
                }
            }
        }
    }
}

/// What a batch of changes touches.
#[derive(Debug, Default, PartialEq, Eq)]
struct Touched {
    /// Bridges that changed, or one of whose ports or interfaces did.
    bridges: BTreeSet<String>,
    /// Ports and interfaces that came, went or changed.
    names: BTreeSet<String>,
}

impl Touched {
    fn by(batch: &ovsdb::Batch, now: &Snapshot) -> Self {
        let mut touched = Self::default();
        for change in batch.rows::<Bridge>() {
            touched.bridges.extend(change.old.iter().chain(&change.new).map(|bridge| bridge.name.clone()));
        }
        for change in batch.rows::<Port>() {
            touched.names.extend(change.old.iter().chain(&change.new).map(|port| port.name.clone()));
        }
        for change in batch.rows::<Interface>() {
            touched
                .names
                .extend(change.old.iter().chain(&change.new).map(|interface| interface.name.clone()));
        }
        // A port that left its bridge is a change of that bridge's row: what is attached now is enough here.
        let ovs = OvsView::new(now);
        let of_names = touched.names.iter().filter_map(|name| ovs.bridge_of(name).ok());
        let bridges: Vec<_> = of_names.map(str::to_owned).collect();
        touched.bridges.extend(bridges);
        touched
    }
}

/// Listens to devices until `stop` is cancelled: a representor that comes, goes or gets another identity can concern
/// every Uplink, another link those whose way out it is part of.
pub async fn to_devices(netlink: NetlinkStore, looker: Looker, stop: CancellationToken) {
    let hear = |batch: &Batch, _: &causeway_netlink::Snapshot| match batch {
        Batch::Resync => looker.look_at_all(),
        Batch::Changes(changes) if changes.iter().any(concerns_representors) => looker.look_at_all(),
        Batch::Changes(changes) => {
            let names = changed_links(changes);
            looker.look(|rely| rely.links.iter().any(|link| names.contains(link.as_str())));
        }
    };
    netlink.listen(&stop, hear).await;
}

/// Names of the links that changed in any way: state and MTU count for the wire.
fn changed_links(changes: &[Change]) -> BTreeSet<&str> {
    let links = changes.iter().filter_map(|change| match change {
        Change::Link { old, new } => Some(old.iter().chain(new)),
        _ => None,
    });
    links.flatten().map(|link| link.name.as_str()).collect()
}

fn concerns_representors(change: &Change) -> bool {
    match change {
        Change::DevlinkPort { .. } => true,
        Change::Link { old, new } => {
            let (old, new) = (old.as_deref(), new.as_deref());
            let is_representor = |link: &Link| link.phys_switch_id().is_some() || is_simulated(link);
            old.into_iter().chain(new).any(is_representor) && old.map(identity) != new.map(identity)
        }
        Change::Addresses { .. } | Change::Route { .. } | Change::Rule { .. } => false,
    }
}

/// What tells one representor from another.
fn identity(link: &Link) -> (&str, Option<&str>, Option<&[u8]>, Option<&str>) {
    (link.name.as_str(), link.alias(), link.phys_switch_id(), link.phys_port_name())
}
