//! The captured run of dynamic networks, step by step, through the model and the allocators, as a controller would.
//!
//! `captured_run.json` holds what upstream's cluster manager saw (Nodes, NADs, pods) and, after each step, what it had
//! written: the numbers of `NodesSelected` and the subnets of networks other than the default one.

use causeway_api::nad::Config;
use causeway_api::network::Topology;
use ipnet::IpNet;
use serde_json::Value;

use super::*;
use crate::addresses::{Addresses, Subnets};
use crate::ipam::nodes::{NodeSubnets, Setup};
use crate::network::name::Origin;

/// What differs on purpose: step from which on, node, network, what ours has instead.
///
/// A node that returns has its subnet again. A pod in the host's network needs nothing, after a restart as before.
const DIFFERENCES: &[(i64, &str, &str, &[&str])] =
    &[(20, "node-000", "cluster_udn_c1", &["10.20.0.0/24"]), (27, "node-002", "cluster_udn_c1", &[])];

/// Six nodes ask for four subnets at once: upstream serves them in the order in which its writes come through, and who
/// waits when its own retry is due. Here whoever waits is served as soon as a subnet is free.
const RACED: &str = "cluster_udn_c6";

struct Manager {
    activity: Activity,
    now: Timestamp,
    nads: BTreeMap<NadKey, (NetworkName, Vec<String>)>,
    pods: BTreeMap<PodKey, Pod>,
    nodes: BTreeSet<NodeName>,
    subnets: BTreeMap<NetworkName, NodeSubnets>,
    /// What the Nodes are annotated with.
    annotated: BTreeMap<(NodeName, NetworkName), Vec<IpNet>>,
}

impl Manager {
    fn new() -> Self {
        Self {
            activity: Activity::new(Mode::OnDemand { grace: SignedDuration::from_secs(6) }),
            now: Timestamp::from_second(1000).unwrap(),
            nads: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeSet::new(),
            subnets: BTreeMap::new(),
            annotated: BTreeMap::new(),
        }
    }

    fn event(&mut self, event: &Value) {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let mut changes = Vec::new();
        if let Some(node) = text("node") {
            self.nodes.insert(node.into());
            self.activity.add_node(&node.into());
            for network in self.activity.networks_on(&node.into()) {
                self.look(&network, &node.into());
            }
        } else if let Some(node) = text("nodeGone") {
            let node = NodeName::from(node);
            self.nodes.remove(&node);
            changes = self.activity.remove_node(&node);
            self.annotated.retain(|(annotated, _), _| *annotated != node);
            self.subnets.values_mut().for_each(|subnets| drop(subnets.release(&node)));
        } else if let Some(key) = text("nad") {
            changes = self.nad(&key.parse().unwrap(), event);
        } else if let Some(key) = text("nadGone") {
            let key: NadKey = key.parse().unwrap();
            changes = self.activity.remove_nad(&key, self.now);
            self.nads.remove(&key);
        } else if let Some(key) = text("pod") {
            let key: PodKey = key.parse().unwrap();
            let pod = Pod {
                node: text("on").map(NodeName::from),
                life: Life::of(text("phase")),
                netns: if event["host"] == true { Netns::Hosts } else { Netns::Own },
                attachments: attachments(key.namespace(), text("networks").unwrap_or_default()).unwrap(),
            };
            changes = self.activity.set_pod(&key, &pod, self.now);
            self.pods.insert(key, pod);
        } else if let Some(key) = text("podGone") {
            let key: PodKey = key.parse().unwrap();
            changes = self.activity.remove_pod(&key, self.now);
            self.pods.remove(&key);
        } else if let Some(seconds) = event.get("wait").and_then(Value::as_i64) {
            self.now += SignedDuration::from_secs(seconds);
            changes = self.activity.expire(self.now);
        } else {
            assert_eq!(event["restart"], true, "{event}");
            self.restart();
        }
        for change in changes {
            match change.to {
                Need::Active => self.look(&change.network, &change.node),
                Need::Lingering { .. } => {}
                Need::Idle => self.drop(&change.network, &change.node),
            }
        }
    }

    fn nad(&mut self, key: &NadKey, event: &Value) -> Vec<Change> {
        let network = NetworkName::from(event["network"].as_str().unwrap());
        let kind = if event["role"] == "primary" { Kind::Primary } else { Kind::Secondary };
        if event["topology"] == "layer3" {
            let entries = vec![event["subnets"].as_str().unwrap().to_owned()];
            self.nads.insert(key.clone(), (network.clone(), entries.clone()));
            self.subnets
                .entry(network.clone())
                .or_insert_with(|| rebuild(&network, &entries, &BTreeMap::new()));
        }
        assert_ne!(network.origin(), Origin::Other);
        self.activity.set_nad(key, &Nad { network, kind, scope: Scope::OnDemand }, self.now)
    }

