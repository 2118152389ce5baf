//! Networks that leave by an Uplink.

use serde_json::json;

use super::super::plan::fixture::{cluster, layer3, node, rows_of};
use super::super::plan::{Ways, plan};
use super::*;

type Change = fn(&mut serde_json::Value);

fn state(change: impl FnOnce(&mut serde_json::Value)) -> UplinkState {
    let mut object = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "UplinkState",
        "metadata": {"name": "tenant-node1"},
        "spec": {"uplinkName": "tenant", "nodeName": "node1"},
        "status": {
            "ovsBridge": {"name": "br-blue"},
            "macAddress": "02:42:AC:13:00:02",
            "ipAddresses": ["172.19.0.2/16"],
            "defaultGateways": ["172.19.0.1"],
            "conditions": [{
                "type": "Resolved", "status": "True", "reason": "Resolved", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]
        }
    });
    change(&mut object["status"]);
    serde_json::from_value(object).unwrap()
}

fn exit(state: Option<&UplinkState>) -> Result<Exit, ExitError> {
    let cluster = cluster();
    Exit::of_uplink(&layer3(&cluster), &"node1".into(), &cluster, "tenant-node1", "tenant", state)
}

#[test]
fn an_uplink_gives_bridge_addresses_and_next_hops_and_a_bridge_network_of_its_own() {
    let cluster = cluster();
    let exit = exit(Some(&state(|_| {})));
    let rows = rows_of(&plan(&cluster, &layer3(&cluster), &node(1), Ways { exit: &exit, services: &[] }, []));
    let outside = &rows.switch_ports["br-blue_cluster_udn_blue_node1"];
    assert_eq!(outside.row.options.get("network_name").unwrap(), "cluster_udn_blue");
    assert_eq!(outside.row.tag_request, None);
    let port = &rows.router_ports["rtoe-GR_cluster_udn_blue_node1"].row;
    assert_eq!(port.mac, "02:42:ac:13:00:02");
    assert_eq!(port.networks, ["169.254.0.11/32", "172.19.0.2/16"].map(str::to_owned).into());
    let out = rows.routes.iter().find(|route| route.row.ip_prefix == "0.0.0.0/0").unwrap();
    assert_eq!(out.row.nexthop, "172.19.0.1");
    let router = &rows.routers["GR_cluster_udn_blue_node1"];
    assert_eq!(router.row.options.get("chassis").unwrap(), "c1", "the chassis is the node's all the same");
    assert_eq!(router.load_balancer_groups.len(), 2, "node ports are on in the cluster");
    assert!(rows.policies.iter().any(|policy| policy.row.condition.contains("172.19.0.2")));
}

#[test]
fn what_an_uplink_lacks_is_said_as_upstream_says_it() {
    assert_eq!(
        exit(None).unwrap_err().to_string(),
        r#"waiting for UplinkState tenant-node1 for uplink "tenant" on node "node1""#
    );
    let cases: [(Change, &str); 8] = [
        (
            |status| drop(status.as_object_mut().unwrap().remove("ovsBridge")),
            r#"uplink state tenant-node1 has no OVSBridge uplink for uplink "tenant" on node "node1""#,
        ),
        (
            |status| status["conditions"][0]["status"] = json!("False"),
            r#"uplink state tenant-node1 for uplink "tenant" on node "node1" is not resolved"#,
        ),
        (
            |status| status["conditions"] = json!([]),
            r#"uplink state tenant-node1 for uplink "tenant" on node "node1" is not resolved"#,
        ),
        (
            |status| status["ovsBridge"] = json!({}),
            r#"uplink state tenant-node1 has no resolved OVS bridge for uplink "tenant""#,
        ),
        (|status| status["ipAddresses"] = json!([]), "UplinkState has no gateway IP addresses"),
        (|status| status["macAddress"] = json!("x"), r#"failed to parse UplinkState MAC address "x""#),
        (|status| status["ipAddresses"] = json!(["x"]), r#"failed to parse UplinkState IP address "x""#),
        (
            |status| status["defaultGateways"] = json!(["x"]),
            r#"failed to parse UplinkState default gateway "x""#,
        ),
    ];
    for (change, want) in cases {
        assert_eq!(exit(Some(&state(change))).unwrap_err().to_string(), want);
    }
}
