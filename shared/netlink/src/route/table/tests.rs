use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::addr::Scope;
use crate::route::{NextHop, NextHops, RouteKind, RouteProtocol, TABLE_MAIN};

fn hop(link: u32, gateway: &str) -> NextHop {
    NextHop::new(IfIndex::new(link), gateway.parse().ok())
}

fn route(table: u32, destination: &str, hops: Vec<NextHop>) -> Route {
    Route {
        key: RouteKey { table, destination: destination.parse().unwrap(), priority: 0, tos: 0 },
        kind: RouteKind::Unicast,
        protocol: RouteProtocol::STATIC,
        scope: Scope::UNIVERSE,
        hops: hops.into(),
        preferred_source: None,
        details: None,
    }
}

fn link(index: u32) -> IfIndex {
    IfIndex::new(index).unwrap()
}

fn hops(routes: &Routes, destination: &str) -> Vec<Vec<u32>> {
    let key = route(TABLE_MAIN, destination, vec![]).key;
    routes.get(&key).iter().map(|route| route.links().map(IfIndex::get).collect()).collect()
}

#[test]
fn replacing_the_only_ipv4_route_leaves_one() {
    let mut routes = Routes::default();
    let first = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(1, "192.0.2.1")]);
    let second = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(2, "192.0.2.2")]);
    assert_eq!(routes.insert(first, How::Only), Effect::Known);
    assert_eq!(routes.insert(second, How::Replace), Effect::Known);
    assert_eq!(hops(&routes, "10.0.0.0/8"), [[2]]);
    assert_eq!(routes.through(link(1)).count(), 0);
    assert_eq!(routes.len(), 1);
}

#[test]
fn appended_and_prepended_ipv4_routes_keep_the_kernels_order() {
    let mut routes = Routes::default();
    for (link, how) in [(1, How::Only), (2, How::Append), (3, How::Front)] {
        let row = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(link, "192.0.2.1")]);
        assert_eq!(routes.insert(row, how), Effect::Known);
    }
    assert_eq!(hops(&routes, "10.0.0.0/8"), [[3], [1], [2]]);
    let replaced = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(4, "192.0.2.1")]);
    assert_eq!(routes.insert(replaced, How::Replace), Effect::Uncertain);
}

#[test]
fn replayed_events_end_where_the_dump_was() {
    let mut routes = Routes::default();
    let first = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(1, "192.0.2.1")]);
    let second = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(2, "192.0.2.2")]);
    routes.replace_family(Family::V4, vec![second.clone()]);
    let dumped = routes.clone();
    // What happened before the dump, delivered after it.
    assert_eq!(routes.insert(first.clone(), How::Only), Effect::Known);
    assert_eq!(routes.remove(&first), Effect::Known);
    assert_eq!(routes.insert(second, How::Only), Effect::Known);
    assert_eq!(routes, dumped);
}

#[test]
fn ipv6_hops_gather_in_one_route_and_leave_one_by_one() {
    let mut routes = Routes::default();
    let one = route(TABLE_MAIN, "2001:db8::/32", vec![hop(1, "fe80::1")]);
    let both = route(TABLE_MAIN, "2001:db8::/32", vec![hop(1, "fe80::1"), hop(2, "fe80::2")]);
    assert_eq!(routes.insert(one.clone(), How::Only), Effect::Known);
    assert_eq!(routes.insert(both, How::Append), Effect::Known);
    assert_eq!(hops(&routes, "2001:db8::/32"), [[1, 2]]);
    assert_eq!(routes.remove(&one), Effect::Known);
    assert_eq!(hops(&routes, "2001:db8::/32"), [[2]]);
    assert_eq!(routes.through(link(1)).count(), 0);
    assert_eq!(routes.through(link(2)).count(), 1);
}

#[test]
fn link_local_prefixes_of_many_links_are_routes_of_their_own() {
    let mut routes = Routes::default();
    for index in [3, 1, 2] {
        let how = if index == 3 { How::Only } else { How::Front };
        assert_eq!(routes.insert(route(TABLE_MAIN, "fe80::/64", vec![hop(index, "")]), how), Effect::Known);
    }
    assert_eq!(hops(&routes, "fe80::/64"), [[1], [2], [3]]);
    assert_eq!(routes.remove(&route(TABLE_MAIN, "fe80::/64", vec![hop(2, "")])), Effect::Known);
    assert_eq!(hops(&routes, "fe80::/64"), [[1], [3]]);
}

#[test]
fn a_deleted_link_takes_its_routes_and_no_others() {
    let mut routes = Routes::default();
    routes.replace_family(
        Family::V4,
        vec![
            route(TABLE_MAIN, "0.0.0.0/0", vec![hop(1, "192.0.2.1")]),
            route(1010, "0.0.0.0/0", vec![hop(1, "192.0.2.1")]),
            route(TABLE_MAIN, "10.0.0.0/8", vec![hop(1, "192.0.2.1"), hop(2, "192.0.2.2")]),
            route(TABLE_MAIN, "172.16.0.0/12", vec![hop(2, "192.0.2.2")]),
        ],
    );
    assert_eq!(routes.through(link(1)).count(), 3);
    routes.remove_link(link(1));
    assert_eq!(routes.iter().map(|r| r.key.destination.to_string()).collect::<Vec<_>>(), ["172.16.0.0/12"]);
}

