//! Small worlds for the tests of this room.

use std::collections::BTreeMap;

use causeway_api::nad::GatewayMode;
use causeway_api::uplink::{NodeConfig, Uplink as ApiUplink, UplinkSpec, UplinkType};
use causeway_net::network::name::NodeName;
use causeway_net::uplinks_ready::{Gate, StateFacts};
use causeway_runtime::watch::{Snapshot, Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, LabelSelector, LabelSelectorRequirement, Time,
};
use serde_json::json;

use super::observe::{StateIndex, World};
use super::ownership::FinalizerOwner;
use super::watched::{Resolved, State, StateKey, Uplink, UplinkName};
use crate::observed::Stores as Shared;
use crate::observed::fixtures::Seen;
use crate::observed::place::Node;

/// An Uplink of generation 1 and uid `uid-<name>` with these interfaces and selectors: nothing for all nodes,
/// `key=value`, or `key Operator value`.
pub(super) fn uplink(name: &str, configs: &[(&str, &str)]) -> Uplink {
    let node_configs = configs
        .iter()
        .map(|&(interface, selector)| NodeConfig {
            type_: UplinkType::OvsBridge,
            node_selector: self::selector(selector),
            host_interface_name: interface.to_owned(),
        })
        .collect();
    let mut uplink = ApiUplink::new(name, UplinkSpec { node_configs });
    uplink.metadata.uid = Some(format!("uid-{name}"));
    uplink.metadata.generation = Some(1);
    uplink.metadata.resource_version = Some("5".to_owned());
    Uplink::of(&uplink).unwrap()
}

fn selector(text: &str) -> LabelSelector {
    if let Some((key, value)) = text.split_once('=') {
        let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        return LabelSelector { match_labels: Some(labels), match_expressions: None };
    }
    let mut words = text.split_whitespace().map(str::to_owned);
    let expression = words.next().zip(words.next()).map(|(key, operator)| {
        vec![LabelSelectorRequirement { key, operator, values: Some(words.collect()) }]
    });
    LabelSelector { match_labels: None, match_expressions: expression }
}

impl Uplink {
    pub(super) fn terminating(mut self) -> Self {
        self.facts.terminating = true;
        self
    }

    pub(super) fn finalizer(mut self, owner: FinalizerOwner) -> Self {
        self.finalizer = Some(owner);
        self
    }

    pub(super) fn condition(mut self, type_: &str, status: &str, reason: &str, message: &str) -> Self {
        self.conditions.push(Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        });
        self
    }
}

pub(super) fn uplinks(uplinks: &[Uplink]) -> Snapshot<UplinkName, Uplink> {
    let named = uplinks.iter().map(|uplink| (UplinkName::from(uplink.facts.name.as_str()), uplink.clone()));
    Store::fixed("Uplink", named).snapshot()
}

pub(super) fn node(labels: &[(&str, &str)]) -> Node {
    Node {
        uid: "uid".to_owned(),
        version: None,
        created: 0,
        labels: labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
        annotations: BTreeMap::new(),
    }
}

pub(super) fn nodes(nodes: &[(&str, &[(&str, &str)])]) -> Snapshot<NodeName, Node> {
    shared(nodes, Seen::default()).nodes()
}

/// What several rooms see: Nodes with these labels, and the rest.
pub(super) fn shared(nodes: &[(&str, &[(&str, &str)])], rest: Seen) -> Shared {
    let object = |(name, labels): &(&str, &[(&str, &str)])| {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels}})
    };
    Seen { nodes: nodes.iter().map(object).collect(), ..rest }.stores(GatewayMode::Shared)
}

/// Our finalizer, set by someone else too, beside a finalizer of theirs.
pub(super) fn held_by_others() -> FinalizerOwner {
    FinalizerOwner::Others { rest: vec!["example.com/other".into()], resource_version: Some("7".into()) }
}

/// A state of uid `uid-<uplink>.<node>` that nobody owns and that has no status yet.
pub(super) fn state(uplink: &str, node: &str) -> State {
    State {
        uid: format!("uid-{uplink}.{node}"),
        uplink: UplinkName::from(uplink),
        node: NodeName::from(node),
        owner_uids: Vec::new(),
        type_: None,
        interface: None,
        resolved: Resolved::Missing,
        host_cause: None,
        told: Vec::new(),
        facts: StateFacts {
            bridge: None,
            uplink: uplink.to_owned(),
            node: node.to_owned(),
            owner_uids: Vec::new(),
            type_: None,
            interface: None,
            resolved: Gate::Missing,
            gateway: Gate::Missing,
            host_data: Gate::Missing,
            host_gateway: Gate::Missing,
        },
    }
}

impl State {
    /// Resolved over this interface.
    pub(super) fn resolved(mut self, interface: &str) -> Self {
        self.resolved = Resolved::Yes;
        self.type_ = Some(UplinkType::OvsBridge);
        self.interface = Some(interface.to_owned());
        self
    }

    /// Not resolved, for this reason.
    pub(super) fn unresolved(mut self, reason: &str) -> Self {
        self.resolved = Resolved::No(reason.to_owned());
        self
    }

    /// With a false `HostDataReady` of this reason.
    pub(super) fn host_cause(mut self, reason: &str) -> Self {
        self.host_cause = Some(reason.to_owned());
        self
    }

    pub(super) fn owned_by(mut self, uid: &str) -> Self {
        self.owner_uids.push(uid.to_owned());
        self
    }
}

/// A world around one Uplink (or none), with states under the given names.
pub(super) fn world(
    uplink: Option<Uplink>,
    nodes: &[(&str, &[(&str, &str)])],
    states: &[(&str, State)],
) -> impl Fn(&UplinkName) -> World {
    let index = StateIndex::default();
    for (key, state) in states {
        index.change(&StateKey::from(*key), None, Some(state));
    }
    let named = states.iter().map(|(key, state)| (StateKey::from(*key), state.clone()));
    let states = Store::fixed("UplinkState", named).snapshot();
    let nodes = self::nodes(nodes);
    move |name| World {
        uplink: uplink.clone().map(std::sync::Arc::new),
        nodes: nodes.clone(),
        states: states.clone(),
        states_of: index.states_of(name),
        used: false,
    }
}
