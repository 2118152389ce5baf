use super::fixture::{Flavour, Interfaces, Machine, netdev, route, texts};
use super::*;

/// The captured runs that have a node of their own.
const RUNS: [&str; 8] = [
    "01-default-v4",
    "01b-default-v4-segmentation-flags",
    "02-default-v4-3zones",
    "03-cudn-l3-primary",
    "04-cudn-l2-primary",
    "06-secondary",
    "14-after-restart",
    "17-remote-node-deleted",
];

#[test]
fn annotations_equal_byte_for_byte_what_upstream_wrote_on_the_captured_nodes() {
    let facts = Machine::captured().facts();
    assert!(facts.problems.is_empty() && facts.waiting.is_empty(), "{facts:?}");
    // Where nothing is wrong with the size of packets, upstream writes nothing.
    assert_eq!(facts.annotations.get(keys::GATEWAY_MTU_SUPPORT), Some(&None));
    for run in RUNS {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/topology");
        let text = std::fs::read_to_string(format!("{folder}/{run}/nodes.json")).unwrap();
        let nodes: serde_json::Value = serde_json::from_str(&text).unwrap();
        let have = nodes[0]["metadata"]["annotations"].as_object().unwrap();
        for key in [
            L3_GATEWAY_CONFIG,
            NODE_CHASSIS_ID,
            keys::ENCAP_IPS,
            keys::PRIMARY_ADDRESSES,
            keys::LAYER2_TOPOLOGY_VERSION,
        ] {
            let ours = facts.annotations[key].as_deref();
            assert_eq!(ours, have[key].as_str(), "{run}: {key}");
        }
        assert!(!have.contains_key(keys::GATEWAY_MTU_SUPPORT), "{run}");
        assert_eq!(facts.annotations.len(), 6, "{facts:?}");
    }
}

