use causeway_runtime::settings::GatewayMode;

use super::super::plan::fixture::{Flavour, Interfaces, Machine, netdev, route};
use super::*;
use crate::discovery::representor::LocalKind;

fn hops(text: &str, ipv4: bool, ipv6: bool) -> String {
    match configured_hops(Some(text), Families { ipv4, ipv6 }) {
        Ok(hops) => hops.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn next_hops_are_at_most_one_of_each_family_that_the_cluster_has() {
    for (text, ipv4, ipv6, want) in [
        ("172.30.0.1", true, false, "172.30.0.1"),
        ("172.30.0.1,fc00::1", true, true, "172.30.0.1 fc00::1"),
        ("fc00::1,172.30.0.1", true, true, "fc00::1 172.30.0.1"),
        ("172.30.0.1,fc00::1", true, false, "172.30.0.1"),
        ("172.30.0.1,172.30.0.2", true, false, "only one IPv4 next-hop is allowed: 172.30.0.1,172.30.0.2"),
        ("fc00::1,fc00::2", false, true, "only one IPv6 next-hop is allowed: fc00::1,fc00::2"),
        ("172.30.0.x", true, false, "failed to parse configured next-hop: 172.30.0.x"),
        (
            "172.30.0.1,fc00::1,172.30.0.2",
            true,
            true,
            "unexpected next-hops are provided, more than 2 next-hops is not allowed: 172.30.0.1,fc00::1,172.30.0.2",
        ),
    ] {
        assert_eq!(hops(text, ipv4, ipv6), want);
    }
}

/// The way out of a node whose interface and next hops are not configured.
fn unconfigured(defaults: Vec<DefaultRoute>) -> Machine {
    let mut node = Machine::captured();
    (node.options.gateway.interface, node.options.gateway.next_hops) = (None, None);
    node.kernel.defaults = defaults;
    node
}

#[test]
fn the_default_route_with_the_lowest_metric_says_where_the_way_out_is() {
    let node = unconfigured(vec![route("eth7", "192.0.2.1", 100), route("br-ex", "172.30.0.254", 5)]);
    assert!(node.gateway().contains(r#""bridge-id":"br-ex""#), "{}", node.gateway());
    assert!(node.gateway().contains(r#""next-hops":["172.30.0.254"]"#), "{}", node.gateway());
}

#[test]
fn families_whose_default_routes_disagree_need_a_configured_interface() {
    let mut node = unconfigured(vec![route("br-ex", "172.30.0.1", 0), route("eth7", "fe80::1", 0)]);
    node.options.families.ipv6 = true;
    let want =
        "NoDefaultGateway: IPv4 and IPv6 have default routes over different interfaces, br-ex and eth7";
    assert!(node.gateway().starts_with(want), "{}", node.gateway());
}

#[test]
fn a_configured_interface_without_a_default_route_has_no_next_hop_and_a_local_one_the_dummy() {
    let mut node = unconfigured(vec![route("eth7", "192.0.2.1", 0)]);
    node.options.gateway.interface = Some("br-ex".into());
    assert!(!node.gateway().contains("next-hop"), "{}", node.gateway());
    node.options.mode = GatewayMode::Local;
    assert!(node.gateway().contains(r#""mode":"local""#), "{}", node.gateway());
    assert!(node.gateway().contains(r#""next-hop":"169.254.0.4""#), "{}", node.gateway());
}

#[test]
fn a_port_of_a_bridge_stands_for_the_bridge() {
    let mut node = Machine::captured();
    node.options.gateway.interface = Some("eth1".into());
    assert_eq!(node.gateway(), Machine::captured().gateway());
    // The default route may still be the port's: only the bridge's count then.
    node.options.gateway.next_hops = None;
    assert_eq!(node.gateway(), Machine::captured().gateway());
}

#[test]
fn only_where_the_host_routes_may_a_bridge_lack_a_physical_port() {
    for (mode, allowed, complete) in [
        (GatewayMode::Shared, false, false),
        (GatewayMode::Shared, true, false),
        (GatewayMode::Local, false, false),
        (GatewayMode::Local, true, true),
    ] {
        let mut node = Machine::captured();
        node.bridges[0].1.truncate(1);
        node.options.mode = mode;
        node.options.gateway.allow_no_uplink = allowed;
        assert_eq!(node.gateway().contains("bridge-id"), complete, "{mode:?} {allowed}: {}", node.gateway());
    }
}

/// A node whose gateway is a virtual function with its representor on a bridge.
fn accelerated() -> Machine {
    let mut node = Machine::captured();
    node.bridges[0] = ("ovsbr1".into(), vec!["p0:system".into(), "pf0vf1_rep:".into()]);
    let function = LocalFunction { pf_address: "0000:03:00.0".into(), kind: LocalKind::Vf(1) };
    node.functions = [("pf0vf1".to_owned(), function)].into();
    let mut representor = netdev("pf0vf1_rep", Flavour::Vf, None);
    representor.vf = Some(1);
    node.representors = Representors::Switchdev(vec![netdev("p0", Flavour::Physical, None), representor]);
    let vf = ("02:00:00:00:00:f1".to_owned(), vec!["172.30.0.2/24".to_owned()]);
    node.interfaces = Some(Interfaces([("pf0vf1".to_owned(), vf)].into()));
    node
}

#[test]
fn a_virtual_function_leads_out_by_its_representors_bridge_with_its_own_mac() {
    for configured in [true, false] {
        let mut node = accelerated();
        if configured {
            node.options.gateway.accelerated_interface = Some("pf0vf1".into());
            node.options.gateway.interface = Some("ovsbr1".into());
        } else {
            node.options.gateway.interface = Some("pf0vf1".into());
        }
        let want = r#""bridge-id":"ovsbr1","interface-id":"ovsbr1_node1","mac-address":"02:00:00:00:00:f1","ip-addresses":["172.30.0.2/24"]"#;
        assert!(node.gateway().contains(want), "{configured}: {}", node.gateway());
    }
}

#[test]
fn a_configured_function_has_to_have_a_representor_on_a_bridge() {
    let mut node = accelerated();
    node.options.gateway.accelerated_interface = Some("pf0vf1".into());
    node.bridges[0].1.truncate(1);
    let want = "NoGatewayBridge: gateway interface pf0vf1_rep is on no Open vSwitch bridge";
    assert!(node.gateway().starts_with(want), "{}", node.gateway());
    node.functions.clear();
    let want = "NoGatewayBridge: gateway interface pf0vf1 has no representor: it is no virtual function";
    assert!(node.gateway().starts_with(want), "{}", node.gateway());
}
