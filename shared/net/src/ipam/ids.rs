//! Ids: one number per key, handed out round robin.
//!
//! Ids of networks, nodes and second tunnel keys are all of this kind. The cursor is not kept over a restart, as
//! upstream does not keep it: then the lowest free ids are handed out.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use super::slots::{Skip, Slots};
use crate::network::id::{NetworkId, NodeId};
use crate::network::name::{NetworkName, NodeName};
use crate::network::tunnel_key::{SECOND_KEYS, TunnelKey};

/// One number of a range per key.
#[derive(Clone, Debug)]
pub struct Ids<K> {
    range: RangeInclusive<u32>,
    slots: Slots,
    of: BTreeMap<K, u32>,
    owners: BTreeMap<u32, K>,
}

/// No id is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to allocate the id for the resource {key}: all {capacity} ids are in use")]
pub struct Exhausted {
    /// Who asked.
    pub key: String,
    /// How many there are.
    pub capacity: u128,
}

/// An id that was asked for by number and cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused<K> {
    /// No id is so low or so high.
    #[error("id {id} is not in the range {}..{}", range.start(), range.end())]
    OutOfRange {
        /// The number.
        id: u32,
        /// Ids that there are.
        range: RangeInclusive<u32>,
    },
    /// Another key has it.
    #[error("id {id} is in use by {by}")]
    Taken {
        /// The number.
        id: u32,
        /// Who has it.
        by: K,
    },
    /// The key has another id.
    #[error("has id {has}, not {id}")]
    HasAnother {
        /// The number.
        id: u32,
        /// What it has.
        has: u32,
    },
}

impl<K: Ord + Clone + fmt::Display> Ids<K> {
    /// All ids of the range are free.
    #[must_use]
    pub fn new(range: RangeInclusive<u32>) -> Self {
        let size = u128::from(range.end().saturating_sub(*range.start())) + 1;
        Self { range, slots: Slots::new(size, Skip::None), of: BTreeMap::new(), owners: BTreeMap::new() }
    }

    /// The id that a key has.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<u32> {
        self.of.get(key).copied()
    }

    /// Who has an id.
    #[must_use]
    pub fn owner(&self, id: u32) -> Option<&K> {
        self.owners.get(&id)
    }

    /// How many ids are in use.
    #[must_use]
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether no id is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Gives a key the id that it was observed with. Claiming again what one has is fine.
    ///
    /// # Errors
    /// The id is out of range, somebody else's, or the key has another one; nothing changes then.
    pub fn claim(&mut self, key: &K, id: u32) -> Result<(), Refused<K>> {
        if !self.range.contains(&id) {
            return Err(Refused::OutOfRange { id, range: self.range.clone() });
        }
        match (self.get(key), self.owner(id)) {
            (Some(has), _) if has == id => return Ok(()),
            (Some(has), _) => return Err(Refused::HasAnother { id, has }),
            (None, Some(by)) => return Err(Refused::Taken { id, by: by.clone() }),
            (None, None) => {}
        }
        self.slots.take(self.position(id));
        self.insert(key, id);
        Ok(())
    }

    /// The id of a key: the one that it has, or the next free one.
    ///
    /// # Errors
    /// None is free.
    pub fn allocate(&mut self, key: &K) -> Result<u32, Exhausted> {
        if let Some(id) = self.get(key) {
            return Ok(id);
        }
        let position = self.slots.take_next();
        let id = position
            .and_then(|position| u32::try_from(position).ok())
            .map(|position| self.range.start() + position)
            .ok_or_else(|| Exhausted { key: key.to_string(), capacity: self.slots.capacity() })?;
        self.insert(key, id);
        Ok(id)
    }

    /// Frees the id of a key, and says which it was.
    pub fn release(&mut self, key: &K) -> Option<u32> {
        let id = self.of.remove(key)?;
        self.owners.remove(&id);
        let position = self.position(id);
        self.slots.release(position, position);
        Some(id)
    }

    fn insert(&mut self, key: &K, id: u32) {
        self.of.insert(key.clone(), id);
        self.owners.insert(id, key.clone());
    }

    fn position(&self, id: u32) -> u128 {
        u128::from(id.saturating_sub(*self.range.start()))
    }
}

/// Ids of all networks but the default one, which has 0 for ever.
#[derive(Clone, Debug)]
pub struct NetworkIds(Ids<NetworkName>);

/// The id of a network, and what became of the one its NAD is annotated with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The network's id.
    pub id: NetworkId,
    /// Why the annotated id is not this one, where the NAD has one: it has to be annotated anew.
    pub replaced: Option<Refused<NetworkName>>,
}

/// No network id is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to allocate network ID: {0}")]
pub struct NoNetworkId(pub Exhausted);

impl Default for NetworkIds {
    fn default() -> Self {
        Self::new()
    }
}

impl NetworkIds {
    /// All ids are free.
    #[must_use]
    pub fn new() -> Self {
        Self(Ids::new(u32::from(*NetworkId::USER.start())..=u32::from(*NetworkId::USER.end())))
    }

