use super::*;

const V4: Families = Families { ipv4: true, ipv6: false, masquerade: Vec::new() };
const V6: Families = Families { ipv4: false, ipv6: true, masquerade: Vec::new() };
const DUAL: Families = Families { ipv4: true, ipv6: true, masquerade: Vec::new() };

fn address(text: &str) -> AddressView {
    AddressView {
        address: text.parse().unwrap(),
        secondary: false,
        deprecated: false,
        label: None,
        detection: Detection::Settled,
    }
}

fn route(destination: &str, gateway: &str, metric: u32) -> RouteView {
    let gateway = (!gateway.is_empty()).then(|| gateway.parse().unwrap());
    RouteView { destination: destination.parse().unwrap(), gateway, metric }
}

fn view(addresses: &[&str], routes: &[(&str, &str, u32)]) -> InterfaceView {
    InterfaceView {
        hardware_address: vec![2, 0x42, 0xac, 0x12, 0, 2],
        addresses: addresses.iter().map(|text| address(text)).collect(),
        routes: routes.iter().map(|(to, via, metric)| route(to, via, *metric)).collect(),
        function: None,
        mtu: 1500,
        up: true,
        carrier: Some(true),
    }
}

/// One line per outcome: `mac [addresses] [gateways]` or `Reason: message`.
#[track_caller]
fn check(view: Option<&InterfaceView>, families: &Families, want: &str) {
    let found = match host_data("breth0", view, families) {
        Ok(data) => {
            let list = |texts: Vec<String>| texts.join(" ");
            let addresses = list(data.addresses.iter().map(ToString::to_string).collect());
            let gateways = list(data.gateways.iter().map(ToString::to_string).collect());
            format!("{} [{addresses}] [{gateways}]", data.mac)
        }
        Err(failure) => format!("{}: {}", failure.reason, failure.message),
    };
    assert_eq!(found, want);
}

#[test]
fn a_missing_interface_is_not_found() {
    check(None, &V4, "HostInterfaceNotFound: host interface breth0 was not found: Link not found");
}

#[test]
fn an_interface_needs_a_mac_that_can_identify_it() {
    for mac in [vec![], vec![0; 6], vec![1, 0, 0x5e, 0, 0, 1], vec![2; 20]] {
        let mut odd = view(&["192.0.2.10/24"], &[]);
        odd.hardware_address = mac;
        check(Some(&odd), &V4, "InvalidHostInterface: host interface breth0 has no usable MAC address");
    }
}

#[test]
fn the_first_address_of_each_enabled_family_is_taken() {
    let both = view(&["192.0.2.10/24", "192.0.2.11/24", "fe80::1/64", "2001:db8::10/64"], &[]);
    check(Some(&both), &V4, "02:42:ac:12:00:02 [192.0.2.10/24] []");
    check(Some(&both), &V6, "02:42:ac:12:00:02 [2001:db8::10/64] []");
    check(Some(&both), &DUAL, "02:42:ac:12:00:02 [192.0.2.10/24 2001:db8::10/64] []");
}

#[test]
fn a_missing_family_is_named_ipv4_first() {
    let text = |family| {
        format!(
            "GatewayInfoUnavailable: failed to read IP addresses from breth0: \
             failed to find {family} address on interface breth0"
        )
    };
    check(Some(&view(&[], &[])), &DUAL, &text("IPv4"));
    check(Some(&view(&["192.0.2.10/24"], &[])), &DUAL, &text("IPv6"));
    check(Some(&view(&["fe80::1/64"], &[])), &V6, &text("IPv6"));
}

#[test]
fn addresses_that_are_not_the_gateways_own_are_passed_over() {
    let families = Families {
        masquerade: vec!["169.254.0.0/17".parse().unwrap(), "198.51.100.0/29".parse().unwrap()],
        ..V4
    };
    let mut many = view(
        &[
            "169.254.169.2/29",
            "198.51.100.2/29",
            "192.0.2.1/24",
            "192.0.2.2/24",
            "192.0.2.3/24",
            "192.0.2.4/24",
        ],
        &[],
    );
    many.addresses[2].label = Some("breth0:vip".into());
    many.addresses[3].secondary = true;
    many.addresses[4].deprecated = true;
    check(Some(&many), &families, "02:42:ac:12:00:02 [192.0.2.4/24] []");
}

