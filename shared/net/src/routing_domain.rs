//! In which routing domain the gateway of a network lies on a node: the default one, or the network's own VRF.
//!
//! In: the RouteAdvertisements that a network's NADs name, a Node's labels. Out: where routes of the network go on that
//! Node. Source: ovn-kubernetes `networkmanager` route advertisements of a network, `udn_gateway`.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::condition::{self, ConditionStatus};
use causeway_api::network::Transport;
use causeway_api::route_advertisements::{Advertisement, AdvertisementCondition, RouteAdvertisements};

use crate::network::id::NetworkId;
use crate::network::name::{NetworkName, NodeName};
use crate::selector::{Selector, SelectorError};

/// The routing domain that an advertisement without a target is for. As a target it is the same word, upstream cannot
/// tell the two apart.
const DEFAULT_DOMAIN: &str = "default";

/// A RouteAdvertisements as far as it decides routing domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisementFacts {
    /// Whether it tells routers about pods, and was accepted as it is now.
    standing: Standing,
    /// The domain that it is for.
    target: String,
    /// The nodes that it is for.
    nodes: Result<Selector, SelectorError>,
}

/// What a RouteAdvertisements counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is accepted and tells routers about pods.
    Counts,
    /// It is accepted and tells them about something else, or nobody has looked at it yet.
    Ignored,
    /// It is not accepted, or not as it is now.
    Pending,
}

impl AdvertisementFacts {
    /// From the API object.
    #[must_use]
    pub fn of(object: &RouteAdvertisements) -> Self {
        let accepted = condition::find(object.conditions(), AdvertisementCondition::Accepted.as_str());
        let pods = object.spec.advertisements.contains(&Advertisement::PodNetwork);
        let standing = match accepted {
            None => Standing::Ignored,
            Some(found) => {
                let current = found.observed_generation == object.metadata.generation;
                match found.status == ConditionStatus::True.as_str() && current {
                    false => Standing::Pending,
                    true if pods => Standing::Counts,
                    true => Standing::Ignored,
                }
            }
        };
        let target = object.spec.target_vrf.as_deref().filter(|target| !target.is_empty());
        Self {
            standing,
            target: target.unwrap_or(DEFAULT_DOMAIN).to_owned(),
            nodes: Selector::parse(&object.spec.node_selector),
        }
    }
}

/// Which domains the pods of a network are told about, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised(BTreeMap<NodeName, BTreeSet<String>>);

/// Which node is told to whom; none where one of the named RouteAdvertisements is missing or not accepted as it is now:
/// then whatever was decided before stays, for the whole network, so that routes do not flap.
pub fn advertised<'a, 'n>(
    named: impl IntoIterator<Item = Option<&'a AdvertisementFacts>>,
    nodes: impl IntoIterator<Item = (&'n NodeName, &'n BTreeMap<String, String>)>,
) -> Option<Advertised> {
    let mut counting = Vec::new();
    for facts in named {
        let facts = facts?;
        match facts.standing {
            Standing::Pending => return None,
            Standing::Ignored => continue,
            Standing::Counts => {}
        }
        // An accepted one has a selector that works; one that does not selects nothing.
        counting.extend(facts.nodes.as_ref().ok().map(|selector| (selector, &facts.target)));
    }
    let mut found = Advertised::default();
    for (node, labels) in nodes {
        for (_, target) in counting.iter().filter(|(selector, _)| selector.matches(labels)) {
            found.0.entry(node.clone()).or_default().insert((*target).clone());
        }
    }
    Some(found)
}

/// Where routes of a network go on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutingDomain {
    /// Into the node's default VRF.
    Default,
    /// Into the network's own VRF.
    Vrf {
        /// Its name.
        name: String,
    },
}

/// How packets of a network get from node to node, as far as it decides its routing domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// Encapsulated: the network is told to routers only if somebody asks for it.
    Yes,
    /// Not: it always counts as told.
    No,
}

impl Overlay {
    /// Of a network with this transport.
    #[must_use]
    pub fn of(transport: Option<&Transport>) -> Self {
        match transport {
            Some(Transport::NoOverlay) => Self::No,
            Some(Transport::Evpn | Transport::Unknown(_)) | None => Self::Yes,
        }
    }
}

/// The routing domain of a network on a node: its own, if the network is told to routers there and none of those is for
/// the default one.
#[must_use]
pub fn effective(
    network: &NetworkName,
    id: NetworkId,
    overlay: Overlay,
    advertised: &Advertised,
    node: &NodeName,
) -> RoutingDomain {
    if is_apart(overlay, advertised, node) {
        RoutingDomain::Vrf { name: network.vrf(id) }
    } else {
        RoutingDomain::Default
    }
}

