use causeway_nft::{Contents, diff};
use expect_test::{Expect, expect};

use super::*;

const BOTH: Families = Families { ipv4: true, ipv6: true };
const V4: Families = Families { ipv4: true, ipv6: false };
const V6: Families = Families { ipv4: false, ipv6: true };

fn kubelet() -> Cgroup {
    cgroup("kubelet.slice/kubelet.service", Some(77)).unwrap()
}

/// The transaction that makes everything.
#[track_caller]
fn check(families: Families, kubelet: Option<&Cgroup>, want: &Expect) {
    let transaction = diff(&desired(families, kubelet), &Contents::new(), &Observed::default(), false);
    let rules: Vec<String> = transaction
        .to_string()
        .lines()
        .filter(|line| line.starts_with("add rule"))
        .map(|line| line.replace("add rule inet ovn-kubernetes udn-isolation ", ""))
        .collect();
    want.assert_eq(&(rules.join("\n") + "\n"));
}

#[test]
fn chain_and_sets_have_upstreams_names_and_comments() {
    let transaction = diff(&desired(V4, None), &Contents::new(), &Observed::default(), false).to_string();
    let made: Vec<&str> = transaction.lines().filter(|line| !line.starts_with("add rule")).collect();
    expect![[r#"
        add table inet ovn-kubernetes
        add set inet ovn-kubernetes udn-open-ports-v4 { type ipv4_addr . inet_proto . inet_service; comment "default network open ports of pods in user defined networks (IPv4)"; }
        add set inet ovn-kubernetes udn-open-ports-v6 { type ipv6_addr . inet_proto . inet_service; comment "default network open ports of pods in user defined networks (IPv6)"; }
        add set inet ovn-kubernetes udn-open-ports-icmp-v4 { type ipv4_addr; comment "default network IPs of pods in user defined networks that allow ICMP (IPv4)"; }
        add set inet ovn-kubernetes udn-open-ports-icmp-v6 { type ipv6_addr; comment "default network IPs of pods in user defined networks that allow ICMP (IPv6)"; }
        add set inet ovn-kubernetes udn-pod-default-ips-v4 { type ipv4_addr; comment "default network IPs of pods in user defined networks (IPv4)"; }
        add set inet ovn-kubernetes udn-pod-default-ips-v6 { type ipv6_addr; comment "default network IPs of pods in user defined networks (IPv6)"; }
        add chain inet ovn-kubernetes udn-isolation { type filter hook output priority 0; policy accept; comment "Host isolation for user defined networks"; }
    "#]]
    .assert_eq(&(made.join("\n") + "\n"));
}

#[test]
fn both_families_have_four_rules_each_the_older_first() {
    check(
        BOTH,
        Some(&kubelet()),
        &expect![[r#"
            ip daddr . meta l4proto . th dport @udn-open-ports-v4 accept
            ip daddr @udn-open-ports-icmp-v4 meta l4proto icmp accept
            socket cgroupv2 level 2 "kubelet.slice/kubelet.service" ip daddr @udn-pod-default-ips-v4 accept
            ip daddr @udn-pod-default-ips-v4 drop
            ip6 daddr . meta l4proto . th dport @udn-open-ports-v6 accept
            ip6 daddr @udn-open-ports-icmp-v6 meta l4proto icmpv6 accept
            socket cgroupv2 level 2 "kubelet.slice/kubelet.service" ip6 daddr @udn-pod-default-ips-v6 accept
            ip6 daddr @udn-pod-default-ips-v6 drop
        "#]],
    );
}

#[test]
fn one_family_has_its_own_rules_and_without_a_cgroup_none_for_the_kubelet() {
    check(
        V4,
        None,
        &expect![[r"
            ip daddr . meta l4proto . th dport @udn-open-ports-v4 accept
            ip daddr @udn-open-ports-icmp-v4 meta l4proto icmp accept
            ip daddr @udn-pod-default-ips-v4 drop
        "]],
    );
    check(
        V6,
        Some(&kubelet()),
        &expect![[r#"
            ip6 daddr . meta l4proto . th dport @udn-open-ports-v6 accept
            ip6 daddr @udn-open-ports-icmp-v6 meta l4proto icmpv6 accept
            socket cgroupv2 level 2 "kubelet.slice/kubelet.service" ip6 daddr @udn-pod-default-ips-v6 accept
            ip6 daddr @udn-pod-default-ips-v6 drop
        "#]],
    );
}

#[test]
fn the_level_is_the_number_of_components_and_paths_that_nft_cannot_take_are_refused() {
    for (path, level) in [("kubelet", 1), ("system.slice/kubelet.service", 2), ("a/b/c", 3)] {
        assert_eq!(cgroup(path, None).unwrap().level, level, "{path}");
    }
    for path in ["", "/", "/kubelet", "kubelet/", "a//b", "a/../b", ".", "a\nb", "a\"b accept"] {
        assert!(cgroup(path, None).is_err(), "{path:?}");
    }
}

/// The kernel after an earlier process made what it wanted.
fn left(families: Families, cgroup: Option<&Cgroup>) -> Observed {
    let mut observed = Observed::default();
    let transaction = diff(&desired(families, cgroup), &Contents::new(), &observed, false);
    observed.apply(&transaction);
    observed
}

#[test]
fn probes_keep_their_rules_while_the_kubelet_is_looked_for_and_nothing_else_is_wrong() {
    let kept = |families, have: &Observed| {
        let mut desired = desired(families, None);
        keep_probes(&mut desired, families, have);
        diff(&desired, &Contents::new(), have, false).is_empty()
    };
    assert!(kept(BOTH, &left(BOTH, Some(&kubelet()))));
    assert!(kept(V4, &left(V4, Some(&kubelet()))));
    assert!(kept(V4, &left(V4, None)));
    let mut without_drop = left(V4, Some(&kubelet()));
    without_drop.chains.get_mut(CHAIN).unwrap().rules.pop();
    assert!(!kept(V4, &without_drop));
    let mut with_another = left(V4, Some(&kubelet()));
    with_another.chains.get_mut(CHAIN).unwrap().rules.insert(0, None);
    assert!(!kept(V4, &with_another));
    assert!(!kept(BOTH, &left(V4, Some(&kubelet()))));
}

#[test]
fn the_worked_example_has_these_elements() {
    let addresses = ["10.244.0.6", "fd00:10:244:1::6"].map(|address| address.parse().unwrap());
    let ports = [OpenPort::Icmp, OpenPort::Port(Protocol::TCP, 80)];
    let found: Vec<String> = elements(&addresses, &ports)
        .iter()
        .map(|(set, element)| format!("{} {element}", set.name()))
        .collect();
    let want = [
        "udn-open-ports-v4 10.244.0.6 . tcp . 80",
        "udn-open-ports-v6 fd00:10:244:1::6 . tcp . 80",
        "udn-open-ports-icmp-v4 10.244.0.6",
        "udn-open-ports-icmp-v6 fd00:10:244:1::6",
        "udn-pod-default-ips-v4 10.244.0.6",
        "udn-pod-default-ips-v6 fd00:10:244:1::6",
    ];
    assert_eq!(found, want);
    assert_eq!(elements(&addresses[..1], &[]).len(), 1);
}

#[test]
fn every_element_fits_its_set() {
    let addresses = ["10.244.0.6", "fd00::6", "::ffff:192.0.2.1"].map(|address| address.parse().unwrap());
    let ports = [OpenPort::Icmp, OpenPort::Port(Protocol::SCTP, 0)];
    for (set, element) in elements(&addresses, &ports) {
        assert!(set.set().kind.takes(&element), "{} {element}", set.name());
    }
}
