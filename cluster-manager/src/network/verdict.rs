//! What the conditions of a network should say. Pure.

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::network::Transport;
use causeway_api::network_condition::{CreatedReason, NetworkCondition, TransportReason};
use causeway_net::network::name::{NadKey, Namespace};

use super::observe::Halt;
use crate::observed::cr::{Cr, CrKey};

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Why nothing was done.
    pub(super) halt: Option<Halt>,
    /// Namespaces that have their NetworkAttachmentDefinition.
    pub(super) there: Vec<Namespace>,
    /// NetworkAttachmentDefinitions that are being deleted.
    pub(super) terminating: Vec<NadKey>,
    /// What went wrong, a text each.
    pub(super) problems: Vec<String>,
}

/// What `NetworkCreated` should say.
pub(super) fn created(key: &CrKey, cr: &Cr, outcome: &Outcome) -> Wanted {
    let sync_error = match key {
        CrKey::Udn(_) => CreatedReason::SyncError,
        CrKey::Cudn(_) => CreatedReason::ClusterSyncError,
    };
    let (status, reason, message) = if let Some(halt) = &outcome.halt {
        let (reason, message) = match halt {
            Halt::Ignored(message) => (sync_error, (*message).to_owned()),
            Halt::Evpn(message) => (CreatedReason::EvpnConfigError, (*message).to_owned()),
            Halt::Selector(message) => (sync_error, message.clone()),
        };
        (ConditionStatus::False, reason, message)
    } else if !outcome.problems.is_empty() {
        let mut problems = outcome.problems.clone();
        problems.sort_unstable();
        problems.dedup();
        (ConditionStatus::False, sync_error, problems.join("\n"))
    } else if !outcome.terminating.is_empty() {
        let message = match key {
            CrKey::Udn(_) => "NetworkAttachmentDefinition is being deleted".to_owned(),
            CrKey::Cudn(_) => {
                format!(
                    "NetworkAttachmentDefinition are being deleted: [{}]",
                    list(&outcome.terminating, " ")
                )
            }
        };
        (ConditionStatus::False, CreatedReason::Deleted, message)
    } else {
        let message = match key {
            CrKey::Udn(_) => "NetworkAttachmentDefinition has been created".to_owned(),
            CrKey::Cudn(_) => format!(
                "NetworkAttachmentDefinition has been created in following namespaces: [{}]",
                list(&outcome.there, ", ")
            ),
        };
        (ConditionStatus::True, CreatedReason::Created, message)
    };
    Wanted {
        type_: NetworkCondition::NetworkCreated.as_str(),
        status,
        reason: reason.as_str(),
        message,
        observed_generation: cr.generation,
    }
}

fn list<T: ToString>(items: &[T], separator: &str) -> String {
    let mut items: Vec<String> = items.iter().map(T::to_string).collect();
    items.sort_unstable();
    items.join(separator)
}

/// What `TransportAccepted` should say; none for a network that names no transport.
///
/// Transports without overlay need RouteAdvertisements, and those are not served by this version: with or without the
/// switch the answer is that they are missing.
pub(super) fn transport(cr: &Cr, advertises_routes: bool, evpn_problem: Option<&str>) -> Option<Wanted> {
    let (reason, message) = match cr.network.transport.as_ref()? {
        Transport::Evpn if evpn_problem.is_some() => {
            (TransportReason::EvpnConfigError, evpn_problem.unwrap_or_default().to_owned())
        }
        transport @ (Transport::NoOverlay | Transport::Evpn) if !advertises_routes => (
            TransportReason::RouteAdvertisementsNotEnabled,
            format!(
                "RouteAdvertisements feature is not enabled but required for {} transport.",
                transport.as_str()
            ),
        ),
        Transport::NoOverlay => (
            TransportReason::NoOverlayRouteAdvertisementsIsMissing,
            "No RouteAdvertisements CR is advertising the pod networks.".to_owned(),
        ),
        Transport::Evpn => (
            TransportReason::EvpnRouteAdvertisementsIsMissing,
            "No RouteAdvertisements CR is advertising the pod networks.".to_owned(),
        ),
        Transport::Unknown(_) => return None,
    };
    Some(Wanted {
        type_: NetworkCondition::TransportAccepted.as_str(),
        status: ConditionStatus::False,
        reason: reason.as_str(),
        message,
        observed_generation: cr.generation,
    })
}
