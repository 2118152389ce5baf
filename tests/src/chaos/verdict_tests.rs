use serde_json::json;

use super::*;

/// Two namespaces of one team, a Layer3 network of that team, a Layer2 network of one of them, two Nodes: all is well.
fn well() -> Inventory {
    let namespace =
        |name: &str| json!({"metadata": {"name": name, "labels": {TEAM: "x", PRIMARY_NETWORK: ""}}});
    let node = |number: u32| {
        json!({"metadata": {"name": format!("n{number}"), "annotations": {
            NODE_ID: (number + 2).to_string(), TRANSIT_SWITCH_PORT: format!("100.88.0.{}/16", number + 2),
            NODE_SUBNETS: format!(
                r#"{{"cluster_udn_wide":["10.20.{number}.0/24"],"default":["10.128.{number}.0/23"]}}"#
            ),
        }}})
    };
    let condition = |type_: &str, message: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": message, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let created = "NetworkAttachmentDefinition has been created in following namespaces: [a, b]";
    let conditions = |message: &str| {
        json!([condition("NetworkCreated", message), condition("NetworkAllocationSucceeded", "")])
    };
    let cudn = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork",
        "metadata": {"name": "wide", "uid": "w", "generation": 1, "finalizers": [NETWORK_FINALIZER]},
        "spec": {
            "namespaceSelector": {"matchLabels": {TEAM: "x"}},
            "network": {"topology": "Layer3", "layer3": {"role": "Primary",
                "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}]}},
        },
        "status": {"conditions": conditions(created)},
    });
    let udn = json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"name": "own", "namespace": "a", "uid": "o", "generation": 1,
            "finalizers": [NETWORK_FINALIZER]},
        "spec": {"topology": "Layer2", "layer2": {"role": "Secondary", "subnets": ["10.30.0.0/16"]}},
        "status": {"conditions": conditions("")},
    });
    let wide = |namespace: &str| {
        nad(namespace, "wide", "w", "1", "cluster_udn_wide", ["primary", "layer3", "10.20.0.0/16/24"])
    };
    let own = nad("a", "own", "o", "2", "a_own", ["secondary", "layer2", "10.30.0.0/16"]);
    let all = json!([
        [namespace("a"), namespace("b")],
        [node(1), node(2)],
        [cudn],
        [udn],
        [wide("a"), wide("b"), own]
    ]);
    read(all)
}

fn nad(
    namespace: &str,
    name: &str,
    uid: &str,
    id: &str,
    network: &str,
    [role, topology, subnets]: [&str; 3],
) -> Value {
    let config = json!({"name": network, "netAttachDefName": format!("{namespace}/{name}"), "role": role,
        "topology": topology, "subnets": subnets, "type": "ovn-k8s-cni-overlay"});
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": name, "namespace": namespace, "finalizers": [NETWORK_FINALIZER],
            "labels": {USER_DEFINED_NETWORK: ""},
            "annotations": {NETWORK_NAME: network, NETWORK_ID: id, TUNNEL_KEYS: "[]"},
            "ownerReferences": [{"apiVersion": "v", "kind": "k", "name": name, "uid": uid, "controller": true}],
        },
        "spec": {"config": config.to_string()},
    })
}

fn read(all: Value) -> Inventory {
    let (namespaces, nodes, cudns, udns, nads) = serde_json::from_value(all).unwrap();
    Inventory { namespaces, nodes, cudns, udns, nads }
}

/// The same with something else at a place: which kind, which object, where in it.
fn but(place: &str, value: Value) -> Inventory {
    let Inventory { namespaces, nodes, cudns, udns, nads } = well();
    let mut all = serde_json::to_value((namespaces, nodes, cudns, udns, nads)).unwrap();
    *all.pointer_mut(place).unwrap_or_else(|| panic!("nothing at {place}")) = value;
    read(all)
}

#[test]
fn a_cluster_in_which_all_is_well_has_no_problems() {
    assert_eq!(problems(&well()), [""; 0]);
}

