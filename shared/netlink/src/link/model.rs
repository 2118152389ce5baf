//! What is known of one interface.

use crate::mac::HardwareAddress;
use crate::name::{IfIndex, InterfaceName};

/// One network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace.
    pub index: IfIndex,
    /// Its name.
    pub name: InterfaceName,
    /// Administrative and operational flags.
    pub flags: LinkFlags,
    /// Largest packet, in bytes, without the link layer's header.
    pub mtu: u32,
    /// Operational state as in RFC 2863.
    pub oper_state: OperState,
    /// Whether the driver sees a carrier; `None` if it does not say, and while the link is down: the kernel changes it
    /// then without an event.
    pub carrier: Option<bool>,
    /// Hardware address.
    pub address: HardwareAddress,
    /// The bridge, bond or VRF it belongs to.
    pub master: Option<IfIndex>,
    /// The link it stands on (VLAN, macvlan) or its other end (veth).
    pub parent: Option<LinkParent>,
    /// What kind of device it is.
    pub kind: LinkKind,
    /// What most links do not have.
    pub details: Option<Box<LinkDetails>>,
}

impl Link {
    /// Alias (`ip link set alias`).
    #[must_use]
    pub fn alias(&self) -> Option<&str> {
        self.details.as_deref()?.alias.as_deref()
    }

    /// Alternative names (`ip link property add altname`).
    #[must_use]
    pub fn alt_names(&self) -> &[Box<str>] {
        self.details.as_deref().map_or(&[], |details| &details.alt_names)
    }

    /// Identity of the switch the port belongs to: the same bytes for all ports of one switch, none for a plain NIC.
    #[must_use]
    pub fn phys_switch_id(&self) -> Option<&[u8]> {
        self.details.as_deref()?.phys_switch_id.as_deref()
    }

    /// Name of the port on its device, such as `p0` or `pf0vf7`.
    #[must_use]
    pub fn phys_port_name(&self) -> Option<&str> {
        self.details.as_deref()?.phys_port_name.as_deref()
    }

    /// The parent, if it is in this namespace.
    #[must_use]
    pub fn local_parent(&self) -> Option<IfIndex> {
        self.parent.filter(|parent| parent.netns.is_none()).map(|parent| parent.index)
    }

    /// Routing table, if this is a VRF.
    #[must_use]
    pub const fn vrf_table(&self) -> Option<u32> {
        match self.kind {
            LinkKind::Vrf { table } => Some(table),
            _ => None,
        }
    }
}

/// What most links do not have; kept apart so that the others stay small.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkDetails {
    /// Alias.
    pub alias: Option<Box<str>>,
    /// Alternative names, in kernel order.
    pub alt_names: Box<[Box<str>]>,
    /// Identity of the switch.
    pub phys_switch_id: Option<Box<[u8]>>,
    /// Name of the port on its device.
    pub phys_port_name: Option<Box<str>>,
    /// The device below the link, such as a PCI function.
    pub parent_device: Option<ParentDevice>,
}

/// The device that a link belongs to, in the kernel's device model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentDevice {
    /// Bus, such as `pci`.
    pub bus: Box<str>,
    /// Name on the bus, such as `0000:03:00.0`.
    pub name: Box<str>,
}

/// The link that another one refers to by `IFLA_LINK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkParent {
    /// Its index; in this namespace only if `netns` is absent.
    pub index: IfIndex,
    /// The namespace that holds it, if that is another one.
    pub netns: Option<NetnsId>,
}

/// This namespace's number for another one. -1 stands for a namespace that has no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId(pub i32);

/// The flags of an interface that say something lasting about it (linux/if.h). Promiscuous and all-multicast mode are
/// left out: they follow who listens, and would look like changes of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkFlags(u32);

const IFF_UP: u32 = 1;
const IFF_BROADCAST: u32 = 1 << 1;
const IFF_LOOPBACK: u32 = 1 << 3;
const IFF_POINTOPOINT: u32 = 1 << 4;
const IFF_RUNNING: u32 = 1 << 6;
const IFF_NOARP: u32 = 1 << 7;
const IFF_MULTICAST: u32 = 1 << 12;
const IFF_LOWER_UP: u32 = 1 << 16;
const IFF_DORMANT: u32 = 1 << 17;
const KEPT: u32 = IFF_UP
    | IFF_BROADCAST
    | IFF_LOOPBACK
    | IFF_POINTOPOINT
    | IFF_RUNNING
    | IFF_NOARP
    | IFF_MULTICAST
    | IFF_LOWER_UP
    | IFF_DORMANT;

impl LinkFlags {
    pub(crate) const fn from_kernel(bits: u32) -> Self {
        Self(bits & KEPT)
    }

    /// Administratively up (`ip link set up`).
    #[must_use]
    pub const fn is_up(self) -> bool {
        self.0 & IFF_UP != 0
    }

    /// Up and able to pass packets.
    #[must_use]
    pub const fn is_running(self) -> bool {
        self.0 & IFF_RUNNING != 0
    }

    /// The link below has a signal.
    #[must_use]
    pub const fn is_lower_up(self) -> bool {
        self.0 & IFF_LOWER_UP != 0
    }
}

impl std::fmt::Debug for LinkFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Operational state of an interface. Source: linux/if.h, `IF_OPER_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperState {
    /// The driver does not say.
    Unknown,
    /// A component is missing.
    NotPresent,
    /// Down.
    Down,
    /// Down because the link below is.
    LowerLayerDown,
    /// In a test mode.
    Testing,
    /// Up, waiting for an event such as authentication.
    Dormant,
    /// Up.
    Up,
    /// A state newer than this list.
    Other(u8),
}

impl From<u8> for OperState {
    fn from(state: u8) -> Self {
        match state {
            0 => Self::Unknown,
            1 => Self::NotPresent,
            2 => Self::Down,
            3 => Self::LowerLayerDown,
            4 => Self::Testing,
            5 => Self::Dormant,
            6 => Self::Up,
            other => Self::Other(other),
        }
    }
}

/// Kind of a device, from the name its driver registers with rtnetlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkKind {
    /// No rtnetlink kind: hardware, or a driver that has none.
    Device,
    /// A VRF with its routing table.
    Vrf {
        /// Number of the table.
        table: u32,
    },
    /// A VLAN on its parent link.
    Vlan {
        /// VLAN number.
        id: u16,
        /// Ethernet type of the tag: 0x8100 or 0x88a8.
        protocol: u16,
    },
    /// A Linux bridge.
    Bridge,
    /// One end of a pair.
    Veth,
    /// A tun or tap device.
    Tun,
    /// A macvlan on its parent link.
    Macvlan,
    /// A VXLAN tunnel.
    Vxlan,
    /// A Geneve tunnel.
    Geneve,
    /// A dummy device.
    Dummy,
    /// A bond.
    Bond,
    /// A port of an Open vSwitch kernel datapath (internal ports, and the datapath itself).
    OpenVswitch,
    /// Any other kind, by name.
    Other(Box<str>),
}

impl LinkKind {
    /// The kind whose parameters do not matter here, by the driver's name.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "bridge" => Self::Bridge,
            "veth" => Self::Veth,
            "tun" => Self::Tun,
            "macvlan" => Self::Macvlan,
            "vxlan" => Self::Vxlan,
            "geneve" => Self::Geneve,
            "dummy" => Self::Dummy,
            "bond" => Self::Bond,
            "openvswitch" => Self::OpenVswitch,
            other => Self::Other(other.into()),
        }
    }
}
