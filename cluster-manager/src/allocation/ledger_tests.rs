//! The ledger in small worlds: what stands in annotations, who is looked at, and what is written or lost.

mod identity;
mod laws;
mod needs;
mod subnets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::annotation::{network as nad_annotation, node as node_annotation};
use causeway_api::nad::{Defaults, GatewayMode};
use causeway_net::activity::Mode;
use causeway_net::ipam::nodes::HostRange;
use causeway_net::network::name::{NadKey, NetworkName, NodeName};
use causeway_runtime::watch::NamespacedName;
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::connect::ConnectName;
use super::egress::{EgressIpName, Needs};
use super::ledger::{ClusterPlan, Fare, Joined, Ledger, NodeVerdict, Starved};
use crate::observed::fixtures::pod_on;
use crate::observed::nad::{Nad, WatchedNad};
use crate::observed::place::Node;
use crate::observed::pod::Pod;

/// What the API server has, and the ledger over it.
struct World {
    nads: BTreeMap<NadKey, Nad>,
    nodes: BTreeMap<NodeName, Node>,
    pods: BTreeMap<NamespacedName, Pod>,
    egress_ips: BTreeMap<EgressIpName, Needs>,
    connected: BTreeMap<ConnectName, BTreeSet<NetworkName>>,
    /// Subnets of the Layer3 network objects behind definitions.
    meant: BTreeMap<NadKey, BTreeSet<String>>,
    ledger: Ledger,
    now: Timestamp,
    /// How many objects were made: each is younger than the one before.
    made: i64,
}

/// How a look at a node ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Write {
    Works,
    Fails,
}

fn range(text: &str) -> HostRange {
    let (network, length) = text.rsplit_once('/').unwrap();
    HostRange { network: network.parse().unwrap(), host_length: length.parse().unwrap() }
}

fn plan(mode: Mode, ranges: &[&str]) -> ClusterPlan {
    ClusterPlan {
        ranges: ranges.iter().map(|text| range(text)).collect(),
        transit: ("100.88.0.0/16".parse().unwrap(), "fd97::/64".parse().unwrap()),
        defaults: Defaults::default(),
        mode,
        without_subnets: None,
    }
}

const GRACE: SignedDuration = SignedDuration::from_secs(120);

fn key(text: &str) -> NadKey {
    text.parse().unwrap()
}

fn name(text: &str) -> NetworkName {
    NetworkName::from(text)
}

/// The config of a network. `rest` are further keys, each with a comma in front.
fn config(key: &str, network: &str, topology: &str, rest: &str) -> String {
    format!(
        r#"{{"cniVersion":"1.1.0","type":"ovn-k8s-cni-overlay","netAttachDefName":"{key}","name":"{network}","topology":"{topology}"{rest}}}"#
    )
}

