//! What an explanation of isolation rests on, and what it says.

use serde::Serialize;

use super::ask::Port;
use crate::agent::guard::{ElementView, IsolatedPodView, IsolationView, KubeletView};

/// What was observed.
#[derive(Clone, Debug)]
pub struct World {
    /// The node.
    pub node: String,
    /// How its agent tells the kubelet apart; none if the agent does not isolate.
    pub kubelet: Option<KubeletView>,
    /// Which pods its agent isolates; none if it does not.
    pub isolation: Option<IsolationView>,
    /// The pod that was asked for.
    pub pod: Option<PodRow>,
    /// The process that was asked for.
    pub process: Option<ProcessRow>,
    /// What it wants to reach.
    pub port: Option<Port>,
}

/// A pod, as the API server has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRow {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Where it runs.
    pub node: Option<String>,
    /// Whether it has the network of its node.
    pub host_network: bool,
    /// Its phase.
    pub phase: String,
    /// Its addresses on the default network.
    pub addresses: Vec<String>,
    /// What the annotation says about the default network.
    pub default_network: DefaultNetwork,
}

/// What a pod's annotation says about the default network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultNetwork {
    /// There is none, or nothing about that network.
    #[default]
    Unknown,
    /// It cannot be read.
    Unreadable(String),
    /// The pod has it for this role.
    Role(String),
}

/// A process, as far as rules can tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// What it is called here.
    pub name: String,
    /// Its cgroup, relative to the cgroup root; empty for the root itself.
    pub cgroup: String,
}

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The node.
    pub node: String,
    /// How the kubelet is told apart.
    pub kubelet: Option<KubeletView>,
    /// Families with rules.
    pub families: Vec<&'static str>,
    /// The pod that was asked for.
    pub pod: Option<PodExplained>,
    /// What the process may do, one entry per address and port.
    pub verdicts: Vec<Verdict>,
    /// What is not as it should be, each with what to do.
    pub problems: Vec<Problem>,
}

/// Why a pod is in the sets or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplained {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Whether processes of the node are kept from it.
    pub isolated: bool,
    /// Why.
    pub because: String,
    /// What it has in the sets, and why.
    pub elements: Vec<Element>,
}

/// An element and why it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Element {
    /// Set and element.
    #[serde(flatten)]
    pub element: ElementView,
    /// Why.
    pub because: &'static str,
}

/// What becomes of packets of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The process.
    pub process: String,
    /// Its destination.
    pub address: String,
    /// The port; none stands for those that are not open.
    pub port: Option<String>,
    /// Whether they pass.
    pub passes: bool,
    /// Why.
    pub because: String,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What.
    pub found: String,
    /// What to do.
    pub remedy: &'static str,
}

impl World {
    /// What the agent says about the pod.
    pub(super) fn seen(&self) -> Option<&IsolatedPodView> {
        self.isolation.as_ref()?.pod.as_ref()
    }
}
