//! Maps changes outside of Kubernetes to what is to be looked at again.

use causeway_net::network::name::NetworkName;
use causeway_netlink::{Change, NetlinkStore};
use ovsdb::{Event, Events};
use tokio_util::sync::CancellationToken;

use super::super::write::Zone;
use super::inbox::{Inbox, Key, Stir};
use super::metrics::Metrics;
use super::pass::{SharedBook, TopologyRoom};
use super::touched::{Finder, Holders};
use super::{Databases, service_changed};

impl Holders for SharedBook {
    fn holder(&self, prefix: &str) -> Option<NetworkName> {
        if prefix.is_empty() {
            return Some(NetworkName::default_network());
        }
        self.lock().holder(prefix).cloned()
    }

    fn knows(&self, network: &NetworkName) -> bool {
        network.is_default() || self.lock().knows(network)
    }
}

/// Listens to everything from now on; the future ends when a store stops.
pub(super) fn all(room: &TopologyRoom, databases: &Databases) -> impl Future<Output = ()> + use<> {
    let (_, events) = databases.northbound.subscribe();
    let (zone, book, inbox) = (room.zone.clone(), room.book.clone(), room.inbox.clone());
    let (metrics, netlink) = (room.metrics.clone(), room.chassis.netlink.clone());
    // Addresses of this machine count only where somebody named some of them.
    let to_addresses = !room.chassis.ovn.encap_ips.is_empty();
    let (databases, services) = (databases.clone(), room.services.clone());
    async move {
        let rows = rows(&databases.northbound, events, &zone, &book, &inbox, &metrics);
        let addresses = async {
            if to_addresses {
                addresses(&netlink, &inbox).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = rows => {}
            () = whole(&databases.southbound, &inbox, Key::Chassis) => {}
            () = whole(&databases.vswitch, &inbox, Key::Settings) => {}
            () = addresses => {}
            () = services.late(|name| service_changed(name, &book, &inbox)) => {}
        }
    }
}

/// Rows of the Northbound database, until the store stops.
async fn rows(
    store: &ovsdb::Store,
    mut events: Events,
    zone: &Zone,
    book: &SharedBook,
    inbox: &Inbox,
    metrics: &Metrics,
) {
    let mut status = store.status();
    loop {
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(Event::Resync(_)) => {
                    inbox.key(Key::Zone);
                    inbox.key(Key::Services);
                    inbox.key(Key::Leftovers);
                    let networks: Vec<NetworkName> = book.lock().names().cloned().collect();
                    inbox.network(&NetworkName::default_network(), Stir::All);
                    inbox.networks(&networks, &Stir::All);
                }
                Some(Event::Changes(batch)) => {
                    let now = store.last_known();
                    let finder =
                        Finder { node: &zone.node, join: &zone.default_join, holders: book, now: &now };
                    let touched = finder.find(&batch);
                    if !touched.networks.is_empty() {
                        metrics.changes.inc();
                    }
                    for (network, parts) in touched.networks {
                        inbox.network(&network, Stir::Only(parts));
                    }
                    if touched.zone {
                        inbox.key(Key::Zone);
                    }
                    if touched.services {
                        inbox.key(Key::Services);
                    }
                }
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                // What waited for the connection goes on; what happened meanwhile is told as changes.
                if status.borrow_and_update().is_synced() {
                    inbox.key(Key::Zone);
                    inbox.key(Key::Services);
                    inbox.key(Key::Leftovers);
                    inbox.wake_waiting();
                }
            }
        }
    }
}

/// A database of which every change is looked at as a whole, until the store stops.
async fn whole(store: &ovsdb::Store, inbox: &Inbox, key: Key) {
    let (_, mut events) = store.subscribe();
    let mut status = store.status();
    loop {
        tokio::select! {
            event = events.next() => match event {
                None => return,
                Some(Event::Resync(_) | Event::Changes(_)) => inbox.key(key.clone()),
            },
            changed = status.changed() => {
                if changed.is_err() {
                    return;
                }
                if status.borrow_and_update().is_synced() {
                    inbox.key(key.clone());
                }
            }
        }
    }
}

/// Addresses of this machine, until the store stops: tunnels end at some of them.
async fn addresses(netlink: &NetlinkStore, inbox: &Inbox) {
    let is_address = |change: &Change, _: &_| matches!(change, Change::Addresses { .. });
    netlink.listen_if(&CancellationToken::new(), is_address, || inbox.key(Key::Settings)).await;
}
