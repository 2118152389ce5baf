//! Several networks over one Uplink, or over one bridge.

use super::*;

const ROLE: &[(&str, &str)] = &[("role", "blue"), ("zone", "east")];
const WEST: &[(&str, &str)] = &[("role", "blue"), ("zone", "west")];

/// A network over an Uplink that RouteAdvertisements choose by its name.
fn over(name: &str, uplink: &str) -> Value {
    let network = with(cudn(name, layer3()), "/spec/uplinks", json!([uplink]));
    with(network, "/metadata/labels", json!({"tenant": name}))
}

/// RouteAdvertisements of one network to a VRF, for nodes of a zone if one is named.
fn advertise(network: &str, vrf: Option<&str>, zone: Option<&str>, accepted: &str) -> Value {
    let nodes = zone.map_or_else(|| json!({}), |zone| json!({"matchLabels": {"zone": zone}}));
    let mut object = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements",
        "metadata": {"name": network, "generation": 1},
        "spec": {
            "nodeSelector": nodes, "frrConfigurationSelector": {}, "advertisements": ["PodNetwork"],
            "networkSelectors": [{
                "networkSelectionType": "ClusterUserDefinedNetworks",
                "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tenant": network}}},
            }],
        },
        "status": {"conditions": [{"type": "Accepted", "status": accepted, "reason": "Accepted", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    if let Some(vrf) = vrf {
        object["spec"]["targetVRF"] = json!(vrf);
    }
    object
}

/// `net` and `red` over `br-blue`, which leads out of two nodes.
fn two(advertisements: &[Value]) -> World {
    World {
        cudn: Some(over("net", "br-blue")),
        others: vec![over("red", "br-blue")],
        advertisements: advertisements.to_vec(),
        nodes: vec![("node-a", ROLE), ("node-b", WEST)],
        states: vec![ready("node-a"), ready("node-b")],
        ..good()
    }
}

fn failing(checks: &[&str]) -> String {
    format!("{} active node/uplink readiness check(s) failed; examples: {}", checks.len(), checks.join(", "))
}

const ON_A: &str = "br-blue/node-a=UplinkConfigurationConflict (also used by red)";
const ON_B: &str = "br-blue/node-b=UplinkConfigurationConflict (also used by red)";

#[tokio::test]
async fn networks_in_domains_of_their_own_cannot_share_an_uplink_on_a_node() {
    let auto = |network: &str| advertise(network, Some("auto"), None, "True");
    let east = |network: &str| advertise(network, Some("auto"), Some("east"), "True");
    let no_overlay = |world: World| {
        let change = |cudn: Value| with(cudn, "/spec/network/transport", json!("NoOverlay"));
        let others = world.others.into_iter().map(change).collect();
        World { cudn: world.cudn.map(change), others, ..world }
    };
    let conflict = |checks: &[&str]| ("UplinkConfigurationConflict", failing(checks));
    let ready = ("UplinksReady", "Uplinks are ready for all active CUDN nodes".to_owned());
    for (what, world, want) in [
        ("in the default domain", two(&[]), ready.clone()),
        ("one in the default domain", two(&[auto("net")]), ready.clone()),
        (
            "both told to the default domain",
            two(&[advertise("net", None, None, "True"), advertise("red", None, None, "True")]),
            ready.clone(),
        ),
        ("both apart", two(&[auto("net"), auto("red")]), conflict(&[ON_A, ON_B])),
        (
            "in VRFs of other names",
            two(&[advertise("net", Some("x"), None, "True"), advertise("red", Some("y"), None, "True")]),
            conflict(&[ON_A, ON_B]),
        ),
        ("both apart on one node", two(&[auto("net"), east("red")]), conflict(&[ON_A])),
        (
            "apart on different nodes",
            two(&[advertise("net", Some("auto"), Some("west"), "True"), east("red")]),
            ready.clone(),
        ),
        ("without an overlay", no_overlay(two(&[])), conflict(&[ON_A, ON_B])),
        (
            "told to nobody yet",
            two(&[auto("net"), advertise("red", Some("auto"), None, "False")]),
            ready.clone(),
        ),
    ] {
        let (reason, message, _) = told(&world).await;
        assert_eq!((reason.as_str(), message), want, "{what}");
    }
}

#[tokio::test]
async fn networks_over_two_uplinks_that_lead_to_one_bridge_cannot_share_it() {
    let auto = |network: &str| advertise(network, Some("auto"), None, "True");
    let behind = |bridge: &str| {
        let mut other = state("br-red", "node-a").resolved("breth0");
        other.facts.resolved = Gate::Open;
        other.facts.bridge = Some(bridge.to_owned());
        let mut own = ready("node-a");
        own.facts.bridge = Some("breth0".to_owned());
        World {
            others: vec![over("red", "br-red")],
            uplinks: vec![
                uplink("br-blue", &[("breth0", "role=blue")]),
                uplink("br-red", &[("breth0", "role=blue")]),
            ],
            nodes: vec![("node-a", ROLE)],
            states: vec![own, other],
            ..two(&[auto("net"), auto("red")])
        }
    };
    let (reason, message, _) = told(&behind("breth0")).await;
    assert_eq!((reason.as_str(), message), ("UplinkConfigurationConflict", failing(&[ON_A])));
    assert_eq!(told(&behind("breth1")).await.0, "UplinksReady");
}

#[tokio::test]
async fn a_network_is_told_once_its_rival_is_gone_or_its_advertisement_waits() {
    let auto = |network: &str, accepted: &str| advertise(network, Some("auto"), None, accepted);
    let world = two(&[auto("net", "True"), auto("red", "True")]);
    let asked = Arc::default();
    let mut room = room(&world, &asked);
    let told = async |room: &Networks| {
        room.reconcile(&key()).await.unwrap();
        room.stores.shared.cr(&key()).unwrap().unwrap().conditions[0].reason.clone()
    };
    assert_eq!(told(&room).await, "UplinkConfigurationConflict");
    // What is not accepted any more changes nothing: routes must not flap.
    let pending = Advertiser::of(&serde_json::from_value(auto("red", "False")).unwrap()).unwrap();
    let accepted = Advertiser::of(&serde_json::from_value(auto("net", "True")).unwrap()).unwrap();
    let both = [("red".into(), pending), ("net".into(), accepted)];
    room.advertisers = Some(Store::fixed("RouteAdvertisements", both));
    room.reconcile(&CrKey::Cudn("red".into())).await.unwrap();
    assert_eq!(told(&room).await, "UplinkConfigurationConflict");
    // The rival goes.
    let seen = Seen { cudns: world.cudn.iter().cloned().collect(), ..Seen::default() };
    room.stores.shared = shared(&world.nodes, seen);
    assert_eq!(room.reconcile(&CrKey::Cudn("red".into())).await.unwrap(), Requeue::Gone);
    assert_eq!(told(&room).await, "UplinksReady");
}
