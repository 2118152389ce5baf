//! What is wanted of a network, in terms of the differ: rows with references, and claims to what of them is ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ovsdb::{Claim, Desired, DiffError, FlatSet, Row, Snapshot, Uuid};

use super::super::mark;
use super::super::northbound::{
    Acl, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, Nat, Pairs, PortGroup, RouterPolicy, StaticMacBinding, StaticRoute,
};
use super::super::own::Owner;
use super::super::plan::{COPP, Part};
use super::super::rows::{AclHolder, Rows};
use super::children::{self, Nameless, by_parent};
use super::{Parts, Zone, zone};

/// Wants `rows`, which are those of `parts` of the owner's network, and nothing else of these parts.
pub(super) fn of(
    zone: &Zone,
    owner: Owner,
    parts: Parts,
    rows: &Rows,
    have: &Snapshot,
) -> Result<Desired, DiffError> {
    let scope = Arc::new(Scope { owner, parts });
    let mut builder =
        Builder { want: Desired::default(), have, rows, scope, groups: BTreeMap::new(), homeless: None };
    builder.load_balancer_groups();
    let copp = builder.copp(zone);
    let port_references = builder.switch_ports();
    builder.switches(&port_references);
    builder.routers(copp);
    builder.port_groups(&port_references);
    builder.mac_bindings();
    builder.everything_marked();
    match builder.homeless {
        Some(error) => Err(error),
        None => Ok(builder.want),
    }
}

/// Which rows a change is about.
struct Scope {
    owner: Owner,
    parts: Parts,
}

impl Scope {
    fn covers(&self, part: Option<Part>) -> bool {
        part.is_some_and(|part| self.parts.covers(&part))
    }
}

struct Builder<'a> {
    want: Desired,
    have: &'a Snapshot,
    rows: &'a Rows,
    scope: Arc<Scope>,
    /// References to groups of load balancers, by name.
    groups: BTreeMap<String, Uuid>,
    /// A switch or router that is neither there nor wanted, though something that is wanted lives in it. The server would
    /// take that for garbage, and the next pass would write it again.
    homeless: Option<DiffError>,
}

type Keys = std::iter::Copied<std::slice::Iter<'static, &'static str>>;

fn keys() -> Keys {
    mark::KEYS.iter().copied()
}

impl<'a> Builder<'a> {
    fn load_balancer_groups(&mut self) {
        let claim = Arc::new(Claim::by(LoadBalancerGroup::by_name()).all());
        for name in &self.rows.load_balancer_groups {
            let reference = self.want.row(&claim, LoadBalancerGroup { name: name.clone() });
            self.groups.insert(name.clone(), reference);
        }
        let names = self.scope.owner.names.load_balancer_groups();
        for name in [names.cluster, names.switch, names.router] {
            if self.groups.contains_key(&name) {
                continue;
            }
            if let Some((uuid, _)) = self.have.find_one(LoadBalancerGroup::by_name(), name.as_str()) {
                if self.scope.parts.covers(&Part::Network) {
                    self.want.delete::<LoadBalancerGroup, _>(uuid, LoadBalancerGroup::name());
                } else {
                    self.groups.insert(name, uuid);
                }
            }
        }
    }

    /// References to a switch's or router's groups.
    fn groups_of(&self, names: &BTreeSet<String>) -> FlatSet<Uuid> {
        names.iter().filter_map(|name| self.groups.get(name).copied()).collect()
    }

    /// The limits of controllers, which are made here where the zone's rows are not there yet.
    fn copp(&mut self, zone: &Zone) -> Option<Uuid> {
        if self.rows.routers.is_empty() {
            return None;
        }
        if let Some((uuid, _)) = self.have.find_one(Copp::by_name(), COPP) {
            return Some(uuid);
        }
        let copps = zone::rows(&mut self.want, &zone.rows, self.have);
        copps.into_iter().find(|(name, _)| name == COPP).map(|(_, reference)| reference)
    }

    /// References to switch ports, by name.
    fn switch_ports(&mut self) -> BTreeMap<String, Uuid> {
        let claim = Claim::by(LogicalSwitchPort::by_name()).all();
        let claim = Arc::new(claim.keys(LogicalSwitchPort::external_ids(), keys()));
        let ports = self.rows.switch_ports.iter();
        ports.map(|(name, port)| (name.clone(), self.want.row(&claim, port.row.clone()))).collect()
    }

