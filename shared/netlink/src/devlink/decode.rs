//! From generic netlink to [`DevlinkPort`]. Source: linux/devlink.h, linux/genetlink.h.

use std::sync::Arc;

use super::model::{DevlinkPort, DevlinkPortId, PortFlavour, PortFunction, PortNetdev};
use crate::mac::HardwareAddress;
use crate::name::{IfIndex, InterfaceName};
use crate::wire::{Attribute, Malformed, after_header, attributes};

/// Message type, and number of the multicast group, of the family that announces families (`GENL_ID_CTRL`).
pub(crate) const CONTROL_FAMILY: u16 = 0x10;
/// Length of `struct genlmsghdr`: command, version, two reserved bytes.
const GENERIC_HEADER_LEN: usize = 4;

pub(crate) const CTRL_CMD_NEWFAMILY: u8 = 1;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;

pub(crate) const DEVLINK_CMD_PORT_GET: u8 = 5;
pub(crate) const DEVLINK_CMD_PORT_NEW: u8 = 7;
pub(crate) const DEVLINK_CMD_PORT_DEL: u8 = 8;
/// Name of the generic netlink family.
const FAMILY_NAME: &str = "devlink";
/// Name of its multicast group.
const GROUP_NAME: &str = "config";

const DEVLINK_ATTR_BUS_NAME: u16 = 1;
const DEVLINK_ATTR_DEV_NAME: u16 = 2;
const DEVLINK_ATTR_PORT_INDEX: u16 = 3;
const DEVLINK_ATTR_PORT_NETDEV_IFINDEX: u16 = 6;
const DEVLINK_ATTR_PORT_NETDEV_NAME: u16 = 7;
const DEVLINK_ATTR_PORT_FLAVOUR: u16 = 77;
const DEVLINK_ATTR_PORT_NUMBER: u16 = 78;
const DEVLINK_ATTR_PORT_PCI_PF_NUMBER: u16 = 127;
const DEVLINK_ATTR_PORT_PCI_VF_NUMBER: u16 = 128;
const DEVLINK_ATTR_PORT_FUNCTION: u16 = 145;
const DEVLINK_ATTR_PORT_EXTERNAL: u16 = 149;
const DEVLINK_ATTR_PORT_CONTROLLER_NUMBER: u16 = 150;
const DEVLINK_ATTR_PORT_PCI_SF_NUMBER: u16 = 164;
const DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR: u16 = 1;

/// The numbers the running kernel gave to the devlink family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DevlinkFamily {
    /// Message type.
    pub(crate) id: u16,
    /// Multicast group "config".
    pub(crate) group: u32,
}

/// Payload of the request that asks for the devlink family.
pub(crate) fn family_request() -> Vec<u8> {
    let mut payload = vec![CTRL_CMD_GETFAMILY, 1, 0, 0];
    let name = format!("{FAMILY_NAME}\0");
    // Header (4) and text (8) are a multiple of 4, so there is no padding.
    payload.extend(12_u16.to_ne_bytes());
    payload.extend(CTRL_ATTR_FAMILY_NAME.to_ne_bytes());
    payload.extend(name.as_bytes());
    payload
}

/// The devlink family, if a control message is about it.
pub(crate) fn family(payload: &[u8]) -> Result<Option<DevlinkFamily>, Malformed> {
    let (mut id, mut group, mut is_devlink) = (None, None, false);
    for attribute in attributes(after_header(payload, GENERIC_HEADER_LEN)?) {
        let attribute = attribute?;
        match attribute.kind {
            CTRL_ATTR_FAMILY_ID => id = Some(attribute.u16()?),
            CTRL_ATTR_FAMILY_NAME => is_devlink = attribute.text() == FAMILY_NAME,
            CTRL_ATTR_MCAST_GROUPS => {
                for listed in attributes(attribute.value) {
                    group = group.or(config_group(listed?.value)?);
                }
            }
            _ => {}
        }
    }
    Ok(is_devlink.then_some(()).and(id.zip(group)).map(|(id, group)| DevlinkFamily { id, group }))
}

