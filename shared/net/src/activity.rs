//! Which node needs which network, where networks are only on nodes that need them.
//!
//! In: NADs, scheduled pods, connections of networks, Nodes and the time, one change at a time. Out: what that changed ([`Change`]), who is active
//! for a network, what is active on a node, when to look next. A node that stops needing a network keeps it for a grace
//! period, so that a pod that restarts finds it.
//!
//! One pod's change costs what changed, not what there is: a pod is a wish for the primary network of its namespace and
//! for the NADs that it names, wishes are counted per node, and only the first and the last of a kind reach a network.
//!
//! Never takes a network away that a Node which is gone still has pods for: when the Node is back, they are there.
//! Source: ovn-kubernetes `networkmanager` pod tracker and dynamic UDN allocation.

mod connections;
mod ledger;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::nad::Config;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::network::name::{NadKey, Namespace, NetworkName, NodeName, PodKey};

use self::connections::Connections;
use self::ledger::{Ledger, Touched};
pub use self::selection::{BadSelection, attachments};

/// Where networks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On every node.
    Everywhere,
    /// Those that belong to a UserDefinedNetwork or ClusterUserDefinedNetwork only where they are needed.
    OnDemand {
        /// How long a node keeps a network that it does not need any more.
        grace: SignedDuration,
    },
}

/// What a node has to do with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It needs it.
    Active,
    /// It does not need it any more, and keeps it until then.
    Lingering {
        /// Until then.
        until: Timestamp,
    },
    /// Nothing.
    Idle,
}

/// A node that has something else to do with a network than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The network.
    pub network: NetworkName,
    /// The node.
    pub node: NodeName,
    /// What it was.
    pub from: Need,
    /// What it is.
    pub to: Need,
}

/// A pod as far as it needs networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The node that it is on, once it is.
    pub node: Option<NodeName>,
    /// Whether it needs anything any more.
    pub life: Life,
    /// Whose network namespace it has.
    pub netns: Netns,
    /// The NADs that its annotation names.
    pub attachments: Vec<NadKey>,
}

/// Whether a pod needs networks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does: also a terminating one, until it has come to an end.
    Running,
    /// It succeeded or failed.
    Finished,
}

/// Whose network namespace a pod has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Netns {
    /// Its own.
    Own,
    /// The node's: the pod needs no network, unless it names some.
    Hosts,
}

/// A NAD of a network of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nad {
    /// Its network.
    pub network: NetworkName,
    /// Whether every pod of its namespace needs it.
    pub kind: Kind,
    /// Where its network has to be.
    pub scope: Scope,
}

/// Which pods need a NAD's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every pod of the namespace.
    Primary,
    /// Those that name it.
    Secondary,
}

/// Where a NAD's network has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// On nodes that need it: the NAD is controlled by a UserDefinedNetwork or ClusterUserDefinedNetwork.
    OnDemand,
    /// On every node: somebody wrote the NAD by hand, or it is the default network's.
    Everywhere,
}

impl Life {
    /// Of a pod in this phase.
    #[must_use]
    pub fn of(phase: Option<&str>) -> Self {
        if matches!(phase, Some("Succeeded" | "Failed")) { Self::Finished } else { Self::Running }
    }
}

impl Kind {
    /// Of the NAD with this config.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        if config.is_primary() { Self::Primary } else { Self::Secondary }
    }
}

impl Scope {
    /// Of a NAD with these owners.
    #[must_use]
    pub fn of(owners: &[OwnerReference]) -> Self {
        let kinds = ["UserDefinedNetwork", "ClusterUserDefinedNetwork"];
        let ours =
            |owner: &OwnerReference| owner.controller == Some(true) && kinds.contains(&owner.kind.as_str());
        if owners.iter().any(ours) { Self::OnDemand } else { Self::Everywhere }
    }
}

