//! All routes of the namespace: sorted by table and destination, with an index by output interface.
//!
//! Several routes can share a key, so a key has a group. The kernel's events do not name the row they touch; what they
//! say about a group depends on the family:
//!
//! * IPv4 keeps a list per key. `NLM_F_EXCL` on an event means that the list was empty, `NLM_F_REPLACE` that its first
//!   row was replaced, `NLM_F_APPEND` that the row went to the end, none of them that it went to the front.
//!   Source: `fib_table_insert` in net/ipv4/fib_trie.c.
//! * IPv6 merges rows that have a gateway into one multipath route and reports it whole on every add, but only the
//!   removed hop on a delete. Source: `fib6_add_rt2node`, `rt6_fill_node` in net/ipv6.
//!
//! Where an event leaves room for doubt the answer is [`Effect::Uncertain`], and the family is dumped again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use super::model::{NextHopId, Route, RouteKey};
use crate::name::IfIndex;
use crate::prefix::{Family, Prefix};

/// All routes. A clone shares everything with its original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    pub(crate) groups: OrdMap<RouteKey, Group>,
    by_link: OrdSet<(IfIndex, RouteKey)>,
    by_preferred_source: OrdSet<(IpAddr, RouteKey)>,
    by_nexthop_object: OrdSet<(NextHopId, RouteKey)>,
    rows: usize,
}

/// The routes of one key, nearly always one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    One(Arc<Route>),
    Many(Arc<[Arc<Route>]>),
}

impl Group {
    pub(crate) fn as_slice(&self) -> &[Arc<Route>] {
        match self {
            Self::One(route) => std::slice::from_ref(route),
            Self::Many(routes) => routes,
        }
    }
}

/// How an event says a route came in, from the flags of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// `NLM_F_REPLACE`.
    Replace,
    /// `NLM_F_EXCL`: there was none with this key.
    Only,
    /// `NLM_F_APPEND`.
    Append,
    /// No flag of these.
    Front,
}

impl How {
    pub(crate) const fn from_flags(flags: u16) -> Self {
        const NLM_F_REPLACE: u16 = 0x100;
        const NLM_F_EXCL: u16 = 0x200;
        const NLM_F_APPEND: u16 = 0x800;
        if flags & NLM_F_REPLACE != 0 {
            Self::Replace
        } else if flags & NLM_F_EXCL != 0 {
            Self::Only
        } else if flags & NLM_F_APPEND != 0 {
            Self::Append
        } else {
            Self::Front
        }
    }
}

/// Whether an event said enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Effect {
    /// The group is what the kernel has.
    Known,
    /// Which row of the group was meant is open.
    Uncertain,
}

