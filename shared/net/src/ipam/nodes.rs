//! Subnets of one network for its nodes: one of each family per node.
//!
//! In: the network's ranges, what nodes are annotated with, who joins and leaves. Out: which subnets a node has and
//! whether its annotation has to be written.
//!
//! A subnet is promised to its node from the moment it is handed out until the node is released. A write that failed
//! therefore changes nothing: the next attempt is offered the same (upstream gives the subnet up and moves on, so each
//! failure burns one). The last thousand released nodes are remembered together with their subnets: one that comes back
//! has them again, unless somebody else got them (upstream gives it the next ones). Nothing else differs in which subnet
//! goes to whom. A rebuild keeps everybody's subnets; it forgets who left and where the search was, as upstream does.
//!
//! Every call costs the logarithm of what there is, and one step per range that is full.

mod held;
mod pool;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ipnet::IpNet;

pub use self::pool::Usage;
pub use self::setup::{BadSetup, Families, HostRange, Setup};

use self::held::{Owners, Queue};
use self::pool::Pools;
use crate::network::name::{NetworkName, NodeName};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address block.
    #[must_use]
    pub fn of(network: &IpNet) -> Self {
        match network {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        })
    }
}

/// Which node has which subnets of one network.
#[derive(Clone, Debug)]
pub struct NodeSubnets {
    network: NetworkName,
    families: Families,
    pools: Pools,
    owners: Owners,
    /// What foreign blocks of addresses take away, by the node that they belong to.
    blocks: BTreeMap<NodeName, Vec<pool::Block>>,
    waiting: Queue,
}

/// What a node has after it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Its subnets in the order in which they are annotated: those that it keeps, then new ones.
    pub subnets: Vec<IpNet>,
    /// What it is annotated with and does not have.
    pub dropped: Vec<Dropped>,
    /// Whether its annotation says something else.
    pub changed: bool,
}

/// An annotated subnet that a node does not keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("subnet {subnet}: {why}")]
pub struct Dropped {
    /// The subnet.
    pub subnet: IpNet,
    /// Why not.
    pub why: NotKept,
}

/// Why an annotated subnet is not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// No range of the network holds it.
    #[error("is in no range of the network")]
    Outside,
    /// It is not one of the subnets that its range is cut into. Upstream takes it by its address alone, and it may
    /// overlap others then.
    #[error("is not a subnet of length {host_length} as its range {range} is cut into")]
    WrongShape {
        /// The range.
        range: IpNet,
        /// Length of its subnets.
        host_length: u8,
    },
    /// Another node has it.
    #[error("belongs to node {0}")]
    Taken(NodeName),
    /// A foreign block of addresses has it.
    #[error("belongs to addresses that are not the network's")]
    Blocked,
    /// The node has one of this family already.
    #[error("the node has another one of its family")]
    Surplus,
    /// The network has no addresses of its family.
    #[error("the network has no {0} subnets")]
    FamilyNotWanted(Family),
}

/// Why a node has no complete set of subnets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSubnet {
    /// All subnets of a family are taken.
    #[error("error allocating network for node {node}, network name {network}: no subnets available")]
    Exhausted {
        /// The network.
        network: NetworkName,
        /// The node.
        node: NodeName,
        /// The family.
        family: Family,
    },
    /// A family has no range at all.
    #[error(
        "error allocating networks for network: {network}, node {node}: {expected} subnets expected only new {found} \
         subnets allocated"
    )]
    NoRange {
        /// The network.
        network: NetworkName,
        /// The node.
        node: NodeName,
        /// How many subnets the node should get.
        expected: usize,
        /// How many there were.
        found: usize,
    },
}

impl NodeSubnets {
    /// The state that annotated nodes were left with: each keeps what it is annotated with, of two with one subnet the
    /// first keeps it. Everything annotated is reserved before the first new subnet is handed out, whichever node asks
    /// first.
    pub fn rebuild<'n, A>(network: NetworkName, setup: Setup, annotated: A) -> Self
    where
        A: IntoIterator<Item = (&'n NodeName, &'n [IpNet])>,
    {
        let Setup { families, pools } = setup;
        let mut state = Self {
            network,
            families,
            pools,
            owners: Owners::default(),
            blocks: BTreeMap::new(),
            waiting: Queue::default(),
        };
        for (node, subnets) in annotated {
            // What a node does not keep is told when the node is next looked at.
            let (kept, _) = state.keep(node, subnets);
            state.hold(node, kept);
        }
        state
    }

