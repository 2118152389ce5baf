//! Whether a network's transport can carry its packets, and what conditions say of it.
//!
//! In: the transport, what it needs of the cluster, the RouteAdvertisements that name the network. Out: the condition
//! `TransportAccepted`, and why a network with EVPN may have no NADs at all.
//! Source: ovn-kubernetes cluster manager, `transport_validation`.

use std::collections::BTreeMap;

use causeway_api::condition::{ConditionStatus, Wanted, is_true};
use causeway_api::network::Transport;
use causeway_api::network_condition::{CreatedReason, NetworkCondition, TransportReason};
use causeway_api::route_advertisements::{
    Advertisement, AdvertisementCondition, RouteAdvertisements, SelectionType,
};

use crate::routing_domain::AdvertisementFacts;
use crate::selector::Selector;

/// A transport that needs routers to be told about the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// Without encapsulation.
    NoOverlay,
    /// EVPN.
    Evpn,
}

impl Routed {
    /// Of a network with this transport; none where nobody has to be told.
    #[must_use]
    pub fn of(transport: Option<&Transport>) -> Option<Self> {
        match transport {
            Some(Transport::NoOverlay) => Some(Self::NoOverlay),
            Some(Transport::Evpn) => Some(Self::Evpn),
            Some(Transport::Unknown(_)) | None => None,
        }
    }
}

/// What keeps EVPN from working. Permanent until the cluster or the VTEP changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvpnProblem {
    /// EVPN is off.
    #[error("EVPN transport requested but EVPN feature is not enabled")]
    FeatureDisabled,
    /// EVPN needs local gateway mode.
    #[error("EVPN transport requested but EVPN feature is only supported in local gateway mode")]
    GatewayMode,
    /// There is no such VTEP.
    #[error("VTEP {0:?} referenced by EVPN configuration does not exist.")]
    VtepNotFound(String),
    /// The VTEP cannot be used.
    #[error("VTEP {0:?} exists but is not accepted.")]
    VtepNotAccepted(String),
}

impl EvpnProblem {
    /// Reason and message of `NetworkCreated` where no NAD is made for this. Texts differ from those of
    /// `TransportAccepted`, as upstream's do.
    #[must_use]
    pub fn created(&self) -> (CreatedReason, String) {
        match self {
            Self::FeatureDisabled | Self::GatewayMode => (CreatedReason::EvpnConfigError, self.to_string()),
            Self::VtepNotFound(vtep) => (
                CreatedReason::VtepNotFound,
                format!(
                    "Cannot create network: VTEP '{vtep}' does not exist. Create the VTEP CR first or update the CUDN \
                     to reference an existing VTEP."
                ),
            ),
            Self::VtepNotAccepted(vtep) => (
                CreatedReason::VtepNotAccepted,
                format!(
                    "Cannot create network: VTEP '{vtep}' exists but is not accepted. The VTEP must be in Accepted \
                     status before the network can be created."
                ),
            ),
        }
    }

    /// Whether NADs that are there stay as they are: a VTEP that loses its acceptance takes no network away.
    #[must_use]
    pub fn freezes_nads(&self) -> bool {
        match self {
            Self::VtepNotAccepted(_) => true,
            Self::FeatureDisabled | Self::GatewayMode | Self::VtepNotFound(_) => false,
        }
    }

    fn reason(&self) -> TransportReason {
        match self {
            Self::FeatureDisabled | Self::GatewayMode => TransportReason::EvpnConfigError,
            Self::VtepNotFound(_) => TransportReason::VtepNotFound,
            Self::VtepNotAccepted(_) => TransportReason::VtepNotAccepted,
        }
    }
}

/// A RouteAdvertisements as far as it carries transports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertiser {
    name: String,
    /// Selectors of ClusterUserDefinedNetworks whose pods it tells routers about.
    selectors: Vec<Selector>,
    accepted: bool,
    /// To whom, and of which nodes.
    facts: AdvertisementFacts,
}

impl Advertiser {
    /// From the API object; none for one without name, which the API server never sends.
    #[must_use]
    pub fn of(object: &RouteAdvertisements) -> Option<Self> {
        let pods = object.spec.advertisements.contains(&Advertisement::PodNetwork);
        let cudns = object
            .spec
            .network_selectors
            .iter()
            .filter(|selector| selector.network_selection_type == SelectionType::ClusterUserDefinedNetworks)
            .filter_map(|selector| selector.cluster_user_defined_network_selector.as_ref());
        // A selector that cannot be used selects nothing; its own object tells so.
        let selectors = cudns.filter_map(|cudns| Selector::parse(&cudns.network_selector).ok());
        Some(Self {
            name: object.metadata.name.clone()?,
            selectors: selectors.filter(|_| pods).collect(),
            accepted: is_true(object.conditions(), AdvertisementCondition::Accepted.as_str()),
            facts: AdvertisementFacts::of(object),
        })
    }

    /// What it says about routing domains.
    #[must_use]
    pub fn facts(&self) -> &AdvertisementFacts {
        &self.facts
    }

