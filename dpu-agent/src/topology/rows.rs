//! Planned rows. Rows name each other, so that a plan is a plain value: the writer puts references in their place.

use std::collections::{BTreeMap, BTreeSet};

use super::northbound::{
    Acl, AddressSet, Copp, GatewayChassis, Global, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, Meter, MeterBand, Nat, Pairs, RouterPolicy, StaticMacBinding, StaticRoute,
};

/// A row that lives in a column of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Child<T> {
    /// Name of the row that it lives in.
    pub parent: String,
    /// The row.
    pub row: T,
}

/// A switch or router with what it refers to by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Root<T> {
    /// The row, with empty references.
    pub row: T,
    /// Names of its groups of load balancers.
    pub load_balancer_groups: BTreeSet<String>,
}

/// A router's port.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterPort {
    /// Name of the router.
    pub router: String,
    /// The row, with empty references.
    pub row: LogicalRouterPort,
    /// The chassis that it may be bound to.
    pub chassis: Vec<GatewayChassis>,
}

/// Where an access rule is in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclHolder {
    /// On a switch of this name.
    Switch(String),
    /// In a port group of this name.
    Group(String),
}

/// A limit with its one band.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The row, with empty references.
    pub meter: Meter,
    /// Its band; equal ones are one row.
    pub band: MeterBand,
}

/// Rows of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The database itself.
    pub global: Option<Global>,
    /// Limits of controllers.
    pub copps: Vec<Copp>,
    /// Limits.
    pub limits: Vec<Limit>,
    /// Names of groups of load balancers.
    pub load_balancer_groups: BTreeSet<String>,
    /// Switches by name.
    pub switches: BTreeMap<String, Root<LogicalSwitch>>,
    /// Their ports by name.
    pub switch_ports: BTreeMap<String, Child<LogicalSwitchPort>>,
    /// Routers by name.
    pub routers: BTreeMap<String, Root<LogicalRouter>>,
    /// Their ports by name.
    pub router_ports: BTreeMap<String, RouterPort>,
    /// Routes.
    pub routes: Vec<Child<StaticRoute>>,
    /// Policies.
    pub policies: Vec<Child<RouterPolicy>>,
    /// Translations.
    pub nats: Vec<Child<Nat>>,
    /// Access rules.
    pub acls: Vec<(AclHolder, Acl)>,
    /// Notes of port groups, by name of the group.
    pub port_groups: BTreeMap<String, Pairs>,
    /// Names of ports in port groups, by name of the group; of another part than the group where that part has the port.
    pub members: BTreeMap<String, BTreeSet<String>>,
    /// Neighbours of router ports.
    pub mac_bindings: Vec<StaticMacBinding>,
    /// Sets of addresses by name.
    pub address_sets: BTreeMap<String, AddressSet>,
}

impl Rows {
    pub(super) fn switch(&mut self, row: LogicalSwitch, groups: impl IntoIterator<Item = String>) {
        let load_balancer_groups = groups.into_iter().collect();
        self.switches.insert(row.name.clone(), Root { row, load_balancer_groups });
    }

    pub(super) fn switch_port(&mut self, switch: &str, row: LogicalSwitchPort) {
        self.switch_ports.insert(row.name.clone(), Child { parent: switch.to_owned(), row });
    }

    pub(super) fn router(&mut self, row: LogicalRouter, groups: impl IntoIterator<Item = String>) {
        let load_balancer_groups = groups.into_iter().collect();
        self.routers.insert(row.name.clone(), Root { row, load_balancer_groups });
    }

    pub(super) fn router_port(&mut self, router: &str, row: LogicalRouterPort) {
        self.bound_router_port(router, row, Vec::new());
    }

    pub(super) fn bound_router_port(
        &mut self,
        router: &str,
        row: LogicalRouterPort,
        chassis: Vec<GatewayChassis>,
    ) {
        self.router_ports.insert(row.name.clone(), RouterPort { router: router.to_owned(), row, chassis });
    }

    pub(super) fn route(&mut self, router: &str, row: StaticRoute) {
        self.routes.push(Child { parent: router.to_owned(), row });
    }

    pub(super) fn policy(&mut self, router: &str, row: RouterPolicy) {
        self.policies.push(Child { parent: router.to_owned(), row });
    }

    pub(super) fn nat(&mut self, router: &str, row: Nat) {
        self.nats.push(Child { parent: router.to_owned(), row });
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rows of two groups.
    pub fn extend(&mut self, other: Self) {
        self.global = other.global.or_else(|| self.global.take());
        self.copps.extend(other.copps);
        self.limits.extend(other.limits);
        self.load_balancer_groups.extend(other.load_balancer_groups);
        self.switches.extend(other.switches);
        self.switch_ports.extend(other.switch_ports);
        self.routers.extend(other.routers);
        self.router_ports.extend(other.router_ports);
        self.routes.extend(other.routes);
        self.policies.extend(other.policies);
        self.nats.extend(other.nats);
        self.acls.extend(other.acls);
        self.port_groups.extend(other.port_groups);
        for (group, ports) in other.members {
            self.members.entry(group).or_default().extend(ports);
        }
        self.mac_bindings.extend(other.mac_bindings);
        self.address_sets.extend(other.address_sets);
    }
}
