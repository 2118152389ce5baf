use serde_json::{Value, json};

use super::*;

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// The cluster of the captured runs.
pub(super) fn cluster() -> Cluster {
    Cluster {
        internal: Internal {
            cluster: nets(&["10.128.0.0/14"]),
            services: nets(&["10.96.0.0/16"]),
            join: nets(&["100.64.0.0/16", "fd98::/64"]),
            masquerade: nets(&["169.254.169.0/29", "fd69::/125"]),
            transit: nets(&["100.88.0.0/16", "fd97::/64"]),
            user_join: nets(&["100.65.0.0/16", "fd99::/64"]),
        },
        families: Families::V4,
        gateway_mode: GatewayMode::Shared,
        mtu: 1400,
        features: [Feature::PreconfiguredAddresses, Feature::PersistentIps].into(),
    }
}

fn dual_stack() -> Cluster {
    Cluster { families: Families::Both, ..cluster() }
}

fn spec(topology: &str, config: &Value) -> Value {
    json!({"topology": topology, topology.to_lowercase(): config})
}

/// A layer 3 primary network of one subnet.
fn l3(cidr: &str, host: Option<i32>) -> Value {
    let subnet = match host {
        Some(host) => json!({"cidr": cidr, "hostSubnet": host}),
        None => json!({"cidr": cidr}),
    };
    spec("Layer3", &json!({"role": "Primary", "subnets": [subnet]}))
}

/// Where the NAD is and what the network is called.
enum Is<'n> {
    Udn(&'n str, &'n str),
    Cudn(&'n str, &'n str),
}

fn rendered(
    is: &Is<'_>,
    spec: &Value,
    uplink: Option<&str>,
    cluster: &Cluster,
) -> Result<Rendered, RenderError> {
    let spec: NetworkSpec = serde_json::from_value(spec.clone()).unwrap();
    let (network, nad) = match is {
        Is::Udn(namespace, name) => (NetworkName::of_udn(namespace, name), NadKey::new(*namespace, name)),
        Is::Cudn(namespace, name) => (NetworkName::of_cudn(name), NadKey::new(*namespace, name)),
    };
    render(&Request { spec: &spec, network: &network, nad: &nad, uplink, vids: Vids::default() }, cluster)
}

#[track_caller]
fn gives(is: &Is<'_>, spec: &Value, uplink: Option<&str>, cluster: &Cluster, want: &str) {
    assert_eq!(rendered(is, spec, uplink, cluster).unwrap().config.render(), want);
}

/// A CUDN of the captured run, in the namespace of its name.
#[track_caller]
fn refused(name: &str, spec: &Value, cluster: &Cluster, want: &str) {
    assert_eq!(rendered(&Is::Cudn(name, name), spec, None, cluster).unwrap_err().to_string(), want, "{name}");
}

#[test]
fn worked_examples_come_out_byte_for_byte() {
    let (test_net, cluster, dual) = (Is::Udn("mynamespace", "test-net"), cluster(), dual_stack());
    gives(
        &test_net,
        &spec(
            "Layer3",
            &json!({"role": "Primary", "mtu": 1500,
            "subnets": [{"cidr": "192.168.100.0/16"}, {"cidr": "2001:dbb::/60"}]}),
        ),
        None,
        &dual,
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":1500,"name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"192.168.100.0/16,2001:dbb::/60","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &test_net,
        &spec(
            "Layer2",
            &json!({"role": "Primary", "mtu": 1500, "subnets": ["192.168.100.0/24", "2001:dbb::/64"],
            "ipam": {"lifecycle": "Persistent"}}),
        ),
        None,
        &dual,
        r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","mtu":1500,"name":"mynamespace_test-net","netAttachDefName":"mynamespace/test-net","role":"primary","subnets":"192.168.100.0/24,2001:dbb::/64","topology":"layer2","transitSubnet":"100.88.0.0/16,fd97::/64","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Cudn("red", "test"),
        &spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.10.10.0/24"]})),
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","name":"cluster_udn_test","netAttachDefName":"red/test","role":"secondary","subnets":"10.10.10.0/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Cudn("mynamespace", "test-net"),
        &spec(
            "Localnet",
            &json!({"role": "Secondary", "physicalNetworkName": "mylocalnet1",
            "subnets": ["192.168.100.0/24", "2001:dbb::/64"],
            "excludeSubnets": ["192.168.100.1/32", "2001:dbb::0/128"],
            "ipam": {"lifecycle": "Persistent"}, "vlan": {"mode": "Access", "access": {"id": 200}}}),
        ),
        None,
        &cluster,
        r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","excludeSubnets":"192.168.100.1/32,2001:dbb::0/128","mtu":1500,"name":"cluster_udn_test-net","netAttachDefName":"mynamespace/test-net","physicalNetworkName":"mylocalnet1","role":"secondary","subnets":"192.168.100.0/24,2001:dbb::/64","topology":"localnet","type":"ovn-k8s-cni-overlay","vlanID":200}"#,
    );
    gives(
        &Is::Cudn("blue", "prod"),
        &spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}]})),
        Some("ext-a"),
        &cluster,
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"cluster_udn_prod","netAttachDefName":"blue/prod","role":"primary","subnets":"10.20.0.0/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay","uplink":"ext-a"}"#,
    );
}

