//! What the condition `Ready` of an Uplink should say.
//!
//! Source of reasons, order and texts: OVN-Kubernetes, `pkg/clustermanager/uplink/controller.go`.

use std::fmt;

use causeway_api::condition::ConditionStatus;
use causeway_api::uplink::{NodeConfig, UplinkReason};
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::network::name::NodeName;
use causeway_net::selection::Selection;
use causeway_net::state_name::StateName;
use causeway_runtime::watch::Lookup;

use crate::uplink::observe::World;
use crate::uplink::watched::{Resolved, State, Uplink, UplinkName};

/// How many failing nodes the message names.
const EXAMPLES: usize = 3;

/// Which reason the whole Uplink gets when its nodes fail for several, first to last.
const PRIORITY: [UplinkReason; 4] = [
    UplinkReason::NodeSelectorOverlap,
    UplinkReason::MissingUplinkState,
    UplinkReason::UplinkStateNotResolved,
    UplinkReason::UplinkStateIdentityError,
];

/// What `Ready` should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::uplink) struct Verdict {
    /// Its reason, which also decides its status.
    pub(in crate::uplink) reason: UplinkReason,
    /// Its message.
    pub(in crate::uplink) message: String,
    /// How many selected nodes fail; zero where the nodes were not looked at.
    pub(in crate::uplink) failing: usize,
}

impl Verdict {
    /// Status of the condition.
    #[must_use]
    pub(in crate::uplink) fn status(&self) -> ConditionStatus {
        match self.reason {
            UplinkReason::Ready => ConditionStatus::True,
            UplinkReason::InvalidSpec
            | UplinkReason::NodeSelectorOverlap
            | UplinkReason::NoMatchingNodes
            | UplinkReason::MissingUplinkState
            | UplinkReason::UplinkStateNotResolved
            | UplinkReason::UplinkStateIdentityError
            | UplinkReason::UplinkTerminating => ConditionStatus::False,
        }
    }

    fn without_nodes(reason: UplinkReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), failing: 0 }
    }
}

