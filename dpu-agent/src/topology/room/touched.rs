//! Which networks a change of the Northbound database concerns, and which of their parts.
//!
//! A row is told by what it is and by what it lives in, as when the topology is written ([`super::super::own`]): a change
//! of a row that no network's topology has wakes nothing, whoever made it and wherever it lives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_net::network::name::{NetworkName, NodeName};
use causeway_net::network::ovn::{self, OvnNames};
use ipnet::IpNet;
use ovsdb::{Batch, Change, FlatSet, Row, RowChange, Snapshot, Uuid};

use super::super::mark;
use super::super::northbound::{
    Acl, AddressSet, Copp, GatewayChassis, Global, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, Pairs, PortGroup, RouterPolicy,
    StaticMacBinding, StaticRoute,
};
use super::super::own::Owner;
use super::super::plan::Part;
use super::super::service;

/// What a change concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// Parts of networks.
    pub(super) networks: BTreeMap<NetworkName, BTreeSet<Part>>,
    /// Whether rows of the zone itself are others.
    pub(super) zone: bool,
    /// Whether sets of addresses of Services are others.
    pub(super) services: bool,
}

/// Who knows which network has which names.
pub(super) trait Holders {
    /// The network whose names have this prefix.
    fn holder(&self, prefix: &str) -> Option<NetworkName>;
    /// Whether a network is wanted, or kept.
    fn knows(&self, network: &NetworkName) -> bool;
}

/// Finds whom changes concern.
pub(super) struct Finder<'a, H> {
    pub(super) node: &'a NodeName,
    pub(super) join: &'a [IpNet],
    pub(super) holders: &'a H,
    /// The newest snapshot, with the changes in it.
    pub(super) now: &'a Snapshot,
}

/// Changes, and where each row's is among them.
struct News<'b> {
    batch: &'b Batch,
    by_row: HashMap<Uuid, &'b RowChange>,
}

/// A row that others live in, and that a network is known by.
trait Home: Row {
    fn called(&self) -> &str;
    fn notes(&self) -> &Pairs;
    /// Without those that live in it.
    fn bare(&self) -> Self;
    /// Names of those that a network can have, with their part.
    fn of(owner: &Owner) -> Vec<(String, Part)>;
}

impl Home for LogicalSwitch {
    fn called(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> &Pairs {
        &self.external_ids
    }

    fn bare(&self) -> Self {
        Self { ports: FlatSet::default(), acls: FlatSet::default(), ..self.clone() }
    }

    fn of(owner: &Owner) -> Vec<(String, Part)> {
        owner.switches()
    }
}

impl Home for LogicalRouter {
    fn called(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> &Pairs {
        &self.external_ids
    }

    fn bare(&self) -> Self {
        Self {
            ports: FlatSet::default(),
            static_routes: FlatSet::default(),
            policies: FlatSet::default(),
            nat: FlatSet::default(),
            ..self.clone()
        }
    }

    fn of(owner: &Owner) -> Vec<(String, Part)> {
        owner.routers()
    }
}

impl<H: Holders> Finder<'_, H> {
    /// Whom it concerns.
    pub(super) fn find(&self, batch: &Batch) -> Touched {
        let by_row = batch.changes.iter().map(|change| (change.uuid(), change)).collect();
        let (mut touched, news) = (Touched::default(), News { batch, by_row });
        self.switches(&news, &mut touched);
        self.routers(&news, &mut touched);
        self.groups(&news, &mut touched);
        self.in_place(batch, &mut touched);
        self.loose(batch, &mut touched);
        touched.zone = zone(batch);
        touched.services = services(batch);
        touched
    }

    fn owner(&self, network: &NetworkName) -> Owner {
        Owner::new(network, self.node, self.join)
    }

    /// The network that a switch or router is of: by its mark, else by its name.
    fn network(&self, name: &str, ids: &Pairs) -> Option<NetworkName> {
        let marked = ids.get(mark::NETWORK).map(NetworkName::from);
        let marked = marked.filter(|network| self.holders.knows(network));
        marked.or_else(|| self.holders.holder(&prefix_of(name, self.node.as_str())?))
    }

    /// Rows that others live in. `moved` tells of which parts those are that came or went, with the row's names.
    fn homes<T: Home>(
        &self,
        news: &News<'_>,
        touched: &mut Touched,
        moved: impl Fn(&Owner, &BTreeSet<&str>, &Change<T>) -> BTreeSet<Part>,
    ) {
        for change in news.batch.rows::<T>() {
            let versions = || change.old.iter().chain(&change.new);
            let names: BTreeSet<&str> = versions().map(|row| row.called()).collect();
            let networks: BTreeSet<NetworkName> =
                versions().filter_map(|row| self.network(row.called(), row.notes())).collect();
            for network in networks {
                let owner = self.owner(&network);
                let mut parts = moved(&owner, &names, &change);
                if change.old.as_deref().map(T::bare) != change.new.as_deref().map(T::bare) {
                    let own = T::of(&owner).into_iter();
                    parts.extend(own.filter_map(|(name, part)| names.contains(&*name).then_some(part)));
                }
                touched.add(&network, parts);
            }
        }
    }

