use causeway_api::annotation::GatewayMode;
use causeway_net::host_data::PciFunction;
use ovsdb::Snapshot;

use super::super::ovs::fixture::{BridgeText, snapshot, with_dangling_port};
use super::super::representor::{Flavour, LocalKind, Netdev};
use super::*;

const VF7_MAC: &str = "00:07:3d:f2:76:51";
const PF_MAC: &str = "00:73:58:6d:a1:b3";

fn host(mac: &str, function: Option<(u32, Option<u32>)>) -> HostData {
    HostData {
        mac: mac.parse().unwrap(),
        addresses: vec!["192.0.2.10/24".parse().unwrap()],
        gateways: vec![],
        function: function.map(|(pf, vf)| PciFunction { pf, vf }),
    }
}

fn device(name: &str, flavour: Flavour, pf: u32, vf: Option<u32>, peer: Option<&str>) -> Netdev {
    Netdev {
        name: name.into(),
        alias: None,
        flavour,
        controller: None,
        pf: Some(pf),
        vf,
        sf: None,
        device: Some("0000:03:00.0".into()),
        peer_mac: peer.map(|mac| mac.parse().unwrap()),
    }
}

/// The card of the reference's fixtures.
fn card() -> (Snapshot, Representors) {
    let bridges: &[BridgeText<'_>] = &[
        ("br-int", &["ovn-k8s-mp0:system"], None),
        ("br-host", &["p0:system", "pf0hpf:system"], None),
        ("br-vm", &["p1:system", "pf0vf0:system", "pf0vf5:system", "pf0vf6:system", "pf0vf7:system"], None),
    ];
    let devices = vec![
        device("pf0hpf", Flavour::Pf, 0, None, Some(PF_MAC)),
        device("pf0vf0", Flavour::Vf, 0, Some(0), Some("00:07:3d:f2:76:4a")),
        device("pf0vf5", Flavour::Vf, 0, Some(5), None),
        device("pf0vf6", Flavour::Vf, 0, Some(6), None),
        device("pf0vf7", Flavour::Vf, 0, Some(7), Some(VF7_MAC)),
        device("pf1vf0", Flavour::Vf, 1, Some(0), None),
    ];
    (snapshot(bridges, &[]), Representors::Switchdev(devices))
}

fn default_bridge(name: &str) -> DefaultGateway {
    DefaultGateway { mode: GatewayMode::Shared, bridge: name.into() }
}

fn view<'v>(
    ovs: &'v Snapshot,
    representors: &'v Representors,
    default_gateway: &'v Result<DefaultGateway, GatewayAnnotationError>,
) -> View<'v> {
    View { ovs: OvsView::new(ovs), representors, node: "node-a", default_gateway }
}

fn render(findings: &Findings) -> String {
    let bridge = findings.bridge.as_deref().unwrap_or("-");
    match &findings.verdict {
        Ok(message) => format!("{bridge} | {message}"),
        Err(failure) => format!("{bridge} | {}: {}", failure.reason, failure.message),
    }
}

#[track_caller]
fn check_card(host: HostData, want: &str) {
    let (ovs, representors) = card();
    check_dpu(&ovs, &representors, "breth0", Ok(host), want);
}

#[track_caller]
fn check_dpu(
    ovs: &Snapshot,
    representors: &Representors,
    default: &str,
    host: Result<HostData, Failure>,
    want: &str,
) {
    let default_gateway = Ok(default_bridge(default));
    let view = view(ovs, representors, &default_gateway);
    let findings = dpu(view, host).findings;
    assert_eq!(render(&findings), want);
    assert_eq!(findings.host, None, "a card never publishes the host's half");
}

#[test]
fn a_published_function_leads_to_the_bridge_of_its_representor() {
    check_card(
        host(VF7_MAC, Some((0, Some(7)))),
        "br-vm | Uplink DPU bridge discovery succeeded via host function",
    );
    check_card(
        host(PF_MAC, Some((0, None))),
        "br-host | Uplink DPU bridge discovery succeeded via host function",
    );
}

#[test]
fn a_function_whose_address_cannot_be_read_is_accepted_by_index() {
    for vf in [5, 6] {
        let host = host("02:00:00:00:00:05", Some((0, Some(vf))));
        check_card(host, "br-vm | Uplink DPU bridge discovery succeeded via host function");
    }
}

#[test]
fn without_a_function_the_address_leads_to_the_bridge() {
    for mac in [VF7_MAC, "00:07:3d:f2:76:4a"] {
        check_card(host(mac, None), "br-vm | Uplink DPU bridge discovery succeeded via host MAC");
    }
    check_card(host(PF_MAC, None), "br-host | Uplink DPU bridge discovery succeeded via host MAC");
}

