use super::*;

const OWNED: Owned = Owned {
    table: "ovn-kubernetes",
    chains: &["udn-isolation"],
    sets: &["ports-v4", "ips-v6", "odd", "typed", "map"],
};

/// A listing of nft 1.1.3 on Linux 6.18, shortened; the second chain and set belong to somebody else.
const LISTING: &str = r#"{"nftables": [
 {"metainfo": {"version": "1.1.3", "release_name": "Commodore Bullmoose #4", "json_schema_version": 1}},
 {"table": {"family": "inet", "name": "ovn-kubernetes", "handle": 1}},
 {"chain": {"family": "inet", "table": "ovn-kubernetes", "name": "udn-isolation", "handle": 1, "comment": "Host isolation",
   "type": "filter", "hook": "output", "prio": 0, "policy": "accept"}},
 {"chain": {"family": "inet", "table": "ovn-kubernetes", "name": "services", "handle": 2}},
 {"set": {"family": "inet", "name": "ports-v4", "table": "ovn-kubernetes",
   "type": ["ipv4_addr", "inet_proto", "inet_service"], "handle": 3, "comment": "c 2",
   "elem": [{"concat": ["192.0.2.1", "sctp", 0]}, {"concat": ["192.0.2.1", 6, 80]}]}},
 {"set": {"family": "inet", "name": "ips-v6", "table": "ovn-kubernetes", "type": "ipv6_addr", "handle": 5,
   "elem": ["fd00::1"]}},
 {"set": {"family": "inet", "name": "odd", "table": "ovn-kubernetes", "type": "ipv4_addr", "handle": 6,
   "flags": ["interval"], "elem": [{"prefix": {"addr": "192.0.2.0", "len": 24}}]}},
 {"set": {"family": "inet", "name": "typed", "table": "ovn-kubernetes", "handle": 9,
   "type": {"typeof": {"payload": {"protocol": "ip", "field": "daddr"}}}}},
 {"set": {"family": "inet", "name": "theirs", "table": "ovn-kubernetes", "type": "nobody knows", "elem": [true]}},
 {"map": {"family": "inet", "name": "map", "table": "ovn-kubernetes", "type": "ipv4_addr", "handle": 10, "map": "verdict"}},
 {"rule": {"family": "inet", "table": "ovn-kubernetes", "chain": "udn-isolation", "handle": 6, "expr": [
   {"match": {"op": "==", "left": {"concat": [{"payload": {"protocol": "ip", "field": "daddr"}}, {"meta": {"key": "l4proto"}},
     {"payload": {"protocol": "th", "field": "dport"}}]}, "right": "@ports-v4"}}, {"accept": null}]}},
 {"rule": {"family": "inet", "table": "ovn-kubernetes", "chain": "udn-isolation", "handle": 7, "expr": [
   {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": "@ips-v6"}},
   {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "ipv6-icmp"}}, {"accept": null}]}},
 {"rule": {"family": "inet", "table": "ovn-kubernetes", "chain": "udn-isolation", "handle": 8, "expr": [
   {"match": {"op": "==", "left": {"socket": {"key": "cgroupv2"}}, "right": "kubelet.slice/kubelet.service"}},
   {"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": "@ips-v6"}}, {"accept": null}]}},
 {"rule": {"family": "inet", "table": "ovn-kubernetes", "chain": "udn-isolation", "handle": 9, "expr": [
   {"match": {"op": "!=", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": "@ips-v6"}}, {"drop": null}]}},
 {"rule": {"family": "inet", "table": "ovn-kubernetes", "chain": "services", "handle": 10, "expr": [{"vmap": {}}]}}]}"#;

const CHAIN: &str = r#"table inet ovn-kubernetes {
	chain udn-isolation {
		comment "Host isolation"
		type filter hook output priority filter; policy accept;
		ip daddr . meta l4proto . th dport @ports-v4 accept
		ip6 daddr @ips-v6 meta l4proto ipv6-icmp accept
		socket cgroupv2 level 2 "kubelet.slice/kubelet.service" ip6 daddr @ips-v6 accept
		ip6 daddr != @ips-v6 drop
	}
}"#;

fn observed() -> Observed {
    let mut observed = read(LISTING, &OWNED).unwrap();
    fill_levels(observed.chains.get_mut("udn-isolation").unwrap(), CHAIN);
    observed
}

#[test]
fn only_what_is_ours_is_kept() {
    let observed = observed();
    assert!(observed.table);
    assert_eq!(observed.chains.keys().collect::<Vec<_>>(), ["udn-isolation"]);
    assert_eq!(observed.sets.keys().collect::<Vec<_>>(), ["ips-v6", "odd", "ports-v4", "typed"]);
}

#[test]
fn a_chain_is_read_with_its_rules_and_one_that_cannot_be_said_keeps_its_place() {
    let chain = &observed().chains["udn-isolation"];
    assert_eq!((chain.priority, chain.comment.as_deref()), (Some(0), Some("Host isolation")));
    let shown: Vec<Option<String>> =
        chain.rules.iter().map(|rule| rule.as_ref().map(Rule::to_string)).collect();
    let want = [
        Some("ip daddr . meta l4proto . th dport @ports-v4 accept"),
        Some("ip6 daddr @ips-v6 meta l4proto icmpv6 accept"),
        Some("socket cgroupv2 level 2 \"kubelet.slice/kubelet.service\" ip6 daddr @ips-v6 accept"),
        None,
    ];
    assert_eq!(shown.iter().map(Option::as_deref).collect::<Vec<_>>(), want);
}

#[test]
fn sets_are_read_with_protocols_by_name_or_number() {
    let observed = observed();
    let ports = &observed.sets["ports-v4"];
    let definition = ports.definition.as_ref().unwrap();
    assert_eq!((definition.kind, definition.comment.as_str()), (SetKind::Endpoint(Family::V4), "c 2"));
    let address = "192.0.2.1".parse().unwrap();
    let want = [Element::Endpoint(address, Protocol::TCP, 80), Element::Endpoint(address, Protocol::SCTP, 0)];
    assert_eq!(ports.elements.iter().copied().collect::<Vec<_>>(), want);
    let six = &observed.sets["ips-v6"];
    assert_eq!(
        six.elements.iter().copied().collect::<Vec<_>>(),
        [Element::Address("fd00::1".parse().unwrap())]
    );
}

#[test]
fn a_set_of_a_kind_that_cannot_be_said_has_no_definition() {
    let observed = observed();
    let odd = &observed.sets["odd"];
    assert!(odd.definition.is_none() && odd.foreign, "{odd:?}");
    assert!(observed.sets["typed"].definition.is_none());
}

#[test]
fn the_level_of_a_cgroup_stays_unknown_when_the_two_listings_differ() {
    let mut observed = read(LISTING, &OWNED).unwrap();
    let chain = observed.chains.get_mut("udn-isolation").unwrap();
    assert!(has_cgroups(chain));
    fill_levels(chain, "socket cgroupv2 level 1 accept\nsocket cgroupv2 level 2 accept");
    let rule = chain.rules[2].as_ref().unwrap();
    assert!(matches!(&rule.matches[0], Match::Cgroup(cgroup) if cgroup.level == 0), "{rule:?}");
}

#[test]
fn a_listing_that_is_cut_off_is_refused_at_every_place() {
    for at in 0..LISTING.len() {
        assert!(read(&LISTING[..at], &OWNED).is_err(), "cut at {at}");
    }
}
