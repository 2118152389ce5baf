//! Who has which subnets, who had them last, and who waits for some.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::Family;
use crate::network::name::NodeName;

/// So many released nodes are remembered. A node that comes back does so soon; in a cluster that makes nodes of new
/// names all the time, remembering all of them would be a leak.
const MOST_FORMER: usize = 1024;

/// Owners and former owners of subnets.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    held: BTreeMap<NodeName, Vec<IpNet>>,
    owner: BTreeMap<IpNet, NodeName>,
    /// How many of the owned subnets are of IPv4.
    v4: usize,
    /// What released nodes had, as far as it is still free or with somebody who has yet to be asked.
    former: BTreeMap<NodeName, Vec<IpNet>>,
    former_order: Queue,
}

impl Owners {
    pub(super) fn of(&self, node: &NodeName) -> &[IpNet] {
        self.held.get(node).map_or(&[], Vec::as_slice)
    }

    /// Every node that has something, with what it has.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&NodeName, &[IpNet])> {
        self.held.iter().map(|(node, subnets)| (node, subnets.as_slice()))
    }

    pub(super) fn owner(&self, subnet: &IpNet) -> Option<&NodeName> {
        self.owner.get(subnet)
    }

    pub(super) fn count(&self, family: Family) -> usize {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.owner.len() - self.v4,
        }
    }

    /// Makes `subnets` what the node has.
    pub(super) fn set(&mut self, node: &NodeName, subnets: Vec<IpNet>) {
        self.remove(node);
        for subnet in &subnets {
            self.owner.insert(*subnet, node.clone());
        }
        self.v4 += v4(&subnets);
        if !subnets.is_empty() {
            self.held.insert(node.clone(), subnets);
        }
    }

    pub(super) fn remove(&mut self, node: &NodeName) -> Vec<IpNet> {
        let subnets = self.held.remove(node).unwrap_or_default();
        for subnet in &subnets {
            self.owner.remove(subnet);
        }
        self.v4 -= v4(&subnets);
        subnets
    }

    /// Remembers what a node had. A node that had nothing is still remembered for what it had before.
    pub(super) fn remember(&mut self, node: &NodeName, subnets: Vec<IpNet>) {
        if subnets.is_empty() {
            return;
        }
        self.former.insert(node.clone(), subnets);
        self.former_order.remove(node);
        self.former_order.add(node);
        if self.former.len() > MOST_FORMER
            && let Some(oldest) = self.former_order.first().cloned()
        {
            self.former.remove(&oldest);
            self.former_order.remove(&oldest);
        }
    }

    /// The subnet of a family that a node had when it was released. Somebody else may have it by now.
    pub(super) fn former(&self, node: &NodeName, family: Family) -> Option<IpNet> {
        self.former.get(node)?.iter().copied().find(|subnet| Family::of(subnet) == family)
    }
}

fn v4(subnets: &[IpNet]) -> usize {
    subnets.iter().filter(|subnet| Family::of(subnet) == Family::V4).count()
}

/// Nodes in the order in which they were added, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    added: u64,
    at: BTreeMap<NodeName, u64>,
    order: BTreeMap<u64, NodeName>,
}

impl Queue {
    /// Adds a node at the end, unless it is there.
    pub(super) fn add(&mut self, node: &NodeName) {
        if !self.at.contains_key(node) {
            self.added += 1;
            self.at.insert(node.clone(), self.added);
            self.order.insert(self.added, node.clone());
        }
    }

    pub(super) fn remove(&mut self, node: &NodeName) {
        if let Some(at) = self.at.remove(node) {
            self.order.remove(&at);
        }
    }

    pub(super) fn first(&self) -> Option<&NodeName> {
        self.order.values().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NodeName> {
        self.order.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_released_nodes_are_remembered_and_the_oldest_goes_first() {
        let mut owners = Owners::default();
        let subnet: IpNet = "10.0.0.0/24".parse().unwrap();
        let node = |at: usize| NodeName::from(format!("n{at}"));
        for at in 0..=MOST_FORMER {
            owners.remember(&node(at), vec![subnet]);
        }
        assert_eq!(owners.former(&node(0), Family::V4), None);
        assert_eq!(owners.former(&node(1), Family::V4), Some(subnet));
        assert_eq!(owners.former.len(), MOST_FORMER);
        assert_eq!(owners.former_order.iter().count(), MOST_FORMER);
    }
}
