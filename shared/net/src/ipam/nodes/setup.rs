//! What a network's subnets are taken from.

use std::fmt;

use ipnet::IpNet;

use super::Family;
use super::pool::Pools;
use crate::ipam::range::BadRange;

/// A block of addresses and the length of the subnets that nodes get from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRange {
    /// The block. Bits below its mask play no part.
    pub network: IpNet,
    /// Length of a node's subnet.
    pub host_length: u8,
}

impl fmt::Display for HostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.host_length)
    }
}

/// Which families of addresses a network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both.
    Both,
}

impl Families {
    /// The families of some ranges; none for no range.
    #[must_use]
    pub fn of<'r>(ranges: impl IntoIterator<Item = &'r IpNet>) -> Option<Self> {
        ranges.into_iter().map(Family::of).map(Self::from).reduce(Self::with)
    }

    /// These and those.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::Both }
    }

    /// Whether a family is one of them.
    #[must_use]
    pub fn has(self, family: Family) -> bool {
        matches!((self, family), (Self::Both, _) | (Self::V4, Family::V4) | (Self::V6, Family::V6))
    }

    /// Each of them, IPv4 first.
    pub fn iter(self) -> impl Iterator<Item = Family> {
        [Family::V4, Family::V6].into_iter().filter(move |family| self.has(*family))
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.iter().count()
    }
}

impl From<Family> for Families {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::V4,
            Family::V6 => Self::V6,
        }
    }
}

/// Ranges that fit together, and what nodes should get from them.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) families: Families,
    pub(super) pools: Pools,
}

/// Ranges that subnets cannot be taken from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetup {
    /// There is none.
    #[error("the network has no subnets")]
    Empty,
    /// One cannot be cut as it should be.
    #[error("range {range}: {cause}")]
    Range {
        /// The range.
        range: HostRange,
        /// Part of the text on purpose: conditions have one line.
        cause: BadRange,
    },
    /// Two share addresses, so two nodes could get the same.
    #[error("ranges {0} and {1} overlap")]
    Overlap(HostRange, HostRange),
    /// One that was there is gone; nodes may have subnets of it.
    #[error("range {0} was removed; ranges of a network can only be added")]
    Removed(HostRange),
    /// One is cut differently than before; nodes may have subnets of it.
    #[error("range {new} was {old} before; the length of its subnets cannot change")]
    Recut {
        /// As it was.
        old: HostRange,
        /// As it should be.
        new: HostRange,
    },
}

impl Setup {
    /// Nodes get a subnet of each family that the ranges have.
    ///
    /// # Errors
    /// Subnets cannot be taken from these ranges.
    pub fn new(ranges: &[HostRange]) -> Result<Self, BadSetup> {
        let mut pools = Pools::default();
        let families = pools.expand(ranges)?;
        Ok(Self { families, pools })
    }

    /// Nodes get a subnet of each of these families, whether there is a range for it or not.
    #[must_use]
    pub fn wanting(self, families: Families) -> Self {
        Self { families, ..self }
    }
}