/// Who needs what where.
#[derive(Clone, Debug)]
pub struct Activity {
    mode: Mode,
    nads: BTreeMap<NadKey, Nad>,
    primaries: BTreeMap<Namespace, BTreeSet<NadKey>>,
    /// What each source wishes for, to take it back when the source changes.
    sources: BTreeMap<Source, BTreeSet<(NodeName, Wish)>>,
    wishes: BTreeMap<Wish, BTreeMap<NodeName, usize>>,
    connections: Connections,
    ledger: Ledger,
}

/// What makes a node need networks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Pod(PodKey),
    EgressIp(Arc<str>),
}

/// What a source needs on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    /// The primary network of a namespace, whichever that is and once there is one.
    PrimaryOf(Namespace),
    /// The network of a NAD, once there is one.
    Nad(NadKey),
}

impl Activity {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let grace = match mode {
            Mode::Everywhere => SignedDuration::ZERO,
            Mode::OnDemand { grace } => grace,
        };
        Self {
            mode,
            nads: BTreeMap::new(),
            primaries: BTreeMap::new(),
            sources: BTreeMap::new(),
            wishes: BTreeMap::new(),
            connections: Connections::default(),
            ledger: Ledger::new(grace),
        }
    }

    /// A pod is there, or has changed.
    pub fn set_pod(&mut self, key: &PodKey, pod: &Pod, now: Timestamp) -> Vec<Change> {
        self.set_source(Source::Pod(key.clone()), wishes_of(key, pod), now)
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, key: &PodKey, now: Timestamp) -> Vec<Change> {
        self.set_source(Source::Pod(key.clone()), BTreeSet::new(), now)
    }

    /// An EgressIP is assigned to nodes, for pods of namespaces.
    pub fn set_egress_ip(
        &mut self,
        name: &str,
        nodes: &BTreeSet<NodeName>,
        namespaces: &BTreeSet<Namespace>,
        now: Timestamp,
    ) -> Vec<Change> {
        let wishes = nodes.iter().flat_map(|node| {
            namespaces.iter().map(move |namespace| (node.clone(), Wish::PrimaryOf(namespace.clone())))
        });
        self.set_source(Source::EgressIp(name.into()), wishes.collect(), now)
    }

    /// An EgressIP is gone.
    pub fn remove_egress_ip(&mut self, name: &str, now: Timestamp) -> Vec<Change> {
        self.set_source(Source::EgressIp(name.into()), BTreeSet::new(), now)
    }

    /// A connection connects these networks, and no others; none for one that is gone.
    pub fn connect(&mut self, name: &str, networks: &BTreeSet<NetworkName>, now: Timestamp) -> Vec<Change> {
        let (added, removed) = self.connections.connect(name, networks);
        let mut touched = Touched::default();
        // New ones first: what both need does not even begin to linger.
        for (from, to) in &added {
            for node in self.connections.own_nodes(from) {
                self.ledger.add(to, &node, &mut touched);
            }
        }
        for (from, to) in &removed {
            for node in self.connections.own_nodes(from) {
                self.ledger.remove(to, &node, now, &mut touched);
            }
        }
        self.ledger.changes(touched)
    }

    /// A NAD is there, or has changed. Of two primary ones in a namespace, which cannot be, both count.
    pub fn set_nad(&mut self, key: &NadKey, nad: &Nad, now: Timestamp) -> Vec<Change> {
        if self.nads.get(key) == Some(nad) {
            return Vec::new();
        }
        let mut touched = Touched::default();
        let nad = match self.mode {
            Mode::OnDemand { .. } => nad.clone(),
            Mode::Everywhere => Nad { scope: Scope::Everywhere, ..nad.clone() },
        };
        // The new one first: what both need does not even begin to linger.
        let is_new = !self.ledger.knows(&nad.network);
        self.ledger.add_nad(&nad.network, nad.scope, &mut touched);
        if is_new {
            for node in self.connections.because_of_others(&nad.network) {
                self.ledger.add(&nad.network, &node, &mut touched);
            }
        }
        for node in self.wishers(key, nad.kind) {
            self.gain(&nad.network, &node, &mut touched);
        }
        self.withdraw(key, now, &mut touched);
        if is_new {
            // It may be connected with the network that this NAD was of until now: what never was cannot linger.
            self.ledger.end_lingering(&nad.network);
        }
        if nad.kind == Kind::Primary {
            self.primaries.entry(key.namespace().clone()).or_default().insert(key.clone());
        }
        self.nads.insert(key.clone(), nad);
        self.ledger.changes(touched)
    }

    /// A NAD is gone. With the last one its network ends, on lingering nodes too.
    pub fn remove_nad(&mut self, key: &NadKey, now: Timestamp) -> Vec<Change> {
        let mut touched = Touched::default();
        self.withdraw(key, now, &mut touched);
        self.ledger.changes(touched)
    }

    /// A Node is there.
    ///
    /// Nothing that it needs is told as a change: whoever hears of a new Node asks [`Self::networks_on`].
    pub fn add_node(&mut self, node: &NodeName) {
        self.ledger.add_node(node);
    }

    /// A Node is gone. What it kept for a while it has lost; what its pods need it needs again when it is back.
    pub fn remove_node(&mut self, node: &NodeName) -> Vec<Change> {
        let mut touched = Touched::default();
        self.ledger.remove_node(node, &mut touched);
        self.ledger.changes(touched)
    }

    /// A node was found to have a network that it does not need: it keeps it for a grace period from now on. For a
    /// start, as nobody knows for how long it has not needed it.
    pub fn found(&mut self, network: &NetworkName, node: &NodeName, now: Timestamp) -> Vec<Change> {
        let mut touched = Touched::default();
        self.ledger.found(network, node, now, &mut touched);
        self.ledger.changes(touched)
    }

    /// Time has passed: what lingered for long enough ends.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Change> {
        let mut touched = Touched::default();
        self.ledger.expire(now, &mut touched);
        self.ledger.changes(touched)
    }

    /// When [`Self::expire`] has something to do.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.ledger.next_expiry()
    }

    /// What a node has to do with a network.
    #[must_use]
    pub fn need(&self, network: &NetworkName, node: &NodeName) -> Need {
        self.ledger.need(network, node)
    }

    /// The Nodes that need a network.
    #[must_use]
    pub fn active_nodes(&self, network: &NetworkName) -> Vec<NodeName> {
        self.ledger.nodes_of(network, |need| need == Need::Active)
    }

    /// The Nodes that need a network or keep it for a while: those that have a subnet of it.
    #[must_use]
    pub fn holding_nodes(&self, network: &NetworkName) -> Vec<NodeName> {
        self.ledger.nodes_of(network, |need| need != Need::Idle)
    }

    /// On how many nodes a network is: those that need it, also those whose Node object is away for the moment, as
    /// upstream counts them.
    #[must_use]
    pub fn rendered(&self, network: &NetworkName) -> usize {
        self.ledger.rendered(network)
    }

    /// The networks that a Node needs or keeps for a while.
    #[must_use]
    pub fn networks_on(&self, node: &NodeName) -> Vec<NetworkName> {
        self.ledger.networks_on(node)
    }

    /// Makes `wishes` what a source needs.
    fn set_source(
        &mut self,
        source: Source,
        wishes: BTreeSet<(NodeName, Wish)>,
        now: Timestamp,
    ) -> Vec<Change> {
        if self.mode == Mode::Everywhere {
            return Vec::new();
        }
        let before = self.sources.remove(&source).unwrap_or_default();
        let mut touched = Touched::default();
        // New ones first: what both need does not even begin to linger.
        for (node, wish) in wishes.difference(&before) {
            self.wish(node, wish, &mut touched);
        }
        for (node, wish) in before.difference(&wishes) {
            self.unwish(node, wish, now, &mut touched);
        }
        if !wishes.is_empty() {
            self.sources.insert(source, wishes);
        }
        self.ledger.changes(touched)
    }

    fn wish(&mut self, node: &NodeName, wish: &Wish, touched: &mut Touched) {
        let count = self.wishes.entry(wish.clone()).or_default().entry(node.clone()).or_default();
        *count += 1;
        if *count == 1 {
            for network in self.networks_of(wish) {
                self.gain(&network, node, touched);
            }
        }
    }

    fn unwish(&mut self, node: &NodeName, wish: &Wish, now: Timestamp, touched: &mut Touched) {
        let Some(nodes) = self.wishes.get_mut(wish) else { return };
        let Some(count) = nodes.get_mut(node) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        nodes.remove(node);
        if nodes.is_empty() {
            self.wishes.remove(wish);
        }
        for network in self.networks_of(wish) {
            self.lose(&network, node, now, touched);
        }
    }

    /// A node has one more reason of its own for a network, and so for those that are connected with it.
    fn gain(&mut self, network: &NetworkName, node: &NodeName, touched: &mut Touched) {
        self.ledger.add(network, node, touched);
        for peer in self.connections.gain(network, node) {
            self.ledger.add(&peer, node, touched);
        }
    }

    /// A node has one reason of its own less.
    fn lose(&mut self, network: &NetworkName, node: &NodeName, now: Timestamp, touched: &mut Touched) {
        self.ledger.remove(network, node, now, touched);
        for peer in self.connections.lose(network, node) {
            self.ledger.remove(&peer, node, now, touched);
        }
    }

    /// The networks that a wish is for, one for each NAD that meets it.
    fn networks_of(&self, wish: &Wish) -> Vec<NetworkName> {
        let network = |key: &NadKey| self.nads.get(key).map(|nad| nad.network.clone());
        match wish {
            Wish::Nad(key) => network(key).into_iter().collect(),
            Wish::PrimaryOf(namespace) => {
                self.primaries.get(namespace).into_iter().flatten().filter_map(network).collect()
            }
        }
    }

    /// The nodes on which somebody wishes for a NAD, once for each kind of wish.
    fn wishers(&self, key: &NadKey, kind: Kind) -> Vec<NodeName> {
        let named = Some(Wish::Nad(key.clone()));
        let primary = (kind == Kind::Primary).then(|| Wish::PrimaryOf(key.namespace().clone()));
        let wishes = [named, primary].into_iter().flatten();
        wishes.flat_map(|wish| self.wishes.get(&wish).into_iter().flat_map(BTreeMap::keys).cloned()).collect()
    }

    /// Takes a NAD out, with everything that follows from it.
    fn withdraw(&mut self, key: &NadKey, now: Timestamp, touched: &mut Touched) {
        let Some(nad) = self.nads.remove(key) else { return };
        for node in self.wishers(key, nad.kind) {
            self.lose(&nad.network, &node, now, touched);
        }
        self.ledger.remove_nad(&nad.network, nad.scope, touched);
        if nad.kind == Kind::Primary
            && let Some(keys) = self.primaries.get_mut(key.namespace())
        {
            keys.remove(key);
            if keys.is_empty() {
                self.primaries.remove(key.namespace());
            }
        }
    }
}

/// What a pod needs on its node. Upstream counts a pod in the host's network at start and not later; here it never counts
/// unless it names networks.
fn wishes_of(key: &PodKey, pod: &Pod) -> BTreeSet<(NodeName, Wish)> {
    let Some(node) = &pod.node else { return BTreeSet::new() };
    let needs_none = pod.netns == Netns::Hosts && pod.attachments.is_empty();
    if pod.life == Life::Finished || needs_none {
        return BTreeSet::new();
    }
    let primary = std::iter::once(Wish::PrimaryOf(key.namespace().clone()));
    primary.chain(pod.attachments.iter().cloned().map(Wish::Nad)).map(|wish| (node.clone(), wish)).collect()
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
