//! Routes and rules: tables, multipath, and what the kernel does without saying so.

use causeway_netlink::{Family, IfIndex, Route, RouteKind, RuleAction, Snapshot, TABLE_MAIN};

use crate::namespace::{Case, Namespace, addressed_pair, in_namespace, ip, ip_batch};

pub(crate) fn all() -> Vec<Case> {
    vec![
        ("routes of all tables and kinds are seen", tables_and_kinds),
        ("ipv6 hops join and leave a multipath route", ipv6_multipath),
        ("a link that goes down takes its ipv4 routes", link_down),
        ("a multipath route survives one dead link, not two", multipath_link_down),
        ("a deleted link takes its routes", link_deleted),
        ("the last address takes the link's ipv4 routes", last_address),
        ("routes that prefer a removed address are gone", preferred_source),
        ("a deleted nexthop object takes its routes", nexthop_object),
        ("appended, prepended and replaced routes keep the kernel's order", order),
        ("rules come and go", rules),
    ]
}

fn main_table(snapshot: &Snapshot, destination: &str) -> Option<Route> {
    let mut routes = snapshot.routes.table(TABLE_MAIN);
    routes.find(|route| route.key.destination.to_string() == destination).map(|route| Route::clone(route))
}

fn index_of(snapshot: &Snapshot, name: &str) -> Option<IfIndex> {
    snapshot.links.by_any_name(name).map(|link| link.index)
}

fn tables_and_kinds() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "route add default via 192.0.2.254 metric 50000\n\
             route add 10.0.0.0/8 table 1010 nexthop via 192.0.2.2 weight 3 nexthop via 192.0.2.3\n\
             route add 172.16.0.0/12 via inet6 fe80::9 dev va\n\
             route add 198.51.100.0/24 dev va src 192.0.2.1 mtu 1400 proto static\n\
             route add blackhole 203.0.113.0/24 table 1010\n\
             route add unreachable 2001:db8:dead::/48 table 1010 metric 7\n\
             route add default via 2001:db8::2\n\
             route add 100.64.0.0/10 via 100.64.0.1 dev va onlink\n",
        )
        .await;
        ns.until("the last one", |s| main_table(s, "100.64.0.0/10")).await;
        ns.converges().await;
        let snapshot = ns.snapshot();
        let default = main_table(&snapshot, "0.0.0.0/0").expect("the default route");
        assert!(default.is_default());
        assert_eq!(default.key.priority, 50_000);
        let ecmp = snapshot.routes.table(1010).next().expect("the multipath route");
        assert_eq!(ecmp.hops.as_slice().iter().map(|hop| hop.weight.get()).collect::<Vec<_>>(), [3, 1]);
        let cross = main_table(&snapshot, "172.16.0.0/12").expect("the cross-family route");
        assert_eq!(cross.hops.as_slice()[0].gateway, "fe80::9".parse().ok());
        let direct = main_table(&snapshot, "198.51.100.0/24").expect("the direct route");
        assert_eq!(direct.details.and_then(|details| details.mtu), Some(1400));
        assert!(
            main_table(&snapshot, "100.64.0.0/10").expect("the on-link route").hops.as_slice()[0].on_link
        );
        let kinds: Vec<RouteKind> = snapshot.routes.table(1010).map(|route| route.kind).collect();
        assert_eq!(kinds, [RouteKind::Unicast, RouteKind::Blackhole, RouteKind::Unreachable]);
        let a = index_of(&snapshot, "va").expect("a exists");
        assert!(snapshot.routes.through(a).count() >= 7);
        ip("route flush table 1010").await;
        ns.until("ipv4 of the table is gone", |s| {
            s.routes.table(1010).all(|route| route.family() == Family::V6).then_some(())
        })
        .await;
        ns.converges().await;
    });
}

