use super::*;
use crate::host_data::PciFunction;
use crate::wire::{LinkFacts, Part};

fn host() -> HostData {
    HostData {
        mac: "02:42:ac:12:00:02".parse().unwrap(),
        addresses: vec!["9.9.9.9/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()],
        gateways: vec!["9.9.9.1".parse().unwrap()],
        function: Some(PciFunction { pf: 0, vf: Some(16) }),
    }
}

fn found(role: Role) -> Half {
    found_on(role, Wire::default())
}

fn found_on(role: Role, wire: Wire) -> Half {
    let bridge = role.writes_bridge().then(|| "br-blue".to_owned());
    let host = role.writes_host_data().then(host);
    let findings = Findings { host, bridge, verdict: Ok("fine".into()), wire };
    Half::new(role, Some("breth0"), &UplinkStateStatus::default(), findings)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The status that results when `half` is applied to `current`, as a server with per-manager ownership merges it.
fn merged(current: &UplinkStateStatus, half: &Half, second: i64) -> UplinkStateStatus {
    let applied = half.status(current, at(second));
    let mut result = current.clone();
    result.type_ = applied.type_;
    if half.role.writes_host_data() {
        result.host_interface_name = applied.host_interface_name;
        result.mac_address = applied.mac_address;
        result.ip_addresses = applied.ip_addresses;
        result.default_gateways = applied.default_gateways;
        result.host_function = applied.host_function;
    }
    if half.role.writes_bridge() {
        result.ovs_bridge = applied.ovs_bridge;
    }
    for condition in applied.conditions {
        result.conditions.retain(|old| old.type_ != condition.type_);
        result.conditions.push(condition);
    }
    result
}

#[test]
fn a_regular_node_publishes_host_and_bridge_without_a_function() {
    let status = found(Role::Full).status(&UplinkStateStatus::default(), at(1));
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({
            "type": "OVSBridge", "hostInterfaceName": "breth0", "macAddress": "02:42:ac:12:00:02",
            "ipAddresses": ["2001:db8::1/64", "9.9.9.9/24"], "defaultGateways": ["9.9.9.1"],
            "ovsBridge": {"name": "br-blue"},
            "conditions": [{"type": "Resolved", "status": "True", "reason": "Resolved", "message": "fine",
                            "lastTransitionTime": "1970-01-01T00:00:01Z"}],
        })
    );
}

#[test]
fn the_host_of_a_card_publishes_its_function_and_no_bridge() {
    let status = found(Role::DpuHost).status(&UplinkStateStatus::default(), at(1));
    let value = serde_json::to_value(&status).unwrap();
    assert_eq!(value["hostFunction"], json!({"pfID": 0, "vfID": 16}));
    assert_eq!(value.get("ovsBridge"), None);
    assert_eq!(value["conditions"][0]["type"], "HostDataReady");
    assert_eq!(value["conditions"][0]["reason"], "HostDataDiscovered");
}

#[test]
fn the_card_publishes_only_type_bridge_and_its_condition() {
    let status = found(Role::Dpu).status(&UplinkStateStatus::default(), at(1));
    let value = serde_json::to_value(&status).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["conditions", "ovsBridge", "type"]);
}

#[test]
fn a_published_half_is_met_and_needs_no_second_write() {
    for role in [Role::Full, Role::DpuHost, Role::Dpu] {
        let half = found(role);
        assert!(!half.is_met_by(&UplinkStateStatus::default()), "{role:?}");
        let status = merged(&UplinkStateStatus::default(), &half, 1);
        assert!(half.is_met_by(&status), "{role:?}");
    }
}

