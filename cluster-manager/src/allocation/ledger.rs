//! Who has which id, tunnel key and subnet. Pure: what comes in is what was observed, what goes out is what should be.
//!
//! The ledger keeps nothing that cannot be had again: [`Ledger::rebuild`] makes it from annotations, and from then on it
//! follows changes. What it hands out is promised from that moment, whether the write that carries it succeeds or not, so a
//! failed write costs nothing and two passes never get the same.
//!
//! A change of one network costs what that network has; a look at a node whose annotation is as it was left costs only
//! what changed since.

mod networks;
mod nodes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_api::annotation::{NodeSubnetsText, network as nad_annotation, node as node_annotation};
use causeway_api::nad::{Config, Defaults};
use causeway_net::activity::{self, Activity, Mode, Need};
use causeway_net::ipam::ids::{NetworkIds, NodeIds, SecondKeys};
use causeway_net::ipam::nodes::{Family, HostRange, NodeSubnets, Setup};
use causeway_net::network::duty::Duty;
use causeway_net::network::id::{NetworkId, NodeId};
use causeway_net::network::name::{NadKey, Namespace, NetworkName, NodeName, PodKey};
use causeway_net::network::tunnel_key::{TunnelKey, TunnelKeys};
use causeway_net::network_condition::allocation_succeeded;
use causeway_net::selector::Selector;
use causeway_runtime::watch::NamespacedName;
use ipnet::{Ipv4Net, Ipv6Net};
use jiff::Timestamp;

use super::connect::ConnectName;
use super::egress::{EgressIpName, Needs};
use super::metrics::Figures;
use crate::observed::nad::Nad;
use crate::observed::place::Node;
use crate::observed::pod::Pod;

/// What the cluster gives to all networks.
#[derive(Clone, Debug)]
pub(crate) struct ClusterPlan {
    /// Pod subnets of the default network.
    pub(crate) ranges: Vec<HostRange>,
    /// Subnets of the ports that join the nodes' parts of the default network.
    pub(crate) transit: (Ipv4Net, Ipv6Net),
    /// What network configs mean where they say nothing.
    pub(crate) defaults: Defaults,
    /// Where networks are.
    pub(crate) mode: Mode,
    /// Nodes that get no subnet of any network.
    pub(crate) without_subnets: Option<Selector>,
}

/// The numbers of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    id: NetworkId,
    keys: TunnelKeys,
}

/// All that is known of who has what.
#[derive(Debug)]
pub(super) struct Ledger {
    plan: ClusterPlan,
    network_ids: NetworkIds,
    second_keys: SecondKeys,
    node_ids: NodeIds,
    networks: BTreeMap<NetworkName, Network>,
    /// The network that each NetworkAttachmentDefinition is of.
    joined: HashMap<NadKey, NetworkName>,
    /// The network that each one is to come back to.
    awaited: HashMap<NadKey, NetworkName>,
    /// Those of primary networks, by namespace.
    primaries: HashMap<Namespace, BTreeSet<NadKey>>,
    nodes: BTreeMap<NodeName, NodeEntry>,
    activity: Activity,
    /// Who was refused for want of numbers.
    starved: BTreeSet<Starved>,
    /// Whether numbers have become free since somebody asked for that.
    freed: bool,
}

/// One network.
#[derive(Debug)]
struct Network {
    config: Arc<Config>,
    nads: BTreeSet<NadKey>,
    /// Those of them that say something else by now. Once all do, that is what the network is.
    astray: BTreeSet<NadKey>,
    /// Those that are gone and are being made again.
    expected: BTreeSet<NadKey>,
    pool: Pool,
    /// Nodes that did not get what they need, and why.
    problems: BTreeMap<NodeName, String>,
    /// Those of them that nobody was told of yet.
    unannounced: BTreeSet<NodeName>,
    /// The one of them that people were told of.
    named: Option<NodeName>,
}

/// Where the subnets of nodes come from.
#[derive(Debug)]
enum Pool {
    /// The network gives nodes no subnets.
    None,
    /// From here.
    Of(Box<NodeSubnets>),
    /// From nowhere, because the ranges do not fit together.
    Bad(String),
}

