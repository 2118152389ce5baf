//! The same answers as counting everything anew after each event.

use proptest::prelude::*;

use super::*;

const GRACE: i64 = 5;
const NODES: [&str; 3] = ["a", "b", "c"];
const NADS: [&str; 4] = ["x/one", "x/two", "y/one", "y/three"];
const NETWORKS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum Event {
    Pod { namespace: usize, name: usize, node: usize, host: bool, finished: bool, named: Vec<usize> },
    PodGone { namespace: usize, name: usize },
    Nad { key: usize, network: usize, primary: bool, everywhere: bool },
    NadGone { key: usize },
    Node { node: usize },
    NodeGone { node: usize },
    Time { seconds: i64 },
    Connect { name: usize, networks: Vec<bool> },
}

const CONNECTIONS: [&str; 2] = ["c1", "c2"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0_usize..2, 0_usize..3, 0_usize..4, any::<bool>(), any::<bool>(), prop::collection::vec(0_usize..4, 0..3))
            .prop_map(|(namespace, name, node, host, finished, named)|
                Event::Pod { namespace, name, node, host, finished: finished && host, named }),
        3 => (0_usize..2, 0_usize..3).prop_map(|(namespace, name)| Event::PodGone { namespace, name }),
        3 => (0_usize..4, 0_usize..3, any::<bool>(), 0_u8..6).prop_map(|(key, network, primary, everywhere)|
            Event::Nad { key, network, primary, everywhere: everywhere == 0 }),
        1 => (0_usize..4).prop_map(|key| Event::NadGone { key }),
        1 => (0_usize..3).prop_map(|node| Event::Node { node }),
        1 => (0_usize..3).prop_map(|node| Event::NodeGone { node }),
        2 => (1_i64..8).prop_map(|seconds| Event::Time { seconds }),
        2 => (0_usize..2, prop::collection::vec(any::<bool>(), 3))
            .prop_map(|(name, networks)| Event::Connect { name, networks }),
    ]
}

/// Everything that there is; what follows from it is counted anew each time.
#[derive(Clone, Default)]
struct Model {
    pods: BTreeMap<PodKey, Pod>,
    nads: BTreeMap<NadKey, Nad>,
    nodes: BTreeSet<NodeName>,
    until: BTreeMap<(NetworkName, NodeName), Timestamp>,
    connections: BTreeMap<&'static str, BTreeSet<NetworkName>>,
}

impl Model {
    /// Nodes that have a reason for a network that is not everywhere: one of its own, or one of a network that is
    /// connected with it.
    fn reasons(&self, network: &NetworkName) -> BTreeSet<NodeName> {
        if !self.exists(network) {
            return BTreeSet::new();
        }
        let connected = self.connections.values().filter(|members| members.contains(network)).flatten();
        connected.chain([network]).flat_map(|network| self.own_reasons(network)).collect()
    }

    fn own_reasons(&self, network: &NetworkName) -> BTreeSet<NodeName> {
        let mut found = BTreeSet::new();
        for (key, pod) in &self.pods {
            let Some(node) = &pod.node else { continue };
            if pod.life == Life::Finished || (pod.netns == Netns::Hosts && pod.attachments.is_empty()) {
                continue;
            }
            let needs = |(nad_key, nad): (&NadKey, &Nad)| {
                let primary = nad.kind == Kind::Primary && nad_key.namespace() == key.namespace();
                nad.network == *network && (primary || pod.attachments.contains(nad_key))
            };
            if self.nads.iter().any(needs) {
                found.insert(node.clone());
            }
        }
        found
    }

    fn exists(&self, network: &NetworkName) -> bool {
        self.nads.values().any(|nad| nad.network == *network)
    }

    fn everywhere(&self, network: &NetworkName) -> bool {
        self.nads.values().any(|nad| nad.network == *network && nad.scope == Scope::Everywhere)
    }

    fn need(&self, network: &NetworkName, node: &NodeName) -> Need {
        if self.everywhere(network) {
            return if self.nodes.contains(node) { Need::Active } else { Need::Idle };
        }
        if self.reasons(network).contains(node) {
            return Need::Active;
        }
        match self.until.get(&(network.clone(), node.clone())) {
            Some(until) => Need::Lingering { until: *until },
            None => Need::Idle,
        }
    }