#[test]
fn a_change_of_the_peers_half_never_asks_for_a_write() {
    let (host_side, card) = (found(Role::DpuHost), found(Role::Dpu));
    let both = merged(&merged(&UplinkStateStatus::default(), &host_side, 1), &card, 1);
    assert!(host_side.is_met_by(&both) && card.is_met_by(&both));

    let failure = Failure::new(DiscoveryReason::BridgeUplinkNotFound, "no uplink");
    let card_fails = Half::new(Role::Dpu, Some("breth0"), &both, Findings::failed(failure));
    let after = merged(&both, &card_fails, 2);
    assert!(host_side.is_met_by(&after), "the host's half is untouched by the card's failure");
    assert_eq!(after.ovs_bridge, None, "the card withdraws its bridge");
    assert_eq!(after.mac_address, both.mac_address);
}

#[test]
fn a_failed_host_keeps_the_name_and_withdraws_the_data() {
    let before = merged(&UplinkStateStatus::default(), &found(Role::DpuHost), 1);
    let failure = Failure::new(DiscoveryReason::HostInterfaceNotFound, "gone");
    let half = Half::new(Role::DpuHost, Some("breth0"), &before, Findings::failed(failure));
    let value = serde_json::to_value(half.status(&before, at(5))).unwrap();
    assert_eq!(value["hostInterfaceName"], "breth0");
    for field in ["macAddress", "ipAddresses", "defaultGateways", "hostFunction"] {
        assert_eq!(value.get(field), None, "{field}");
    }
    assert_eq!(value["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:05Z");
}

#[test]
fn an_entry_that_cannot_be_told_keeps_the_published_interface_name() {
    let before = merged(&UplinkStateStatus::default(), &found(Role::Full), 1);
    let failure = Failure::new(DiscoveryReason::NodeSelectorOverlap, "two entries");
    let half = Half::new(Role::Full, None, &before, Findings::failed(failure));
    assert_eq!(half.status(&before, at(2)).host_interface_name.as_deref(), Some("breth0"));
}

#[test]
fn a_condition_of_the_gateway_is_not_part_of_the_half() {
    let mut before = merged(&UplinkStateStatus::default(), &found(Role::Full), 1);
    let mut gateway = before.conditions[0].clone();
    gateway.type_ = "GatewayReady".into();
    before.conditions.push(gateway);
    let half = found(Role::Full);
    assert!(half.is_met_by(&before));
    assert_eq!(half.status(&before, at(2)).conditions.len(), 1);
}

#[test]
fn an_apply_to_a_state_that_was_read_names_its_uid_and_one_that_creates_does_not() {
    let status = UplinkStateStatus::default();
    let target = Target { uplink: "tenant-blue", uplink_uid: "u1", node: "worker-a", state_uid: None };
    let create = apply_body(target, &status);
    assert_eq!(create["metadata"]["name"], "tenant-blue.worker-a");
    assert_eq!(create["metadata"].get("uid"), None);
    assert_eq!(create["spec"], json!({"uplinkName": "tenant-blue", "nodeName": "worker-a"}));
    let owner = &create["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("u1"), &json!(true)));
    let update = apply_body(Target { state_uid: Some("s1"), ..target }, &status);
    assert_eq!(update["metadata"]["uid"], "s1");
}

#[test]
fn what_is_said_about_the_wire_is_part_of_the_half_and_is_withdrawn_with_it() {
    let link = LinkFacts { part: Part::Bridge, name: "br".into(), mtu: 1500, up: true, carrier: None };
    let silent = found(Role::Dpu);
    let half = found_on(Role::Dpu, Wire { links: vec![link], ..Wire::default() });
    let before = merged(&UplinkStateStatus::default(), &silent, 1);
    assert!(silent.is_met_by(&before) && !half.is_met_by(&before));
    let after = merged(&before, &half, 2);
    assert!(half.is_met_by(&after));
    assert_eq!(half.status(&before, at(2)).conditions.len(), 2);
    assert!(!silent.is_met_by(&after), "silence withdraws it");
    assert_eq!(silent.status(&after, at(3)).conditions.len(), 1);
    assert!(
        found(Role::DpuHost).is_met_by(&merged(&after, &found(Role::DpuHost), 3)),
        "the peer does not care"
    );
}