/// Whether a network has a routing domain of its own on a node, whatever that is called.
#[must_use]
pub fn is_apart(overlay: Overlay, advertised: &Advertised, node: &NodeName) -> bool {
    let targets = advertised.0.get(node);
    let told = overlay == Overlay::No || targets.is_some_and(|targets| !targets.is_empty());
    let default = targets.is_some_and(|targets| targets.contains(DEFAULT_DOMAIN));
    told && !default
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ra(
        target: Option<&str>,
        advertisements: &[&str],
        accepted: Option<(&str, i64)>,
        selector: &Value,
    ) -> AdvertisementFacts {
        let conditions: Vec<Value> = accepted
            .iter()
            .map(|(status, generation)| {
                json!({"type": "Accepted", "status": status, "reason": "Accepted", "message": "",
                    "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let mut object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements",
            "metadata": {"name": "r", "generation": 2},
            "spec": {"networkSelectors": [], "nodeSelector": selector, "frrConfigurationSelector": {},
                "advertisements": advertisements},
            "status": {"conditions": conditions},
        });
        if let Some(target) = target {
            object["spec"]["targetVRF"] = json!(target);
        }
        AdvertisementFacts::of(&serde_json::from_value(object).unwrap())
    }

    fn accepted(target: Option<&str>) -> AdvertisementFacts {
        ra(target, &["PodNetwork"], Some(("True", 2)), &json!({}))
    }

    fn nodes() -> BTreeMap<NodeName, BTreeMap<String, String>> {
        let label = |zone: &str| [("zone".to_owned(), zone.to_owned())].into();
        [("a".into(), label("east")), ("b".into(), label("west"))].into()
    }

    fn domain(named: &[&AdvertisementFacts], overlay: Overlay, node: &str) -> RoutingDomain {
        let found = advertised(named.iter().map(|facts| Some(*facts)), &nodes()).unwrap();
        let id = NetworkId::try_from(7).unwrap();
        effective(&NetworkName::of_cudn("blue"), id, overlay, &found, &node.into())
    }

    fn vrf() -> RoutingDomain {
        RoutingDomain::Vrf { name: "blue".into() }
    }

    #[test]
    fn a_network_lies_in_its_own_vrf_if_it_is_told_to_routers_and_not_to_those_of_the_default_one() {
        let (auto, other, default) = (accepted(Some("auto")), accepted(Some("red")), accepted(None));
        for (named, overlay, want) in [
            (&[][..], Overlay::of(None), RoutingDomain::Default),
            (&[], Overlay::of(Some(&Transport::NoOverlay)), vrf()),
            (&[], Overlay::of(Some(&Transport::Evpn)), RoutingDomain::Default),
            (&[&auto], Overlay::Yes, vrf()),
            (&[&other], Overlay::Yes, vrf()),
            (&[&default], Overlay::Yes, RoutingDomain::Default),
            (&[&default], Overlay::No, RoutingDomain::Default),
            (&[&auto, &default], Overlay::Yes, RoutingDomain::Default),
            (&[&accepted(Some(""))], Overlay::Yes, RoutingDomain::Default),
            (&[&accepted(Some("default"))], Overlay::Yes, RoutingDomain::Default),
        ] {
            assert_eq!(domain(named, overlay, "a"), want, "{named:?} {overlay:?}");
        }
    }

    #[test]
    fn nodes_that_no_advertisement_selects_stay_in_the_default_domain() {
        let east =
            ra(Some("auto"), &["PodNetwork"], Some(("True", 2)), &json!({"matchLabels": {"zone": "east"}}));
        assert_eq!(domain(&[&east], Overlay::Yes, "a"), vrf());
        assert_eq!(domain(&[&east], Overlay::Yes, "b"), RoutingDomain::Default);
        // One node in the default domain says nothing about another.
        let west = ra(None, &["PodNetwork"], Some(("True", 2)), &json!({"matchLabels": {"zone": "west"}}));
        assert_eq!(domain(&[&east, &west], Overlay::Yes, "a"), vrf());
        assert_eq!(domain(&[&east, &west], Overlay::No, "b"), RoutingDomain::Default);
    }

    #[test]
    fn what_is_not_about_pods_or_was_never_looked_at_is_ignored() {
        let services = ra(Some("auto"), &["EgressIP"], Some(("True", 2)), &json!({}));
        let unseen = ra(Some("auto"), &["PodNetwork"], None, &json!({}));
        assert_eq!(domain(&[&services, &unseen], Overlay::Yes, "a"), RoutingDomain::Default);
    }

    #[test]
    fn what_is_missing_or_not_accepted_as_it_is_leaves_the_whole_network_as_it_was() {
        let good = accepted(Some("auto"));
        let refused = ra(Some("auto"), &["PodNetwork"], Some(("False", 2)), &json!({}));
        let outdated = ra(Some("auto"), &["PodNetwork"], Some(("True", 1)), &json!({}));
        for pending in [None, Some(&refused), Some(&outdated)] {
            assert_eq!(advertised([Some(&good), pending], &nodes()), None);
        }
        assert!(advertised([Some(&good)], &nodes()).is_some());
    }

    #[test]
    fn a_network_whose_name_no_link_can_have_gets_a_vrf_of_its_id() {
        let found = advertised([Some(&accepted(Some("auto")))], &nodes()).unwrap();
        let long = NetworkName::of_cudn("a-name-that-is-too-long");
        let id = NetworkId::try_from(7).unwrap();
        let domain = effective(&long, id, Overlay::Yes, &found, &"a".into());
        assert_eq!(domain, RoutingDomain::Vrf { name: "mp7-udn-vrf".into() });
    }
}