fn ipv6_multipath() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        let prefix = "2001:db8:f::/48";
        let hops = move |s: &Snapshot| main_table(s, prefix).map_or(0, |route| route.hops.as_slice().len());
        ip(&format!("route add {prefix} via 2001:db8::2 dev va")).await;
        ns.until("one hop", |s| (hops(s) == 1).then_some(())).await;
        ip(&format!("route append {prefix} via 2001:db8::3 dev va")).await;
        ip(&format!("route append {prefix} via 2001:db8::4 dev va")).await;
        ns.until("three hops", |s| (hops(s) == 3).then_some(())).await;
        ns.converges().await;
        ip(&format!("route del {prefix} via 2001:db8::3 dev va")).await;
        ns.until("two hops", |s| (hops(s) == 2).then_some(())).await;
        ns.converges().await;
        ip(&format!("route replace {prefix} nexthop via 2001:db8::7 nexthop via 2001:db8::8")).await;
        ns.until("others", |s| {
            let route = main_table(s, prefix)?;
            route.hops.as_slice().iter().any(|hop| hop.gateway == "2001:db8::7".parse().ok()).then_some(())
        })
        .await;
        ns.converges().await;
        ip(&format!("route del {prefix}")).await;
        ns.converges().await;
    });
}

fn link_down() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch("route add 10.0.0.0/8 via 192.0.2.2\nroute add 10.0.0.0/8 via 192.0.2.3 table 1010\n").await;
        let a = ns.until("both routes", |s| s.routes.table(1010).next().and(index_of(s, "va"))).await;
        ip("link set va down").await;
        ns.until("no route but to itself", |s| {
            s.routes.through(a).all(|route| route.kind == RouteKind::Local).then_some(())
        })
        .await;
        ns.converges().await;
        ip("link set va up").await;
        ns.until("the connected route is back", |s| main_table(s, "192.0.2.0/24")).await;
        ns.converges().await;
    });
}

fn multipath_link_down() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "link add vc type veth peer name vd\nlink set vc up\nlink set vd up\n\
             address add 198.51.100.1/24 dev vc\naddress add 2001:db8:c::1/64 dev vc nodad\n\
             route add 10.0.0.0/8 nexthop via 192.0.2.2 nexthop via 198.51.100.2\n\
             route add 2001:db8:f::/48 nexthop via 2001:db8::2 nexthop via 2001:db8:c::2\n",
        )
        .await;
        ns.until("both routes", |s| main_table(s, "10.0.0.0/8").and(main_table(s, "2001:db8:f::/48"))).await;
        ip("link set vc down").await;
        ns.until("c lost its connected route", |s| main_table(s, "198.51.100.0/24").is_none().then_some(()))
            .await;
        ns.converges().await;
        assert!(main_table(&ns.snapshot(), "10.0.0.0/8").is_some());
        ip("link set va down").await;
        ns.until("the multipath route is gone", |s| main_table(s, "10.0.0.0/8").is_none().then_some(()))
            .await;
        ns.converges().await;
    });
}

fn link_deleted() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "link add vc type veth peer name vd\nlink set vc up\nlink set vd up\naddress add 198.51.100.1/24 dev vc\n\
             route add 10.0.0.0/8 nexthop via 192.0.2.2 nexthop via 198.51.100.2\n\
             route add 172.16.0.0/12 via 198.51.100.2\nroute add 203.0.113.0/24 via 192.0.2.2\n",
        )
        .await;
        ns.until("the last route", |s| main_table(s, "203.0.113.0/24")).await;
        ip("link delete vc").await;
        ns.until("c's route is gone", |s| main_table(s, "172.16.0.0/12").is_none().then_some(())).await;
        ns.converges().await;
        assert!(main_table(&ns.snapshot(), "203.0.113.0/24").is_some());
    });
}

fn last_address() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip("route add 10.0.0.0/8 dev va scope link").await;
        ns.until("the route", |s| main_table(s, "10.0.0.0/8")).await;
        ip("address del 192.0.2.1/24 dev va").await;
        ns.until("the route is gone", |s| main_table(s, "10.0.0.0/8").is_none().then_some(())).await;
        ns.converges().await;
    });
}

