//! Rows of the Northbound database, to compare one moment with another.

use std::collections::BTreeMap;

use causeway_dpu_agent::topology::northbound::{
    Acl, AddressSet, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup, RouterPolicy, StaticMacBinding,
    StaticRoute,
};
use ovsdb::{Snapshot, Uuid};

/// Rows as text, with their identity: two snapshots with equal rows hold the same rows.
pub type Rows = BTreeMap<(&'static str, Uuid), String>;

/// All rows of the topology's tables, but for the one of the database itself, which OVN counts in.
#[must_use]
pub fn rows(have: &Snapshot) -> Rows {
    let mut rows = Rows::new();
    add::<Copp>(&mut rows, have);
    add::<Meter>(&mut rows, have);
    add::<MeterBand>(&mut rows, have);
    add::<LoadBalancerGroup>(&mut rows, have);
    add::<LogicalSwitch>(&mut rows, have);
    add::<LogicalSwitchPort>(&mut rows, have);
    add::<LogicalRouter>(&mut rows, have);
    add::<LogicalRouterPort>(&mut rows, have);
    add::<GatewayChassis>(&mut rows, have);
    add::<StaticRoute>(&mut rows, have);
    add::<RouterPolicy>(&mut rows, have);
    add::<Nat>(&mut rows, have);
    add::<Acl>(&mut rows, have);
    add::<PortGroup>(&mut rows, have);
    add::<StaticMacBinding>(&mut rows, have);
    add::<AddressSet>(&mut rows, have);
    rows
}

fn add<T: ovsdb::Row>(rows: &mut Rows, have: &Snapshot) {
    rows.extend(have.rows::<T>().map(|(uuid, row)| ((T::TABLE, uuid), format!("{row:?}"))));
}
