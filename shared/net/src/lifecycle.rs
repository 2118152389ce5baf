//! What becomes of the UplinkState of one Uplink on one node.
//!
//! Both sides of a node with a card run the same rules: whoever comes first creates the state.
//! Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`.

use causeway_api::label::DPU_HOST;
use causeway_api::uplink::{NodeConfig, UplinkType};
use causeway_api::uplink_state::{DiscoveryReason, UplinkState};

use crate::facts::{NodeFacts, UplinkFacts};
use crate::publish::Failure;
use crate::role::Role;
use crate::selection::Selection;

/// What is known about one Uplink on one node.
#[derive(Clone, Copy, Debug)]
pub struct World<'w> {
    /// The part of the node's work that the agent does.
    pub role: Role,
    /// Name of the Uplink.
    pub uplink_name: &'w str,
    /// Name of the node that the agent serves.
    pub node_name: &'w str,
    /// The Uplink, if there is one of that name.
    pub uplink: Option<&'w UplinkFacts>,
    /// The Node, if there is one of that name.
    pub node: Option<&'w NodeFacts>,
    /// The object that has the computed name, whatever it says about its identity.
    pub state: Option<&'w UplinkState>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next<'w> {
    /// Nothing is there and nothing should be.
    Nothing,
    /// The object of that name belongs to another pair: leave it alone.
    ForeignState(ForeignState),
    /// There is no Node of the name that the agent was given.
    NodeMissing,
    /// The state should not be there (any more), or belongs to an Uplink that was deleted and made again.
    Delete {
        /// uid of the object to delete; another object of the name stays.
        uid: String,
    },
    /// The Uplink selects the node with this entry: find out and publish.
    Discover {
        /// The Uplink.
        uplink: &'w UplinkFacts,
        /// The node.
        node: &'w NodeFacts,
        /// The entry.
        config: &'w NodeConfig,
    },
    /// The Uplink may select the node, but which entry applies cannot be told: publish why.
    Refuse {
        /// The Uplink.
        uplink: &'w UplinkFacts,
        /// Why.
        failure: Failure,
    },
}

/// An object with the state's name whose spec names another Uplink or node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "uplink state {name} reports uplinkName {found_uplink:?} and nodeName {found_node:?}, \
     expected uplinkName {uplink:?} and nodeName {node:?}"
)]
pub struct ForeignState {
    /// Name of the object.
    pub name: String,
    /// Uplink that it names.
    pub found_uplink: String,
    /// Node that it names.
    pub found_node: String,
    /// Uplink whose state was looked for.
    pub uplink: String,
    /// Node whose state was looked for.
    pub node: String,
}

/// Decides what to do, from the newest snapshots alone.
#[must_use]
pub fn next<'w>(world: &World<'w>) -> Next<'w> {
    if let Some(foreign) = world.state.and_then(|state| identity_error(world, state)) {
        return Next::ForeignState(foreign);
    }
    let Some(uplink) = world.uplink else { return remove(world) };
    let Some(node) = world.node else { return Next::NodeMissing };

    let outcome = match &uplink.configs {
        Err(invalid) => Err(Failure::new(DiscoveryReason::GatewayInfoUnavailable, invalid.to_string())),
        Ok(configs) => match configs.select(&node.labels) {
            Selection::None => return remove(world),
            Selection::Overlap => Err(Failure::new(
                DiscoveryReason::NodeSelectorOverlap,
                format!(
                    "multiple Uplink {:?} nodeConfigs select node {:?}",
                    world.uplink_name, world.node_name
                ),
            )),
            Selection::One(config) => match &config.type_ {
                UplinkType::OvsBridge => Ok(config),
                UplinkType::Unknown(other) => Err(Failure::new(
                    DiscoveryReason::GatewayInfoUnavailable,
                    format!(
                        "the nodeConfig of Uplink {:?} that selects node {:?} has type {other:?}, which this version \
                         does not support; use OVSBridge or update Causeway",
                        world.uplink_name, world.node_name
                    ),
                )),
            },
        },
    };
    match world.state {
        // Its states are deleted on purpose before its finalizer goes.
        None if uplink.terminating => return Next::Nothing,
        Some(state) if belongs_to_an_earlier_uplink(state, uplink) => return remove(world),
        Some(_) | None => {}
    }
    match outcome {
        Ok(config) => Next::Discover { uplink, node, config },
        Err(failure) => Next::Refuse { uplink, failure },
    }
}

/// A state has one that removes it: the host's side, or the cluster manager. A card does so only for a node without an
/// agent on its host, as it may not (`deploy/admission/`) and need not where there is one.
fn remove<'w>(world: &World<'w>) -> Next<'w> {
    let host_has_agent = world.node.is_none_or(|node| node.labels.contains_key(DPU_HOST));
    if world.role == Role::Dpu && host_has_agent {
        return Next::Nothing;
    }
    match world.state.and_then(|state| state.metadata.uid.clone()) {
        Some(uid) => Next::Delete { uid },
        None => Next::Nothing,
    }
}

fn identity_error(world: &World<'_>, state: &UplinkState) -> Option<ForeignState> {
    let (found_uplink, found_node) = (&state.spec.uplink_name, &state.spec.node_name);
    (found_uplink != world.uplink_name || found_node != world.node_name).then(|| ForeignState {
        name: state.metadata.name.clone().unwrap_or_default(),
        found_uplink: found_uplink.clone(),
        found_node: found_node.clone(),
        uplink: world.uplink_name.to_owned(),
        node: world.node_name.to_owned(),
    })
}

/// An owner of the same kind and name with another uid: the Uplink was deleted and made again. What such a state says
/// was said of the old one, and garbage collection would take it away sooner or later.
fn belongs_to_an_earlier_uplink(state: &UplinkState, uplink: &UplinkFacts) -> bool {
    let owners = state.metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.kind == "Uplink" && owner.name == uplink.name)
        .any(|owner| owner.uid != uplink.uid)
}

#[cfg(test)]
mod tests;
