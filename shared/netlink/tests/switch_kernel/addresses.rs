//! Addresses: kernel order, promotion, flags.

use causeway_netlink::{IfIndex, Snapshot};

use crate::namespace::{Case, Namespace, addressed_pair, in_namespace, ip, ip_batch};

pub(crate) fn all() -> Vec<Case> {
    vec![
        ("addresses are listed in kernel order", kernel_order),
        ("a promoted secondary address moves as in the kernel", promoted),
        ("ipv6 duplicate address detection is followed to its end", detection),
        ("an address survives its link going down, as in the kernel", link_down),
    ]
}

fn index_of(snapshot: &Snapshot, name: &str) -> Option<IfIndex> {
    snapshot.links.by_any_name(name).map(|link| link.index)
}

fn listed(snapshot: &Snapshot, name: &str) -> Vec<String> {
    let index = index_of(snapshot, name);
    let addresses = index.map(|index| snapshot.addresses.of(index)).unwrap_or_default();
    addresses.iter().map(|address| address.prefix.to_string()).collect()
}

fn kernel_order() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        // One by one, so that each has to find its place among those before it.
        for address in [
            "198.51.100.1/24",
            "192.0.2.7/24",
            "169.254.3.1/16 scope link",
            "203.0.113.1/24",
            "2001:db8::2/64 nodad",
            "2001:db8:1::1/64 nodad",
            "192.0.2.9 peer 192.0.2.10/32",
        ] {
            ip(&format!("address add {address} dev va")).await;
        }
        ns.until("eight and link-local", |s| (listed(s, "va").len() >= 10).then_some(())).await;
        ns.converges().await;
        ip_batch("address del 198.51.100.1/24 dev va\naddress del 2001:db8::2/64 dev va\n").await;
        ns.until("two fewer", |s| (!listed(s, "va").contains(&"2001:db8::2/64".into())).then_some(())).await;
        ns.converges().await;
    });
}

fn promoted() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "address add 192.0.2.7/24 dev va\naddress add 192.0.2.8/24 dev va\naddress add 203.0.113.1/24 dev va\n",
        )
        .await;
        std::fs::write("/proc/sys/net/ipv4/conf/va/promote_secondaries", "1")
            .expect("a setting of this namespace");
        ip("address del 192.0.2.1/24 dev va").await;
        ns.until("the first is gone", |s| {
            let listed = listed(s, "va");
            (!listed.contains(&"192.0.2.1/24".into()) && listed.contains(&"192.0.2.8/24".into()))
                .then_some(())
        })
        .await;
        ns.converges().await;
        let snapshot = ns.snapshot();
        let index = index_of(&snapshot, "va").expect("a exists");
        let first = snapshot.addresses.of(index).iter().find(|a| a.prefix.to_string() == "192.0.2.7/24");
        assert!(!first.expect("it was promoted").flags.is_secondary_or_temporary());
    });
}

fn detection() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip("address add 2001:db8:2::1/64 dev va").await;
        ns.until("it is tentative or past that", |s| {
            listed(s, "va").contains(&"2001:db8:2::1/64".into()).then_some(())
        })
        .await;
        ns.until("it is usable", |s| {
            let mut addresses = s.addresses.of(index_of(s, "va")?).iter();
            addresses.find(|a| a.prefix.to_string() == "2001:db8:2::1/64" && !a.flags.is_tentative()).cloned()
        })
        .await;
        ns.converges().await;
    });
}

fn link_down() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ns.until("both addresses", |s| (listed(s, "va").len() >= 2).then_some(())).await;
        ip("link set va down").await;
        ns.until("ipv6 is gone, ipv4 stays", |s| (listed(s, "va") == ["192.0.2.1/24"]).then_some(())).await;
        ns.converges().await;
    });
}