/// One node.
#[derive(Debug, Default)]
struct NodeEntry {
    /// Its subnets by network, as they should be annotated.
    subnets: NodeSubnetsText,
    /// The annotation that `subnets` rest on, or that was made of them.
    text: Option<String>,
    /// Why its annotation cannot be read; it is left alone then.
    unreadable: Option<String>,
    /// Networks to look at again.
    dirty: BTreeSet<NetworkName>,
    /// Whether the annotation was read once.
    read: bool,
    /// Whether it gets no subnets: another network stack looks after it.
    exempt: bool,
}

/// What became of a NetworkAttachmentDefinition that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It is of a network.
    Of {
        /// Numbers of the network.
        identity: Identity,
        /// Name of the network.
        network: NetworkName,
    },
    /// It is of a network whose others do not say the same yet: nothing changes until they do.
    Pending,
    /// It cannot be of the network that it names.
    Refused(Refusal),
}

/// Who was refused for want of numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Starved {
    /// A NetworkAttachmentDefinition that exists.
    Nad(NadKey),
    /// A network that is about to be made.
    Network(NetworkName),
}

/// What a change stirs up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stir {
    /// Nodes to look at.
    pub(super) nodes: BTreeSet<NodeName>,
    /// Networks that are on other nodes than before, or fare otherwise.
    pub(super) networks: BTreeSet<NetworkName>,
}

impl Stir {
    fn merge(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
        self.networks.extend(other.networks);
    }
}

/// Why a NetworkAttachmentDefinition is of no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Others say something else about the network.
    #[error("NAD {nad} CNI config does not match that of network {network}: {differences}")]
    Mismatch {
        /// Which.
        nad: NadKey,
        /// The network.
        network: NetworkName,
        /// Keys of the config that differ.
        differences: String,
    },
    /// Its namespace has another primary network.
    #[error("NAD {primary} is primary for the namespace, NAD {nad} can't be primary")]
    SecondPrimary {
        /// Which.
        nad: NadKey,
        /// The one that is primary.
        primary: NadKey,
    },
    /// No numbers are left.
    #[error("{0}")]
    Exhausted(String),
}

impl Refusal {
    /// Whether another network is the primary one.
    pub(super) const fn is_second_primary(&self) -> bool {
        matches!(self, Self::SecondPrimary { .. })
    }
}

/// What a node should be annotated with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeVerdict {
    /// Annotations that have to change; none to remove one.
    pub(super) changes: BTreeMap<&'static str, Option<String>>,
    /// Networks whose account of failing nodes changed.
    pub(super) told: BTreeSet<NetworkName>,
    /// Other nodes to look at, because something is free for them now.
    pub(super) woken: BTreeSet<NodeName>,
    /// Failures that are new, by network.
    pub(super) failures: Vec<(NetworkName, String)>,
}

/// How a network fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fare {
    /// Nothing is given out for it.
    NotManaged,
    /// Every node has what it needs.
    Well,
    /// This node, or nobody in particular, has not.
    Badly(Option<NodeName>, String),
}

impl Network {
    fn new(config: Arc<Config>, pool: Pool) -> Self {
        let (nads, astray, expected, problems) = Default::default();
        let unannounced = BTreeSet::new();
        Self { config, nads, astray, expected, pool, problems, unannounced, named: None }
    }
}

impl Identity {
    /// The annotations that carry it.
    pub(crate) fn annotations(self, network: &NetworkName) -> [(String, String); 3] {
        [
            (nad_annotation::NETWORK_NAME.to_owned(), network.as_str().to_owned()),
            (
                nad_annotation::NETWORK_ID.to_owned(),
                nad_annotation::render_network_id(u32::from(self.id.get())),
            ),
            (
                nad_annotation::TUNNEL_KEYS.to_owned(),
                nad_annotation::render_tunnel_keys(&self.keys.annotated()),
            ),
        ]
    }
}

/// What a NetworkAttachmentDefinition is annotated with; what cannot be read counts as absent.
#[derive(Clone, Copy)]
struct Annotated {
    id: Option<NetworkId>,
    second: Option<TunnelKey>,
}

impl Annotated {
    /// Whether the definition was given the id of the network that it names now.
    fn is_member(nad: &Nad) -> bool {
        let named = nad.annotations.get(nad_annotation::NETWORK_NAME);
        let config = nad.config().map(|config| config.name.as_str());
        Self::of(nad).id.is_some() && named.is_none_or(|named| Some(named.as_str()) == config)
    }

