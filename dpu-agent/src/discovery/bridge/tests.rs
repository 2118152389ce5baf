use super::*;
use crate::discovery::ovs::fixture::snapshot;

const OTHER: (&str, &[&str], Option<&str>) = ("br-other", &["br-other:internal", "eth9:system"], None);

#[track_caller]
fn check(name: &str, ports: &[&str], bridge_uplink: Option<&str>, want: &str) {
    let snapshot = snapshot(&[(name, ports, bridge_uplink), OTHER], &[]);
    let found =
        match validate(name, "breth0", OvsView::new(&snapshot), |interface| interface.starts_with("pf0")) {
            Ok(uplink) => uplink.to_owned(),
            Err(failure) => format!("{}: {}", failure.reason, failure.message),
        };
    assert_eq!(found, want);
}

#[test]
fn the_single_physical_port_is_the_uplink() {
    check("ovsbr1", &["ovsbr1:internal", "eth1:system"], None, "eth1");
}

#[test]
fn an_empty_interface_type_counts_as_physical() {
    check("ovsbr1", &["ovsbr1:internal", "eth1"], None, "eth1");
}

#[test]
fn patch_internal_and_tunnel_interfaces_do_not_count() {
    check(
        "ovsbr1",
        &["ovsbr1:internal", "gw0:internal", "patch-x:patch", "gnv:geneve", "eth1:system"],
        None,
        "eth1",
    );
}

#[test]
fn bridge_uplink_decides_between_two_ports() {
    check("ovsbr1", &["eth1:system", "eth2:system"], Some("eth2"), "eth2");
}

#[test]
fn without_it_two_ports_are_told_and_none_is_chosen() {
    check(
        "ovsbr1",
        &["ovsbr1:internal", "eth1:system", "eth2:system"],
        None,
        "BridgeUplinkNotFound: failed to resolve physical uplink for OVS bridge ovsbr1: \
         ports eth1, eth2 could be it; name one in external_ids:bridge-uplink of the bridge",
    );
}

#[test]
fn the_bridges_name_decides_where_nothing_else_does() {
    check("breth1", &["breth1:internal", "eth1", "eth2"], None, "eth1");
    check("br-x", &["-x:system", "eth2"], None, "-x");
}

#[test]
fn a_bond_needs_bridge_uplink() {
    check("br-bond", &["br-bond:internal", "bond0=eth0:system,eth1:system"], Some("eth0"), "eth0");
    check(
        "br-bond",
        &["br-bond:internal", "bond0=eth0:system,eth1:system"],
        None,
        "BridgeUplinkNotFound: failed to find interface for bridge br-bond physical uplink -bond: \
         ports bond0 could be it; name one in external_ids:bridge-uplink of the bridge",
    );
}

#[test]
fn a_bridge_without_a_physical_port_has_no_uplink() {
    check(
        "ovsbr1",
        &["ovsbr1:internal"],
        None,
        "BridgeUplinkNotFound: failed to resolve physical uplink for OVS bridge ovsbr1: the bridge has no physical port; add one",
    );
    check(
        "breth1",
        &["breth1:internal"],
        None,
        "BridgeUplinkNotFound: failed to find interface for bridge breth1 physical uplink eth1: \
         the bridge has no physical port; add one",
    );
}

#[test]
fn an_uplink_on_another_bridge_is_refused_and_told() {
    check(
        "ovsbr2",
        &["ovsbr2:internal"],
        Some("eth9"),
        "BridgeUplinkNotFound: failed to find interface for bridge ovsbr2 physical uplink eth9: it is on bridge br-other",
    );
    check(
        "ovsbr2",
        &["ovsbr2:internal"],
        Some("eth7"),
        "BridgeUplinkNotFound: failed to find interface for bridge ovsbr2 physical uplink eth7: \
         the bridge has no physical port; add one",
    );
}

#[test]
fn a_stale_bridge_uplink_does_not_hide_the_only_port() {
    check("ovsbr1", &["ovsbr1:internal", "eth1:system"], Some("eth7"), "eth1");
}

#[test]
fn representors_are_never_the_way_out() {
    check("br-vm", &["p1:system", "pf0vf0:system", "pf0vf5:system", "pf0vf7:system"], None, "p1");
    check("br-host", &["p0:system", "pf0hpf:system"], None, "p0");
    check(
        "ovsbr-hostvf0",
        &["pf0vf7:system"],
        None,
        "BridgeUplinkNotFound: failed to resolve physical uplink for OVS bridge ovsbr-hostvf0: \
         the bridge has no physical port; add one",
    );
}

#[test]
fn the_integration_bridge_and_the_default_gateways_bridge_are_refused() {
    check(
        "br-int",
        &["gw0:internal", "eth1:system"],
        None,
        "BridgeInvalid: OVN integration bridge br-int cannot be used as an Uplink bridge",
    );
    check(
        "breth0",
        &["breth0:internal", "eth0:system"],
        None,
        "DefaultGatewayBridgeUnsupported: default shared gateway bridge breth0 cannot be used as an Uplink bridge",
    );
}

#[test]
fn names_find_their_bridge_or_say_why_not() {
    let snapshot = snapshot(&[("ovsbr2", &["ovsbr2:internal", "bond0=eth0,eth1"], None), OTHER], &["gw0"]);
    let ovs = OvsView::new(&snapshot);
    assert_eq!(ovs.bridge_of("bond0"), Ok("ovsbr2"));
    assert_eq!(ovs.bridge_of("eth1"), Ok("ovsbr2"));
    assert_eq!(
        ovs.bridge_of("gw0").unwrap_err().to_string(),
        "OVS port or interface gw0 is not attached to a bridge: object not found"
    );
    assert_eq!(
        ovs.bridge_of("nope").unwrap_err().to_string(),
        "OVS port or interface nope not found: object not found"
    );
}
