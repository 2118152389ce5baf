//! ClusterNetworkConnects: where one of the networks that they connect is needed, the others are too.
//!
//! In: ClusterNetworkConnects, watched only where networks follow who needs them and connections are on; network objects and
//! Namespaces. Out: which networks each of them connects. Connecting itself is not this room's business.
//! Source: ovn-kubernetes `clustermanager/networkconnect` (which networks are selected), `networkmanager/nad_controller.go`.
//! Differs from it: a change of what a selector chooses counts at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway_api::route_advertisements::{NetworkSelector, SelectionType};
use causeway_net::namespaces::NamespaceSelector;
use causeway_net::network::name::{Namespace, NetworkName};
use causeway_net::selector::Selector;
use causeway_runtime::health::Readiness;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Change, Store, Watch, WatchMetrics};
use kube::{Api, Client, CustomResource};
use serde::{Deserialize, Serialize};

use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};
use crate::observed::place::Place;

/// The part of a ClusterNetworkConnect that is read. Source: ovn-kubernetes `pkg/crd/clusternetworkconnect/v1`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "k8s.ovn.org",
    version = "v1",
    kind = "ClusterNetworkConnect",
    plural = "clusternetworkconnects",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterNetworkConnectSpec {
    /// The networks that are connected with each other.
    #[serde(default)]
    network_selectors: Vec<NetworkSelector>,
}

/// Name of a ClusterNetworkConnect.
pub(super) type ConnectName = Arc<str>;

/// Which networks a ClusterNetworkConnect connects. A selector that cannot be used selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// Of ClusterUserDefinedNetworks, by their labels.
    cluster: Vec<Selector>,
    /// Of UserDefinedNetworks, by their namespaces.
    tenants: Vec<NamespaceSelector>,
}

/// All ClusterNetworkConnects. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Connects {
    all: Store<ConnectName, Selection>,
    stores: Stores,
}

/// The watch, before it runs.
pub(super) type ConnectWatch = Watch<ClusterNetworkConnect, ConnectName, Selection>;

/// A watch over this connection.
pub(super) fn watch(client: &Client, metrics: &WatchMetrics) -> ConnectWatch {
    let key = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        meta.name.as_deref().map(Arc::from)
    };
    let slim = |object: ClusterNetworkConnect| Some(Selection::of(&object));
    Watch::new(Api::all(client.clone()), watch::config(), key, slim).metered(metrics)
}

/// Starts a watch. An API server that is away is waited for; `readiness` says so meanwhile.
pub(super) fn start(watch: ConnectWatch, tasks: &Tasks, readiness: &Readiness) {
    let store = watch.store();
    readiness.add("ClusterNetworkConnects", move || store.readiness().map_err(|error| error.to_string()));
    tasks.spawn("watch of ClusterNetworkConnects", watch.run(tasks.stop()));
}

impl Selection {
    fn of(object: &ClusterNetworkConnect) -> Self {
        let mut selection = Self::default();
        for selector in &object.spec.network_selectors {
            match selector.network_selection_type {
                SelectionType::ClusterUserDefinedNetworks => {
                    let by = selector.cluster_user_defined_network_selector.as_ref();
                    selection.cluster.extend(by.and_then(|by| Selector::parse(&by.network_selector).ok()));
                }
                SelectionType::PrimaryUserDefinedNetworks => {
                    let by = selector.primary_user_defined_network_selector.as_ref();
                    let parsed = by.and_then(|by| NamespaceSelector::parse(&by.namespace_selector).ok());
                    selection.tenants.extend(parsed);
                }
                // The definition refuses them.
                _ => {}
            }
        }
        selection
    }

    fn selects_place(&self, place: Option<&Place>) -> bool {
        place.is_some_and(|place| self.tenants.iter().any(|selector| selector.selects(&place.labels)))
    }
}

impl Connects {
    pub(super) const fn new(all: Store<ConnectName, Selection>, stores: Stores) -> Self {
        Self { all, stores }
    }

    /// Waits until they have been listed once.
    pub(super) async fn wait_synced(&self) {
        self.all.wait_synced().await;
    }

    /// What every ClusterNetworkConnect connects.
    pub(super) fn connected(&self) -> Vec<(ConnectName, BTreeSet<NetworkName>)> {
        self.all.snapshot().iter().map(|(name, selection)| (name.clone(), self.of(selection))).collect()
    }

    /// What one connects after its change.
    pub(super) fn after(&self, change: &Change<'_, ConnectName, Selection>) -> BTreeSet<NetworkName> {
        change.new.as_ref().map(|selection| self.of(selection)).unwrap_or_default()
    }