#[test]
fn whatever_is_wrong_is_told() {
    let config = |field: &str, value: &str| {
        let found = well().nads.swap_remove(0).spec.config;
        let mut config: Value = serde_json::from_str(&found).unwrap();
        config[field] = json!(value);
        json!(config.to_string())
    };
    let annotation = |key: &str| key.replace('/', "~1");
    let (id, keys) = (annotation(NETWORK_ID), annotation(TUNNEL_KEYS));
    let (node_id, subnets) = (annotation(NODE_ID), annotation(NODE_SUBNETS));
    let rows = [
        ("/0/0/metadata/labels".to_owned(), json!({TEAM: "x"}), "namespace a has 1 primary networks of"),
        (
            "/0/0/metadata/labels/team".into(),
            json!("y"),
            "a/wide is where ClusterUserDefinedNetwork wide is not for",
        ),
        ("/2/0/metadata/uid".into(), json!("z"), "a/wide is left of a network that is gone"),
        ("/2/0/metadata/uid".into(), json!("z"), "namespace b has 0 primary networks of"),
        ("/2/0/metadata/finalizers".into(), json!([]), "ClusterUserDefinedNetwork wide is not protected"),
        (
            "/2/0/metadata/generation".into(),
            json!(2),
            "NetworkCreated of ClusterUserDefinedNetwork wide is of generation",
        ),
        (
            "/2/0/status/conditions/0/status".into(),
            json!("False"),
            "NetworkCreated of ClusterUserDefinedNetwork wide is False",
        ),
        (
            "/2/0/status/conditions/0/message".into(),
            json!("[a]"),
            "NetworkCreated of ClusterUserDefinedNetwork wide says",
        ),
        (
            "/2/0/status/conditions/1/type".into(),
            json!("X"),
            "NetworkAllocationSucceeded of ClusterUserDefinedNetwork wide is missing",
        ),
        ("/3/0/metadata/uid".into(), json!("z"), "UserDefinedNetwork a/own is in {} instead of {\"a\"}"),
        ("/3/0/metadata/uid".into(), json!("z"), "NetworkCreated of UserDefinedNetwork a/own is True"),
        ("/4/0/spec/config".into(), json!("{"), "name of a/wide is None"),
        ("/4/0/spec/config".into(), config("subnets", "10.20.0.0/16"), "subnets of a/wide is"),
        ("/4/0/spec/config".into(), config("role", "secondary"), "role of a/wide is"),
        ("/4/0/metadata/labels".into(), json!({}), "a/wide has lost its label"),
        ("/4/0/metadata/finalizers".into(), json!([]), "a/wide is not protected"),
        (format!("/4/0/metadata/annotations/{id}"), json!("3"), "has more than one set of numbers"),
        (format!("/4/2/metadata/annotations/{id}"), json!("1"), "have one id, 1"),
        (format!("/4/2/metadata/annotations/{id}"), json!("x"), "UserDefinedNetwork a/own has no id"),
        (
            format!("/4/2/metadata/annotations/{keys}"),
            json!("[1,2]"),
            "UserDefinedNetwork a/own has tunnel keys",
        ),
        (format!("/1/0/metadata/annotations/{node_id}"), json!("4"), "have one id, 4"),
        (format!("/1/0/metadata/annotations/{subnets}"), json!("{}"), "n1 has no subnet of cluster_udn_wide"),
        (
            format!("/1/0/metadata/annotations/{subnets}"),
            json!(r#"{"cluster_udn_wide":["10.20.2.0/24"],"default":["10.128.8.0/23"]}"#),
            "have one subnet of cluster_udn_wide, 10.20.2.0/24",
        ),
        (
            format!("/1/0/metadata/annotations/{subnets}"),
            json!(r#"{"cluster_udn_wide":["10.99.1.0/24"],"default":["10.128.8.0/23"]}"#),
            "n1 has 10.99.1.0/24 of cluster_udn_wide, which does not have it",
        ),
        (
            format!("/1/0/metadata/annotations/{subnets}"),
            json!(r#"{"gone":["10.9.0.0/24"],"default":["10.128.8.0/23"]}"#),
            "of gone, which is gone",
        ),
    ];
    for (place, value, want) in rows {
        let found = problems(&but(&place, value.clone()));
        assert!(
            found.iter().any(|text| text.contains(want)),
            "{place} {value}: {want:?} is not in {found:#?}"
        );
    }
}

#[test]
fn what_is_on_its_way_out_is_still_there() {
    let mut inventory = well();
    if let Some(namespace) = inventory.namespaces.first_mut() {
        namespace.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    }
    assert!(problems(&inventory).iter().any(|text| text == "Namespace a is still on its way out"));
}

#[test]
fn a_layer2_primary_network_has_two_keys_that_nobody_else_has() {
    let with_keys = |keys: &str| {
        let mut inventory = well();
        inventory.cudns.clear();
        inventory.nads.retain(|nad| nad.name_any() == "own");
        for node in &mut inventory.nodes {
            let subnets = format!(r#"{{"default":["10.128.{}.0/23"]}}"#, node.name_any().len());
            node.annotations_mut().insert(NODE_SUBNETS.to_owned(), subnets);
        }
        inventory.nodes.truncate(1);
        if let Some(layer2) = inventory.udns.first_mut().and_then(|udn| udn.spec.layer2.as_mut()) {
            layer2.role = Role::Primary;
        }
        for nad in &mut inventory.nads {
            nad.spec.config = nad.spec.config.replace("secondary", "primary");
            nad.annotations_mut().insert(TUNNEL_KEYS.to_owned(), keys.to_owned());
        }
        problems(&inventory)
    };
    assert_eq!(with_keys("[16711685,16715779]"), [""; 0]);
    for keys in ["[]", "[16711685]", "[16711686,16715779]"] {
        assert_eq!(with_keys(keys).len(), 1, "{keys}");
    }
}
