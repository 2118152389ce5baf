use causeway_net::network::id::NetworkId;
use causeway_net::network::name::NetworkName;

use super::super::network::DefaultRoutes;
use super::*;

fn port(addresses: &[&str]) -> ManagedNetwork {
    ManagedNetwork {
        network: NetworkName::from("blue"),
        id: NetworkId::try_from(7_u32).unwrap(),
        interface_id: "k8s-blue_node1".into(),
        mac: "0a:58:0a:c8:00:02".parse().unwrap(),
        mtu: 1400,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        default: None,
    }
}

fn default_port() -> ManagedNetwork {
    let routes = vec![("10.128.0.0/14".parse().unwrap(), "10.128.0.1".parse().unwrap())];
    let neighbours = vec![("10.128.0.1".parse().unwrap(), "0a:58:0a:80:00:01".parse().unwrap())];
    ManagedNetwork {
        id: NetworkId::DEFAULT,
        default: Some(DefaultRoutes { routes, neighbours }),
        ..port(&["10.128.0.2/24"])
    }
}

/// A new link, as the switch makes it.
fn fresh() -> Seen {
    Seen { mac: Some("0a:58:0a:c8:00:02".parse().unwrap()), ..Seen::default() }
}

/// What is there after some steps.
fn after(port: &ManagedNetwork, mut seen: Seen) -> Seen {
    for step in steps(port, &seen) {
        match step {
            Step::Sysctl { path, value } => drop(seen.sysctls.insert(path, value.into())),
            Step::SetUp => seen.up = true,
            Step::RemoveAddress(net) => seen.addresses.retain(|have| *have != net),
            Step::AddAddress(net) => seen.addresses.push(net),
            Step::Route { destination, gateway } => {
                seen.routes.retain(|(have, _)| *have != destination);
                seen.routes.push((destination, gateway));
            }
            Step::Neighbour { address, mac } => {
                seen.neighbours.retain(|(have, _)| *have != address);
                seen.neighbours.push((address, mac));
            }
        }
    }
    seen
}

fn shown(port: &ManagedNetwork, seen: &Seen) -> Vec<String> {
    steps(port, seen).iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_link_gets_its_settings_then_goes_up_then_gets_its_addresses() {
    let mut seen = fresh();
    for path in ["net/ipv4/conf/ovn-k8s-mp7/forwarding", "net/ipv4/conf/ovn-k8s-mp7/rp_filter"] {
        seen.sysctls.insert(path.into(), "0".into());
    }
    let want = [
        "set net/ipv4/conf/ovn-k8s-mp7/forwarding to 1",
        "set net/ipv4/conf/ovn-k8s-mp7/rp_filter to 2",
        "set up",
        "add 10.200.0.2/24",
        "add fd20::2/64",
    ];
    assert_eq!(shown(&port(&["10.200.0.2/24", "fd20::2/64"]), &seen), want);
}

#[test]
fn settings_are_those_of_the_families_that_the_port_has_and_the_kernel_knows() {
    let of =
        |addresses: &[&str]| sysctls(&port(addresses)).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(of(&["fd20::2/64"]), ["net/ipv6/conf/ovn-k8s-mp7/force_forwarding"]);
    assert_eq!(of(&["10.200.0.2/24"]).len(), 2);
    let known = Seen { up: true, ..fresh() };
    assert_eq!(shown(&port(&["fd20::2/64"]), &known), ["add fd20::2/64"], "the kernel has no such setting");
}

#[test]
fn a_second_look_finds_nothing_to_do_whatever_was_there() {
    let seen = |addresses: &[&str], up| Seen {
        up,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..fresh()
    };
    for have in
        [&[][..], &["10.200.0.2/16"], &["10.9.9.2/24", "fd09::2/64"], &["10.200.0.2/24", "192.0.2.1/32"]]
    {
        for wanted in [port(&["10.200.0.2/24", "fd20::2/64"]), default_port()] {
            for up in [false, true] {
                let settled = after(&wanted, seen(have, up));
                assert_eq!(shown(&wanted, &settled), [""; 0], "{have:?}");
            }
        }
    }
}

#[test]
fn an_address_of_another_length_or_subnet_goes_before_the_right_one_comes() {
    let have = |addresses: &[&str]| Seen {
        up: true,
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..fresh()
    };
    let port = port(&["10.200.0.2/24"]);
    assert_eq!(shown(&port, &have(&["10.200.0.2/16"])), ["remove 10.200.0.2/16", "add 10.200.0.2/24"]);
    assert_eq!(
        shown(&port, &have(&["10.9.9.2/24", "fd09::2/64"])),
        ["remove 10.9.9.2/24", "add 10.200.0.2/24"]
    );
    // Beside the right one, others are somebody else's.
    assert_eq!(shown(&port, &have(&["10.200.0.2/24", "192.0.2.1/32"])), [""; 0]);
}

#[test]
fn a_link_waits_for_its_mac_before_it_goes_up() {
    let other = Seen { mac: Some("02:00:00:00:00:01".parse().unwrap()), ..Seen::default() };
    assert_eq!(shown(&port(&["10.200.0.2/24"]), &other), [""; 0]);
    let up = Seen { up: true, ..other };
    assert_eq!(shown(&port(&["10.200.0.2/24"]), &up), ["add 10.200.0.2/24"]);
}

#[test]
fn ways_of_the_default_network_are_made_and_led_right_again() {
    let mut seen = Seen { up: true, addresses: vec!["10.128.0.2/24".parse().unwrap()], ..fresh() };
    let want = ["route 10.128.0.0/14 via 10.128.0.1", "neighbour 10.128.0.1 at 0a:58:0a:80:00:01"];
    assert_eq!(shown(&default_port(), &seen), want);
    seen.routes = vec![("10.128.0.0/14".parse().unwrap(), "10.128.0.9".parse().unwrap())];
    seen.neighbours = vec![("10.128.0.1".parse().unwrap(), "02:00:00:00:00:09".parse().unwrap())];
    assert_eq!(shown(&default_port(), &seen), want);
}