#[test]
fn captured_networks_come_out_byte_for_byte() {
    let cluster = cluster();
    gives(
        &Is::Udn("red", "rich"),
        &spec(
            "Layer2",
            &json!({"role": "Primary", "mtu": 1350, "subnets": ["10.50.0.0/16"],
            "joinSubnets": ["100.90.0.0/16"], "defaultGatewayIPs": ["10.50.2.7"],
            "infrastructureSubnets": ["10.50.2.0/24"], "reservedSubnets": ["10.50.4.0/24", "10.50.8.0/24"],
            "ipam": {"mode": "Enabled", "lifecycle": "Persistent"}}),
        ),
        None,
        &cluster,
        r#"{"allowPersistentIPs":true,"cniVersion":"1.1.0","defaultGatewayIPs":"10.50.2.7","infrastructureSubnets":"10.50.2.0/24","joinSubnet":"100.90.0.0/16","mtu":1350,"name":"red_rich","netAttachDefName":"red/rich","reservedSubnets":"10.50.4.0/24,10.50.8.0/24","role":"primary","subnets":"10.50.0.0/16","topology":"layer2","transitSubnet":"100.88.0.0/16","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Udn("plain", "l2-noipam"),
        &spec("Layer2", &json!({"role": "Secondary", "ipam": {"mode": "Disabled"}})),
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","name":"plain_l2-noipam","netAttachDefName":"plain/l2-noipam","role":"secondary","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Udn("name-tests", "a-b"),
        &spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.47.0.5/16", "hostSubnet": 24}]})),
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"name-tests_a-b","netAttachDefName":"name-tests/a-b","role":"primary","subnets":"10.47.0.5/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Cudn("v-v4-join-only-v6", "v-v4-join-only-v6"),
        &spec(
            "Layer3",
            &json!({"role": "Primary", "subnets": [{"cidr": "10.79.0.0/16", "hostSubnet": 24}],
            "joinSubnets": ["fd79::/64"]}),
        ),
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","joinSubnet":"fd79::/64","name":"cluster_udn_v-v4-join-only-v6","netAttachDefName":"v-v4-join-only-v6/v-v4-join-only-v6","role":"primary","subnets":"10.79.0.0/16/24","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
    );
    let mut no_overlay =
        spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.90.0.0/16", "hostSubnet": 24}]}));
    no_overlay["transport"] = json!("NoOverlay");
    no_overlay["noOverlay"] = json!({"outboundSNAT": "Enabled", "routing": "Unmanaged"});
    gives(
        &Is::Cudn("t1", "noov"),
        &no_overlay,
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"cluster_udn_noov","netAttachDefName":"t1/noov","outboundSNAT":"enabled","role":"primary","subnets":"10.90.0.0/16/24","topology":"layer3","transport":"no-overlay","type":"ovn-k8s-cni-overlay"}"#,
    );
    // Not on the list of families that the cluster has to support: secondary, and of the underlay.
    let v6 = Cluster { families: Families::V6, ..cluster.clone() };
    gives(
        &Is::Cudn("n5", "vs"),
        &spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.31.0.0/16"]})),
        None,
        &v6,
        r#"{"cniVersion":"1.1.0","name":"cluster_udn_vs","netAttachDefName":"n5/vs","role":"secondary","subnets":"10.31.0.0/16","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Udn("n2", "u"),
        &spec("Layer2", &json!({"role": "Primary", "subnets": ["fd00:30::/64"]})),
        None,
        &v6,
        r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"n2_u","netAttachDefName":"n2/u","role":"primary","subnets":"fd00:30::/64","topology":"layer2","transitSubnet":"fd97::/64","type":"ovn-k8s-cni-overlay"}"#,
    );
    gives(
        &Is::Cudn("c1", "loc-noipam"),
        &spec(
            "Localnet",
            &json!({"role": "Secondary", "mtu": 9000, "physicalNetworkName": "physnet2", "ipam": {"mode": "Disabled"}}),
        ),
        None,
        &cluster,
        r#"{"cniVersion":"1.1.0","mtu":9000,"name":"cluster_udn_loc-noipam","netAttachDefName":"c1/loc-noipam","physicalNetworkName":"physnet2","role":"secondary","topology":"localnet","type":"ovn-k8s-cni-overlay"}"#,
    );
}

