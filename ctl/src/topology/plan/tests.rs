use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::output::Shown as _;
use crate::topology::fixture::{captured, database};
use crate::topology::model::Port;

/// Compares with a file of `goldens`; `CAUSEWAY_BLESS=1` writes it.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = format!("{}/src/topology/goldens/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("CAUSEWAY_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap();
    assert!(want == text, "{name} has become:\n{text}");
}

fn text(database: &Database, network: Option<&str>, wide: bool) -> String {
    let mut drawn = draw(database, network).unwrap();
    drawn.wide = wide;
    drawn.text(Timestamp::UNIX_EPOCH)
}

#[test]
fn captured_databases_are_drawn_as_text() {
    for (run, network, wide, name) in [
        ("02-default-v4-3zones", None, false, "default.txt"),
        ("14-before", None, false, "two-primaries.txt"),
        ("14-before", Some("cluster_udn_blue"), true, "layer3-wide.txt"),
        ("14-before", Some("cluster_udn_green"), true, "layer2-wide.txt"),
        ("06-secondary", None, false, "secondaries.txt"),
    ] {
        golden(name, &text(&captured(run), network, wide));
    }
}

#[test]
fn every_switch_and_router_of_a_captured_database_is_in_exactly_one_network() {
    for run in [
        "01-default-v4",
        "02-default-v4-3zones",
        "03-cudn-l3-primary",
        "04-cudn-l2-primary",
        "06-secondary",
        "14-before",
        "14-after-delete",
        "17-remote-node-deleted",
    ] {
        let database = captured(run);
        let drawn = draw(&database, None).unwrap();
        let mut names: Vec<String> = drawn
            .networks
            .iter()
            .flat_map(|network| &network.devices)
            .map(|device| device.name.clone())
            .collect();
        names.sort();
        let rows = database.rows("Logical_Switch").chain(database.rows("Logical_Router"));
        let mut want: Vec<String> = rows.map(|row| row.text("name")).collect();
        want.sort();
        assert_eq!(names, want, "{run}");
        assert!(drawn.networks.iter().all(|network| network.name.is_some()), "{run}");
        assert_eq!((drawn.problems, drawn.notes), (vec![], vec![]), "{run}");
    }
}

#[test]
fn a_network_is_found_by_its_own_name_and_by_that_of_its_object() {
    let mut rows = json!({"NB_Global": [{"name": "node1"}], "Logical_Switch": []});
    for (at, name) in ["cluster_udn_blue", "ns_red", "tenant-x", "blue"].into_iter().enumerate() {
        let ids = json!({"k8s.ovn.org/network": name});
        let row = json!({"_uuid": at.to_string(), "name": format!("{name}_ovn_layer2_switch"), "external_ids": ids});
        rows["Logical_Switch"].as_array_mut().unwrap().push(row);
    }
    let database = database(&rows);
    for (wanted, found) in [
        ("cluster_udn_blue", "cluster_udn_blue"),
        ("ns/red", "ns_red"),
        ("ns_red", "ns_red"),
        ("tenant-x", "tenant-x"),
        // Its own name comes before that of an object.
        ("blue", "blue"),
    ] {
        let drawn = draw(&database, Some(wanted)).unwrap();
        let names: Vec<_> = drawn.networks.iter().map(|network| network.name.as_deref()).collect();
        assert_eq!(names, [Some(found)], "{wanted}");
    }
    let unknown = draw(&captured("14-before"), Some("pink")).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no network pink in this database; there are: default, cluster_udn_blue, cluster_udn_green"
    );
    assert_eq!(draw(&captured("14-before"), Some("blue")).unwrap().networks.len(), 1);
}

/// A switch `s` with one port, beside a router `r` with a port `rp`.
fn one_port(port: &Value) -> Port {
    let mut port = port.clone();
    port["_uuid"] = "p".into();
    let database = database(&json!({
        "NB_Global": [{"name": "node1"}],
        "Logical_Switch": [{"_uuid": "s", "name": "node1", "ports": ["p"]}],
        "Logical_Switch_Port": [port],
        "Logical_Router": [{"_uuid": "r", "name": "ovn_cluster_router", "ports": ["rp"]}],
        "Logical_Router_Port": [{"_uuid": "rp", "name": "rp", "mac": "0a:00:00:00:00:01", "networks": ["10.0.0.1/24"]}],
    }));
    let drawn = draw(&database, None).unwrap();
    let devices = drawn.networks.into_iter().flat_map(|network| network.devices);
    devices.filter(|device| device.name == "node1").flat_map(|device| device.ports).next().unwrap()
}

