//! Laws that hold whatever happens, in whatever order.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// What can happen. Numbers pick among what there is.
#[derive(Clone, Debug)]
enum Event {
    /// A NetworkAttachmentDefinition of a network appears, or is edited to be of that network; somebody looks at it.
    Join {
        nad: usize,
        network: usize,
    },
    /// The same, and nobody has looked at it yet when the next thing happens.
    Appear {
        nad: usize,
        network: usize,
    },
    /// One goes, for good or to be made again.
    Leave {
        nad: usize,
        comes_back: bool,
    },
    /// A node is there; its first write may fail.
    NodeJoins {
        node: usize,
        write: Write,
    },
    NodeLeaves {
        node: usize,
    },
    /// Somebody looks at a node; the write may fail.
    Look {
        node: usize,
        write: Write,
    },
    /// Somebody edits what a node is annotated with.
    Edit {
        node: usize,
        edit: Edit,
    },
    /// Somebody edits the ids of a NetworkAttachmentDefinition.
    EditIds {
        nad: usize,
        id: u16,
    },
    Pod {
        pod: usize,
        node: Option<usize>,
    },
    TimePasses {
        seconds: i64,
    },
    Restart,
}

#[derive(Clone, Debug)]
enum Edit {
    Garbage,
    Removed,
    /// The annotation of another node.
    Of(usize),
    Id(u16),
}

const NADS: [&str; 6] = ["a/one", "a/two", "b/one", "b/two", "c/one", "c/two"];
const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Four networks: two small Layer3 ones, one of both families, and a primary Layer2 one.
fn network(nad: &str, network: usize) -> String {
    match network % 4 {
        0 => layer3(nad, "small", "10.1.0.0/24/25"),
        1 => layer3(nad, "both", "10.2.0.0/22/24,fd00::/62/64"),
        2 => layer2_primary(nad, "primary"),
        _ => layer3(nad, "wide", "10.3.0.0/16"),
    }
}

fn owner(nad: &str) -> Option<(&'static str, &'static str)> {
    // Half of them belong to network objects: those are on demand where networks are.
    nad.ends_with("/one").then_some(("ClusterUserDefinedNetwork", "one"))
}

fn writes() -> impl Strategy<Value = Write> {
    prop_oneof![3 => Just(Write::Works), 1 => Just(Write::Fails)]
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        Just(Edit::Garbage),
        Just(Edit::Removed),
        (0..4_usize).prop_map(Edit::Of),
        (0..12_u16).prop_map(Edit::Id),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        4 => (0..6_usize, 0..4_usize).prop_map(|(nad, network)| Event::Join { nad, network }),
        1 => (0..6_usize, 0..4_usize).prop_map(|(nad, network)| Event::Appear { nad, network }),
        3 => (0..6_usize, any::<bool>()).prop_map(|(nad, comes_back)| Event::Leave { nad, comes_back }),
        3 => (0..4_usize, writes()).prop_map(|(node, write)| Event::NodeJoins { node, write }),
        2 => (0..4_usize).prop_map(|node| Event::NodeLeaves { node }),
        4 => (0..4_usize, writes()).prop_map(|(node, write)| Event::Look { node, write }),
        2 => (0..4_usize, edits()).prop_map(|(node, edit)| Event::Edit { node, edit }),
        1 => (0..6_usize, 0..8_u16).prop_map(|(nad, id)| Event::EditIds { nad, id }),
        3 => (0..5_usize, proptest::option::of(0..4_usize)).prop_map(|(pod, node)| Event::Pod { pod, node }),
        2 => (0..100_i64).prop_map(|seconds| Event::TimePasses { seconds }),
        1 => Just(Event::Restart),
    ];
    proptest::collection::vec(one, 0..60)
}

