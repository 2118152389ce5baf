use proptest::prelude::*;

use super::*;
use crate::wire::build::{attribute, nested, text};

/// A `DEVLINK_CMD_PORT_NEW` message as a dump answers it.
fn port(attributes: &[Vec<u8>]) -> DevlinkPort {
    let identity = [
        text(DEVLINK_ATTR_BUS_NAME, "pci"),
        text(DEVLINK_ATTR_DEV_NAME, "0000:03:00.0"),
        attribute(DEVLINK_ATTR_PORT_INDEX, &65_535_u32.to_ne_bytes()),
    ];
    let bytes = [&[DEVLINK_CMD_PORT_NEW, 1, 0, 0][..], &identity.concat(), &attributes.concat()].concat();
    decode(&bytes).unwrap()
}

fn netdev(index: u32, name: &str) -> Vec<u8> {
    [
        attribute(DEVLINK_ATTR_PORT_NETDEV_IFINDEX, &index.to_ne_bytes()),
        text(DEVLINK_ATTR_PORT_NETDEV_NAME, name),
    ]
    .concat()
}

fn flavour(number: u16) -> Vec<u8> {
    attribute(DEVLINK_ATTR_PORT_FLAVOUR, &number.to_ne_bytes())
}

fn hardware_address(bytes: &[u8]) -> Vec<u8> {
    nested(DEVLINK_ATTR_PORT_FUNCTION, &[attribute(DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR, bytes)])
}

#[test]
fn a_physical_port_has_a_number_and_no_function() {
    let port =
        port(&[flavour(0), attribute(DEVLINK_ATTR_PORT_NUMBER, &1_u32.to_ne_bytes()), netdev(4, "p1")]);
    assert_eq!((port.flavour, port.number), (PortFlavour::Physical, Some(1)));
    assert_eq!(port.netdev.unwrap().name.as_str(), "p1");
    assert_eq!((port.function.clone(), port.peer_mac()), (None, None));
}

#[test]
fn a_vf_representor_of_a_card_names_controller_function_and_peer() {
    let port = port(&[
        flavour(4),
        attribute(DEVLINK_ATTR_PORT_CONTROLLER_NUMBER, &1_u32.to_ne_bytes()),
        attribute(DEVLINK_ATTR_PORT_PCI_PF_NUMBER, &0_u16.to_ne_bytes()),
        attribute(DEVLINK_ATTR_PORT_PCI_VF_NUMBER, &7_u16.to_ne_bytes()),
        attribute(DEVLINK_ATTR_PORT_EXTERNAL, &[1]),
        netdev(12, "pf0vf7"),
        hardware_address(&[0x00, 0x07, 0x3d, 0xf2, 0x76, 0x51]),
    ]);
    assert_eq!(port.flavour, PortFlavour::PciVf);
    assert_eq!((port.controller, port.pf, port.vf, port.sf), (Some(1), Some(0), Some(7), None));
    assert!(port.external);
    assert_eq!(port.peer_mac().unwrap().to_string(), "00:07:3d:f2:76:51");
}

#[test]
fn a_pf_representor_has_no_vf_and_external_defaults_to_no() {
    let port = port(&[
        flavour(3),
        attribute(DEVLINK_ATTR_PORT_PCI_PF_NUMBER, &0_u16.to_ne_bytes()),
        netdev(5, "pf0hpf"),
        hardware_address(&[0x00, 0x73, 0x58, 0x6d, 0xa1, 0xb3]),
    ]);
    assert_eq!((port.flavour, port.pf, port.vf), (PortFlavour::PciPf, Some(0), None));
    assert!(!port.external);
    assert_eq!(port.peer_mac().unwrap().to_string(), "00:73:58:6d:a1:b3");
}

#[test]
fn an_sf_representor_names_its_subfunction() {
    let port = port(&[
        flavour(7),
        attribute(DEVLINK_ATTR_PORT_PCI_SF_NUMBER, &88_u32.to_ne_bytes()),
        netdev(6, "en3s0"),
    ]);
    assert_eq!((port.flavour, port.sf), (PortFlavour::PciSf, Some(88)));
}

#[test]
fn an_unset_address_is_reported_but_not_usable() {
    let unset = port(&[flavour(4), hardware_address(&[0; 6])]);
    assert!(unset.function.is_some());
    assert_eq!(unset.peer_mac(), None);
    let infiniband = port(&[flavour(4), hardware_address(&[1; 20])]);
    assert_eq!(infiniband.peer_mac(), None);
}

#[test]
fn a_port_without_flavour_or_interface_is_still_a_port() {
    let port = port(&[attribute(DEVLINK_ATTR_PORT_NETDEV_IFINDEX, &0_u32.to_ne_bytes())]);
    assert_eq!((port.flavour, port.netdev), (PortFlavour::Unknown(None), None));
    assert_eq!(PortFlavour::from(0xffff), PortFlavour::Unknown(Some(0xffff)));
}

fn family_answer(name: &str) -> Vec<u8> {
    let group = |name: &str, id: u32| {
        nested(
            1,
            &[attribute(CTRL_ATTR_MCAST_GRP_ID, &id.to_ne_bytes()), text(CTRL_ATTR_MCAST_GRP_NAME, name)],
        )
    };
    [
        vec![CTRL_CMD_NEWFAMILY, 2, 0, 0],
        text(CTRL_ATTR_FAMILY_NAME, name),
        attribute(CTRL_ATTR_FAMILY_ID, &0x15_u16.to_ne_bytes()),
        nested(CTRL_ATTR_MCAST_GROUPS, &[group("other", 40), group(GROUP_NAME, 41)]),
    ]
    .concat()
}

#[test]
fn the_family_is_found_by_name_with_its_config_group() {
    assert_eq!(family(&family_answer("devlink")), Ok(Some(DevlinkFamily { id: 0x15, group: 41 })));
    assert_eq!(family(&family_answer("ethtool")), Ok(None));
}

#[test]
fn the_request_asks_for_the_family_by_name() {
    let request = family_request();
    let attribute = attributes(&request[GENERIC_HEADER_LEN..]).next().unwrap().unwrap();
    assert_eq!((attribute.kind, attribute.text().as_ref()), (CTRL_ATTR_FAMILY_NAME, FAMILY_NAME));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        if let Ok(port) = decode(&bytes) {
            prop_assert!(port.peer_mac().is_none() || port.function.is_some());
        }
        if let Ok(Some(found)) = family(&bytes) {
            prop_assert_eq!(family(&bytes), Ok(Some(found)));
        }
    }
}
