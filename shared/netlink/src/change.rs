//! What subscribers hear.

use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::ordset;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::addr::Address;
use crate::devlink::DevlinkPort;
use crate::link::Link;
use crate::name::IfIndex;
use crate::route::Route;
use crate::rule::Rule;
use crate::snapshot::Snapshot;

/// One difference between two snapshots. No old value: it is new. No new value: it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A link came, went or differs in what [`Link`] holds.
    Link {
        /// Before.
        old: Option<Arc<Link>>,
        /// After.
        new: Option<Arc<Link>>,
    },
    /// The addresses of one link differ, or their order does.
    Addresses {
        /// The link.
        link: IfIndex,
        /// Before, in kernel order.
        old: Arc<[Arc<Address>]>,
        /// After, in kernel order.
        new: Arc<[Arc<Address>]>,
    },
    /// A route came, went or was replaced by another of its key.
    Route {
        /// Before.
        old: Option<Arc<Route>>,
        /// After.
        new: Option<Arc<Route>>,
    },
    /// A rule came or went. Rules have no identity beyond what they say, so none ever differs.
    Rule {
        /// Before.
        old: Option<Arc<Rule>>,
        /// After.
        new: Option<Arc<Rule>>,
    },
    /// A devlink port came, went or differs.
    DevlinkPort {
        /// Before.
        old: Option<Arc<DevlinkPort>>,
        /// After.
        new: Option<Arc<DevlinkPort>>,
    },
}

/// What happened since the last batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// These differences and no others.
    Changes(Arc<[Change]>),
    /// Anything may differ: look at the newest snapshot as if for the first time. Sent with the first complete
    /// snapshot, after a burst of more changes than a batch holds, and to a subscriber that fell behind.
    Resync,
}

/// A subscription. Nothing is lost in silence: who falls behind is told to start over.
#[derive(Debug)]
pub struct Changes {
    receiver: broadcast::Receiver<Batch>,
}

impl Changes {
    pub(crate) const fn new(receiver: broadcast::Receiver<Batch>) -> Self {
        Self { receiver }
    }

    /// The next batch; `None` when the store has ended.
    ///
    /// The snapshot that a batch leads to, or a newer one, is in the store when the batch arrives.
    ///
    /// # Cancellation
    /// Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Batch> {
        match self.receiver.recv().await {
            Ok(batch) => Some(batch),
            Err(RecvError::Lagged(_)) => {
                // What is still queued is older than the snapshot that the subscriber will look at now.
                self.receiver = self.receiver.resubscribe();
                Some(Batch::Resync)
            }
            Err(RecvError::Closed) => None,
        }
    }
}

/// The differences from `old` to `new`, or `None` if there are more than `limit`. Visits only what is not shared.
pub(crate) fn between(old: &Snapshot, new: &Snapshot, limit: usize) -> Option<Vec<Change>> {
    let links = old.links.rows.diff(&new.links.rows).map(|item| {
        let (old, new) = sides(&item);
        Change::Link { old, new }
    });
    let addresses = old.addresses.by_link.diff(&new.addresses.by_link).map(|item| {
        let link = match item {
            DiffItem::Add(link, _) | DiffItem::Remove(link, _) | DiffItem::Update { new: (link, _), .. } => {
                *link
            }
        };
        let (old, new) = sides(&item);
        Change::Addresses { link, old: old.unwrap_or_default(), new: new.unwrap_or_default() }
    });
    let routes = old.routes.groups.diff(&new.routes.groups).flat_map(|item| {
        let (old, new) = sides(&item);
        group_changes(
            old.as_ref().map_or(&[], |group| group.as_slice()),
            new.as_ref().map_or(&[], |group| group.as_slice()),
        )
    });
    let rules = old.rules.rows.diff(&new.rules.rows).map(|item| match item {
        ordset::DiffItem::Add(new) => Change::Rule { old: None, new: Some(Arc::clone(new)) },
        ordset::DiffItem::Remove(old) => Change::Rule { old: Some(Arc::clone(old)), new: None },
    });
    let ports = old.devlink_ports.rows.diff(&new.devlink_ports.rows).map(|item| {
        let (old, new) = sides(&item);
        Change::DevlinkPort { old, new }
    });
    let all = links.chain(addresses).chain(routes).chain(rules).chain(ports);
    let changes: Vec<Change> = all.take(limit.saturating_add(1)).collect();
    (changes.len() <= limit).then_some(changes)
}

