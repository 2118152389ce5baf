use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::network::{Role, Switch, Topology, Transport};

/// Configs that upstream's cluster manager wrote, one a line, one for each network.
const CAPTURED: &str = include_str!("../../tests/data/nad-configs.jsonl");

fn nad_of(text: &str) -> String {
    let config: Value = serde_json::from_str(text).unwrap();
    config["netAttachDefName"].as_str().unwrap_or_default().to_owned()
}

fn read(text: &str) -> Result<Config, ReadError> {
    Config::read(text, &nad_of(text), GatewayMode::Shared)
}

/// A good Layer3 config with some keys changed; a null takes a key out.
fn changed(changes: &Value) -> String {
    let mut config = json!({
        "cniVersion": "1.1.0", "name": "blue_net", "netAttachDefName": "blue/net", "role": "primary",
        "subnets": "10.20.0.0/16/24", "topology": "layer3", "type": "ovn-k8s-cni-overlay",
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(config.as_object_mut().unwrap().remove(key)),
            value => config[key] = value.clone(),
        }
    }
    config.to_string()
}

#[test]
fn every_captured_config_is_read_and_rendered_to_its_bytes() {
    assert_eq!(CAPTURED.lines().count(), 82);
    for text in CAPTURED.lines() {
        let config = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config.render(), text);
    }
}

#[test]
fn configs_of_all_kinds_have_upstreams_bytes() {
    let defaults = Defaults::default();
    let base = |nad: &str, name: &str, topology, role| Config {
        cni_version: CNI_VERSION.into(),
        name: name.into(),
        nad_name: nad.into(),
        topology: Some(topology),
        role: Some(role),
        ..Config::default()
    };
    let list = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let primary = |topology| Config {
        join_subnets: defaults.join_subnets.clone(),
        ..base("mynamespace/test-net", "mynamespace_test-net", topology, Role::Primary)
    };
    let vrf = |vni, target: &str, vid| VrfConfig { vni, route_target: Some(target.into()), vid: Some(vid) };
    let rows = [
        (
            "primary Layer3, dual stack, host bits kept",
            Config {
                mtu: Some(1500),
                subnets: list(&["192.168.100.0/16", "2001:dbb::/60"]),
                ..primary(Topology::Layer3)
            },
            r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":1500,"name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"192.168.100.0/16,2001:dbb::/60","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
        ),
        (
            "primary Layer2, persistent addresses",
            Config {
                mtu: Some(1500),
                persistent_ips: true,
                subnets: list(&["192.168.100.0/24", "2001:dbb::/64"]),
                transit_subnets: list(&["100.88.0.0/16", "fd97::/64"]),
                ..primary(Topology::Layer2)
            },
            r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":1500,"name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"192.168.100.0/24,2001:dbb::/64","topology":"layer2","transitSubnet":"100.88.0.0/16,fd97::/64","type":"ovn-k8s-cni-overlay"}"#,
        ),
        (
            "secondary Layer2: neither join nor transit subnet",
            Config {
                subnets: list(&["10.10.10.0/24"]),
                ..base("red/test", "cluster_udn_test", Topology::Layer2, Role::Secondary)
            },
            r#"{"cniVersion":"1.1.0","name":"cluster_udn_test","netAttachDefName":"red/test","role":"secondary","subnets":"10.10.10.0/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#,
        ),
        (
            "Localnet with VLAN",
            Config {
                persistent_ips: true,
                mtu: Some(1500),
                vlan: Some(200),
                physical_network: Some("mylocalnet1".into()),
                subnets: list(&["192.168.100.0/24", "2001:dbb::/64"]),
                exclude_subnets: list(&["192.168.100.1/32", "2001:dbb::0/128"]),
                ..base("mynamespace/test-net", "cluster_udn_test-net", Topology::Localnet, Role::Secondary)
            },
            r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","excludeSubnets":"192.168.100.1/32,2001:dbb::0/128","mtu":1500,"name":"cluster_udn_test-net","netAttachDefName":"mynamespace/test-net","physicalNetworkName":"mylocalnet1","role":"secondary","subnets":"192.168.100.0/24,2001:dbb::/64","topology":"localnet","type":"ovn-k8s-cni-overlay","vlanID":200}"#,
        ),
        (
            "EVPN",
            Config {
                transport: Some(Transport::Evpn),
                transit_subnets: list(&["100.88.0.0/16"]),
                subnets: list(&["10.30.0.0/16"]),
                evpn: Some(EvpnConfig {
                    vtep: "my-vtep".into(),
                    mac_vrf: Some(vrf(100, "65000:100", 12)),
                    ip_vrf: Some(vrf(200, "65000:200", 13)),
                }),
                ..primary(Topology::Layer2)
            },
            r#"{"cniVersion":"1.1.0","evpn":{"vtep":"my-vtep","macVRF":{"vni":100,"routeTarget":"65000:100","vid":12},"ipVRF":{"vni":200,"routeTarget":"65000:200","vid":13}},"joinSubnet":"100.65.0.0/16,fd99::/64","name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"10.30.0.0/16","topology":"layer2","transitSubnet":"100.88.0.0/16","transport":"evpn","type":"ovn-k8s-cni-overlay"}"#,
        ),
        (
            "with an Uplink",
            Config {
                uplink: Some("ext-a".into()),
                subnets: list(&["10.20.0.0/16/24"]),
                join_subnets: defaults.join_subnets.clone(),
                ..base("blue/prod", "cluster_udn_prod", Topology::Layer3, Role::Primary)
            },
            r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"cluster_udn_prod","netAttachDefName":"blue/prod","role":"primary","subnets":"10.20.0.0/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay","uplink":"ext-a"}"#,
        ),
        (
            "no role, and letters that Go escapes",
            Config {
                physical_network: Some("a<b>&c".into()),
                role: None,
                ..base("a/b", "n", Topology::Localnet, Role::Secondary)
            },
            r#"{"cniVersion":"1.1.0","name":"n","netAttachDefName":"a/b","physicalNetworkName":"a\u003cb\u003e\u0026c","role":"","topology":"localnet","type":"ovn-k8s-cni-overlay"}"#,
        ),
    ];
    for (name, config, text) in rows {
        assert_eq!(config.render(), text, "{name}");
        assert_eq!(read(text).as_ref(), Ok(&config), "{name}");
    }
}