    fn switches(&mut self, ports: &BTreeMap<String, Uuid>) {
        let port_names =
            by_parent(self.rows.switch_ports.iter().map(|(name, port)| (port.parent.as_str(), name)));
        let rules = by_parent(self.rows.acls.iter().filter_map(|(holder, acl)| match holder {
            AclHolder::Switch(name) => Some((name.as_str(), acl)),
            AclHolder::Group(_) => None,
        }));
        for (name, part) in self.scope.owner.switches() {
            let planned = self.rows.switches.get(&name);
            let present =
                self.root::<LogicalSwitch>(LogicalSwitch::by_name(), &name, |row| &row.external_ids);
            let gone = planned.is_none() && self.scope.parts.covers(&part);
            if gone || (planned.is_none() && present.is_none()) {
                if let Some((uuid, _)) = present.filter(|_| gone) {
                    self.want.delete::<LogicalSwitch, _>(uuid, LogicalSwitch::external_ids());
                }
                if port_names.contains_key(name.as_str()) {
                    self.homeless = Some(DiffError::Missing { table: LogicalSwitch::TABLE, key: name });
                }
                continue;
            }
            let mut row = planned.map_or_else(LogicalSwitch::default, |root| root.row.clone());
            row.name.clone_from(&name);
            let own = port_names.get(name.as_str()).into_iter().flatten();
            row.ports = own.filter_map(|port| ports.get(*port).copied()).collect();
            let scope = self.scope.clone();
            row.acls = children::want::<Acl>(
                &mut self.want,
                self.have,
                rules.get(name.as_str()).map_or(&[], Vec::as_slice),
                present.map(|(_, row)| &row.acls),
                |rule| scope.covers(scope.owner.switch_rule(rule)),
            );
            let mut claim = identity(present.map(|(uuid, _)| uuid), LogicalSwitch::by_name());
            if let Some(root) = planned {
                row.load_balancer_group = self.groups_of(&root.load_balancer_groups);
                claim = claim.all().keys(LogicalSwitch::external_ids(), keys()).unique(LogicalSwitch::name());
            }
            let (scope, switch) = (self.scope.clone(), name.clone());
            claim = claim.references(LogicalSwitch::ports(), move |port: &LogicalSwitchPort| {
                scope.covers(scope.owner.switch_port(&switch, port))
            });
            let scope = self.scope.clone();
            claim = claim.references(LogicalSwitch::acls(), move |rule: &Acl| {
                scope.covers(scope.owner.switch_rule(rule))
            });
            self.want.row(&Arc::new(claim), row);
        }
    }

    fn routers(&mut self, copp: Option<Uuid>) {
        let ports = self.router_ports();
        let paths = by_parent(self.rows.routes.iter().map(|child| (child.parent.as_str(), &child.row)));
        let policies = by_parent(self.rows.policies.iter().map(|child| (child.parent.as_str(), &child.row)));
        let nats = by_parent(self.rows.nats.iter().map(|child| (child.parent.as_str(), &child.row)));
        for (name, part) in self.scope.owner.routers() {
            let planned = self.rows.routers.get(&name);
            let present =
                self.root::<LogicalRouter>(LogicalRouter::by_name(), &name, |row| &row.external_ids);
            let gone = planned.is_none() && self.scope.parts.covers(&part);
            if gone || (planned.is_none() && present.is_none()) {
                if let Some((uuid, _)) = present.filter(|_| gone) {
                    self.want.delete::<LogicalRouter, _>(uuid, LogicalRouter::external_ids());
                }
                if ports.contains_key(&name) || paths.contains_key(name.as_str()) {
                    self.homeless = Some(DiffError::Missing { table: LogicalRouter::TABLE, key: name });
                }
                continue;
            }
            let mut row = planned.map_or_else(LogicalRouter::default, |root| root.row.clone());
            row.name.clone_from(&name);
            row.ports = ports.get(&name).cloned().unwrap_or_default().into();
            let here = present.map(|(_, row)| row);
            let (scope, at) = (self.scope.clone(), name.as_str());
            let wanted = paths.get(at).map_or(&[][..], Vec::as_slice);
            let taken: BTreeSet<Vec<String>> = wanted.iter().map(|route| route.key()).collect();
            row.static_routes = children::want(
                &mut self.want,
                self.have,
                wanted,
                here.map(|row| &row.static_routes),
                |route: &StaticRoute| match scope.owner.route(at, route) {
                    // A subnet that another node had before is taken over with its route: two would share the traffic.
                    Some(Part::Remote(_)) if taken.contains(&route.key()) => true,
                    part => scope.covers(part),
                },
            );
            row.policies = children::want(
                &mut self.want,
                self.have,
                policies.get(at).map_or(&[], Vec::as_slice),
                here.map(|row| &row.policies),
                |policy: &RouterPolicy| scope.covers(scope.owner.policy(policy)),
            );
            row.nat = children::want(
                &mut self.want,
                self.have,
                nats.get(at).map_or(&[], Vec::as_slice),
                here.map(|row| &row.nat),
                |nat: &Nat| scope.covers(scope.owner.nat(at, nat)),
            );
            let mut claim = identity(present.map(|(uuid, _)| uuid), LogicalRouter::by_name());
            if let Some(root) = planned {
                row.load_balancer_group = self.groups_of(&root.load_balancer_groups);
                row.copp = copp;
                claim = claim.all().keys(LogicalRouter::external_ids(), keys()).unique(LogicalRouter::name());
            }
            let claim = router_children(claim, &self.scope, &name);
            self.want.row(&Arc::new(claim), row);
        }
    }

