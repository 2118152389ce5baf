//! How many reasons each node has for each network, and who keeps one for a while without any.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Change, Need, Scope};
use crate::network::name::{NetworkName, NodeName};

/// Networks with their nodes.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    grace: SignedDuration,
    /// Nodes that exist.
    nodes: BTreeSet<NodeName>,
    networks: BTreeMap<NetworkName, Network>,
    /// Networks that are needed or kept on a node, by node.
    on: BTreeMap<NodeName, BTreeSet<NetworkName>>,
    /// Networks that are on every node.
    everywhere: BTreeSet<NetworkName>,
    /// What ends when, first to end first.
    deadlines: BTreeSet<(Timestamp, NetworkName, NodeName)>,
}

#[derive(Clone, Debug, Default)]
struct Network {
    /// How many NADs it has.
    nads: usize,
    /// How many of them want it on every node.
    everywhere: usize,
    uses: BTreeMap<NodeName, Use>,
}

/// What a node has to do with a network that is not everywhere.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// It has so many reasons to need it, at least one.
    Needed(usize),
    /// It has none any more.
    Lingering(Timestamp),
}

/// What was looked at during an event, as it was before.
#[derive(Debug, Default)]
pub(super) struct Touched(BTreeMap<(NetworkName, NodeName), Need>);

impl Ledger {
    pub(super) fn new(grace: SignedDuration) -> Self {
        Self {
            grace,
            nodes: BTreeSet::new(),
            networks: BTreeMap::new(),
            on: BTreeMap::new(),
            everywhere: BTreeSet::new(),
            deadlines: BTreeSet::new(),
        }
    }

    pub(super) fn need(&self, network: &NetworkName, node: &NodeName) -> Need {
        if self.everywhere.contains(network) {
            return if self.nodes.contains(node) { Need::Active } else { Need::Idle };
        }
        match self.networks.get(network).and_then(|network| network.uses.get(node)) {
            None => Need::Idle,
            Some(Use::Needed(_)) => Need::Active,
            Some(Use::Lingering(until)) => Need::Lingering { until: *until },
        }
    }

    pub(super) fn nodes_of(&self, network: &NetworkName, wanted: impl Fn(Need) -> bool) -> Vec<NodeName> {
        if self.everywhere.contains(network) {
            return self.nodes.iter().cloned().collect();
        }
        let uses = self.networks.get(network).into_iter().flat_map(|network| network.uses.keys());
        let there = uses.filter(|node| self.nodes.contains(*node) && wanted(self.need(network, node)));
        there.cloned().collect()
    }

    pub(super) fn rendered(&self, network: &NetworkName) -> usize {
        if self.everywhere.contains(network) {
            return self.nodes.len();
        }
        let uses = self.networks.get(network).into_iter().flat_map(|network| network.uses.values());
        uses.filter(|used| matches!(used, Use::Needed(_))).count()
    }