    /// After an event: reasons that went begin to linger, those that came stop it.
    fn settle(&mut self, before: &Self, now: Timestamp) {
        for network in NETWORKS.map(NetworkName::from) {
            for node in NODES.map(NodeName::from) {
                let pair = (network.clone(), node.clone());
                let (had, has) =
                    (before.reasons(&network).contains(&node), self.reasons(&network).contains(&node));
                if had && !has && self.nodes.contains(&node) {
                    self.until.insert(pair.clone(), now + SignedDuration::from_secs(GRACE));
                }
                if has || !self.exists(&network) || !self.nodes.contains(&node) {
                    self.until.remove(&pair);
                }
            }
        }
        self.until.retain(|_, until| *until > now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_history_gives_what_counting_anew_gives(events in prop::collection::vec(event(), 1..120)) {
        let mut state = Activity::new(Mode::OnDemand { grace: SignedDuration::from_secs(GRACE) });
        let mut model = Model::default();
        let mut now = Timestamp::from_second(1000).unwrap();
        for event in events {
            let before = model.clone();
            let pod_key = |namespace: usize, name: usize|
                PodKey::new(["x", "y"][namespace], &format!("p{name}"));
            let changes = match event {
                Event::Pod { namespace, name, node, host, finished, named } => {
                    let key = pod_key(namespace, name);
                    let pod = Pod {
                        node: NODES.get(node).map(|name| NodeName::from(*name)),
                        life: if finished { Life::Finished } else { Life::Running },
                        netns: if host { Netns::Hosts } else { Netns::Own },
                        attachments: named.iter().map(|at| NADS[*at].parse().unwrap()).collect(),
                    };
                    model.pods.insert(key.clone(), pod.clone());
                    state.set_pod(&key, &pod, now)
                }
                Event::PodGone { namespace, name } => {
                    let key = pod_key(namespace, name);
                    model.pods.remove(&key);
                    state.remove_pod(&key, now)
                }
                Event::Nad { key, network, primary, everywhere } => {
                    let key: NadKey = NADS[key].parse().unwrap();
                    let nad = Nad {
                        network: NETWORKS[network].into(),
                        kind: if primary { Kind::Primary } else { Kind::Secondary },
                        scope: if everywhere { Scope::Everywhere } else { Scope::OnDemand },
                    };
                    model.nads.insert(key.clone(), nad.clone());
                    state.set_nad(&key, &nad, now)
                }
                Event::NadGone { key } => {
                    let key: NadKey = NADS[key].parse().unwrap();
                    model.nads.remove(&key);
                    state.remove_nad(&key, now)
                }
                Event::Node { node } => {
                    model.nodes.insert(NODES[node].into());
                    state.add_node(&NODES[node].into());
                    Vec::new()
                }
                Event::NodeGone { node } => {
                    model.nodes.remove(NODES[node]);
                    state.remove_node(&NODES[node].into())
                }
                Event::Connect { name, networks } => {
                    let name = CONNECTIONS[name];
                    let members = NETWORKS.iter().zip(networks).filter(|(_, is)| *is);
                    let members: BTreeSet<NetworkName> = members.map(|(name, _)| NetworkName::from(*name)).collect();
                    model.connections.insert(name, members.clone());
                    state.connect(name, &members, now)
                }
                Event::Time { seconds } => {
                    now += SignedDuration::from_secs(seconds);
                    state.expire(now)
                }
            };
            model.settle(&before, now);
            let told: BTreeSet<(NetworkName, NodeName)> =
                changes.iter().map(|change| (change.network.clone(), change.node.clone())).collect();
            prop_assert_eq!(told.len(), changes.len(), "one change for each pair");
            for network in NETWORKS.map(NetworkName::from) {
                let mut rendered = 0;
                for node in NODES.map(NodeName::from) {
                    let (was, is) = (before.need(&network, &node), model.need(&network, &node));
                    prop_assert_eq!(state.need(&network, &node), is, "{}@{}", &network, &node);
                    let mut found = changes.iter().filter(|change| change.network == network && change.node == node);
                    if let Some(change) = found.next() {
                        prop_assert_eq!((change.from, change.to), (was, is));
                    } else if model.nodes == before.nodes {
                        prop_assert_eq!(was, is, "a change that nobody was told of");
                    }
                    rendered += usize::from(is == Need::Active);
                    let there = model.nodes.contains(&node);
                    prop_assert_eq!(state.networks_on(&node).contains(&network), there && is != Need::Idle);
                    prop_assert_eq!(state.active_nodes(&network).contains(&node), there && is == Need::Active);
                    prop_assert_eq!(state.holding_nodes(&network).contains(&node), there && is != Need::Idle);
                }
                prop_assert_eq!(state.rendered(&network), rendered);
            }
            // A network that is everywhere keeps what it had on demand, to end when it is on demand again.
            prop_assert_eq!(state.next_expiry(), model.until.values().min().copied());
        }
    }
}