#[test]
fn a_function_that_does_not_resolve_falls_back_to_the_address() {
    let (not_there, wrong_pf, on_no_bridge, other_mac) =
        ((0, Some(9)), (1, None), (1, Some(0)), (0, Some(0)));
    for function in [not_there, wrong_pf, on_no_bridge, other_mac] {
        check_card(
            host(VF7_MAC, Some(function)),
            "br-vm | Uplink DPU bridge discovery succeeded via host MAC",
        );
    }
}

#[test]
fn both_failures_are_told_when_neither_way_leads_anywhere() {
    check_card(
        host("02:00:00:00:00:99", Some((1, Some(0)))),
        "- | BridgeNotFound: failed to find DPU bridge for host MAC 02:00:00:00:00:99: \
         representor pf1vf0: OVS port or interface pf1vf0 not found: object not found",
    );
    check_card(
        host("02:00:00:00:00:99", None),
        "- | BridgeNotFound: failed to find DPU bridge for host MAC 02:00:00:00:00:99",
    );
}

#[test]
fn a_bridge_that_could_not_be_inspected_is_told_with_a_miss() {
    let (ovs, representors) = card();
    let ovs = with_dangling_port(&ovs, "br-host");
    check_dpu(
        &ovs,
        &representors,
        "breth0",
        Ok(host("02:00:00:00:00:99", None)),
        "- | BridgeNotFound: failed to find DPU bridge for host MAC 02:00:00:00:00:99: \
         OVS bridge br-host refers to 1 port(s) that do not exist",
    );
    check_dpu(
        &ovs,
        &representors,
        "breth0",
        Ok(host(VF7_MAC, None)),
        "br-vm | Uplink DPU bridge discovery succeeded via host MAC",
    );
}

#[test]
fn a_card_that_waits_for_its_host_clears_its_bridge() {
    let (ovs, representors) = card();
    let waiting =
        Failure::new(DiscoveryReason::WaitingForDpuHost, "waiting for DPU-host state for interface eth0");
    check_dpu(
        &ovs,
        &representors,
        "breth0",
        Err(waiting),
        "- | WaitingForDPUHost: waiting for DPU-host state for interface eth0",
    );
}

#[test]
fn a_rejected_bridge_is_published_with_its_rejection() {
    let (ovs, representors) = card();
    check_dpu(
        &ovs,
        &representors,
        "br-vm",
        Ok(host(VF7_MAC, None)),
        "br-vm | DefaultGatewayBridgeUnsupported: default shared gateway bridge br-vm cannot be used as an Uplink bridge",
    );
}

#[track_caller]
fn check_full(interface: &str, local: Option<&LocalFunction>, want: &str) {
    let bridges: &[BridgeText<'_>] = &[
        ("ovsbr1", &["ovsbr1:internal", "eth0:system", "gw1:internal"], None),
        ("ovsbr2", &["bond0=eth1:system,eth2:system", "ens1f0_7:system"], Some("eth1")),
        ("br-int", &["gw0:internal"], None),
        ("breth0", &["breth0:internal", "eth7:system"], None),
        ("ovsbr3", &["ovsbr3:internal"], None),
    ];
    let representors = Representors::Switchdev(vec![device("ens1f0_7", Flavour::Vf, 0, Some(7), None)]);
    let snapshot = snapshot(bridges, &["loose0"]);
    let default_gateway = Ok(default_bridge("breth0"));
    let view = view(&snapshot, &representors, &default_gateway);
    let findings = full(view, interface, Ok(host("02:00:00:00:00:01", None)), local).findings;
    assert!(findings.host.is_some(), "what the host side found is kept whatever the bridge says");
    assert_eq!(render(&findings), want);
}

#[test]
fn the_bridge_itself_or_one_of_its_internal_ports_resolves() {
    check_full("ovsbr1", None, "ovsbr1 | Uplink discovery succeeded");
    check_full("gw1", None, "ovsbr1 | Uplink discovery succeeded");
}

#[test]
fn the_physical_port_itself_is_refused_with_its_bridge() {
    check_full(
        "eth0",
        None,
        "ovsbr1 | InvalidHostInterface: host interface eth0 is the physical uplink port for OVS bridge ovsbr1",
    );
}

#[test]
fn a_bond_and_its_member_lead_to_the_bridge() {
    check_full("bond0", None, "ovsbr2 | Uplink discovery succeeded");
    check_full(
        "eth1",
        None,
        "ovsbr2 | InvalidHostInterface: host interface eth1 is the physical uplink port for OVS bridge ovsbr2",
    );
}