#[test]
fn an_ipv6_host_address_takes_the_broadest_on_link_prefix() {
    let routes = [
        ("2001:db8::/64", "", 256),
        ("2001:db8::/56", "", 256),
        ("2001:db8::/48", "fe80::1", 1024), // by a next hop: not on the link
        ("::/0", "", 1024),
        ("2001:dead::/32", "", 256),
    ];
    check(Some(&view(&["2001:db8::10/128"], &routes)), &V6, "02:42:ac:12:00:02 [2001:db8::10/56] []");
    check(Some(&view(&["2001:db8::10/128"], &[])), &V6, "02:42:ac:12:00:02 [2001:db8::10/128] []");
}

#[test]
fn only_a_zero_length_destination_with_a_next_hop_is_a_gateway() {
    let routes = [("2001:db8::/32", "fe80::2", 1), ("0.0.0.0/0", "", 1), ("0.0.0.0/0", "192.0.2.1", 100)];
    check(Some(&view(&["192.0.2.10/24"], &routes)), &V4, "02:42:ac:12:00:02 [192.0.2.10/24] [192.0.2.1]");
}

#[test]
fn one_gateway_of_each_family_is_published_by_metric() {
    let routes = [
        ("0.0.0.0/0", "192.0.2.2", 200),
        ("0.0.0.0/0", "192.0.2.1", 100),
        ("0.0.0.0/0", "192.0.2.3", 100),
        ("::/0", "fe80::1", 1024),
    ];
    let dual = view(&["192.0.2.10/24", "2001:db8::10/64"], &routes);
    check(Some(&dual), &DUAL, "02:42:ac:12:00:02 [192.0.2.10/24 2001:db8::10/64] [192.0.2.1 fe80::1]");
    check(Some(&dual), &V4, "02:42:ac:12:00:02 [192.0.2.10/24] [192.0.2.1]");
}

#[test]
fn an_ipv4_default_by_an_ipv6_next_hop_counts_as_ipv4() {
    let routes = [("0.0.0.0/0", "fe80::1", 100)];
    check(Some(&view(&["192.0.2.10/24"], &routes)), &V4, "02:42:ac:12:00:02 [192.0.2.10/24] [fe80::1]");
}

#[test]
fn subnets_contain_by_prefix_at_both_ends() {
    let net = |text: &str| text.parse::<InterfaceAddress>().unwrap();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(contains(net("0.0.0.0/0"), ip("192.0.2.1")));
    assert!(
        contains(net("192.0.2.1/32"), ip("192.0.2.1")) && !contains(net("192.0.2.1/32"), ip("192.0.2.2"))
    );
    assert!(contains(net("::/0"), ip("fd00::1")) && !contains(net("::/0"), ip("192.0.2.1")));
    assert!(contains(net("fd69::/125"), ip("fd69::7")) && !contains(net("fd69::/125"), ip("fd69::8")));
}

#[test]
fn the_wire_is_the_interface_with_its_own_addresses() {
    let mut odd = view(&["fe80::1/64", "2001:db8::10/64"], &[]);
    odd.addresses[1].detection = Detection::Duplicate;
    (odd.mtu, odd.up, odd.carrier) = (9000, false, None);
    let found = wire("breth0", &odd);
    let link =
        LinkFacts { part: Part::HostInterface, name: "breth0".into(), mtu: 9000, up: false, carrier: None };
    let address =
        AddressHealth { address: "2001:db8::10/64".parse().unwrap(), detection: Detection::Duplicate };
    assert_eq!(found, Wire { links: vec![link], addresses: vec![address], vlans: None });
}
