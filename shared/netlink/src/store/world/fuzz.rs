//! Whatever the kernel might send, in any order: nothing panics, and all lookups agree with the rows.
//!
//! The defaults of proptest bound this; `PROPTEST_CASES` makes it long.

use proptest::prelude::*;

use super::*;
use crate::wire::build::{attribute, nested, text};

/// Names and values that meet each other across messages.
fn attribute_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0_u32..6).prop_map(|number| number.to_ne_bytes().to_vec()),
        (0_u16..200).prop_map(|number| number.to_ne_bytes().to_vec()),
        (0_u8..4).prop_map(|last| vec![192, 0, 2, last]),
        (0_u8..4).prop_map(|last| {
            let mut bytes = vec![0; 16];
            bytes[0] = 0xfd;
            bytes[15] = last;
            bytes
        }),
        (0_u8..4).prop_map(|last| vec![2, 0, 0, 0, 0, last]),
        proptest::sample::select(vec!["eth0", "eth1", "veth", "bond", "vlan", "vrf", "pci", "0000:03:00.0"])
            .prop_map(|name| [name.as_bytes(), &[0]].concat()),
        proptest::collection::vec(any::<u8>(), 0..24),
    ]
}

/// Attribute numbers: those of rtnetlink are small, those of devlink go up to about 170.
fn attribute_kind() -> impl Strategy<Value = u16> {
    prop_oneof![6 => 0_u16..12, 3 => 12_u16..64, 1 => any::<u16>()]
}

fn some_attributes(kinds: impl Strategy<Value = u16> + Clone + 'static) -> BoxedStrategy<Vec<u8>> {
    let flat = (kinds.clone(), attribute_value()).prop_map(|(kind, value)| attribute(kind, &value));
    let deep =
        (kinds, proptest::collection::vec((0_u16..12, attribute_value()), 0..4)).prop_map(|(kind, inner)| {
            let inner: Vec<_> = inner.into_iter().map(|(kind, value)| attribute(kind, &value)).collect();
            nested(kind, &inner)
        });
    proptest::collection::vec(prop_oneof![4 => flat, 1 => deep], 0..8).prop_map(|all| all.concat()).boxed()
}

/// A payload: a fixed header that makes sense, the attributes without which there is no object, others, and now and
/// then an end in the middle.
fn payload(header: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    let kinds = proptest::sample::select((0_u16..64).collect::<Vec<_>>());
    let cut = proptest::option::weighted(0.05, any::<proptest::sample::Index>());
    (header, some_attributes(kinds), cut)
        .prop_map(|(header, attributes, cut)| {
            let mut bytes = [header, attributes].concat();
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            bytes
        })
        .boxed()
}

fn family() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(2_u8), 6 => Just(10_u8), 1 => Just(7_u8), 1 => any::<u8>()]
}

fn link_payload() -> BoxedStrategy<Vec<u8>> {
    let name = proptest::option::weighted(0.9, proptest::sample::select(vec!["eth0", "eth1", "eth2"]));
    let relation = proptest::option::of((prop_oneof![Just(5_u16), Just(10_u16)], 1_u32..6));
    let header = (1_u32..6, 0_u32..2, name, relation).prop_map(|(index, flags, name, relation)| {
        let fixed = [vec![0, 0, 1, 0], index.to_ne_bytes().into(), flags.to_ne_bytes().into(), vec![0; 4]];
        let name = name.map(|name| text(3, name)).unwrap_or_default();
        let relation = relation.map(|(kind, to)| attribute(kind, &to.to_ne_bytes())).unwrap_or_default();
        [fixed.concat(), name, relation].concat()
    });
    payload(header)
}

fn address_payload() -> BoxedStrategy<Vec<u8>> {
    let header = (family(), 0_u8..130, 0_u32..6).prop_map(|(family, length, link)| {
        [vec![family, length, 0x80, 0], link.to_ne_bytes().into()].concat()
    });
    payload(header)
}

fn route_payload() -> BoxedStrategy<Vec<u8>> {
    let header = (family(), prop_oneof![Just(0_u8), 0_u8..130], 0_u8..9, 0_u32..6).prop_map(
        |(family, length, kind, link)| {
            let fixed = vec![family, length, 0, 0, 254, 4, 0, kind, 0, 0, 0, 0];
            [fixed, attribute(4, &link.to_ne_bytes())].concat()
        },
    );
    payload(header)
}

