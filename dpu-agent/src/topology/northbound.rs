//! The rows of the OVN Northbound database that the topology consists of. Source: ovn-nb(5).
//!
//! Only the columns that some row of ours sets are declared, so that nothing else is read or written. All of them are
//! in OVN 25.03 (schema 7.11) and later.

use ovsdb::{FlatSet, TextMap, Uuid};

use super::mark;

/// Pairs of text, as `external_ids` and `options` are: a few in each of many thousand rows.
pub type Pairs = TextMap;

ovsdb::table! {
    /// The database itself; one row.
    pub struct Global in "NB_Global" {
        /// Name of the zone.
        name: String,
        /// Options of northd; it writes some of its own.
        options: Pairs,
        /// Sequence number of what clients want to see applied.
        nb_cfg: i64,
        /// The highest number that every chassis has applied.
        hv_cfg: i64,
        /// The highest number that northd has brought to the Southbound database.
        sb_cfg: i64,
    }
}

ovsdb::table! {
    /// Limits for packets that OVN handles in its controllers.
    pub struct Copp in "Copp" {
        /// Name, unique.
        name: String,
        /// Meter of each protocol.
        meters: Pairs,
    }
    /// By name.
    index by_name = |copp| Some(copp.name.as_str());
}

ovsdb::table! {
    /// A limit.
    pub struct Meter in "Meter" {
        /// Name, unique.
        name: String,
        /// Unit of its rates.
        unit: String,
        /// What happens above which rate.
        bands: FlatSet<Uuid>,
        /// Whether each user has the limit of its own.
        fair: Option<bool>,
    }
    /// By name.
    index by_name = |meter| Some(meter.name.as_str());
}

ovsdb::table! {
    /// What happens above a rate.
    pub struct MeterBand in "Meter_Band" {
        /// What.
        action: String,
        /// The rate.
        rate: i64,
        /// How much may come at once.
        burst_size: i64,
    }
}

ovsdb::table! {
    /// Load balancers that several switches and routers have together.
    pub struct LoadBalancerGroup in "Load_Balancer_Group" {
        /// Name, unique.
        name: String,
    }
    /// By name.
    index by_name = |group| Some(group.name.as_str());
}

