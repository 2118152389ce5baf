//! What networks are told of their transports, and of what has no effect.

use causeway_api::route_advertisements::RouteAdvertisements;

use super::*;

const NET: &str = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/net";

fn no_overlay() -> Value {
    let network = with(layer3(), "/transport", json!("NoOverlay"));
    let network = with(network, "/noOverlay", json!({"outboundSNAT": "Enabled", "routing": "Unmanaged"}));
    with(cudn("net", network), "/metadata/labels", json!({"tenant": "blue"}))
}

fn advertisement(name: &str, tenant: &str, what: &str, accepted: Option<&str>) -> RouteAdvertisements {
    let conditions: Vec<Value> = accepted
        .iter()
        .map(|status| {
            json!({"type": "Accepted", "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    let object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": name},
        "spec": {"nodeSelector": {}, "frrConfigurationSelector": {}, "advertisements": [what],
            "networkSelectors": [{"networkSelectionType": "ClusterUserDefinedNetworks",
                "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tenant": tenant}}}}]},
        "status": {"conditions": conditions},
    });
    serde_json::from_value(object).unwrap()
}

fn on() -> Features {
    Features { route_advertisements: true, ..FEATURES }
}

#[tokio::test]
async fn a_transport_is_accepted_once_an_accepted_object_tells_routers_about_the_networks_pods() {
    let seen =
        Seen { cudns: vec![no_overlay()], namespaces: vec![primary_namespace("a")], ..Seen::default() };
    for (advertisements, status, reason, message) in [
        (
            vec![],
            "False",
            "NoOverlayRouteAdvertisementsIsMissing",
            "No RouteAdvertisements CR is advertising the pod networks.",
        ),
        (
            vec![
                advertisement("other", "red", "PodNetwork", Some("True")),
                advertisement("egress", "blue", "EgressIP", Some("True")),
            ],
            "False",
            "NoOverlayRouteAdvertisementsIsMissing",
            "No RouteAdvertisements CR is advertising the pod networks.",
        ),
        (
            vec![
                advertisement("two", "blue", "PodNetwork", None),
                advertisement("one", "blue", "PodNetwork", Some("False")),
            ],
            "False",
            "NoOverlayRouteAdvertisementsNotAccepted",
            "RouteAdvertisements CR one, two advertises the pod subnets, but its status is not accepted.",
        ),
        (
            vec![
                advertisement("two", "blue", "PodNetwork", Some("True")),
                advertisement("one", "blue", "PodNetwork", Some("False")),
            ],
            "True",
            "NoOverlayTransportAccepted",
            "Transport has been configured as 'no-overlay'.",
        ),
    ] {
        let mut rig = rig_with(&seen, on(), []);
        rig.room.carriers = Carriers::fixed(&advertisements, &[]);
        rig.pass(&cudn_key("net")).await.result.unwrap();
        let told = rig.condition(NET, "TransportAccepted");
        assert_eq!(told, Some((status.to_owned(), reason.to_owned(), message.to_owned())));
        assert_eq!(
            rig.condition(NET, "NetworkCreated").unwrap().0,
            "True",
            "the network is there all the same"
        );
        assert!(rig.object(&nad_path("a/net")).is_some());
    }
}

#[tokio::test]
async fn a_network_without_transport_is_told_nothing_of_it() {
    let seen = Seen { cudns: vec![cudn("net", layer3())], ..Seen::default() };
    let mut rig = rig_with(&seen, on(), []);
    rig.room.carriers = Carriers::fixed(&[], &[]);
    rig.pass(&cudn_key("net")).await.result.unwrap();
    assert_eq!(rig.condition(NET, "TransportAccepted"), None);
}

#[tokio::test]
async fn an_uplink_that_the_gateway_mode_does_not_know_is_told_also_without_a_namespace() {
    let with_uplink = with(cudn("net", layer3()), "/spec/uplinks", json!(["ext"]));
    let mut seen = Seen { cudns: vec![with_uplink], ..Seen::default() };
    let want = r#"failed to generate NetworkAttachmentDefinition: failed to render CNI network config: uplink "ext" is supported only in shared gateway mode"#;
    for namespaces in [vec![], vec![primary_namespace("a")]] {
        seen.namespaces = namespaces;
        let mut rig = rig(&seen);
        let cluster = Cluster { gateway_mode: GatewayMode::Local.into(), ..(*rig.room.cluster).clone() };
        (rig.room.cluster, rig.room.gateway_mode) = (Arc::new(cluster), GatewayMode::Local);
        rig.pass(&cudn_key("net")).await.result.unwrap();
        let (status, reason, message) = rig.condition(NET, "NetworkCreated").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NetworkAttachmentDefinitionSyncError"));
        assert_eq!(message, want);
    }
}