#[test]
fn each_type_of_a_switch_port_has_its_other_end() {
    let to = |device: &str, port: &str| End::Port { device: device.to_owned(), port: port.to_owned() };
    let physical = |vlan| End::Physical { network: "physnet".to_owned(), vlan };
    for (port, want) in [
        (json!({"type": "router", "options": {"router-port": "rp"}}), to("ovn_cluster_router", "rp")),
        (json!({"type": "router", "peer": "rp"}), to("ovn_cluster_router", "rp")),
        (
            json!({"type": "router", "options": {"router-port": "gone"}}),
            End::Missing { port: "gone".to_owned() },
        ),
        (json!({"type": "router"}), End::Nothing),
        (json!({"type": "localnet", "options": {"network_name": "physnet"}}), physical(None)),
        (
            json!({"type": "localnet", "options": {"network_name": "physnet"}, "tag_request": 7}),
            physical(Some(7)),
        ),
        (
            json!({"type": "localnet", "options": {"network_name": "physnet"}, "tag_request": 0}),
            physical(None),
        ),
        (
            json!({"type": "remote", "external_ids": {"node": "node2"}}),
            End::Node { node: "node2".to_owned() },
        ),
        (
            json!({"type": "remote", "options": {"requested-chassis": "c2"}}),
            End::Node { node: "c2".to_owned() },
        ),
        (json!({"type": "vtep"}), End::Other { kind: "vtep".to_owned() }),
        (json!({"name": "k8s-node1", "type": ""}), End::Host),
    ] {
        let mut named = port.clone();
        if named.get("name").is_none() {
            named["name"] = "p".into();
        }
        assert_eq!(one_port(&named).end, want, "{port}");
    }
}

#[test]
fn addresses_of_a_switch_port_are_told_from_the_words_beside_them() {
    for (addresses, mac, want) in [
        (
            json!(["0a:58:0a:c8:00:02 10.200.0.2 fd20::2"]),
            Some("0a:58:0a:c8:00:02"),
            &["10.200.0.2", "fd20::2"][..],
        ),
        (json!(["router"]), None, &[]),
        (json!(["unknown"]), None, &[]),
        (json!(["02:42:ac:1e:00:02"]), Some("02:42:ac:1e:00:02"), &[]),
        // Six groups and no MAC address.
        (json!(["0a:58:0a:c8:00:02 fd:20:30:40:50::"]), Some("0a:58:0a:c8:00:02"), &["fd:20:30:40:50::"]),
    ] {
        let port = json!({"name": "p", "type": "remote", "addresses": addresses});
        let found = one_port(&port);
        assert_eq!(found.mac.as_deref(), mac, "{addresses}");
        assert_eq!(found.addresses, want, "{addresses}");
    }
}

