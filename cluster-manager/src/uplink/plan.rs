//! What should be: the condition `Ready` of one Uplink and the end of states that nobody needs. Pure.
//!
//! In: a [`World`] of snapshots and the time. Out: a [`Plan`], whose steps are empty where all is as it should be.
//! Source: OVN-Kubernetes, `pkg/clustermanager/uplink/controller.go`.

#[cfg(test)]
mod laws;
mod ready;
#[cfg(test)]
mod tests;

use std::fmt;

use causeway_api::condition::{self, Wanted};
use causeway_api::uplink::{UplinkCondition, UplinkReason};
use causeway_net::network::name::NodeName;
use causeway_net::selection::Selection;
use causeway_runtime::events::Severity;
use causeway_runtime::watch::Lookup;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::observe::World;
use super::ownership::FinalizerOwner;
use super::watched::{StateKey, Uplink, UplinkName};
use crate::observed::place::Node;

pub(super) use self::ready::Verdict;

/// What to do about one Uplink, in this order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// What `Ready` should say; none for an Uplink that is gone.
    pub(super) verdict: Option<Verdict>,
    /// The same as a wish; none for an Uplink that is gone.
    pub(super) wanted: Option<Wanted>,
    /// What has to change, in the order in which it must. The finalizer goes last: nothing may be left behind
    /// when it is gone.
    pub(super) steps: Vec<Step>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Apply the status with this one condition; what else our field manager holds there is withdrawn.
    WriteReady {
        /// uid of the Uplink that was looked at.
        uid: String,
        /// Its version: if it is another one by now, this plan is not the newest.
        version: Option<String>,
        /// The condition.
        condition: Condition,
        /// The Uplink has none yet.
        is_first: bool,
        /// How to tell people; none where they know the reason already.
        news: Option<Severity>,
    },
    /// Put our finalizer on the Uplink: a network uses it.
    Protect {
        /// uid of the Uplink that was looked at.
        uid: String,
    },
    /// Delete a state.
    DeleteState(Deletion),
    /// Take our finalizer off the Uplink.
    ReleaseFinalizer {
        /// uid of the Uplink that was looked at.
        uid: String,
        /// Who holds it.
        owner: FinalizerOwner,
    },
}

/// A state that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    /// Name of the object.
    pub(super) state: StateKey,
    /// Its uid: another object of that name stays.
    pub(super) uid: String,
    /// The Node that it was made for.
    pub(super) node: NodeName,
    /// Why nobody needs it.
    pub(super) because: Stale,
}

/// Why a state has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stale {
    /// Its Uplink does not exist.
    UplinkGone,
    /// Its Uplink is being deleted and no network uses it.
    UplinkTerminating,
    /// Its Node does not exist.
    NodeGone,
    /// Its Uplink does not select its Node.
    NotSelected,
}

/// Plans everything about one Uplink.
///
/// As long as a network uses it, our finalizer is on it, and a terminating one keeps that and its states. (A finalizer
/// cannot be put on an object that is being deleted.) Without a user, a terminating one gives up its states and then our
/// finalizer; a finalizer on any other one is left from earlier.
#[must_use]
pub(super) fn uplink(name: &UplinkName, world: &World, now: Timestamp) -> Plan {
    let deletions = deletions(name, world).map(Step::DeleteState);
    let Some(uplink) = world.uplink.as_deref() else {
        return Plan { verdict: None, wanted: None, steps: deletions.collect() };
    };
    let verdict = ready::verdict(name, uplink, world);
    let wanted = Wanted {
        type_: UplinkCondition::Ready.as_str(),
        status: verdict.status(),
        reason: verdict.reason.as_str(),
        message: verdict.message.clone(),
        observed_generation: uplink.generation,
    };
    let unwritten = !wanted.is_met_by(&uplink.conditions) || uplink.owns_obsolete;
    let write = unwritten.then(|| Step::WriteReady {
        uid: uplink.facts.uid.clone(),
        version: uplink.version.clone(),
        condition: wanted.against(&uplink.conditions, now),
        is_first: condition::find(&uplink.conditions, wanted.type_).is_none(),
        news: news(&verdict, &uplink.conditions),
    });
    let protect = (world.used && !uplink.facts.terminating && uplink.finalizer.is_none())
        .then(|| Step::Protect { uid: uplink.facts.uid.clone() });
    let release = uplink.finalizer.clone().filter(|owner| match owner {
        _ if world.used => false,
        FinalizerOwner::Us => true,
        // The write of the status makes another version of the object; the pass that it causes goes on.
        FinalizerOwner::Others { .. } => !unwritten,
    });
    let release = release.map(|owner| Step::ReleaseFinalizer { uid: uplink.facts.uid.clone(), owner });
    let steps = write.into_iter().chain(protect).chain(deletions).chain(release).collect();
    Plan { verdict: Some(verdict), wanted: Some(wanted), steps }
}