fn sides<K, V: Clone>(item: &DiffItem<'_, '_, K, V>) -> (Option<V>, Option<V>) {
    match item {
        DiffItem::Add(_, new) => (None, Some((*new).clone())),
        DiffItem::Remove(_, old) => (Some((*old).clone()), None),
        DiffItem::Update { old: (_, old), new: (_, new) } => (Some((*old).clone()), Some((*new).clone())),
    }
}

/// Pairs what left a group of routes with what came; a plain replacement is one change.
fn group_changes(old: &[Arc<Route>], new: &[Arc<Route>]) -> Vec<Change> {
    let mut gone = old.iter().filter(|route| !new.contains(route)).cloned();
    let mut come = new.iter().filter(|route| !old.contains(route)).cloned();
    std::iter::from_fn(|| match (gone.next(), come.next()) {
        (None, None) => None,
        (old, new) => Some(Change::Route { old, new }),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Scope;
    use crate::prefix::Family;
    use crate::route::{How, NextHop, RouteKey, RouteKind, RouteProtocol};

    fn route(number: u32, link: u32) -> Route {
        let destination = std::net::Ipv4Addr::from(0x0a00_0000 + (number << 8));
        Route {
            key: RouteKey {
                table: 254,
                destination: crate::Prefix::new(destination.into(), 24).unwrap(),
                priority: 0,
                tos: 0,
            },
            kind: RouteKind::Unicast,
            protocol: RouteProtocol::STATIC,
            scope: Scope::UNIVERSE,
            hops: vec![NextHop::new(IfIndex::new(link), None)].into(),
            preferred_source: None,
            details: None,
        }
    }

    fn with_routes(count: u32) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let rows = (0..count).map(|number| route(number, 1 + number % 100)).collect();
        snapshot.routes.replace_family(Family::V4, rows);
        snapshot
    }

    #[test]
    fn a_replaced_route_is_one_change() {
        let old = with_routes(3);
        let mut new = old.clone();
        assert_eq!(new.routes.insert(route(1, 9), How::Replace), crate::route::Effect::Known);
        let changes = between(&old, &new, 10).unwrap();
        let [Change::Route { old: Some(before), new: Some(after) }] = changes.as_slice() else {
            panic!("{changes:?}");
        };
        assert_eq!((before.as_ref(), after.as_ref()), (&route(1, 2), &route(1, 9)));
    }

    #[test]
    fn equal_snapshots_have_no_difference() {
        assert_eq!(between(&with_routes(50), &with_routes(50), 10), Some(vec![]));
    }

    #[test]
    fn more_changes_than_a_batch_holds_are_a_resync() {
        assert_eq!(between(&Snapshot::default(), &with_routes(11), 10), None);
        assert_eq!(between(&Snapshot::default(), &with_routes(10), 10).map(|c| c.len()), Some(10));
    }

    #[test]
    fn one_change_among_twenty_thousand_routes_costs_little() {
        let old = with_routes(20_000);
        let mut new = old.clone();
        let start = std::time::Instant::now();
        for number in 0..1_000 {
            let before = new.clone();
            let effect = new.routes.insert(route(number * 20, 101 + number % 2), How::Replace);
            assert_eq!(effect, crate::route::Effect::Known);
            assert_eq!(between(&before, &new, 10).map(|c| c.len()), Some(1));
        }
        let spent = start.elapsed();
        // A thousand walks over 20,000 routes take seconds in a debug build; a thousand paths do not.
        assert!(spent < std::time::Duration::from_secs(2), "{spent:?}");
    }

    #[tokio::test]
    async fn who_falls_behind_is_told_to_start_over() {
        let (sender, receiver) = broadcast::channel(2);
        let mut changes = Changes::new(receiver);
        for _ in 0..5 {
            sender.send(Batch::Changes([].into())).unwrap();
        }
        assert_eq!(changes.next().await, Some(Batch::Resync));
        sender.send(Batch::Changes([].into())).unwrap();
        assert_eq!(changes.next().await, Some(Batch::Changes([].into())));
        drop(sender);
        assert_eq!(changes.next().await, None);
    }
}