    fn of(nad: &Nad) -> Self {
        let text = |key: &str| nad.annotations.get(key);
        let id = text(nad_annotation::NETWORK_ID)
            .and_then(|text| nad_annotation::read_network_id(text).ok())
            .and_then(|id| NetworkId::try_from(id).ok());
        let keys =
            text(nad_annotation::TUNNEL_KEYS).and_then(|text| nad_annotation::read_tunnel_keys(text).ok());
        let second = id.zip(keys).and_then(|(id, keys)| TunnelKeys::second_of(&keys, id).ok());
        Self { id, second }
    }
}

impl Ledger {
    /// A ledger in which nobody has anything.
    pub(super) fn new(plan: ClusterPlan) -> Self {
        let activity = Activity::new(plan.mode);
        Self {
            plan,
            network_ids: NetworkIds::new(),
            second_keys: SecondKeys::new(),
            node_ids: NodeIds::rebuild([]).0,
            networks: BTreeMap::new(),
            joined: HashMap::new(),
            awaited: HashMap::new(),
            primaries: HashMap::new(),
            nodes: BTreeMap::new(),
            activity,
            starved: BTreeSet::new(),
            freed: false,
        }
    }

    /// The ledger that annotations tell of: NetworkAttachmentDefinitions with an id of their network first, and of each group the older ones
    /// first, so that of two that claim one number the older keeps it.
    pub(super) fn rebuild(
        plan: ClusterPlan,
        nads: impl IntoIterator<Item = (NadKey, Arc<Nad>)>,
        nodes: impl IntoIterator<Item = (NodeName, Arc<Node>)>,
        pods: impl IntoIterator<Item = (NamespacedName, Arc<Pod>)>,
        egress_ips: impl IntoIterator<Item = (EgressIpName, Needs)>,
        connected: impl IntoIterator<Item = (ConnectName, BTreeSet<NetworkName>)>,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self::new(plan);
        let mut nodes: Vec<(NodeName, Arc<Node>)> = nodes.into_iter().collect();
        nodes.sort_by(|a, b| (a.1.created, &a.0).cmp(&(b.1.created, &b.0)));
        let claims: Vec<(&NodeName, NodeId)> = nodes
            .iter()
            .filter_map(|(name, node)| {
                let text = node.annotations.get(node_annotation::NODE_ID)?;
                let id = node_annotation::read_node_id(text).ok()?;
                Some((name, NodeId::try_from(id).ok()?))
            })
            .collect();
        ledger.node_ids = NodeIds::rebuild(claims).0;
        for (name, node) in &nodes {
            let exempt = ledger.is_exempt(node);
            ledger.nodes.insert(name.clone(), NodeEntry { exempt, ..NodeEntry::annotated(node) });
            ledger.activity.add_node(name);
        }
        ledger.networks.insert(NetworkName::default_network(), ledger.default_network());

        let mut nads: Vec<(NadKey, Arc<Nad>)> = nads.into_iter().collect();
        nads.sort_by(|a, b| {
            let rank = |key: &NadKey, nad: &Nad| (!Annotated::is_member(nad), nad.created, key.clone());
            rank(&a.0, &a.1).cmp(&rank(&b.0, &b.1))
        });
        let legacy = legacy_ids(&nodes);
        for (key, nad) in &nads {
            if let Some(config) = nad.config().filter(|config| !config.is_default_network()) {
                // A refusal is told when it is looked at.
                drop(ledger.join_with(key, nad, config, &legacy, now));
            }
        }
        for (key, pod) in pods {
            drop(ledger.pod(&key, Some(&pod), now));
        }
        for (name, needs) in egress_ips {
            drop(ledger.egress_ip(&name, &needs, now));
        }
        for (name, networks) in connected {
            drop(ledger.connect(&name, &networks, now));
        }
        ledger.keep_for_now(now);
        ledger.look_ahead(&nodes);
        ledger
    }

    /// Who lacks what is known from the beginning, so that nobody is told that all is well before a node was looked at. The
    /// first look at each node tells of it.
    fn look_ahead(&mut self, nodes: &[(NodeName, Arc<Node>)]) {
        for (name, node) in nodes {
            self.label(name, node);
        }
        for (name, node) in nodes {
            drop(self.node(name, &node.annotations));
        }
        for entry in self.nodes.values_mut() {
            entry.read = false;
        }
        for known in self.networks.values_mut() {
            known.unannounced = known.problems.keys().cloned().collect();
        }
    }