    /// The id of the network of one of its NADs: the one that the network has; else the one that the NAD is annotated
    /// with, if nobody has it; else a new one.
    ///
    /// `annotated` is none where the annotation is no id. A NAD without one may have the id that a node tells in its
    /// older annotation of all networks. At start NADs with an id come before those without, and each group oldest first, so that of two networks which
    /// claim one id the older keeps it.
    ///
    /// # Errors
    /// All ids are in use.
    pub fn choose(
        &mut self,
        network: &NetworkName,
        annotated: Option<NetworkId>,
    ) -> Result<Chosen, NoNetworkId> {
        if network.is_default() {
            let replaced = annotated
                .filter(|id| !id.is_default())
                .map(|id| Refused::HasAnother { id: u32::from(id.get()), has: 0 });
            return Ok(Chosen { id: NetworkId::DEFAULT, replaced });
        }
        let replaced = annotated.and_then(|id| self.0.claim(network, u32::from(id.get())).err());
        let id = self.0.allocate(network).map_err(NoNetworkId)?;
        Ok(Chosen { id: network_id(id), replaced })
    }

    /// The id that a network has.
    #[must_use]
    pub fn get(&self, network: &NetworkName) -> Option<NetworkId> {
        if network.is_default() {
            return Some(NetworkId::DEFAULT);
        }
        self.0.get(network).map(network_id)
    }

    /// Which network has an id.
    #[must_use]
    pub fn owner(&self, id: NetworkId) -> Option<&NetworkName> {
        self.0.owner(u32::from(id.get()))
    }

    /// Frees a network's id once its last NAD is gone.
    pub fn release(&mut self, network: &NetworkName) -> Option<NetworkId> {
        self.0.release(network).map(network_id)
    }

    /// How many networks have an id, the default one aside.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no network but the default one has an id.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An id that the allocator's range bounds.
fn network_id(id: u32) -> NetworkId {
    NetworkId::try_from(id).unwrap_or_else(|_| unreachable!("the allocator's range is that of network ids"))
}

/// Ids of nodes.
#[derive(Clone, Debug)]
pub struct NodeIds(Ids<NodeName>);

/// No node id is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to allocate node ID: {0}")]
pub struct NoNodeId(pub Exhausted);

impl NodeIds {
    /// The state that annotated nodes were left with: each keeps its id, of two with one id the first keeps it. Who
    /// passes the nodes oldest first lets the older one keep it.
    ///
    /// Returns also the claims that could not be met; those nodes get a new id when they are next looked at.
    pub fn rebuild<'n>(
        annotated: impl IntoIterator<Item = (&'n NodeName, NodeId)>,
    ) -> (Self, Vec<(NodeName, Refused<NodeName>)>) {
        let mut ids = Ids::new(u32::from(*NodeId::RANGE.start())..=u32::from(*NodeId::RANGE.end()));
        let mut refused = Vec::new();
        for (node, id) in annotated {
            if let Err(why) = ids.claim(node, u32::from(id.get())) {
                refused.push((node.clone(), why));
            }
        }
        (Self(ids), refused)
    }

    /// The id of a node: the one that it has, or the next free one. What a node that joins is annotated with plays no
    /// part, as upstream replaces it.
    ///
    /// # Errors
    /// All ids are in use.
    pub fn allocate(&mut self, node: &NodeName) -> Result<NodeId, NoNodeId> {
        self.0.allocate(node).map(node_id).map_err(NoNodeId)
    }

    /// The id that a node has.
    #[must_use]
    pub fn get(&self, node: &NodeName) -> Option<NodeId> {
        self.0.get(node).map(node_id)
    }

    /// Frees the id of a node that is gone.
    pub fn release(&mut self, node: &NodeName) -> Option<NodeId> {
        self.0.release(node).map(node_id)
    }
}

/// An id that the allocator's range bounds.
fn node_id(id: u32) -> NodeId {
    NodeId::try_from(id).unwrap_or_else(|_| unreachable!("the allocator's range is that of node ids"))
}

/// Second tunnel keys of layer 2 primary networks.
#[derive(Clone, Debug)]
pub struct SecondKeys(Ids<NetworkName>);

/// No second tunnel key is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to allocate tunnel key: {0}")]
pub struct NoTunnelKey(pub Exhausted);

impl Default for SecondKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl SecondKeys {
    /// All keys are free.
    #[must_use]
    pub fn new() -> Self {
        Self(Ids::new(SECOND_KEYS))
    }

    /// The second key of a network: the one that it has; else the annotated one, if nobody has it; else a new one.
    ///
    /// # Errors
    /// All keys are in use.
    pub fn choose(
        &mut self,
        network: &NetworkName,
        annotated: Option<TunnelKey>,
    ) -> Result<TunnelKey, NoTunnelKey> {
        if let Some(key) = annotated {
            // Whoever cannot have it gets another one below; the NAD is annotated anew then.
            self.0.claim(network, key.get()).unwrap_or_default();
        }
        let key = self.0.allocate(network).map_err(NoTunnelKey)?;
        Ok(TunnelKey::second(key)
            .unwrap_or_else(|| unreachable!("the allocator's range is that of second keys")))
    }

    /// Frees the second key of a network.
    pub fn release(&mut self, network: &NetworkName) -> Option<TunnelKey> {
        self.0.release(network).and_then(TunnelKey::second)
    }
}

#[cfg(test)]
mod tests;
