use std::collections::BTreeMap;

use causeway_agent::half::NotObserved;
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::publish::Failure;
use causeway_net::wire::Wire;

use super::*;

/// Addresses by interface.
struct Eyes(BTreeMap<&'static str, Vec<&'static str>>);

impl HostSide for Eyes {
    fn host_data(&self, interface: &str) -> Result<Result<HostData, Failure>, NotObserved> {
        let Some(addresses) = self.0.get(interface) else {
            let text = format!("host interface {interface} was not found: Link not found");
            return Ok(Err(Failure::new(DiscoveryReason::HostInterfaceNotFound, text)));
        };
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let mac = "02:00:00:00:00:01".parse().unwrap();
        Ok(Ok(HostData { mac, addresses, gateways: Vec::new(), function: None }))
    }

    fn wire(&self, _interface: &str) -> Result<Wire, NotObserved> {
        Ok(Wire::default())
    }
}

fn options() -> Options {
    Options {
        families: Families { ipv4: true, ipv6: false },
        masquerade: SubnetPair { v4: "169.254.0.0/17".parse().unwrap(), v6: "fd69::/125".parse().unwrap() },
        has_card: false,
        gateway_interface: None,
    }
}

fn node() -> NodeView {
    NodeView { name: "node1".into(), address: Some("172.30.0.2".parse().unwrap()), ..NodeView::default() }
}

fn found(addresses: &[(&str, &str)]) -> Vec<Found> {
    let found = |(interface, net): &(&str, &str)| Found {
        interface: (*interface).to_owned(),
        net: net.parse().unwrap(),
    };
    addresses.iter().map(found).collect()
}

/// What the captured node had: `ip addr` of its runs.
const CAPTURED: [(&str, &str); 9] = [
    ("lo", "127.0.0.1/8"),
    ("lo", "::1/128"),
    ("br-ex", "172.30.0.2/24"),
    ("br-ex", "169.254.0.2/17"),
    ("br-ex", "fe80::42:acff:fe1e:2/64"),
    ("ovn-k8s-mp0", "10.128.0.2/24"),
    ("ovn-k8s-mp0", "fe80::858:aff:fe80:2/64"),
    ("ovn-k8s-mp1", "10.200.0.2/24"),
    ("blue", "fe80::c5f:eeff:fe45:4217/64"),
];

fn facts_of(
    options: &Options,
    node: &NodeView,
    addresses: &[(&str, &str)],
    eyes: &[(&'static str, &[&'static str])],
) -> Facts {
    let eyes = eyes.iter().map(|(name, addresses)| (*name, addresses.to_vec())).collect();
    facts(options, node, &found(addresses), &Eyes(eyes))
}

fn told(facts: &Facts, key: &str) -> String {
    let problems = facts.problems.iter().map(ToString::to_string);
    let missing = || problems.chain(facts.waiting.iter().cloned()).collect::<Vec<_>>().join("; ");
    facts.annotations.get(key).cloned().flatten().unwrap_or_else(missing)
}

#[test]
fn annotations_equal_byte_for_byte_what_upstream_wrote_on_the_captured_nodes() {
    let facts = facts_of(&options(), &node(), &CAPTURED, &[]);
    for run in ["01-default-v4", "03-cudn-l3-primary", "04-cudn-l2-primary", "06-secondary"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/topology");
        let text = std::fs::read_to_string(format!("{folder}/{run}/nodes.json")).unwrap();
        let nodes: serde_json::Value = serde_json::from_str(&text).unwrap();
        let have = &nodes[0]["metadata"]["annotations"];
        for key in [keys::HOST_CIDRS, keys::MASQUERADE_SUBNETS] {
            assert_eq!(facts.annotations[key].as_deref(), have[key].as_str(), "{run}: {key}");
        }
    }
    assert_eq!(facts.annotations.len(), 2);
}

