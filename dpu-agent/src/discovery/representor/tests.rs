use super::*;

const HOST_MAC: &str = "00:07:3d:f2:76:51";

fn mac(text: &str) -> MacAddress {
    text.parse().unwrap()
}

/// `c1pf0vf7`, `pf0`, `p0`, … with an optional peer MAC; the device's name is the port name.
fn device(port: &str, peer: Option<&str>) -> Netdev {
    let (controller, rest) = match port.strip_prefix('c').and_then(|rest| rest.split_once("pf")) {
        Some((controller, rest)) => (Some(controller.parse().unwrap()), format!("pf{rest}")),
        None => (None, port.to_owned()),
    };
    let number = |text: &str| text.parse().ok();
    let (flavour, pf, vf, sf) = match rest.strip_prefix("pf") {
        None => (Flavour::Physical, None, None, None),
        Some(rest) => match (rest.split_once("vf"), rest.split_once("sf")) {
            (Some((pf, vf)), _) => (Flavour::Vf, number(pf), number(vf), None),
            (None, Some((pf, sf))) => (Flavour::Sf, number(pf), None, number(sf)),
            (None, None) => (Flavour::Pf, number(rest), None, None),
        },
    };
    let device = Some("0000:03:00.0".to_owned());
    Netdev {
        name: port.into(),
        alias: None,
        flavour,
        controller,
        pf,
        vf,
        sf,
        device,
        peer_mac: peer.map(mac),
    }
}

#[track_caller]
fn check(devices: &[(&str, Option<&str>)], function: (u32, Option<u32>), want: &str) {
    let all = Representors::Switchdev(devices.iter().map(|(port, peer)| device(port, *peer)).collect());
    let function = PciFunction { pf: function.0, vf: function.1 };
    let found =
        all.of_function(function, mac(HOST_MAC)).map_or_else(|error| error.to_string(), str::to_owned);
    assert_eq!(found, want);
}

#[test]
fn function_and_readable_address_agree() {
    check(&[("p0", None), ("c1pf0vf6", None), ("c1pf0vf7", Some(HOST_MAC))], (0, Some(7)), "c1pf0vf7");
}

#[test]
fn an_unreadable_address_is_accepted_by_index() {
    check(&[("c1pf0vf7", None)], (0, Some(7)), "c1pf0vf7");
    check(&[("pf0vf7", None)], (0, Some(7)), "pf0vf7");
    check(&[("c1pf0", None), ("c1pf0vf0", None)], (0, None), "c1pf0");
}

#[test]
fn a_readable_address_of_another_function_is_refused() {
    let want = "representor c1pf0vf0 for host function pf0vf0 peers with MAC 00:07:3d:f2:76:4a, not the published host MAC \
                00:07:3d:f2:76:51";
    check(&[("c1pf0vf0", Some("00:07:3d:f2:76:4a"))], (0, Some(0)), want);
}

#[test]
fn a_missing_function_is_named_beside_those_that_are_there() {
    check(
        &[("p0", None), ("c1pf0vf0", None), ("c1pf1", None)],
        (0, Some(9)),
        "failed to find representor for host function pf0vf9: found pf0vf0, pf1",
    );
    check(
        &[("p0", None)],
        (1, None),
        "failed to find representor for host function pf1: there are no representors",
    );
}

#[test]
fn pf_and_vf_are_matched_as_a_pair_on_any_pf() {
    let devices = [("c1pf0vf0", None), ("c1pf1vf0", None), ("c1pf2vf0", None)];
    check(&devices, (1, Some(0)), "c1pf1vf0");
    check(&devices, (2, Some(0)), "c1pf2vf0");
}

#[test]
fn the_hosts_controller_comes_before_the_cards_own_functions() {
    check(&[("pf0vf0", None), ("c1pf0vf0", None)], (0, Some(0)), "c1pf0vf0");
    check(&[("c2pf0vf0", None), ("c1pf0vf0", None)], (0, Some(0)), "c1pf0vf0");
}

