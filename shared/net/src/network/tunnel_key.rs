//! Tunnel keys: what tells networks apart on the wire between nodes.

use std::fmt;

use super::id::NetworkId;

/// First tunnel key of networks. Source: ovn-kubernetes `types.BaseTransitSwitchTunnelKey`.
const BASE: u32 = 16_711_683;

/// A tunnel key of a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelKey(u32);

/// The keys from which layer 2 primary networks take their second one.
/// Source: ovn-kubernetes `id.TunnelKeysAllocator`; 61437 keys up to the last one of 24 bits.
pub const SECOND_KEYS: std::ops::RangeInclusive<u32> = 16_715_779..=16_777_215;

/// Keys of a network as its NADs carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKeys {
    /// Nothing is annotated: the one key follows from the network's id.
    Derived,
    /// Layer 2 primary networks have two.
    Layer2Primary {
        /// The layer 2 switch's.
        switch: TunnelKey,
        /// The transit router's.
        transit_router: TunnelKey,
    },
}

/// Annotated keys that such a network cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotated tunnel keys {keys:?} are not those of a layer 2 primary network with id {id}")]
pub struct ForeignKeys {
    /// The keys.
    pub keys: Vec<u32>,
    /// The network.
    pub id: NetworkId,
}

impl TunnelKey {
    /// The key that follows from a network's id.
    #[must_use]
    pub fn of(id: NetworkId) -> Self {
        Self(BASE + u32::from(id.get()))
    }

    /// A second key, if the number is one.
    #[must_use]
    pub fn second(key: u32) -> Option<Self> {
        SECOND_KEYS.contains(&key).then_some(Self(key))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TunnelKeys {
    /// The keys of a layer 2 primary network with this second key.
    #[must_use]
    pub fn layer2_primary(id: NetworkId, transit_router: TunnelKey) -> Self {
        Self::Layer2Primary { switch: TunnelKey::of(id), transit_router }
    }

    /// The second key of the keys that a NAD of a layer 2 primary network is annotated with.
    ///
    /// # Errors
    /// They are anything but the pair of such a network: they are treated as absent.
    pub fn second_of(keys: &[u32], id: NetworkId) -> Result<TunnelKey, ForeignKeys> {
        match keys {
            [first, second] if *first == TunnelKey::of(id).get() => TunnelKey::second(*second),
            _ => None,
        }
        .ok_or_else(|| ForeignKeys { keys: keys.to_vec(), id })
    }

    /// The keys as they are annotated.
    #[must_use]
    pub fn annotated(self) -> Vec<u32> {
        match self {
            Self::Derived => Vec::new(),
            Self::Layer2Primary { switch, transit_router } => vec![switch.get(), transit_router.get()],
        }
    }
}

impl fmt::Display for TunnelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::annotation::network::render_tunnel_keys;

    use super::*;

    #[test]
    fn keys_equal_the_captured_ones() {
        let one = NetworkId::try_from(1).unwrap();
        let two = NetworkId::try_from(2).unwrap();
        let first = TunnelKey::second(16_715_779).unwrap();
        let annotated = |keys: TunnelKeys| render_tunnel_keys(&keys.annotated());
        assert_eq!(annotated(TunnelKeys::layer2_primary(one, first)), "[16711684,16715779]");
        assert_eq!(annotated(TunnelKeys::layer2_primary(two, first)), "[16711685,16715779]");
        assert_eq!(annotated(TunnelKeys::Derived), "[]");
        assert_eq!(TunnelKey::of(NetworkId::DEFAULT).get(), 16_711_683);
    }

    #[test]
    fn the_pool_of_second_keys_begins_after_the_derived_ones_and_ends_with_24_bits() {
        assert!(TunnelKey::of(NetworkId::MAX).get() < *SECOND_KEYS.start());
        assert_eq!(SECOND_KEYS.count(), 61_437);
        assert_eq!(*SECOND_KEYS.end(), (1 << 24) - 1);
    }

    #[test]
    fn annotated_keys_of_another_network_or_shape_are_not_taken() {
        let id = NetworkId::try_from(7).unwrap();
        assert_eq!(TunnelKeys::second_of(&[16_711_690, 16_715_780], id).unwrap().get(), 16_715_780);
        for keys in [
            &[16_711_690, 16_715_780, 1][..],
            &[],
            &[16_711_690],
            &[16_711_691, 16_715_780],
            &[16_711_690, 16_711_691],
            &[16_711_690, 16_777_216],
        ] {
            let error = TunnelKeys::second_of(keys, id).unwrap_err();
            assert_eq!(error, ForeignKeys { keys: keys.to_vec(), id });
        }
    }
}
