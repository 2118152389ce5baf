use super::*;
use crate::route::TABLE_MAIN;
use crate::wire::build::{attribute, nested, text};

const IFF_UP: u32 = 1;
const AF_BRIDGE: u8 = 7;

fn apply(world: &mut World, kind: u16, flags: u16, payload: &[u8]) {
    world.apply(&Message { kind, flags, sequence: 0, payload }).unwrap();
}

fn link(family: u8, index: u32, name: &str, flags: u32) -> Vec<u8> {
    [
        vec![family, 0, 1, 0],
        index.to_ne_bytes().to_vec(),
        flags.to_ne_bytes().to_vec(),
        vec![0; 4],
        text(3, name),
    ]
    .concat()
}

fn address(index: u32, last: u8) -> Vec<u8> {
    [vec![2, 24, 0x80, 0], index.to_ne_bytes().to_vec(), attribute(2, &[192, 0, 2, last])].concat()
}

fn route(link: u32, more: &[Vec<u8>]) -> Vec<u8> {
    let header = vec![2, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let attributes = [attribute(1, &[10, 0, 0, 0]), attribute(4, &link.to_ne_bytes()), more.concat()];
    [header, attributes.concat()].concat()
}

fn rule(priority: u32) -> Vec<u8> {
    [vec![2, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0], attribute(6, &priority.to_ne_bytes())].concat()
}

fn index(number: u32) -> IfIndex {
    IfIndex::new(number).unwrap()
}

#[test]
fn a_link_that_goes_down_leaves_its_routes_in_doubt() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWLINK, 0, &link(0, 4, "eth0", IFF_UP));
    assert!(world.doubts.is_empty());
    apply(&mut world, RTM_NEWLINK, 0, &link(0, 4, "eth0", 0));
    assert_eq!(world.doubts.routes_through, [index(4)].into());
}

#[test]
fn a_deleted_link_takes_addresses_routes_and_doubts_along() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWLINK, 0, &link(0, 4, "eth0", 0));
    apply(&mut world, RTM_NEWADDR, 0, &address(4, 1));
    apply(&mut world, RTM_NEWADDR, 0, &address(4, 2));
    apply(&mut world, RTM_NEWROUTE, 0x600, &route(4, &[]));
    assert!(!world.doubts.is_empty());
    apply(&mut world, RTM_DELLINK, 0, &link(0, 4, "eth0", 0));
    assert!(world.doubts.is_empty());
    assert_eq!(world.now, Snapshot::default());
}

#[test]
fn a_veth_without_peer_and_one_that_lost_it_are_asked_for() {
    let kind = nested(18, &[text(1, "veth")]);
    let peer = attribute(5, &5_u32.to_ne_bytes());
    let mut world = World::default();
    apply(&mut world, RTM_NEWLINK, 0, &[link(0, 5, "first", IFF_UP), kind.clone()].concat());
    assert_eq!(world.doubts.links, [index(5)].into());
    world.doubts = Doubts::default();
    apply(&mut world, RTM_NEWLINK, 0, &[link(0, 6, "second", IFF_UP), kind, peer].concat());
    assert!(world.doubts.is_empty());
    apply(&mut world, RTM_DELLINK, 0, &link(0, 5, "first", 0));
    assert_eq!(world.doubts.links, [index(6)].into());
}

#[test]
fn a_port_that_leaves_a_bridge_stays_a_link() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWLINK, 0, &link(0, 4, "eth0", IFF_UP));
    apply(&mut world, RTM_DELLINK, 0, &link(AF_BRIDGE, 4, "eth0", IFF_UP));
    assert_eq!(world.now.links.len(), 1);
}

#[test]
fn a_removed_ipv4_address_leaves_link_and_preferred_source_in_doubt() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWADDR, 0, &address(4, 1));
    apply(&mut world, RTM_DELADDR, 0, &address(4, 1));
    assert!(world.now.addresses.is_empty());
    assert_eq!(world.doubts.routes_through, [index(4)].into());
    assert_eq!(world.doubts.preferred_sources, ["192.0.2.1".parse().unwrap()].into());
}

#[test]
fn a_second_address_leaves_the_order_in_doubt() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWADDR, 0, &address(4, 1));
    assert!(world.doubts.is_empty());
    apply(&mut world, RTM_NEWADDR, 0, &address(4, 2));
    assert_eq!(world.doubts.addresses_of, [index(4)].into());
}

#[test]
fn a_nexthop_object_matters_only_if_a_route_uses_it() {
    let mut world = World::default();
    let object = |id: u32| [vec![0; 8], attribute(1, &id.to_ne_bytes())].concat();
    apply(&mut world, RTM_NEWROUTE, 0x600, &route(4, &[attribute(30, &12_u32.to_ne_bytes())]));
    apply(&mut world, RTM_DELNEXTHOP, 0, &object(11));
    assert!(world.doubts.is_empty());
    apply(&mut world, RTM_DELNEXTHOP, 0, &object(12));
    assert_eq!(world.doubts.routes, [Family::V4, Family::V6].into());
}

#[test]
fn a_deleted_rule_is_in_doubt_only_where_rules_may_be_doubled() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWRULE, 0, &rule(1000));
    apply(&mut world, RTM_DELRULE, 0, &rule(1000));
    assert!(world.doubts.is_empty() && world.now.rules.is_empty());
    apply(&mut world, RTM_NEWRULE, 0, &rule(1000));
    apply(&mut world, RTM_NEWRULE, 0, &rule(1000));
    apply(&mut world, RTM_DELRULE, 0, &rule(1000));
    assert_eq!(world.doubts.rules, [Family::V4].into());
}

#[test]
fn a_route_event_lands_in_its_table() {
    let mut world = World::default();
    apply(&mut world, RTM_NEWROUTE, 0x600, &route(4, &[attribute(15, &1010_u32.to_ne_bytes())]));
    apply(&mut world, RTM_NEWROUTE, 0x600, &route(4, &[]));
    assert_eq!(world.now.routes.table(1010).count(), 1);
    assert_eq!(world.now.routes.table(TABLE_MAIN).count(), 1);
    apply(&mut world, RTM_DELROUTE, 0, &route(4, &[]));
    assert_eq!(world.now.routes.len(), 1);
}

#[test]
fn bytes_that_are_no_message_are_an_error_not_a_loss() {
    let mut world = World::default();
    for kind in [RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE, RTM_NEWNEXTHOP] {
        let result = world.apply(&Message { kind, flags: 0, sequence: 0, payload: &[2] });
        assert!(result.is_err(), "{kind}");
    }
    assert_eq!(world.now, Snapshot::default());
}
