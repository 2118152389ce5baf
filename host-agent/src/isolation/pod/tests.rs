use causeway_nft::Protocol;
use serde_json::{Value, json};

use super::*;

const V4: &str = "10.244.0.6";
const V6: &str = "fd00:10:244:1::6";

/// A pod of the API with these annotations and these other parts.
fn pod(annotations: &Value, rest: &Value) -> WatchedPod {
    let mut object =
        json!({"metadata": {"namespace": "blue", "name": "web", "uid": "u1", "annotations": annotations}});
    let parts = object.as_object_mut().unwrap();
    parts.extend(rest.as_object().unwrap().clone());
    serde_json::from_value(object).unwrap()
}

fn networks(role: &str, addresses: &[&str]) -> String {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("{address}/24")).collect();
    json!({
        "default": {"ip_addresses": addresses, "mac_address": "0a:58:0a:80:00:07", "role": role},
        "blue/blue": {"ip_addresses": ["10.200.0.4/24"], "role": "primary"},
    })
    .to_string()
}

fn running(addresses: &[&str]) -> Value {
    let ips: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"spec": {"nodeName": "node-a"}, "status": {"phase": "Running", "podIPs": ips}})
}

fn facts(annotations: &Value, rest: &Value) -> Option<DefaultNetwork> {
    PodFacts::of(pod(annotations, rest), "node-a").map(|facts| facts.network)
}

fn locked(addresses: &[&str]) -> DefaultNetwork {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    DefaultNetwork::Locked { addresses, ports: Ok(Box::default()) }
}

#[test]
fn the_first_source_that_has_addresses_is_taken() {
    let status = |podips: Value, podip: Value| json!({"status": {"podIPs": podips, "podIP": podip}});
    let both = networks("infrastructure-locked", &["10.244.0.9"]);
    let none = networks("infrastructure-locked", &[]);
    let cases = [
        (&both, status(json!([{"ip": V4}, {"ip": V6}]), json!("10.244.0.8")), locked(&[V4, V6])),
        (&both, status(json!([{"ip": "nonsense"}, {"ip": V4}, {}]), json!(null)), locked(&[V4])),
        (&both, status(json!([]), json!("10.244.0.8")), locked(&["10.244.0.9"])),
        (&both, status(json!(null), json!(null)), locked(&["10.244.0.9"])),
        (&none, status(json!([{"ip": ""}]), json!("10.244.0.8")), locked(&["10.244.0.8"])),
        (&none, status(json!(null), json!(null)), DefaultNetwork::Unknown),
    ];
    for (text, status, want) in cases {
        assert_eq!(facts(&json!({POD_NETWORKS: text}), &status), Some(want), "{text} {status}");
    }
}

#[test]
fn pods_that_are_in_no_set_are_not_kept() {
    let is_locked = json!({POD_NETWORKS: networks("infrastructure-locked", &[V4])});
    let on_the_host = json!({"spec": {"hostNetwork": true}, "status": {"podIPs": [{"ip": V4}]}});
    assert_eq!(facts(&is_locked, &on_the_host), None, "the host's network");
    for phase in ["Succeeded", "Failed"] {
        let ended = json!({"status": {"phase": phase, "podIPs": [{"ip": V4}]}});
        assert_eq!(facts(&is_locked, &ended), None, "{phase}");
    }
    let on_the_default_network = json!({POD_NETWORKS: networks("primary", &[V4])});
    assert_eq!(facts(&on_the_default_network, &running(&[V4])), None, "the default network");
    let without_a_role = json!({POD_NETWORKS: r#"{"default":{"ip_addresses":["10.244.0.6/24"]}}"#});
    assert_eq!(facts(&without_a_role, &running(&[V4])), None, "no role");
}

#[test]
fn what_is_not_known_yet_and_what_cannot_be_read_differ() {
    assert_eq!(facts(&json!({}), &running(&[V4])), Some(DefaultNetwork::Unknown));
    let others = json!({POD_NETWORKS: r#"{"blue/blue":{"role":"primary"}}"#});
    assert_eq!(facts(&others, &running(&[V4])), Some(DefaultNetwork::Unknown));
    for text in ["", "{", "[]", r#"{"default":7}"#, r#"{"default":{"role":7}}"#] {
        let found = facts(&json!({POD_NETWORKS: text}), &running(&[V4]));
        assert!(matches!(found, Some(DefaultNetwork::Unreadable(_))), "{text:?}: {found:?}");
    }
}

#[test]
fn open_ports_are_read_and_bad_ones_leave_the_addresses() {
    let with = |ports: &str| {
        let annotations =
            json!({POD_NETWORKS: networks("infrastructure-locked", &[V4]), OPEN_DEFAULT_PORTS: ports});
        match facts(&annotations, &running(&[V4])) {
            Some(DefaultNetwork::Locked { addresses, ports }) => {
                assert_eq!(*addresses, [V4.parse::<IpAddr>().unwrap()]);
                ports
            }
            other => panic!("{other:?}"),
        }
    };
    let open: Box<[OpenPort]> = [OpenPort::Icmp, OpenPort::Port(Protocol::TCP, 80)].into();
    assert_eq!(with("- protocol: tcp\n  port: 80\n- protocol: icmp"), Ok(open));
    assert_eq!(with("- protocol: ppp"), Err("invalid protocol ppp".into()));
}

#[test]
fn one_agent_of_the_cluster_tells_about_a_pod() {
    let annotations = json!({POD_NETWORKS: networks("infrastructure-locked", &[V4])});
    for (node, here) in [("node-a", true), ("node-b", false)] {
        let facts = PodFacts::of(pod(&annotations, &running(&[V4])), node).unwrap();
        assert_eq!((facts.here, &*facts.uid), (here, "u1"), "{node}");
    }
    let unbound = PodFacts::of(pod(&json!({}), &json!({})), "node-a").unwrap();
    assert!(!unbound.here);
}
