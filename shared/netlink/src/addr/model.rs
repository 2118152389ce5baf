//! What is known of one address.

use std::net::IpAddr;

use crate::name::IfIndex;
use crate::prefix::{Family, Prefix};

/// One address of one interface. Lifetimes are left out: they change by themselves all the time, and what follows from
/// them (deprecation, removal) is an event of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The interface that has it.
    pub link: IfIndex,
    /// The address and the length of its on-link prefix.
    pub prefix: Prefix,
    /// The other end of a point-to-point address.
    pub peer: Option<IpAddr>,
    /// Flags.
    pub flags: AddressFlags,
    /// How far it is valid.
    pub scope: Scope,
    /// Label; IPv4 only. The name of the interface unless someone chose another.
    pub label: Option<Box<str>>,
}

impl Address {
    /// The address without its prefix length.
    #[must_use]
    pub const fn ip(&self) -> IpAddr {
        self.prefix.address()
    }

    /// Whether both rows are states of the same address, as the kernel tells addresses of one link apart: IPv4 by
    /// address, length and peer, IPv6 by address alone.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match self.prefix.family() {
            Family::V4 => self.prefix == other.prefix && self.peer == other.peer,
            Family::V6 => self.ip() == other.ip(),
        }
    }
}

/// Flags of an address. Source: linux/if_addr.h, `IFA_F_*`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AddressFlags(u32);

impl AddressFlags {
    pub(crate) const fn from_kernel(bits: u32) -> Self {
        Self(bits)
    }

    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// IPv4: not the first address of its subnet. IPv6: temporary. The kernel uses one bit for both.
    #[must_use]
    pub const fn is_secondary_or_temporary(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// Duplicate address detection found another owner.
    #[must_use]
    pub const fn is_dad_failed(self) -> bool {
        self.0 & 0x08 != 0
    }

    /// Past its preferred lifetime: not for new connections.
    #[must_use]
    pub const fn is_deprecated(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// Duplicate address detection still runs.
    #[must_use]
    pub const fn is_tentative(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// Has no lifetime.
    #[must_use]
    pub const fn is_permanent(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The kernel was told not to make a route for the prefix.
    #[must_use]
    pub const fn has_no_prefix_route(self) -> bool {
        self.0 & 0x200 != 0
    }
}

impl std::fmt::Debug for AddressFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// How far an address or route reaches. Source: linux/rtnetlink.h, `RT_SCOPE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub u8);

impl Scope {
    /// Everywhere.
    pub const UNIVERSE: Self = Self(0);
    /// Within the site.
    pub const SITE: Self = Self(200);
    /// On the link only.
    pub const LINK: Self = Self(253);
    /// On this host only.
    pub const HOST: Self = Self(254);
    /// Nowhere: a route that refuses.
    pub const NOWHERE: Self = Self(255);
}
