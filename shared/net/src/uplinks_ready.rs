//! What the condition `UplinksReady` of a ClusterUserDefinedNetwork should say.
//!
//! In: the network, the nodes that need it, its Uplinks, what the nodes' states say. Out: status, reason and message, in
//! upstream's order and words. The Uplink's own `Ready` plays no part: a network that is only on healthy nodes is ready
//! while the Uplink is not.
//!
//! Differs from upstream, where only nodes notice that networks cannot share an Uplink: here all that need it in routing
//! domains of their own on one node are told, each with the names of the others.
//! Source: ovn-kubernetes cluster manager, `cudnUplinksReadyStatus`.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::network::Transport;
use causeway_api::network_condition::{NetworkCondition, UplinksReason};
use causeway_api::uplink::NodeConfig;

use crate::facts::UplinkFacts;
use crate::network::name::NodeName;
use crate::selection::{NodeConfigs, Selection};
use crate::state_name::StateName;

pub use self::state::{Gate, StateFacts};

/// How many failing checks the message names.
const EXAMPLES: usize = 3;

/// How nodes reach the outside, as the cluster is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayMode {
    /// Through a shared bridge: the only one that knows Uplinks.
    Shared,
    /// Through the host's own stack.
    Local,
    /// Not at all.
    Disabled,
}

impl fmt::Display for GatewayMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Local => "local",
            // Upstream's text ends here, as its word for this is empty.
            Self::Disabled => "disabled",
        })
    }
}

impl From<GatewayMode> for causeway_api::nad::GatewayMode {
    fn from(mode: GatewayMode) -> Self {
        match mode {
            GatewayMode::Shared => Self::Shared,
            GatewayMode::Local | GatewayMode::Disabled => Self::Other,
        }
    }
}

/// How packets of the network get from node to node, as far as it decides whether an Uplink can lead out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Geneve, or no encapsulation.
    Supported,
    /// EVPN.
    Evpn,
}

impl Carrier {
    /// Of a network with this transport.
    #[must_use]
    pub fn of(transport: Option<&Transport>) -> Self {
        match transport {
            Some(Transport::Evpn) => Self::Evpn,
            Some(Transport::NoOverlay | Transport::Unknown(_)) | None => Self::Supported,
        }
    }
}

/// The network.
#[derive(Clone, Copy, Debug)]
pub struct Network<'n> {
    /// Name of the ClusterUserDefinedNetwork.
    pub name: &'n str,
    /// Its Uplinks.
    pub uplinks: &'n [String],
    /// Its transport.
    pub carrier: Carrier,
}

/// What was found under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'f, T> {
    /// It is there.
    Present(&'f T),
    /// It is not.
    Absent,
    /// It is there and cannot be read.
    Unreadable(&'f str),
}

/// What there is to look at.
pub trait View {
    /// The Uplink of a name.
    fn uplink(&self, name: &str) -> Found<'_, UplinkFacts>;
    /// The state of a name, whatever it says about its identity.
    fn state(&self, name: &StateName) -> Found<'_, StateFacts>;
    /// Names of the other networks that need this Uplink, or its bridge by way of another one, on this node, where that
    /// cannot be: it would have to lie in several routing domains.
    fn rivals(&self, uplink: &str, node: &NodeName) -> Vec<String>;
}

/// The nodes that need the network, by name, with their labels.
pub type ActiveNodes<'n> = BTreeMap<NodeName, &'n BTreeMap<String, String>>;

/// What the condition should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its reason, which also decides its status.
    pub reason: UplinksReason,
    /// Its message.
    pub message: String,
}

/// One check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    /// What failed: an Uplink, or an Uplink on a node.
    subject: String,
    reason: UplinksReason,
    /// Networks that it fails because of.
    rivals: Vec<String>,
}

impl Failure {
    fn new(subject: String, reason: UplinksReason) -> Self {
        Self { subject, reason, rivals: Vec::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.subject, self.reason)?;
        if self.rivals.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> = self.rivals.iter().take(EXAMPLES).map(String::as_str).collect();
        write!(f, " (also used by {}", named.join(", "))?;
        match self.rivals.len().saturating_sub(EXAMPLES) {
            0 => f.write_str(")"),
            more => write!(f, " and {more} more)"),
        }
    }
}