#[test]
fn a_virtual_function_leads_to_the_bridge_of_its_representor() {
    let vf = |index| LocalFunction { pf_address: "0000:03:00.0".into(), kind: LocalKind::Vf(index) };
    check_full("ens1f0v7", Some(&vf(7)), "ovsbr2 | Uplink discovery succeeded");
    check_full(
        "ens1f0v8",
        Some(&vf(8)),
        "- | BridgeNotFound: failed to resolve OVS bridge for ens1f0v8: OVS port or interface ens1f0v8 not found: object not \
         found; no representor of VF 8 of PCI device 0000:03:00.0; is the device in switchdev mode?",
    );
}

#[test]
fn an_interface_on_no_bridge_says_so() {
    check_full(
        "dummy0",
        None,
        "- | BridgeNotFound: failed to resolve OVS bridge for dummy0: OVS port or interface dummy0 not found: object not found",
    );
    check_full(
        "loose0",
        None,
        "- | BridgeNotFound: failed to resolve OVS bridge for loose0: OVS port or interface loose0 is not attached to a \
         bridge: object not found",
    );
}

#[test]
fn the_integration_bridge_is_refused_by_name_or_by_port() {
    let want = "br-int | BridgeInvalid: OVN integration bridge br-int cannot be used as an Uplink bridge";
    check_full("br-int", None, want);
    check_full("gw0", None, want);
}

#[test]
fn a_bridge_without_a_way_out_is_published_with_its_fault() {
    check_full(
        "ovsbr3",
        None,
        "ovsbr3 | BridgeUplinkNotFound: failed to resolve physical uplink for OVS bridge ovsbr3: the bridge has no physical \
         port; add one",
    );
}

#[test]
fn without_the_default_gateway_nothing_is_resolved() {
    let (ovs, representors) = card();
    let cases = [
        (
            Err(GatewayAnnotationError::Missing {
                key: "k8s.ovn.org/l3-gateway-config",
                node: "node-a".into(),
            }),
            "- | GatewayInfoUnavailable: failed to determine the default shared gateway bridge for node \"node-a\": \
             k8s.ovn.org/l3-gateway-config annotation not found for node \"node-a\"",
        ),
        (
            Ok(default_bridge("")),
            "- | GatewayInfoUnavailable: default shared gateway bridge is not available for node \"node-a\"",
        ),
    ];
    for (default_gateway, want) in cases {
        let view = view(&ovs, &representors, &default_gateway);
        assert_eq!(render(&dpu(view, Ok(host(VF7_MAC, None))).findings), want);
        assert_eq!(render(&full(view, "br-vm", Ok(host(VF7_MAC, None)), None).findings), want);
    }
}

#[test]
fn a_host_failure_on_a_regular_node_clears_everything() {
    let (ovs, representors) = card();
    let default_gateway = Ok(default_bridge("breth0"));
    let view = view(&ovs, &representors, &default_gateway);
    let gone = Failure::new(DiscoveryReason::HostInterfaceNotFound, "gone");
    assert_eq!(full(view, "br-vm", Err(gone.clone()), None), Planned::failed(gone));
}

#[test]
fn a_mac_on_two_bridges_is_explained_and_the_first_bridge_by_name_is_used() {
    let bridges: &[BridgeText<'_>] =
        &[("br-a", &["p1:system", "pf0vf7:system"], None), ("br-b", &["p2:system", "pf1vf7:system"], None)];
    let devices = vec![
        device("pf0vf7", Flavour::Vf, 0, Some(7), Some(VF7_MAC)),
        device("pf1vf7", Flavour::Vf, 1, Some(7), Some(VF7_MAC)),
    ];
    check_dpu(
        &snapshot(bridges, &[]),
        &Representors::Switchdev(devices),
        "breth0",
        Ok(host(VF7_MAC, None)),
        "br-a | Uplink DPU bridge discovery succeeded via host MAC; the MAC is also on bridge br-b (port pf1vf7), the first \
         bridge by name is used",
    );
}

#[test]
fn the_way_names_the_links_from_the_host_to_the_wire() {
    let (ovs, representors) = card();
    let default_gateway = Ok(default_bridge("breth0"));
    let view = view(&ovs, &representors, &default_gateway);
    let way = |host_port: &str, bridge: &str, uplink: &str| {
        Some(Way { host_port: host_port.into(), bridge: bridge.into(), uplink: uplink.into() })
    };
    assert_eq!(dpu(view, Ok(host(VF7_MAC, Some((0, Some(7)))))).way, way("pf0vf7", "br-vm", "p1"));
    assert_eq!(dpu(view, Ok(host(PF_MAC, None))).way, way("pf0hpf", "br-host", "p0"));
    assert_eq!(full(view, "br-vm", Ok(host(VF7_MAC, None)), None).way, way("br-vm", "br-vm", "p1"));
    assert_eq!(dpu(view, Ok(host("02:00:00:00:00:99", None))).way, None);
}

#[test]
fn only_a_function_with_a_representor_on_a_bridge_leads_by_function() {
    let (ovs, representors) = card();
    let default_gateway = Ok(default_bridge("breth0"));
    let view = view(&ovs, &representors, &default_gateway);
    assert!(leads_by_function(view, &host(VF7_MAC, Some((0, Some(7))))));
    // Not published, not there, on no bridge, another function's.
    for function in [None, Some((0, Some(9))), Some((1, Some(0))), Some((0, Some(0)))] {
        assert!(!leads_by_function(view, &host(VF7_MAC, function)), "{function:?}");
    }
}

/// A card of two hosts with unprovisioned, missing and look-alike functions, all on one bridge.
fn card_with_twins() -> (Snapshot, Representors) {
    let named = |name: &'static str, controller, pf, vf, sf, mac| {
        let flavour = match (vf, sf) {
            (Some(_), _) => Flavour::Vf,
            (None, Some(_)) => Flavour::Sf,
            (None, None) => Flavour::Pf,
        };
        Netdev { controller: Some(controller), sf, ..device(name, flavour, pf, vf, mac) }
    };
    let devices = vec![
        named("a", 1, 0, None, None, Some("02:00:00:00:00:01")),
        named("b", 0, 0, Some(0), None, Some("02:00:00:00:20:01")),
        named("c", 1, 0, Some(0), None, None),
        named("d", 1, 0, Some(7), None, Some("02:00:00:00:07:01")),
        named("e", 1, 1, Some(0), None, Some("02:00:00:00:10:01")),
        named("f", 1, 0, None, Some(4), Some("02:00:00:00:30:01")),
        named("g", 2, 0, Some(0), None, Some("02:00:00:00:40:01")),
    ];
    let ports = ["p0:system", "a", "b", "c", "d", "e", "f", "g"];
    (snapshot(&[("br-up", &ports, None)], &[]), Representors::Switchdev(devices))
}