    /// Looks at a node: it keeps the first annotated subnet of each family that it can have, and gets what is missing,
    /// IPv4 first. Looking again gives the same.
    ///
    /// # Errors
    /// A family has no subnet left. The node keeps what it is annotated with, gets nothing new, and is
    /// [waiting](Self::waiting).
    pub fn sync(&mut self, node: &NodeName, annotated: &[IpNet]) -> Result<Assigned, NoSubnet> {
        let (mut subnets, dropped) = self.keep(node, annotated);
        let kept = subnets.len();
        match self.complete(node, &mut subnets) {
            Ok(()) => {
                self.waiting.remove(node);
                self.hold(node, subnets.clone());
                let changed = subnets != annotated;
                Ok(Assigned { subnets, dropped, changed })
            }
            Err(error) => {
                subnets.truncate(kept);
                self.hold(node, subnets);
                self.waiting.add(node);
                Err(error)
            }
        }
    }

    /// The subnets that a node has.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> &[IpNet] {
        self.owners.of(node)
    }

    /// Every node that has something, with what it has.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &[IpNet])> {
        self.owners.nodes()
    }

    /// The node that has a subnet.
    #[must_use]
    pub fn owner(&self, subnet: &IpNet) -> Option<&NodeName> {
        self.owners.owner(subnet)
    }

    /// Frees what a node has, and says what that was. The node gets it back if nobody else did.
    pub fn release(&mut self, node: &NodeName) -> Vec<IpNet> {
        self.waiting.remove(node);
        self.block(node, &[]);
        let freed = self.owners.remove(node);
        for subnet in &freed {
            self.pools.release(subnet);
        }
        self.block_freed(&freed);
        self.owners.remember(node, freed.clone());
        freed
    }

    /// Takes away whatever blocks of addresses touch that this network does not manage, as long as their node is there:
    /// a hybrid overlay node's subnets. What another node has by then stays with it until that node is released.
    pub fn set_foreign(&mut self, node: &NodeName, foreign: &[IpNet]) {
        let blocks = self.blocks.get(node).map_or(&[][..], Vec::as_slice);
        let unchanged = foreign.iter().all(|foreign| blocks.iter().any(|block| block.foreign == *foreign))
            && blocks.iter().all(|block| foreign.contains(&block.foreign));
        if !unchanged {
            self.block(node, foreign);
        }
    }

    fn block(&mut self, node: &NodeName, foreign: &[IpNet]) {
        for block in self.blocks.remove(node).unwrap_or_default() {
            self.pools.unblock(&block);
        }
        let blocks: Vec<pool::Block> = foreign.iter().flat_map(|foreign| self.pools.block(foreign)).collect();
        if !blocks.is_empty() {
            self.blocks.insert(node.clone(), blocks);
        }
    }

    /// Blocks again what touches these addresses: they are free for the first time.
    fn block_freed(&mut self, freed: &[IpNet]) {
        if freed.is_empty() || self.blocks.is_empty() {
            return;
        }
        let share =
            |foreign: &IpNet| freed.iter().any(|freed| freed.contains(foreign) || foreign.contains(freed));
        let concerned: Vec<(NodeName, Vec<IpNet>)> = self
            .blocks
            .iter()
            .map(|(node, blocks)| (node.clone(), foreign_of(blocks)))
            .filter(|(_, foreign)| foreign.iter().any(share))
            .collect();
        for (node, foreign) in concerned {
            self.block(&node, &foreign);
        }
    }

    /// Takes over the ranges that the network has now: new ones are searched in their place in the list, and no node
    /// moves.
    ///
    /// # Errors
    /// A range is gone or is cut differently, or two overlap; nothing changes then.
    pub fn expand(&mut self, ranges: &[HostRange]) -> Result<(), BadSetup> {
        self.families = self.pools.expand(ranges)?.with(self.families);
        let blocked: Vec<(NodeName, Vec<IpNet>)> =
            self.blocks.iter().map(|(node, blocks)| (node.clone(), foreign_of(blocks))).collect();
        for (node, foreign) in blocked {
            self.block(&node, &foreign);
        }
        Ok(())
    }

    /// Nodes that did not get what they need, who failed first first. They are worth another look after a release or an
    /// expansion.
    pub fn waiting(&self) -> impl Iterator<Item = &NodeName> {
        self.waiting.iter()
    }

    /// How many subnets the network lacks for the nodes that are waiting, over all families.
    #[must_use]
    pub fn missing(&self) -> usize {
        let wanted = self.families.count();
        self.waiting.iter().map(|node| wanted.saturating_sub(self.of(node).len())).sum()
    }

    /// How many subnets of a family there are, and how many nodes have one.
    #[must_use]
    pub fn usage(&self, family: Family) -> Usage {
        Usage { total: self.pools.capacity(family), allocated: self.owners.count(family) }
    }

    /// The annotated subnets that a node can keep, one of each family, and why not the others.
    fn keep(&self, node: &NodeName, annotated: &[IpNet]) -> (Vec<IpNet>, Vec<Dropped>) {
        let (mut kept, mut dropped): (Vec<IpNet>, Vec<Dropped>) = Default::default();
        for subnet in annotated {
            let family = Family::of(subnet);
            let refusal = if !self.families.has(family) {
                Some(NotKept::FamilyNotWanted(family))
            } else if kept.iter().any(|kept| Family::of(kept) == family) {
                Some(NotKept::Surplus)
            } else {
                self.refusal(node, subnet)
            };
            match refusal {
                None => kept.push(*subnet),
                Some(why) => dropped.push(Dropped { subnet: *subnet, why }),
            }
        }
        (kept, dropped)
    }

    /// Why a node cannot have a subnet.
    fn refusal(&self, node: &NodeName, subnet: &IpNet) -> Option<NotKept> {
        let Some((range, host_length)) = self.pools.range_of(subnet) else { return Some(NotKept::Outside) };
        if !self.pools.is_cut_into(subnet) {
            return Some(NotKept::WrongShape { range, host_length });
        }
        match self.owner(subnet) {
            Some(owner) if owner == node => None,
            Some(owner) => Some(NotKept::Taken(owner.clone())),
            None => self.pools.is_taken(subnet).then_some(NotKept::Blocked),
        }
    }

    /// Adds what is missing to the subnets of a node: what was promised to it or was its own before, else new ones.
    fn complete(&mut self, node: &NodeName, subnets: &mut Vec<IpNet>) -> Result<(), NoSubnet> {
        let kept = subnets.len();
        let mut fresh = Vec::new();
        let missing: Vec<Family> = self
            .families
            .iter()
            .filter(|family| subnets.iter().all(|kept| Family::of(kept) != *family))
            .collect();
        for family in missing {
            let promised = self.owners.of(node).iter().copied().find(|subnet| Family::of(subnet) == family);
            let found = promised.map(Found::Promised).or_else(|| self.find(node, family));
            match found {
                Some(Found::Promised(subnet)) => subnets.push(subnet),
                Some(Found::Fresh(subnet)) => {
                    fresh.push(subnet);
                    subnets.push(subnet);
                }
                None => {
                    for subnet in &fresh {
                        self.pools.give_back(subnet);
                    }
                    return Err(self.failure(node, family, subnets.len() - kept));
                }
            }
        }
        Ok(())
    }

    /// A subnet for a node that has none of the family: its former one if it is free, else the next one.
    fn find(&mut self, node: &NodeName, family: Family) -> Option<Found> {
        let former = self.owners.former(node, family);
        if let Some(former) =
            former.filter(|former| self.refusal(node, former).is_none() && self.pools.take(former))
        {
            return Some(Found::Fresh(former));
        }
        self.pools.take_next(family).map(Found::Fresh)
    }

    fn failure(&self, node: &NodeName, family: Family, found: usize) -> NoSubnet {
        let (network, node) = (self.network.clone(), node.clone());
        if self.pools.has_ranges(family) {
            NoSubnet::Exhausted { network, node, family }
        } else {
            NoSubnet::NoRange { network, node, expected: self.families.count(), found }
        }
    }

    /// Makes `subnets` what the node has, all of which it may have.
    fn hold(&mut self, node: &NodeName, subnets: Vec<IpNet>) {
        let before = self.owners.of(node).iter();
        let freed: Vec<IpNet> = before.filter(|before| !subnets.contains(before)).copied().collect();
        for gone in &freed {
            self.pools.release(gone);
        }
        self.block_freed(&freed);
        for subnet in &subnets {
            // Fresh ones are taken already, kept ones may not be.
            self.pools.take(subnet);
        }
        self.owners.set(node, subnets);
    }
}

fn foreign_of(blocks: &[pool::Block]) -> Vec<IpNet> {
    blocks.iter().map(|block| block.foreign).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Where a subnet for a node comes from.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// It was promised before.
    Promised(IpNet),
    /// It was free until now.
    Fresh(IpNet),
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