fn layer3(key: &str, network: &str, subnets: &str) -> String {
    config(key, network, "layer3", &format!(r#","role":"secondary","subnets":"{subnets}""#))
}

fn layer2_primary(key: &str, network: &str) -> String {
    let rest = r#","role":"primary","subnets":"10.9.0.0/16","transitSubnet":"100.88.0.0/16""#;
    config(key, network, "layer2", rest)
}

impl World {
    fn new(plan: ClusterPlan) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        let ledger = Ledger::rebuild(plan, [], [], [], [], [], now);
        let (nads, nodes, pods, egress_ips, connected, meant) = Default::default();
        Self { nads, nodes, pods, egress_ips, connected, meant, ledger, now, made: 0 }
    }

    /// A cluster in which networks are everywhere.
    fn everywhere() -> Self {
        Self::new(plan(Mode::Everywhere, &["10.128.0.0/16/24"]))
    }

    fn on_demand() -> Self {
        Self::new(plan(Mode::OnDemand { grace: GRACE }, &["10.128.0.0/16/24"]))
    }

    /// Puts a NetworkAttachmentDefinition there, or edits it; nobody looks at it.
    fn put(&mut self, key: &str, config: &str) {
        self.put_owned(key, config, None);
    }

    /// The same for one that a network object controls.
    fn put_owned(&mut self, key: &str, config: &str, owner: Option<(&str, &str)>) {
        let nad_key: NadKey = key.parse().unwrap();
        let owners = owner.map(|(kind, name)| {
            json!([{"apiVersion": "k8s.ovn.org/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"),
                "controller": true}])
        });
        let object: WatchedNad = serde_json::from_value(json!({
            "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"namespace": nad_key.namespace().as_str(), "name": nad_key.name(), "uid": format!("uid-{key}"),
                "ownerReferences": owners},
            "spec": {"config": config},
        }))
        .unwrap();
        let mut nad = Nad::of(object, GatewayMode::Shared).unwrap();
        let before = self.nads.get(&nad_key);
        nad.created = before.map_or(self.made, |before| before.created);
        nad.annotations = before.map(|before| before.annotations.clone()).unwrap_or_default();
        self.made += 1;
        self.nads.insert(nad_key, nad);
    }

    /// Looks at a NetworkAttachmentDefinition, and annotates it.
    fn look(&mut self, key: &str) -> Joined {
        let key: NadKey = key.parse().unwrap();
        let nad = self.nads.get(&key).unwrap().clone();
        let config = nad.config().unwrap_or_else(|| panic!("{:?}", nad.content)).clone();
        let (joined, _) = self.ledger.join(&key, &nad, &config, self.meant.get(&key), self.now);
        if let Joined::Of { identity, network } = &joined {
            let nad = self.nads.get_mut(&key).unwrap();
            nad.annotations.extend(identity.annotations(network));
        }
        joined
    }

    /// A network's NetworkAttachmentDefinition is made and looked at.
    fn join(&mut self, key: &str, config: &str) -> Joined {
        self.put(key, config);
        self.look(key)
    }

    #[track_caller]
    fn refused(&mut self, key: &str, config: &str) -> String {
        match self.join(key, config) {
            Joined::Refused(refusal) => refusal.to_string(),
            joined => panic!("{key} is in: {joined:?}"),
        }
    }

    fn leave(&mut self, key: &str, comes_back: bool) {
        let key: NadKey = key.parse().unwrap();
        self.nads.remove(&key);
        self.ledger.leave(&key, |_| comes_back, self.now);
    }

    /// A node is there; nobody looks at it.
    fn put_node(&mut self, name: &str, annotations: &[(&str, &str)]) {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let node = Node {
            uid: format!("uid-{name}-{}", self.made),
            version: Some("1".to_owned()),
            created: self.made,
            labels: BTreeMap::new(),
            annotations: annotations.collect(),
        };
        self.made += 1;
        self.nodes.insert(name.into(), node);
    }

    fn look_node(&mut self, name: &str, write: Write) -> NodeVerdict {
        let name = NodeName::from(name);
        let node = self.nodes.get_mut(&name).unwrap();
        self.ledger.label(&name, node);
        let verdict = self.ledger.node(&name, &node.annotations);
        if write == Write::Works {
            for (key, value) in &verdict.changes {
                match value {
                    Some(value) => drop(node.annotations.insert((*key).to_owned(), value.clone())),
                    None => drop(node.annotations.remove(*key)),
                }
            }
        }
        verdict
    }

    fn join_node(&mut self, name: &str) -> NodeVerdict {
        self.put_node(name, &[]);
        self.look_node(name, Write::Works)
    }

    /// Labels a node, with one label.
    fn label(&mut self, node: &str, key: &str, value: &str) {
        self.nodes.get_mut(node).unwrap().labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
    }

    fn node_leaves(&mut self, name: &str) {
        self.nodes.remove(name);
        self.ledger.node_left(&name.into());
    }

    /// Edits an annotation of a node by hand.
    fn edit(&mut self, node: &str, key: &str, value: Option<&str>) {
        let node = self.nodes.get_mut(node).unwrap();
        match value {
            Some(value) => drop(node.annotations.insert(key.to_owned(), value.to_owned())),
            None => drop(node.annotations.remove(key)),
        }
    }

    /// Looks at everything once; whether anything was written.
    fn pass(&mut self) -> bool {
        let mut wrote = false;
        let keys: Vec<String> = self.nads.keys().map(ToString::to_string).collect();
        for key in keys {
            let nad = self.nads.get(&key.parse::<NadKey>().unwrap()).unwrap();
            let before = nad.annotations.clone();
            if nad.config().is_some() {
                self.look(&key);
            }
            wrote |= self.nads.get(&key.parse::<NadKey>().unwrap()).unwrap().annotations != before;
        }
        let nodes: Vec<String> = self.nodes.keys().map(ToString::to_string).collect();
        for node in nodes {
            wrote |= !self.look_node(&node, Write::Works).changes.is_empty();
        }
        wrote
    }

    /// Looks at everything until nothing is written any more.
    fn converge(&mut self) {
        for _ in 0..10 {
            if !self.pass() {
                return;
            }
        }
        panic!("something is written in every pass");
    }

    /// Starts anew, from what is annotated at this moment.
    fn restart(&mut self) {
        let plan = self.ledger.plan().clone();
        let nads = self.nads.iter().map(|(key, nad)| (key.clone(), Arc::new(nad.clone())));
        let nodes = self.nodes.iter().map(|(name, node)| (name.clone(), Arc::new(node.clone())));
        let pods = self.pods.iter().map(|(key, pod)| (key.clone(), Arc::new(pod.clone())));
        self.ledger = Ledger::rebuild(
            plan,
            nads,
            nodes,
            pods,
            self.egress_ips.clone(),
            self.connected.clone(),
            self.now,
        );
    }

    /// An annotation of a NetworkAttachmentDefinition.
    fn of_nad(&self, key: &str, annotation: &str) -> Option<&str> {
        self.nads.get(&key.parse::<NadKey>().unwrap())?.annotations.get(annotation).map(String::as_str)
    }

    fn id(&self, key: &str) -> Option<&str> {
        self.of_nad(key, nad_annotation::NETWORK_ID)
    }

    fn tunnel_keys(&self, key: &str) -> Option<&str> {
        self.of_nad(key, nad_annotation::TUNNEL_KEYS)
    }

    /// An annotation of a node.
    fn of_node(&self, node: &str, annotation: &str) -> Option<&str> {
        self.nodes.get(node)?.annotations.get(annotation).map(String::as_str)
    }

    fn node_subnets(&self, node: &str) -> Option<&str> {
        self.of_node(node, node_annotation::NODE_SUBNETS)
    }

    /// The subnets of a network on a node, as annotated.
    fn subnets(&self, node: &str, network: &str) -> Vec<IpNet> {
        let Some(text) = self.node_subnets(node) else { return Vec::new() };
        let Ok(read) = node_annotation::read_node_subnets(text) else { return Vec::new() };
        read.value.get(network).cloned().unwrap_or_default()
    }

    /// One subnet of a network on a node, as text; empty for none.
    fn subnet(&self, node: &str, network: &str) -> String {
        let subnets: Vec<String> = self.subnets(node, network).iter().map(ToString::to_string).collect();
        subnets.join(" ")
    }

    /// How a network fares: nothing for well.
    fn fares(&mut self, network: &str) -> Option<String> {
        match self.ledger.fare(&name(network), None) {
            Fare::NotManaged => Some("not managed".to_owned()),
            Fare::Well => None,
            Fare::Badly(Some(node), _) => Some(node.to_string()),
            Fare::Badly(None, why) => Some(why),
        }
    }
}
