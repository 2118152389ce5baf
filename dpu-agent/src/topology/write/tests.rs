//! Changes against captured databases. What the changes lead to is shown with a real server.

use std::collections::BTreeMap;

use ovsdb::{Arity, Atom, AtomicType, Datum, FlatSet, Operation, Row, SnapshotBuilder, Uuid};
use serde_json::Value;

use super::super::golden::{Run, raw};
use super::super::northbound::*;
use super::*;

mod services;

fn atom(kind: AtomicType, value: &Value) -> Atom {
    match kind {
        AtomicType::Integer => Atom::Integer(value.as_i64().unwrap()),
        AtomicType::Boolean => Atom::Boolean(value.as_bool().unwrap()),
        AtomicType::Uuid => Atom::Uuid(value.as_str().unwrap().parse().unwrap()),
        _ => Atom::String(value.as_str().unwrap().to_owned()),
    }
}

/// A row as it was captured.
fn row<T: Row>(captured: &Value) -> T {
    let mut row = T::default();
    for column in T::columns() {
        let Some(value) = captured.get(column.name) else { continue };
        let elements = column.shape.elements;
        let datum = match (value, elements.value) {
            (Value::Object(pairs), Some(kind)) => Datum::Map(
                pairs.iter().map(|(key, value)| (Atom::String(key.clone()), atom(kind, value))).collect(),
            ),
            (Value::Array(items), None) => {
                assert_eq!(column.shape.arity, Arity::Many, "{}", column.name);
                Datum::Set(items.iter().map(|item| atom(elements.key, item)).collect())
            }
            (value, _) => Datum::scalar(atom(elements.key, value)),
        };
        row.set_datum(column.name, Some(&datum)).unwrap();
    }
    row
}

fn table<T: Row>(builder: SnapshotBuilder, database: &Value, change: impl Fn(&mut T)) -> SnapshotBuilder {
    let rows = database[T::TABLE].as_array().into_iter().flatten();
    rows.fold(builder.table::<T>(), |builder, captured| {
        let uuid: Uuid = captured["_uuid"].as_str().unwrap().parse().unwrap();
        let mut row = row::<T>(captured);
        change(&mut row);
        builder.row(uuid, row)
    })
}

/// What changes in a captured database before the writer looks at it.
#[derive(Default)]
struct Changes {
    switch: Option<fn(&mut LogicalSwitch)>,
    port: Option<fn(&mut LogicalSwitchPort)>,
    router: Option<fn(&mut LogicalRouter)>,
    nat: Option<fn(&mut Nat)>,
    route: Option<fn(&mut StaticRoute)>,
    set: Option<fn(&mut AddressSet)>,
}

fn apply<T>(change: Option<fn(&mut T)>) -> impl Fn(&mut T) {
    move |row| {
        if let Some(change) = change {
            change(row);
        }
    }
}

fn altered(run: &Run, changes: &Changes) -> Snapshot {
    let database = raw(run.name);
    let mut builder = Snapshot::builder();
    builder = table::<Global>(builder, &database, |_| {});
    builder = table::<Copp>(builder, &database, |_| {});
    builder = table::<Meter>(builder, &database, |_| {});
    builder = table::<MeterBand>(builder, &database, |_| {});
    builder = table::<LoadBalancerGroup>(builder, &database, |_| {});
    builder = table::<LogicalSwitch>(builder, &database, apply(changes.switch));
    builder = table::<LogicalSwitchPort>(builder, &database, apply(changes.port));
    builder = table::<LogicalRouter>(builder, &database, apply(changes.router));
    builder = table::<LogicalRouterPort>(builder, &database, |_| {});
    builder = table::<GatewayChassis>(builder, &database, |_| {});
    builder = table::<StaticRoute>(builder, &database, apply(changes.route));
    builder = table::<RouterPolicy>(builder, &database, |_| {});
    builder = table::<Nat>(builder, &database, apply(changes.nat));
    builder = table::<Acl>(builder, &database, |_| {});
    builder = table::<PortGroup>(builder, &database, |_| {});
    builder = table::<StaticMacBinding>(builder, &database, |_| {});
    builder = table::<AddressSet>(builder, &database, apply(changes.set));
    builder.build()
}

fn zone_of(run: &Run) -> Zone {
    Zone { node: run.node.name.clone(), default_join: run.cluster.join.clone(), rows: run.zone() }
}

