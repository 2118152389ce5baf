use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::annotation::gateway::{self, ExternalGateway, L3Gateway};
use crate::annotation::{GatewayMode, L3_GATEWAY_CONFIG, network};

/// Annotations that upstream's programs wrote, one a line.
const CAPTURED: &str = include_str!("../../../tests/data/annotations.jsonl");

#[derive(Deserialize)]
struct Captured {
    key: String,
    text: String,
}

/// Reads an annotation and writes it again; nothing of it may be lost.
fn again(key: &str, text: &str) -> Result<String, AnnotationError> {
    fn whole<T>(read: Read<T>) -> T {
        assert_eq!(read.bad, []);
        read.value
    }
    Ok(match key {
        NODE_SUBNETS => render_node_subnets(&whole(read_node_subnets(text)?)).unwrap(),
        NODE_ID => read_node_id(text)?.to_string(),
        TRANSIT_SWITCH_PORT => render_addresses(&whole(read_addresses(TRANSIT_SWITCH_PORT, text)?)),
        PRIMARY_ADDRESSES => render_addresses(&whole(read_addresses(PRIMARY_ADDRESSES, text)?)),
        MASQUERADE_SUBNETS => render_addresses(&whole(read_addresses(MASQUERADE_SUBNETS, text)?)),
        HOST_CIDRS => render_host_cidrs(&whole(read_host_cidrs(text)?)),
        ENCAP_IPS => render_encap_ips(&whole(read_encap_ips(text)?)),
        L3_GATEWAY_CONFIG => gateway::render(&whole(gateway::read(text)?)),
        network::NETWORK_ID => network::render_network_id(network::read_network_id(text)?),
        network::TUNNEL_KEYS => network::render_tunnel_keys(&network::read_tunnel_keys(text)?),
        network::ROUTE_ADVERTISEMENTS => {
            network::render_route_advertisements(&network::read_route_advertisements(text)?)
        }
        other => panic!("no codec for {other}"),
    })
}

#[test]
fn every_captured_annotation_is_read_and_rendered_to_its_bytes() {
    let mut keys: BTreeMap<String, usize> = BTreeMap::new();
    for line in CAPTURED.lines() {
        let Captured { key, text } = serde_json::from_str(line).unwrap();
        assert_eq!(again(&key, &text), Ok(text), "{key}");
        *keys.entry(key).or_default() += 1;
    }
    assert_eq!((keys.len(), keys.values().sum::<usize>()), (11, 141));
}

#[test]
fn documented_annotations_that_no_capture_has_keep_their_bytes_too() {
    let ports = r#"{"blue_net":{"DeviceId":"","PfId":0,"FuncId":2},"default":{"DeviceId":"0000:03:00.2","PfId":0,"FuncId":1}}"#;
    assert_eq!(render_management_ports(&read_management_ports(ports).unwrap().value).as_deref(), Some(ports));
    let ids = r#"{"blue_net":"3","default":"0"}"#;
    assert_eq!(render_numbers(&read_network_ids(ids).unwrap().value).as_deref(), Some(ids));
    let tunnels = r#"{"blue_net":"5"}"#;
    assert_eq!(
        render_numbers(&read_gateway_router_tunnel_ids(tunnels).unwrap().value).as_deref(),
        Some(tunnels)
    );
    let host = r#"{"ipv4":"172.18.0.3/16"}"#;
    assert_eq!(render_addresses(&read_addresses(DPU_HOST_ADDRESSES, host).unwrap().value), host);
    let second = r#"{"default":{"mode":"local","bridge-id":"br-ex","interface-id":"br-ex_n","mac-address":"02:42:ac:12:00:03","ip-addresses":["172.18.0.3/16","fc00::3/64"],"exgw-interface-id":"br-1_n","exgw-mac-address":"02:42:ac:12:00:04","exgw-ip-addresses":["10.0.0.3/16"],"exgw-ip-address":"10.0.0.3/16","next-hops":["172.18.0.1","fc00::1"],"node-port-enable":"false","vlan-id":"7"},"red":{"mode":""}}"#;
    let read = gateway::read(second).unwrap();
    assert_eq!(read.bad, []);
    assert_eq!(gateway::render(&read.value), second);
}

