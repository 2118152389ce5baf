//! Networks with EVPN: what they rest on, and the ids that they get.

use causeway_api::vtep::VTEP;

use super::*;

const EVPN: Features = Features { route_advertisements: true, evpn: true, ..FEATURES };

fn vtep(name: &str, accepted: bool) -> VTEP {
    let status = if accepted { "True" } else { "False" };
    let object = json!({"apiVersion": "k8s.ovn.org/v1", "kind": "VTEP",
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"cidrs": ["100.64.0.0/24"], "mode": "Unmanaged"},
        "status": {"conditions": [{"type": "Accepted", "status": status, "reason": "Allocated", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    serde_json::from_value(object).unwrap()
}

fn network(name: &str, mac: Option<i32>, ip: Option<i32>, subnet: &str) -> Value {
    let mut evpn = json!({"vtep": "v"});
    for (key, vni) in [("macVRF", mac), ("ipVRF", ip)] {
        if let Some(vni) = vni {
            evpn[key] = json!({"vni": vni});
        }
    }
    let network = json!({"topology": "Layer2", "transport": "EVPN", "evpn": evpn,
        "layer2": {"role": "Primary", "subnets": [subnet]}});
    let selector = json!({"matchLabels": {"net": name}});
    with(cudn(name, network), "/spec/namespaceSelector", selector)
}

fn place(name: &str) -> Value {
    namespace(name, json!({"k8s.ovn.org/primary-user-defined-network": "", "net": name}))
}

fn two() -> Seen {
    Seen {
        cudns: vec![
            network("e1", Some(100), Some(200), "10.1.0.0/16"),
            network("e2", Some(300), Some(200), "10.2.0.0/16"),
        ],
        namespaces: vec![place("e1"), place("e2")],
        ..Seen::default()
    }
}

fn evpn_rig(seen: &Seen, vteps: &[VTEP]) -> Rig {
    let mut rig = rig_with(seen, EVPN, []);
    let cluster = Cluster {
        gateway_mode: GatewayMode::Local.into(),
        features: BTreeSet::from([Feature::Evpn]),
        ..(*rig.room.cluster).clone()
    };
    (rig.room.cluster, rig.room.gateway_mode) = (Arc::new(cluster), GatewayMode::Local);
    rig.room.carriers = Carriers::fixed(&[], vteps);
    rig.room.domains.rebuild(&rig.room.stores);
    rig
}

impl Rig {
    fn evpn(&self, nad: &str) -> Option<Value> {
        let config = self.object(&nad_path(nad))?["spec"]["config"].as_str().unwrap().to_owned();
        Some(serde_json::from_str::<Value>(&config).unwrap()["evpn"].clone())
    }

    fn says(&self, name: &str, type_: &str) -> String {
        let path = format!("/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/{name}");
        let (status, reason, message) = self.condition(&path, type_).unwrap();
        format!("{status}/{reason}: {message}")
    }
}

#[tokio::test]
async fn without_an_accepted_vtep_nothing_is_made_and_both_conditions_say_why() {
    let seen = two();
    for (vteps, created, accepted) in [
        (
            vec![vtep("other", true)],
            "False/VTEPNotFound: Cannot create network: VTEP 'v' does not exist. Create the VTEP CR first or update \
             the CUDN to reference an existing VTEP.",
            "False/VTEPNotFound: VTEP \"v\" referenced by EVPN configuration does not exist.",
        ),
        (
            vec![vtep("v", false)],
            "False/VTEPNotAccepted: Cannot create network: VTEP 'v' exists but is not accepted. The VTEP must be in \
             Accepted status before the network can be created.",
            "False/VTEPNotAccepted: VTEP \"v\" exists but is not accepted.",
        ),
    ] {
        let rig = evpn_rig(&seen, &vteps);
        rig.pass(&cudn_key("e1")).await.result.unwrap();
        assert_eq!(rig.says("e1", "NetworkCreated"), created);
        assert_eq!(rig.says("e1", "TransportAccepted"), accepted);
        assert_eq!(rig.evpn("e1/e1"), None);
    }
}

#[tokio::test]
async fn an_accepted_vtep_gives_a_network_its_ids_and_an_identifier_has_one_network() {
    let seen = two();
    let rig = evpn_rig(&seen, &[vtep("v", true)]);
    rig.pass(&cudn_key("e1")).await.result.unwrap();
    let want = json!({"vtep": "v", "macVRF": {"vni": 100, "vid": 2}, "ipVRF": {"vni": 200, "vid": 3}});
    assert_eq!(rig.evpn("e1/e1"), Some(want));
    assert_eq!(
        rig.says("e1", "TransportAccepted"),
        "False/EVPNRouteAdvertisementsIsMissing: No RouteAdvertisements CR is advertising the pod networks."
    );
    rig.pass(&cudn_key("e2")).await.result.unwrap();
    assert_eq!(
        rig.says("e2", "NetworkCreated"),
        "False/NetworkAttachmentDefinitionSyncError: failed to allocate EVPN IDs: failed to reserve VNIs: VNI 200 on \
         VTEP \"v\" is already reserved by network \"e1\""
    );
    assert_eq!(rig.evpn("e2/e2"), None);
    // The one that was refused is woken by the end of the other one.
    let key = cudn_key("e1");
    assert_eq!(rig.room.domains.release(&key), [cudn_key("e2")]);
    assert_eq!(rig.room.domains.release(&key), [], "and once only");
    rig.pass(&cudn_key("e2")).await.result.unwrap();
    let want = json!({"vtep": "v", "macVRF": {"vni": 300, "vid": 4}, "ipVRF": {"vni": 200, "vid": 5}});
    assert_eq!(rig.evpn("e2/e2"), Some(want));
}

#[tokio::test]
async fn a_vtep_that_is_no_longer_accepted_freezes_what_is_there() {
    let mut seen = two();
    let rig = evpn_rig(&seen, &[vtep("v", true)]);
    rig.pass(&cudn_key("e1")).await.result.unwrap();
    seen.nads = vec![rig.object(&nad_path("e1/e1")).unwrap()];
    // Its selector has moved on; that waits, too.
    seen.cudns = vec![with(
        network("e1", Some(100), None, "10.1.0.0/16"),
        "/spec/namespaceSelector",
        json!({"matchLabels": {"net": "e2"}}),
    )];
    let rig = evpn_rig(&seen, &[vtep("v", false)]);
    let pass = rig.pass(&cudn_key("e1")).await;
    pass.result.unwrap();
    assert!(!pass.asked.contains("network-attachment-definitions"), "{}", pass.asked);
    assert_eq!(
        rig.says("e1", "NetworkCreated"),
        "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following \
         namespaces: [e1]"
    );
    assert_eq!(
        rig.says("e1", "TransportAccepted"),
        "False/VTEPNotAccepted: VTEP \"v\" exists but is not accepted."
    );
}

#[tokio::test]
async fn after_a_restart_networks_keep_their_ids_and_of_two_with_one_id_the_older_has_it() {
    let mut seen = two();
    let rig = evpn_rig(&seen, &[vtep("v", true)]);
    for name in ["e2", "e1"] {
        rig.pass(&cudn_key(name)).await.result.unwrap();
    }
    assert_eq!(rig.evpn("e2/e2").unwrap()["macVRF"]["vid"], json!(2));
    seen.nads = vec![rig.object(&nad_path("e2/e2")).unwrap()];
    let again = evpn_rig(&seen, &[vtep("v", true)]);
    again.pass(&cudn_key("e1")).await.result.unwrap();
    assert!(again.says("e1", "NetworkCreated").contains("is already reserved by network \"e2\""));
    let pass = again.pass(&cudn_key("e2")).await;
    assert!(!pass.asked.contains("network-attachment-definitions"), "{}", pass.asked);

    // Somebody copied a definition's ids: the network that was made first keeps them.
    let mut copy = seen.nads[0].clone();
    let config = copy["spec"]["config"].as_str().unwrap().replace("e2", "e1");
    copy["spec"]["config"] = json!(config);
    copy["metadata"]["namespace"] = json!("e1");
    copy["metadata"]["name"] = json!("e1");
    copy["metadata"]["ownerReferences"][0]["name"] = json!("e1");
    copy["metadata"]["ownerReferences"][0]["uid"] = json!("uid-e1");
    seen.nads.push(copy);
    for (number, time) in ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"].iter().enumerate() {
        seen.cudns[number] = with(seen.cudns[number].clone(), "/metadata/creationTimestamp", json!(time));
    }
    let again = evpn_rig(&seen, &[vtep("v", true)]);
    again.pass(&cudn_key("e1")).await.result.unwrap();
    assert!(again.says("e1", "NetworkCreated").contains("is already reserved by network \"e2\""));
}