#[test]
fn the_gateway_tells_both_families_its_vlan_and_what_it_serves() {
    let mut node = Machine::captured();
    node.options.families.ipv6 = true;
    node.options.gateway.next_hops = Some("172.30.0.1, fc00::1".into());
    node.options.gateway.vlan = 3000;
    node.options.gateway.node_ports = false;
    let addresses = vec!["172.30.0.2/24".to_owned(), "fc00::2/64".to_owned()];
    node.interfaces = Some(Interfaces([("br-ex".into(), ("02:42:ac:1e:00:02".into(), addresses))].into()));
    assert_eq!(
        node.gateway(),
        r#"{"default":{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_node1","mac-address":"02:42:ac:1e:00:02","ip-addresses":["172.30.0.2/24","fc00::2/64"],"next-hops":["172.30.0.1","fc00::1"],"node-port-enable":"false","vlan-id":"3000"}}"#
    );
    assert_eq!(node.told(keys::PRIMARY_ADDRESSES), r#"{"ipv4":"172.30.0.2/24","ipv6":"fc00::2/64"}"#);
}

#[test]
fn a_second_gateway_is_told_beside_the_first_and_one_that_cannot_be_told_holds_both_back() {
    let mut node = Machine::captured();
    node.options.gateway.external_interface = Some("eth2".into());
    assert!(node.gateway().starts_with("NoGatewayBridge: gateway interface eth2"), "{}", node.gateway());
    node.bridges.push(("breth2".into(), vec!["breth2:internal".into(), "eth2:system".into()]));
    node.macs.insert("breth2".into(), "02:00:00:00:00:22".into());
    let interfaces = &mut node.interfaces.as_mut().unwrap().0;
    interfaces.insert("breth2".into(), ("02:00:00:00:00:22".into(), vec!["192.0.2.2/24".into()]));
    let want = r#""ip-address":"172.30.0.2/24","exgw-interface-id":"breth2_node1","exgw-mac-address":"02:00:00:00:00:22","exgw-ip-addresses":["192.0.2.2/24"],"exgw-ip-address":"192.0.2.2/24","next-hops""#;
    assert!(node.gateway().contains(want), "{}", node.gateway());
}

#[test]
fn what_is_wrong_is_said_and_what_it_does_not_touch_is_told() {
    let broken = |change: &dyn Fn(&mut Machine), key: &str, want: &str| {
        let mut node = Machine::captured();
        change(&mut node);
        let told = node.told(key);
        assert!(told.contains(want), "{key}: {told}");
        let untouched = if key == NODE_CHASSIS_ID { keys::ENCAP_IPS } else { NODE_CHASSIS_ID };
        assert!(matches!(node.facts().annotations.get(untouched), Some(Some(_))), "{key}: {untouched}");
    };
    let encap =
        |text: &'static str| move |node: &mut Machine| node.options.encap_ips = vec![text.parse().unwrap()];
    broken(
        &|node| drop(node.external_ids.remove("system-id")),
        NODE_CHASSIS_ID,
        "NoChassisID: Open vSwitch has no",
    );
    broken(
        &encap("192.0.2.7"),
        keys::ENCAP_IPS,
        "encapsulation address 192.0.2.7 is not an address of this node",
    );
    let no_address = |node: &mut Machine| {
        node.options.encap_ips.clear();
        node.node.address = None;
    };
    broken(&no_address, keys::ENCAP_IPS, "node1 doesn't have an address with type InternalIP or ExternalIP");
    let gone = |node: &mut Machine| node.interfaces = Some(Interfaces::default());
    broken(&gone, L3_GATEWAY_CONFIG, "HostInterfaceNotFound: host interface br-ex was not found");
    let no_mac = |node: &mut Machine| node.macs.clear();
    broken(&no_mac, L3_GATEWAY_CONFIG, "Open vSwitch has not told the MAC address of br-ex");
    let absent = |node: &mut Machine| node.options.gateway.interface = Some("eth9".into());
    broken(
        &absent,
        L3_GATEWAY_CONFIG,
        "NoGatewayBridge: gateway interface eth9 is on no Open vSwitch bridge",
    );
    let no_route = |node: &mut Machine| {
        (node.options.gateway.interface, node.options.gateway.next_hops) = (None, None);
        node.kernel.defaults.clear();
    };
    broken(&no_route, L3_GATEWAY_CONFIG, "NoDefaultGateway: unable to find default gateway");
    let no_uplink = |node: &mut Machine| node.bridges[0].1.truncate(1);
    broken(
        &no_uplink,
        L3_GATEWAY_CONFIG,
        "NoGatewayUplink: failed to find interface for bridge br-ex physical uplink",
    );
}

#[test]
fn tunnels_end_at_the_nodes_own_address_where_none_is_configured_and_at_all_that_are() {
    let mut node = Machine::captured();
    node.options.encap_ips.clear();
    assert_eq!(node.told(keys::ENCAP_IPS), r#"["172.30.0.2"]"#);
    node.kernel.addresses.push(("eth3".into(), "10.0.0.7/24".parse().unwrap()));
    node.options.encap_ips = ["172.30.0.2", "10.0.0.7", "172.30.0.2"].map(|ip| ip.parse().unwrap()).into();
    assert_eq!(node.told(keys::ENCAP_IPS), r#"["10.0.0.7","172.30.0.2"]"#);
}

#[test]
fn packets_that_are_too_large_are_told_apart_unless_something_forbids_it() {
    let key = keys::GATEWAY_MTU_SUPPORT;
    let told = |change: &dyn Fn(&mut Machine)| {
        let mut node = Machine::captured();
        change(&mut node);
        node.told(key)
    };
    let capabilities =
        |pairs: &'static [(&str, &str)]| move |node: &mut Machine| node.capabilities = Some(texts(pairs));
    let offload =
        |value: &'static str| move |node: &mut Machine| node.other_config = texts(&[("hw-offload", value)]);
    assert_eq!(told(&|_| ()), "absent");
    assert_eq!(told(&capabilities(&[("check_pkt_len", "false")])), "false");
    assert_eq!(told(&capabilities(&[])), "false");
    assert_eq!(told(&offload("true")), "false");
    assert_eq!(told(&offload("false")), "absent");
    assert_eq!(told(&|node| node.options.gateway.checks_packet_size = false), "false");
    // Nobody has asked the datapath yet.
    assert_eq!(told(&|node| node.capabilities = None), "absent");
}

#[test]
fn a_card_tells_the_hosts_address_and_mac_with_the_length_of_its_own_network() {
    let card = Machine::card();
    assert_eq!(
        card.gateway(),
        r#"{"default":{"mode":"shared","bridge-id":"brp0","interface-id":"brp0_node1","mac-address":"02:42:ac:1e:00:02","ip-addresses":["172.30.0.2/16"],"ip-address":"172.30.0.2/16","next-hops":["172.30.0.1"],"next-hop":"172.30.0.1","node-port-enable":"true","vlan-id":"0"}}"#
    );
    assert_eq!(card.told(keys::PRIMARY_ADDRESSES), r#"{"ipv4":"172.30.0.2/24"}"#);
    // The end of the card's tunnels is the card's.
    assert_eq!(card.told(keys::ENCAP_IPS), r#"["172.30.0.9"]"#);
}

#[test]
fn options_of_a_card_may_stand_in_its_open_vswitch_and_given_ones_win() {
    let mut card = Machine::card();
    card.options.gateway.interface = None;
    card.kernel.defaults.clear();
    card.external_ids.extend(texts(&[
        ("ovn-gw-interface", "brp0"),
        ("ovn-gw-nexthop", "\"172.30.0.254\""),
        ("ovn-gw-vlanid", "3000"),
        ("ovn-gw-router-subnet", "172.30.0.0/20"),
    ]));
    let want = r#""ip-addresses":["172.30.0.2/20"],"ip-address":"172.30.0.2/20","next-hops":["172.30.0.254"],"next-hop":"172.30.0.254","node-port-enable":"true","vlan-id":"3000"}}"#;
    assert!(card.gateway().ends_with(want), "{}", card.gateway());
    card.options.gateway.next_hops = Some("172.30.0.7".into());
    card.options.gateway.vlan = 5;
    let want = r#""next-hop":"172.30.0.7","node-port-enable":"true","vlan-id":"5"}}"#;
    assert!(card.gateway().ends_with(want), "{}", card.gateway());
    card.options.gateway.vlan = 0;
    card.external_ids.insert("ovn-gw-vlanid".into(), "x".into());
    let bad = r#"external_ids:ovn-gw-vlanid of Open vSwitch: bad value "x""#;
    assert!(card.facts().problems.iter().any(|problem| problem.message == bad));
}

#[test]
fn a_card_says_what_it_lacks_of_its_host() {
    let broken = |change: &dyn Fn(&mut Machine), want: &str| {
        let mut card = Machine::card();
        change(&mut card);
        assert!(card.gateway().contains(want), "{}", card.gateway());
    };
    let annotate = |text: &'static str| {
        move |card: &mut Machine| {
            card.node.annotations.insert(keys::DPU_HOST_ADDRESSES.into(), text.into());
        }
    };
    broken(
        &|card| card.node.annotations.clear(),
        "primary-dpu-host-addr is missing: the host's agent writes it",
    );
    broken(&annotate("{}"), "node primary DPU address annotation is empty for node node1");
    broken(&annotate("["), "InvalidHostAddress");
    broken(&annotate(r#"{"ipv4":"192.0.2.2/24"}"#), "no address of bridge brp0 has host address 192.0.2.2");
    broken(
        &|card| card.options.gateway.router_subnet = Some("192.0.2.0/24".parse().unwrap()),
        "host address 172.30.0.2 is not in --gateway-router-subnet 192.0.2.0/24",
    );
    broken(
        &|card| card.representors = Representors::Switchdev(Vec::new()),
        r#"dpu host interface was not found for bridge "brp0""#,
    );
    broken(
        &|card| card.representors = Representors::Switchdev(vec![netdev("pf0hpf", Flavour::Pf, None)]),
        "the MAC address of the host's function behind representor pf0hpf cannot be told",
    );
    broken(&|card| card.options.gateway.representor = Some("pf1hpf".into()), "pf1hpf is not on bridge brp0");
}

#[test]
fn the_named_representor_of_a_card_wins_over_the_first_physical_function() {
    let mut card = Machine::card();
    card.bridges[0].1.push("pf0vf3:system".into());
    let Representors::Switchdev(devices) = &mut card.representors else { unreachable!() };
    devices.push(netdev("pf0vf3", Flavour::Vf, Some("02:00:00:00:00:33")));
    card.options.gateway.representor = Some("pf0vf3".into());
    assert!(card.gateway().contains(r#""mac-address":"02:00:00:00:00:33""#), "{}", card.gateway());
}

#[test]
fn nothing_is_concluded_from_a_database_without_its_row() {
    let mut node = Machine::captured();
    node.kernel.defaults.push(route("br-ex", "172.30.0.9", 5));
    let empty = Snapshot::builder().table::<Root>().build();
    let facts = facts(World {
        options: &node.options,
        node: &node.node,
        ovs: &empty,
        kernel: &node.kernel,
        representors: &node.representors,
        function: &|_| None,
        host: Host::Elsewhere,
    });
    assert!(facts.annotations.is_empty() && facts.problems.is_empty(), "{facts:?}");
    assert_eq!(facts.waiting, ["Open vSwitch has no configuration yet".to_owned()].into());
}

#[test]
fn tunnels_of_a_card_end_where_its_open_vswitch_says_unless_an_option_does() {
    let told = |change: &dyn Fn(&mut Machine)| {
        let mut card = Machine::card();
        card.kernel.addresses.push(("p1".into(), "10.0.0.9/24".parse().unwrap()));
        change(&mut card);
        card.told(keys::ENCAP_IPS)
    };
    let says = |text: &'static str| {
        move |card: &mut Machine| drop(card.external_ids.insert("ovn-encap-ip".into(), text.into()))
    };
    assert_eq!(told(&|_| ()), r#"["172.30.0.9"]"#);
    assert_eq!(told(&says("172.30.0.9, 10.0.0.9")), r#"["10.0.0.9","172.30.0.9"]"#);
    let given = |card: &mut Machine| card.options.encap_ips = vec!["10.0.0.9".parse().unwrap()];
    assert_eq!(told(&given), r#"["10.0.0.9"]"#);
    let bad = told(&says("172.30.0.9,x"));
    assert!(
        bad.contains(r#"InvalidEncapIP: invalid encapsulation address "x" in external_ids:ovn-encap-ip"#),
        "{bad}"
    );
    let none = told(&|card| drop(card.external_ids.remove("ovn-encap-ip")));
    assert!(none.contains("InvalidEncapIP: no encapsulation address: give --encap-ip"), "{none}");
}