impl World {
    fn happens(&mut self, event: &Event) {
        match event {
            Event::Join { nad, network: of } => {
                self.put_owned(NADS[*nad], &network(NADS[*nad], *of), owner(NADS[*nad]));
                self.look(NADS[*nad]);
            }
            Event::Appear { nad, network: of } => {
                self.put_owned(NADS[*nad], &network(NADS[*nad], *of), owner(NADS[*nad]));
            }
            Event::Leave { nad, comes_back } => self.leave(NADS[*nad], *comes_back),
            Event::NodeJoins { node, write } => {
                if !self.nodes.contains_key(NODES[*node]) {
                    self.put_node(NODES[*node], &[]);
                }
                self.look_node(NODES[*node], *write);
            }
            Event::NodeLeaves { node } => self.node_leaves(NODES[*node]),
            Event::Look { node, write } if self.nodes.contains_key(NODES[*node]) => {
                self.look_node(NODES[*node], *write);
            }
            Event::Edit { node, edit } if self.nodes.contains_key(NODES[*node]) => {
                self.meddle(NODES[*node], edit);
            }
            Event::EditIds { nad, id } => {
                if let Some(nad) = self.nads.get_mut(&key(NADS[*nad])) {
                    nad.annotations.insert(nad_annotation::NETWORK_ID.to_owned(), id.to_string());
                    let keys = format!("[{},{}]", 16_711_683 + u32::from(*id), 16_715_779 + u32::from(*id));
                    nad.annotations.insert(nad_annotation::TUNNEL_KEYS.to_owned(), keys);
                }
            }
            Event::Pod { pod, node } => {
                let namespace = ["a", "b", "c"][pod % 3];
                let pod_key = NamespacedName { namespace: namespace.to_owned(), name: format!("p{pod}") };
                let pod = node.map(|node| pod_on(NODES[node], vec![key(&format!("{namespace}/one"))]));
                self.ledger.pod(&pod_key, pod.as_ref(), self.now);
                match pod {
                    Some(pod) => drop(self.pods.insert(pod_key, pod)),
                    None => drop(self.pods.remove(&pod_key)),
                }
            }
            Event::TimePasses { seconds } => {
                self.now += SignedDuration::from_secs(*seconds);
                self.ledger.expire(self.now);
            }
            Event::Restart => self.restart(),
            Event::Look { .. } | Event::Edit { .. } => {}
        }
    }

    fn meddle(&mut self, node: &str, edit: &Edit) {
        match edit {
            Edit::Garbage => self.edit(node, node_annotation::NODE_SUBNETS, Some("garbage")),
            Edit::Removed => self.edit(node, node_annotation::NODE_SUBNETS, None),
            Edit::Of(other) => {
                let text = self.node_subnets(NODES[*other]).map(str::to_owned);
                self.edit(node, node_annotation::NODE_SUBNETS, text.as_deref());
            }
            Edit::Id(id) => self.edit(node, node_annotation::NODE_ID, Some(&id.to_string())),
        }
    }

    /// What comes back is there again, and what nobody can read is taken off.
    fn heal(&mut self) {
        for node in NODES {
            if self.node_subnets(node) == Some("garbage") {
                self.edit(node, node_annotation::NODE_SUBNETS, None);
            }
        }
        // Whoever is to come back and does not is not expected any more.
        let there: BTreeSet<NadKey> = self.nads.keys().cloned().collect();
        for network in self.ledger.network_names() {
            self.ledger.expect_only(&network, &there, self.now);
            self.ledger.disown(&network, self.now);
        }
    }

    /// NetworkAttachmentDefinitions that are of their networks, with their annotations.
    fn members(&mut self) -> Vec<(NadKey, String)> {
        let keys: Vec<NadKey> = self.nads.keys().cloned().collect();
        let members = keys.into_iter().filter_map(|key| match self.look(&key.to_string()) {
            Joined::Of { network, .. } => Some((key, network.as_str().to_owned())),
            Joined::Pending | Joined::Refused(_) => None,
        });
        members.collect()
    }

    /// Who cannot be in goes: which of two that cannot both be in is, is decided anew at each start.
    fn end_conflicts(&mut self) {
        let members: BTreeSet<NadKey> = self.members().into_iter().map(|(key, _)| key).collect();
        for nad in NADS.iter().filter(|nad| !members.contains(&key(nad))) {
            self.leave(nad, false);
        }
    }

