//! The worked examples: two nodes, IPv4, shared gateways. Rows of pods and services are not the topology's.

use super::fixture::*;
use super::*;

fn switch_ports(rows: &Rows) -> BTreeMap<&str, String> {
    let text = |port: &super::super::rows::Child<LogicalSwitchPort>| {
        let addresses: Vec<&str> = port.row.addresses.iter().map(String::as_str).collect();
        let options: Vec<String> =
            port.row.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} on {}: {} {{{}}}", port.row.kind, port.parent, addresses.join(", "), options.join(" "))
    };
    rows.switch_ports.iter().map(|(name, port)| (name.as_str(), text(port))).collect()
}

fn options<'r>(rows: &'r Rows, router: &str) -> BTreeMap<&'r str, &'r str> {
    rows.routers[router].row.options.iter().collect()
}

#[test]
fn the_default_network_is_as_the_worked_example() {
    let cluster = cluster();
    let network = Network::default_network(&cluster);
    let rows = rows_of(&planned(&cluster, &network, &node(1), &[node(2)]));
    assert_eq!(
        routes(&rows),
        [
            "GR_node1: 0.0.0.0/0 via 172.18.0.1 out rtoe-GR_node1",
            "GR_node1: 10.244.0.0/16 via 100.64.0.1",
            "GR_node1: 169.254.0.0/17 via 169.254.0.4 out rtoe-GR_node1",
            "ovn_cluster_router: 10.244.0.0/24 src-ip via 100.64.0.2",
            "ovn_cluster_router: 10.244.1.0/24 via 100.88.0.3",
            "ovn_cluster_router: 100.64.0.2 via 100.64.0.2",
            "ovn_cluster_router: 100.64.0.3/32 via 100.88.0.3",
        ]
    );
    assert_eq!(nats(&rows), ["GR_node1: 10.244.0.0/16 -> 172.18.0.2", "GR_node1: 100.64.0.2 -> 172.18.0.2"]);
    assert_eq!(
        policies(&rows),
        [r#"inport == "rtos-node1" && ip4.dst == 172.18.0.2 /* node1 */ via 10.244.0.2"#]
    );
    assert_eq!(
        ports(&rows),
        [
            ("rtoe-GR_node1", "02:42:ac:12:00:02 172.18.0.2/16"),
            ("rtoj-GR_node1", "0a:58:64:40:00:02 100.64.0.2/16"),
            ("rtoj-ovn_cluster_router", "0a:58:64:40:00:01 100.64.0.1/16"),
            ("rtos-node1", "0a:58:0a:f4:00:01 10.244.0.1/24"),
            ("rtots-node1", "0a:58:64:58:00:02 100.88.0.2/16"),
        ]
        .map(|(name, port)| (name.to_owned(), port.to_owned()))
        .into()
    );
    let inside = switch_ports(&rows);
    for (name, want) in [
        ("breth0_node1", "localnet on ext_node1: unknown {network_name=physnet}"),
        (
            "etor-GR_node1",
            "router on ext_node1: 02:42:ac:12:00:02 {exclude-lb-vips-from-garp=true nat-addresses=router \
             router-port=rtoe-GR_node1}",
        ),
        (
            "stor-node1",
            "router on node1: router {arp_proxy=0a:58:a9:fe:01:01 169.254.1.1 fe80::1 10.244.0.0/16 \
             router-port=rtos-node1}",
        ),
        ("k8s-node1", " on node1: 0a:58:0a:f4:00:02 10.244.0.2 {}"),
        (
            "tstor-node2",
            "remote on transit_switch: 0a:58:64:58:00:03 100.88.0.3/16 {requested-chassis=c2 requested-tnl-key=3}",
        ),
    ] {
        assert_eq!(inside[name], want);
    }
    assert_eq!(rows.mac_bindings.len(), 1);
    assert_eq!(
        (rows.mac_bindings[0].ip.as_str(), rows.mac_bindings[0].mac.as_str()),
        ("169.254.0.4", "0a:58:a9:fe:00:04")
    );
    assert_eq!(rows.router_ports["rtos-node1"].chassis[0].name, "rtos-node1-c1");
    assert_eq!(options(&rows, "GR_node1")["snat-ct-zone"], "0");
}

#[test]
fn a_layer3_primary_network_is_as_the_worked_example() {
    let cluster = cluster();
    let rows = rows_of(&planned(&cluster, &layer3(&cluster), &node(1), &[node(2)]));
    let b = "cluster_udn_blue";
    assert_eq!(
        routes(&rows),
        [
            format!("GR_{b}_node1: 0.0.0.0/0 via 172.18.0.1 out rtoe-GR_{b}_node1"),
            format!("GR_{b}_node1: 10.200.0.0/16 via 100.65.0.1"),
            format!("GR_{b}_node1: 169.254.0.0/17 via 169.254.0.4 out rtoe-GR_{b}_node1"),
            format!("{b}_ovn_cluster_router: 10.200.0.0/24 src-ip via 100.65.0.2"),
            format!("{b}_ovn_cluster_router: 10.200.1.0/24 via 100.88.0.3"),
            format!("{b}_ovn_cluster_router: 100.65.0.2 via 100.65.0.2"),
            format!("{b}_ovn_cluster_router: 100.65.0.3/32 via 100.88.0.3"),
        ]
    );
    assert_eq!(
        nats(&rows),
        [
            format!("GR_{b}_node1: 10.200.0.0/16 -> 169.254.0.11"),
            format!("GR_{b}_node1: 100.65.0.2 -> 169.254.0.11"),
            format!(
                "{b}_ovn_cluster_router: 10.200.0.0/24 -> 169.254.0.12 at rtos-{b}_node1 if eth.dst == \
                 0a:58:0a:c8:00:02"
            ),
        ]
    );
    assert_eq!(
        policies(&rows),
        [
            format!(
                r#"inport == "rtos-{b}_node1" && ip4.dst == 169.254.0.11 /* {b}_node1 */ via 10.200.0.2"#
            ),
            format!(r#"inport == "rtos-{b}_node1" && ip4.dst == 172.18.0.2 /* {b}_node1 */ via 10.200.0.2"#),
        ]
    );
    let found = ports(&rows);
    assert_eq!(found[&format!("rtoe-GR_{b}_node1")], "02:42:ac:12:00:02 169.254.0.11/32 172.18.0.2/16");
    assert_eq!(found[&format!("{b}_rtots-node1")], "0a:58:64:58:00:02 100.88.0.2/16");
    let ids = &rows.routers[&format!("GR_{b}_node1")].row.external_ids;
    assert_eq!(ids.get("physical_ips").unwrap(), "172.18.0.2,169.254.0.11");
    assert!(!options(&rows, &format!("GR_{b}_node1")).contains_key("snat-ct-zone"));
    // One switch port, one route for its subnet and one for its join address: that is all of the other node.
    let other = &planned(&cluster, &layer3(&cluster), &node(1), &[node(2)]).parts[&remote(2)];
    assert_eq!((other.switch_ports.len(), other.routes.len()), (1, 2));
}

#[test]
fn a_layer2_primary_network_is_as_the_worked_example() {
    let cluster = cluster();
    let rows = rows_of(&planned(&cluster, &layer2(&cluster), &node(1), &[node(2)]));
    let b = "cluster_udn_blue";
    let switch = format!("{b}_ovn_layer2_switch");
    assert_eq!(
        routes(&rows),
        [
            format!("GR_{b}_node1: 0.0.0.0/0 via 172.18.0.1 out rtoe-GR_{b}_node1"),
            format!("GR_{b}_node1: 10.200.0.0/16 via 100.88.0.4 out rtotr-GR_{b}_node1"),
            format!("GR_{b}_node1: 169.254.0.0/17 via 169.254.0.4 out rtoe-GR_{b}_node1"),
            format!("{b}_transit_router: 10.200.0.0/16 src-ip via 100.88.0.5"),
            format!("{b}_transit_router: 100.65.0.2 via 100.88.0.5"),
            format!("{b}_transit_router: 100.65.0.3 via 100.88.0.7"),
        ]
    );
    assert_eq!(
        nats(&rows)[2],
        format!(
            "{b}_transit_router: 10.200.0.0/16 -> 169.254.0.12 at trtos-{switch} if eth.dst == 0a:58:0a:c8:00:02"
        )
    );
    assert_eq!(
        policies(&rows),
        [format!(r#"inport == "trtos-{switch}" && ip4.dst == 172.18.0.2 /* {switch} */ via 10.200.0.2"#)]
    );
    let found = ports(&rows);
    for (name, want) in [
        (format!("trtos-{switch}"), "0a:58:0a:c8:00:01 10.200.0.1/16"),
        (format!("trtor-GR_{b}_node1"), "0a:58:64:58:00:04 100.88.0.4/31"),
        (format!("rtotr-GR_{b}_node1"), "0a:58:64:41:00:02 100.65.0.2/16 100.88.0.5/31"),
        (format!("trtor-GR_{b}_node2"), "0a:58:64:58:00:06 100.88.0.6/31"),
    ] {
        assert_eq!(found[&name], want, "{name}");
    }
    let other = &rows.router_ports[&format!("trtor-GR_{b}_node2")].row;
    assert_eq!(other.peer, None);
    assert_eq!(other.options, pairs([("requested-tnl-key", "13"), ("requested-chassis", "c2")]));
    assert_eq!(options(&rows, &format!("GR_{b}_node1"))["lb_force_snat_ip"], "100.65.0.2");
    assert_eq!(options(&rows, &format!("{b}_transit_router")), [("requested-tnl-key", "16715779")].into());
}