#[test]
fn evpn_carries_the_allocated_vlan_ids() {
    let cluster = Cluster { gateway_mode: GatewayMode::Other, features: [Feature::Evpn].into(), ..cluster() };
    let mut value = spec("Layer2", &json!({"role": "Primary", "subnets": ["10.30.0.0/16"]}));
    value["transport"] = json!("EVPN");
    value["evpn"] = json!({"vtep": "my-vtep", "macVRF": {"vni": 100, "routeTarget": "65000:100"},
        "ipVRF": {"vni": 200, "routeTarget": "65000:200"}});
    let parsed: NetworkSpec = serde_json::from_value(value.clone()).unwrap();
    let (network, nad) = (NetworkName::of_cudn("e"), NadKey::new("n", "e"));
    let vids = Vids { mac_vrf: Some(12), ip_vrf: Some(13) };
    let request = Request { spec: &parsed, network: &network, nad: &nad, uplink: None, vids };
    let text = render(&request, &cluster).unwrap().config.render();
    assert!(text.contains(r#""evpn":{"vtep":"my-vtep","macVRF":{"vni":100,"routeTarget":"65000:100","vid":12},"ipVRF":{"vni":200,"routeTarget":"65000:200","vid":13}}"#), "{text}");
    assert!(text.contains(r#""transitSubnet":"100.88.0.0/16","transport":"evpn""#), "{text}");
    refused(
        "e",
        &value,
        &self::cluster(),
        "failed to render CNI network config: EVPN transport requested but EVPN feature is not enabled",
    );
}

#[test]
fn what_the_captured_cluster_refused_is_refused_in_its_words() {
    let overlap = "invalid subnet configuration: pod or join subnet overlaps with already configured internal subnets: ";
    let parsing = "invalid subnet configuration: error while parsing subnets: ";
    let cases = [
        (
            "v-cluster",
            l3("10.128.0.0/16", Some(24)),
            format!(
                r#"{overlap}user defined subnet "10.128.0.0/16" overlaps cluster subnet "10.128.0.0/14""#
            ),
        ),
        (
            "v-join",
            l3("100.65.0.0/16", Some(24)),
            format!(
                r#"{overlap}user defined join subnet "100.65.0.0/16" overlaps user defined subnet "100.65.0.0/16""#
            ),
        ),
        (
            "v-masq",
            l3("169.254.160.0/20", Some(24)),
            format!(
                r#"{overlap}user defined subnet "169.254.160.0/20" overlaps masquerade subnet "169.254.169.0/29""#
            ),
        ),
        (
            "v-v6-only",
            l3("fd00:77::/48", Some(64)),
            format!(
                "{parsing}network cluster_udn_v-v6-only is attempting to use ipv6 subnets but the cluster does not support ipv6"
            ),
        ),
        (
            "v-dual",
            spec(
                "Layer3",
                &json!({"role": "Primary", "subnets": [{"cidr": "10.76.0.0/16", "hostSubnet": 24}, {"cidr": "fd00:78::/48", "hostSubnet": 64}]}),
            ),
            format!(
                "{parsing}network cluster_udn_v-dual is attempting to use ipv6 subnets but the cluster does not support ipv6"
            ),
        ),
        (
            "v-l2-join",
            spec("Layer2", &json!({"role": "Primary", "subnets": ["100.65.0.0/16"]})),
            format!(
                r#"{}user defined join subnet "100.65.0.0/16" overlaps user defined subnet "100.65.0.0/16""#,
                overlap.trim_start_matches("invalid subnet configuration: ")
            ),
        ),
        (
            "v-exclude-out",
            spec(
                "Localnet",
                &json!({"role": "Secondary", "physicalNetworkName": "p9", "excludeSubnets": ["10.168.12.0/30"], "subnets": ["192.168.12.0/24"]}),
            ),
            "the provided network subnets do not contain excluded subnets 10.168.12.0/30".to_owned(),
        ),
        (
            "v-sec-svc",
            spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.96.5.0/24"]})),
            format!(r#"{overlap}user defined subnet "10.96.5.0/24" overlaps service subnet "10.96.0.0/16""#),
        ),
        (
            "sec-join",
            spec("Layer2", &json!({"role": "Secondary", "subnets": ["100.65.1.0/24"]})),
            format!(
                r#"{overlap}user defined join subnet "100.65.0.0/16" overlaps user defined subnet "100.65.1.0/24""#
            ),
        ),
        (
            "own-join",
            spec(
                "Layer3",
                &json!({"role": "Primary", "joinSubnets": ["100.64.10.0/24"], "subnets": [{"cidr": "10.78.0.0/16"}]}),
            ),
            format!(
                r#"{overlap}user defined join subnet "100.64.10.0/24" overlaps built-in join subnet "100.64.0.0/16""#
            ),
        ),
    ];
    for (name, value, text) in cases {
        refused(name, &value, &cluster(), &format!("failed to render CNI network config: {text}"));
    }
    let v6 = Cluster { families: Families::V6, ..cluster() };
    refused(
        "dual",
        &spec("Layer2", &json!({"role": "Primary", "subnets": ["10.32.0.0/16", "fd00:32::/64"]})),
        &v6,
        "failed to render CNI network config: error while parsing subnets: network cluster_udn_dual is attempting to \
         use ipv4 subnets but the cluster does not support ipv4",
    );
}

#[test]
fn lengths_of_nodes_subnets_are_refused_in_upstreams_words() {
    let parsing = "invalid subnet configuration: error while parsing subnets: ";
    let mask = "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. ";
    let cases = [
        (
            "v-nohost24",
            l3("10.82.0.0/24", None),
            format!("{parsing}{mask}host subnet length: 24, cluster subnet length: 24"),
        ),
        (
            "v-nohost28",
            l3("10.84.0.0/28", None),
            format!("{parsing}{mask}host subnet length: 24, cluster subnet length: 28"),
        ),
        (
            "minus",
            l3("10.10.0.0/24", Some(-1)),
            format!("{parsing}{mask}host subnet length: 24, cluster subnet length: 24"),
        ),
        ("v6-80", l3("fd00::/48", Some(80)), format!("{parsing}IPv6 only supports /64 host subnets")),
        (
            "v-v6-nohost64",
            spec("Layer3", &json!({"role": "Secondary", "subnets": [{"cidr": "fd00:86::/64"}]})),
            format!("{parsing}{mask}host subnet length: 64, cluster subnet length: 64"),
        ),
    ];
    for (name, value, text) in cases {
        refused(name, &value, &cluster(), &format!("failed to render CNI network config: {text}"));
    }
}

#[test]
fn what_the_captured_cluster_accepted_is_accepted() {
    for value in [
        spec("Layer2", &json!({"role": "Primary", "subnets": ["10.77.2.0/30"]})),
        spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.87.0.0/30"]})),
        spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.87.0.0/32"]})),
        spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.80.0.0/24", "hostSubnet": 31}]})),
        spec("Layer3", &json!({"role": "Secondary", "subnets": [{"cidr": "fd00:85::/48"}]})),
        spec(
            "Localnet",
            &json!({"role": "Secondary", "physicalNetworkName": "p", "subnets": ["10.96.0.0/16", "fd00:11::/64"]}),
        ),
    ] {
        assert!(rendered(&Is::Cudn("n", "c"), &value, None, &cluster()).is_ok(), "{value}");
    }
}

#[test]
fn limits_of_host_lengths_are_judged_per_family() {
    let value = spec(
        "Layer3",
        &json!({"role": "Primary", "subnets": [
        {"cidr": "10.10.0.0/16", "hostSubnet": 24}, {"cidr": "2001:db8:200::/48", "hostSubnet": 64}]}),
    );
    assert!(rendered(&Is::Cudn("n", "c"), &value, None, &dual_stack()).is_ok());
}

#[test]
fn a_layer_2_primary_network_without_room_is_refused_instead_of_ending_the_manager() {
    for (subnet, longest) in
        [("10.77.0.0/31", 30), ("10.77.1.0/32", 30), ("fd00::/127", 126), ("fd00::1/128", 126)]
    {
        refused(
            "v-l2-small",
            &spec("Layer2", &json!({"role": "Primary", "subnets": [subnet]})),
            &dual_stack(),
            &format!(
                "failed to render CNI network config: subnet {subnet} is too small for a layer2 primary network, which \
                 needs addresses for its gateway and management ports; use a prefix length of at most {longest}"
            ),
        );
    }
}

#[test]
fn fields_of_a_feature_that_is_off_are_dropped_and_told() {
    let value = spec(
        "Layer2",
        &json!({"role": "Primary", "subnets": ["10.50.0.0/16"],
        "defaultGatewayIPs": ["10.50.2.7"], "reservedSubnets": ["10.50.4.0/24"]}),
    );
    let off = Cluster { features: BTreeSet::new(), ..cluster() };
    let found = rendered(&Is::Udn("n", "u"), &value, None, &off).unwrap();
    assert_eq!(found.ignored, ["reservedSubnets", "defaultGatewayIPs"]);
    assert!(!found.config.render().contains("reservedSubnets"));
    assert!(rendered(&Is::Udn("n", "u"), &value, None, &cluster()).unwrap().ignored.is_empty());
}

#[test]
fn checks_come_in_upstreams_order() {
    let off = Cluster { features: BTreeSet::new(), gateway_mode: GatewayMode::Other, ..cluster() };
    let prefix = "failed to render CNI network config: ";
    // Persistent addresses without addresses, before the subnets that are missing.
    let ipam = |ipam: Value, subnets: Value| {
        spec("Layer2", &json!({"role": "Secondary", "subnets": subnets, "ipam": ipam}))
    };
    let persistent = json!({"mode": "Disabled", "lifecycle": "Persistent"});
    refused(
        "a",
        &ipam(persistent, json!(["10.0.0.0/24"])),
        &off,
        &format!("{prefix}lifecycle Persistent is only supported when ipam.mode is Enabled"),
    );
    refused(
        "a",
        &ipam(json!({"mode": "Enabled"}), json!([])),
        &off,
        &format!("{prefix}subnets is required with ipam.mode is Enabled or unset"),
    );
    refused(
        "a",
        &ipam(json!({"mode": "Disabled"}), json!(["10.0.0.0/24"])),
        &off,
        &format!("{prefix}subnets must be unset when ipam.mode is Disabled"),
    );
    refused(
        "a",
        &ipam(json!({"mode": "Later"}), json!(["10.0.0.0/24"])),
        &off,
        &format!(r#"{prefix}ipam.mode "Later" is not known to this version"#),
    );
    refused(
        "a",
        &ipam(json!({"lifecycle": "Later"}), json!(["10.0.0.0/24"])),
        &off,
        &format!(r#"{prefix}ipam.lifecycle "Later" is not known to this version"#),
    );
    // A switched-off feature before subnets that overlap.
    let both = ipam(json!({"lifecycle": "Persistent"}), json!(["10.96.0.0/24"]));
    refused("a", &both, &off, &format!("{prefix}allowPersistentIPs is set but persistentIPs is Disabled"));
    // But an overlap of a layer 2 primary network before anything that its config asks for.
    let value = spec(
        "Layer2",
        &json!({"role": "Primary", "subnets": ["10.96.0.0/24"], "ipam": {"lifecycle": "Persistent"}}),
    );
    let error = rendered(&Is::Cudn("a", "a"), &value, Some("up"), &off).unwrap_err();
    assert!(matches!(error, RenderError::Config(ConfigError::Transit(_))), "{error}");
    let value = spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.96.0.0/24"}]}));
    let error = rendered(&Is::Cudn("a", "a"), &value, Some("blue-uplink"), &off).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(r#"{prefix}uplink "blue-uplink" is supported only in shared gateway mode"#)
    );
}

#[test]
fn an_uplink_needs_shared_mode_and_nothing_else_does() {
    let value = spec("Layer3", &json!({"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16"}]}));
    let local = Cluster { gateway_mode: GatewayMode::Other, ..cluster() };
    assert!(rendered(&Is::Cudn("a", "a"), &value, None, &local).is_ok());
    let text = rendered(&Is::Cudn("a", "a"), &value, Some("br-test"), &cluster()).unwrap().config.render();
    assert!(text.contains(r#""uplink":"br-test""#), "{text}");
}

#[test]
fn a_spec_that_is_none_has_no_prefix() {
    refused(
        "a",
        &json!({"topology": "Layer2"}),
        &cluster(),
        "invalid topology specified: topology Layer2 is specified but Layer2 config is nil",
    );
    assert!(rendered(&Is::Cudn("a", "a"), &json!({"topology": "Layer9"}), None, &cluster()).is_err());
    let value = spec("Layer2", &json!({"role": "Secondary", "subnets": ["10.0.0.0/24"]}));
    let error = rendered(&Is::Cudn("", "a"), &value, None, &cluster()).unwrap_err();
    assert_eq!(error.to_string(), "namespace should not be empty");
}

#[test]
fn a_role_of_the_future_is_refused_and_not_taken_for_another() {
    let value = spec("Layer3", &json!({"role": "Tertiary", "subnets": [{"cidr": "10.20.0.0/16"}]}));
    refused(
        "a",
        &value,
        &cluster(),
        "failed to render CNI network config: invalid network role value Tertiary",
    );
}

#[test]
fn a_hand_written_layer_2_network_gets_its_transit_subnet_and_is_checked_alike() {
    let config = Config {
        name: "tenant".into(),
        nad_name: "n/mine".into(),
        topology: Some(Topology::Layer2),
        role: Some(Role::Primary),
        subnets: vec!["100.88.5.0/24".into()],
        ..Config::default()
    };
    let nad = NadKey::new("n", "mine");
    let (full, addresses) = accept(&config, &nad, &cluster()).unwrap();
    assert_eq!(full.transit_subnets, ["100.89.0.0/16"]);
    assert_eq!(addresses.transit, nets(&["100.89.0.0/16"]));
    assert_eq!(accept(&full, &nad, &cluster()).unwrap().0, full, "what it names stays");
    let taken = Config { transit_subnets: vec!["100.88.0.0/16".into()], ..config.clone() };
    assert!(matches!(accept(&taken, &nad, &cluster()), Err(ConfigError::Overlap(_))));
    let other = accept(&config, &NadKey::new("n", "other"), &cluster()).unwrap_err();
    assert_eq!(other.to_string(), "net-attach-def name (n/other) is inconsistent with config (n/mine)");
    let services = Config { subnets: vec!["10.96.0.0/24".into()], ..config.clone() };
    assert_eq!(
        accept(&services, &nad, &cluster()).unwrap_err().to_string(),
        "failed to set dynamic transit subnet for layer2 primary NAD n/mine: pod or join subnet overlaps with already \
         configured internal subnets: user defined subnet \"10.96.0.0/24\" overlaps service subnet \"10.96.0.0/16\""
    );
    let secondary = Config { role: None, ..config };
    assert!(accept(&secondary, &nad, &cluster()).unwrap().0.transit_subnets.is_empty());
}
