use std::net::{IpAddr, Ipv4Addr};

use causeway_nft::{Family, Protocol};
use proptest::prelude::*;

use super::*;
use crate::isolation::ports::OpenPort;

const ADDRESSES: SetId = SetId::Addresses(Family::V4);

fn name(namespace: &str, name: &str) -> NamespacedName {
    NamespacedName { namespace: namespace.into(), name: name.into() }
}

fn locked(uid: &str, addresses: &[&str], ports: &[OpenPort]) -> PodFacts {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let network = DefaultNetwork::Locked { addresses, ports: Ok(ports.into()) };
    PodFacts { uid: uid.into(), here: true, network }
}

fn listed(ledger: &Ledger, set: SetId) -> Vec<String> {
    ledger.contents()[set.name()].iter().map(ToString::to_string).collect()
}

/// Steps of one table: pod, its addresses (none: gone), the set afterwards.
#[test]
fn an_address_leaves_with_the_last_of_its_owners() {
    let mut ledger = Ledger::default();
    let steps: [(&str, &str, &[&str], &[&str]); 8] = [
        ("ns1", "pod1", &["1.1.1.2"], &["1.1.1.2"]),
        ("ns1", "pod2", &["1.1.1.2"], &["1.1.1.2"]),
        ("ns2", "pod1", &["1.1.1.3"], &["1.1.1.2", "1.1.1.3"]),
        ("ns1", "pod1", &["1.1.1.1"], &["1.1.1.1", "1.1.1.2", "1.1.1.3"]),
        ("ns2", "pod1", &["1.1.1.4"], &["1.1.1.1", "1.1.1.2", "1.1.1.4"]),
        ("ns1", "pod1", &[], &["1.1.1.2", "1.1.1.4"]),
        ("ns2", "pod1", &[], &["1.1.1.2"]),
        ("ns1", "pod2", &[], &[]),
    ];
    for (namespace, pod, addresses, want) in steps {
        let facts = (!addresses.is_empty()).then(|| locked("u", addresses, &[]));
        ledger.update(&name(namespace, pod), facts.as_ref());
        assert_eq!(listed(&ledger, ADDRESSES), want, "after {namespace}/{pod} {addresses:?}");
        assert_eq!(ledger.count(ADDRESSES), want.len());
    }
}

#[test]
fn an_open_port_with_two_owners_stays_with_the_second() {
    let mut ledger = Ledger::default();
    let web = [OpenPort::Port(Protocol::TCP, 80)];
    let (old, new) = (name("blue", "old"), name("blue", "new"));
    ledger.update(&old, Some(&locked("1", &["10.244.1.9"], &web)));
    ledger.update(&new, Some(&locked("2", &["10.244.1.9"], &web)));
    ledger.update(&old, None);
    assert_eq!(listed(&ledger, SetId::Ports(Family::V4)), ["10.244.1.9 . tcp . 80"]);
    ledger.update(&new, Some(&locked("2", &["10.244.1.9"], &[])));
    assert_eq!(listed(&ledger, SetId::Ports(Family::V4)), Vec::<String>::new());
    assert_eq!(listed(&ledger, ADDRESSES), ["10.244.1.9"]);
}

#[test]
fn ports_that_cannot_be_read_any_more_are_closed_and_the_address_stays() {
    let mut ledger = Ledger::default();
    let pod = name("blue", "web");
    ledger
        .update(&pod, Some(&locked("1", &["1.1.1.1"], &[OpenPort::Icmp, OpenPort::Port(Protocol::UDP, 53)])));
    let addresses = Box::from(["1.1.1.1".parse().unwrap()]);
    let network = DefaultNetwork::Locked { addresses, ports: Err("invalid protocol ppp".into()) };
    ledger.update(&pod, Some(&PodFacts { uid: "1".into(), here: true, network }));
    assert_eq!(listed(&ledger, ADDRESSES), ["1.1.1.1"]);
    for set in [SetId::Ports(Family::V4), SetId::Icmp(Family::V4)] {
        assert_eq!(listed(&ledger, set), Vec::<String>::new());
    }
}

