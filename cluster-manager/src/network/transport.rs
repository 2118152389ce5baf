//! What transports of networks rest on: RouteAdvertisements, which tell routers about them, and VTEPs.
//!
//! In: both kinds, watched only where their features are on. Out: the condition `TransportAccepted`
//! ([`causeway_net::transport`] decides), what keeps EVPN from working, and which networks a change concerns.
//!
//! Differs from upstream, which looks at every such network again when a RouteAdvertisements goes: here at those that it
//! named.

use std::sync::Arc;

use causeway_api::condition::Wanted;
use causeway_api::network::Transport;
use causeway_api::route_advertisements::RouteAdvertisements;
use causeway_api::vtep::VTEP;
use causeway_net::transport::{self, Advertiser, EvpnProblem, RouteAdvertisementsFeature, Routed};
use causeway_net::uplinks_ready::GatewayMode;
use causeway_runtime::health::Readiness;
use causeway_runtime::settings::Features;
use causeway_runtime::shutdown::Tasks;
use causeway_runtime::watch::{self, Change, Store, Watch, WatchMetrics};
use kube::{Api, Client};

use super::vtep::{Vtep, VtepName, Vteps};
use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};
use crate::wake::Wake;

/// The objects; nothing of a kind whose feature is off. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Carriers {
    advertisers: Option<Store<Arc<str>, Advertiser>>,
    vteps: Option<Store<Arc<str>, Vtep>>,
}

/// The watches, before they run; none of a kind whose feature is off.
#[derive(Default)]
pub(super) struct CarrierWatches {
    advertisers: Option<Watch<RouteAdvertisements, Arc<str>, Advertiser>>,
    vteps: Option<Watch<VTEP, Arc<str>, Vtep>>,
}

impl CarrierWatches {
    /// Watches over this connection.
    pub(super) fn new(
        client: &Client,
        features: Features,
        mode: GatewayMode,
        metrics: &WatchMetrics,
    ) -> Self {
        let advertisers = || {
            let key = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
                meta.name.as_deref().map(Arc::from)
            };
            let slim = |object: RouteAdvertisements| Advertiser::of(&object);
            Watch::new(Api::all(client.clone()), watch::config(), key, slim).metered(metrics)
        };
        let vteps = || {
            let key = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
                meta.name.as_deref().map(Arc::from)
            };
            Watch::new(Api::all(client.clone()), watch::config(), key, Vtep::of).metered(metrics)
        };
        Self {
            advertisers: features.advertises_routes().then(advertisers),
            vteps: serves_evpn(features, mode).is_ok().then(vteps),
        }
    }

    /// What they show.
    pub(super) fn carriers(&self) -> Carriers {
        Carriers {
            advertisers: self.advertisers.as_ref().map(Watch::store),
            vteps: self.vteps.as_ref().map(Watch::store),
        }
    }

    /// The RouteAdvertisements, where their feature is on.
    pub(super) fn advertisers(&self) -> Option<Store<Arc<str>, Advertiser>> {
        self.advertisers.as_ref().map(Watch::store)
    }

    /// Calls `hear` with each change of RouteAdvertisements too.
    pub(super) fn heard_by(
        self,
        hear: impl Fn(&Change<'_, Arc<str>, Advertiser>) + Send + Sync + 'static,
    ) -> Self {
        let advertisers = self.advertisers.map(|watch| watch.on_change(move |change| hear(change)));
        Self { advertisers, ..self }
    }

    /// The VTEPs, where networks can rest on some.
    pub(super) fn vteps(&self) -> Option<Store<VtepName, Vtep>> {
        self.vteps.as_ref().map(Watch::store)
    }

    /// Looks at a VTEP, and at those that have to do with it, when it changes.
    pub(super) fn judged(self, room: Option<(Vteps, Wake<CrKey>)>) -> Self {
        let Some((room, wake)) = room else { return self };
        let vteps = self.vteps.map(|watch| {
            watch.on_change(move |change| {
                room.seen(change);
                if wake.leads() {
                    room.changed(change);
                }
            })
        });
        Self { vteps, ..self }
    }

    /// Calls `wake` with the networks that a change concerns.
    pub(super) fn on_change(
        self,
        stores: &Stores,
        wake: impl Fn(Vec<CrKey>) + Clone + Send + Sync + 'static,
    ) -> Self {
        let (woken, all) = (wake.clone(), stores.clone());
        let advertisers =
            self.advertisers.map(|watch| watch.on_change(move |change| woken(advertised(change, &all))));
        let (woken, all) = (wake, stores.clone());
        let vteps = self.vteps.map(|watch| {
            watch.on_change(move |change| {
                let accepted = |vtep: &Option<Arc<Vtep>>| vtep.as_ref().map(|vtep| vtep.is_accepted());
                if accepted(&change.old) != accepted(&change.new) {
                    woken(on_vtep(change.key, &all));
                }
            })
        });
        Self { advertisers, vteps }
    }

    /// Starts them. An API server that is away is waited for; `readiness` says so meanwhile.
    pub(super) fn start(self, tasks: &Tasks, readiness: &Readiness) {
        if let Some(watch) = self.advertisers {
            let store = watch.store();
            readiness
                .add("route advertisements", move || store.readiness().map_err(|error| error.to_string()));
            tasks.spawn("watch of RouteAdvertisements", watch.run(tasks.stop()));
        }
        if let Some(watch) = self.vteps {
            let store = watch.store();
            readiness.add("VTEPs", move || store.readiness().map_err(|error| error.to_string()));
            tasks.spawn("watch of VTEPs", watch.run(tasks.stop()));
        }
    }
}