    /// References to router ports, by router.
    fn router_ports(&mut self) -> BTreeMap<String, Vec<Uuid>> {
        let claim = Claim::by(LogicalRouterPort::by_name()).all();
        let claim = Arc::new(claim.keys(LogicalRouterPort::external_ids(), keys()));
        let bound = Arc::new(Claim::by(GatewayChassis::by_name()).all());
        let mut all: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
        for port in self.rows.router_ports.values() {
            let mut row = port.row.clone();
            let chassis = port.chassis.iter();
            row.gateway_chassis = chassis.map(|chassis| self.want.row(&bound, chassis.clone())).collect();
            let reference = self.want.row(&claim, row);
            all.entry(port.router.clone()).or_default().push(reference);
        }
        all
    }

    fn port_groups(&mut self, ports: &BTreeMap<String, Uuid>) {
        let rules = by_parent(self.rows.acls.iter().filter_map(|(holder, acl)| match holder {
            AclHolder::Group(name) => Some((name.as_str(), acl)),
            AclHolder::Switch(_) => None,
        }));
        for name in self.scope.owner.groups() {
            let planned = self.rows.port_groups.get(&name);
            let present = self.have.find_one(PortGroup::by_name(), name.as_str());
            let gone = planned.is_none() && self.scope.parts.covers(&Part::Network);
            if gone || (planned.is_none() && present.is_none()) {
                if let Some((uuid, group)) = present.filter(|_| gone)
                    && self.scope.owner.group(group).is_some()
                {
                    self.want.delete::<PortGroup, _>(uuid, PortGroup::external_ids());
                }
                continue;
            }
            let scope = self.scope.clone();
            let acls = children::want::<Acl>(
                &mut self.want,
                self.have,
                rules.get(name.as_str()).map_or(&[], Vec::as_slice),
                present.map(|(_, row)| &row.acls),
                |rule| scope.covers(scope.owner.group_rule(rule)),
            );
            let members = self.rows.members.get(&name).into_iter().flatten();
            let row = PortGroup {
                name: name.clone(),
                ports: members.filter_map(|port| ports.get(port).copied()).collect(),
                acls,
                external_ids: planned.cloned().unwrap_or_default(),
            };
            let mut claim = identity(present.map(|(uuid, _)| uuid), PortGroup::by_name());
            if planned.is_some() {
                claim = claim.whole(PortGroup::name()).part(PortGroup::external_ids(), |_| false);
            }
            let (members, acls) = (self.scope.clone(), self.scope.clone());
            let claim = claim
                .references(PortGroup::ports(), move |port: &LogicalSwitchPort| {
                    members.covers(members.owner.member(port))
                })
                .references(PortGroup::acls(), move |rule: &Acl| acls.covers(acls.owner.group_rule(rule)));
            self.want.row(&Arc::new(claim), row);
        }
    }

