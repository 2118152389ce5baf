use proptest::prelude::*;

use super::*;
use crate::link::OperState;
use crate::wire::build::{attribute, nested, text};

fn message(family: u8, index: u32, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![family, 0, 1, 0];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(attributes.concat());
    bytes
}

fn link(attributes: &[Vec<u8>]) -> Link {
    let all = [&[text(IFLA_IFNAME, "eth0")], attributes].concat();
    decode(&message(AF_UNSPEC, 7, 0x1_1043, &all)).unwrap().unwrap()
}

#[test]
fn a_plain_device_has_no_details() {
    let link = link(&[
        attribute(IFLA_MTU, &1500_u32.to_ne_bytes()),
        attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
        attribute(IFLA_OPERSTATE, &[6]),
        attribute(IFLA_CARRIER, &[1]),
    ]);
    assert_eq!(link.index.get(), 7);
    assert_eq!(link.name.as_str(), "eth0");
    assert!(link.flags.is_up() && link.flags.is_running() && link.flags.is_lower_up());
    assert_eq!((link.mtu, link.oper_state, link.carrier), (1500, OperState::Up, Some(true)));
    assert_eq!(link.address.to_string(), "02:00:00:00:00:01");
    assert_eq!((link.kind, link.details), (LinkKind::Device, None));
}

#[test]
fn a_vrf_carries_its_table_and_a_member_its_master() {
    let data = nested(IFLA_INFO_DATA, &[attribute(IFLA_VRF_TABLE, &1010_u32.to_ne_bytes())]);
    let vrf = link(&[nested(IFLA_LINKINFO, &[text(IFLA_INFO_KIND, "vrf"), data])]);
    assert_eq!(vrf.vrf_table(), Some(1010));
    let member = link(&[attribute(IFLA_MASTER, &9_u32.to_ne_bytes())]);
    assert_eq!(member.master, IfIndex::new(9));
}

#[test]
fn a_vlan_carries_its_number_and_its_lower_link() {
    let data = nested(
        IFLA_INFO_DATA,
        &[attribute(IFLA_VLAN_ID, &42_u16.to_ne_bytes()), attribute(IFLA_VLAN_PROTOCOL, &[0x88, 0xa8])],
    );
    let vlan = link(&[
        attribute(IFLA_LINK, &3_u32.to_ne_bytes()),
        nested(IFLA_LINKINFO, &[text(IFLA_INFO_KIND, "vlan"), data]),
    ]);
    assert_eq!(vlan.kind, LinkKind::Vlan { id: 42, protocol: 0x88a8 });
    assert_eq!(vlan.parent, IfIndex::new(3).map(|index| LinkParent { index, netns: None }));
}

#[test]
fn a_peer_in_another_namespace_is_marked_as_such() {
    let veth = link(&[
        attribute(IFLA_LINK, &3_u32.to_ne_bytes()),
        attribute(IFLA_LINK_NETNSID, &0_i32.to_ne_bytes()),
        nested(IFLA_LINKINFO, &[text(IFLA_INFO_KIND, "veth")]),
    ]);
    assert_eq!(veth.kind, LinkKind::Veth);
    assert_eq!(veth.parent.unwrap().netns, Some(NetnsId(0)));
}

#[test]
fn switch_port_facts_alias_and_alternative_names_are_kept() {
    let link = link(&[
        attribute(IFLA_PHYS_SWITCH_ID, &[0xc0, 0xff, 0xee]),
        text(IFLA_PHYS_PORT_NAME, "c1pf0vf7"),
        text(IFLA_IFALIAS, "rep0-16"),
        nested(
            IFLA_PROP_LIST,
            &[text(IFLA_ALT_IFNAME, "enp3s0f0"), text(IFLA_ALT_IFNAME, "a-very-long-name-0")],
        ),
        text(IFLA_PARENT_DEV_BUS_NAME, "pci"),
        text(IFLA_PARENT_DEV_NAME, "0000:03:00.0"),
    ]);
    assert_eq!(link.phys_switch_id(), Some([0xc0, 0xff, 0xee].as_slice()));
    assert_eq!((link.phys_port_name(), link.alias()), (Some("c1pf0vf7"), Some("rep0-16")));
    assert_eq!(link.alt_names(), ["enp3s0f0".into(), "a-very-long-name-0".into()]);
    let device = link.details.unwrap().parent_device.unwrap();
    assert_eq!((device.bus.as_ref(), device.name.as_ref()), ("pci", "0000:03:00.0"));
}

#[test]
fn an_alias_that_is_not_utf8_does_not_hide_the_link() {
    assert_eq!(link(&[attribute(IFLA_IFALIAS, b"rep\xff")]).alias(), Some("rep\u{fffd}"));
}

#[test]
fn an_infiniband_address_keeps_its_twenty_bytes() {
    let link = link(&[attribute(IFLA_ADDRESS, &[0x80; 20])]);
    assert_eq!(link.address, HardwareAddress::Other([0x80; 20].into()));
}

#[test]
fn bridge_port_reports_and_wireless_events_are_not_links() {
    let name = text(IFLA_IFNAME, "eth0");
    assert_eq!(decode(&message(7, 7, 0, &[name])), Ok(None));
    assert_eq!(decode(&message(AF_UNSPEC, 7, 0, &[attribute(11, &[0; 8])])), Ok(None));
}

#[test]
fn promiscuous_mode_is_not_a_property_of_the_link() {
    let name = [text(IFLA_IFNAME, "eth0")];
    let quiet = decode(&message(AF_UNSPEC, 7, 0x1_1043, &name));
    let listening = decode(&message(AF_UNSPEC, 7, 0x1_1143, &name));
    assert_eq!(quiet, listening);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(Some(link)) = decode(&bytes) {
            prop_assert!(!link.name.as_str().is_empty());
        }
        let inner = [text(IFLA_IFNAME, "x"), attribute(IFLA_LINKINFO, &bytes), attribute(IFLA_PROP_LIST, &bytes)];
        if let Ok(decoded) = decode(&message(AF_UNSPEC, 1, 0, &inner)) {
            prop_assert!(decoded.is_some());
        }
    }
}