fn rule_payload() -> BoxedStrategy<Vec<u8>> {
    let header = (family(), 0_u8..130, 0_u32..4).prop_map(|(family, length, priority)| {
        let fixed = vec![family, 0, length, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        [fixed, attribute(6, &priority.to_ne_bytes())].concat()
    });
    payload(header)
}

fn nexthop_payload() -> BoxedStrategy<Vec<u8>> {
    let header = (family(), 0_u32..4).prop_map(|(family, id)| {
        [vec![family, 0, 0, 0, 0, 0, 0, 0], attribute(1, &id.to_ne_bytes())].concat()
    });
    payload(header)
}

fn devlink_payload() -> BoxedStrategy<Vec<u8>> {
    let identity = (0_u32..3, proptest::option::weighted(0.8, 0_u32..4), any::<bool>()).prop_map(
        |(index, netdev, other)| {
            let device = if other { "0000:03:00.1" } else { "0000:03:00.0" };
            let netdev = netdev
                .map(|number| [attribute(6, &number.to_ne_bytes()), text(7, "eth0")].concat())
                .unwrap_or_default();
            let header = vec![DEVLINK_CMD_PORT_NEW, 1, 0, 0];
            [header, text(1, "pci"), text(2, device), attribute(3, &index.to_ne_bytes()), netdev].concat()
        },
    );
    let kinds = proptest::sample::select(vec![77_u16, 78, 127, 128, 145, 149, 150, 164, 6, 7]);
    (identity, some_attributes(kinds)).prop_map(|(identity, more)| [identity, more].concat()).boxed()
}

/// What one event is made of.
#[derive(Debug, Clone)]
enum Sent {
    Route { kind: u16, flags: u16, payload: Vec<u8> },
    Devlink { command: u8, payload: Vec<u8> },
}

fn sent() -> impl Strategy<Value = Sent> {
    let of = |kinds: &'static [u16], payload: BoxedStrategy<Vec<u8>>| {
        let flags = proptest::sample::select(vec![0_u16, 0x100, 0x400, 0x600, 0x800]);
        (proptest::sample::select(kinds), flags, payload).prop_map(|(kind, flags, payload)| Sent::Route {
            kind,
            flags,
            payload,
        })
    };
    let nonsense = proptest::collection::vec((attribute_kind(), attribute_value()), 0..6).prop_map(|all| {
        all.into_iter().flat_map(|(kind, value)| attribute(kind, &value)).collect::<Vec<_>>()
    });
    prop_oneof![
        4 => of(&[RTM_NEWLINK, RTM_NEWLINK, RTM_DELLINK], link_payload()),
        4 => of(&[RTM_NEWADDR, RTM_NEWADDR, RTM_DELADDR], address_payload()),
        4 => of(&[RTM_NEWROUTE, RTM_NEWROUTE, RTM_DELROUTE], route_payload()),
        2 => of(&[RTM_NEWRULE, RTM_NEWRULE, RTM_DELRULE], rule_payload()),
        1 => of(&[RTM_NEWNEXTHOP, RTM_DELNEXTHOP], nexthop_payload()),
        1 => of(&[RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE, RTM_NEWNEXTHOP, 4711], nonsense.boxed()),
        3 => (prop_oneof![2 => Just(DEVLINK_CMD_PORT_NEW), 1 => Just(DEVLINK_CMD_PORT_DEL), 1 => any::<u8>()], devlink_payload())
            .prop_map(|(command, payload)| Sent::Devlink { command, payload }),
    ]
}

fn agrees(now: &Snapshot) -> Result<(), TestCaseError> {
    for link in now.links.iter() {
        let named = now.links.by_name(&link.name);
        prop_assert!(named.is_none_or(|named| named.name == link.name), "{:?} under another name", named);
        prop_assert_eq!(now.links.get(link.index), Some(link));
        if let Some(master) = link.master {
            prop_assert!(now.links.members(master).any(|member| member.index == link.index));
        }
    }
    for index in (1..6).filter_map(IfIndex::new) {
        prop_assert!(now.links.members(index).all(|member| member.master == Some(index)));
        prop_assert!(now.addresses.of(index).iter().all(|address| address.link == index));
        let port = now.devlink_ports.of_netdev(index);
        prop_assert!(port.is_none_or(|port| port.netdev.is_some_and(|netdev| netdev.index == index)));
    }
    prop_assert_eq!(now.addresses.is_empty(), now.addresses.iter().next().is_none());
    prop_assert_eq!(now.devlink_ports.len(), now.devlink_ports.iter().count());
    Ok(())
}

fn take(world: &mut World, event: &Sent) -> Result<(), Malformed> {
    match event {
        Sent::Route { kind, flags, payload } => {
            world.apply(&Message { kind: *kind, flags: *flags, sequence: 0, payload })
        }
        Sent::Devlink { command, payload } => world.apply_devlink(*command, payload),
    }
}

proptest! {
    /// A refused message changes nothing; an accepted one keeps lookups and rows in step; a dump of the ports that are
    /// there changes nothing.
    #[test]
    fn any_events_leave_lookups_and_rows_in_step(events in proptest::collection::vec(sent(), 0..24)) {
        let mut world = World::default();
        for event in events {
            let before = world.now.clone();
            if take(&mut world, &event).is_err() {
                prop_assert_eq!(&world.now, &before, "a refused message changed something");
            }
            agrees(&world.now)?;
        }
        let ports: Vec<_> = world.now.devlink_ports.iter().map(|port| (**port).clone()).collect();
        let before = world.now.devlink_ports.clone();
        world.now.devlink_ports.replace_all(ports);
        prop_assert_eq!(&world.now.devlink_ports, &before);
    }
}
