//! What an explanation rests on, and what it is made of.

use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use jiff::Timestamp;
use serde::Serialize;

use crate::agent::AgentView;
use crate::cluster::NodeRow;

/// What an explanation rests on.
#[derive(Clone, Debug)]
pub struct World {
    /// The Uplink.
    pub uplink: Uplink,
    /// Every Node.
    pub nodes: Vec<NodeRow>,
    /// Every UplinkState.
    pub states: Vec<UplinkState>,
    /// The agents that could be asked.
    pub agents: Vec<AgentView>,
    /// Explain this node alone.
    pub only: Option<String>,
    /// The time.
    pub now: Timestamp,
}

/// What is known about an Uplink, and where it stops.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The Uplink.
    pub uplink: String,
    /// Its condition `Ready`; none if nobody has judged it.
    pub ready: Option<ConditionView>,
    /// The judgement is about an older version of the spec.
    pub outdated: bool,
    /// What was asked.
    pub entries: Vec<EntryView>,
    /// Each node that an entry selects, or that has a state.
    pub nodes: Vec<NodeView>,
    /// How many nodes are selected.
    pub selected: usize,
    /// How many of them are resolved.
    pub resolved: usize,
    /// The first thing that keeps it from being ready; none if it is ready.
    pub stops_at: Option<Stop>,
}

/// One entry of the Uplink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryView {
    /// Its position, from 0.
    pub index: usize,
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The interface that it names.
    pub interface: String,
    /// Its selector, as kubectl writes selectors.
    pub selector: String,
    /// Why the selector cannot be used.
    pub invalid: Option<String>,
    /// The nodes that it selects.
    pub nodes: Vec<String>,
}

/// One node of the Uplink.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// The Node.
    pub node: String,
    /// Entries that select it.
    pub entries: Vec<usize>,
    /// Name of its state.
    pub state: String,
    /// Whether that state exists.
    pub published: bool,
    /// What the state says: interface, MAC, addresses, gateways, function, bridge.
    pub found: Vec<(&'static str, String)>,
    /// The state's conditions, with who wrote them and when.
    pub conditions: Vec<ConditionView>,
    /// What its agents say about it, where they could be asked.
    pub agents: Vec<String>,
    /// The rule that decided.
    pub rule: String,
    /// Where it stops; none if it is resolved.
    pub stops_at: Option<Stop>,
    /// What is odd and does not keep the Uplink from being ready.
    pub warnings: Vec<Stop>,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Its status.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// When its status changed last.
    pub since: Timestamp,
    /// When its writer wrote last, and who that is.
    pub written: Option<(Timestamp, String)>,
}

/// Where an Uplink stops on its way to being ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// The step.
    pub step: Step,
    /// The node, if it is one node's matter.
    pub node: Option<String>,
    /// The reason, as conditions give it.
    pub reason: String,
    /// What was found.
    pub message: String,
    /// What the reason means.
    pub means: String,
    /// What to do.
    pub remedy: String,
}

/// The steps on the way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The Uplink's spec.
    Spec,
    /// Which nodes its entries select.
    Selection,
    /// That each selected node has a state.
    State,
    /// What the host's side finds of the interface.
    Host,
    /// What the side with the bridge finds.
    Bridge,
    /// What the cluster manager says of all.
    Manager,
    /// The wire; not on the way, but told.
    Link,
}

impl Step {
    /// For people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Spec => "the Uplink's spec",
            Self::Selection => "the selection of nodes",
            Self::State => "the node's UplinkState",
            Self::Host => "the host's half",
            Self::Bridge => "the half with the bridge",
            Self::Manager => "the cluster manager",
            Self::Link => "the wire",
        }
    }
}