/// Operations of a change as `word table`, without guards.
fn words(change: &Transaction) -> Vec<String> {
    let word = |operation: &Operation| match operation {
        Operation::Insert { table, .. } => Some(format!("insert {table}")),
        Operation::Update { table, row, .. } => {
            Some(format!("update {table} {}", row.keys().cloned().collect::<Vec<_>>().join(",")))
        }
        Operation::Mutate { table, mutations, .. } => {
            let columns: BTreeSet<&str> = mutations.iter().map(|mutation| mutation.column.as_str()).collect();
            Some(format!("mutate {table} {}", columns.into_iter().collect::<Vec<_>>().join(",")))
        }
        Operation::Delete { table, .. } => Some(format!("delete {table}")),
        _ => None,
    };
    let mut words: Vec<String> = change.operations().iter().filter_map(word).collect();
    words.sort();
    words
}

const RUNS: [&str; 12] = [
    "01-default-v4",
    "01b-default-v4-segmentation-flags",
    "02-default-v4-3zones",
    "02b-default-v4-3zones-segmentation-flags",
    "03-cudn-l3-primary",
    "04-cudn-l2-primary",
    "06-secondary",
    "14-before",
    "14-after-restart",
    "14-after-delete",
    "14-deleted-while-down",
    "17-remote-node-deleted",
];

#[test]
fn taking_over_a_captured_database_changes_nothing() {
    for name in RUNS {
        let run = Run::load(name);
        let (zone, have) = (zone_of(&run), altered(&run, &Changes::default()));
        assert_eq!(words(&zone.change(&have).unwrap()), [""; 0], "{name}");
        let sets = Zone::services_change(&run.service_addresses(), true, &have);
        assert_eq!(words(&sets.unwrap()), [""; 0], "{name}");
        for network in &run.networks {
            let change = zone.network_change(&network.name, &run.plan(network), &Parts::all(), &have);
            assert_eq!(words(&change.unwrap()), [""; 0], "{name} {}", network.name);
        }
    }
}

#[test]
fn each_part_alone_changes_nothing_either() {
    let run = Run::load("14-before");
    let (zone, have) = (zone_of(&run), altered(&run, &Changes::default()));
    for network in &run.networks {
        let plan = run.plan(network);
        for part in plan.parts.keys() {
            let parts = Parts::Only([part.clone()].into());
            let change = zone.network_change(&network.name, &plan, &parts, &have).unwrap();
            assert_eq!(words(&change), [""; 0], "{} {part:?}", network.name);
        }
    }
}

#[track_caller]
fn check(network: &str, changes: &Changes, parts: &Parts, want: &[&str]) {
    let run = Run::load("14-before");
    let have = altered(&run, changes);
    let network = run.networks.iter().find(|known| known.name.as_str() == network).unwrap();
    let change = zone_of(&run).network_change(&network.name, &run.plan(network), parts, &have).unwrap();
    assert_eq!(words(&change), want);
}

#[test]
fn a_column_that_somebody_altered_is_restored_alone() {
    let changes = Changes {
        port: Some(|port| {
            if port.name == "cluster_udn_blue_tstor-node2" {
                port.addresses = FlatSet::default();
            }
        }),
        ..Changes::default()
    };
    check("cluster_udn_blue", &changes, &Parts::all(), &["update Logical_Switch_Port addresses"]);
    check("cluster_udn_green", &changes, &Parts::all(), &[]);
    check("default", &changes, &Parts::all(), &[]);
}

#[test]
fn an_address_outside_that_changed_is_rewritten_in_place() {
    let changes = Changes {
        nat: Some(|nat| {
            if nat.external_ip == "172.30.0.2" {
                nat.external_ip = "172.30.0.99".to_owned();
            }
        }),
        ..Changes::default()
    };
    let want = ["update NAT external_ip", "update NAT external_ip"];
    check("default", &changes, &Parts::all(), &want);
    check("default", &changes, &Parts::Only([Part::Gateway].into()), &want);
    check("default", &changes, &Parts::Only([Part::Transit].into()), &[]);
}

#[test]
fn notes_of_others_stay_and_ours_come_back() {
    let changes = Changes {
        switch: Some(|switch| {
            if switch.name == "cluster_udn_blue_node1" {
                switch.external_ids.insert("note", "mine");
                switch.external_ids.remove(super::super::mark::ROLE);
            }
        }),
        ..Changes::default()
    };
    check("cluster_udn_blue", &changes, &Parts::all(), &["mutate Logical_Switch external_ids"]);
}