    /// What those connect that a Namespace's change of labels concerns.
    pub(super) fn on_namespace(
        &self,
        change: &Change<'_, Namespace, Place>,
    ) -> Vec<(ConnectName, BTreeSet<NetworkName>)> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        self.concerned(|selection| selection.selects_place(old) != selection.selects_place(new))
    }

    /// What those connect that select a network object before its change or after it, but not both times.
    pub(super) fn on_network(
        &self,
        key: &CrKey,
        old: Option<&Cr>,
        new: Option<&Cr>,
    ) -> Vec<(ConnectName, BTreeSet<NetworkName>)> {
        let seen = |cr: Option<&Cr>| cr.map(|cr| (cr.is_primary(), cr.labels.clone()));
        if seen(old) == seen(new) {
            return Vec::new();
        }
        self.concerned(|selection| {
            let selects = |cr: Option<&Cr>| cr.is_some_and(|cr| self.selects(selection, key, cr));
            selects(old) != selects(new)
        })
    }

    fn concerned(&self, concerns: impl Fn(&Selection) -> bool) -> Vec<(ConnectName, BTreeSet<NetworkName>)> {
        let all = self.all.snapshot();
        let concerned = all.iter().filter(|(_, selection)| concerns(selection));
        concerned.map(|(name, selection)| (name.clone(), self.of(selection))).collect()
    }

    fn of(&self, selection: &Selection) -> BTreeSet<NetworkName> {
        let crs = self.stores.crs();
        crs.iter()
            .filter(|(key, cr)| self.selects(selection, key, cr))
            .map(|(key, _)| key.network())
            .collect()
    }

    fn selects(&self, selection: &Selection, key: &CrKey, cr: &Cr) -> bool {
        if !cr.is_primary() {
            return false;
        }
        match key.namespace() {
            None => selection.cluster.iter().any(|selector| selector.matches(&cr.labels)),
            Some(namespace) => {
                let places = self.stores.namespaces();
                selection.selects_place(places.get(namespace.as_str()).map(AsRef::as_ref))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::nad::GatewayMode;
    use serde_json::{Value, json};

    use super::*;
    use crate::observed::fixtures::{Seen, cudn, layer3, namespace, udn, with};

    fn selection(selectors: &Value) -> Selection {
        let object = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterNetworkConnect",
            "metadata": {"name": "c"}, "spec": {"networkSelectors": selectors}});
        Selection::of(&serde_json::from_value(object).unwrap())
    }

    fn by_label(value: &str) -> Value {
        json!({"networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tenant": value}}}})
    }

    fn by_namespace(value: &str) -> Value {
        json!({"networkSelectionType": "PrimaryUserDefinedNetworks",
            "primaryUserDefinedNetworkSelector": {"namespaceSelector": {"matchLabels": {"team": value}}}})
    }

    #[test]
    fn primary_networks_of_both_kinds_are_selected_and_nothing_else() {
        let labelled = |name: &str, tenant: &str| {
            with(cudn(name, layer3()), "/metadata/labels", json!({"tenant": tenant}))
        };
        let secondary = with(labelled("second", "blue"), "/spec/network/layer3/role", json!("Secondary"));
        let seen = Seen {
            cudns: vec![labelled("one", "blue"), labelled("two", "red"), secondary],
            udns: vec![udn("a", "net", layer3()), udn("b", "net", layer3())],
            namespaces: vec![namespace("a", json!({"team": "a"})), namespace("b", json!({"team": "b"}))],
            ..Seen::default()
        };
        let connects = Connects {
            all: Store::fixed("ClusterNetworkConnect", []),
            stores: seen.stores(GatewayMode::Shared),
        };
        for (selectors, want) in [
            (json!([]), &[][..]),
            (json!([by_label("blue")]), &["cluster_udn_one"]),
            (json!([by_namespace("a")]), &["a_net"]),
            (
                json!([by_label("blue"), by_label("red"), by_namespace("b")]),
                &["b_net", "cluster_udn_one", "cluster_udn_two"],
            ),
            (json!([{"networkSelectionType": "DefaultNetwork"}]), &[]),
            (json!([{"networkSelectionType": "SomethingNew"}]), &[]),
        ] {
            let found = connects.of(&selection(&selectors));
            let found: Vec<&str> = found.iter().map(NetworkName::as_str).collect();
            assert_eq!(found, want, "{selectors}");
        }
    }
}
