//! Ids of networks and of nodes.

use std::fmt;
use std::ops::RangeInclusive;

/// Id of a network: 0 is the default network, others have 1 to 4095.
/// Source: ovn-kubernetes `networkmanager`, which has 4096 ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(u16);

/// Id of a node: 2 to 5000. Source: ovn-kubernetes cluster manager; 0 and 1 are never given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u16);

/// A number that no id can have. Whoever was annotated with it is treated as having none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not in the range {}..{}", range.start(), range.end())]
pub struct BadId {
    /// The number.
    pub found: u32,
    /// Ids that can be.
    pub range: RangeInclusive<u16>,
}

impl NetworkId {
    /// The default network's id.
    pub const DEFAULT: Self = Self(0);
    /// The highest id.
    pub const MAX: Self = Self(4095);
    /// Ids that networks other than the default one can have.
    pub const USER: RangeInclusive<u16> = 1..=4095;

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether this is the default network's id.
    #[must_use]
    pub fn is_default(self) -> bool {
        self == Self::DEFAULT
    }
}

impl NodeId {
    /// Ids that nodes can have.
    pub const RANGE: RangeInclusive<u16> = 2..=5000;

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u32> for NetworkId {
    type Error = BadId;

    fn try_from(id: u32) -> Result<Self, Self::Error> {
        checked(id, 0..=Self::MAX.0).map(Self)
    }
}

impl TryFrom<u32> for NodeId {
    type Error = BadId;

    fn try_from(id: u32) -> Result<Self, Self::Error> {
        checked(id, Self::RANGE).map(Self)
    }
}

fn checked(found: u32, range: RangeInclusive<u16>) -> Result<u16, BadId> {
    match u16::try_from(found) {
        Ok(id) if range.contains(&id) => Ok(id),
        Ok(_) | Err(_) => Err(BadId { found, range }),
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::annotation::network::MAX_NETWORK_ID;
    use causeway_api::annotation::node::MAX_NODE_ID;

    use super::*;

    #[test]
    fn ids_are_what_the_annotations_can_hold() {
        assert_eq!(u32::from(NetworkId::MAX.get()), MAX_NETWORK_ID);
        assert_eq!(u32::from(*NodeId::RANGE.end()), MAX_NODE_ID);
        assert_eq!(NetworkId::try_from(0), Ok(NetworkId::DEFAULT));
        assert_eq!(NetworkId::try_from(4095), Ok(NetworkId::MAX));
        for id in [2, 5000] {
            assert_eq!(u32::from(NodeId::try_from(id).unwrap().get()), id);
        }
    }

    #[test]
    fn a_number_that_no_id_can_have_says_why() {
        let text = NetworkId::try_from(4096).unwrap_err().to_string();
        assert_eq!(text, "4096 is not in the range 0..4095");
        for id in [0, 1, 5001, u32::MAX] {
            assert_eq!(
                NodeId::try_from(id).unwrap_err().to_string(),
                format!("{id} is not in the range 2..5000")
            );
        }
    }
}
