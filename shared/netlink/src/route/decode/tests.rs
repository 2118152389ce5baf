use proptest::prelude::*;

use super::*;
use crate::route::RouteKind;
use crate::wire::build::{attribute, nested};

/// `struct rtmsg` with table "see attribute", protocol static, type unicast.
fn message(family: u8, destination: u8, source: u8, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![family, destination, source, 0, 252, 4, 0, 1];
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(attributes.concat());
    bytes
}

fn hop(flags: u8, hops: u8, link: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let inner = attributes.concat();
    let length = u16::try_from(inner.len() + HOP_HEADER_LEN).unwrap();
    [&length.to_ne_bytes()[..], &[flags, hops], &link.to_ne_bytes(), &inner].concat()
}

fn route(bytes: &[u8]) -> Route {
    decode(bytes).unwrap().unwrap()
}

#[test]
fn a_default_route_of_a_vrf_table_with_gateway_and_metric() {
    let route = route(&message(
        AF_INET,
        0,
        0,
        0,
        &[
            attribute(RTA_TABLE, &1010_u32.to_ne_bytes()),
            attribute(RTA_GATEWAY, &[192, 0, 2, 1]),
            attribute(RTA_OIF, &4_u32.to_ne_bytes()),
            attribute(RTA_PRIORITY, &50_000_u32.to_ne_bytes()),
        ],
    ));
    assert!(route.is_default());
    assert_eq!((route.key.table, route.key.priority), (1010, 50_000));
    assert_eq!((route.kind, route.protocol), (RouteKind::Unicast, RouteProtocol::STATIC));
    let want = NextHop::new(IfIndex::new(4), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(route.hops, NextHops::One(want));
    assert_eq!(route.details, None);
}

#[test]
fn multipath_hops_keep_order_weight_and_on_link() {
    let hops = [
        hop(RTNH_F_ONLINK, 0, 9, &[attribute(RTA_GATEWAY, &[192, 0, 2, 9])]),
        hop(0, 4, 3, &[attribute(RTA_GATEWAY, &[192, 0, 2, 3])]),
    ];
    let route = route(&message(
        AF_INET,
        8,
        0,
        0,
        &[attribute(RTA_DST, &[10, 0, 0, 0]), attribute(RTA_MULTIPATH, &hops.concat())],
    ));
    let hops = route.hops.as_slice();
    assert_eq!(hops.iter().map(|h| h.weight.get()).collect::<Vec<_>>(), [1, 5]);
    assert_eq!(hops.iter().map(|h| h.on_link).collect::<Vec<_>>(), [true, false]);
    assert_eq!(route.links().map(IfIndex::get).collect::<Vec<_>>(), [9, 3]);
}

#[test]
fn ipv6_hops_are_sorted_because_the_kernel_starts_anywhere() {
    let hops = [hop(0, 0, 9, &[]), hop(0, 0, 3, &[])];
    let route = route(&message(AF_INET6, 0, 0, 0, &[attribute(RTA_MULTIPATH, &hops.concat())]));
    assert_eq!(route.links().map(IfIndex::get).collect::<Vec<_>>(), [3, 9]);
}

#[test]
fn a_gateway_of_the_other_family_is_a_gateway() {
    let via = [&10_u16.to_ne_bytes()[..], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let route = route(&message(
        AF_INET,
        24,
        0,
        0,
        &[
            attribute(RTA_DST, &[198, 51, 100, 0]),
            attribute(RTA_VIA, &via),
            attribute(RTA_OIF, &4_u32.to_ne_bytes()),
        ],
    ));
    assert_eq!(route.hops.as_slice()[0].gateway, Some("fe80::1".parse().unwrap()));
}

#[test]
fn rare_facts_are_kept_apart() {
    let route = route(&message(
        AF_INET6,
        0,
        64,
        0,
        &[
            attribute(RTA_SRC, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            nested(RTA_METRICS, &[attribute(RTAX_MTU, &1400_u32.to_ne_bytes())]),
            attribute(RTA_NH_ID, &12_u32.to_ne_bytes()),
        ],
    ));
    let details = route.details.unwrap();
    assert_eq!(details.source.unwrap().to_string(), "2001:db8::/64");
    assert_eq!(details.mtu, Some(1400));
    assert_eq!(details.nexthop_object.map(|id| id.0.get()), Some(12));
}

#[test]
fn cache_entries_and_multicast_routing_are_passed_over() {
    assert_eq!(decode(&message(AF_INET6, 128, 0, RTM_F_CLONED, &[])), Ok(None));
    assert_eq!(decode(&message(128, 0, 0, 0, &[])), Ok(None));
}

#[test]
fn a_route_row_stays_small() {
    assert!(size_of::<Route>() <= 128, "{} bytes", size_of::<Route>());
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(Some(route)) = decode(&bytes) {
            prop_assert!(route.key.destination.length() <= route.family().bits());
        }
        let inside = message(AF_INET, 0, 0, 0, &[attribute(RTA_MULTIPATH, &bytes), attribute(RTA_METRICS, &bytes)]);
        if let Ok(decoded) = decode(&inside) {
            prop_assert!(decoded.is_some());
        }
        if let Ok(Some(id)) = nexthop_object(&bytes) {
            prop_assert!(id.0.get() > 0);
        }
    }
}