#[test]
fn ports_of_pods_are_counted_here_and_elsewhere() {
    let database = database(&json!({
        "NB_Global": [{"name": "node1"}],
        "Logical_Switch": [{"_uuid": "s", "name": "blue_ovn_layer2_switch", "ports": ["1", "2", "3", "4"],
            "external_ids": {"k8s.ovn.org/network": "blue", "k8s.ovn.org/topology": "layer2", "k8s.ovn.org/role": "secondary"}}],
        "Logical_Switch_Port": [
            {"_uuid": "1", "name": "blue_ns_one"}, {"_uuid": "2", "name": "blue_ns_two"},
            {"_uuid": "3", "name": "blue_ns_three", "type": "remote", "external_ids": {"pod": "true"}},
            {"_uuid": "4", "name": "k8s-blue_node1", "addresses": ["0a:58:0a:c8:00:02 10.200.0.2"]},
        ],
    }));
    expect_test::expect![[r"
        Zone node1 (schema 7.11.0): 1 network, 0 routers, 1 switch, 2 pods

        Network blue (layer2, secondary)
          switch blue_ovn_layer2_switch
            k8s-blue_node1  0a:58:0a:c8:00:02  10.200.0.2  -> this node
            2 pods
            1 pod of other nodes
    "]]
    .assert_eq(&text(&database, None, false));
}

#[test]
fn what_leads_nowhere_is_a_problem_of_its_own_network_alone() {
    let network = |name: &str| json!({"k8s.ovn.org/network": name});
    let database = database(&json!({
        "NB_Global": [{"name": "node1"}],
        "Logical_Switch": [
            {"_uuid": "s1", "name": "blue_join", "ports": ["p1", "p3"], "external_ids": network("blue")},
            {"_uuid": "s2", "name": "red_join", "ports": ["p2"], "external_ids": network("red")},
        ],
        "Logical_Switch_Port": [
            {"_uuid": "p1", "name": "blue_p", "type": "router", "options": {"router-port": "blue_rp"}},
            {"_uuid": "p3", "name": "blue_q", "type": "router", "options": {"router-port": "blue_rp"}},
            {"_uuid": "p2", "name": "red_p", "type": "router", "options": {"router-port": "red_rp"}},
        ],
        "Logical_Router": [{"_uuid": "r", "name": "GR_blue_node1", "ports": ["rp", "rq"], "external_ids": network("blue")}],
        "Logical_Router_Port": [{"_uuid": "rp", "name": "blue_rp"}, {"_uuid": "rq", "name": "rq", "peer": "no_peer"}],
    }));
    let problems = |network| {
        let drawn = draw(&database, network).unwrap();
        drawn.problems.into_iter().map(|problem| problem.found).collect::<Vec<_>>()
    };
    let blue = [
        "ports blue_p, blue_q lead to the one port blue_rp",
        "port rq of GR_blue_node1 leads to no_peer, which is not there",
    ];
    let red = "port red_p of red_join leads to red_rp, which is not there";
    assert_eq!(problems(Some("blue")), blue);
    assert_eq!(problems(Some("red")), [red]);
    assert_eq!(problems(None), [blue[0], blue[1], red]);
    let text = text(&database, Some("red"), false);
    assert!(text.contains("    red_p  -> red_rp, NOT THERE\n") && text.contains("\n  do: "), "{text}");
}

#[test]
fn policies_are_listed_from_the_one_that_decides_first() {
    let database = database(&json!({
        "NB_Global": [{"name": "node1"}],
        "Logical_Router": [{"_uuid": "r", "name": "ovn_cluster_router", "policies": ["1", "2", "3"]}],
        "Logical_Router_Policy": [
            {"_uuid": "1", "priority": 7, "match": "ip4", "action": "allow"},
            {"_uuid": "2", "priority": 1004, "match": "ip6", "action": "reroute", "nexthops": ["fd00::2", "fd00::3"], "output_port": "rtos-node1"},
            {"_uuid": "3", "priority": 1004, "match": "ip4", "action": "reroute", "nexthop": "10.0.0.2"},
        ],
    }));
    expect_test::expect![[r"
        Zone node1 (schema 7.11.0): 1 network, 1 router, 0 switches, 0 pods

        Network default
          router ovn_cluster_router
            policy  1004  reroute to 10.0.0.2                             if ip4
            policy  1004  reroute to fd00::2, fd00::3 through rtos-node1  if ip6
            policy  7     allow                                           if ip4
    "]]
    .assert_eq(&text(&database, None, true));
}

#[test]
fn rows_of_nobody_come_last_and_are_not_hidden() {
    let rows = |zone: &Value| {
        database(&json!({
            "NB_Global": [zone],
            "Logical_Switch": [
                {"_uuid": "1", "name": "aaa", "other_config": {"subnet": "192.0.2.0/24"}},
                {"_uuid": "2", "name": "node1"}, {"_uuid": "3", "name": "join"}],
            "Logical_Router": [{"_uuid": "4", "name": "ovn_cluster_router"}],
        }))
    };
    let drawn = draw(&rows(&json!({"name": "node1"})), None).unwrap();
    let devices =
        |network: &Network| network.devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>();
    let networks: Vec<_> =
        drawn.networks.iter().map(|network| (network.name.as_deref(), devices(network))).collect();
    let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        networks,
        [(Some("default"), own(&["join", "node1", "ovn_cluster_router"])), (None, own(&["aaa"]))]
    );
    // Without the zone's name its own switch cannot be told, and that is said.
    let drawn = draw(&rows(&json!({})), None).unwrap();
    assert_eq!(drawn.networks.last().map(devices), Some(own(&["aaa", "node1"])));
    assert_eq!(drawn.notes.len(), 1);
}

#[test]
fn an_empty_database_is_drawn_as_one() {
    let drawn = text(&database(&json!({"NB_Global": [{"name": "node1"}]})), None, false);
    assert_eq!(drawn, "Zone node1 (schema 7.11.0): 0 networks, 0 routers, 0 switches, 0 pods\n");
}

#[test]
fn a_column_that_the_schema_lacks_is_told_unless_newer_versions_alone_have_it() {
    let mut database = captured("14-before");
    for missing in ["NAT:match", "Logical_Switch_Port:peer", "Static_MAC_Binding"] {
        database.missing.insert(missing.to_owned());
    }
    assert_eq!(
        draw(&database, None).unwrap().notes,
        [
            "this database has no NAT:match (schema 7.11.0): it is not drawn",
            "this database has no Static_MAC_Binding (schema 7.11.0): it is not drawn",
        ]
    );
}