    fn mac_bindings(&mut self) {
        let claim = Arc::new(Claim::by(StaticMacBinding::by_neighbour()).all());
        for binding in &self.rows.mac_bindings {
            self.want.row(&claim, binding.clone());
        }
        let port = causeway_net::network::ovn::router_to_external(&self.scope.owner.gateway_router());
        for (uuid, binding) in self.have.find(StaticMacBinding::by_port(), port) {
            let planned = self.rows.mac_bindings.iter().any(|planned| planned.ip == binding.ip);
            if !planned && self.scope.covers(self.scope.owner.mac_binding(binding)) {
                self.want.delete::<StaticMacBinding, _>(uuid, StaticMacBinding::mac());
            }
        }
    }

    /// Of a network that is gone, whatever carries its marks goes, also what this version would not have written.
    fn everything_marked(&mut self) {
        let network = self.scope.owner.network.as_str();
        if !self.rows.is_empty() || self.scope.parts != Parts::all() || self.scope.owner.network.is_default()
        {
            return;
        }
        for (uuid, row) in self.have.find(LogicalSwitch::by_network(), network) {
            if row.external_ids.contains_key(mark::TOPOLOGY) {
                self.want.delete::<LogicalSwitch, _>(uuid, LogicalSwitch::external_ids());
            }
        }
        for (uuid, row) in self.have.find(LogicalRouter::by_network(), network) {
            if row.external_ids.contains_key(mark::TOPOLOGY) {
                self.want.delete::<LogicalRouter, _>(uuid, LogicalRouter::external_ids());
            }
        }
    }

    /// The row with this name that is the network's; its doubles go. The schema lets several rows have one name.
    fn root<T: Marked>(
        &mut self,
        by_name: ovsdb::Index<T>,
        name: &str,
        ids: fn(&T) -> &Pairs,
    ) -> Option<(Uuid, &'a T)> {
        let (have, network) = (self.have, &self.scope.owner.network);
        // A row without marks has lost them: its name is one that only this network's rows have. No name of another
        // network's row is one of the default network's, as names of nodes have no underscore.
        let ours = |row: &T| {
            let marked = ids(row).get(mark::NETWORK);
            network.is_default() || marked.is_none_or(|marked| marked == network.as_str())
        };
        let mut found =
            have.find(by_name, name).filter(|(_, row)| ours(row)).map(|(uuid, row)| (uuid, &**row));
        let first = found.next();
        let doubles: Vec<Uuid> = found.map(|(uuid, _)| uuid).collect();
        for double in doubles {
            self.want.delete::<T, _>(double, T::ids());
        }
        first
    }
}

/// A row that carries marks.
trait Marked: Row {
    fn ids() -> ovsdb::ColumnRef<Self, Pairs>;
}

impl Marked for LogicalSwitch {
    fn ids() -> ovsdb::ColumnRef<Self, Pairs> {
        Self::external_ids()
    }
}

impl Marked for LogicalRouter {
    fn ids() -> ovsdb::ColumnRef<Self, Pairs> {
        Self::external_ids()
    }
}

/// The row that was found; a new one if there is none.
fn identity<T: Row>(present: Option<Uuid>, by_name: ovsdb::Index<T>) -> Claim<T> {
    present.map_or_else(|| Claim::by(by_name), Claim::row)
}

/// Claims to what lives in a router.
fn router_children(claim: Claim<LogicalRouter>, scope: &Arc<Scope>, name: &str) -> Claim<LogicalRouter> {
    let (ports, policies, paths, nats) = (scope.clone(), scope.clone(), scope.clone(), scope.clone());
    let (paths_at, nats_at) = (name.to_owned(), name.to_owned());
    claim
        .references(LogicalRouter::ports(), move |port: &LogicalRouterPort| {
            ports.covers(ports.owner.router_port(port))
        })
        .references(LogicalRouter::static_routes(), move |route: &StaticRoute| {
            paths.covers(paths.owner.route(&paths_at, route))
        })
        .references(LogicalRouter::policies(), move |policy: &RouterPolicy| {
            policies.covers(policies.owner.policy(policy))
        })
        .references(LogicalRouter::nat(), move |nat: &Nat| nats.covers(nats.owner.nat(&nats_at, nat)))
}