impl Carriers {
    /// These objects and no others.
    #[cfg(test)]
    pub(super) fn fixed(advertisements: &[RouteAdvertisements], vteps: &[VTEP]) -> Self {
        let name = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| -> Arc<str> {
            meta.name.as_deref().unwrap_or_default().into()
        };
        let advertisers = advertisements
            .iter()
            .filter_map(|object| Some((name(&object.metadata), Advertiser::of(object)?)));
        let vteps =
            vteps.iter().filter_map(|object| Some((name(&object.metadata), Vtep::of(object.clone())?)));
        Self {
            advertisers: Some(Store::fixed("RouteAdvertisements", advertisers)),
            vteps: Some(Store::fixed("VTEP", vteps)),
        }
    }

    /// Waits until each kind has been listed once.
    pub(super) async fn wait_synced(&self) {
        if let Some(store) = &self.advertisers {
            store.wait_synced().await;
        }
        if let Some(store) = &self.vteps {
            store.wait_synced().await;
        }
    }

    /// What `TransportAccepted` of a network should say; none for one whose transport no router has to hear of.
    pub(super) fn accepted(&self, cr: &Cr, problem: Option<&EvpnProblem>) -> Option<Wanted> {
        let routed = Routed::of(cr.network.transport.as_ref())?;
        let wanted = match &self.advertisers {
            None => transport::accepted(routed, problem, RouteAdvertisementsFeature::Off, []),
            Some(store) => {
                let snapshot = store.snapshot();
                let all = snapshot.iter().map(|(_, advertiser)| advertiser.as_ref());
                let naming = all.filter(|advertiser| advertiser.advertises(&cr.labels));
                transport::accepted(routed, problem, RouteAdvertisementsFeature::On, naming)
            }
        };
        Some(Wanted { observed_generation: cr.generation, ..wanted })
    }

    /// Why EVPN cannot be the transport of a network that asks for it.
    pub(super) fn evpn_problem(&self, cr: &Cr, features: Features, mode: GatewayMode) -> Option<EvpnProblem> {
        if cr.network.transport != Some(Transport::Evpn) {
            return None;
        }
        if let Err(problem) = serves_evpn(features, mode) {
            return Some(problem);
        }
        let name = cr.network.evpn.as_ref().map(|evpn| evpn.vtep.as_str()).unwrap_or_default();
        let vteps = self.vteps.as_ref().map(Store::snapshot);
        match vteps.as_ref().and_then(|vteps| vteps.get(name)) {
            None => Some(EvpnProblem::VtepNotFound(name.to_owned())),
            Some(vtep) if !vtep.is_accepted() => Some(EvpnProblem::VtepNotAccepted(name.to_owned())),
            Some(_) => None,
        }
    }
}