/// How to tell people of a verdict, given the conditions that they can see; none if they see its reason.
///
/// What is normal in the first moment of an Uplink, that its nodes have not said anything yet, is no warning then.
fn news(verdict: &Verdict, seen: &[Condition]) -> Option<Severity> {
    let seen = condition::find(seen, UplinkCondition::Ready.as_str()).map(|seen| seen.reason.as_str());
    if seen == Some(verdict.reason.as_str()) {
        return None;
    }
    Some(match verdict.reason {
        UplinkReason::Ready | UplinkReason::UplinkTerminating => Severity::Normal,
        UplinkReason::MissingUplinkState if seen.is_none() => Severity::Normal,
        UplinkReason::MissingUplinkState
        | UplinkReason::InvalidSpec
        | UplinkReason::NodeSelectorOverlap
        | UplinkReason::NoMatchingNodes
        | UplinkReason::UplinkStateNotResolved
        | UplinkReason::UplinkStateIdentityError => Severity::Warning,
    })
}

/// The states of an Uplink that have to go.
fn deletions(name: &UplinkName, world: &World) -> impl Iterator<Item = Deletion> {
    world.states_of.iter().filter_map(move |key| {
        let state = world.states.get(key.as_str()).filter(|state| state.uplink == *name)?;
        let node = world.nodes.lookup(state.node.as_str());
        let because = stale(world.uplink.as_deref(), world.used, &node)?;
        Some(Deletion { state: key.clone(), uid: state.uid.clone(), node: state.node.clone(), because })
    })
}

/// Why a state of this Uplink on this Node has to go; none if it has to stay.
///
/// A selector that cannot be used says nothing about any node, so it takes no state away; neither does a Node that
/// exists but cannot be read.
#[must_use]
pub(super) fn stale(uplink: Option<&Uplink>, used: bool, node: &Lookup<'_, Node>) -> Option<Stale> {
    let Some(uplink) = uplink else { return Some(Stale::UplinkGone) };
    if uplink.facts.terminating {
        return (!used).then_some(Stale::UplinkTerminating);
    }
    let configs = uplink.facts.configs.as_ref().ok()?;
    match node {
        Lookup::Absent => Some(Stale::NodeGone),
        Lookup::Unreadable(_) => None,
        Lookup::Present(node) => {
            (configs.select(&node.labels) == Selection::None).then_some(Stale::NotSelected)
        }
    }
}

impl Plan {
    /// The condition that this plan writes, if it does.
    pub(super) fn status(&self) -> Option<&Condition> {
        self.steps.iter().find_map(|step| match step {
            Step::WriteReady { condition, .. } => Some(condition),
            Step::Protect { .. } | Step::DeleteState(_) | Step::ReleaseFinalizer { .. } => None,
        })
    }

    /// Leaves the condition to a later pass, and with it the finalizer: it goes last.
    pub(super) fn hold_status(&mut self) {
        self.steps.retain(|step| matches!(step, Step::Protect { .. } | Step::DeleteState(_)));
    }

    /// Whether this plan lets an Uplink go, so that no network can use it any more.
    pub(super) fn lets_go(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::ReleaseFinalizer { .. }))
    }

    /// The states that this plan deletes.
    pub(super) fn deletions(&self) -> impl Iterator<Item = &Deletion> {
        self.steps.iter().filter_map(|step| match step {
            Step::DeleteState(deletion) => Some(deletion),
            Step::WriteReady { .. } | Step::Protect { .. } | Step::ReleaseFinalizer { .. } => None,
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteReady { condition: Condition { status, reason, message, .. }, .. } => {
                write!(f, "write Ready={status}/{reason}: {message}")
            }
            Self::DeleteState(Deletion { state, because, .. }) => write!(f, "delete {state}: {because}"),
            Self::Protect { .. } => f.write_str("protect"),
            Self::ReleaseFinalizer { owner: FinalizerOwner::Us, .. } => f.write_str("release finalizer"),
            Self::ReleaseFinalizer { owner: FinalizerOwner::Others { rest, .. }, .. } => {
                write!(f, "release finalizer, leave {rest:?}")
            }
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UplinkGone => "its Uplink is gone",
            Self::UplinkTerminating => "its Uplink is terminating",
            Self::NodeGone => "its Node is gone",
            Self::NotSelected => "its Uplink does not select its Node",
        })
    }
}