    /// Everything is read again.
    fn restart(&mut self) {
        let grace = SignedDuration::from_secs(6);
        let old = std::mem::replace(&mut self.activity, Activity::new(Mode::OnDemand { grace }));
        self.nodes.iter().for_each(|node| self.activity.add_node(node));
        for (key, nad) in &old.nads {
            self.activity.set_nad(key, nad, self.now);
        }
        for (key, pod) in &self.pods {
            self.activity.set_pod(key, pod, self.now);
        }
        for (network, entries) in self.nads.values() {
            let annotated = self.annotated.iter().filter(|((_, of), _)| of == network);
            let annotated = annotated.map(|((node, _), subnets)| (node.clone(), subnets.clone())).collect();
            self.subnets.insert(network.clone(), rebuild(network, entries, &annotated));
        }
        for node in self.nodes.clone() {
            for network in self.activity.networks_on(&node) {
                self.look(&network, &node);
            }
        }
    }

    /// A node gets what it needs; every write gets through.
    fn look(&mut self, network: &NetworkName, node: &NodeName) {
        let Some(subnets) = self.subnets.get_mut(network).filter(|_| self.nodes.contains(node)) else {
            return;
        };
        let pair = (node.clone(), network.clone());
        let annotated = self.annotated.get(&pair).cloned().unwrap_or_default();
        if let Ok(found) = subnets.sync(node, &annotated) {
            self.annotated.insert(pair, found.subnets);
        }
    }

    /// A node gives back what it had, and whoever waits is looked at.
    fn drop(&mut self, network: &NetworkName, node: &NodeName) {
        self.annotated.remove(&(node.clone(), network.clone()));
        let Some(subnets) = self.subnets.get_mut(network) else { return };
        subnets.release(node);
        let waiting: Vec<NodeName> = subnets.waiting().cloned().collect();
        for node in waiting {
            self.look(network, &node);
        }
    }
}

fn rebuild(
    network: &NetworkName,
    entries: &[String],
    annotated: &BTreeMap<NodeName, Vec<IpNet>>,
) -> NodeSubnets {
    let config = Config { topology: Some(Topology::Layer3), subnets: entries.to_vec(), ..Config::default() };
    let Subnets::PerNode(ranges) = Addresses::of(&config).unwrap().subnets else {
        panic!("a layer 3 network")
    };
    let annotated = annotated.iter().map(|(node, subnets)| (node, subnets.as_slice()));
    NodeSubnets::rebuild(network.clone(), Setup::new(&ranges).unwrap(), annotated)
}

#[test]
fn the_captured_run_gives_the_captured_numbers_and_the_captured_subnets() {
    let steps: Vec<Value> = serde_json::from_str(include_str!("captured_run.json")).unwrap();
    assert_eq!(steps.len(), 29);
    let mut manager = Manager::new();
    for step in &steps {
        let label = format!("step {}: {}", step["step"], step["title"]);
        step["events"].as_array().unwrap().iter().for_each(|event| manager.event(event));
        for (network, rendered) in step["rendered"].as_object().unwrap() {
            let found = manager.activity.rendered(&network.as_str().into());
            assert_eq!(u64::try_from(found).unwrap(), rendered.as_u64().unwrap(), "{label}: {network}");
        }
        check_subnets(&manager, step, &label);
    }
}

fn check_subnets(manager: &Manager, step: &Value, label: &str) {
    let number = step["step"].as_i64().unwrap();
    let mut raced = [0, 0];
    for node in &manager.nodes {
        for network in manager.subnets.keys() {
            let captured = step["subnets"].get(node.as_str()).and_then(|node| node.get(network.as_str()));
            let mut want: Vec<String> =
                captured.map(|list| serde_json::from_value(list.clone()).unwrap()).unwrap_or_default();
            let found = manager.annotated.get(&(node.clone(), network.clone()));
            let found: Vec<String> = found.into_iter().flatten().map(ToString::to_string).collect();
            if network.as_str() == RACED {
                raced[0] += want.len();
                raced[1] += found.len();
                continue;
            }
            let exists = manager.activity.networks_on(node).contains(network) || !want.is_empty();
            for (from, on, of, ours) in DIFFERENCES.iter().filter(|_| exists) {
                if number >= *from && node.as_str() == *on && network.as_str() == *of {
                    want = ours.iter().map(|&subnet| subnet.to_owned()).collect();
                }
            }
            assert_eq!(found, want, "{label}: {network} on {node}");
        }
    }
    assert!(raced[0] <= raced[1], "{label}: fewer nodes have a subnet of {RACED} than captured");
    let active = manager.activity.active_nodes(&RACED.into()).len();
    assert_eq!(raced[1], active.min(4), "{label}: as many as there are subnets");
}
