//! What is special: both families, values that are missing or wrong, settings that are off.

use causeway_net::network::id::NetworkId;

use super::super::network::NetworkError;
use super::fixture::*;
use super::*;

const PREFIX: &str = "cluster_udn_blue";

#[test]
fn both_families_have_routes_translations_and_rules_of_their_own() {
    let cluster = dual();
    let (one, two) = (node_of(&cluster, 1, &[]), node_of(&cluster, 2, &[]));
    let rows = rows_of(&planned(&cluster, &layer3(&cluster), &one, std::slice::from_ref(&two)));
    let routes = routes(&rows);
    for want in [
        "GR_cluster_udn_blue_node1: ::/0 via fc00::1 out rtoe-GR_cluster_udn_blue_node1",
        "GR_cluster_udn_blue_node1: fd20::/48 via fd99::1",
        "GR_cluster_udn_blue_node1: fd69::/112 via fd69::4 out rtoe-GR_cluster_udn_blue_node1",
        "cluster_udn_blue_ovn_cluster_router: fd20:0:0:1::/64 src-ip via fd99::2",
        "cluster_udn_blue_ovn_cluster_router: fd20:0:0:2::/64 via fd97::3",
        "cluster_udn_blue_ovn_cluster_router: fd99::2 via fd99::2",
        "cluster_udn_blue_ovn_cluster_router: fd99::3/128 via fd97::3",
        "GR_cluster_udn_blue_node1: 10.200.0.0/16 via 100.65.0.1",
    ] {
        assert!(routes.iter().any(|route| route == want), "{want}\n{routes:#?}");
    }
    let nats = nats(&rows);
    for want in [
        "GR_cluster_udn_blue_node1: fd99::2 -> fd69::b",
        "GR_cluster_udn_blue_node1: fd20::/48 -> fd69::b",
        "cluster_udn_blue_ovn_cluster_router: fd20:0:0:1::/64 -> fd69::c at rtos-cluster_udn_blue_node1 if eth.dst \
         == 0a:58:0a:c8:00:02",
    ] {
        assert!(nats.iter().any(|nat| nat == want), "{want}\n{nats:#?}");
    }
    assert_eq!(policies(&rows).len(), 4, "node and masquerade address of each family");
    let ids = &rows.routers["GR_cluster_udn_blue_node1"].row.external_ids;
    assert_eq!(ids.get("physical_ips").unwrap(), "172.18.0.2,fc00::2,169.254.0.11,fd69::b");
    let config = &rows.switches["cluster_udn_blue_node1"].row.other_config;
    assert_eq!(*config, pairs([("subnet", "10.200.0.0/24"), ("ipv6_prefix", "fd20:0:0:1::")]));
    let hairpin = rows
        .acls
        .iter()
        .find(|(_, acl)| acl.external_ids.get(super::super::mark::OWNER_TYPE).unwrap() == "NetpolDefault");
    assert_eq!(hairpin.unwrap().1.condition, "(ip4.src == 169.254.0.5 || ip6.src == fd69::5)");
}

#[test]
fn a_cluster_with_ipv6_alone_has_no_address_of_the_other_family() {
    let cluster = six();
    let (one, two) = (node_of(&cluster, 1, &[]), node_of(&cluster, 2, &[]));
    for network in [Network::default_network(&cluster), layer3(&cluster)] {
        let rows = rows_of(&planned(&cluster, &network, &one, std::slice::from_ref(&two)));
        let texts = routes(&rows)
            .into_iter()
            .chain(nats(&rows))
            .chain(policies(&rows))
            .chain(ports(&rows).into_values());
        for text in texts {
            assert!(!text.contains("10.") && !text.contains("100.") && !text.contains("0.0.0.0"), "{text}");
        }
        assert!(rows.mac_bindings.iter().all(|binding| binding.ip.starts_with("fd69::")));
    }
}