    fn switches(&self, news: &News<'_>, touched: &mut Touched) {
        self.homes::<LogicalSwitch>(news, touched, |owner, names, change| {
            let port = |row: &LogicalSwitchPort| names.iter().find_map(|name| owner.switch_port(name, row));
            let ports = self.moved(news, change, |row| &row.ports, port);
            let rules = self.moved(news, change, |row| &row.acls, |row: &Acl| owner.switch_rule(row));
            ports.into_iter().chain(rules).collect()
        });
    }

    fn routers(&self, news: &News<'_>, touched: &mut Touched) {
        self.homes::<LogicalRouter>(news, touched, |owner, names, change| {
            let port = |row: &LogicalRouterPort| owner.router_port(row);
            let route = |row: &StaticRoute| names.iter().find_map(|name| owner.route(name, row));
            let policy = |row: &RouterPolicy| owner.policy(row);
            let nat = |row: &Nat| names.iter().find_map(|name| owner.nat(name, row));
            let all = [
                self.moved(news, change, |row| &row.ports, port),
                self.moved(news, change, |row| &row.static_routes, route),
                self.moved(news, change, |row| &row.policies, policy),
                self.moved(news, change, |row| &row.nat, nat),
            ];
            all.into_iter().flatten().collect()
        });
    }

    fn groups(&self, news: &News<'_>, touched: &mut Touched) {
        for change in news.batch.rows::<PortGroup>() {
            let networks: BTreeSet<NetworkName> =
                change.old.iter().chain(&change.new).filter_map(|row| self.of_group(row)).collect();
            for network in networks {
                let owner = self.owner(&network);
                let mut parts = BTreeSet::new();
                let empty = |row: &PortGroup| PortGroup {
                    ports: FlatSet::default(),
                    acls: FlatSet::default(),
                    ..row.clone()
                };
                if change.old.as_deref().map(empty) != change.new.as_deref().map(empty) {
                    parts.insert(Part::Network);
                }
                let member = |row: &LogicalSwitchPort| owner.member(row);
                parts.extend(self.moved(news, &change, |row| &row.ports, member));
                parts.extend(self.moved(news, &change, |row| &row.acls, |row: &Acl| owner.group_rule(row)));
                touched.add(&network, parts);
            }
        }
    }

    /// The network of a port group that the topology has.
    fn of_group(&self, group: &PortGroup) -> Option<NetworkName> {
        let by_mark = group.external_ids.get(mark::OWNER_CONTROLLER);
        let by_mark = by_mark.and_then(|controller| controller.strip_suffix("-network-controller"));
        let network = NetworkName::from(by_mark?);
        let owner = self.owner(&network);
        let ours = owner.groups().contains(&group.name) || owner.group(group).is_some();
        (ours && self.holders.knows(&network)).then_some(network)
    }

    /// Rows that changed where they are.
    fn in_place(&self, batch: &Batch, touched: &mut Touched) {
        let now = self.now;
        let switch = |row: &LogicalSwitch| self.network(&row.name, &row.external_ids);
        let router = |row: &LogicalRouter| self.network(&row.name, &row.external_ids);
        changed::<LogicalSwitchPort>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalSwitch::by_port(), uuid) {
                let Some(network) = switch(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.switch_port(&parent.name, row)));
            }
        });
        changed::<LogicalRouterPort>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalRouter::by_port(), uuid) {
                let Some(network) = router(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.router_port(row)));
            }
        });
        changed::<GatewayChassis>(batch, |uuid, _| {
            for (port, row) in now.find(LogicalRouterPort::by_chassis(), uuid) {
                for (_, parent) in now.find(LogicalRouter::by_port(), port) {
                    let Some(network) = router(parent) else { continue };
                    touched.add(&network, self.owner(&network).router_port(row));
                }
            }
        });
        changed::<StaticRoute>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalRouter::by_route(), uuid) {
                let Some(network) = router(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.route(&parent.name, row)));
            }
        });
        changed::<RouterPolicy>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalRouter::by_policy(), uuid) {
                let Some(network) = router(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.policy(row)));
            }
        });
        changed::<Nat>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalRouter::by_nat(), uuid) {
                let Some(network) = router(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.nat(&parent.name, row)));
            }
        });
        changed::<Acl>(batch, |uuid, versions| {
            for (_, parent) in now.find(LogicalSwitch::by_acl(), uuid) {
                let Some(network) = switch(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.switch_rule(row)));
            }
            for (_, parent) in now.find(PortGroup::by_acl(), uuid) {
                let Some(network) = self.of_group(parent) else { continue };
                let owner = self.owner(&network);
                touched.add(&network, versions.iter().filter_map(|row| owner.group_rule(row)));
            }
        });
    }

    /// Rows that live in no other one.
    fn loose(&self, batch: &Batch, touched: &mut Touched) {
        for change in batch.rows::<StaticMacBinding>() {
            for row in change.old.iter().chain(&change.new) {
                let router = row.logical_port.strip_prefix(ovn::router_to_external("").as_str());
                let prefix = router.and_then(|router| prefix_of(router, self.node.as_str()));
                let network = prefix.and_then(|prefix| self.holders.holder(&prefix));
                if let Some(network) = network {
                    touched.add(&network, self.owner(&network).mac_binding(row));
                }
            }
        }
        for change in batch.rows::<LoadBalancerGroup>() {
            for row in change.old.iter().chain(&change.new) {
                let groups = OvnNames::of(&NetworkName::default_network()).load_balancer_groups();
                let names = [groups.cluster, groups.switch, groups.router];
                let prefix = names.iter().find_map(|name| row.name.strip_suffix(name.as_str()));
                if let Some(network) = prefix.and_then(|prefix| self.holders.holder(prefix)) {
                    touched.add(&network, Some(Part::Network));
                }
            }
        }
    }

    /// Of which parts those are that only one version of a row refers to, in any version of theirs that the changes or the
    /// database have.
    fn moved<T: Row, R: Row>(
        &self,
        news: &News<'_>,
        change: &Change<T>,
        column: impl for<'r> Fn(&'r T) -> &'r FlatSet<Uuid>,
        part: impl Fn(&R) -> Option<Part>,
    ) -> BTreeSet<Part> {
        let none = FlatSet::default();
        let [old, new] = [&change.old, &change.new].map(|row| row.as_deref().map_or(&none, &column));
        let versions = |uuid: &Uuid| {
            let change = news.by_row.get(uuid).and_then(|change| change.row::<R>());
            let told = change.into_iter().flat_map(|change| [change.old, change.new]).flatten();
            told.chain(self.now.row::<R>(*uuid).cloned())
        };
        old.symmetric_difference(new).flat_map(versions).filter_map(|row| part(&row)).collect()
    }
}