    /// Whether it tells routers about the pods of a network with these labels.
    #[must_use]
    pub fn advertises(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selectors.iter().any(|selector| selector.matches(labels))
    }
}

/// Whether RouteAdvertisements are switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAdvertisementsFeature {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// `TransportAccepted` of a network. `advertisers` are those that tell routers about it; one that is accepted is enough.
#[must_use]
pub fn accepted<'a>(
    transport: Routed,
    problem: Option<&EvpnProblem>,
    feature: RouteAdvertisementsFeature,
    advertisers: impl IntoIterator<Item = &'a Advertiser>,
) -> Wanted {
    let (reason, message) = verdict(transport, problem, feature, advertisers);
    let status = match reason {
        TransportReason::NoOverlayAccepted | TransportReason::EvpnAccepted => ConditionStatus::True,
        TransportReason::VtepNotFound
        | TransportReason::VtepNotAccepted
        | TransportReason::EvpnConfigError
        | TransportReason::RouteAdvertisementsNotEnabled
        | TransportReason::NoOverlayRouteAdvertisementsIsMissing
        | TransportReason::NoOverlayRouteAdvertisementsNotAccepted
        | TransportReason::EvpnRouteAdvertisementsIsMissing
        | TransportReason::EvpnRouteAdvertisementsNotAccepted => ConditionStatus::False,
    };
    Wanted {
        type_: NetworkCondition::TransportAccepted.as_str(),
        status,
        reason: reason.as_str(),
        message,
        observed_generation: None,
    }
}

fn verdict<'a>(
    transport: Routed,
    problem: Option<&EvpnProblem>,
    feature: RouteAdvertisementsFeature,
    advertisers: impl IntoIterator<Item = &'a Advertiser>,
) -> (TransportReason, String) {
    if let Some(problem) = problem {
        return (problem.reason(), problem.to_string());
    }
    let words = match transport {
        Routed::NoOverlay => Words {
            name: "NoOverlay",
            missing: TransportReason::NoOverlayRouteAdvertisementsIsMissing,
            not_accepted: TransportReason::NoOverlayRouteAdvertisementsNotAccepted,
            accepted: (TransportReason::NoOverlayAccepted, "Transport has been configured as 'no-overlay'."),
        },
        Routed::Evpn => Words {
            name: "EVPN",
            missing: TransportReason::EvpnRouteAdvertisementsIsMissing,
            not_accepted: TransportReason::EvpnRouteAdvertisementsNotAccepted,
            accepted: (TransportReason::EvpnAccepted, "Transport has been configured as 'EVPN'."),
        },
    };
    if feature == RouteAdvertisementsFeature::Off {
        let message =
            format!("RouteAdvertisements feature is not enabled but required for {} transport.", words.name);
        return (TransportReason::RouteAdvertisementsNotEnabled, message);
    }
    let mut waiting = Vec::new();
    for advertiser in advertisers {
        if advertiser.accepted {
            let (reason, message) = words.accepted;
            return (reason, message.to_owned());
        }
        waiting.push(advertiser.name.as_str());
    }
    if waiting.is_empty() {
        return (words.missing, "No RouteAdvertisements CR is advertising the pod networks.".to_owned());
    }
    // Upstream names them in the order in which its cache gives them.
    waiting.sort_unstable();
    let names = waiting.join(", ");
    let message =
        format!("RouteAdvertisements CR {names} advertises the pod subnets, but its status is not accepted.");
    (words.not_accepted, message)
}

/// What the two transports say in the same cases.
struct Words {
    name: &'static str,
    missing: TransportReason,
    not_accepted: TransportReason,
    accepted: (TransportReason, &'static str),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ra(name: &str, accepted: Option<&str>, advertisements: &[&str], selectors: &Value) -> Advertiser {
        let conditions: Vec<Value> = accepted
            .iter()
            .map(|status| {
                json!({"type": "Accepted", "status": status, "reason": "r", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": name},
            "spec": {"networkSelectors": selectors, "nodeSelector": {}, "frrConfigurationSelector": {},
                "advertisements": advertisements},
            "status": {"conditions": conditions},
        });
        Advertiser::of(&serde_json::from_value(object).unwrap()).unwrap()
    }

    fn cudns(labels: &Value) -> Value {
        json!([{"networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": labels}}}])
    }

    fn says(
        transport: Routed,
        problem: Option<&EvpnProblem>,
        feature: RouteAdvertisementsFeature,
        named: &[&Advertiser],
    ) -> String {
        let wanted = accepted(transport, problem, feature, named.iter().copied());
        assert_eq!(wanted.type_, "TransportAccepted");
        format!("{}/{}: {}", wanted.status, wanted.reason, wanted.message)
    }

