//! What is known of the Services that primary networks reach.
//!
//! One small watch for each of them, as there are few and a cluster has many Services. One that cannot be watched yet, as
//! for want of rights, keeps nobody else from anything: what is there for it stays.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway_runtime::settings::Settings;
use causeway_runtime::watch::{self, Connection, Lookup, Store, Watch};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use serde::Deserialize;

use super::super::service::{DefaultService, ServiceName};

/// A Service without its ports.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Service)]
pub(super) struct WatchedService {
    #[serde(default, deserialize_with = "watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "clusterIP", default)]
    first: Option<String>,
    #[serde(rename = "clusterIPs", default)]
    all: Option<Vec<String>>,
}

/// A Service as the topology sees it: its addresses in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses(Vec<IpAddr>);

impl Addresses {
    /// From the API object. A headless Service says `None`, one without addresses of the cluster says nothing.
    pub(super) fn of(service: WatchedService) -> Self {
        let spec = service.spec.unwrap_or_default();
        // Servers without dual stack know the first one only.
        let all = spec.all.filter(|all| !all.is_empty()).unwrap_or_else(|| spec.first.into_iter().collect());
        Self(all.iter().filter_map(|text| text.parse().ok()).collect())
    }
}

/// A watch of one Service.
pub(super) type ServiceWatch = Watch<WatchedService, String, Addresses>;

/// The watches of all Services that the settings name.
pub(super) fn watches(client: &Client, settings: &Settings) -> Vec<(ServiceName, ServiceWatch)> {
    let watch = |name: &watch::NamespacedName| {
        let api = Api::namespaced(client.clone(), &name.namespace);
        let only = watch::config().fields(&format!("metadata.name={}", name.name));
        let watch = Watch::new(api, only, watch::name, |service| Some(Addresses::of(service)));
        (ServiceName::new(name.namespace.as_str(), &name.name), watch)
    };
    settings.default_services.iter().map(watch).collect()
}

/// The Services by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(pub(super) Vec<(ServiceName, Store<String, Addresses>)>);

/// What is known of them at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Those that are there.
    pub(super) there: Vec<DefaultService>,
    /// Those of which nothing is known, not even whether they are there.
    pub(super) unknown: BTreeSet<ServiceName>,
    /// What people may want to know.
    pub(super) remarks: BTreeSet<String>,
}

impl Services {
    /// What is known of them now.
    pub(super) fn look(&self) -> Sight {
        let mut sight = Sight::default();
        for (name, store) in &self.0 {
            let snapshot = store.snapshot();
            match snapshot.lookup(name.name()) {
                Lookup::Present(service) => {
                    let Addresses(addresses) = &**service;
                    if addresses.is_empty() {
                        let text = "has no address in the cluster, so networks do not reach it";
                        sight.remarks.insert(format!("Service {name} {text}"));
                    }
                    sight.there.push(DefaultService { name: name.clone(), addresses: addresses.clone() });
                }
                Lookup::Unreadable(error) => {
                    let text = format!("Service {name} cannot be read, so what leads there stays: {error}");
                    sight.remarks.insert(text);
                    sight.unknown.insert(name.clone());
                }
                Lookup::Absent if *store.synced().borrow() => {
                    let text = "does not exist, so networks do not reach it";
                    sight.remarks.insert(format!("Service {name} {text}"));
                }
                Lookup::Absent => drop(sight.unknown.insert(name.clone())),
            }
        }
        sight
    }

    /// Whether all of them are watched.
    pub(super) fn readiness(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|(name, store)| {
            store.readiness().map_err(|error| format!("Service {name}: {error}"))
        })
    }

    /// Waits until each of them was listed, or could not be.
    pub(super) async fn wait_tried(&self) {
        for (_, store) in &self.0 {
            let mut connection = store.connection();
            tokio::select! {
                () = store.wait_synced() => {}
                // An error means the sender is gone, which the store rules out.
                _ = connection.wait_for(|now| matches!(now, Connection::Disconnected(_))) => {}
            }
        }
    }

    /// Tells the name of each one that is listed only after it could not be at first. Never ends.
    pub(super) async fn late(self, tell: impl Fn(&ServiceName)) {
        let missing = self.0.into_iter().filter(|(_, store)| !*store.synced().borrow());
        let tell = &tell;
        let waits = missing.map(|(name, store)| async move {
            store.wait_synced().await;
            tell(&name);
        });
        futures::future::join_all(waits).await;
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addresses(spec: &serde_json::Value) -> Vec<String> {
        let object = json!({"metadata": {"name": "n", "namespace": "ns"}, "spec": spec});
        let Addresses(all) = Addresses::of(serde_json::from_value(object).unwrap());
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_service_has_the_addresses_of_both_families_and_a_headless_one_has_none() {
        for (spec, want) in [
            (json!({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"]}), &["10.96.0.1"][..]),
            (
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.1"]}),
                &["fd00::1", "10.96.0.1"],
            ),
            (json!({"clusterIP": "10.96.0.1"}), &["10.96.0.1"]),
            (json!({"clusterIP": "None", "clusterIPs": ["None"]}), &[]),
            (json!({"type": "ExternalName", "externalName": "example.com"}), &[]),
            (json!({"clusterIP": ""}), &[]),
            (json!({"clusterIP": null, "clusterIPs": null}), &[]),
        ] {
            assert_eq!(addresses(&spec), want, "{spec}");
        }
    }

    fn service(name: &str) -> ServiceName {
        ServiceName::new("ns", name)
    }

    #[test]
    fn one_that_is_absent_is_remarked_and_of_one_that_cannot_be_read_nothing_is_known() {
        let one = |name: &str, addresses: &[&str]| {
            (name.to_owned(), Addresses(addresses.iter().map(|text| text.parse().unwrap()).collect()))
        };
        let services = Services(vec![
            (service("there"), Store::fixed("Service", [one("there", &["10.96.0.1"])])),
            (service("headless"), Store::fixed("Service", [one("headless", &[])])),
            (service("absent"), Store::fixed("Service", [])),
            (service("broken"), Store::fixed_unreadable("Service", [], [("broken".to_owned(), "no list")])),
        ]);
        let sight = services.look();
        let there: Vec<(&str, usize)> =
            sight.there.iter().map(|service| (service.name.name(), service.addresses.len())).collect();
        assert_eq!(there, [("there", 1), ("headless", 0)]);
        assert_eq!(sight.unknown, [service("broken")].into());
        let remarks: Vec<&str> = sight.remarks.iter().map(String::as_str).collect();
        assert_eq!(
            remarks,
            [
                "Service ns/absent does not exist, so networks do not reach it",
                "Service ns/broken cannot be read, so what leads there stays: no list",
                "Service ns/headless has no address in the cluster, so networks do not reach it",
            ]
        );
        assert_eq!(services.readiness(), Ok(()));
    }
}