#[test]
fn what_cannot_be_read_changes_nothing_of_the_same_pod_and_is_nothing_of_another() {
    for unknown in [DefaultNetwork::Unknown, DefaultNetwork::Unreadable("EOF".into())] {
        let mut ledger = Ledger::default();
        let pod = name("blue", "web");
        let facts = |uid: &str| PodFacts { uid: uid.into(), here: true, network: unknown.clone() };
        ledger.update(&pod, Some(&facts("1")));
        assert_eq!(listed(&ledger, ADDRESSES), Vec::<String>::new());
        ledger.update(&pod, Some(&locked("1", &["1.1.1.1"], &[])));
        ledger.update(&pod, Some(&facts("1")));
        assert_eq!(listed(&ledger, ADDRESSES), ["1.1.1.1"], "{unknown:?} of the same pod");
        ledger.update(&pod, Some(&facts("2")));
        assert_eq!(listed(&ledger, ADDRESSES), Vec::<String>::new(), "{unknown:?} of its successor");
    }
}

#[test]
fn only_what_changes_is_touched() {
    let mut ledger = Ledger::default();
    ledger.update(&name("a", "1"), Some(&locked("1", &["1.1.1.1"], &[OpenPort::Icmp])));
    ledger.update(&name("a", "2"), Some(&locked("2", &["1.1.1.2"], &[])));
    ledger.settled();
    ledger.update(&name("a", "1"), Some(&locked("1", &["1.1.1.1"], &[])));
    ledger.update(&name("a", "2"), Some(&locked("2", &["1.1.1.2"], &[])));
    let touched: Vec<_> = ledger.touched().collect();
    let address = Element::Address("1.1.1.1".parse().unwrap());
    assert_eq!(touched, [(SetId::Icmp(Family::V4), BTreeSet::from([address]))]);
}

/// One thing that happens to one of a few pods, which share a few addresses.
fn step() -> impl Strategy<Value = (u8, Option<PodFacts>)> {
    let address = (0_u8..4).prop_map(|last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
    let port =
        prop_oneof![Just(OpenPort::Icmp), (0_u16..3).prop_map(|port| OpenPort::Port(Protocol::TCP, port))];
    let addresses = proptest::collection::vec(address, 1..3);
    let ports = proptest::collection::vec(port, 0..3);
    let network = (addresses, proptest::option::weighted(0.8, ports)).prop_map(|(addresses, ports)| {
        let ports = ports.map(Into::into).ok_or_else(|| "bad".into());
        DefaultNetwork::Locked { addresses: addresses.into(), ports }
    });
    let facts = network.prop_map(|network| PodFacts { uid: "u".into(), here: true, network });
    (0_u8..5, proptest::option::weighted(0.7, facts))
}

proptest! {
    /// Whatever happened before: the sets are those of a ledger that has only seen the pods as they are now, and what
    /// was touched covers every difference.
    #[test]
    fn history_leaves_no_trace(steps in proptest::collection::vec(step(), 0..40), settled_after in 0_usize..40) {
        let mut ledger = Ledger::default();
        let mut now = BTreeMap::new();
        let mut before = ledger.contents();
        for (at, (pod, facts)) in steps.iter().enumerate() {
            if at == settled_after {
                ledger.settled();
                before = ledger.contents();
            }
            ledger.update(&name("ns", &pod.to_string()), facts.as_ref());
            now.insert(*pod, facts.clone());
        }
        let mut fresh = Ledger::default();
        for (pod, facts) in &now {
            fresh.update(&name("ns", &pod.to_string()), facts.as_ref());
        }
        let (found, want) = (ledger.contents(), fresh.contents());
        prop_assert_eq!(&found, &want);
        for set in SetId::ALL {
            prop_assert_eq!(ledger.count(set), want[set.name()].len());
            let touched: BTreeSet<Element> = ledger.touched().filter(|(touched, _)| *touched == set).flat_map(|(_, elements)| elements).collect();
            let changed = before[set.name()].symmetric_difference(&found[set.name()]);
            prop_assert!(changed.into_iter().all(|element| touched.contains(element)));
        }
    }
}