#[test]
fn values_of_old_versions_are_read() {
    let subnets = read_node_subnets(r#"{"default":"10.244.0.0/24"}"#).unwrap().value;
    assert_eq!(subnets["default"], ["10.244.0.0/24".parse().unwrap()]);
    let port = read_management_ports(r#"{"PfId":0,"FuncId":1}"#).unwrap().value;
    assert_eq!(port["default"], ManagementPort { device: String::new(), pf: 0, function: 1 });
    let macs = read_management_port_macs(r#"{"default":"0a:58:0a:f4:00:02","x":"no"}"#).unwrap();
    assert_eq!((macs.value.len(), macs.bad.len()), (1, 1));
}

#[test]
fn one_bad_entry_does_not_take_the_others_with_it() {
    let read = read_node_subnets(r#"{"a":["10.0.0.0/24"],"b":["x"],"c":7,"d":"10.1.0.0/24"}"#).unwrap();
    assert_eq!(read.value.keys().collect::<Vec<_>>(), ["a", "d"]);
    assert_eq!(read.bad.iter().map(|bad| bad.entry.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(
        read.bad[0].to_string(),
        r#"annotation k8s.ovn.org/node-subnets: entry "b" is ["x"]: invalid IP address syntax"#
    );
    let read = read_addresses(PRIMARY_ADDRESSES, r#"{"ipv4":"172.18.0.3","ipv6":"fc00::3/64"}"#).unwrap();
    assert_eq!(
        (read.value.ipv4, read.value.ipv6, read.bad.len()),
        (None, Some("fc00::3/64".parse().unwrap()), 1)
    );
    let read = read_host_cidrs(r#"["172.18.0.3/16",null,"fc00::3/64"]"#).unwrap();
    assert_eq!((read.value.len(), read.bad[0].entry.as_str()), (2, "1"));
    let read = gateway::read(r#"{"default":{"mode":"x"},"red":{"mode":""}}"#).unwrap();
    assert_eq!(read.value, [("red".to_owned(), L3Gateway::disabled())].into());
    assert_eq!(read.bad[0].cause, r#"bad 'mode' value "x""#);
}

#[test]
fn an_annotation_that_is_no_json_is_an_error_that_names_it() {
    let error = read_node_subnets("garbage").unwrap_err();
    assert_eq!((error.key, error.text.as_str()), (NODE_SUBNETS, "garbage"));
    assert!(error.to_string().starts_with(r#"annotation k8s.ovn.org/node-subnets "garbage": "#), "{error}");
    assert!(read_addresses(PRIMARY_ADDRESSES, "[]").is_err() && read_host_cidrs("{}").is_err());
    assert!(gateway::read("x").is_err() && read_encap_ips("").is_err());
}

#[test]
fn ids_out_of_range_are_refused() {
    assert_eq!(network::read_network_id("4095"), Ok(4095));
    for text in ["4096", "-1", "+1", "", " 1", "1.0", "99999999999999999999", "x"] {
        let error = network::read_network_id(text).unwrap_err();
        assert!(error.to_string().contains("failed to parse annotated network ID: "), "{error}");
        assert!(read_node_id(text).is_err() || text == "4096", "{text:?}");
    }
    assert!(read_node_id("5001").is_err());
    assert_eq!(network::read_tunnel_keys("[16777215]"), Ok(vec![16_777_215]));
    for text in ["[16777216]", "[0]", "[-1]", "[1.5]", r#"["1"]"#, "1"] {
        assert!(network::read_tunnel_keys(text).is_err(), "{text}");
    }
}

#[test]
fn an_empty_map_is_no_annotation() {
    assert_eq!(render_node_subnets(&Networks::new()), None);
    assert_eq!(render_node_subnets(&[("a".to_owned(), Vec::new())].into()), None);
    assert_eq!(render_numbers(&Networks::new()), None);
    assert_eq!(read_node_subnets("null").unwrap().value, Networks::new());
    assert_eq!(network::render_tunnel_keys(&[]), "[]");
}

#[test]
fn lists_are_sorted_as_text_and_name_each_address_once() {
    let addresses: Vec<IpNet> = ["fc00::3/64", "172.18.0.3/16", "172.18.0.10/16", "172.18.0.3/16"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    assert_eq!(render_host_cidrs(&addresses), r#"["172.18.0.10/16","172.18.0.3/16","fc00::3/64"]"#);
}

#[test]
fn only_the_word_false_says_that_a_gateway_cannot_tell_large_packets() {
    for (text, supported) in [(None, true), (Some("false"), false), (Some(""), true), (Some("true"), true)] {
        assert_eq!(read_gateway_mtu_support(text), supported, "{text:?}");
    }
    assert_eq!(read_hybrid_overlay_subnet("172.16.0.0/24").unwrap().to_string(), "172.16.0.0/24");
}

fn net() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        (any::<u32>(), 0_u8..=32)
            .prop_map(|(bits, length)| IpNet::new(std::net::Ipv4Addr::from(bits).into(), length)),
        (any::<u128>(), 0_u8..=128)
            .prop_map(|(bits, length)| IpNet::new(std::net::Ipv6Addr::from(bits).into(), length)),
    ]
    .prop_map(Result::unwrap)
}

fn gateway_of_node() -> impl Strategy<Value = L3Gateway> {
    let mac = || Just("02:42:ac:12:00:03".to_owned());
    let nets = || proptest::collection::vec(net(), 1..3);
    let external = ("[a-z]{1,5}", nets()).prop_map(|(interface, addresses)| ExternalGateway {
        interface,
        mac: "02:00:00:00:00:01".into(),
        addresses,
    });
    let hops = proptest::collection::vec(net().prop_map(|net| net.addr()), 0..3);
    let rest =
        (proptest::option::of(external), hops, any::<Option<bool>>(), proptest::option::of(0_u16..4096));
    (any::<bool>(), ".{0,5}", ".{0,5}", mac(), nets(), rest).prop_map(
        |(shared, bridge, interface, mac, addresses, (external, next_hops, node_port, vlan))| L3Gateway {
            mode: if shared { GatewayMode::Shared } else { GatewayMode::Local },
            bridge,
            interface,
            mac,
            addresses,
            external,
            next_hops,
            node_port,
            vlan,
        },
    )
}

proptest! {
    #[test]
    fn node_subnets_that_are_rendered_are_read_back(
        subnets in proptest::collection::btree_map(".{0,8}", proptest::collection::vec(net(), 1..3), 1..4),
    ) {
        let read = read_node_subnets(&render_node_subnets(&subnets).unwrap()).unwrap();
        prop_assert_eq!(read, Read { value: subnets, bad: Vec::new() });
    }

    #[test]
    fn gateways_that_are_rendered_are_read_back(
        gateways in proptest::collection::btree_map(".{0,8}", gateway_of_node(), 0..3),
    ) {
        let read = gateway::read(&gateway::render(&gateways)).unwrap();
        prop_assert_eq!(read, Read { value: gateways, bad: Vec::new() });
    }

    /// Whatever stands in an annotation, its readers answer, and what they refuse they name.
    #[test]
    fn any_text_is_read_or_refused_by_name(
        text in prop_oneof![
            ".*",
            "\\{(\"[a-z0-9]{0,3}\":(\\[?\"?[0-9a-f.:/]{0,12}\"?\\]?|null|\\{\\}),?){0,3}\\}",
            "\\[[0-9\", .]*\\]",
            "-?[0-9]{0,12}",
        ],
    ) {
        let mut errors = Vec::new();
        errors.extend(read_node_subnets(&text).err());
        errors.extend(read_network_ids(&text).err());
        errors.extend(read_gateway_router_tunnel_ids(&text).err());
        errors.extend(read_node_id(&text).err());
        errors.extend(read_addresses(PRIMARY_ADDRESSES, &text).err());
        errors.extend(read_host_cidrs(&text).err());
        errors.extend(read_encap_ips(&text).err());
        errors.extend(read_hybrid_overlay_subnet(&text).err());
        errors.extend(read_management_ports(&text).err());
        errors.extend(read_management_port_macs(&text).err());
        errors.extend(gateway::read(&text).err());
        errors.extend(network::read_network_id(&text).err());
        errors.extend(network::read_tunnel_keys(&text).err());
        errors.extend(network::read_route_advertisements(&text).err());
        for error in errors {
            prop_assert_eq!(&error.text, &text);
            prop_assert!(error.to_string().contains(error.key));
        }
    }
}