fn preferred_source() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "address add 198.51.100.1/24 dev vb\naddress add 2001:db8:b::1/64 dev vb nodad\n\
             route add 10.0.0.0/8 via 192.0.2.2 src 198.51.100.1\n\
             route add 2001:db8:f::/48 via 2001:db8::2 src 2001:db8:b::1\n",
        )
        .await;
        let preferred = |s: &Snapshot| main_table(s, "2001:db8:f::/48").map(|route| route.preferred_source);
        ns.until("both routes", |s| preferred(s).flatten().and(main_table(s, "10.0.0.0/8"))).await;
        ip_batch("address del 198.51.100.1/24 dev vb\naddress del 2001:db8:b::1/64 dev vb\n").await;
        ns.until("ipv4: gone", |s| main_table(s, "10.0.0.0/8").is_none().then_some(())).await;
        ns.until("ipv6: without preference", |s| (preferred(s) == Some(None)).then_some(())).await;
        ns.converges().await;
    });
}

fn nexthop_object() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        ip_batch(
            "nexthop add id 7 via 192.0.2.2 dev va\nnexthop add id 8 via 192.0.2.3 dev va\n\
             nexthop add id 9 group 7/8\nroute add 10.0.0.0/8 nhid 7\nroute add 172.16.0.0/12 nhid 9\n",
        )
        .await;
        let route = ns.until("the route of the group", |s| main_table(s, "172.16.0.0/12")).await;
        assert_eq!(route.nexthop_object().map(|id| id.0.get()), Some(9));
        assert_eq!(route.hops.as_slice().len(), 2);
        ip("nexthop del id 7").await;
        ns.until("its own route is gone", |s| main_table(s, "10.0.0.0/8").is_none().then_some(())).await;
        ns.until("the group's route has one hop", |s| {
            (main_table(s, "172.16.0.0/12")?.hops.as_slice().len() == 1).then_some(())
        })
        .await;
        ns.converges().await;
    });
}

fn order() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        addressed_pair().await;
        for step in [
            "route add 10.0.0.0/8 via 192.0.2.2",
            "route append 10.0.0.0/8 via 192.0.2.3",
            "route prepend 10.0.0.0/8 via 192.0.2.4",
            "route replace 10.0.0.0/8 via 192.0.2.5",
            "route del 10.0.0.0/8 via 192.0.2.2",
            "route change 10.0.0.0/8 via 192.0.2.6",
        ] {
            ip(step).await;
            ns.converges().await;
        }
        let key = main_table(&ns.snapshot(), "10.0.0.0/8").expect("the route").key;
        let snapshot = ns.snapshot();
        let gateways = snapshot.routes.get(&key).iter().map(|route| route.hops.as_slice()[0].gateway);
        let want: Vec<_> = ["192.0.2.6", "192.0.2.3"].map(|gateway| gateway.parse().ok()).to_vec();
        assert_eq!(gateways.collect::<Vec<_>>(), want);
    });
}

fn rules() {
    in_namespace(|| async {
        let mut ns = Namespace::new().await;
        assert_eq!(ns.snapshot().rules.of(Family::V4).count(), 3, "local, main, default");
        ip_batch(
            "rule add fwmark 0x1003 lookup 1007 priority 2000\n\
             rule add from 192.0.2.0/24 iif lo table 1008 priority 2001\n",
        )
        .await;
        ip("-6 rule add not to 2001:db8::/32 prohibit priority 2002").await;
        let count = |s: &Snapshot, family| s.rules.of(family).count();
        ns.until("all three", |s| (count(s, Family::V4) == 5 && count(s, Family::V6) == 3).then_some(()))
            .await;
        let snapshot = ns.snapshot();
        let marked = snapshot.rules.iter().find(|rule| rule.mark == 0x1003).expect("the marked rule");
        assert_eq!((marked.action, marked.mark_mask), (RuleAction::Table(1007), u32::MAX));
        let inverted = snapshot.rules.of(Family::V6).find(|rule| rule.inverted).expect("the inverted rule");
        assert_eq!(inverted.action, RuleAction::Prohibit);
        ns.converges().await;
        ip("rule del priority 2000").await;
        ns.until("one fewer", |s| (count(s, Family::V4) == 4).then_some(())).await;
        ns.converges().await;
    });
}