#[test]
fn a_dump_of_one_link_leaves_the_routes_of_others() {
    let mut routes = Routes::default();
    let other = route(TABLE_MAIN, "172.16.0.0/12", vec![hop(2, "192.0.2.2")]);
    routes.replace_family(Family::V4, vec![route(TABLE_MAIN, "0.0.0.0/0", vec![hop(1, "192.0.2.1")]), other]);
    let new = route(TABLE_MAIN, "10.0.0.0/8", vec![hop(1, "192.0.2.1")]);
    assert_eq!(routes.replace_link(Family::V4, link(1), vec![new]), Effect::Known);
    assert_eq!(
        routes.iter().map(|r| r.key.destination.to_string()).collect::<Vec<_>>(),
        ["10.0.0.0/8", "172.16.0.0/12"]
    );
}

#[test]
fn a_table_is_a_range_of_its_own() {
    let mut routes = Routes::default();
    for table in [100, 101, 102] {
        for destination in ["0.0.0.0/0", "2001:db8::/32"] {
            assert_eq!(routes.insert(route(table, destination, vec![hop(1, "")]), How::Only), Effect::Known);
        }
    }
    assert_eq!(routes.table(101).count(), 2);
    assert!(routes.table(101).all(|route| route.key.table == 101));
}

#[test]
fn an_equal_dump_changes_nothing() {
    let rows = || {
        vec![
            route(TABLE_MAIN, "0.0.0.0/0", vec![hop(1, "192.0.2.1")]),
            route(TABLE_MAIN, "10.0.0.0/8", vec![hop(1, "192.0.2.1"), hop(2, "192.0.2.2")]),
        ]
    };
    let mut routes = Routes::default();
    routes.replace_family(Family::V4, rows());
    let before = routes.clone();
    routes.replace_family(Family::V4, rows());
    assert!(routes.groups.ptr_eq(&before.groups));
}

fn any_route() -> impl Strategy<Value = Route> {
    let destination =
        prop_oneof![Just("10.0.0.0/8"), Just("0.0.0.0/0"), Just("2001:db8::/32"), Just("fe80::/64")];
    let hops = proptest::collection::vec((1_u32..4, any::<bool>()), 0..3);
    (1_u32..3, destination, hops).prop_map(|(table, destination, hops)| {
        let v6 = destination.contains(':');
        let mut hops: Vec<NextHop> = hops
            .into_iter()
            .map(|(link, gateway)| match (gateway, v6) {
                (false, _) => hop(link, ""),
                (true, false) => hop(link, "192.0.2.1"),
                (true, true) => hop(link, "fe80::1"),
            })
            .collect();
        if v6 {
            hops.sort_unstable();
        }
        route(table, destination, hops)
    })
}

proptest! {
    /// Whatever happens, the index by link, the count and the rows agree, and no empty group stays.
    #[test]
    fn the_indexes_always_agree_with_the_rows(
        steps in proptest::collection::vec((any_route(), 0_u8..7), 0..40),
    ) {
        let mut routes = Routes::default();
        for (route, step) in steps {
            let effect = match step {
                0 => routes.insert(route, How::Only),
                1 => routes.insert(route, How::Append),
                2 => routes.insert(route, How::Front),
                3 => routes.insert(route, How::Replace),
                4 => routes.remove(&route),
                5 => { routes.remove_link(link(1)); Effect::Known }
                _ => routes.replace_link(route.family(), link(2), vec![route]),
            };
            prop_assert!(matches!(effect, Effect::Known | Effect::Uncertain));
            let rows: Vec<Arc<Route>> = routes.iter().cloned().collect();
            prop_assert_eq!(routes.len(), rows.len());
            prop_assert!(routes.groups.values().all(|group| !group.as_slice().is_empty()));
            let want: BTreeSet<(IfIndex, RouteKey)> =
                rows.iter().flat_map(|r| r.links().map(|l| (l, r.key)).collect::<Vec<_>>()).collect();
            prop_assert_eq!(routes.by_link.iter().copied().collect::<BTreeSet<_>>(), want);
        }
    }

    /// However the model went astray, a dump sets it right.
    #[test]
    fn a_dump_always_wins(have in proptest::collection::vec(any_route(), 0..12), want in proptest::collection::vec(any_route(), 0..12)) {
        let mut routes = Routes::default();
        for row in have {
            prop_assert_eq!(routes.insert(row, How::Append), Effect::Known);
        }
        let mut fresh = Routes::default();
        for family in [Family::V4, Family::V6] {
            let rows: Vec<Route> = want.iter().filter(|r| r.family() == family).cloned().collect();
            routes.replace_family(family, rows.clone());
            fresh.replace_family(family, rows);
        }
        prop_assert_eq!(routes, fresh);
    }
}

#[test]
fn a_route_without_hops_has_none() {
    assert_eq!(route(1, "0.0.0.0/0", vec![]).hops, NextHops::None);
}
