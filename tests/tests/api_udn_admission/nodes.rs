//! Who writes which annotation of a Node.

use std::sync::Arc;

use causeway_rig::Rig;
use causeway_tests::access;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{Attempts, NODES, Verdict, World, annotation, made, world};
use causeway_tests::rest::OBJECT;

/// Who writes an annotation where a node has a card; the agent of a regular node is host and card.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Manager,
    Host,
    Card,
}

/// Each annotation with its writer, and a value. Source: upstream's node identity webhook and its annotations of Nodes.
const OWNED: [(&str, Side, &str); 22] = [
    ("node-subnets", Side::Manager, r#"{"default":["10.244.0.0/24"]}"#),
    ("network-ids", Side::Manager, r#"{"default":"0"}"#),
    ("udn-layer2-node-gateway-router-lrp-tunnel-ids", Side::Manager, r#"{"blue_net":"5"}"#),
    ("node-id", Side::Manager, "2"),
    ("node-transit-switch-port-ifaddr", Side::Manager, r#"{"ipv4":"100.88.0.2/16"}"#),
    ("node-gateway-router-lrp-ifaddrs", Side::Manager, "{}"),
    ("host-cidrs", Side::Host, r#"["172.18.0.3/16"]"#),
    ("primary-dpu-host-addr", Side::Host, r#"{"ipv4":"172.18.0.3/16"}"#),
    ("node-mgmt-port", Side::Host, r#"{"PfId":0,"FuncId":1}"#),
    ("node-mgmt-port-mac-addresses", Side::Host, r#"{"default":"02:00:00:00:00:01"}"#),
    ("node-masquerade-subnet", Side::Host, r#"{"ipv4":"169.254.0.0/17","ipv6":"fd69::/112"}"#),
    ("node-ingress-snat-exclude-subnets", Side::Host, r#"["10.0.0.0/8"]"#),
    ("secondary-host-egress-ips", Side::Host, r#"["172.19.0.9"]"#),
    ("bridge-egress-ips", Side::Card, r#"["172.18.0.9"]"#),
    ("l3-gateway-config", Side::Card, r#"{"default":{"mode":""}}"#),
    ("node-primary-ifaddr", Side::Card, r#"{"ipv4":"172.18.0.3/16"}"#),
    ("gateway-mtu-support", Side::Card, "false"),
    ("node-encap-ips", Side::Card, r#"["172.18.0.3"]"#),
    ("vteps", Side::Card, r#"{"evpn-vtep":{"ips":["100.64.0.1"]}}"#),
    ("node-chassis-id", Side::Card, "b4a1b3f4-6a4a-4b0e-9e4c-6d2c6e0f4a11"),
    ("zone-name", Side::Card, "a"),
    ("layer2-topology-version", Side::Card, "2.0"),
];

const HOST: &str = "system:serviceaccount:ovn-kubernetes:causeway-host-agent";
const CARD: &str = "system:serviceaccount:causeway-dpus:card-a";
const REGULAR: &str = "system:serviceaccount:ovn-kubernetes:causeway-node-agent";
const MANAGER: &str = "system:serviceaccount:ovn-kubernetes:causeway-cluster-manager";

fn full(key: &str) -> String {
    format!("k8s.ovn.org/{key}")
}

/// Our programs: their name, client, node, and what they write.
fn programs(world: &World) -> [(&'static str, &Client, &'static str, &'static [Side]); 4] {
    [
        (HOST, &world.host, "a", &[Side::Host]),
        (CARD, &world.card, "a", &[Side::Card]),
        (REGULAR, &world.regular, "b", &[Side::Host, Side::Card]),
        (MANAGER, &world.manager, "a", &[Side::Manager]),
    ]
}

fn paths(node: &str) -> [String; 2] {
    [format!("{NODES}/{node}"), format!("{NODES}/{node}/status")]
}

fn not_theirs(user: &str, node: &str, key: &str) -> String {
    format!("{user} is not allowed to set the following annotations on node: \"{node}\": [{key}]")
}

fn no_right(user: &str, node: &str, key: &str) -> String {
    format!(
        "user \"{user}\" is not allowed to set the following annotations on node: \"{node}\": [{key}]; ClusterRole \
         causeway-network-administrator gives this right"
    )
}

pub(crate) async fn owners(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    for (key, side, value) in OWNED {
        let key = full(key);
        for (user, client, node, sides) in programs(world) {
            let value = if key.ends_with("zone-name") { node } else { value };
            let sentence = not_theirs(user, node, &key);
            for path in paths(node) {
                let what = format!("{user} writes {key} to {path}");
                let verdict =
                    if sides.contains(&side) { Verdict::Allowed } else { Verdict::Refused(&sentence) };
                attempts.merge(&what, client, &path, &annotation(&key, &json!(value)), verdict).await?;
            }
        }
        for (user, client, right) in [
            ("system:node:a", &world.kubelet, false),
            ("ann", &world.ann, false),
            ("bob", &world.bob, true),
            ("the admin", &world.admin, true),
        ] {
            let sentence = no_right(user, "a", &key);
            for path in paths("a") {
                let what = format!("{user} writes {key} to {path}");
                let verdict = if right { Verdict::Allowed } else { Verdict::Refused(&sentence) };
                attempts.merge(&what, client, &path, &annotation(&key, &json!(value)), verdict).await?;
            }
        }
        let new = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "new", "annotations": {key.clone(): value}},
        });
        let create = || (Method::POST, OBJECT);
        let sentence = no_right("ann", "new", &key);
        let refused = Verdict::Refused(&sentence);
        let what = format!("a new Node comes with {key}");
        attempts.send(&what, &world.ann, create(), NODES, Some(&new), refused).await?;
        attempts.send(&what, &world.bob, create(), NODES, Some(&new), Verdict::Allowed).await?;
    }
    // The cluster manager's, or of whoever else writes it.
    let hybrid = annotation(&full("hybrid-overlay-node-subnet"), &json!("172.16.0.0/24"));
    for (user, client, node, sides) in programs(world) {
        let sentence = not_theirs(user, node, &full("hybrid-overlay-node-subnet"));
        let is_manager = sides.contains(&Side::Manager);
        let verdict = if is_manager { Verdict::Allowed } else { Verdict::Refused(&sentence) };
        attempts.merge(&format!("{user}'s hybrid subnet"), client, &paths(node)[1], &hybrid, verdict).await?;
    }
    attempts.merge("others' hybrid subnet", &world.ann, &paths("a")[0], &hybrid, Verdict::Allowed).await?;
    // What nobody owns is no program's, and everybody's else.
    let note = annotation("example.com/note", &json!("x"));
    for (user, client, node, _) in programs(world) {
        let sentence = not_theirs(user, node, "example.com/note");
        attempts
            .merge("a program's note", client, &paths(node)[0], &note, Verdict::Refused(&sentence))
            .await?;
    }
    for client in [&world.kubelet, &world.ann] {
        attempts.merge("a note", client, &paths("a")[0], &note, Verdict::Allowed).await?;
    }
    attempts.finish()
}

pub(crate) async fn values(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "valued"}});
    made(&world.admin, NODES, &node).await?;
    let path = format!("{NODES}/valued");
    let set = json!({"metadata": {"annotations": {
        full("node-chassis-id"): "one", full("zone-name"): "valued", full("layer2-topology-version"): "2.0",
        full("host-cidrs"): "[]", full("gateway-mtu-support"): "false",
    }}});
    world.set(&path, set).await?;
    let card = access::enrol_card(&world.rig, "card-valued", "valued").await?;
    let card = access::client_of(&world.rig, &card).await?;
    let agent = access::pod_token(&world.rig, access::Account::NodeAgent, "valued").await?;
    let agent = access::client_of(&world.rig, &agent).await?;
    let user = "system:serviceaccount:causeway-dpus:card-valued";
    let because = |user: &str, key: &str, why: &str| {
        format!("user: \"{user}\" is not allowed to set {key} on node \"valued\": {key} {why}")
    };
    let zone_why = "can only be set to valued, it cannot be removed";
    let rows = [
        ("node-chassis-id", json!("two"), Some("cannot be changed once set")),
        ("node-chassis-id", Value::Null, Some("cannot be removed")),
        ("node-chassis-id", json!("one"), None),
        ("zone-name", json!("global"), Some(zone_why)),
        ("zone-name", json!("other"), Some(zone_why)),
        ("zone-name", Value::Null, Some(zone_why)),
        ("zone-name", json!("valued"), None),
        ("layer2-topology-version", json!("3.0"), Some("cannot be changed once set")),
        ("layer2-topology-version", Value::Null, None),
        ("layer2-topology-version", json!("2.0"), None),
        // Others are changed and removed at will.
        ("gateway-mtu-support", json!("true"), None),
        ("gateway-mtu-support", Value::Null, None),
    ];
    let mut attempts = Attempts::default();
    for (client, user) in [(&card, user), (&agent, REGULAR)] {
        for (key, value, why) in &rows {
            let key = full(key);
            let sentence = why.map(|why| because(user, &key, why));
            for path in [path.clone(), format!("{path}/status")] {
                let verdict = sentence.as_deref().map_or(Verdict::Allowed, Verdict::Refused);
                let what = format!("{user} writes {value} into {key} through {path}");
                attempts.merge(&what, client, &path, &annotation(&key, value), verdict).await?;
            }
        }
    }
    // Who repairs a Node by hand is not held to them.
    for client in [&world.bob, &world.admin] {
        let body = annotation(&full("node-chassis-id"), &json!("two"));
        attempts.merge("a repair", client, &path, &body, Verdict::Allowed).await?;
    }
    attempts.finish()
}

/// A policy has a budget, and what runs out of it is refused.
pub(crate) async fn large(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let path = format!("{NODES}/large");
    made(&world.admin, NODES, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "large"}}))
        .await?;
    let images: Vec<Value> = (0..200)
        .map(|image| {
            let names: Vec<String> = (0..5)
                .map(|name| format!("registry.example.com/{image}/{name}@{}", "0".repeat(150)))
                .collect();
            json!({"names": names, "sizeBytes": 1})
        })
        .collect();
    world.set(&format!("{path}/status"), json!({"status": {"images": images}})).await?;
    let subnets = |third: usize| {
        let of =
            |network: usize| format!("\"tenant-{network}_network\":[\"10.{}.{third}.0/24\"]", network % 250);
        let networks: Vec<String> = (0..2500).map(of).collect();
        json!(format!("{{{}}}", networks.join(",")))
    };
    let labels: Vec<(String, Value)> = (0..100).map(|label| (format!("label-{label}"), json!("x"))).collect();
    let labels: Value = labels.into_iter().collect();
    let key = full("node-subnets");
    world
        .set(&path, json!({"metadata": {"labels": labels, "annotations": {key.clone(): subnets(1)}}}))
        .await?;
    let mut attempts = Attempts::default();
    let change = annotation(&key, &subnets(2));
    let what = "subnets of 2,500 networks";
    let status = format!("{path}/status");
    attempts.merge(what, &world.manager, &status, &change, Verdict::Allowed).await?;
    let sentence = no_right("ann", "large", &key);
    attempts.merge(what, &world.ann, &status, &change, Verdict::Refused(&sentence)).await?;
    attempts.finish()
}

pub(crate) async fn rest(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    let cidrs = annotation(&full("host-cidrs"), &json!("[]"));
    let encap = annotation(&full("node-encap-ips"), &json!("[]"));
    for (user, client, own, other, body) in [
        (HOST, &world.host, "a", "b", &cidrs),
        (CARD, &world.card, "a", "b", &encap),
        (REGULAR, &world.regular, "b", "a", &cidrs),
    ] {
        let sentence =
            format!("{user} on node: \"{own}\" is not allowed to modify nodes \"{other}\" annotations");
        for path in paths(other) {
            let refused = Verdict::Refused(&sentence);
            attempts.merge(&format!("{user} writes to {path}"), client, &path, body, refused).await?;
        }
    }
    let condition = json!({"type": "NetworkUnavailable", "status": "False", "reason": "x", "message": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"});
    let changes = [
        ("a label", 0, json!({"metadata": {"labels": {"a": "b"}}})),
        ("a label by the status", 1, json!({"metadata": {"labels": {"a": "b"}}})),
        ("a finalizer", 0, json!({"metadata": {"finalizers": ["example.com/x"]}})),
        (
            "an owner",
            0,
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "00000000-0000-0000-0000-000000000001"},
            ]}}),
        ),
        ("a taint", 0, json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})),
        ("a condition", 1, json!({"status": {"conditions": [condition]}})),
        ("an address", 1, json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}})),
    ];
    for (user, client, node, _) in programs(world) {
        let sentence = format!("{user} is not allowed to modify anything other than annotations of nodes");
        for (what, path, body) in &changes {
            let path = &paths(node)[*path];
            let refused = Verdict::Refused(&sentence);
            attempts.merge(&format!("{user} writes {what}"), client, path, body, refused).await?;
        }
        let none = "Causeway's programs neither create nor delete Nodes.";
        let gone = (Method::DELETE, OBJECT);
        attempts
            .send(&format!("{user} deletes"), client, gone, &paths(node)[0], None, Verdict::Refused(none))
            .await?;
    }
    // Cards: who the Node says, with a token for it, and never in a pod.
    access::make_card(&world.rig, "stranger").await?;
    let token = access::card_token(&world.rig, "stranger", "a").await?;
    let stranger = access::client_of(&world.rig, &token).await?;
    let sentence = format!(
        "{} is not the card of node \"a\": annotation causeway.internal/dpu-identity of the Node is \"{CARD}\"",
        access::card_user("stranger")
    );
    let refused = Verdict::Refused(&sentence);
    attempts.merge("a stranger's card", &stranger, &paths("a")[0], &encap, refused).await?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "card"},
        "spec": {
            "nodeName": "a", "serviceAccountName": "card-a",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "one", "image": "none", "securityContext":
                {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        },
    });
    made(&world.admin, "/api/v1/namespaces/causeway-dpus/pods", &pod).await?;
    let token = access::token(&world.rig, access::CARDS, "card-a", Some(("Pod", "card", None))).await?;
    let in_pod = access::client_of(&world.rig, &token).await?;
    let sentence = "A card's token is bound to the Node that the card serves, never to a pod: a host can get tokens of \
                    pods that run on it.";
    attempts.merge("a card in a pod", &in_pod, &paths("a")[0], &encap, Verdict::Refused(sentence)).await?;
    attempts.finish()
}