#[test]
fn a_reference_that_was_taken_out_comes_back() {
    let changes = Changes {
        router: Some(|router| {
            if router.name == "GR_cluster_udn_green_node1" {
                router.ports = FlatSet::default();
            }
        }),
        ..Changes::default()
    };
    check("cluster_udn_green", &changes, &Parts::all(), &["mutate Logical_Router ports"]);
}

#[test]
fn a_route_of_nobody_that_we_know_is_left_alone() {
    let changes = Changes {
        route: Some(|route| {
            // As `ovn-nbctl lr-route-add` writes one, on the default network's gateway router.
            if route.output_port.as_deref() == Some("rtoe-GR_node1") && route.ip_prefix == "169.254.0.0/17" {
                route.ip_prefix = "192.0.2.0/24".to_owned();
                route.external_ids.clear();
            }
        }),
        ..Changes::default()
    };
    // The masquerade route is missing now, and is added beside the foreign one.
    check(
        "default",
        &changes,
        &Parts::all(),
        &["insert Logical_Router_Static_Route", "mutate Logical_Router static_routes"],
    );
}

#[test]
fn a_part_that_cannot_be_planned_keeps_its_rows() {
    let mut run = Run::load("14-before");
    let have = altered(&run, &Changes::default());
    run.remotes[0].chassis = Err(super::super::node::Untold::Missing("k8s.ovn.org/node-chassis-id"));
    run.node.gateways = Err(super::super::node::Untold::Missing("k8s.ovn.org/l3-gateway-config"));
    for network in &run.networks {
        let plan = run.plan(network);
        // The way out, the host's addresses, the other node; where the node lets Services be reached.
        let many = if network.is_default() { 3 } else { 4 };
        assert_eq!(plan.problems.len(), many, "{:?}", plan.problems);
        let change = zone_of(&run).network_change(&network.name, &plan, &Parts::all(), &have).unwrap();
        assert_eq!(words(&change), [""; 0], "{}", network.name);
    }
}

#[test]
fn a_node_that_is_gone_takes_its_own_rows_with_it() {
    let mut run = Run::load("14-before");
    let have = altered(&run, &Changes::default());
    run.remotes.retain(|node| node.name.as_str() != "node3");
    for (network, want) in run.networks.iter().zip([
        &["mutate Logical_Router static_routes", "mutate Logical_Switch ports"][..],
        &["mutate Logical_Router static_routes", "mutate Logical_Switch ports"],
        &["mutate Logical_Router ports,static_routes"],
    ]) {
        let parts = Parts::Only([Part::Remote("node3".into())].into());
        for parts in [parts, Parts::all()] {
            let change = zone_of(&run).network_change(&network.name, &run.plan(network), &parts, &have);
            assert_eq!(words(&change.unwrap()), want, "{}", network.name);
        }
    }
}

#[test]
fn a_subnet_that_another_node_had_before_is_taken_over_with_its_route() {
    let mut run = Run::load("02-default-v4-3zones");
    let have = altered(&run, &Changes::default());
    // node2 has what node3 had; node3 is gone, but its part is not looked at yet.
    let told = run.remotes.iter().find(|node| node.name.as_str() == "node3").unwrap().subnets.clone();
    run.remotes.retain(|node| node.name.as_str() == "node2");
    run.remotes[0].subnets = told;
    let network = &run.networks[0];
    let parts = Parts::Only([Part::Remote("node2".into())].into());
    let change = zone_of(&run).network_change(&network.name, &run.plan(network), &parts, &have).unwrap();
    // The route of node2's former subnet goes, the one of node3's is node2's from now on.
    assert_eq!(
        words(&change),
        [
            "mutate Logical_Router static_routes",
            "mutate Logical_Router_Static_Route external_ids",
            "update Logical_Router_Static_Route nexthop",
        ]
    );
}