#[test]
fn with_an_ipv6_subnet_first_only_the_nodes_own_port_takes_its_mac_from_it() {
    let cluster = dual();
    let subnets = r#"{"default":["fd01:0:0:1::/64","10.244.0.0/24"]}"#;
    let node = node_of(&cluster, 1, &[("node-subnets", subnets)]);
    let rows = rows_of(&planned(&cluster, &Network::default_network(&cluster), &node, &[]));
    assert_eq!(rows.router_ports["rtos-node1"].row.mac, "0a:58:0a:f4:00:01");
    let mac = MacAddress::of_ip("fd01:0:0:1::2".parse().unwrap());
    let want = format!("{mac} fd01:0:0:1::2 10.244.0.2");
    assert_eq!(rows.switch_ports["k8s-node1"].row.addresses, [want].into());
}

#[test]
fn the_default_networks_own_port_has_the_mac_that_the_node_told() {
    let node =
        node_of(&cluster(), 1, &[("node-mgmt-port-mac-addresses", r#"{"default":"02:00:00:00:00:07"}"#)]);
    let of = |network: &Network| rows_of(&planned(&cluster(), network, &node, &[])).switch_ports;
    let default = of(&Network::default_network(&cluster()));
    assert_eq!(default["k8s-node1"].row.addresses, ["02:00:00:00:00:07 10.244.0.2".to_owned()].into());
    let blue = of(&layer3(&cluster()));
    assert_eq!(
        blue["k8s-cluster_udn_blue_node1"].row.addresses,
        ["0a:58:0a:c8:00:02 10.200.0.2".to_owned()].into()
    );
}

#[test]
fn a_network_with_one_family_in_a_cluster_of_both_forces_both_join_addresses_but_routes_only_its_own() {
    let cluster = dual();
    let (one, two) = (node_of(&cluster, 1, &[]), node_of(&cluster, 2, &[]));
    let rows = rows_of(&planned(&cluster, &layer2(&cluster), &one, std::slice::from_ref(&two)));
    let router = &rows.routers["GR_cluster_udn_blue_node1"].row;
    assert_eq!(router.options.get("lb_force_snat_ip").unwrap(), "100.65.0.2 fd99::2");
    let inner = &rows.router_ports["rtotr-GR_cluster_udn_blue_node1"].row.networks;
    assert_eq!(*inner, ["100.65.0.2/16", "100.88.0.5/31", "fd99::2/64"].map(str::to_owned).into());
    let transit = rows.routes.iter().filter(|route| route.parent == "cluster_udn_blue_transit_router");
    assert!(transit.clone().count() > 0);
    for route in transit {
        assert!(!route.row.ip_prefix.contains(':'), "{:?}", route.row);
    }
}

#[test]
fn an_ipv6_layer2_network_tells_its_hosts_about_the_router() {
    let cluster = dual();
    for (mtu, want) in [(r#","mtu":1300"#, Some("1300")), ("", None)] {
        let fields =
            format!(r#""topology":"layer2","role":"primary","subnets":"10.200.0.0/16,fd20::/64"{mtu}"#);
        let network = network(&cluster, PREFIX, &fields, 1, &[16_711_684, 16_715_779]).unwrap();
        let rows = rows_of(&planned(&cluster, &network, &node_of(&cluster, 1, &[]), &[]));
        let port = &rows.router_ports["trtos-cluster_udn_blue_ovn_layer2_switch"].row;
        let config = &port.ipv6_ra_configs;
        assert_eq!(config.get("mtu"), want);
        assert_eq!(config.get("address_mode").unwrap(), "dhcpv6_stateful");
        assert_eq!(port.networks, ["10.200.0.1/16", "fd20::1/64"].map(str::to_owned).into());
        let link = &rows.router_ports["trtor-GR_cluster_udn_blue_node1"].row;
        assert_eq!(link.networks, ["100.88.0.4/31", "fd97::4/127"].map(str::to_owned).into());
    }
}

#[test]
fn named_gateways_and_infrastructure_subnets_replace_the_first_addresses() {
    let fields = r#""topology":"layer2","role":"primary","subnets":"10.200.0.0/16","defaultGatewayIPs":"10.200.9.1","infrastructureSubnets":"10.200.9.0/30""#;
    let network = network(&cluster(), PREFIX, fields, 1, &[16_711_684, 16_715_779]).unwrap();
    let rows = rows_of(&planned(&cluster(), &network, &node(1), &[]));
    let port = &rows.router_ports["trtos-cluster_udn_blue_ovn_layer2_switch"].row;
    assert_eq!(
        (port.mac.as_str(), port.networks.first().unwrap().as_str()),
        ("0a:58:0a:c8:09:01", "10.200.9.1/16")
    );
    let own = &rows.switch_ports["k8s-cluster_udn_blue_node1"].row.addresses;
    assert_eq!(*own, ["0a:58:0a:c8:09:02 10.200.9.2".to_owned()].into());
}

#[test]
fn a_missing_node_id_stops_what_depends_on_it_and_nothing_else() {
    let one = node_of(&cluster(), 1, &[("node-id", "")]);
    let other = node_of(&cluster(), 2, &[("node-id", "")]);
    for network in [Network::default_network(&cluster()), layer3(&cluster()), layer2(&cluster())] {
        let plan = planned(&cluster(), &network, &one, &[other.clone(), node(3)]);
        for (part, name) in [(Part::Gateway, "node1"), (remote(2), "node2")] {
            let text = plan.problems[&part].to_string();
            assert!(text.starts_with(&format!("failed to get node id for node - {name}")), "{text}");
            assert!(!plan.problems[&part].is_quiet());
        }
        for part in [Part::Network, Part::Node, Part::HostAddresses, remote(3)] {
            assert!(plan.parts.contains_key(&part), "{part:?}: {:?}", plan.problems);
        }
    }
}

#[test]
fn what_another_node_has_not_told_yet_is_waited_for_and_what_it_told_wrongly_is_said() {
    let network = layer3(&cluster());
    for (key, missing, wrong) in [
        ("node-subnets", true, r#"{"cluster_udn_blue":["10.200.1.0/33"]}"#),
        ("node-transit-switch-port-ifaddr", true, r#"{"ipv4":"100.88.0.3/99"}"#),
        ("node-chassis-id", true, ""),
        ("node-id", false, "x"),
    ] {
        let problem = |value: &str| {
            let other = node_of(&cluster(), 2, &[(key, value)]);
            planned(&cluster(), &network, &node(1), &[other]).problems.remove(&remote(2)).unwrap()
        };
        assert_eq!(problem("").is_quiet(), missing, "{key}");
        if !wrong.is_empty() {
            assert!(!problem(wrong).is_quiet(), "{key}");
            assert!(problem(wrong).to_string().contains(key), "{}", problem(wrong));
        }
    }
    // Layer2: upstream reports success for a node without id.
    let other = node_of(&cluster(), 2, &[("node-chassis-id", "")]);
    let plan = planned(&cluster(), &layer2(&cluster()), &node(1), &[other]);
    assert!(plan.problems[&remote(2)].is_quiet());
}

#[test]
fn a_node_without_a_subnet_in_the_network_is_told_so() {
    let one = node_of(&cluster(), 1, &[("node-subnets", r#"{"default":["10.244.0.0/24"]}"#)]);
    let plan = planned(&cluster(), &layer3(&cluster()), &one, &[]);
    let text = plan.problems[&Part::Node].to_string();
    assert!(
        text.starts_with(
            r#"subnet annotation in the node "node1" for the layer3 UDN cluster_udn_blue is missing"#
        ),
        "{text}"
    );
    assert!(plan.parts.contains_key(&Part::Network) && plan.parts.contains_key(&Part::Transit));
}

#[test]
fn a_missing_gateway_annotation_stops_the_way_out_alone() {
    let one = node_of(&cluster(), 1, &[("l3-gateway-config", "")]);
    let plan = planned(&cluster(), &layer3(&cluster()), &one, &[node(2)]);
    let problems: Vec<&Part> = plan.problems.keys().collect();
    assert_eq!(problems, [&Part::Gateway, &Part::HostAddresses]);
    let text = plan.problems[&Part::Gateway].to_string();
    assert!(
        text.starts_with("failed to get node node1 network cluster_udn_blue L3 gateway config: "),
        "{text}"
    );
}

#[test]
fn a_disabled_gateway_has_no_rows_and_is_no_error() {
    let one = node_of(&cluster(), 1, &[("l3-gateway-config", r#"{"default":{"mode":""}}"#)]);
    for network in [Network::default_network(&cluster()), layer3(&cluster()), layer2(&cluster())] {
        let plan = planned(&cluster(), &network, &one, &[]);
        assert!(plan.problems.is_empty());
        assert!(plan.parts[&Part::Gateway].is_empty() && plan.parts[&Part::HostAddresses].is_empty());
    }
}

#[test]
fn addresses_of_the_host_that_are_none_stop_its_rules_and_nothing_else() {
    let default = Network::default_network(&cluster());
    let one = node_of(&cluster(), 1, &[("host-cidrs", r#"["172.18.0.2/16","<nil>","garbage"]"#)]);
    let plan = planned(&cluster(), &default, &one, &[]);
    assert_eq!(
        plan.problems[&Part::HostAddresses].to_string(),
        "invalid other host address(es): [<nil> garbage]"
    );
    assert!(plan.parts.contains_key(&Part::Gateway));
    // Networks of users lead to the node's first address only, so it does not concern them.
    assert!(planned(&cluster(), &layer3(&cluster()), &one, &[]).problems.is_empty());
}

#[test]
fn every_address_of_the_host_has_a_rule_in_the_default_network() {
    let default = Network::default_network(&cluster());
    let rules = |cidrs: &str| {
        let one = node_of(&cluster(), 1, &[("host-cidrs", cidrs)]);
        policies(&rows_of(&planned(&cluster(), &default, &one, &[]))).len()
    };
    assert_eq!(rules(r#"["172.18.0.2/16","192.0.2.7/24"]"#), 2);
    assert_eq!(rules(r#"["172.18.0.2/16"]"#), 1, "an address that went away has none");
    assert_eq!(rules(r#"["fc00::7/64"]"#), 1, "a family that the network has not leads nowhere");
}

#[test]
fn a_join_address_needs_an_address_outside_of_its_family() {
    let cluster = dual();
    let mut one = node_of(&cluster, 1, &[]);
    let gateways = &mut one.gateways.as_mut().unwrap().value;
    gateways.get_mut("default").unwrap().addresses.truncate(1);
    let plan = planned(&cluster, &Network::default_network(&cluster), &one, &[]);
    assert_eq!(
        plan.problems[&Part::Gateway].to_string(),
        "failed to find valid external IP family match for join subnet IP: fd98::2 on gateway router: GR_node1"
    );
    assert!(
        planned(&cluster, &layer3(&cluster), &one, &[]).problems.is_empty(),
        "others leave by masquerade addresses"
    );
}

#[test]
fn a_vlan_is_asked_for_unless_it_is_zero() {
    let with = |vlan: &str| {
        let text = annotations(1, &[])["k8s.ovn.org/l3-gateway-config"].replace(r#""vlan-id":"0""#, vlan);
        let one = node_of(&cluster(), 1, &[("l3-gateway-config", &text)]);
        let rows = rows_of(&planned(&cluster(), &layer3(&cluster()), &one, &[]));
        rows.switch_ports["breth0_cluster_udn_blue_node1"].row.tag_request
    };
    assert_eq!(with(r#""vlan-id":"0""#), None);
    assert_eq!(with(r#""vlan-id":"1500""#), Some(1500));
}

#[test]
fn services_reach_a_gateway_router_where_it_has_node_ports() {
    let with = |node_port: &str| {
        let text = annotations(1, &[])["k8s.ovn.org/l3-gateway-config"]
            .replace(r#""node-port-enable":"true","#, node_port);
        let one = node_of(&cluster(), 1, &[("l3-gateway-config", &text)]);
        rows_of(&planned(&cluster(), &Network::default_network(&cluster()), &one, &[])).routers["GR_node1"]
            .load_balancer_groups
            .len()
    };
    assert_eq!(with(r#""node-port-enable":"true","#), 2);
    assert_eq!(with(r#""node-port-enable":"false","#), 1);
}

#[test]
fn gateways_that_cannot_tell_large_packets_have_no_limit() {
    let mtu = |support: &str| {
        let one = node_of(&cluster(), 1, &[("gateway-mtu-support", support)]);
        let rows = rows_of(&planned(&cluster(), &layer3(&cluster()), &one, &[]));
        rows.router_ports["rtoj-GR_cluster_udn_blue_node1"].row.options.get("gateway_mtu").map(str::to_owned)
    };
    assert_eq!(mtu("false"), None);
    for on in ["", "true", "no"] {
        assert_eq!(mtu(on).as_deref(), Some("1400"), "{on:?}");
    }
}

#[test]
fn of_several_next_hops_of_one_family_the_last_one_stays() {
    let text = annotations(1, &[])["k8s.ovn.org/l3-gateway-config"]
        .replace(r#""172.18.0.1""#, r#""172.18.0.1","172.18.0.9""#);
    let one = node_of(&cluster(), 1, &[("l3-gateway-config", &text)]);
    let rows = rows_of(&planned(&cluster(), &Network::default_network(&cluster()), &one, &[]));
    let out: Vec<String> = routes(&rows).into_iter().filter(|route| route.contains("0.0.0.0/0")).collect();
    assert_eq!(out, ["GR_node1: 0.0.0.0/0 via 172.18.0.9 out rtoe-GR_node1"]);
}

#[test]
fn a_second_gateway_has_a_switch_of_its_own() {
    let second = r#""exgw-interface-id":"breth1_node1","exgw-mac-address":"02:42:ac:13:00:02","exgw-ip-addresses":["172.19.0.2/16"],"next-hops""#;
    let text = annotations(1, &[])["k8s.ovn.org/l3-gateway-config"].replace(r#""next-hops""#, second);
    let one = node_of(&cluster(), 1, &[("l3-gateway-config", &text)]);
    let rows = rows_of(&planned(&cluster(), &Network::default_network(&cluster()), &one, &[]));
    assert!(rows.switches.contains_key("exgw-ext_node1"));
    assert_eq!(rows.switch_ports["breth1_node1"].row.options, pairs([("network_name", "exgwphysnet")]));
    assert_eq!(ports(&rows)["exgw-rtoe-GR_node1"], "02:42:ac:13:00:02 172.19.0.2/16");
    assert_eq!(rows.switch_ports["exgw-etor-GR_node1"].parent, "exgw-ext_node1");
    // Networks of users do not have it.
    let blue = rows_of(&planned(&cluster(), &layer3(&cluster()), &one, &[]));
    assert_eq!(blue.switches.keys().filter(|name| name.starts_with("exgw-")).count(), 0);
}

#[test]
fn multicast_adds_queriers_relays_and_rules() {
    let on = Cluster { multicast: true, ..dual() };
    let one = node_of(&on, 1, &[]);
    let rows = rows_of(&planned(&on, &layer3(&on), &one, &[]));
    let config = &rows.switches["cluster_udn_blue_node1"].row.other_config;
    for (key, want) in [
        ("mcast_snoop", "true"),
        ("mcast_querier", "true"),
        ("mcast_eth_src", "0a:58:0a:c8:00:01"),
        ("mcast_ip4_src", "10.200.0.1"),
        ("mcast_ip6_src", "fe80::858:aff:fec8:1"),
    ] {
        assert_eq!(config.get(key).unwrap(), want, "{key}");
    }
    assert_eq!(
        rows.routers["cluster_udn_blue_ovn_cluster_router"].row.options.get("mcast_relay").unwrap(),
        "true"
    );
    let mut rules: Vec<String> = rows
        .acls
        .iter()
        .filter(|(_, acl)| {
            acl.external_ids.get(super::super::mark::OWNER_TYPE).unwrap() == "MulticastCluster"
        })
        .map(|(_, acl)| format!("{} {} {} {}", acl.priority, acl.direction, acl.action, acl.condition))
        .collect();
    rules.sort();
    let group = "(ip4.mcast || mldv1 || mldv2 || (ip6.dst[120..127] == 0xff && ip6.dst[116] == 1))";
    assert_eq!(
        rules,
        [
            format!("1011 from-lport drop {group}"),
            format!("1011 to-lport drop {group}"),
            format!("1012 from-lport allow inport == @a9224163729325589984 && {group}"),
            format!("1012 to-lport allow outport == @a9224163729325589984 && {group}"),
        ]
    );
    let routers = &rows.members["a9224163729325589984"];
    assert_eq!(*routers, ["stor-cluster_udn_blue_node1".to_owned()].into());
    let off = rows_of(&planned(&dual(), &layer3(&dual()), &one, &[]));
    assert!(!off.members.contains_key("a9224163729325589984"));
    assert!(off.acls.len() < rows.acls.len());
}

#[test]
fn masquerade_ranges_that_end_too_early_are_refused_at_once_and_stop_only_the_way_out() {
    let small = Cluster { masquerade: nets(&["169.254.169.0/29", "fd69::/125"]), ..cluster() };
    assert!(small.check().is_err() && cluster().check().is_ok());
    let plan = planned(&small, &layer3(&small), &node(1), &[node(2)]);
    assert!(plan.problems[&Part::Gateway].to_string().contains("out of range"), "{:?}", plan.problems);
    assert!(plan.parts.contains_key(&Part::Network) && plan.parts.contains_key(&remote(2)));
    let default = planned(&small, &Network::default_network(&small), &node(1), &[]);
    assert!(default.problems.is_empty());
}

#[test]
fn a_users_network_needs_an_id_and_a_layer2_primary_one_two_tunnel_keys() {
    let of = |id, keys: &[u32]| network(&cluster(), PREFIX, LAYER2, id, keys);
    assert!(matches!(of(0, &[]), Err(NetworkError::NoId(_))));
    for keys in [&[16_711_684][..], &[16_711_684, 16_715_779, 16_715_780], &[]] {
        let text = of(1, keys).unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "layer2 network cluster_udn_blue with transit router enabled requires exactly 2 tunnel keys, got: {keys:?}"
            )
        );
    }
    assert!(matches!(of(2, &[16_711_684, 16_715_779]), Err(NetworkError::ForeignKeys { .. })));
    assert_eq!(NetworkId::DEFAULT, Network::default_network(&cluster()).id);
}

#[test]
fn of_networks_with_the_same_names_in_ovn_the_lowest_id_stays() {
    let of = |name, id| network(&cluster(), name, r#""topology":"layer2""#, id, &[]).unwrap();
    for networks in
        [vec![of("a-b", 2), of("a.b", 1), of("c", 3)], vec![of("c", 3), of("a.b", 1), of("a-b", 2)]]
    {
        let (admitted, refused) = super::super::network::admitted(networks);
        let mut names: Vec<&str> = admitted.iter().map(|network| network.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a.b", "c"]);
        let texts: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["network a-b has the same names in OVN as network a.b: rename one of them"]);
    }
}

#[test]
fn a_transport_without_rows_is_refused_by_name() {
    for (transport, want) in [("no-overlay", "transport no-overlay"), ("evpn", "transport evpn")] {
        let fields = LAYER3.replace(",fd20::/48/64", "");
        let text = network(&cluster(), PREFIX, &format!(r#"{fields},"transport":"{transport}""#), 1, &[]);
        let text = text.unwrap_err().to_string();
        assert!(text.contains(want), "{text}");
    }
}

#[test]
fn the_published_layer3_vectors_hold() {
    let cluster = Cluster {
        subnets: nets(&["10.128.0.0/14"]),
        masquerade: nets(&["169.254.169.0/24", "fd69::/112"]),
        ..cluster()
    };
    let told: BTreeMap<String, String> = [
        ("node-id", "4"),
        ("node-chassis-id", "abc"),
        ("node-subnets", r#"{"isolatednet":["192.168.1.0/24"]}"#),
        ("node-transit-switch-port-ifaddr", r#"{"ipv4":"100.88.0.3/16"}"#),
        (
            "l3-gateway-config",
            r#"{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_test-node",
                "mac-address":"11:22:33:44:55:66","ip-addresses":["192.168.126.202/24"],"next-hops":["192.168.126.1"]}}"#,
        ),
    ]
    .map(|(key, value)| (format!("k8s.ovn.org/{key}"), value.to_owned()))
    .into();
    let node = ZoneNode::of("test-node", &told);
    let fields = r#""topology":"layer3","role":"primary","subnets":"192.168.0.0/16/24""#;
    let network = network(&cluster, "isolatednet", fields, 2, &[]).unwrap();
    let rows = rows_of(&planned(&cluster, &network, &node, &[]));
    let found = ports(&rows);
    for (port, want) in [
        ("rtoj-GR_isolatednet_test-node", "0a:58:64:41:00:04 100.65.0.4/16"),
        ("rtos-isolatednet_test-node", "0a:58:c0:a8:01:01 192.168.1.1/24"),
        ("isolatednet_rtots-test-node", "0a:58:64:58:00:03 100.88.0.3/16"),
        ("rtoe-GR_isolatednet_test-node", "11:22:33:44:55:66 169.254.169.13/32 192.168.126.202/24"),
    ] {
        assert_eq!(found[port], want, "{port}");
    }
    assert_eq!(
        rows.switches["isolatednet_transit_switch"].row.other_config.get("requested-tnl-key").unwrap(),
        "16711685"
    );
    assert_eq!(
        rows.switch_ports["isolatednet_tstor-test-node"].row.options.get("requested-tnl-key").unwrap(),
        "4"
    );
    let neighbours: Vec<&str> = rows.mac_bindings.iter().map(|binding| binding.ip.as_str()).collect();
    assert_eq!(neighbours, ["169.254.169.4", "169.254.169.2"]);
    let out: Vec<String> = routes(&rows).into_iter().filter(|route| route.starts_with("GR_")).collect();
    assert_eq!(
        out,
        [
            "GR_isolatednet_test-node: 0.0.0.0/0 via 192.168.126.1 out rtoe-GR_isolatednet_test-node",
            "GR_isolatednet_test-node: 169.254.169.0/24 via 169.254.169.4 out rtoe-GR_isolatednet_test-node",
            "GR_isolatednet_test-node: 192.168.0.0/16 via 100.65.0.1",
        ]
    );
}

#[test]
fn the_published_layer2_vectors_hold() {
    let fields = r#""topology":"layer2","role":"primary","subnets":"100.200.0.0/16""#;
    let network = network(&cluster(), "isolatednet", fields, 2, &[16_711_685, 16_715_780]).unwrap();
    let node = node_of(&cluster(), 3, &[]);
    let stale = node_of(&cluster(), 4, &[]);
    let rows = rows_of(&planned(&cluster(), &network, &node, &[stale]));
    assert_eq!(
        rows.routers["isolatednet_transit_router"].row.options.get("requested-tnl-key").unwrap(),
        "16715780"
    );
    let switch = &rows.switches["isolatednet_ovn_layer2_switch"].row;
    assert_eq!(switch.other_config.get("requested-tnl-key").unwrap(), "16711685");
    assert_eq!(rows.router_ports["trtos-isolatednet_ovn_layer2_switch"].row.mac, "0a:58:64:c8:00:01");
    let key = |port: &str| rows.router_ports[port].row.options.get("requested-tnl-key").unwrap();
    assert_eq!((key("trtor-GR_isolatednet_node3"), key("trtor-GR_isolatednet_node4")), ("14", "15"));
    assert!(routes(&rows).contains(&"isolatednet_transit_router: 100.65.0.5 via 100.88.0.11".to_owned()));
}

#[test]
fn the_published_route_vectors_of_another_zone_hold() {
    let told = [
        ("node-id", "5"),
        ("node-subnets", r#"{"default":["10.244.5.0/24"]}"#),
        ("node-transit-switch-port-ifaddr", r#"{"ipv4":"100.88.0.5/16"}"#),
    ];
    let other = node_of(&cluster(), 4, &told);
    let plan = planned(&cluster(), &Network::default_network(&cluster()), &node(1), &[other]);
    assert_eq!(
        routes(&plan.parts[&remote(4)]),
        [
            "ovn_cluster_router: 10.244.5.0/24 via 100.88.0.5",
            "ovn_cluster_router: 100.64.0.5/32 via 100.88.0.5"
        ]
    );
}

#[test]
fn a_localnet_leads_into_the_network_of_the_underlay_that_it_names() {
    for (fields, want, vlan) in [
        (r#""physicalNetworkName":"phys1","vlanID":100"#, "phys1", Some(100)),
        (r#""vlanID":0"#, "cluster_udn_blue", None),
    ] {
        let fields = format!(r#""topology":"localnet","subnets":"10.212.0.0/24",{fields}"#);
        let network = network(&cluster(), PREFIX, &fields, 3, &[]).unwrap();
        let rows = rows_of(&planned(&cluster(), &network, &node(1), &[node(2)]));
        let port = &rows.switch_ports["cluster_udn_blue_ovn_localnet_port"].row;
        assert_eq!((port.options.get("network_name").unwrap(), port.tag_request), (want, vlan));
        assert!(rows.load_balancer_groups.is_empty() && rows.routers.is_empty());
    }
}

#[test]
fn secondary_networks_without_addresses_have_a_switch_without_a_subnet() {
    for (topology, switch) in [("layer2", "ovn_layer2_switch"), ("localnet", "ovn_localnet_switch")] {
        let network = network(&cluster(), PREFIX, &format!(r#""topology":"{topology}""#), 3, &[]).unwrap();
        let rows = rows_of(&planned(&cluster(), &network, &node(1), &[]));
        let config = &rows.switches[&format!("cluster_udn_blue_{switch}")].row.other_config;
        assert!(!config.contains_key("subnet"), "{topology}");
    }
}

#[test]
fn a_network_that_another_node_does_not_use_has_no_row_of_it() {
    let all = planned(&cluster(), &layer3(&cluster()), &node(1), &[node(2), node(3)]);
    let some = planned(&cluster(), &layer3(&cluster()), &node(1), &[node(3)]);
    assert!(all.parts.contains_key(&remote(2)) && !some.parts.contains_key(&remote(2)));
    assert_eq!(all.parts[&remote(3)], some.parts[&remote(3)]);
    assert_eq!(all.parts[&Part::Node], some.parts[&Part::Node]);
}

#[test]
fn tunnels_on_another_port_say_so_in_the_chassis() {
    let with = |port| {
        let cluster = Cluster { geneve_port: port, ..cluster() };
        remote_chassis(&cluster, &node(2)).unwrap().options
    };
    assert_eq!(with(Some(6082)), pairs([("csum", "true"), ("dst_port", "6082")]));
    for usual in [None, Some(6081)] {
        assert_eq!(with(usual), pairs([("csum", "true")]));
    }
    let untold = node_of(&cluster(), 2, &[("node-chassis-id", "")]);
    assert!(remote_chassis(&cluster(), &untold).unwrap_err().is_quiet());
}
