//! EgressIPs: the nodes that they are assigned to need the primary networks of the namespaces that they are for, as packets
//! leave there.
//!
//! In: EgressIPs, watched only where networks follow who needs them and EgressIPs are on; Namespaces. Out: what each needs.
//! Source: ovn-kubernetes `networkmanager/egressip_tracker.go`. Differs from it: a change of the selector counts at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_net::namespaces::NamespaceSelector;
use causeway_net::network::name::{Namespace, NodeName};
use causeway_runtime::health::Readiness;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Change, Store, Watch, WatchMetrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, Client, CustomResource};
use serde::{Deserialize, Serialize};

use crate::observed::Stores;
use crate::observed::place::Place;

/// The part of an EgressIP that is read. Source: ovn-kubernetes `pkg/crd/egressip/v1`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "EgressIP",
    plural = "egressips",
    status = "EgressIpStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EgressIpSpec {
    /// The namespaces whose pods leave by it.
    #[serde(default)]
    namespace_selector: LabelSelector,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct EgressIpStatus {
    #[serde(default)]
    items: Vec<EgressIpItem>,
}

/// One address on one node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct EgressIpItem {
    #[serde(default)]
    node: String,
}

/// Name of an EgressIP.
pub(super) type EgressIpName = Arc<str>;

/// An EgressIP, cut down to what matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    nodes: BTreeSet<NodeName>,
    /// None for a selector that cannot be used: it selects nothing.
    namespaces: Option<NamespaceSelector>,
}

/// What an EgressIP needs: these namespaces' networks on these nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The nodes.
    pub(super) nodes: BTreeSet<NodeName>,
    /// The namespaces.
    pub(super) namespaces: BTreeSet<Namespace>,
}

/// All EgressIPs. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Egress {
    all: Store<EgressIpName, Assigned>,
    stores: Stores,
}

/// The watch, before it runs.
pub(super) type EgressWatch = Watch<EgressIP, EgressIpName, Assigned>;

/// A watch over this connection.
pub(super) fn watch(client: &Client, metrics: &WatchMetrics) -> EgressWatch {
    let key = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        meta.name.as_deref().map(Arc::from)
    };
    let slim = |object: EgressIP| Some(Assigned::of(&object));
    Watch::new(Api::all(client.clone()), watch::config(), key, slim).metered(metrics)
}

/// Starts a watch. An API server that is away is waited for; `readiness` says so meanwhile.
pub(super) fn start(watch: EgressWatch, tasks: &Tasks, readiness: &Readiness) {
    let store = watch.store();
    readiness.add("EgressIPs", move || store.readiness().map_err(|error| error.to_string()));
    tasks.spawn("watch of EgressIPs", watch.run(tasks.stop()));
}

impl Assigned {
    fn of(object: &EgressIP) -> Self {
        let items = object.status.iter().flat_map(|status| &status.items);
        Self {
            nodes: items
                .filter(|item| !item.node.is_empty())
                .map(|item| NodeName::from(item.node.as_str()))
                .collect(),
            namespaces: NamespaceSelector::parse(&object.spec.namespace_selector).ok(),
        }
    }

    fn selects(&self, place: Option<&Place>) -> bool {
        self.namespaces.as_ref().zip(place).is_some_and(|(selector, place)| selector.selects(&place.labels))
    }
}

impl Egress {
    pub(super) const fn new(all: Store<EgressIpName, Assigned>, stores: Stores) -> Self {
        Self { all, stores }
    }

    /// Waits until they have been listed once.
    pub(super) async fn wait_synced(&self) {
        self.all.wait_synced().await;
    }

    /// What every EgressIP needs.
    pub(super) fn needs(&self) -> BTreeMap<EgressIpName, Needs> {
        self.all.snapshot().iter().map(|(name, assigned)| (name.clone(), self.of(assigned))).collect()
    }

