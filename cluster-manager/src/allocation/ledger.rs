//! Who has which id, tunnel key and subnet. Pure: what comes in is what was observed, what goes out is what should be.
//!
//! The ledger keeps nothing that cannot be had again: [`Ledger::rebuild`] makes it from annotations, and from then on it
//! follows changes. What it hands out is promised from that moment, whether the write that carries it succeeds or not, so a
//! failed write costs nothing and two passes never get the same.
//!
//! A change of one network costs what that network has; a look at a node whose annotation is as it was left costs only
//! what changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_api::annotation::{network as nad_annotation, node as node_annotation};
use causeway_api::nad::{Config, Defaults};
use causeway_api::network::Topology;
use causeway_net::activity::{self, Activity, Kind, Mode, Need, PodKey, Scope};
use causeway_net::ipam::ids::{NetworkIds, NodeIds, SecondKeys};
use causeway_net::ipam::nodes::{Families, Family, HostRange, NodeSubnets, Setup, Usage};
use causeway_net::network::id::{NetworkId, NodeId};
use causeway_net::network::name::{NadKey, Namespace, NetworkName, NodeName};
use causeway_net::network::tunnel_key::{TunnelKey, TunnelKeys};
use causeway_runtime::watch::NamespacedName;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use jiff::Timestamp;

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
    /// Those of primary networks, by namespace.
    primaries: HashMap<Namespace, BTreeSet<NadKey>>,
    nodes: BTreeMap<NodeName, NodeEntry>,
    activity: Activity,
}

/// One network.
#[derive(Debug)]
struct Network {
    config: Arc<Config>,
    nads: BTreeSet<NadKey>,
    /// Those that are gone and are being made again.
    expected: BTreeSet<NadKey>,
    pool: Pool,
    /// Nodes that did not get what they need, and why.
    problems: BTreeMap<NodeName, String>,
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
    subnets: BTreeMap<String, Vec<IpNet>>,
    /// The annotation that `subnets` rest on, or that was made of them.
    text: Option<String>,
    /// Why its annotation cannot be read; it is left alone then.
    unreadable: Option<String>,
    /// Networks to look at again.
    dirty: BTreeSet<NetworkName>,
    /// Whether the annotation was read once.
    read: bool,
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
        /// Nodes to look at because of it.
        woken: BTreeSet<NodeName>,
    },
    /// It cannot be of the network that it names.
    Refused(Refusal),
}

/// What a change of what nodes need stirs up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stir {
    /// Nodes to look at.
    pub(super) nodes: BTreeSet<NodeName>,
    /// Networks that are on other nodes than before.
    pub(super) networks: BTreeSet<NetworkName>,
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