impl Routes {
    /// All routes, by table, family, destination, metric.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.groups.values().flat_map(Group::as_slice)
    }

    /// The routes of one table, by family, destination, metric.
    pub fn table(&self, table: u32) -> impl Iterator<Item = &Arc<Route>> {
        let first = RouteKey { table, destination: Prefix::everything(Family::V4), priority: 0, tos: 0 };
        self.groups
            .range(first..)
            .take_while(move |(key, _)| key.table == table)
            .flat_map(|(_, group)| group.as_slice())
    }

    /// The routes with a hop through `link`, of all tables. Costs as much as there are, not as there are routes.
    pub fn through(&self, link: IfIndex) -> impl Iterator<Item = &Arc<Route>> {
        self.keys_through(link)
            .filter_map(|key| self.groups.get(key))
            .flat_map(Group::as_slice)
            .filter(move |route| route.links().any(|of_hop| of_hop == link))
    }

    /// The routes with this key.
    #[must_use]
    pub fn get(&self, key: &RouteKey) -> &[Arc<Route>] {
        self.groups.get(key).map_or(&[], Group::as_slice)
    }

    /// How many routes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is no route.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(crate) fn has_through(&self, link: IfIndex, family: Family) -> bool {
        self.keys_through(link).any(|key| key.destination.family() == family)
    }

    pub(crate) fn has_preferred_source(&self, address: IpAddr) -> bool {
        self.by_preferred_source
            .range((address, LOWEST)..)
            .next()
            .is_some_and(|(preferred, _)| *preferred == address)
    }

    pub(crate) fn has_nexthop_object(&self, id: NextHopId) -> bool {
        self.by_nexthop_object.range((id, LOWEST)..).next().is_some_and(|(used, _)| *used == id)
    }

    fn keys_through(&self, link: IfIndex) -> impl Iterator<Item = &RouteKey> {
        self.by_link.range((link, LOWEST)..).take_while(move |(of, _)| *of == link).map(|(_, key)| key)
    }

    /// Takes an `RTM_NEWROUTE` event.
    pub(crate) fn insert(&mut self, route: Route, how: How) -> Effect {
        let key = route.key;
        let mut group = self.get(&key).to_vec();
        if how == How::Only {
            group.retain(|known| known.source() != route.source());
        }
        if group.iter().any(|known| **known == route) {
            return Effect::Known;
        }
        let effect = match route.family() {
            Family::V4 => insert_v4(&mut group, route, how),
            Family::V6 => insert_v6(&mut group, route, how),
        };
        self.set(key, group);
        effect
    }

    /// Takes an `RTM_DELROUTE` event.
    pub(crate) fn remove(&mut self, route: &Route) -> Effect {
        let mut group = self.get(&route.key).to_vec();
        let effect = match route.family() {
            Family::V4 => remove_v4(&mut group, route),
            Family::V6 => {
                remove_v6(&mut group, route);
                Effect::Known
            }
        };
        self.set(route.key, group);
        effect
    }

    /// Drops the routes through a link that is gone. The kernel drops a multipath route whole when one of its links is
    /// deleted (IPv4: `fib_sync_down_dev`), and sends no event for IPv4; what IPv6 keeps of a multipath route is in the
    /// events that precede the link's.
    pub(crate) fn remove_link(&mut self, link: IfIndex) {
        let keys: Vec<RouteKey> = self.keys_through(link).copied().collect();
        for key in keys {
            let mut group = self.get(&key).to_vec();
            group.retain(|route| !route.links().any(|of_hop| of_hop == link));
            self.set(key, group);
        }
    }

    /// Takes a complete dump of one family.
    pub(crate) fn replace_family(&mut self, family: Family, rows: Vec<Route>) {
        let mut groups: BTreeMap<RouteKey, Vec<Arc<Route>>> = BTreeMap::new();
        for row in rows {
            let shared = self.shared(row);
            groups.entry(shared.key).or_default().push(shared);
        }
        let gone: Vec<RouteKey> = self
            .groups
            .keys()
            .filter(|key| key.destination.family() == family && !groups.contains_key(key))
            .copied()
            .collect();
        for key in gone {
            self.set(key, Vec::new());
        }
        for (key, mut group) in groups {
            sort(family, &mut group);
            self.set(key, group);
        }
    }

    /// Takes a complete dump of the routes of one family through one link.
    pub(crate) fn replace_link(&mut self, family: Family, link: IfIndex, rows: Vec<Route>) -> Effect {
        let mut fresh: BTreeMap<RouteKey, Vec<Arc<Route>>> = BTreeMap::new();
        for row in rows {
            let shared = self.shared(row);
            fresh.entry(shared.key).or_default().push(shared);
        }
        let mut keys: BTreeSet<RouteKey> = fresh.keys().copied().collect();
        keys.extend(self.keys_through(link).filter(|key| key.destination.family() == family));
        let mut effect = Effect::Known;
        for key in keys {
            let mut group = self.get(&key).to_vec();
            let rows = fresh.remove(&key).unwrap_or_default();
            let known = group.iter().filter(|route| route.links().any(|of_hop| of_hop == link));
            if known.eq(rows.iter()) {
                continue;
            }
            group.retain(|route| !route.links().any(|of_hop| of_hop == link));
            if family == Family::V4 && !group.is_empty() && !rows.is_empty() {
                // Their order among the rows of other links is not in this dump.
                effect = Effect::Uncertain;
            }
            group.extend(rows);
            sort(family, &mut group);
            self.set(key, group);
        }
        effect
    }

    /// The row itself, or the equal one that is known.
    fn shared(&self, row: Route) -> Arc<Route> {
        match self.get(&row.key).iter().find(|known| ***known == row) {
            Some(known) => Arc::clone(known),
            None => Arc::new(row),
        }
    }

    /// Makes `group` the routes of `key`, and the indexes agree.
    fn set(&mut self, key: RouteKey, mut group: Vec<Arc<Route>>) {
        let old = self.groups.get(&key).cloned();
        let old = old.as_ref().map_or(&[][..], Group::as_slice);
        if old == group.as_slice() {
            return;
        }
        for route in old {
            for link in route.links() {
                self.by_link.remove(&(link, key));
            }
            if let Some(source) = route.preferred_source {
                self.by_preferred_source.remove(&(source, key));
            }
            if let Some(id) = route.nexthop_object() {
                self.by_nexthop_object.remove(&(id, key));
            }
        }
        for route in &group {
            for link in route.links() {
                self.by_link.insert((link, key));
            }
            if let Some(source) = route.preferred_source {
                self.by_preferred_source.insert((source, key));
            }
            if let Some(id) = route.nexthop_object() {
                self.by_nexthop_object.insert((id, key));
            }
        }
        self.rows = self.rows - old.len() + group.len();
        match (group.len(), group.pop()) {
            (1, Some(route)) => self.groups.insert(key, Group::One(route)),
            (_, Some(last)) => {
                group.push(last);
                self.groups.insert(key, Group::Many(group.into()))
            }
            (_, None) => self.groups.remove(&key),
        };
    }
}

