//! Routes, translations and policies of a router.

use crate::topology::model::{Device, Nat, Policy, Route};
use crate::topology::rows::{Database, Row};

/// Adds those of a router's row, sorted: of policies the one that decides first comes first.
pub(super) fn add(database: &Database, router: &Row, device: &mut Device) {
    let paths = database.referred(router, "static_routes", "Logical_Router_Static_Route");
    device.routes = paths.into_iter().map(route).collect();
    device.routes.sort();
    let nats = database.referred(router, "nat", "NAT");
    device.nats = nats.into_iter().map(nat).collect();
    device.nats.sort();
    let policies = database.referred(router, "policies", "Logical_Router_Policy");
    device.policies = policies.into_iter().map(policy).collect();
    device.policies.sort_by(|one, other| (other.priority, &one.only).cmp(&(one.priority, &other.only)));
}

fn route(row: &Row) -> Route {
    Route {
        table: row.some_text("route_table"),
        prefix: row.text("ip_prefix"),
        by_source: row.text("policy") == "src-ip",
        nexthop: row.text("nexthop"),
        port: row.some_text("output_port"),
    }
}

fn nat(row: &Row) -> Nat {
    Nat {
        kind: row.text("type"),
        inside: row.text("logical_ip"),
        outside: row.text("external_ip"),
        ports: row.some_text("external_port_range"),
        port: row.some_text("logical_port"),
        only: row.some_text("match"),
    }
}

fn policy(row: &Row) -> Policy {
    let mut nexthops = row.texts("nexthops");
    nexthops.extend(row.some_text("nexthop"));
    Policy {
        priority: row.number("priority").unwrap_or_default(),
        only: row.text("match"),
        action: row.text("action"),
        nexthops,
        port: row.some_text("output_port"),
    }
}
