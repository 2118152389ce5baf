//! What is known of one devlink port.

use std::sync::Arc;

use crate::mac::{HardwareAddress, MacAddress};
use crate::name::{IfIndex, InterfaceName};

/// Which port it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevlinkPortId {
    /// Bus of the device, such as `pci`.
    pub bus: Arc<str>,
    /// Name of the device on its bus, such as `0000:03:00.0`.
    pub device: Arc<str>,
    /// Number of the port on the device.
    pub index: u32,
}

/// One port of a devlink device. Numbers that the kernel does not report are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevlinkPort {
    /// Which port it is.
    pub id: DevlinkPortId,
    /// What is on the other side.
    pub flavour: PortFlavour,
    /// Controller that has the function; 0 is the local one.
    pub controller: Option<u32>,
    /// Number of the physical function.
    pub pf: Option<u16>,
    /// Number of the virtual function.
    pub vf: Option<u16>,
    /// Number of the subfunction.
    pub sf: Option<u32>,
    /// Whether the function belongs to another host than the one that runs the switch. Absent in the kernel's answer
    /// means no.
    pub external: bool,
    /// Number printed on the front of a physical port.
    pub number: Option<u32>,
    /// The network interface of the port, if it has one in this namespace.
    pub netdev: Option<PortNetdev>,
    /// Attributes of the function behind the port; absent where the driver (or a kernel before 5.9) reports none.
    pub function: Option<PortFunction>,
}

impl DevlinkPort {
    /// The MAC of the function behind the port, if it is reported and usable.
    #[must_use]
    pub fn peer_mac(&self) -> Option<MacAddress> {
        self.function.as_ref()?.hardware_address.usable_mac()
    }
}

/// The network interface of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortNetdev {
    /// Its number.
    pub index: IfIndex,
    /// Its name.
    pub name: InterfaceName,
}

/// The function behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFunction {
    /// Hardware address that the function has; all zero while nobody set one.
    pub hardware_address: HardwareAddress,
}

/// What is on the other side of a port. Source: linux/devlink.h, `enum devlink_port_flavour`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortFlavour {
    /// The wire.
    Physical,
    /// The CPU of a switch.
    Cpu,
    /// Another switch chip.
    Dsa,
    /// A physical function: a host's own NIC.
    PciPf,
    /// A virtual function.
    PciVf,
    /// Something without hardware.
    Virtual,
    /// Nothing.
    Unused,
    /// A subfunction.
    PciSf,
    /// Not reported, or newer than this list.
    Unknown(Option<u16>),
}

impl From<u16> for PortFlavour {
    fn from(flavour: u16) -> Self {
        match flavour {
            0 => Self::Physical,
            1 => Self::Cpu,
            2 => Self::Dsa,
            3 => Self::PciPf,
            4 => Self::PciVf,
            5 => Self::Virtual,
            6 => Self::Unused,
            7 => Self::PciSf,
            other => Self::Unknown(Some(other)),
        }
    }
}