/// The lowest key there can be; start of range scans.
const LOWEST: RouteKey =
    RouteKey { table: 0, destination: Prefix::everything(Family::V4), priority: 0, tos: 0 };

/// IPv6 rows of one key have no order of their own; a stable one makes equal tables compare equal.
fn sort(family: Family, group: &mut [Arc<Route>]) {
    if family == Family::V6 {
        group.sort_by(|a, b| {
            (a.source(), a.hops.as_slice(), a.kind, a.protocol).cmp(&(
                b.source(),
                b.hops.as_slice(),
                b.kind,
                b.protocol,
            ))
        });
    }
}

fn insert_v4(group: &mut Vec<Arc<Route>>, route: Route, how: How) -> Effect {
    let several = group.len() > 1;
    match how {
        How::Replace => {
            // With several rows the first is replaced, unless the new one equals a later row: then it depends.
            if let Some(first) = group.first_mut() {
                *first = Arc::new(route);
            } else {
                group.push(Arc::new(route));
            }
            return if several { Effect::Uncertain } else { Effect::Known };
        }
        How::Only | How::Append => group.push(Arc::new(route)),
        How::Front => group.insert(0, Arc::new(route)),
    }
    Effect::Known
}

fn remove_v4(group: &mut Vec<Arc<Route>>, route: &Route) -> Effect {
    let exact = group.iter().position(|known| **known == *route);
    let position = exact.or_else(|| (group.len() == 1).then_some(0));
    match position {
        Some(position) => {
            group.remove(position);
            Effect::Known
        }
        None if group.is_empty() => Effect::Known,
        None => Effect::Uncertain,
    }
}

fn insert_v6(group: &mut Vec<Arc<Route>>, route: Route, how: How) -> Effect {
    let same_source = group.iter().filter(|known| known.source() == route.source()).count();
    if how == How::Replace {
        group.retain(|known| known.source() != route.source());
        group.push(Arc::new(route));
        sort(Family::V6, group);
        return if same_source > 1 { Effect::Uncertain } else { Effect::Known };
    }
    if route.can_be_sibling() {
        // The event has the whole ring, so it replaces the ring that is known.
        group.retain(|known| known.source() != route.source() || !known.can_be_sibling());
    }
    group.push(Arc::new(route));
    sort(Family::V6, group);
    Effect::Known
}

/// Not finding the row is no doubt: it is an event from before the last dump.
fn remove_v6(group: &mut Vec<Arc<Route>>, route: &Route) {
    if let Some(position) = group.iter().position(|known| **known == *route) {
        group.remove(position);
        return;
    }
    let gone = route.hops.as_slice();
    let ring = group.iter().position(|known| {
        known.source() == route.source()
            && known.kind == route.kind
            && gone.iter().all(|hop| {
                known.hops.as_slice().iter().any(|has| has.link == hop.link && has.gateway == hop.gateway)
            })
    });
    let Some(ring) = ring else { return };
    let known = group.remove(ring);
    let left: Vec<_> = known
        .hops
        .as_slice()
        .iter()
        .filter(|has| !gone.iter().any(|hop| has.link == hop.link && has.gateway == hop.gateway))
        .copied()
        .collect();
    if !left.is_empty() {
        group.push(Arc::new(Route { hops: left.into(), ..(*known).clone() }));
        sort(Family::V6, group);
    }
}

#[cfg(test)]
mod tests;