fn config_group(listed: &[u8]) -> Result<Option<u32>, Malformed> {
    let (mut id, mut is_config) = (None, false);
    for attribute in attributes(listed) {
        let attribute = attribute?;
        match attribute.kind {
            CTRL_ATTR_MCAST_GRP_NAME => is_config = attribute.text() == GROUP_NAME,
            CTRL_ATTR_MCAST_GRP_ID => id = Some(attribute.u32()?),
            _ => {}
        }
    }
    Ok(id.filter(|_| is_config))
}

/// The port in a message.
pub(crate) fn decode(payload: &[u8]) -> Result<DevlinkPort, Malformed> {
    let mut fields = Fields::default();
    for attribute in attributes(after_header(payload, GENERIC_HEADER_LEN)?) {
        fields.take(&attribute?)?;
    }
    let (Some(bus), Some(device), Some(index)) = (fields.bus, fields.device, fields.index) else {
        return Err(Malformed("devlink port without identity"));
    };
    Ok(DevlinkPort {
        id: DevlinkPortId { bus, device, index },
        flavour: fields.flavour.map_or(PortFlavour::Unknown(None), PortFlavour::from),
        controller: fields.controller,
        pf: fields.pf,
        vf: fields.vf,
        sf: fields.sf,
        external: fields.external,
        number: fields.number,
        netdev: fields.netdev_index.zip(fields.netdev_name).map(|(index, name)| PortNetdev { index, name }),
        function: fields.function,
    })
}

#[derive(Default)]
struct Fields {
    bus: Option<Arc<str>>,
    device: Option<Arc<str>>,
    index: Option<u32>,
    flavour: Option<u16>,
    controller: Option<u32>,
    pf: Option<u16>,
    vf: Option<u16>,
    sf: Option<u32>,
    external: bool,
    number: Option<u32>,
    netdev_index: Option<IfIndex>,
    netdev_name: Option<InterfaceName>,
    function: Option<PortFunction>,
}

impl Fields {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<(), Malformed> {
        match attribute.kind {
            DEVLINK_ATTR_BUS_NAME => self.bus = Some(attribute.text().into()),
            DEVLINK_ATTR_DEV_NAME => self.device = Some(attribute.text().into()),
            DEVLINK_ATTR_PORT_INDEX => self.index = Some(attribute.u32()?),
            DEVLINK_ATTR_PORT_NETDEV_IFINDEX => self.netdev_index = IfIndex::new(attribute.u32()?),
            DEVLINK_ATTR_PORT_NETDEV_NAME => {
                let name = InterfaceName::from_kernel(attribute.value);
                self.netdev_name = Some(name.map_err(|_| Malformed("impossible interface name"))?);
            }
            DEVLINK_ATTR_PORT_FLAVOUR => self.flavour = Some(attribute.u16()?),
            DEVLINK_ATTR_PORT_NUMBER => self.number = Some(attribute.u32()?),
            DEVLINK_ATTR_PORT_PCI_PF_NUMBER => self.pf = Some(attribute.u16()?),
            DEVLINK_ATTR_PORT_PCI_VF_NUMBER => self.vf = Some(attribute.u16()?),
            DEVLINK_ATTR_PORT_PCI_SF_NUMBER => self.sf = Some(attribute.u32()?),
            DEVLINK_ATTR_PORT_CONTROLLER_NUMBER => self.controller = Some(attribute.u32()?),
            DEVLINK_ATTR_PORT_EXTERNAL => self.external = attribute.u8()? != 0,
            DEVLINK_ATTR_PORT_FUNCTION => self.function = Some(function(attribute.value)?),
            _ => {}
        }
        Ok(())
    }
}

fn function(nested: &[u8]) -> Result<PortFunction, Malformed> {
    let mut hardware_address = HardwareAddress::Absent;
    for attribute in attributes(nested) {
        let attribute = attribute?;
        if attribute.kind == DEVLINK_PORT_FUNCTION_ATTR_HW_ADDR {
            hardware_address = attribute.value.into();
        }
    }
    Ok(PortFunction { hardware_address })
}

#[cfg(test)]
mod tests;