#[test]
fn what_is_not_ours_is_told_apart_from_what_is_wrong() {
    let rows = [
        (r#"{"cniVersion":"1.1.0","name":"foreign","type":"bridge"}"#, ReadError::NotManaged),
        (r#"{"cniVersion":"1.1.0","name":"foreign","type":"bridge","mtu":"1500"}"#, ReadError::NotManaged),
        (r"{}", ReadError::NotManaged),
        (r#"{"plugins":[{"type":"bridge"}]}"#, ReadError::NotManaged),
        ("", ReadError::Empty("a/b".into())),
    ];
    for (text, error) in rows {
        assert_eq!(Config::read(text, "a/b", GatewayMode::Shared), Err(error), "{text}");
    }
    for text in ["!", "[]", "null", r#""text""#, r#"{"type":"ovn-k8s-cni-overlay","mtu":"1500"}"#] {
        let error = Config::read(text, "a/b", GatewayMode::Shared).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{text}: {error:?}");
        assert!(
            error.to_string().starts_with("error parsing Network Attachment Definition a/b: "),
            "{error}"
        );
    }
}

#[test]
fn every_refusal_has_upstreams_text() {
    let rows = [
        (
            json!({"netAttachDefName": "c/d"}),
            "net-attach-def name (blue/net) is inconsistent with config (c/d)",
        ),
        (json!({"netAttachDefName": null}), "net-attach-def name (blue/net) is inconsistent with config ()"),
        (json!({"name": "default"}), "invalid name in in secondary network netconf (default)"),
        (json!({"name": "ovn-kubernetes"}), "invalid name in in secondary network netconf (ovn-kubernetes)"),
        (json!({"name": null}), "invalid name in in secondary network netconf ()"),
        (json!({"allowPersistentIPs": true}), "layer3 topology does not allow persistent IPs"),
        (
            json!({"topology": "localnet"}),
            r#"unexpected network field "role" primary for "localnet" topology, localnet topology does not allow network roles to be set since its always a secondary network"#,
        ),
        (json!({"role": "Primary"}), "invalid network role value Primary"),
        (
            json!({"ipam": {"type": "whereabouts"}}),
            "error parsing Network Attachment Definition blue/net: IPAM key is not supported. Use OVN-K provided IPAM via the `subnets` attribute",
        ),
        (json!({"transport": "x"}), r#"invalid transport "x": must be one of ["no-overlay" "evpn"]"#),
        (json!({"outboundSNAT": "enabled"}), r#"outboundSNAT is only valid when transport is "no-overlay""#),
        (
            json!({"outboundSNAT": "x", "transport": "no-overlay"}),
            r#"invalid outboundSNAT "x": must be one of ["enabled" "disabled"]"#,
        ),
        (
            json!({"topology": "localnet", "role": "secondary", "joinSubnet": "100.65.0.0/16"}),
            "localnet topology does not allow specifying join-subnet as services are not supported",
        ),
        (
            json!({"topology": "layer2", "subnets": null}),
            "the subnet attribute must be defined for layer2 primary user defined networks",
        ),
        (
            json!({"infrastructureSubnets": "10.20.0.0/24"}),
            "infrastructureSubnets is only supported for layer2 topology",
        ),
        (json!({"reservedSubnets": "10.20.0.0/24"}), "reservedSubnets is only supported for layer2 topology"),
        (
            json!({"defaultGatewayIPs": "10.20.0.1"}),
            "defaultGatewayIPs is only supported for layer2 topology",
        ),
        (json!({"topology": "layer9"}), "topology layer9 not supported"),
        (
            json!({"plugins": [{"type": "ovn-k8s-cni-overlay"}, {"type": "tuning"}], "type": null}),
            "CNI plugin chaining is not supported",
        ),
        (
            json!({"plugins": [{"type": "ovn-k8s-cni-overlay"}]}),
            "CNI config cannot have both a plugin list and a single config",
        ),
        (
            json!({"plugins": [], "type": null}),
            "error parsing Network Attachment Definition blue/net: the plugin list is empty",
        ),
        (
            json!({"uplink": "ext", "role": "secondary"}),
            r#"uplink "ext" is supported only for primary layer2 and layer3 networks without EVPN transport"#,
        ),
    ];
    for (changes, want) in rows {
        let error = Config::read(&changed(&changes), "blue/net", GatewayMode::Shared).unwrap_err();
        assert_eq!(error.to_string(), want, "{changes}");
    }
    assert_eq!(ReadError::NotManaged.to_string(), "net-attach-def not managed by OVN");
    let unnamed = Config::parse(&changed(&json!({"netAttachDefName": null})), "").unwrap();
    let problems = unnamed.problems("", GatewayMode::Shared);
    assert_eq!(problems, [ReadError::NoNad("blue_net".into())]);
    assert_eq!(problems[0].to_string(), "missing NADName in secondary network netconf blue_net");
}

#[test]
fn an_uplink_needs_shared_gateway_mode_and_its_absence_none() {
    let with = changed(&json!({"uplink": "x"}));
    let error = Config::read(&with, "blue/net", GatewayMode::Other).unwrap_err();
    assert_eq!(error.to_string(), r#"uplink "x" is supported only in shared gateway mode"#);
    assert_eq!(Config::read(&with, "blue/net", GatewayMode::Shared).unwrap().uplink.as_deref(), Some("x"));
    assert!(Config::read(&changed(&json!({})), "blue/net", GatewayMode::Other).is_ok());
}

#[test]
fn all_problems_are_told_in_the_order_in_which_upstream_would_find_them() {
    let text =
        changed(&json!({"allowPersistentIPs": true, "role": "third", "reservedSubnets": "10.20.0.0/24"}));
    let problems = Config::parse(&text, "a/b").unwrap().problems("a/b", GatewayMode::Shared);
    assert_eq!(
        problems,
        [
            ReadError::OtherNad { nad: "a/b".into(), config: "blue/net".into() },
            ReadError::PersistentLayer3,
            ReadError::Role("third".into()),
            ReadError::Layer2Only("reservedSubnets"),
        ]
    );
}

#[test]
fn a_primary_layer2_network_without_transit_subnet_is_read_for_others_to_compute_it() {
    let config = read(&changed(&json!({"topology": "layer2", "subnets": "10.20.0.0/16"}))).unwrap();
    assert!(config.is_primary() && config.transit_subnets.is_empty());
}

#[test]
fn the_default_network_needs_no_name_of_its_own_and_is_called_default() {
    let config = Config::read(DEFAULT_NETWORK_CONFIG, "ovn-kubernetes/default", GatewayMode::Other).unwrap();
    assert!(config.is_default_network());
    assert_eq!(config.name, "default");
}

#[test]
fn a_list_of_one_plugin_is_that_plugin_under_the_lists_name() {
    let text = json!({
        "cniVersion": "1.0.0", "name": "blue_net",
        "plugins": [{
            "name": "inner", "cniVersion": "0.4.0", "type": "ovn-k8s-cni-overlay", "topology": "layer3",
            "subnets": "10.20.0.0/16", "netAttachDefName": "blue/net",
        }],
    });
    let config = Config::read(&text.to_string(), "blue/net", GatewayMode::Shared).unwrap();
    assert_eq!((config.name.as_str(), config.cni_version.as_str()), ("blue_net", "1.0.0"));
}

#[test]
fn hand_written_configs_are_read_as_go_reads_them() {
    // Any case of a key, nulls, further keys, spaces; the exact key wins over another case of it.
    let text = r#"
        { "NAME": "l3-network", "type": "ovn-k8s-cni-overlay", "Topology": "layer3", "MTU": 1, "mtu": 1300,
          "subnets": "10.128.0.0/16/24", "netAttachDefName": "nad-l3/l3-network", "role": null, "x": {"y": 1} }"#;
    let config = Config::read(text, "nad-l3/l3-network", GatewayMode::Shared).unwrap();
    assert_eq!((config.name.as_str(), config.mtu, config.role), ("l3-network", Some(1300), None));
}

#[test]
fn what_a_config_leaves_out_has_upstreams_defaults() {
    let defaults = Defaults { mtu: 1400, ..Defaults::default() };
    let full = |changes: Value| read(&changed(&changes)).unwrap().with_defaults(&defaults);
    let layer3 =
        full(json!({"subnets": "10.20.0.0/16,fd00:20::/48,10.30.0.0/16/25", "joinSubnet": "fd79::/64"}));
    assert_eq!(layer3.subnets, ["10.20.0.0/16/24", "fd00:20::/48/64", "10.30.0.0/16/25"]);
    assert_eq!(layer3.join_subnets, ["fd79::/64", "100.65.0.0/16"]);
    assert_eq!((layer3.mtu, &layer3.physical_network), (Some(1400), &None));
    let layer2 = full(json!({"topology": "layer2", "subnets": "10.20.0.0/16", "mtu": 9000}));
    assert_eq!((layer2.subnets, layer2.mtu), (vec!["10.20.0.0/16".to_owned()], Some(9000)));
    assert_eq!(layer2.join_subnets, ["100.65.0.0/16", "fd99::/64"]);
    let localnet = full(json!({"topology": "localnet", "role": null, "subnets": null}));
    assert_eq!(localnet.physical_network.as_deref(), Some("blue_net"));
    assert!(localnet.join_subnets.is_empty());
}

#[test]
fn two_configs_are_one_network_when_they_mean_the_same() {
    let defaults = Defaults::default();
    let config = |changes: &Value| Config::parse(&changed(changes), "blue/net").unwrap();
    let layer2 = json!({"topology": "layer2", "subnets": "10.20.0.0/16,fd00:20::/64"});
    let evpn = |vni: u32, vid: u32| json!({"transport": "evpn", "evpn": {"vtep": "v", "ipVRF": {"vni": vni, "vid": vid}}});
    let rows = [
        ("another object", json!({}), json!({"netAttachDefName": "red/net"}), vec![]),
        ("the default said", json!({}), json!({"mtu": 1400, "joinSubnet": "fd99::/64"}), vec![]),
        ("growth", json!({}), json!({"subnets": "10.20.0.0/16/24,10.21.0.0/16/24"}), vec![]),
        (
            "order and notation",
            layer2.clone(),
            json!({"topology": "layer2", "subnets": "fd00:0020::/64,10.20.0.9/16"}),
            vec![],
        ),
        ("VLANs of domains", evpn(1, 2), evpn(1, 3), vec![]),
        (
            "gateways",
            layer2.clone(),
            json!({"topology": "layer2", "subnets": "10.20.0.0/16,fd00:20::/64", "defaultGatewayIPs": "10.20.0.9"}),
            vec![],
        ),
        ("no role is secondary", json!({"role": null}), json!({"role": "secondary"}), vec![]),
        ("VNIs of domains", evpn(1, 2), evpn(2, 2), vec!["evpn"]),
        ("Layer2 subnets", layer2, json!({"topology": "layer2", "subnets": "10.20.0.0/16"}), vec!["subnets"]),
        ("MTU", json!({"mtu": 1300}), json!({}), vec!["mtu"]),
        ("role", json!({}), json!({"role": "secondary"}), vec!["role"]),
        ("name", json!({"name": "other"}), json!({}), vec!["name"]),
        ("Uplink", json!({"uplink": "a"}), json!({"uplink": "b"}), vec!["uplink"]),
        ("join subnet", json!({"joinSubnet": "100.70.0.0/16"}), json!({}), vec!["joinSubnet"]),
        (
            "transport and SNAT",
            json!({"transport": "no-overlay", "outboundSNAT": "enabled"}),
            json!({}),
            vec!["transport", "outboundSNAT"],
        ),
        ("persistent addresses", json!({"allowPersistentIPs": true}), json!({}), vec!["allowPersistentIPs"]),
        ("transit subnet", json!({"transitSubnet": "100.88.0.0/16"}), json!({}), vec!["transitSubnet"]),
        (
            "the underlay",
            json!({"topology": "localnet", "role": null, "vlanID": 5, "excludeSubnets": "10.20.0.1/32"}),
            json!({"topology": "localnet", "role": null, "physicalNetworkName": "p"}),
            vec!["vlanID", "physicalNetworkName", "excludeSubnets"],
        ),
        (
            "reserved and infrastructure subnets",
            json!({"reservedSubnets": "10.20.0.0/24"}),
            json!({"infrastructureSubnets": "10.20.1.0/24"}),
            vec!["reservedSubnets", "infrastructureSubnets"],
        ),
    ];
    for (name, a, b, want) in rows {
        let (a, b) = (config(&a), config(&b));
        assert_eq!(a.differences(&b, &defaults), want, "{name}");
        assert_eq!(b.differences(&a, &defaults), want, "{name}, the other way");
        assert_eq!(a.is_compatible(Some(3), &b, None, &defaults), want.is_empty(), "{name}");
        assert!(!a.is_compatible(Some(3), &b, Some(4), &defaults), "{name}: two ids are two networks");
    }
}

#[test]
fn an_object_without_spec_or_config_is_read() {
    for text in [
        r#"{"metadata":{"name":"b","namespace":"a"}}"#,
        r#"{"metadata":{"name":"b","namespace":"a"},"spec":null}"#,
        r#"{"metadata":{"name":"b","namespace":"a"},"spec":{"config":null}}"#,
    ] {
        let nad: NetworkAttachmentDefinition = serde_json::from_str(text).unwrap();
        assert_eq!(nad.read(GatewayMode::Shared), Err(ReadError::Empty("a/b".into())));
    }
}

fn config() -> impl Strategy<Value = Config> {
    let word = || "[a-z<>&\"\\\\é]{1,6}";
    let words = || proptest::collection::vec("[0-9a-f./:]{1,9}", 0..3);
    let vrf = (any::<u32>(), proptest::option::of(word()), proptest::option::of(1_u32..))
        .prop_map(|(vni, route_target, vid)| VrfConfig { vni, route_target, vid });
    let vrf = || proptest::option::of(vrf.clone());
    let evpn =
        (word(), vrf(), vrf()).prop_map(|(vtep, mac_vrf, ip_vrf)| EvpnConfig { vtep, mac_vrf, ip_vrf });
    let topology = proptest::sample::select(vec![Topology::Layer2, Topology::Layer3, Topology::Localnet]);
    let role = proptest::sample::select(vec![None, Some(Role::Primary), Some(Role::Secondary)]);
    let transport = proptest::sample::select(vec![None, Some(Transport::NoOverlay), Some(Transport::Evpn)]);
    let snat = proptest::sample::select(vec![None, Some(Switch::Enabled), Some(Switch::Disabled)]);
    let identity = (word(), word(), topology, role, transport, snat);
    let lists = (words(), words(), words(), words(), words(), words(), words());
    let numbers = (proptest::option::of(1_u32..), proptest::option::of(1_u32..), any::<bool>());
    let texts = (proptest::option::of(word()), proptest::option::of(word()), proptest::option::of(evpn));
    (identity, lists, numbers, texts).prop_map(
        |((name, nad_name, topology, role, transport, outbound_snat), lists, numbers, texts)| Config {
            cni_version: CNI_VERSION.into(),
            name,
            nad_name,
            topology: Some(topology),
            role,
            transport,
            outbound_snat,
            subnets: lists.0,
            exclude_subnets: lists.1,
            reserved_subnets: lists.2,
            infrastructure_subnets: lists.3,
            default_gateway_ips: lists.4,
            join_subnets: lists.5,
            transit_subnets: lists.6,
            mtu: numbers.0,
            vlan: numbers.1,
            persistent_ips: numbers.2,
            physical_network: texts.0,
            uplink: texts.1,
            evpn: texts.2,
            ipam_type: None,
        },
    )
}

/// Something like a config: its keys with values that fit and others.
fn nearly() -> impl Strategy<Value = String> {
    let keys = [
        "type",
        "name",
        "netAttachDefName",
        "topology",
        "role",
        "mtu",
        "vlanID",
        "subnets",
        "plugins",
        "evpn",
        "ipam",
        "transport",
        "uplink",
        "allowPersistentIPs",
        "joinSubnet",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::sample::select(vec![
            CNI_TYPE,
            "layer2",
            "primary",
            "evpn",
            "",
            "a/b",
            "10.0.0.0/8/24",
            "/"
        ])
        .prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(2, 8, 3, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(keys.to_vec()), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    });
    proptest::collection::btree_map(proptest::sample::select(keys.to_vec()), value, 0..6).prop_map(
        |changes| changed(&changes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
    )
}

proptest! {
    #[test]
    fn what_is_rendered_is_read_back(config in config()) {
        prop_assert_eq!(Config::parse(&config.render(), "a/b"), Ok(config));
    }

    #[test]
    fn what_is_rendered_has_its_keys_in_order(config in config()) {
        // The decoder keeps objects sorted by the bytes of their keys; only the domains of EVPN have another order.
        let plain = Config { evpn: None, ..config };
        let text = plain.render();
        let sorted: Value = serde_json::from_str(&text).unwrap();
        let unescaped = text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&");
        prop_assert_eq!(sorted.to_string(), unescaped);
    }

    #[test]
    fn any_text_is_a_config_or_refused_in_words(text in prop_oneof![4 => nearly(), 1 => ".*"]) {
        match Config::read(&text, "a/b", GatewayMode::Shared) {
            Ok(config) => {
                prop_assert!(config.is_default_network() || config.nad_name == "a/b");
                prop_assert_eq!(Config::parse(&config.render(), "a/b").map(|read| read.render()), Ok(config.render()));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_config_is_the_same_network_as_itself_whatever_is_filled_in(config in config()) {
        let defaults = Defaults::default();
        let full = config.with_defaults(&defaults);
        prop_assert!(config.differences(&full, &defaults).is_empty());
        prop_assert_eq!(full.with_defaults(&defaults), full.clone());
    }
}