#[test]
fn every_own_address_of_the_clusters_families_is_told_sorted_as_text() {
    let mut both = options();
    both.families.ipv6 = true;
    let addresses = [
        ("br-ex", "172.30.0.2/24"),
        ("br-blue", "172.31.0.2/24"),
        ("eth9", "10.0.0.9/8"),
        ("br-ex", "fc00::2/64"),
        ("br-ex", "fd69::2/112"),
        ("eth9", "169.254.200.1/16"),
        ("lo", "198.51.100.7/32"),
    ];
    let cidrs = told(&facts_of(&both, &node(), &addresses, &[]), keys::HOST_CIDRS);
    // fd69::2 is one of the masquerade range's eight.
    let want = r#"["10.0.0.9/8","172.30.0.2/24","172.31.0.2/24","198.51.100.7/32","fc00::2/64"]"#;
    assert_eq!(cidrs, want);
    let v4 = told(&facts_of(&options(), &node(), &addresses, &[]), keys::HOST_CIDRS);
    assert_eq!(v4, r#"["10.0.0.9/8","172.30.0.2/24","172.31.0.2/24","198.51.100.7/32"]"#);
}

#[test]
fn addresses_that_are_lent_to_egress_ips_are_not_the_nodes() {
    let addresses = [("br-ex", "172.30.0.2/24"), ("br-ex", "172.30.0.77/24"), ("eth9", "10.0.0.77/24")];
    let mut node = node();
    node.annotations.insert("k8s.ovn.org/bridge-egress-ips".into(), r#"["172.30.0.77"]"#.into());
    node.annotations.insert("k8s.ovn.org/secondary-host-egress-ips".into(), r#"["10.0.0.77"]"#.into());
    assert_eq!(told(&facts_of(&options(), &node, &addresses, &[]), keys::HOST_CIDRS), r#"["172.30.0.2/24"]"#);
    node.annotations.insert("k8s.ovn.org/bridge-egress-ips".into(), "broken".into());
    let cidrs = told(&facts_of(&options(), &node, &addresses, &[]), keys::HOST_CIDRS);
    assert_eq!(cidrs, r#"["172.30.0.2/24","172.30.0.77/24"]"#);
}

#[test]
fn a_node_without_addresses_is_not_said_to_have_none() {
    let facts = facts_of(&options(), &node(), &[("lo", "127.0.0.1/8")], &[]);
    assert_eq!(told(&facts, keys::HOST_CIDRS), "this node has no address of the cluster's families");
}

#[test]
fn the_host_of_a_card_tells_its_own_address_and_that_of_its_gateway_interface() {
    let behind = Options { has_card: true, ..options() };
    let addresses = [("lo", "127.0.0.1/8"), ("eno1", "172.30.0.2/24"), ("enp3", "192.0.2.16/24")];
    let eyes: &[(&str, &[&str])] = &[("eno1", &["172.30.0.2/24"]), ("enp3", &["192.0.2.16/24"])];
    let facts = facts_of(&behind, &node(), &addresses, eyes);
    assert_eq!(told(&facts, keys::HOST_CIDRS), r#"["172.30.0.2/24"]"#);
    assert_eq!(told(&facts, keys::DPU_HOST_ADDRESSES), r#"{"ipv4":"172.30.0.2/24"}"#);
    let other = Options { gateway_interface: Some("enp3".into()), ..behind.clone() };
    let facts = facts_of(&other, &node(), &addresses, eyes);
    assert_eq!(told(&facts, keys::HOST_CIDRS), r#"["172.30.0.2/24","192.0.2.16/24"]"#);
    assert_eq!(told(&facts, keys::DPU_HOST_ADDRESSES), r#"{"ipv4":"192.0.2.16/24"}"#);
    assert_eq!(told(&facts, keys::MASQUERADE_SUBNETS), r#"{"ipv4":"169.254.0.0/17","ipv6":"fd69::/125"}"#);
}

#[test]
fn what_the_host_of_a_card_lacks_is_said() {
    let behind = Options { has_card: true, ..options() };
    let addresses = [("eno1", "172.30.0.2/24")];
    let eyes: &[(&str, &[&str])] = &[("eno1", &["172.30.0.2/24"])];
    let key = keys::HOST_CIDRS;
    let nowhere = NodeView { address: None, ..node() };
    let text = told(&facts_of(&behind, &nowhere, &addresses, eyes), key);
    assert_eq!(text, "node1 doesn't have an address with type InternalIP or ExternalIP");
    let elsewhere = NodeView { address: Some("198.51.100.1".parse().unwrap()), ..node() };
    let text = told(&facts_of(&behind, &elsewhere, &addresses, eyes), key);
    assert_eq!(text, "GatewayInfoUnavailable: failed to find network interface with IP: 198.51.100.1");
    for (name, want) in [
        ("enp9", "HostInterfaceNotFound: host interface enp9 was not found: Link not found"),
        ("derive-from-mgmt-port", "GatewayInfoUnavailable: --gateway-interface=derive-from-mgmt-port comes"),
    ] {
        let named = Options { gateway_interface: Some(name.into()), ..behind.clone() };
        let text = told(&facts_of(&named, &node(), &addresses, eyes), key);
        assert!(text.starts_with(want), "{text}");
    }
}