    /// Whether a node gets no subnets.
    fn is_exempt(&self, node: &Node) -> bool {
        self.plan.without_subnets.as_ref().is_some_and(|selector| selector.matches(&node.labels))
    }

    /// What nodes have and do not need they keep for a grace period: nobody knows since when they do not need it.
    fn keep_for_now(&mut self, now: Timestamp) {
        if self.plan.mode == Mode::Everywhere {
            return;
        }
        for (node, entry) in &self.nodes {
            for network in entry.subnets.networks().map(NetworkName::from) {
                if self.networks.contains_key(&network) && self.activity.need(&network, node) == Need::Idle {
                    drop(self.activity.found(&network, node, now));
                }
            }
        }
    }

    /// How many nodes there are.
    pub(super) fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The NetworkAttachmentDefinition that is the primary one of a namespace.
    pub(super) fn primary_in(&self, namespace: &Namespace) -> Option<NadKey> {
        self.primaries.get(namespace)?.first().cloned()
    }

    /// What the cluster gives to all networks.
    pub(super) const fn plan(&self) -> &ClusterPlan {
        &self.plan
    }

    fn default_network(&self) -> Network {
        let name = NetworkName::default_network();
        let config = Config { name: name.as_str().to_owned(), ..Config::default() };
        let pool = self.pool(&name, Ok(self.plan.ranges.clone()));
        Network::new(Arc::new(config), pool)
    }

    /// A pool in which every node keeps what it is annotated with.
    fn pool(&self, network: &NetworkName, ranges: Result<Vec<HostRange>, String>) -> Pool {
        let setup = ranges.and_then(|ranges| Setup::new(&ranges).map_err(|error| error.to_string()));
        match setup {
            Err(error) => Pool::Bad(error),
            Ok(setup) => {
                let annotated = self.nodes.iter().filter_map(|(node, entry)| {
                    entry.subnets.get(network.as_str()).map(|subnets| (node, subnets))
                });
                Pool::Of(Box::new(NodeSubnets::rebuild(network.clone(), setup, annotated)))
            }
        }
    }

    /// Marks what nodes have to look at again because they need more or less than before.
    fn stir(&mut self, changes: &[activity::Change]) -> Stir {
        let mut stir = Stir::default();
        if self.plan.mode == Mode::Everywhere {
            return stir;
        }
        for change in changes {
            stir.networks.insert(change.network.clone());
            if let Some(entry) = self.nodes.get_mut(&change.node) {
                entry.dirty.insert(change.network.clone());
                stir.nodes.insert(change.node.clone());
            }
        }
        stir
    }

    /// Takes over that a pod is there, or is gone.
    pub(super) fn pod(&mut self, key: &NamespacedName, pod: Option<&Pod>, now: Timestamp) -> Stir {
        let key = PodKey::new(key.namespace.as_str(), &key.name);
        let changes = match pod {
            Some(pod) => self.activity.set_pod(&key, &pod.activity(), now),
            None => self.activity.remove_pod(&key, now),
        };
        self.stir(&changes)
    }

    /// Takes over what an EgressIP needs; nothing for one that is gone.
    pub(super) fn egress_ip(&mut self, name: &EgressIpName, needs: &Needs, now: Timestamp) -> Stir {
        let changes = if needs.nodes.is_empty() || needs.namespaces.is_empty() {
            self.activity.remove_egress_ip(name, now)
        } else {
            self.activity.set_egress_ip(name, &needs.nodes, &needs.namespaces, now)
        };
        self.stir(&changes)
    }

    /// Takes over which networks a ClusterNetworkConnect connects; none for one that is gone.
    pub(super) fn connect(
        &mut self,
        name: &ConnectName,
        networks: &BTreeSet<NetworkName>,
        now: Timestamp,
    ) -> Stir {
        let changes = self.activity.connect(name, networks, now);
        self.stir(&changes)
    }

    /// Takes over that time has passed.
    pub(super) fn expire(&mut self, now: Timestamp) -> Stir {
        let changes = self.activity.expire(now);
        self.stir(&changes)
    }