#[test]
fn between_two_hosts_the_address_decides() {
    check(&[("c1pf0vf0", Some("02:00:00:00:00:01")), ("c2pf0vf0", Some(HOST_MAC))], (0, Some(0)), "c2pf0vf0");
    check(
        &[("c2pf0vf0", None), ("c3pf0vf0", None)],
        (0, Some(0)),
        "host function pf0vf0 has several representors: c2pf0vf0, c3pf0vf0",
    );
}

#[test]
fn pf_vf_and_sf_ports_face_a_host_and_the_wire_does_not() {
    let ports = ["p0", "c1pf0", "c1pf0vf1", "pf0sf88"];
    let all = Representors::Switchdev(ports.iter().map(|port| device(port, None)).collect());
    assert_eq!(ports.map(|port| all.is_host_facing(port)), [false, true, true, true]);
    assert!(!all.is_host_facing("eth0"));
}

#[test]
fn a_local_function_needs_the_right_device_and_no_host_controller() {
    let all = Representors::Switchdev(vec![
        device("p0", None),
        device("c1pf0vf7", None),
        device("pf0vf7", None),
        device("pf0sf88", None),
    ]);
    let local = |address: &str, kind| LocalFunction { pf_address: address.into(), kind };
    assert_eq!(all.of_local(&local("0000:03:00.0", LocalKind::Vf(7))), Ok("pf0vf7"));
    assert_eq!(all.of_local(&local("0000:03:00.0", LocalKind::Sf(88))), Ok("pf0sf88"));
    assert_eq!(
        all.of_local(&local("0000:04:00.0", LocalKind::Vf(7))).unwrap_err().to_string(),
        "no representor of VF 7 of PCI device 0000:04:00.0; is the device in switchdev mode?"
    );
    let twice = Representors::Switchdev(vec![device("pf0vf7", None), device("pf1vf7", None)]);
    assert_eq!(
        twice.of_local(&local("0000:03:00.0", LocalKind::Vf(7))).unwrap_err().to_string(),
        "VF 7 of PCI device 0000:03:00.0 has several representors: pf0vf7, pf1vf7"
    );
}

fn simulated_card(links: &[(&str, Option<&str>)]) -> Representors {
    let links = links.iter().map(|(name, alias)| ((*name).to_owned(), alias.map(str::to_owned))).collect();
    Representors::Simulated { node: "node-a".into(), links }
}

#[test]
fn a_simulated_representor_is_found_by_name_then_by_alias() {
    let host = mac("52:54:00:d9:20:10");
    let function = PciFunction { pf: 0, vf: Some(16) };
    let by_name = simulated_card(&[("x", Some("rep0-16")), ("rep0-16", None)]);
    assert_eq!(by_name.of_function(function, host), Ok("rep0-16"));
    let by_alias = simulated_card(&[("x", Some("rep0-16")), ("rep0-1", None)]);
    assert_eq!(by_alias.of_function(function, host), Ok("x"));
    assert_eq!(by_alias.peer_mac("x"), Some(host));
    assert!(by_alias.is_host_facing("x") && !by_alias.is_host_facing("p0"));
}

#[test]
fn a_simulated_card_of_another_node_is_refused_by_its_address() {
    let error = simulated_card(&[("rep0-16", None)])
        .of_function(PciFunction { pf: 0, vf: Some(16) }, mac("52:54:00:cf:dd:10"))
        .unwrap_err();
    assert!(matches!(error, NoRepresentor::OtherMac { .. }), "{error}");
}

#[test]
fn a_simulated_physical_function_has_no_representor() {
    let error = simulated_card(&[("rep0-16", None)])
        .of_function(PciFunction { pf: 0, vf: None }, mac(HOST_MAC))
        .unwrap_err();
    assert_eq!(error.to_string(), "failed to find representor for host function pf0: found rep0-16");
}
