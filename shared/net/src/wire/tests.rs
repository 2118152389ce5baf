use jiff::Timestamp;

use super::*;

fn link(part: Part, name: &str, mtu: u32) -> LinkFacts {
    LinkFacts { part, name: name.into(), mtu, up: true, carrier: Some(true) }
}

fn card(mtus: [u32; 3]) -> Wire {
    let [port, bridge, uplink] = mtus;
    let links = vec![
        link(Part::HostPort, "rep0-16", port),
        link(Part::Bridge, "br", bridge),
        link(Part::Uplink, "p0", uplink),
    ];
    Wire { links, ..Wire::default() }
}

fn host(mtu: u32) -> Wire {
    Wire { links: vec![link(Part::HostInterface, "eth0-16", mtu)], ..Wire::default() }
}

fn render(wanted: Option<&Wanted>) -> String {
    wanted.map_or_else(
        || "silent".to_owned(),
        |wanted| format!("{} {} {} | {}", wanted.type_, wanted.status, wanted.reason, wanted.message),
    )
}

#[track_caller]
fn check(role: Role, wire: &Wire, current: &[Condition], want: &str) {
    assert_eq!(render(judge(role, wire, current).as_ref()), want);
}

fn written(wanted: Option<Wanted>) -> Vec<Condition> {
    wanted.map(|wanted| wanted.against(&[], Timestamp::UNIX_EPOCH)).into_iter().collect()
}

#[test]
fn a_side_that_sees_no_link_says_nothing() {
    check(Role::Dpu, &Wire::default(), &[], "silent");
}

#[test]
fn a_wire_that_fits_is_consistent_and_tells_its_mtu() {
    check(
        Role::Dpu,
        &card([1500; 3]),
        &[],
        "LinkConsistent True LinkConsistent | host port rep0-16: mtu=1500",
    );
    check(
        Role::DpuHost,
        &host(9000),
        &[],
        "HostLinkConsistent True LinkConsistent | host interface eth0-16: mtu=9000",
    );
}

#[test]
fn the_first_different_link_of_one_side_is_named() {
    let want = "LinkConsistent False MTUMismatch | host port rep0-16: mtu=9000: physical uplink p0 has MTU 1500; set both to the same";
    check(Role::Dpu, &card([9000, 9000, 1500]), &[], want);
}

#[test]
fn a_difference_between_the_sides_is_told_on_both_and_heals_on_both() {
    let said_by_host = written(judge(Role::DpuHost, &host(9000), &[]));
    let want = "LinkConsistent False MTUMismatch | host port rep0-16: mtu=1500: the host's interface has MTU 9000; set both to the same";
    check(Role::Dpu, &card([1500; 3]), &said_by_host, want);

    let said_by_card = written(judge(Role::Dpu, &card([1500; 3]), &said_by_host));
    let want = "HostLinkConsistent False MTUMismatch | host interface eth0-16: mtu=9000: the card's port has MTU 1500; set both to the same";
    check(Role::DpuHost, &host(9000), &said_by_card, want);
    check(
        Role::DpuHost,
        &host(1500),
        &said_by_card,
        "HostLinkConsistent True LinkConsistent | host interface eth0-16: mtu=1500",
    );
}

#[test]
fn an_unreadable_message_of_the_peer_is_no_reason_to_complain() {
    let mut said = written(judge(Role::DpuHost, &host(9000), &[]));
    for text in ["", "mtu=", "mtu=many", "the mtu is 9000"] {
        text.clone_into(&mut said[0].message);
        check(
            Role::Dpu,
            &card([1500; 3]),
            &said,
            "LinkConsistent True LinkConsistent | host port rep0-16: mtu=1500",
        );
    }
}

#[test]
fn a_link_that_is_down_comes_before_everything_else() {
    let mut wire = card([9000, 9000, 1500]);
    wire.links[2].up = false;
    let want =
        "LinkConsistent False LinkDown | host port rep0-16: mtu=9000: physical uplink p0 is down; set it up";
    check(Role::Dpu, &wire, &[], want);
    (wire.links[2].up, wire.links[0].carrier) = (true, Some(false));
    let want = "LinkConsistent False LinkDown | host port rep0-16: mtu=9000: host port rep0-16 has no carrier; check its other end";
    check(Role::Dpu, &wire, &[], want);
}

#[test]
fn a_carrier_that_the_driver_does_not_tell_is_no_fault() {
    let mut wire = host(1500);
    wire.links[0].carrier = None;
    check(
        Role::DpuHost,
        &wire,
        &[],
        "HostLinkConsistent True LinkConsistent | host interface eth0-16: mtu=1500",
    );
}

#[test]
fn duplicate_and_tentative_addresses_are_told() {
    let mut wire = host(1500);
    let address = |text: &str, detection| AddressHealth { address: text.parse().unwrap(), detection };
    wire.addresses =
        vec![address("fd00::1/64", Detection::Settled), address("fd00::2/64", Detection::Tentative)];
    let want = "HostLinkConsistent False AddressTentative | host interface eth0-16: mtu=1500: address fd00::2/64 is still being checked for a duplicate";
    check(Role::DpuHost, &wire, &[], want);
    wire.addresses.push(address("fd00::3/64", Detection::Duplicate));
    let want = "HostLinkConsistent False DuplicateAddress | host interface eth0-16: mtu=1500: address fd00::3/64 is also in use elsewhere on the link; remove one of the two";
    check(Role::DpuHost, &wire, &[], want);
}

/// Tag of the host's port, tag and trunks of the uplink, and whether that fits.
type VlanCase<'c> = (Option<i64>, Option<i64>, &'c [i64], bool);

#[test]
fn the_uplink_must_carry_the_vlan_of_the_hosts_port() {
    let port = |name: &str, tag, trunks: &[i64]| PortVlan { name: name.into(), tag, trunks: trunks.to_vec() };
    let cases: &[VlanCase<'_>] = &[
        (None, None, &[], true),
        (Some(100), None, &[], true),
        (Some(100), None, &[100, 200], true),
        (Some(100), None, &[200], false),
        (Some(100), Some(100), &[], true),
        (Some(100), Some(200), &[], false),
        (None, Some(100), &[], false),
        (None, None, &[100], false),
        (None, None, &[0, 100], true),
    ];
    for (host_tag, uplink_tag, trunks, carried) in cases {
        let mut wire = card([1500; 3]);
        wire.vlans = Some((port("rep0-16", *host_tag, &[]), port("p0", *uplink_tag, trunks)));
        let found = judge(Role::Dpu, &wire, &[]).unwrap();
        assert_eq!(
            found.status == ConditionStatus::True,
            *carried,
            "{host_tag:?} {uplink_tag:?} {trunks:?}: {found:?}"
        );
    }
    let mut wire = card([1500; 3]);
    wire.vlans = Some((port("rep0-16", Some(100), &[]), port("p0", None, &[200])));
    let want = "LinkConsistent False VLANMismatch | host port rep0-16: mtu=1500: port rep0-16 is in VLAN 100, which physical uplink p0 (no VLAN, trunks [200]) does not carry";
    check(Role::Dpu, &wire, &[], want);
}