    /// What one needs after its change.
    pub(super) fn after(&self, change: &Change<'_, EgressIpName, Assigned>) -> Needs {
        change.new.as_ref().map(|assigned| self.of(assigned)).unwrap_or_default()
    }

    /// What those need that a Namespace's change of labels concerns.
    pub(super) fn concerned(&self, change: &Change<'_, Namespace, Place>) -> Vec<(EgressIpName, Needs)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let all = self.all.snapshot();
        let concerned = all.iter().filter(|(_, assigned)| assigned.selects(old) != assigned.selects(new));
        concerned.map(|(name, assigned)| (name.clone(), self.of(assigned))).collect()
    }

    fn of(&self, assigned: &Assigned) -> Needs {
        let places = self.stores.namespaces();
        let selected = places.iter().filter(|(_, place)| assigned.selects(Some(place)));
        let namespaces = selected.map(|(name, _)| name.clone()).collect();
        Needs { nodes: assigned.nodes.clone(), namespaces }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observed::fixtures::{Seen, namespace};

    fn assigned(selector: &Value, nodes: &[&str]) -> Assigned {
        let items: Vec<Value> =
            nodes.iter().map(|node| json!({"node": node, "egressIP": "192.0.2.1"})).collect();
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP", "metadata": {"name": "out"},
            "spec": {"egressIPs": ["192.0.2.1"], "namespaceSelector": selector}, "status": {"items": items},
        });
        Assigned::of(&serde_json::from_value(object).unwrap())
    }

    fn egress(all: Vec<(&str, Assigned)>, namespaces: Vec<Value>) -> Egress {
        let stores = Seen { namespaces, ..Seen::default() }.stores(causeway_api::nad::GatewayMode::Shared);
        Egress::new(Store::fixed("EgressIP", all.into_iter().map(|(name, ip)| (name.into(), ip))), stores)
    }

    fn names<T: ToString>(all: &BTreeSet<T>) -> String {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_egress_ip_needs_the_networks_of_its_namespaces_on_the_nodes_that_it_is_on() {
        let team = |team: &str| json!({"matchLabels": {"team": team}});
        let bad = json!({"matchExpressions": [{"key": "team", "operator": "Foo"}]});
        let all = vec![
            ("blue", assigned(&team("blue"), &["n2", "n1", ""])),
            ("all", assigned(&json!({}), &["n3"])),
            ("bad", assigned(&bad, &["n1"])),
            ("nowhere", assigned(&team("blue"), &[])),
        ];
        let places = vec![namespace("a", json!({"team": "blue"})), namespace("b", json!({"team": "red"}))];
        let needs = egress(all, places).needs();
        let of = |name: &str| (names(&needs[name].nodes), names(&needs[name].namespaces));
        assert_eq!(of("blue"), ("n1 n2".into(), "a".into()));
        assert_eq!(of("all"), ("n3".into(), "a b".into()));
        assert_eq!(of("bad"), ("n1".into(), String::new()));
        assert_eq!(of("nowhere"), (String::new(), "a".into()));
    }

    #[test]
    fn a_namespace_concerns_those_that_choose_it_otherwise_than_before() {
        let team = |team: &str| json!({"matchLabels": {"team": team}});
        let all = vec![
            ("blue", assigned(&team("blue"), &["n1"])),
            ("red", assigned(&team("red"), &["n1"])),
            ("all", assigned(&json!({}), &["n1"])),
        ];
        let egress = egress(all, vec![namespace("a", json!({"team": "blue"}))]);
        let place = |team: &str| {
            Some(Arc::new(Place {
                terminating: false,
                labels: BTreeMap::from([("team".to_owned(), team.to_owned())]),
            }))
        };
        let key = Namespace::from("a");
        let concerned = |old, new| {
            let change = Change { key: &key, old, new, unreadable: None };
            let concerned = egress.concerned(&change);
            concerned.into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(concerned(place("red"), place("blue")), "blue red");
        assert_eq!(concerned(None, place("blue")), "all blue");
        assert_eq!(concerned(place("blue"), place("blue")), "");
    }
}