impl Touched {
    fn add(&mut self, network: &NetworkName, parts: impl IntoIterator<Item = Part>) {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_some() {
            self.networks.entry(network.clone()).or_default().extend(parts);
        }
    }
}

/// Rows that were there before and are there still.
fn changed<T: Row>(batch: &Batch, mut each: impl FnMut(Uuid, [&T; 2])) {
    for change in batch.rows::<T>() {
        if let (Some(old), Some(new)) = (&change.old, &change.new) {
            each(change.uuid, [old, new]);
        }
    }
}

/// Whether rows of the zone itself are others: not the counters that clients and OVN move in it.
fn zone(batch: &Batch) -> bool {
    let global = batch.rows::<Global>().any(|change| {
        let said = |row: &Arc<Global>| (row.name.clone(), row.options.clone());
        change.old.as_ref().map(said) != change.new.as_ref().map(said)
    });
    global
        || batch.rows::<Copp>().next().is_some()
        || batch.rows::<Meter>().next().is_some()
        || batch.rows::<MeterBand>().next().is_some()
}

/// Whether sets of addresses of Services are others. One that lost its notes is known by its name.
fn services(batch: &Batch) -> bool {
    let names = [true, false].map(|is_four| service::set_id(is_four).hashed_name());
    let ours = |set: &Arc<AddressSet>| service::is_set(&set.external_ids) || names.contains(&set.name);
    batch.rows::<AddressSet>().any(|change| change.old.iter().chain(&change.new).any(ours))
}

/// What the name of a switch or router of the topology begins with after the words of its kind: the network's prefix.
fn prefix_of(name: &str, node: &str) -> Option<String> {
    let heads = ["exgw-ext_", "ext_", "GR_"];
    let name = heads.iter().find_map(|head| name.strip_prefix(head)).unwrap_or(name);
    let names = OvnNames::of(&NetworkName::default_network());
    let tails = [
        names.cluster_router(),
        names.transit_router(),
        names.join_switch(),
        names.transit_switch(),
        names.layer2_switch(),
        names.localnet_switch(),
        node.to_owned(),
    ];
    let prefix = tails.iter().find_map(|tail| name.strip_suffix(tail.as_str()))?;
    (prefix.is_empty() || prefix.ends_with('_')).then(|| prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_switch_or_router_tells_the_prefix_of_its_network() {
        for (name, want) in [
            ("node1", Some("")),
            ("join", Some("")),
            ("ovn_cluster_router", Some("")),
            ("GR_node1", Some("")),
            ("ext_node1", Some("")),
            ("exgw-ext_node1", Some("")),
            ("cluster_udn_blue_node1", Some("cluster_udn_blue_")),
            ("GR_cluster_udn_blue_node1", Some("cluster_udn_blue_")),
            ("ext_a.b_node1", Some("a.b_")),
            ("ns_flat_ovn_layer2_switch", Some("ns_flat_")),
            ("ns_below_ovn_localnet_switch", Some("ns_below_")),
            ("cluster_udn_green_transit_router", Some("cluster_udn_green_")),
            ("node2", None),
            ("anode1", None),
            ("foreign", None),
        ] {
            assert_eq!(prefix_of(name, "node1").as_deref(), want, "{name}");
        }
    }
}
