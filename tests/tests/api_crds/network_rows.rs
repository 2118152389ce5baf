//! The tables of examples about networks: what the API takes at creation, and what may change later.

use serde_json::{Value, json};

use super::cases::{Case, strict};
use super::rows::UNCHECKED;

/// The namespace of the namespaced ones.
pub(crate) const NAMESPACE: &str = "t";

/// A request and how the API's reasons for refusing it end; without reasons it is taken.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) previous: Option<Value>,
    pub(crate) manifest: Value,
    pub(crate) reasons: Vec<String>,
}

impl Row {
    fn new(name: &'static str, manifest: Value, reasons: &[&str]) -> Self {
        let reasons = reasons.iter().map(ToString::to_string).collect();
        Self { name, previous: None, manifest, reasons }
    }

    /// The same network as one of a namespace and as one of the cluster.
    fn both(name: &'static str, network: &Value, reasons: &[&str]) -> [Self; 2] {
        [Self::new(name, udn(network), reasons), Self::new(name, cudn(network), reasons)]
    }

    fn update(name: &'static str, previous: Value, manifest: Value, reasons: &[&str]) -> Self {
        Self { previous: Some(previous), ..Self::new(name, manifest, reasons) }
    }

    /// The request alone, to be sent.
    pub(crate) fn case(&self) -> Case {
        Case {
            name: self.name.to_owned(),
            manifest: self.manifest.clone(),
            previous: self.previous.clone(),
            subresource: None,
            field_validation: strict(),
            code: if !self.reasons.is_empty() {
                422
            } else if self.previous.is_some() {
                200
            } else {
                201
            },
            message: String::new(),
            causes: None,
            stored: None,
            generation: None,
            warning: None,
        }
    }
}

/// A network of a namespace.
pub(crate) fn udn(spec: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": "row", "namespace": NAMESPACE}, "spec": spec,
    })
}

/// A network of the cluster.
pub(crate) fn cudn(network: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": "row"},
        "spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "network": network},
    })
}

/// A value with other values in it.
fn with(mut value: Value, changes: Value) -> Value {
    if let (Some(fields), Value::Object(changes)) = (value.as_object_mut(), changes) {
        for (key, change) in changes {
            match change {
                Value::Null => drop(fields.remove(&key)),
                change => drop(fields.insert(key, change)),
            }
        }
    }
    value
}

fn layer3(changes: Value) -> Value {
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}]});
    json!({"topology": "Layer3", "layer3": with(layer3, changes)})
}

/// A Layer3 network of these subnets, each with its prefix length of nodes or 0 for none.
fn subnets(role: &str, subnets: &[(&str, i32)]) -> Value {
    let subnets: Vec<Value> = subnets
        .iter()
        .map(|(cidr, host)| {
            with(json!({"cidr": cidr}), if *host == 0 { json!({}) } else { json!({"hostSubnet": host}) })
        })
        .collect();
    layer3(json!({"role": role, "subnets": subnets}))
}

fn layer2(changes: Value) -> Value {
    json!({"topology": "Layer2", "layer2": with(json!({"role": "Primary", "subnets": ["10.20.0.0/16"]}), changes)})
}

fn localnet(changes: Value) -> Value {
    let localnet = json!({"role": "Secondary", "physicalNetworkName": "p", "subnets": ["10.20.0.0/16"]});
    json!({"topology": "Localnet", "localnet": with(localnet, changes)})
}

fn evpn(network: Value, evpn: &Value) -> Value {
    with(network, json!({"transport": "EVPN", "evpn": evpn}))
}

fn route_target(target: &str) -> Value {
    cudn(&evpn(layer3(json!({})), &json!({"vtep": "v", "ipVRF": {"vni": 1, "routeTarget": target}})))
}

fn no_overlay(network: Value) -> Value {
    with(
        network,
        json!({"transport": "NoOverlay", "noOverlay": {"outboundSNAT": "Enabled", "routing": "Managed"}}),
    )
}

fn uplinks(network: &Value, names: &Value) -> Value {
    with_spec(cudn(network), json!({"uplinks": names}))
}

fn with_spec(mut manifest: Value, changes: Value) -> Value {
    if let Some(spec) = manifest.get_mut("spec") {
        *spec = with(spec.take(), changes);
    }
    manifest
}