    #[test]
    fn what_a_transport_lacks_is_told_in_the_captured_words() {
        use RouteAdvertisementsFeature::{Off, On};
        let all = cudns(&json!({}));
        let yes = ra("yes", Some("True"), &["PodNetwork"], &all);
        let (no, unseen) =
            (ra("b", Some("False"), &["PodNetwork"], &all), ra("a", None, &["PodNetwork"], &all));
        for (transport, feature, named, want) in [
            (
                Routed::NoOverlay,
                Off,
                &[&yes][..],
                "False/RouteAdvertisementsNotEnabled: RouteAdvertisements feature is not enabled but required for NoOverlay transport.",
            ),
            (
                Routed::Evpn,
                Off,
                &[],
                "False/RouteAdvertisementsNotEnabled: RouteAdvertisements feature is not enabled but required for EVPN transport.",
            ),
            (
                Routed::NoOverlay,
                On,
                &[],
                "False/NoOverlayRouteAdvertisementsIsMissing: No RouteAdvertisements CR is advertising the pod networks.",
            ),
            (
                Routed::Evpn,
                On,
                &[],
                "False/EVPNRouteAdvertisementsIsMissing: No RouteAdvertisements CR is advertising the pod networks.",
            ),
            (
                Routed::NoOverlay,
                On,
                &[&no, &unseen],
                "False/NoOverlayRouteAdvertisementsNotAccepted: RouteAdvertisements CR a, b advertises the pod subnets, but its status is not accepted.",
            ),
            (
                Routed::Evpn,
                On,
                &[&no],
                "False/EVPNRouteAdvertisementsNotAccepted: RouteAdvertisements CR b advertises the pod subnets, but its status is not accepted.",
            ),
            (
                Routed::NoOverlay,
                On,
                &[&no, &yes],
                "True/NoOverlayTransportAccepted: Transport has been configured as 'no-overlay'.",
            ),
            (
                Routed::Evpn,
                On,
                &[&yes],
                "True/EVPNTransportAccepted: Transport has been configured as 'EVPN'.",
            ),
        ] {
            assert_eq!(says(transport, None, feature, named), want);
        }
    }

    #[test]
    fn what_keeps_evpn_from_working_is_told_first_and_twice_in_different_words() {
        let on = RouteAdvertisementsFeature::On;
        for (problem, transport, created, freezes) in [
            (
                EvpnProblem::FeatureDisabled,
                "False/EVPNConfigError: EVPN transport requested but EVPN feature is not enabled",
                "EVPNConfigError: EVPN transport requested but EVPN feature is not enabled",
                false,
            ),
            (
                EvpnProblem::GatewayMode,
                "False/EVPNConfigError: EVPN transport requested but EVPN feature is only supported in local gateway mode",
                "EVPNConfigError: EVPN transport requested but EVPN feature is only supported in local gateway mode",
                false,
            ),
            (
                EvpnProblem::VtepNotFound("v1".into()),
                "False/VTEPNotFound: VTEP \"v1\" referenced by EVPN configuration does not exist.",
                "VTEPNotFound: Cannot create network: VTEP 'v1' does not exist. Create the VTEP CR first or update the CUDN to reference an existing VTEP.",
                false,
            ),
            (
                EvpnProblem::VtepNotAccepted("v1".into()),
                "False/VTEPNotAccepted: VTEP \"v1\" exists but is not accepted.",
                "VTEPNotAccepted: Cannot create network: VTEP 'v1' exists but is not accepted. The VTEP must be in Accepted status before the network can be created.",
                true,
            ),
        ] {
            assert_eq!(says(Routed::Evpn, Some(&problem), on, &[]), transport);
            let (reason, message) = problem.created();
            assert_eq!(format!("{reason}: {message}"), created);
            assert_eq!(problem.freezes_nads(), freezes, "{problem}");
        }
    }

    #[test]
    fn only_transports_without_an_overlay_of_ours_need_routers() {
        assert_eq!(Routed::of(None), None);
        assert_eq!(Routed::of(Some(&Transport::NoOverlay)), Some(Routed::NoOverlay));
        assert_eq!(Routed::of(Some(&Transport::Evpn)), Some(Routed::Evpn));
        assert_eq!(Routed::of(Some(&Transport::Unknown("Pigeon".into()))), None);
    }

    #[test]
    fn only_selectors_of_cudns_and_advertisements_of_pods_count() {
        let blue = [("tenant".to_owned(), "blue".to_owned())].into();
        let matching = json!({"tenant": "blue"});
        let udns = json!([{"networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {}}}]);
        for (advertisements, selectors, want) in [
            (&["PodNetwork"][..], cudns(&matching), true),
            (&["EgressIP", "PodNetwork"], cudns(&json!({})), true),
            (&["EgressIP"], cudns(&matching), false),
            (&["PodNetwork"], cudns(&json!({"tenant": "red"})), false),
            (&["PodNetwork"], cudns(&json!({"ten ant": "blue"})), false),
            (&["PodNetwork"], udns, false),
        ] {
            let advertiser = ra("r", None, advertisements, &selectors);
            assert_eq!(advertiser.advertises(&blue), want, "{advertisements:?} {selectors}");
        }
    }
}