/// Whether networks can have EVPN as their transport in this cluster.
fn serves_evpn(features: Features, mode: GatewayMode) -> Result<(), EvpnProblem> {
    if !features.evpn || !features.advertises_routes() {
        return Err(EvpnProblem::FeatureDisabled);
    }
    if mode == GatewayMode::Local { Ok(()) } else { Err(EvpnProblem::GatewayMode) }
}

/// The networks with a transport that rests on a RouteAdvertisements before its change or after it.
fn advertised(change: &Change<'_, Arc<str>, Advertiser>, stores: &Stores) -> Vec<CrKey> {
    if change.old == change.new {
        return Vec::new();
    }
    let both = [change.old.as_deref(), change.new.as_deref()];
    let rests = |cr: &Cr| {
        Routed::of(cr.network.transport.as_ref()).is_some()
            && both.into_iter().flatten().any(|advertiser| advertiser.advertises(&cr.labels))
    };
    let cudns = stores.cudns();
    cudns.iter().filter(|(_, cr)| rests(cr)).map(|(key, _)| key.clone()).collect()
}

/// The networks that rest on a VTEP.
fn on_vtep(name: &str, stores: &Stores) -> Vec<CrKey> {
    let rests = |cr: &Cr| {
        cr.network.transport == Some(Transport::Evpn)
            && cr.network.evpn.as_ref().is_some_and(|evpn| evpn.vtep == name)
    };
    let cudns = stores.cudns();
    cudns.iter().filter(|(_, cr)| rests(cr)).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observed::fixtures::{Seen, cudn, layer3, with};

    fn advertiser(labels: &Value, accepted: bool) -> Arc<Advertiser> {
        let status = if accepted { "True" } else { "False" };
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": "ra"},
            "spec": {"nodeSelector": {}, "frrConfigurationSelector": {}, "advertisements": ["PodNetwork"],
                "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks",
                    "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": labels}}}]},
            "status": {"conditions": [{"type": "Accepted", "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        Arc::new(Advertiser::of(&serde_json::from_value(object).unwrap()).unwrap())
    }

    fn transported(name: &str, transport: &str, team: &str) -> Value {
        let mut network = layer3();
        network["transport"] = json!(transport);
        if transport == "EVPN" {
            network["evpn"] = json!({"vtep": team, "ipVRF": {"vni": 7}});
        }
        with(cudn(name, network), "/metadata/labels", json!({"team": team}))
    }

    fn stores() -> Stores {
        let seen = Seen {
            cudns: vec![
                transported("red", "NoOverlay", "red"),
                transported("blue", "EVPN", "blue"),
                with(cudn("plain", layer3()), "/metadata/labels", json!({"team": "red"})),
            ],
            ..Seen::default()
        };
        seen.stores(GatewayMode::Local.into())
    }

    #[test]
    fn a_change_concerns_the_networks_that_it_named_or_names_and_that_rest_on_it() {
        let (red, blue) =
            (advertiser(&json!({"team": "red"}), true), advertiser(&json!({"team": "blue"}), true));
        let waiting = advertiser(&json!({"team": "red"}), false);
        let name = Arc::from("ra");
        for (old, new, want) in [
            (None, Some(&red), vec!["red"]),
            (Some(&red), Some(&waiting), vec!["red"]),
            (Some(&red), Some(&blue), vec!["blue", "red"]),
            (Some(&blue), None, vec!["blue"]),
            (Some(&red), Some(&red), vec![]),
        ] {
            let change = Change { key: &name, old: old.cloned(), new: new.cloned(), unreadable: None };
            let keys = advertised(&change, &stores());
            assert_eq!(keys.iter().map(CrKey::name).collect::<Vec<_>>(), want, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_vtep_concerns_the_networks_that_name_it() {
        let names =
            |vtep: &str| on_vtep(vtep, &stores()).iter().map(|key| key.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names("blue"), ["blue"]);
        assert_eq!(names("red"), [""; 0], "a network without EVPN rests on no VTEP");
    }
}
