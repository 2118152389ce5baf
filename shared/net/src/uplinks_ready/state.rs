//! An UplinkState as far as it decides whether a network can use its Uplink on its node.

use std::str::FromStr;

use causeway_api::condition::{self, ConditionStatus};
use causeway_api::network_condition::UplinksReason;
use causeway_api::uplink::{NodeConfig, UplinkType};
use causeway_api::uplink_state::{StateCondition, UplinkState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::facts::UplinkFacts;
use crate::network::name::NodeName;

/// What a state says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFacts {
    /// The Uplink that it belongs to.
    pub uplink: String,
    /// The Node that it belongs to.
    pub node: String,
    /// uids of the Uplinks of that name that own it.
    pub owner_uids: Vec<String>,
    /// Kind of uplink that the node looked for.
    pub type_: Option<UplinkType>,
    /// Interface that the node looked at.
    pub interface: Option<String>,
    /// The bridge behind it.
    pub bridge: Option<String>,
    /// `Resolved`.
    pub resolved: Gate,
    /// `GatewayReady`.
    pub gateway: Gate,
    /// `HostDataReady`: only the host of a card says something.
    pub host_data: Gate,
    /// `HostGatewayReady`.
    pub host_gateway: Gate,
}

/// What one condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// There is no such condition.
    Missing,
    /// True.
    Open,
    /// False or unknown, with its reason.
    Closed(String),
}

impl Gate {
    fn of(conditions: &[Condition], type_: StateCondition) -> Self {
        match condition::find(conditions, type_.as_str()) {
            None => Self::Missing,
            Some(found) if found.status == ConditionStatus::True.as_str() => Self::Open,
            Some(found) => Self::Closed(found.reason.clone()),
        }
    }

    /// Why a gateway is not there, in the words of the network's condition; none if it is.
    fn gateway_failure(&self) -> Option<UplinksReason> {
        match self {
            Self::Open => None,
            Self::Missing => Some(UplinksReason::UplinksNotReady),
            Self::Closed(reason) => Some(gateway_reason(reason)),
        }
    }
}

/// Reasons of gateways that networks repeat. Others mean nothing to whoever looks at the network.
fn gateway_reason(reason: &str) -> UplinksReason {
    match UplinksReason::from_str(reason) {
        Ok(
            known @ (UplinksReason::GatewayConfigurationPending
            | UplinksReason::UplinkVrfAttachmentFailed
            | UplinksReason::UplinkBridgeMappingFailed
            | UplinksReason::UplinkGatewayProgrammingFailed
            | UplinksReason::UplinkConfigurationConflict),
        ) => known,
        Ok(_) | Err(_) => UplinksReason::UplinksNotReady,
    }
}

impl StateFacts {
    /// From the API object.
    #[must_use]
    pub fn of(state: &UplinkState) -> Self {
        let conditions = state.status.as_ref().map_or(&[][..], |status| status.conditions.as_slice());
        let owners = state.metadata.owner_references.iter().flatten();
        let status = state.status.as_ref();
        Self {
            uplink: state.spec.uplink_name.clone(),
            node: state.spec.node_name.clone(),
            owner_uids: owners
                .filter(|owner| owner.kind == "Uplink" && owner.name == state.spec.uplink_name)
                .map(|owner| owner.uid.clone())
                .collect(),
            type_: status.and_then(|status| status.type_.clone()),
            interface: status.and_then(|status| status.host_interface_name.clone()),
            bridge: status.and_then(|status| status.ovs_bridge.as_ref()?.name.clone()),
            resolved: Gate::of(conditions, StateCondition::Resolved),
            gateway: Gate::of(conditions, StateCondition::GatewayReady),
            host_data: Gate::of(conditions, StateCondition::HostDataReady),
            host_gateway: Gate::of(conditions, StateCondition::HostGatewayReady),
        }
    }

    /// Whether it is about this Uplink on this node, and not about an earlier Uplink of the same name.
    #[must_use]
    pub fn belongs_to(&self, uplink: &UplinkFacts, node: &NodeName) -> bool {
        self.uplink == uplink.name
            && self.node == node.as_str()
            && self.owner_uids.iter().all(|owner| *owner == uplink.uid)
    }

    /// Whether the node has found what this entry, which selects it, asks for.
    #[must_use]
    pub fn is_resolved(&self, config: &NodeConfig) -> bool {
        let looked_at = self.type_.as_ref() == Some(&config.type_)
            && self.interface.as_deref() == Some(config.host_interface_name.as_str());
        self.resolved == Gate::Open && looked_at
    }

    /// Why it does not make the node ready that this entry selects; the first failing check wins.
    #[must_use]
    pub fn failure(&self, config: &NodeConfig) -> Option<UplinksReason> {
        if !self.is_resolved(config) {
            return Some(UplinksReason::UplinkNotResolvedForNode);
        }
        if let Some(reason) = self.gateway.gateway_failure() {
            return Some(reason);
        }
        match self.host_data {
            Gate::Missing => None,
            Gate::Open => self.host_gateway.gateway_failure(),
            // Differs from upstream, which does not ask whether the host's half still holds.
            Gate::Closed(_) => {
                self.host_gateway.gateway_failure().or(Some(UplinksReason::UplinkNotResolvedForNode))
            }
        }
    }
}