    pub(super) fn networks_on(&self, node: &NodeName) -> Vec<NetworkName> {
        if !self.nodes.contains(node) {
            return Vec::new();
        }
        let own = self.on.get(node).into_iter().flatten();
        self.everywhere.union(&own.cloned().collect()).cloned().collect()
    }

    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(until, _, _)| *until)
    }

    /// What has become something else than it was before.
    pub(super) fn changes(&self, touched: Touched) -> Vec<Change> {
        let changes = touched.0.into_iter().map(|((network, node), from)| {
            let to = self.need(&network, &node);
            Change { network, node, from, to }
        });
        changes.filter(|change| change.from != change.to).collect()
    }

    fn touch(&self, network: &NetworkName, node: &NodeName, touched: &mut Touched) {
        touched.0.entry((network.clone(), node.clone())).or_insert_with(|| self.need(network, node));
    }

    pub(super) fn add_node(&mut self, node: &NodeName) {
        self.nodes.insert(node.clone());
    }

    pub(super) fn remove_node(&mut self, node: &NodeName, touched: &mut Touched) {
        let networks: Vec<NetworkName> = self.on.get(node).into_iter().flatten().cloned().collect();
        for network in networks {
            // Not what it needs: that would hide what lingers behind a network that is everywhere for now.
            let used = self.networks.get(&network).and_then(|network| network.uses.get(node));
            if matches!(used, Some(Use::Lingering(_))) {
                self.touch(&network, node, touched);
                self.end(&network, node);
            }
        }
        self.nodes.remove(node);
    }

    /// Whether a network has a NAD.
    pub(super) fn knows(&self, name: &NetworkName) -> bool {
        self.networks.contains_key(name)
    }

    /// A network has one more NAD.
    pub(super) fn add_nad(&mut self, name: &NetworkName, scope: Scope, touched: &mut Touched) {
        if scope == Scope::Everywhere && !self.everywhere.contains(name) {
            self.touch_every_node(name, touched);
            self.everywhere.insert(name.clone());
        }
        let network = self.networks.entry(name.clone()).or_default();
        network.nads += 1;
        network.everywhere += usize::from(scope == Scope::Everywhere);
    }

    /// A network has one NAD less; without any it ends at once.
    pub(super) fn remove_nad(&mut self, name: &NetworkName, scope: Scope, touched: &mut Touched) {
        let Some(network) = self.networks.get_mut(name) else { return };
        network.nads -= 1;
        network.everywhere -= usize::from(scope == Scope::Everywhere);
        let (ends, everywhere) = (network.nads == 0, network.everywhere > 0);
        if !everywhere && self.everywhere.contains(name) {
            self.touch_every_node(name, touched);
            self.everywhere.remove(name);
        }
        if ends {
            let nodes: Vec<NodeName> = self
                .networks
                .get(name)
                .into_iter()
                .flat_map(|network| network.uses.keys())
                .cloned()
                .collect();
            for node in nodes {
                self.touch(name, &node, touched);
                self.end(name, &node);
            }
            self.networks.remove(name);
        }
    }

    /// Also those that are away: they have nothing to do with a network that is everywhere.
    fn touch_every_node(&self, name: &NetworkName, touched: &mut Touched) {
        let uses = self.networks.get(name).into_iter().flat_map(|network| network.uses.keys());
        for node in self.nodes.iter().chain(uses) {
            self.touch(name, node, touched);
        }
    }

    /// A node has one more reason for a network.
    pub(super) fn add(&mut self, name: &NetworkName, node: &NodeName, touched: &mut Touched) {
        self.touch(name, node, touched);
        let Some(network) = self.networks.get_mut(name) else { return };
        let now = match network.uses.get(node).copied() {
            Some(Use::Needed(reasons)) => Use::Needed(reasons + 1),
            Some(Use::Lingering(until)) => {
                self.deadlines.remove(&(until, name.clone(), node.clone()));
                Use::Needed(1)
            }
            None => Use::Needed(1),
        };
        network.uses.insert(node.clone(), now);
        self.on.entry(node.clone()).or_default().insert(name.clone());
    }

    /// A node has one reason less for a network.
    pub(super) fn remove(
        &mut self,
        name: &NetworkName,
        node: &NodeName,
        now: Timestamp,
        touched: &mut Touched,
    ) {
        self.touch(name, node, touched);
        let Some(network) = self.networks.get_mut(name) else { return };
        match network.uses.get(node).copied() {
            Some(Use::Needed(reasons)) if reasons > 1 => {
                network.uses.insert(node.clone(), Use::Needed(reasons - 1));
            }
            Some(Use::Needed(_)) => {
                self.end(name, node);
                self.linger(name, node, now);
            }
            Some(Use::Lingering(_)) | None => {}
        }
    }

    /// Nobody keeps a network for a while.
    pub(super) fn end_lingering(&mut self, name: &NetworkName) {
        let uses = self.networks.get(name).into_iter().flat_map(|network| &network.uses);
        let lingering = uses.filter(|(_, found)| matches!(found, Use::Lingering(_)));
        let nodes: Vec<NodeName> = lingering.map(|(node, _)| node.clone()).collect();
        for node in nodes {
            self.end(name, &node);
        }
    }

    /// A node that has no reason for a network is found to have it.
    pub(super) fn found(
        &mut self,
        name: &NetworkName,
        node: &NodeName,
        now: Timestamp,
        touched: &mut Touched,
    ) {
        if self.need(name, node) == Need::Idle {
            self.touch(name, node, touched);
            self.linger(name, node, now);
        }
    }

    /// A Node that is there keeps a network for the grace period.
    fn linger(&mut self, name: &NetworkName, node: &NodeName, now: Timestamp) {
        if !self.grace.is_positive() || !self.nodes.contains(node) {
            return;
        }
        let Some(network) = self.networks.get_mut(name) else { return };
        let until = now.checked_add(self.grace).unwrap_or(Timestamp::MAX);
        network.uses.insert(node.clone(), Use::Lingering(until));
        self.on.entry(node.clone()).or_default().insert(name.clone());
        self.deadlines.insert((until, name.clone(), node.clone()));
    }

    pub(super) fn expire(&mut self, now: Timestamp, touched: &mut Touched) {
        while let Some((until, network, node)) = self.deadlines.first().cloned() {
            if until > now {
                break;
            }
            self.touch(&network, &node, touched);
            self.end(&network, &node);
        }
    }

    /// A node has nothing to do with a network any more.
    fn end(&mut self, name: &NetworkName, node: &NodeName) {
        let used = self.networks.get_mut(name).and_then(|network| network.uses.remove(node));
        if let Some(Use::Lingering(until)) = used {
            self.deadlines.remove(&(until, name.clone(), node.clone()));
        }
        if let Some(networks) = self.on.get_mut(node) {
            networks.remove(name);
            if networks.is_empty() {
                self.on.remove(node);
            }
        }
    }
}
