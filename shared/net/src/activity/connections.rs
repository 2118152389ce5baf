//! Networks that are connected: a node that needs one of them needs those that are connected with it too. One step and no
//! more: who is connected with a connected network is not.
//! Source: ovn-kubernetes `networkmanager/nad_controller.go`, and ClusterNetworkConnect, which is symmetric and not
//! transitive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::network::name::{NetworkName, NodeName};

/// Who is connected with whom, and which nodes need a network for its own sake.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    /// The networks that each connection connects.
    members: BTreeMap<Arc<str>, BTreeSet<NetworkName>>,
    /// By how many connections each network is connected with others.
    peers: BTreeMap<NetworkName, BTreeMap<NetworkName, usize>>,
    /// How many reasons of its own each node has for a network.
    own: BTreeMap<NetworkName, BTreeMap<NodeName, usize>>,
}

/// Two networks of which the second one is needed where the first one is.
pub(super) type Pair = (NetworkName, NetworkName);

impl Connections {
    /// A node has one more reason of its own for a network; returns the networks that it needs because of that.
    pub(super) fn gain(&mut self, network: &NetworkName, node: &NodeName) -> Vec<NetworkName> {
        let reasons = self.own.entry(network.clone()).or_default().entry(node.clone()).or_default();
        *reasons += 1;
        if *reasons == 1 { self.peers_of(network) } else { Vec::new() }
    }

    /// A node has one reason of its own less; returns the networks that it no longer needs because of that.
    pub(super) fn lose(&mut self, network: &NetworkName, node: &NodeName) -> Vec<NetworkName> {
        let Some(nodes) = self.own.get_mut(network) else { return Vec::new() };
        let Some(reasons) = nodes.get_mut(node) else { return Vec::new() };
        *reasons -= 1;
        if *reasons > 0 {
            return Vec::new();
        }
        nodes.remove(node);
        if nodes.is_empty() {
            self.own.remove(network);
        }
        self.peers_of(network)
    }

    /// The networks that are connected with one.
    fn peers_of(&self, network: &NetworkName) -> Vec<NetworkName> {
        self.peers.get(network).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// The nodes that need a network for its own sake.
    pub(super) fn own_nodes(&self, network: &NetworkName) -> Vec<NodeName> {
        self.own.get(network).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// The nodes that need a network because of another, once for each other.
    pub(super) fn because_of_others(&self, network: &NetworkName) -> Vec<NodeName> {
        self.peers_of(network).iter().flat_map(|peer| self.own_nodes(peer)).collect()
    }

    /// Makes `members` what a connection connects; returns the pairs that are connected now and were not, and those that
    /// no longer are.
    pub(super) fn connect(
        &mut self,
        name: &str,
        members: &BTreeSet<NetworkName>,
    ) -> (BTreeSet<Pair>, BTreeSet<Pair>) {
        let before = self.members.remove(name).unwrap_or_default();
        let added: BTreeSet<Pair> = pairs(members, &before).filter(|pair| self.more(pair)).collect();
        let removed: BTreeSet<Pair> = pairs(&before, members).filter(|pair| self.fewer(pair)).collect();
        if !members.is_empty() {
            self.members.insert(name.into(), members.clone());
        }
        (added, removed)
    }

    /// One more connection of a pair; whether it is the first.
    fn more(&mut self, (from, to): &Pair) -> bool {
        let count = self.peers.entry(from.clone()).or_default().entry(to.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// One connection of a pair less; whether it was the last.
    fn fewer(&mut self, (from, to): &Pair) -> bool {
        let Some(peers) = self.peers.get_mut(from) else { return false };
        let Some(count) = peers.get_mut(to) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        peers.remove(to);
        if peers.is_empty() {
            self.peers.remove(from);
        }
        true
    }
}

/// The ordered pairs in `all` of which at least one is not in `others`: what one more member costs are its own pairs.
fn pairs<'a>(
    all: &'a BTreeSet<NetworkName>,
    others: &'a BTreeSet<NetworkName>,
) -> impl Iterator<Item = Pair> + 'a {
    let new = all.difference(others);
    new.flat_map(move |one| {
        let both = all.iter().filter(move |other| *other != one);
        both.flat_map(move |other| {
            let there = (one.clone(), other.clone());
            // The other way is a pair of the other one's, if that is new too.
            let back = others.contains(other).then(|| (other.clone(), one.clone()));
            [Some(there), back].into_iter().flatten()
        })
    })
}