    /// When [`Self::expire`] has something to do.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.activity.next_expiry()
    }

    /// The nodes that need a network; none where networks are on all of them.
    pub(super) fn needed_on(&self, network: &NetworkName) -> Option<BTreeSet<NodeName>> {
        match self.plan.mode {
            Mode::Everywhere => None,
            Mode::OnDemand { .. } => Some(self.activity.active_nodes(network).into_iter().collect()),
        }
    }

    /// On how many nodes a network is; none where networks are on all of them.
    pub(super) fn rendered(&self, network: &NetworkName) -> Option<usize> {
        match self.plan.mode {
            Mode::Everywhere => None,
            Mode::OnDemand { .. } if !self.networks.contains_key(network) => None,
            Mode::OnDemand { .. } => Some(self.activity.rendered(network)),
        }
    }

    /// Whether a network is that of these NetworkAttachmentDefinitions; without any, whether one of its own is on its way back.
    /// Another network of the name, made by hand, may be what is known.
    pub(super) fn is_of(&self, network: &NetworkName, nads: &[NadKey]) -> bool {
        match self.networks.get(network) {
            Some(known) if nads.is_empty() => !known.expected.is_empty(),
            Some(known) => nads.iter().any(|nad| known.nads.contains(nad)),
            None => false,
        }
    }

    /// How a network fares. The node that people are told of stays the same until it recovers, also over a restart: `told` is
    /// what they read now.
    pub(super) fn fare(&mut self, network: &NetworkName, told: Option<&str>) -> Fare {
        let Some(known) = self.networks.get_mut(network) else { return Fare::NotManaged };
        if Duty::of(&known.config) == Duty::Nothing {
            return Fare::NotManaged;
        }
        if let Pool::Bad(error) = &known.pool {
            return Fare::Badly(None, error.clone());
        }
        let named = known.named.take().filter(|named| known.problems.contains_key(named));
        let is_told = |node: &&NodeName| told == Some(allocation_succeeded(Some(node)).message.as_str());
        let nodes = || known.problems.keys();
        known.named = named.or_else(|| nodes().find(is_told).or_else(|| nodes().next()).cloned());
        match &known.named {
            None => Fare::Well,
            Some(node) => {
                Fare::Badly(Some(node.clone()), known.problems.get(node).cloned().unwrap_or_default())
            }
        }
    }

    /// The figures of every network.
    pub(super) fn figures(&self) -> Vec<(NetworkName, Figures)> {
        let of = |(name, known): (&NetworkName, &Network)| {
            let subnets = match &known.pool {
                Pool::Of(pool) => Some([Family::V4, Family::V6].map(|family| {
                    let usage = pool.usage(family);
                    (usage.total, usage.allocated)
                })),
                Pool::None | Pool::Bad(_) => None,
            };
            (name.clone(), Figures { subnets, rendered: self.rendered(name) })
        };
        self.networks.iter().map(of).collect()
    }

    /// Whether a network has, or is about to get again, a NetworkAttachmentDefinition.
    pub(super) fn knows(&self, network: &NetworkName) -> bool {
        self.networks.contains_key(network)
    }

    /// Every network that has a NetworkAttachmentDefinition.
    #[cfg(test)]
    pub(super) fn network_names(&self) -> Vec<NetworkName> {
        self.networks.keys().filter(|name| !name.is_default()).cloned().collect()
    }
}

/// Ids of networks as old versions annotated nodes with them.
fn legacy_ids(nodes: &[(NodeName, Arc<Node>)]) -> BTreeMap<String, NetworkId> {
    let mut ids = BTreeMap::new();
    for (_, node) in nodes {
        let Some(text) = node.annotations.get(node_annotation::NETWORK_IDS) else { continue };
        let Ok(read) = node_annotation::read_network_ids(text) else { continue };
        for (network, id) in read.value {
            if let Ok(id) = NetworkId::try_from(id) {
                ids.entry(network).or_insert(id);
            }
        }
    }
    ids
}

/// The ranges of a Layer3 network.
fn ranges(config: &Config, defaults: &Defaults) -> Result<Vec<HostRange>, String> {
    let full = config.with_defaults(defaults);
    let range = |entry: &String| {
        let (network, length) = entry.rsplit_once('/')?;
        Some(HostRange { network: network.parse().ok()?, host_length: length.parse().ok()? })
    };
    full.subnets
        .iter()
        .map(|entry| range(entry).ok_or_else(|| format!("CIDR {entry:?} not properly formatted")))
        .collect()
}