/// What a node should be annotated with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeVerdict {
    /// Annotations that have to change; none to remove one.
    pub(super) changes: BTreeMap<&'static str, Option<String>>,
    /// Networks whose account of failing nodes changed.
    pub(super) told: BTreeSet<NetworkName>,
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
    fn new(config: Arc<Config>, nads: BTreeSet<NadKey>, pool: Pool) -> Self {
        let (expected, problems) = Default::default();
        Self { config, nads, expected, pool, problems, named: None }
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
struct Annotated {
    id: Option<NetworkId>,
    second: Option<TunnelKey>,
}

impl Annotated {
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
            primaries: HashMap::new(),
            nodes: BTreeMap::new(),
            activity,
        }
    }

    /// The ledger that annotations tell of: NetworkAttachmentDefinitions with an id first, and of each group the older ones
    /// first, so that of two that claim one number the older keeps it.
    pub(super) fn rebuild(
        plan: ClusterPlan,
        nads: impl IntoIterator<Item = (NadKey, Arc<Nad>)>,
        nodes: impl IntoIterator<Item = (NodeName, Arc<Node>)>,
        pods: impl IntoIterator<Item = (NamespacedName, Arc<Pod>)>,
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
            ledger.nodes.insert(name.clone(), NodeEntry::annotated(node));
            ledger.activity.add_node(name);
        }
        ledger.networks.insert(NetworkName::default_network(), ledger.default_network());

        let mut nads: Vec<(NadKey, Arc<Nad>)> = nads.into_iter().collect();
        nads.sort_by(|a, b| {
            let rank = |key: &NadKey, nad: &Nad| (Annotated::of(nad).id.is_none(), nad.created, key.clone());
            rank(&a.0, &a.1).cmp(&rank(&b.0, &b.1))
        });
        let legacy = legacy_ids(&nodes);
        for (key, nad) in &nads {
            if let Some(config) = nad.config() {
                // A refusal is told when it is looked at.
                drop(ledger.join_with(key, nad, config, &legacy, now));
            }
        }
        for (key, pod) in pods {
            drop(ledger.pod(&key, Some(&pod), now));
        }
        ledger.keep_for_now(now);
        ledger
    }

    /// What nodes have and do not need they keep for a grace period: nobody knows since when they do not need it.
    fn keep_for_now(&mut self, now: Timestamp) {
        if self.plan.mode == Mode::Everywhere {
            return;
        }
        for (node, entry) in &self.nodes {
            for network in entry.subnets.keys().map(|network| NetworkName::from(network.as_str())) {
                if self.networks.contains_key(&network) && self.activity.need(&network, node) == Need::Idle {
                    drop(self.activity.found(&network, node, now));
                }
            }
        }
    }

    /// What the cluster gives to all networks.
    pub(super) const fn plan(&self) -> &ClusterPlan {
        &self.plan
    }

    fn default_network(&self) -> Network {
        let name = NetworkName::default_network();
        let config = Config { name: name.as_str().to_owned(), ..Config::default() };
        let pool = self.pool(&name, Ok(self.plan.ranges.clone()));
        Network::new(Arc::new(config), BTreeSet::new(), pool)
    }

    /// A pool in which every node keeps what it is annotated with.
    fn pool(&self, network: &NetworkName, ranges: Result<Vec<HostRange>, String>) -> Pool {
        let setup = ranges.and_then(|ranges| Setup::new(&ranges).map_err(|error| error.to_string()));
        match setup {
            Err(error) => Pool::Bad(error),
            Ok(setup) => {
                let annotated = self.nodes.iter().filter_map(|(node, entry)| {
                    entry.subnets.get(network.as_str()).map(|subnets| (node, subnets.as_slice()))
                });
                Pool::Of(Box::new(NodeSubnets::rebuild(network.clone(), setup, annotated)))
            }
        }
    }

    /// The numbers of a network that is about to be made.
    ///
    /// # Errors
    /// None are left.
    pub(super) fn identify(&mut self, network: &NetworkName, config: &Config) -> Result<Identity, String> {
        self.number(network, config, Annotated { id: None, second: None })
    }

    fn number(
        &mut self,
        network: &NetworkName,
        config: &Config,
        annotated: Annotated,
    ) -> Result<Identity, String> {
        let chosen = self.network_ids.choose(network, annotated.id).map_err(|error| error.to_string())?;
        let keys = if config.is_primary() && config.topology == Some(Topology::Layer2) {
            // A pair that rests on another id is not this network's.
            let second = annotated.second.filter(|_| chosen.replaced.is_none());
            let second = self.second_keys.choose(network, second).map_err(|error| error.to_string())?;
            TunnelKeys::layer2_primary(chosen.id, second)
        } else {
            self.second_keys.release(network);
            TunnelKeys::Derived
        };
        Ok(Identity { id: chosen.id, keys })
    }

    /// Frees what a network has that has no NetworkAttachmentDefinition, and will have none. Returns the nodes to look at
    /// because of that.
    pub(super) fn disown(&mut self, network: &NetworkName, now: Timestamp) -> BTreeSet<NodeName> {
        if network.is_default() || self.networks.get(network).is_some_and(|known| !known.nads.is_empty()) {
            return BTreeSet::new();
        }
        self.network_ids.release(network);
        self.second_keys.release(network);
        let Some(known) = self.networks.remove(network) else { return BTreeSet::new() };
        for nad in &known.expected {
            drop(self.activity.remove_nad(nad, now));
        }
        self.touch_all(network)
    }

    /// Takes over a NetworkAttachmentDefinition that exists.
    pub(super) fn join(&mut self, key: &NadKey, nad: &Nad, config: &Arc<Config>, now: Timestamp) -> Joined {
        self.join_with(key, nad, config, &BTreeMap::new(), now)
    }

    fn join_with(
        &mut self,
        key: &NadKey,
        nad: &Nad,
        config: &Arc<Config>,
        legacy: &BTreeMap<String, NetworkId>,
        now: Timestamp,
    ) -> Joined {
        let network = NetworkName::from(config.name.as_str());
        if self.joined.get(key).is_some_and(|before| *before != network) {
            drop(self.leave(key, false, now));
        }
        if config.is_primary()
            && let Some(primary) = self.other_primary(key)
        {
            return Joined::Refused(Refusal::SecondPrimary { nad: key.clone(), primary });
        }
        let known = self.networks.get(&network);
        let differences =
            known.map(|known| known.config.differences(config, &self.plan.defaults)).unwrap_or_default();
        let alone = known.is_some_and(|known| known.nads.iter().all(|other| other == key));
        if !differences.is_empty() && !alone {
            return Joined::Refused(Refusal::Mismatch {
                nad: key.clone(),
                network,
                differences: differences.join(", "),
            });
        }
        let mut annotated = Annotated::of(nad);
        annotated.id = annotated.id.or_else(|| legacy.get(network.as_str()).copied());
        let identity = match self.number(&network, config, annotated) {
            Ok(identity) => identity,
            Err(error) => return Joined::Refused(Refusal::Exhausted(error)),
        };
        let mut woken = self.take_over(key, &network, config, !differences.is_empty());
        self.joined.insert(key.clone(), network.clone());
        if config.is_primary() {
            self.primaries.entry(key.namespace().clone()).or_default().insert(key.clone());
        }
        let changes = self.activity.set_nad(key, &activity_of(nad, config, &network), now);
        woken.extend(self.touch(&changes));
        Joined::Of { identity, network, woken }
    }

    /// Marks what nodes have to look at again because they need more or less than before. Returns them.
    fn touch(&mut self, changes: &[activity::Change]) -> BTreeSet<NodeName> {
        let mut woken = BTreeSet::new();
        for change in changes {
            if let Some(entry) = self.nodes.get_mut(&change.node) {
                entry.dirty.insert(change.network.clone());
                woken.insert(change.node.clone());
            }
        }
        woken
    }

    /// Takes over that a pod is there, or is gone.
    pub(super) fn pod(&mut self, key: &NamespacedName, pod: Option<&Pod>, now: Timestamp) -> Stir {
        let key =
            PodKey { namespace: Namespace::from(key.namespace.as_str()), name: key.name.as_str().into() };
        let changes = match pod {
            Some(pod) => self.activity.set_pod(&key, &pod.activity(), now),
            None => self.activity.remove_pod(&key, now),
        };
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

    fn stir(&mut self, changes: &[activity::Change]) -> Stir {
        Stir {
            nodes: self.touch(changes),
            networks: changes.iter().map(|change| change.network.clone()).collect(),
        }
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

    /// Makes the network what this config says. Returns the nodes to look at because of that.
    fn take_over(
        &mut self,
        key: &NadKey,
        network: &NetworkName,
        config: &Arc<Config>,
        anew: bool,
    ) -> BTreeSet<NodeName> {
        let ranges = (config.topology == Some(Topology::Layer3)).then(|| ranges(config, &self.plan.defaults));
        if let Some(known) = self.networks.get_mut(network).filter(|_| !anew) {
            known.nads.insert(key.clone());
            known.expected.remove(key);
            if known.config.subnets == config.subnets {
                return BTreeSet::new();
            }
            // A NetworkAttachmentDefinition that is not updated yet says less than another one: that changes nothing.
            let more = config.subnets.len() > known.config.subnets.len();
            let grown = match (&mut known.pool, ranges) {
                (Pool::Of(pool), Some(Ok(ranges))) if more => pool.expand(&ranges).is_ok(),
                _ => false,
            };
            if !grown {
                return BTreeSet::new();
            }
            known.config = Arc::clone(config);
            return self.touch_all(network);
        }
        let nads = self.networks.remove(network).map(|known| known.nads).unwrap_or_default();
        let pool = ranges.map_or(Pool::None, |ranges| self.pool(network, ranges));
        let mut entry = Network::new(Arc::clone(config), nads, pool);
        entry.nads.insert(key.clone());
        let touches = matches!(entry.pool, Pool::Of(_)) || anew;
        self.networks.insert(network.clone(), entry);
        if touches { self.touch_all(network) } else { BTreeSet::new() }
    }

    fn touch_all(&mut self, network: &NetworkName) -> BTreeSet<NodeName> {
        for entry in self.nodes.values_mut() {
            entry.dirty.insert(network.clone());
        }
        self.nodes.keys().cloned().collect()
    }

    /// Another NetworkAttachmentDefinition that is the primary one of the namespace.
    fn other_primary(&self, key: &NadKey) -> Option<NadKey> {
        let primaries = self.primaries.get(key.namespace())?;
        primaries.iter().find(|other| *other != key).cloned()
    }

    /// Takes over that a NetworkAttachmentDefinition is gone, or is no longer one of ours. Returns its network, and the nodes
    /// to look at because of that. With `comes_back`, the network keeps what it has although this was its last one.
    pub(super) fn leave(
        &mut self,
        key: &NadKey,
        comes_back: bool,
        now: Timestamp,
    ) -> Option<(NetworkName, BTreeSet<NodeName>)> {
        let network = self.joined.remove(key)?;
        if let Some(primaries) = self.primaries.get_mut(key.namespace()) {
            primaries.remove(key);
            if primaries.is_empty() {
                self.primaries.remove(key.namespace());
            }
        }
        let known = self.networks.get_mut(&network)?;
        known.nads.remove(key);
        if comes_back {
            known.expected.insert(key.clone());
            return Some((network, BTreeSet::new()));
        }
        let changes = self.activity.remove_nad(key, now);
        let mut woken = self.touch(&changes);
        woken.extend(self.disown(&network, now));
        Some((network, woken))
    }

    /// Looks at a node that exists. `annotations` are what it has now.
    pub(super) fn node(&mut self, name: &NodeName, annotations: &BTreeMap<String, String>) -> NodeVerdict {
        let mut verdict = NodeVerdict::default();
        self.activity.add_node(name);
        self.number_node(name, annotations, &mut verdict);
        // Deprecated: upstream takes it off as well.
        if annotations.contains_key(node_annotation::GATEWAY_ROUTER_PORT) {
            verdict.changes.insert(node_annotation::GATEWAY_ROUTER_PORT, None);
        }
        let text = annotations.get(node_annotation::NODE_SUBNETS);
        let entry = self.nodes.entry(name.clone()).or_default();
        let mut look_at = std::mem::take(&mut entry.dirty);
        if !entry.read || entry.text.as_ref() != text {
            entry.take_over(text);
            look_at = self.networks.keys().cloned().chain(look_at).collect();
        }
        let entry = self.nodes.entry(name.clone()).or_default();
        let (mut subnets, unreadable) = (std::mem::take(&mut entry.subnets), entry.unreadable.clone());
        // What stands there of networks that are gone goes.
        subnets.retain(|network, _| self.networks.contains_key(network.as_str()));
        for network in look_at {
            let Some(known) = self.networks.get_mut(&network) else { continue };
            let Pool::Of(pool) = &mut known.pool else { continue };
            if !network.is_default() && self.activity.need(&network, name) == Need::Idle {
                pool.release(name);
                subnets.remove(network.as_str());
                if known.problems.remove(name).is_some() {
                    verdict.told.insert(network.clone());
                }
                continue;
            }
            let annotated = subnets.get(network.as_str()).cloned().unwrap_or_default();
            let result = match &unreadable {
                Some(error) => Err(format!("failed to update node {name} annotation: {error}")),
                None => pool
                    .sync(name, &annotated)
                    .map(|assigned| assigned.subnets)
                    .map_err(|error| error.to_string()),
            };
            match result {
                Ok(assigned) => {
                    subnets.insert(network.as_str().to_owned(), assigned);
                    if known.problems.remove(name).is_some() {
                        verdict.told.insert(network.clone());
                    }
                }
                Err(error) => {
                    let kept = pool.of(name).to_vec();
                    if unreadable.is_none() {
                        subnets.insert(network.as_str().to_owned(), kept);
                    }
                    if known.problems.insert(name.clone(), error.clone()).as_ref() != Some(&error) {
                        verdict.failures.push((network.clone(), error));
                        verdict.told.insert(network.clone());
                    }
                }
            }
        }
        subnets.retain(|_, subnets| !subnets.is_empty());
        let wanted = node_annotation::render_node_subnets(&subnets);
        if unreadable.is_none() && wanted.as_ref() != text {
            verdict.changes.insert(node_annotation::NODE_SUBNETS, wanted.clone());
        }
        let entry = self.nodes.entry(name.clone()).or_default();
        entry.subnets = subnets;
        if unreadable.is_none() {
            entry.text = wanted;
        }
        verdict
    }

    /// The node's own id, and the address that follows from it.
    fn number_node(
        &mut self,
        name: &NodeName,
        annotations: &BTreeMap<String, String>,
        verdict: &mut NodeVerdict,
    ) {
        let Ok(id) = self.node_ids.allocate(name) else {
            verdict
                .failures
                .push((NetworkName::default_network(), format!("node {name}: all node ids are in use")));
            return;
        };
        let families = Families::of(self.plan.ranges.iter().map(|range| &range.network));
        let has = |family| families.is_some_and(|families| families.has(family));
        let address = |range: IpNet| id.address_in(range).ok();
        let transit = node_annotation::Addresses {
            ipv4: has(Family::V4).then(|| address(IpNet::V4(self.plan.transit.0))).flatten().and_then(v4),
            ipv6: has(Family::V6).then(|| address(IpNet::V6(self.plan.transit.1))).flatten().and_then(v6),
        };
        let wanted = [
            (node_annotation::NODE_ID, id.get().to_string()),
            (node_annotation::TRANSIT_SWITCH_PORT, node_annotation::render_addresses(&transit)),
        ];
        for (key, value) in wanted {
            if annotations.get(key) != Some(&value) {
                verdict.changes.insert(key, Some(value));
            }
        }
    }

    /// Takes over that a node is gone. Returns the nodes to look at, because something is free for them now, and the networks
    /// whose account of failing nodes changed.
    pub(super) fn node_left(&mut self, name: &NodeName) -> (BTreeSet<NodeName>, BTreeSet<NetworkName>) {
        let (mut woken, mut told): (BTreeSet<NodeName>, BTreeSet<NetworkName>) = Default::default();
        told.extend(self.activity.remove_node(name).into_iter().map(|change| change.network));
        self.node_ids.release(name);
        if self.nodes.remove(name).is_none() {
            return (woken, told);
        }
        for (network, known) in &mut self.networks {
            if known.problems.remove(name).is_some() {
                told.insert(network.clone());
            }
            let Pool::Of(pool) = &mut known.pool else { continue };
            if pool.release(name).is_empty() {
                continue;
            }
            for waiting in pool.waiting() {
                if let Some(entry) = self.nodes.get_mut(waiting) {
                    entry.dirty.insert(network.clone());
                    woken.insert(waiting.clone());
                }
            }
        }
        (woken, told)
    }

    /// How a network fares. The node that people are told of stays the same until it recovers.
    pub(super) fn fare(&mut self, network: &NetworkName) -> Fare {
        let Some(known) = self.networks.get_mut(network) else { return Fare::NotManaged };
        let managed = match known.config.topology {
            Some(Topology::Layer3 | Topology::Layer2) => true,
            Some(Topology::Localnet) => !known.config.subnets.is_empty(),
            Some(Topology::Unknown(_)) | None => false,
        };
        if !managed {
            return Fare::NotManaged;
        }
        if let Pool::Bad(error) = &known.pool {
            return Fare::Badly(None, error.clone());
        }
        let named = known.named.take().filter(|named| known.problems.contains_key(named));
        known.named = named.or_else(|| known.problems.keys().next().cloned());
        match &known.named {
            None => Fare::Well,
            Some(node) => {
                Fare::Badly(Some(node.clone()), known.problems.get(node).cloned().unwrap_or_default())
            }
        }
    }

    /// The subnets of a family that a network has and has given out.
    pub(super) fn usage(&self, network: &NetworkName, family: Family) -> Option<Usage> {
        match &self.networks.get(network)?.pool {
            Pool::Of(pool) => Some(pool.usage(family)),
            Pool::None | Pool::Bad(_) => None,
        }
    }

    /// Every network that has a NetworkAttachmentDefinition.
    pub(super) fn network_names(&self) -> Vec<NetworkName> {
        self.networks.keys().filter(|name| !name.is_default()).cloned().collect()
    }
}

impl NodeEntry {
    fn annotated(node: &Node) -> Self {
        let mut entry = Self::default();
        entry.take_over(node.annotations.get(node_annotation::NODE_SUBNETS));
        // The first look at the node compares again what stands there.
        entry.read = false;
        entry
    }

    fn take_over(&mut self, text: Option<&String>) {
        self.read = true;
        self.text = text.cloned();
        self.unreadable = None;
        let Some(text) = text else { return };
        match node_annotation::read_node_subnets(text) {
            // Entries that cannot be read are made anew.
            Ok(read) => self.subnets = read.value,
            Err(error) => self.unreadable = Some(error.to_string()),
        }
    }
}

/// A NetworkAttachmentDefinition as the model of who needs what sees it.
fn activity_of(nad: &Nad, config: &Config, network: &NetworkName) -> activity::Nad {
    activity::Nad {
        network: network.clone(),
        kind: if config.is_primary() { Kind::Primary } else { Kind::Secondary },
        scope: if nad.controller.is_some() { Scope::OnDemand } else { Scope::Everywhere },
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

fn v4(network: IpNet) -> Option<Ipv4Net> {
    match network {
        IpNet::V4(network) => Some(network),
        IpNet::V6(_) => None,
    }
}

fn v6(network: IpNet) -> Option<Ipv6Net> {
    match network {
        IpNet::V6(network) => Some(network),
        IpNet::V4(_) => None,
    }
}