const UNION_3: &str = "spec.layer3 is required when topology is Layer3 and forbidden otherwise";
const UNION_2: &str = "spec.layer2 is required when topology is Layer2 and forbidden otherwise";
const SAME_LENGTH: &str = "Subnets from the same IP family must use the same hostSubnet value";
const OVERLAP: &str = "Subnets must not overlap or contain each other";
const SMALLER: &str = "HostSubnet must be smaller than CIDR subnet";
const BELOW_32: &str = "HostSubnet must < 32 for ipv4 CIDR";
const MTU: &str = "MTU should be greater than or equal to 1280 when IPv6 subnet is used";
const FAMILIES: &str = "When 2 CIDRs are set, they must be from different IP families";
const UPLINKS: &str = "spec.uplinks is supported only for primary Layer2 and Layer3 networks";
const REMOVED: &str = "Removing existing subnets is not allowed";
const HOST_SUBNET: &str = "hostSubnet is immutable";

/// Creation: topologies and Layer3.
fn creation_layer3() -> Vec<Row> {
    let only_layer3 = with(layer3(json!({})), json!({"topology": "Layer2"}));
    let mut rows = vec![
        Row::new(
            "a namespaced network of topology Localnet",
            udn(&json!({"topology": "Localnet"})),
            &[r#"Unsupported value: "Localnet": supported values: "Layer2", "Layer3""#, UNCHECKED.1],
        ),
        Row::new(
            "no subnets, namespaced",
            udn(&layer3(json!({"subnets": []}))),
            &["spec.layer3.subnets in body should have at least 1 items"],
        ),
        Row::new(
            "no subnets",
            cudn(&layer3(json!({"subnets": []}))),
            &["spec.network.layer3.subnets in body should have at least 1 items"],
        ),
    ];
    let many: Vec<Value> =
        (0..401).map(|n| json!({"cidr": format!("10.{}.{}.0/24", n / 250, n % 250)})).collect();
    let both = [
        Row::both("topology Layer2 with only layer3 set", &only_layer3, &[UNION_3, UNION_2]),
        Row::both(
            "401 subnets",
            &layer3(json!({"subnets": many})),
            &["Too many: 401: must have at most 400 items", UNCHECKED.1],
        ),
        Row::both(
            "hostSubnet as long as the subnet",
            &subnets("Primary", &[("10.10.0.0/16", 16)]),
            &[SMALLER],
        ),
        Row::both("hostSubnet 32 of IPv4", &subnets("Primary", &[("10.10.0.0/16", 32)]), &[BELOW_32]),
        Row::both("hostSubnet 80 of IPv6", &subnets("Primary", &[("fd00::/48", 80)]), &[]),
        Row::both(
            "two IPv4 subnets without hostSubnet",
            &subnets("Primary", &[("10.0.0.0/16", 0), ("10.1.0.0/16", 0)]),
            &[],
        ),
        Row::both(
            "two IPv4 subnets of which one has a hostSubnet",
            &subnets("Primary", &[("10.0.0.0/16", 24), ("10.1.0.0/16", 0)]),
            &[SAME_LENGTH],
        ),
        Row::both(
            "a subnet in another",
            &subnets("Primary", &[("10.0.0.0/16", 26), ("10.0.1.0/24", 26)]),
            &[OVERLAP],
        ),
        Row::both(
            "a secondary network of three subnets",
            &subnets("Secondary", &[("10.0.0.0/16", 0), ("10.1.0.0/16", 0), ("fd00::/48", 0)]),
            &["Secondary networks may define at most 2 subnets"],
        ),
        Row::both(
            "one subnet in two notations",
            &subnets("Primary", &[("10.20.0.0/16", 24), ("10.20.0.1/16", 24)]),
            &[OVERLAP],
        ),
        Row::both(
            "one subnet twice",
            &subnets("Primary", &[("10.20.0.0/16", 24), ("10.20.0.0/16", 24)]),
            &["Subnets with same CIDR are not allowed"],
        ),
        Row::both(
            "a subnet beside what is none",
            &subnets("Primary", &[("10.20.0.0/16", 0), ("bad", 0)]),
            &[
                "CIDR is invalid",
                r#"netip.ParsePrefix("bad"): no '/' evaluating rule: Subnets must not overlap or contain each other"#,
            ],
        ),
    ];
    rows.extend(both.into_iter().flatten());
    rows
}

/// Creation: numbers of Layer3.
fn creation_numbers() -> Vec<Row> {
    let both = [
        Row::both(
            "hostSubnet 0",
            &layer3(json!({"subnets": [{"cidr": "10.10.0.0/16", "hostSubnet": 0}]})),
            &["hostSubnet in body should be greater than or equal to 1", SMALLER],
        ),
        Row::both(
            "hostSubnet 128",
            &subnets("Primary", &[("10.10.0.0/16", 128)]),
            &["hostSubnet in body should be less than or equal to 127", BELOW_32],
        ),
        Row::both(
            "mtu 575",
            &layer3(json!({"mtu": 575})),
            &["mtu in body should be greater than or equal to 576"],
        ),
        Row::both(
            "mtu 65537",
            &layer3(json!({"mtu": 65537})),
            &["mtu in body should be less than or equal to 65536"],
        ),
        Row::both(
            "mtu 1279 with one IPv6 subnet",
            &layer3(json!({"mtu": 1279, "subnets": [{"cidr": "fd00::/48"}]})),
            &[MTU],
        ),
        Row::both(
            "mtu 1279 with two IPv6 subnets",
            &layer3(json!({"mtu": 1279, "subnets": [{"cidr": "fd00::/48"}, {"cidr": "fd01::/48"}]})),
            &[],
        ),
    ];
    both.into_iter().flatten().collect()
}

/// Creation: Layer2 and Localnet.
fn creation_switched() -> Vec<Row> {
    let off = json!({"mode": "Disabled"});
    let both = [
        Row::both(
            "a primary network without addresses",
            &layer2(json!({"subnets": null, "ipam": off})),
            &["Disabled ipam.mode is only supported for Secondary network"],
        ),
        Row::both(
            "persistent addresses where addresses are off",
            &layer2(
                json!({"role": "Secondary", "subnets": null, "ipam": {"mode": "Disabled", "lifecycle": "Persistent"}}),
            ),
            &["lifecycle Persistent is only supported when ipam.mode is Enabled"],
        ),
        Row::both(
            "empty ipam",
            &layer2(json!({"ipam": {}})),
            &["ipam in body should have at least 1 properties"],
        ),
        Row::both(
            "persistent addresses, mode unset",
            &layer2(json!({"ipam": {"lifecycle": "Persistent"}})),
            &[],
        ),
        Row::both(
            "two IPv4 subnets",
            &layer2(json!({"subnets": ["10.0.0.0/16", "10.1.0.0/16"]})),
            &[FAMILIES],
        ),
        Row::both(
            "two families with a gateway of one",
            &layer2(json!({"subnets": ["10.20.0.0/16", "fd00::/64"], "defaultGatewayIPs": ["10.20.0.1"]})),
            &["defaultGatewayIPs must be specified for all IP families"],
        ),
        Row::both(
            "one family with two gateways of it",
            &layer2(json!({"defaultGatewayIPs": ["10.20.0.1", "10.20.0.2"]})),
            &[
                "defaultGatewayIPs must be specified for all IP families",
                "When 2 IPs are set, they must be from different IP families",
            ],
        ),
        Row::both(
            "gateways without subnets",
            &layer2(json!({"subnets": null, "defaultGatewayIPs": ["10.20.0.1"]})),
            &[
                "Subnets is required with ipam.mode is Enabled or unset",
                "no such key: subnets evaluating rule: defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
                "no such key: subnets evaluating rule: defaultGatewayIPs must be specified for all IP families",
            ],
        ),
        Row::both(
            "reserved subnets that overlap each other and are the whole",
            &layer2(json!({"reservedSubnets": ["10.20.0.0/16", "10.20.1.0/24", "10.20.1.0/25"]})),
            &[],
        ),
    ];
    let mut rows: Vec<Row> = both.into_iter().flatten().collect();
    let characters = "physicalNetworkName cannot contain `,` or `:` characters";
    let underlay = [
        (
            "two IPv4 subnets of the underlay",
            json!({"subnets": ["10.0.0.0/16", "10.1.0.0/16"]}),
            vec![FAMILIES],
        ),
        (
            "VLAN 0",
            json!({"vlan": {"mode": "Access", "access": {"id": 0}}}),
            vec!["spec.network.localnet.vlan.access.id in body should be greater than or equal to 1"],
        ),
        (
            "VLAN 4095",
            json!({"vlan": {"mode": "Access", "access": {"id": 4095}}}),
            vec!["spec.network.localnet.vlan.access.id in body should be less than or equal to 4094"],
        ),
        (
            "an access port without a VLAN",
            json!({"vlan": {"mode": "Access"}}),
            vec!["vlan access config is required when vlan mode is 'Access', and forbidden otherwise"],
        ),
        (
            "an underlay without a name",
            json!({"physicalNetworkName": ""}),
            vec!["physicalNetworkName in body should be at least 1 chars long", characters],
        ),
        (
            "an underlay of 254 letters",
            json!({"physicalNetworkName": "p".repeat(254)}),
            vec!["Too long: may not be more than 253 bytes", UNCHECKED.1],
        ),
        ("an underlay with a colon", json!({"physicalNetworkName": "a:b"}), vec![characters]),
        ("an underlay with a comma", json!({"physicalNetworkName": "a,b"}), vec![characters]),
        ("excluded subnets outside", json!({"excludeSubnets": ["192.0.2.0/24"]}), vec![]),
    ];
    rows.extend(
        underlay
            .into_iter()
            .map(|(name, changes, reasons)| Row::new(name, cudn(&localnet(changes)), &reasons)),
    );
    rows
}

/// Creation: transports and Uplinks.
fn creation_outside() -> Vec<Row> {
    let bad_targets = [
        ("65000", "RT must contain exactly one colon"),
        ("a:1", "RT global administrator must be either '*', an IPv4 address, or a number"),
        ("65000:x", "RT local administrator must be a number"),
        (
            "100000:65536",
            "RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN <= 65535",
        ),
        ("1.2.3.4:65536", "RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535"),
        (
            "*:4294967296",
            "RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295",
        ),
    ];
    let good_targets = [
        "65000:100",
        "100000:100",
        "192.168.1.1:200",
        "*:100",
        "255.255.255.255:65535",
        "0:0",
        "*:0",
        "4294967296:1",
    ];
    let mut rows: Vec<Row> =
        good_targets
            .iter()
            .map(|target| Row::new("a route target that is one", route_target(target), &[]))
            .chain(bad_targets.iter().map(|(target, reason)| {
                Row::new("a route target that is none", route_target(target), &[reason])
            }))
            .collect();
    rows.extend([
        Row::new(
            "EVPN without its settings",
            cudn(&with(layer3(json!({})), json!({"transport": "EVPN"}))),
            &[
                "spec.evpn field is required when transport is 'EVPN'",
                "spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
            ],
        ),
        Row::new(
            "two Uplinks",
            uplinks(&layer3(json!({})), &json!(["a", "b"])),
            &["Too many: 2: must have at most 1 item", UNCHECKED.1],
        ),
        Row::new(
            "an Uplink that no name can be",
            uplinks(&layer3(json!({})), &json!(["Br_1"])),
            &["spec.uplinks[0] in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'"],
        ),
        Row::new(
            "an Uplink of a secondary network",
            uplinks(&layer3(json!({"role": "Secondary"})), &json!(["a"])),
            &[UPLINKS],
        ),
        Row::new("an Uplink of the underlay", uplinks(&localnet(json!({})), &json!(["a"])), &[UPLINKS]),
        Row::new(
            "an Uplink with EVPN",
            uplinks(&evpn(layer3(json!({})), &json!({"vtep": "v", "ipVRF": {"vni": 1}})), &json!(["a"])),
            &["spec.uplinks is not supported with EVPN transport"],
        ),
        Row::new("an Uplink without overlay", uplinks(&no_overlay(layer3(json!({}))), &json!(["a"])), &[]),
    ]);
    rows
}

/// What may change.
fn changes() -> Vec<Row> {
    let primary = |list: &[(&str, i32)]| cudn(&subnets("Primary", list));
    let secondary = |list: &[(&str, i32)]| udn(&subnets("Secondary", list));
    let (a, b) = (("10.0.0.0/16", 24), ("10.1.0.0/16", 24));
    let net3 = |changes: Value| cudn(&layer3(changes));
    let with_vni = |vni: i32| cudn(&evpn(layer3(json!({})), &json!({"vtep": "v", "ipVRF": {"vni": vni}})));
    let plain = net3(json!({}));
    let routed = cudn(&no_overlay(layer3(json!({}))));
    let managed = json!({"noOverlay": {"outboundSNAT": "Enabled", "routing": "Unmanaged"}});
    let outside = |names: &Value| uplinks(&layer3(json!({})), names);
    vec![
        Row::update(
            "a secondary network gets a subnet",
            secondary(&[a]),
            secondary(&[a, ("fd00::/48", 0)]),
            &["Subnets is immutable for Secondary role"],
        ),
        Row::update("a primary network gets a subnet", primary(&[a]), primary(&[a, b]), &[]),
        Row::update("subnets in another order", primary(&[a, b]), primary(&[b, a]), &[]),
        Row::update(
            "a subnet in another notation",
            primary(&[a]),
            primary(&[("10.0.0.1/16", 24)]),
            &[REMOVED, HOST_SUBNET],
        ),
        Row::update("another subnet", primary(&[a]), primary(&[b]), &[REMOVED, HOST_SUBNET]),
        Row::update("a subnet less", primary(&[a, b]), primary(&[a]), &[REMOVED, HOST_SUBNET]),
        Row::update("another hostSubnet", primary(&[a]), primary(&[("10.0.0.0/16", 25)]), &[HOST_SUBNET]),
        Row::update("another topology", plain.clone(), cudn(&layer2(json!({}))), &["Topology is immutable"]),
        Row::update(
            "another role",
            plain.clone(),
            net3(json!({"role": "Secondary"})),
            &["role is immutable"],
        ),
        Row::update(
            "anything of a Layer2 network",
            udn(&layer2(json!({}))),
            udn(&layer2(json!({"mtu": 1300}))),
            &["Layer2 is immutable"],
        ),
        Row::update(
            "anything of a Localnet network",
            cudn(&localnet(json!({}))),
            cudn(&localnet(json!({"mtu": 1300}))),
            &["Localnet is immutable"],
        ),
        Row::update(
            "another mtu",
            net3(json!({"mtu": 1300})),
            net3(json!({"mtu": 1400})),
            &["mtu is immutable"],
        ),
        Row::update(
            "other join subnets",
            net3(json!({"joinSubnets": ["100.70.0.0/16"]})),
            net3(json!({"joinSubnets": ["100.71.0.0/16"]})),
            &["joinSubnets is immutable"],
        ),
        Row::update("another transport", routed.clone(), with_vni(1), &["Transport is immutable"]),
        Row::update(
            "other settings without overlay",
            routed.clone(),
            cudn(&with(no_overlay(layer3(json!({}))), managed)),
            &["NoOverlay is immutable"],
        ),
        Row::update(
            "another Uplink",
            outside(&json!(["a"])),
            outside(&json!(["b"])),
            &["uplinks is immutable"],
        ),
        // A rule about a change says nothing where the value is absent before or after it.
        Row::update("an mtu where there was none", plain.clone(), net3(json!({"mtu": 1300})), &[]),
        Row::update("no mtu where there was one", net3(json!({"mtu": 1300})), plain.clone(), &[]),
        Row::update(
            "join subnets where there were none",
            plain.clone(),
            net3(json!({"joinSubnets": ["100.70.0.0/16"]})),
            &[],
        ),
        Row::update("a transport where there was none", plain.clone(), routed.clone(), &[]),
        Row::update("no transport where there was one", routed, plain.clone(), &[]),
        Row::update("an Uplink where there was none", plain.clone(), outside(&json!(["a"])), &[]),
        Row::update("no Uplink where there was one", outside(&json!(["a"])), plain.clone(), &[]),
        Row::update("another VNI", with_vni(1), with_vni(2), &[]),
        Row::update(
            "other namespaces",
            plain.clone(),
            with_spec(plain, json!({"namespaceSelector": {}})),
            &[],
        ),
    ]
}

/// All rows about networks.
pub(crate) fn rows() -> Vec<Row> {
    [creation_layer3(), creation_numbers(), creation_switched(), creation_outside(), changes()]
        .into_iter()
        .flatten()
        .collect()
}
