//! From `RTM_NEWLINK` and `RTM_DELLINK` to [`Link`]. Source: linux/if_link.h, linux/rtnetlink.h.

use super::model::{Link, LinkDetails, LinkFlags, LinkKind, LinkParent, NetnsId, ParentDevice};
use crate::mac::HardwareAddress;
use crate::name::{IfIndex, InterfaceName};
use crate::wire::{Attribute, Malformed, after_header, attributes, u8_at, u32_at};

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;

/// Length of `struct ifinfomsg`.
const HEADER_LEN: usize = 16;
const AF_UNSPEC: u8 = 0;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_CARRIER: u16 = 33;
const IFLA_PHYS_SWITCH_ID: u16 = 36;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_PHYS_PORT_NAME: u16 = 38;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_ALT_IFNAME: u16 = 53;
const IFLA_PARENT_DEV_NAME: u16 = 56;
const IFLA_PARENT_DEV_BUS_NAME: u16 = 57;

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
/// Ethernet type of an ordinary VLAN tag, which old kernels imply.
const ETH_P_8021Q: u16 = 0x8100;

/// The link in a message, or `None` if the message is not about a link as such.
///
/// Two kinds of message share the type number: a bridge reports its ports with family `AF_BRIDGE` (its "delete" says
/// that a port left the bridge, not that the link is gone), and wireless drivers report events without a name.
pub(crate) fn decode(payload: &[u8]) -> Result<Option<Link>, Malformed> {
    let body = after_header(payload, HEADER_LEN)?;
    if u8_at(payload, 0) != Some(AF_UNSPEC) {
        return Ok(None);
    }
    let index = u32_at(payload, 4).and_then(IfIndex::new).ok_or(Malformed("link without index"))?;
    let flags = u32_at(payload, 8).ok_or(Malformed("short fixed header"))?;
    let mut name = None;
    let mut fields = Fields::default();
    for attribute in attributes(body) {
        let attribute = attribute?;
        if attribute.kind == IFLA_IFNAME {
            let kernel_name = InterfaceName::from_kernel(attribute.value);
            name = Some(kernel_name.map_err(|_| Malformed("impossible interface name"))?);
        } else {
            fields.take(&attribute)?;
        }
    }
    Ok(name.map(|name| fields.into_link(index, name, LinkFlags::from_kernel(flags))))
}

#[derive(Default)]
struct Fields {
    mtu: u32,
    oper_state: u8,
    carrier: Option<bool>,
    address: Option<HardwareAddress>,
    master: Option<IfIndex>,
    parent: Option<IfIndex>,
    parent_netns: Option<NetnsId>,
    kind: Option<LinkKind>,
    details: LinkDetails,
    parent_device: Option<Box<str>>,
    parent_bus: Option<Box<str>>,
}

impl Fields {
    fn take(&mut self, attribute: &Attribute<'_>) -> Result<(), Malformed> {
        match attribute.kind {
            IFLA_ADDRESS => self.address = Some(attribute.value.into()),
            IFLA_MTU => self.mtu = attribute.u32()?,
            IFLA_LINK => self.parent = IfIndex::new(attribute.u32()?),
            IFLA_MASTER => self.master = IfIndex::new(attribute.u32()?),
            IFLA_OPERSTATE => self.oper_state = attribute.u8()?,
            IFLA_LINKINFO => self.kind = link_kind(attribute.value)?,
            IFLA_IFALIAS => self.details.alias = non_empty(attribute),
            IFLA_CARRIER => self.carrier = Some(attribute.u8()? != 0),
            IFLA_PHYS_SWITCH_ID => {
                self.details.phys_switch_id = (!attribute.value.is_empty()).then(|| attribute.value.into());
            }
            IFLA_LINK_NETNSID => self.parent_netns = Some(NetnsId(attribute.i32()?)),
            IFLA_PHYS_PORT_NAME => self.details.phys_port_name = non_empty(attribute),
            IFLA_PROP_LIST => {
                let mut names = Vec::new();
                for property in attributes(attribute.value) {
                    let property = property?;
                    if property.kind == IFLA_ALT_IFNAME {
                        names.push(property.text().into());
                    }
                }
                self.details.alt_names = names.into();
            }
            IFLA_PARENT_DEV_NAME => self.parent_device = non_empty(attribute),
            IFLA_PARENT_DEV_BUS_NAME => self.parent_bus = non_empty(attribute),
            _ => {}
        }
        Ok(())
    }

    fn into_link(mut self, index: IfIndex, name: InterfaceName, flags: LinkFlags) -> Link {
        if let (Some(bus), Some(name)) = (self.parent_bus, self.parent_device) {
            self.details.parent_device = Some(ParentDevice { bus, name });
        }
        let has_details = self.details != LinkDetails::default();
        Link {
            index,
            name,
            flags,
            mtu: self.mtu,
            oper_state: self.oper_state.into(),
            carrier: self.carrier.filter(|_| flags.is_up()),
            address: self.address.unwrap_or(HardwareAddress::Absent),
            master: self.master,
            parent: self.parent.map(|index| LinkParent { index, netns: self.parent_netns }),
            kind: self.kind.unwrap_or(LinkKind::Device),
            details: has_details.then(|| Box::new(self.details)),
        }
    }
}

fn non_empty(attribute: &Attribute<'_>) -> Option<Box<str>> {
    let text = attribute.text();
    (!text.is_empty()).then(|| text.into())
}

fn link_kind(info: &[u8]) -> Result<Option<LinkKind>, Malformed> {
    let mut name = None;
    let mut data: &[u8] = &[];
    for attribute in attributes(info) {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_INFO_KIND => name = Some(attribute.text()),
            IFLA_INFO_DATA => data = attribute.value,
            _ => {}
        }
    }
    match name.as_deref() {
        None => Ok(None),
        Some("vrf") => vrf(data).map(Some),
        Some("vlan") => vlan(data).map(Some),
        Some(other) => Ok(Some(LinkKind::named(other))),
    }
}

fn vrf(data: &[u8]) -> Result<LinkKind, Malformed> {
    for attribute in attributes(data) {
        let attribute = attribute?;
        if attribute.kind == IFLA_VRF_TABLE {
            return Ok(LinkKind::Vrf { table: attribute.u32()? });
        }
    }
    Err(Malformed("VRF without table"))
}

fn vlan(data: &[u8]) -> Result<LinkKind, Malformed> {
    let mut id = None;
    let mut protocol = ETH_P_8021Q;
    for attribute in attributes(data) {
        let attribute = attribute?;
        match attribute.kind {
            IFLA_VLAN_ID => id = Some(attribute.u16()?),
            IFLA_VLAN_PROTOCOL => protocol = attribute.u16_be()?,
            _ => {}
        }
    }
    id.map(|id| LinkKind::Vlan { id, protocol }).ok_or(Malformed("VLAN without number"))
}

#[cfg(test)]
mod tests;