#[test]
fn on_a_card_with_twins_no_neighbours_and_no_other_hosts_representor_is_taken() {
    let (ovs, representors) = card_with_twins();
    let default_gateway = Ok(default_bridge("breth0"));
    let view = view(&ovs, &representors, &default_gateway);
    let asked = |function: Option<(u32, u32)>, mac: &str| {
        let planned = dpu(view, Ok(host(mac, function.map(|(pf, vf)| (pf, Some(vf))))));
        let port = planned.way.as_ref().map_or("nothing", |way| way.host_port.as_str());
        match (&planned.findings.verdict, &planned.instead_of_function) {
            (Ok(_), None) => port.to_owned(),
            (Ok(_), Some(cause)) => format!("{port} although {cause}"),
            (Err(failure), _) => failure.message.clone(),
        }
    };
    for (what, function, mac, want) in [
        ("real MAC known only on the host", Some((0, 0)), "02:00:00:00:99:99", "c"),
        ("the second physical function", Some((1, 0)), "02:00:00:00:10:01", "e"),
        ("a virtual function", Some((0, 7)), "02:00:00:00:07:01", "d"),
        ("a virtual function by its MAC", None, "02:00:00:00:07:01", "d"),
        ("a subfunction by its MAC", None, "02:00:00:00:30:01", "f"),
        ("the physical function by its MAC", None, "02:00:00:00:00:01", "a"),
        ("the MAC of another host's function with the same indices", Some((0, 0)), "02:00:00:00:40:01", "g"),
        (
            "indices of one function with the MAC of another",
            Some((0, 7)),
            "02:00:00:00:10:01",
            "e although representor d for host function pf0vf7 peers with MAC 02:00:00:00:07:01, not the published host \
             MAC 02:00:00:00:10:01",
        ),
        (
            "a function that is not there",
            Some((0, 5)),
            "02:00:00:00:99:99",
            "failed to find DPU bridge for host MAC 02:00:00:00:99:99: failed to find representor for host function \
             pf0vf5: found pf0, pf0vf0, pf0vf0, pf0vf7, pf1vf0, pf0vf0",
        ),
        (
            "a MAC that nobody has",
            None,
            "02:00:00:00:99:99",
            "failed to find DPU bridge for host MAC 02:00:00:00:99:99",
        ),
    ] {
        assert_eq!(asked(function, mac), want, "{what}");
    }
}

#[test]
fn ports_that_name_no_controller_are_the_hosts() {
    let ovs = snapshot(&[("br-up", &["p0:system", "pf0vf0", "pf1vf0"], None)], &[]);
    let old = vec![
        device("pf0vf0", Flavour::Vf, 0, Some(0), None),
        device("pf1vf0", Flavour::Vf, 1, Some(0), None),
    ];
    let host = host("02:00:00:00:99:99", Some((1, Some(0))));
    let want = "br-up | Uplink DPU bridge discovery succeeded via host function";
    check_dpu(&ovs, &Representors::Switchdev(old), "breth0", Ok(host), want);
}