/// Why one selected node is not ready. Displays as the message shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure<'w> {
    /// Two entries select the node.
    Overlap,
    /// There is no state of the derived name.
    Missing,
    /// There is one, but it cannot be read.
    Unreadable(&'w str),
    /// It belongs to another Uplink.
    OtherUplink(&'w UplinkName),
    /// It belongs to another Node.
    OtherNode(&'w NodeName),
    /// It was made for an earlier Uplink of this name, whose uid this is.
    EarlierUplink(&'w str),
    /// It has no condition `Resolved`.
    ResolvedMissing,
    /// It is not resolved, for this reason.
    NotResolved(&'w str),
    /// It is resolved, for another interface or kind than the Uplink names now.
    ConfigMismatch,
}

impl Failure<'_> {
    fn reason(&self) -> UplinkReason {
        match self {
            Self::Overlap => UplinkReason::NodeSelectorOverlap,
            Self::Missing | Self::Unreadable(_) => UplinkReason::MissingUplinkState,
            Self::OtherUplink(_) | Self::OtherNode(_) | Self::EarlierUplink(_) => {
                UplinkReason::UplinkStateIdentityError
            }
            Self::ResolvedMissing | Self::NotResolved(_) | Self::ConfigMismatch => {
                UplinkReason::UplinkStateNotResolved
            }
        }
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap => f.write_str("NodeSelectorOverlap"),
            Self::Missing => f.write_str("MissingUplinkState"),
            Self::Unreadable(error) => write!(f, "UplinkStateLookupFailed: {error}"),
            Self::OtherUplink(found) => write!(f, "UplinkStateIdentityError: uplinkName=\"{found}\""),
            Self::OtherNode(found) => write!(f, "UplinkStateIdentityError: nodeName=\"{found}\""),
            Self::EarlierUplink(found) => write!(f, "UplinkStateIdentityError: uplinkUID=\"{found}\""),
            Self::ResolvedMissing => f.write_str("ResolvedConditionMissing"),
            Self::NotResolved(reason) => f.write_str(reason),
            Self::ConfigMismatch => f.write_str("NodeConfigMismatch"),
        }
    }
}

/// What `Ready` of this Uplink should say.
pub(super) fn verdict(name: &UplinkName, uplink: &Uplink, world: &World) -> Verdict {
    if uplink.facts.terminating {
        let message = "Uplink is terminating and cannot accept new CUDN references";
        return Verdict::without_nodes(UplinkReason::UplinkTerminating, message);
    }
    let configs = match &uplink.facts.configs {
        Ok(configs) => configs,
        // Differs from upstream: the cause stands in the message.
        Err(invalid) => {
            let message = format!("Uplink is not ready because its spec is not accepted: {invalid}");
            return Verdict::without_nodes(UplinkReason::InvalidSpec, message);
        }
    };
    let mut selected = 0;
    let mut failures = Vec::new();
    for (node_name, node) in world.nodes.iter() {
        let failure = match configs.select(&node.labels) {
            Selection::None => continue,
            Selection::Overlap => Some(Failure::Overlap),
            Selection::One(config) => node_failure(name, uplink, node_name, config, world),
        };
        selected += 1;
        failures.extend(failure.map(|failure| (node_name, failure)));
    }
    let worst =
        PRIORITY.into_iter().find(|reason| failures.iter().any(|(_, failure)| failure.reason() == *reason));
    match worst {
        _ if selected == 0 => {
            Verdict::without_nodes(UplinkReason::NoMatchingNodes, "no nodes match any Uplink nodeConfig")
        }
        None => Verdict::without_nodes(
            UplinkReason::Ready,
            format!("all {selected} selected node(s) are resolved"),
        ),
        Some(reason) => {
            let failing = failures.len();
            let message = format!(
                "{failing} of {selected} selected node(s) have readiness failures; examples: {}",
                examples(&failures)
            );
            Verdict { reason, message, failing }
        }
    }
}

/// The first few failures in byte order of their whole texts: `node-10=…` stands before `node-1=…`.
fn examples(failures: &[(&NodeName, Failure<'_>)]) -> String {
    let mut texts: Vec<String> = failures.iter().map(|(node, failure)| format!("{node}={failure}")).collect();
    texts.sort_unstable();
    texts.truncate(EXAMPLES);
    texts.join(", ")
}

/// Why the one entry that selects a node does not make it ready; the first failing check wins.
fn node_failure<'w>(
    name: &UplinkName,
    uplink: &Uplink,
    node: &NodeName,
    config: &NodeConfig,
    world: &'w World,
) -> Option<Failure<'w>> {
    let state = match world.states.lookup(StateName::of(name.as_str(), node.as_str()).as_str()) {
        Lookup::Present(state) => state,
        Lookup::Unreadable(error) => return Some(Failure::Unreadable(error)),
        Lookup::Absent => return Some(Failure::Missing),
    };
    if state.uplink != *name {
        return Some(Failure::OtherUplink(&state.uplink));
    }
    if state.node != *node {
        return Some(Failure::OtherNode(&state.node));
    }
    // Differs from upstream, which trusts a state of an earlier Uplink of the same name.
    if let Some(uid) = state.earlier_owner(&uplink.facts.uid) {
        return Some(Failure::EarlierUplink(uid));
    }
    state_failure(state, config)
}

/// Why a state that belongs to the node does not make it ready.
fn state_failure<'w>(state: &'w State, config: &NodeConfig) -> Option<Failure<'w>> {
    let host_cause = state.host_cause.as_deref().map(Failure::NotResolved);
    match &state.resolved {
        Resolved::Missing => Some(host_cause.unwrap_or(Failure::ResolvedMissing)),
        Resolved::No(reason) if reason == DiscoveryReason::WaitingForDpuHost.as_str() => {
            Some(host_cause.unwrap_or(Failure::NotResolved(reason)))
        }
        Resolved::No(reason) if reason.is_empty() => {
            Some(Failure::NotResolved(UplinkReason::UplinkStateNotResolved.as_str()))
        }
        Resolved::No(reason) => Some(Failure::NotResolved(reason)),
        Resolved::Yes => {
            let interface = state.interface.as_deref();
            let same = state.type_.as_ref() == Some(&config.type_)
                && interface == Some(config.host_interface_name.as_str());
            (!same).then_some(Failure::ConfigMismatch)
        }
    }
}