#[test]
fn a_network_that_is_gone_leaves_nothing_and_takes_nothing_of_others() {
    let run = Run::load("14-before");
    let have = altered(&run, &Changes::default());
    let zone = zone_of(&run);
    let names: Vec<String> = super::super::networks(&have).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["cluster_udn_blue", "cluster_udn_green"]);
    for (network, switches) in [("cluster_udn_blue", 4), ("cluster_udn_green", 2)] {
        let change = zone.removal(&network.into(), &have).unwrap();
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for word in words(&change) {
            *count.entry(word).or_default() += 1;
        }
        let want = [
            ("delete Load_Balancer_Group", 3),
            ("delete Logical_Router", 2),
            ("delete Logical_Switch", switches),
            ("delete Port_Group", 2),
            ("delete Static_MAC_Binding", 2),
        ];
        assert_eq!(count, want.map(|(word, count)| (word.to_owned(), count)).into(), "{network}");
        assert!(words(&zone.removal(&"cluster_udn_other".into(), &have).unwrap()).is_empty());
    }
}

#[test]
fn a_gateway_that_is_switched_off_goes_and_the_rest_stays() {
    let mut run = Run::load("03-cudn-l3-primary");
    let have = altered(&run, &Changes::default());
    let off = causeway_api::annotation::gateway::L3Gateway::disabled();
    run.node.gateways.as_mut().unwrap().value.insert("default".to_owned(), off);
    for network in &run.networks {
        let change = zone_of(&run).network_change(&network.name, &run.plan(network), &Parts::all(), &have);
        let words = words(&change.unwrap());
        let deleted: Vec<&String> = words.iter().filter(|word| word.starts_with("delete")).collect();
        let bindings = if network.is_default() { 1 } else { 2 };
        assert_eq!(deleted.len(), 2 + bindings, "{words:?}");
        assert!(words.contains(&"mutate Logical_Router policies,static_routes".to_owned()), "{words:?}");
        assert!(words.contains(&"mutate Logical_Switch ports".to_owned()), "{words:?}");
    }
}

#[test]
fn a_zone_without_limits_gets_them_with_its_first_network() {
    let run = Run::load("01-default-v4");
    let empty = northbound_tables().build();
    let change = zone_of(&run).network_change(
        &run.networks[0].name,
        &run.plan(&run.networks[0]),
        &Parts::all(),
        &empty,
    );
    let words = words(&change.unwrap());
    let count = |table: &str| words.iter().filter(|word| **word == format!("insert {table}")).count();
    assert_eq!((count("Copp"), count("Meter"), count("Meter_Band")), (1, 10, 2), "equal bands are one row");
    assert_eq!(count("Logical_Router"), 2);
}

#[test]
fn a_part_whose_router_or_switch_is_missing_is_refused_until_that_is_there() {
    let run = Run::load("03-cudn-l3-primary");
    let network = run.networks.last().unwrap();
    let plan = run.plan(network);
    let change = |parts: &[Part]| {
        let parts = Parts::Only(parts.iter().cloned().collect());
        zone_of(&run).network_change(&network.name, &plan, &parts, &northbound_tables().build())
    };
    for (part, missing) in [
        (Part::Transit, "no Logical_Router cluster_udn_blue_ovn_cluster_router"),
        (Part::Gateway, "no Logical_Router cluster_udn_blue_ovn_cluster_router"),
        (Part::Remote("node2".into()), "no Logical_Router cluster_udn_blue_ovn_cluster_router"),
    ] {
        assert_eq!(change(&[part]).unwrap_err().to_string(), missing);
    }
    assert!(change(&[Part::Network, Part::Transit]).is_ok());
    let text = change(&[Part::Network, Part::Remote("node2".into())]).unwrap_err().to_string();
    assert_eq!(text, "no Logical_Switch cluster_udn_blue_transit_switch");
}

#[test]
fn limits_without_a_name_go() {
    let run = Run::load("01-default-v4");
    let nameless = northbound_tables().row(Uuid::from_u128(7), Copp::default()).build();
    let words = words(&zone_of(&run).change(&nameless).unwrap());
    assert!(words.contains(&"delete Copp".to_owned()), "{words:?}");
}

fn northbound_tables() -> SnapshotBuilder {
    let builder = Snapshot::builder().table::<Global>().table::<Copp>().table::<Meter>().table::<MeterBand>();
    let builder = builder.table::<LoadBalancerGroup>().table::<LogicalSwitch>().table::<LogicalSwitchPort>();
    let builder = builder.table::<LogicalRouter>().table::<LogicalRouterPort>().table::<GatewayChassis>();
    let builder = builder.table::<StaticRoute>().table::<RouterPolicy>().table::<Nat>().table::<Acl>();
    builder.table::<PortGroup>().table::<StaticMacBinding>().table::<AddressSet>()
}