    fn check(&mut self) {
        let members = self.members();
        let of = |world: &Self, annotation: &str| -> BTreeMap<String, BTreeSet<String>> {
            let mut by_network: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (key, network) in &members {
                let value = world.of_nad(&key.to_string(), annotation).unwrap().to_owned();
                by_network.entry(network.clone()).or_default().insert(value);
            }
            by_network
        };
        let ids = of(self, nad_annotation::NETWORK_ID);
        assert!(ids.values().all(|ids| ids.len() == 1), "a network has one id: {ids:?}");
        assert_eq!(ids.values().collect::<HashSet<_>>().len(), ids.len(), "no two have the same: {ids:?}");
        let keys = of(self, nad_annotation::TUNNEL_KEYS);
        for (network, keys) in &keys {
            assert_eq!(keys.len(), 1, "{network}: {keys:?}");
            assert_eq!(keys.contains("[]"), network != "primary", "{network}: {keys:?}");
        }
        let networks: BTreeSet<&str> = ids.keys().map(String::as_str).chain(["default"]).collect();
        let mut owners: BTreeMap<(String, IpNet), String> = BTreeMap::new();
        let mut node_ids: BTreeMap<String, String> = BTreeMap::new();
        for node in self.nodes.keys() {
            let id = self.of_node(node.as_str(), node_annotation::NODE_ID).unwrap().to_owned();
            assert_eq!(node_ids.insert(id, node.to_string()), None, "no two nodes have one id");
            let Some(text) = self.node_subnets(node.as_str()) else { continue };
            for (network, subnets) in node_annotation::read_node_subnets(text).unwrap().value {
                assert!(
                    networks.contains(network.as_str()),
                    "{node} has something of {network}, which is gone"
                );
                for subnet in subnets {
                    let before = owners.insert((network.clone(), subnet), node.to_string());
                    assert_eq!(before, None, "{subnet} of {network} is also {node}'s");
                }
            }
        }
    }
}

fn run(mut world: World, events: &[Event]) {
    for event in events {
        world.happens(event);
    }
    world.heal();
    world.converge();
    world.check();
    world.end_conflicts();
    world.converge();
    world.check();
    assert!(!world.pass(), "a pass over a converged world changes nothing");
    world.restart();
    assert!(!world.pass(), "a restart of a converged world changes nothing");
    // What is gone leaves nothing.
    for nad in NADS {
        world.leave(nad, false);
    }
    world.converge();
    assert_eq!(world.ledger.network_names(), []);
    for node in NODES {
        let rest = world.node_subnets(node).unwrap_or_default();
        assert!(!["small", "both", "wide", "primary"].iter().any(|network| rest.contains(network)), "{rest}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nobody_shares_anything_where_networks_are_everywhere(events in events()) {
        run(World::everywhere(), &events);
    }

    #[test]
    fn nobody_shares_anything_where_networks_follow_pods(events in events()) {
        run(World::on_demand(), &events);
    }

    #[test]
    fn a_network_that_comes_back_has_what_it_had(events in events(), network in 0..4_usize) {
        let mut world = World::everywhere();
        for event in &events {
            world.happens(event);
        }
        world.heal();
        world.nads.retain(|nad, _| nad.namespace().as_str() != "b");
        for nad in ["b/one", "b/two"] {
            world.leave(nad, false);
        }
        world.put_owned("b/one", &super::laws::network("b/one", network), owner("b/one"));
        world.converge();
        if let Joined::Of { .. } = world.look("b/one") {
            let nad = world.nads[&key("b/one")].clone();
            world.leave("b/one", true);
            prop_assert!(!world.pass(), "nothing changes while it is away");
            // Made anew, it brings no annotations.
            world.nads.insert(key("b/one"), Nad { annotations: BTreeMap::new(), ..nad.clone() });
            world.converge();
            prop_assert_eq!(&world.nads[&key("b/one")].annotations, &nad.annotations);
        }
    }
}