ovsdb::table! {
    /// A switch.
    pub struct LogicalSwitch in "Logical_Switch" {
        /// Name; the schema does not demand that it is unique.
        name: String,
        /// Its ports.
        ports: FlatSet<Uuid>,
        /// Its access rules.
        acls: FlatSet<Uuid>,
        /// Groups of load balancers.
        load_balancer_group: FlatSet<Uuid>,
        /// Settings.
        other_config: Pairs,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |switch| Some(switch.name.as_str());
    /// By the network that it is marked with.
    index by_network = |switch| switch.external_ids.get(mark::NETWORK);
    /// The switch that has a port.
    index by_port = |switch| switch.ports.iter().copied();
    /// The switch that has a rule.
    index by_acl = |switch| switch.acls.iter().copied();
}

ovsdb::table! {
    /// A port of a switch.
    pub struct LogicalSwitchPort in "Logical_Switch_Port" {
        /// Name, unique.
        name: String,
        /// Type; empty for an interface.
        kind as "type": String,
        /// Addresses.
        addresses: FlatSet<String>,
        /// Settings.
        options: Pairs,
        /// The VLAN that it asks for.
        tag_request: Option<i64>,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |port| Some(port.name.as_str());
}

ovsdb::table! {
    /// A router.
    pub struct LogicalRouter in "Logical_Router" {
        /// Name; the schema does not demand that it is unique.
        name: String,
        /// Its ports.
        ports: FlatSet<Uuid>,
        /// Its routes.
        static_routes: FlatSet<Uuid>,
        /// Its policies.
        policies: FlatSet<Uuid>,
        /// Its translations.
        nat: FlatSet<Uuid>,
        /// Groups of load balancers.
        load_balancer_group: FlatSet<Uuid>,
        /// Its limits.
        copp: Option<Uuid>,
        /// Settings.
        options: Pairs,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |router| Some(router.name.as_str());
    /// By the network that it is marked with.
    index by_network = |router| router.external_ids.get(mark::NETWORK);
    /// The router that has a port.
    index by_port = |router| router.ports.iter().copied();
    /// The router that has a route.
    index by_route = |router| router.static_routes.iter().copied();
    /// The router that has a policy.
    index by_policy = |router| router.policies.iter().copied();
    /// The router that has a translation.
    index by_nat = |router| router.nat.iter().copied();
}

ovsdb::table! {
    /// A port of a router.
    pub struct LogicalRouterPort in "Logical_Router_Port" {
        /// Name, unique.
        name: String,
        /// MAC address.
        mac: String,
        /// Addresses with prefix length.
        networks: FlatSet<String>,
        /// The chassis that it may be bound to.
        gateway_chassis: FlatSet<Uuid>,
        /// The port of another router that it is wired to.
        peer: Option<String>,
        /// Settings of router advertisements.
        ipv6_ra_configs: Pairs,
        /// Settings.
        options: Pairs,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |port| Some(port.name.as_str());
    /// The port that has a binding to a chassis.
    index by_chassis = |port| port.gateway_chassis.iter().copied();
}

ovsdb::table! {
    /// A chassis that a router port may be bound to.
    pub struct GatewayChassis in "Gateway_Chassis" {
        /// Name, unique.
        name: String,
        /// Name of the chassis.
        chassis_name: String,
        /// The highest one is bound.
        priority: i64,
    }
    /// By name.
    index by_name = |chassis| Some(chassis.name.as_str());
}

ovsdb::table! {
    /// A route.
    pub struct StaticRoute in "Logical_Router_Static_Route" {
        /// What it leads to, or comes from.
        ip_prefix: String,
        /// The next router.
        nexthop: String,
        /// `src-ip` or `dst-ip`; none is the latter.
        policy: Option<String>,
        /// The port that leads to the next router.
        output_port: Option<String>,
        /// Table of the route.
        route_table: String,
        /// Notes.
        external_ids: Pairs,
    }
}

ovsdb::table! {
    /// A rule that overrules routes.
    pub struct RouterPolicy in "Logical_Router_Policy" {
        /// The highest one that matches wins.
        priority: i64,
        /// What it is for, as an expression of OVN.
        condition as "match": String,
        /// What happens.
        action: String,
        /// The next routers.
        nexthops: FlatSet<String>,
        /// Notes.
        external_ids: Pairs,
    }
}

ovsdb::table! {
    /// A translation of addresses.
    pub struct Nat in "NAT" {
        /// `snat`, `dnat` or `dnat_and_snat`.
        kind as "type": String,
        /// Address outside.
        external_ip: String,
        /// Address or block inside.
        logical_ip: String,
        /// The port that it is at.
        logical_port: Option<String>,
        /// Ports outside.
        external_port_range: String,
        /// What else has to hold, as an expression of OVN.
        condition as "match": String,
        /// Settings.
        options: Pairs,
        /// Notes.
        external_ids: Pairs,
    }
}

ovsdb::table! {
    /// An access rule.
    pub struct Acl in "ACL" {
        /// Side of the port that it is for.
        direction: String,
        /// The highest one that matches wins.
        priority: i64,
        /// Rules of a lower tier come first.
        tier: i64,
        /// What it is for, as an expression of OVN.
        condition as "match": String,
        /// What happens.
        action: String,
        /// Whether hits are logged.
        log: bool,
        /// Limit of the log.
        meter: Option<String>,
        /// Settings.
        options: Pairs,
        /// Notes.
        external_ids: Pairs,
    }
}

ovsdb::table! {
    /// Ports that have access rules together.
    pub struct PortGroup in "Port_Group" {
        /// Name, unique.
        name: String,
        /// The ports; one that is deleted leaves the group.
        ports: FlatSet<Uuid>,
        /// Their access rules.
        acls: FlatSet<Uuid>,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |group| Some(group.name.as_str());
    /// By owner.
    index by_controller = |group| group.external_ids.get(mark::OWNER_CONTROLLER);
    /// The groups that have a rule.
    index by_acl = |group| group.acls.iter().copied();
}

ovsdb::table! {
    /// A neighbour that a router port need not ask for.
    pub struct StaticMacBinding in "Static_MAC_Binding" {
        /// Name of the router port; the pair with the address is unique.
        logical_port: String,
        /// Address of the neighbour.
        ip: String,
        /// Its MAC address.
        mac: String,
        /// Whether it wins over one that was learnt.
        override_dynamic_mac: bool,
    }
    /// By router port and address.
    index by_neighbour = |binding| Some(neighbour_key(&binding.logical_port, &binding.ip));
    /// By router port.
    index by_port = |binding| Some(binding.logical_port.as_str());
}

ovsdb::table! {
    /// Addresses that expressions name together.
    pub struct AddressSet in "Address_Set" {
        /// Name, unique.
        name: String,
        /// The addresses.
        addresses: FlatSet<String>,
        /// Notes.
        external_ids: Pairs,
    }
    /// By name.
    index by_name = |set| Some(set.name.as_str());
    /// By owner.
    index by_controller = |set| set.external_ids.get(mark::OWNER_CONTROLLER);
}

/// The key of a neighbour: no name of a port has a line break.
pub(super) fn neighbour_key(port: &str, ip: &str) -> String {
    format!("{port}\n{ip}")
}

/// A store's builder with every table of the topology.
#[must_use]
pub fn declare(builder: ovsdb::StoreBuilder) -> ovsdb::StoreBuilder {
    builder
        .table::<Global>()
        .table::<Copp>()
        .table::<Meter>()
        .table::<MeterBand>()
        .table::<LoadBalancerGroup>()
        .table::<LogicalSwitch>()
        .table::<LogicalSwitchPort>()
        .table::<LogicalRouter>()
        .table::<LogicalRouterPort>()
        .table::<GatewayChassis>()
        .table::<StaticRoute>()
        .table::<RouterPolicy>()
        .table::<Nat>()
        .table::<Acl>()
        .table::<PortGroup>()
        .table::<StaticMacBinding>()
        .table::<AddressSet>()
}