impl Verdict {
    fn new(reason: UplinksReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Status of the condition.
    #[must_use]
    pub fn status(&self) -> ConditionStatus {
        if self.reason == UplinksReason::UplinksReady {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        }
    }

    /// The condition as its writer wants it.
    #[must_use]
    pub fn wanted(self) -> Wanted {
        Wanted {
            type_: NetworkCondition::UplinksReady.as_str(),
            status: self.status(),
            reason: self.reason.as_str(),
            message: self.message,
            observed_generation: None,
        }
    }
}

/// What the condition of a network without Uplinks says.
#[must_use]
pub fn without_uplinks() -> Verdict {
    Verdict::new(UplinksReason::UplinksReady, "CUDN does not reference an Uplink")
}

/// Decides what the condition should say. `active` may be empty: then a network is as ready as its Uplinks exist.
#[must_use]
pub fn verdict(
    network: Network<'_>,
    mode: GatewayMode,
    active: &ActiveNodes<'_>,
    view: &impl View,
) -> Verdict {
    if network.uplinks.is_empty() {
        return without_uplinks();
    }
    if mode != GatewayMode::Shared {
        return Verdict::new(
            UplinksReason::UplinkUnsupportedGatewayMode,
            format!("Uplink requires shared gateway mode, got {mode}"),
        );
    }
    if network.carrier == Carrier::Evpn {
        return Verdict::new(
            UplinksReason::UplinkUnsupportedTransport,
            "Uplink is not supported with EVPN transport",
        );
    }
    let mut failures = Vec::new();
    for name in network.uplinks {
        let uplink = match view.uplink(name) {
            Found::Present(uplink) => uplink,
            // What failed before plays no part any more.
            Found::Absent => {
                return Verdict::new(UplinksReason::UplinkNotFound, format!("Uplink {name} is missing"));
            }
            Found::Unreadable(error) => {
                return Verdict::new(
                    UplinksReason::UplinkNotFound,
                    format!("failed to get Uplink {name}: {error}"),
                );
            }
        };
        if uplink.terminating {
            failures.push(Failure::new(name.clone(), UplinksReason::UplinkTerminating));
            continue;
        }
        let configs = match &uplink.configs {
            Ok(configs) => configs,
            Err(invalid) => {
                return Verdict::new(
                    UplinksReason::UplinkNotResolvedForNode,
                    format!("Uplink {name} has invalid nodeConfigs: {invalid}"),
                );
            }
        };
        failures.extend(active.iter().filter_map(|(node, labels)| {
            let subject = || format!("{name}/{node}");
            let (config, state) = match resolved(uplink, configs, node, labels, view) {
                Ok(resolved) => resolved,
                Err(reason) => return Some(Failure::new(subject(), reason)),
            };
            // Before gateways, which cannot come about then.
            let rivals = view.rivals(name, node);
            if !rivals.is_empty() {
                let reason = UplinksReason::UplinkConfigurationConflict;
                return Some(Failure { rivals, ..Failure::new(subject(), reason) });
            }
            state.failure(config).map(|reason| Failure::new(subject(), reason))
        }));
    }
    summary(&failures)
}

/// The verdict where the nodes that need the network cannot be told.
#[must_use]
pub fn nodes_unknown(network: Network<'_>, error: &str) -> Verdict {
    Verdict::new(
        UplinksReason::UplinkNotResolvedForNode,
        format!("failed to list active nodes for CUDN {}: {error}", network.name),
    )
}

/// The entry and the state by which an Uplink leads out of a node, or why there is none; the first failing check wins.
fn resolved<'v>(
    uplink: &UplinkFacts,
    configs: &'v NodeConfigs,
    node: &NodeName,
    labels: &BTreeMap<String, String>,
    view: &'v impl View,
) -> Result<(&'v NodeConfig, &'v StateFacts), UplinksReason> {
    let config = match configs.select(labels) {
        Selection::Overlap => return Err(UplinksReason::UplinkOverlapOnNode),
        Selection::None => return Err(UplinksReason::UplinkNotFoundForNode),
        Selection::One(config) => config,
    };
    match view.state(&StateName::of(&uplink.name, node.as_str())) {
        Found::Present(state) if state.belongs_to(uplink, node) && state.is_resolved(config) => {
            Ok((config, state))
        }
        // A state of another identity says nothing about this node.
        Found::Present(_) | Found::Absent | Found::Unreadable(_) => {
            Err(UplinksReason::UplinkNotResolvedForNode)
        }
    }
}

/// All failures in one: the reason that they share, and the first few in byte order of their whole texts.
fn summary(failures: &[Failure]) -> Verdict {
    let reasons: BTreeSet<UplinksReason> = failures.iter().map(|failure| failure.reason).collect();
    let mut reasons = reasons.into_iter();
    let reason = match (reasons.next(), reasons.next()) {
        (None, _) => {
            return Verdict::new(UplinksReason::UplinksReady, "Uplinks are ready for all active CUDN nodes");
        }
        (Some(shared), None) => shared,
        (Some(_), Some(_)) => UplinksReason::UplinksNotReady,
    };
    let mut texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
    texts.sort_unstable();
    texts.truncate(EXAMPLES);
    Verdict::new(
        reason,
        format!(
            "{} active node/uplink readiness check(s) failed; examples: {}",
            failures.len(),
            texts.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests;
