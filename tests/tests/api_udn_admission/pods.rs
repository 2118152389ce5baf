//! Who writes which annotation of a pod, and which addresses.

use std::sync::Arc;

use causeway_rig::Rig;
use causeway_tests::access;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{Attempts, NODES, PODS, Verdict, World, annotation, made, world};

const NETWORKS: &str = "k8s.ovn.org/pod-networks";
const DETAILS: &str = "k8s.ovn.org/dpu.connection-details";
const STATUS: &str = "k8s.ovn.org/dpu.connection-status";
const HOST: &str = "system:serviceaccount:ovn-kubernetes:causeway-host-agent";
const CARD: &str = "system:serviceaccount:causeway-dpus:card-a";
const REGULAR: &str = "system:serviceaccount:ovn-kubernetes:causeway-node-agent";
const MANAGER: &str = "system:serviceaccount:ovn-kubernetes:causeway-cluster-manager";

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "one", "image": "none"}]},
    })
}

fn paths(name: &str) -> [String; 2] {
    [format!("{PODS}/{name}"), format!("{PODS}/{name}/status")]
}

/// Our programs: their name, client, the end of the name of the pod that they write, and the annotations that are theirs.
fn programs(world: &World) -> [(&'static str, &Client, &'static str, &'static [&'static str]); 4] {
    [
        (HOST, &world.host, "a", &[DETAILS]),
        (CARD, &world.card, "a", &[NETWORKS, STATUS]),
        (REGULAR, &world.regular, "b", &[NETWORKS, DETAILS, STATUS]),
        (MANAGER, &world.manager, "a", &[NETWORKS]),
    ]
}

fn blue() -> Value {
    json!(
        r#"{"blue/blue":{"ip_addresses":["10.200.0.3/24"],"mac_address":"0a:58:0a:c8:00:03","role":"primary"}}"#
    )
}

pub(crate) async fn owners(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    for node in ["a", "b"] {
        made(&world.admin, PODS, &pod(&format!("owned-{node}"), node)).await?;
    }
    let mut attempts = Attempts::default();
    for (key, value) in [(NETWORKS, blue()), (DETAILS, json!("{}")), (STATUS, json!("{}"))] {
        let body = annotation(key, &value);
        for (user, client, node, own) in programs(world) {
            let name = format!("owned-{node}");
            let sentence =
                format!("{user} is not allowed to set the following annotations on pod: \"{name}\": [{key}]");
            for path in paths(&name) {
                let verdict = if own.contains(&key) { Verdict::Allowed } else { Verdict::Refused(&sentence) };
                attempts
                    .merge(&format!("{user} writes {key} to {path}"), client, &path, &body, verdict)
                    .await?;
            }
        }
        for (user, client, right) in [
            ("system:node:a", &world.kubelet, false),
            ("ann", &world.ann, false),
            ("bob", &world.bob, true),
            ("the admin", &world.admin, true),
        ] {
            let sentence = format!(
                "user \"{user}\" is not allowed to set the following annotations on pod: \"owned-a\": [{key}]; \
                 ClusterRole causeway-network-administrator gives this right"
            );
            for path in paths("owned-a") {
                let verdict = if right { Verdict::Allowed } else { Verdict::Refused(&sentence) };
                attempts
                    .merge(&format!("{user} writes {key} to {path}"), client, &path, &body, verdict)
                    .await?;
            }
        }
        let mut new = pod("new", "a");
        new["metadata"]["annotations"] = json!({key: value});
        let create = (http::Method::POST, crate::rest::OBJECT);
        let what = format!("a pod of a backup comes with {key}");
        attempts.send(&what, &world.ann, create, PODS, Some(&new), Verdict::Allowed).await?;
    }
    attempts.finish()
}

/// What is said of the address, the pod, the annotation, and the end of the refusal.
type Row = (&'static str, &'static str, String, Option<String>);

fn default(ips: &str) -> String {
    format!(r#"{{"default":{{"ip_addresses":{ips},"mac_address":""}}}}"#)
}

fn rows() -> Vec<Row> {
    let stranger = |ip: &str, node: &str| Some(format!("{ip} does not belong to {node} node"));
    let unreadable = || Some("its entry \"default\" cannot be read".to_owned());
    vec![
        ("in the subnet", "on-dual", default(r#"["10.244.1.5/24"]"#), None),
        ("in both subnets", "on-dual", default(r#"["10.244.1.5/24","fd00:10:244:1::5/64"]"#), None),
        ("in the subnet of the old form", "on-single", default(r#"["10.244.2.5/24"]"#), None),
        ("none", "on-dual", default("null"), None),
        ("of another network only", "on-dual", blue().as_str().unwrap_or_default().to_owned(), None),
        ("outside", "on-dual", default(r#"["10.244.2.5/24"]"#), stranger("10.244.2.5/24", "dual")),
        (
            "one of two outside",
            "on-dual",
            default(r#"["10.244.1.5/24","fd00:10:244:2::5/64"]"#),
            stranger("fd00:10:244:2::5/64", "dual"),
        ),
        (
            "in the subnet of another network",
            "on-dual",
            default(r#"["10.99.0.5/24"]"#),
            stranger("10.99.0.5/24", "dual"),
        ),
        ("on a node without subnets", "on-none", default(r#"["10.244.1.5/24"]"#), stranger("10.244.1.5/24", "none")),
        ("no address at all", "on-dual", default(r#"["x"]"#), stranger("x", "dual")),
        (
            "hidden behind an escape",
            "on-dual",
            r#"{"\u0064efault":{"ip_addresses":["10.244.2.5/24"],"mac_address":""}}"#.to_owned(),
            unreadable(),
        ),
        (
            "said twice",
            "on-dual",
            r#"{"default":{"ip_addresses":["10.244.1.5/24"],"ip_addresses":["10.244.2.5/24"],"mac_address":""}}"#.to_owned(),
            unreadable(),
        ),
        (
            "said twice in other letters",
            "on-dual",
            r#"{"default":{"ip_addresses":["10.244.1.5/24"],"IP_addresses":["10.244.2.5/24"],"mac_address":""}}"#.to_owned(),
            unreadable(),
        ),
        (
            "of an entry that comes twice",
            "on-dual",
            r#"{"default":{"ip_addresses":["10.244.1.5/24"]},"default" : {"ip_addresses":["10.244.2.5/24"]}}"#.to_owned(),
            unreadable(),
        ),
        (
            "not at the beginning",
            "on-dual",
            r#"{"default":{"mac_address":"","ip_addresses":["10.244.1.5/24"]}}"#.to_owned(),
            unreadable(),
        ),
        ("of a machine that takes it along", "migratable", default(r#"["10.244.2.5/24"]"#), None),
        (
            "of a pod on the host's network",
            "host-networked",
            default(r#"["10.244.1.5/24"]"#),
            Some("the annotation is not allowed on host networked pods".to_owned()),
        ),
    ]
}

/// Nodes with subnets in each form, and pods on them.
async fn placed(world: &World) -> anyhow::Result<()> {
    let subnets = json!({"metadata": {"annotations": {
        "k8s.ovn.org/node-subnets":
            r#"{"blue_net":["10.99.0.0/24"],"default":["10.244.1.0/24","fd00:10:244:1::/64"]}"#,
    }}});
    let old_form = json!({"metadata": {"annotations": {
        "k8s.ovn.org/node-subnets": r#"{"default":"10.244.2.0/24"}"#,
    }}});
    for (name, annotations) in [("dual", Some(subnets)), ("single", Some(old_form)), ("none", None)] {
        made(&world.admin, NODES, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}))
            .await?;
        if let Some(annotations) = annotations {
            world.set(&format!("{NODES}/{name}"), annotations).await?;
        }
        made(&world.admin, PODS, &pod(&format!("on-{name}"), name)).await?;
    }
    let mut migratable = pod("migratable", "dual");
    migratable["metadata"]["annotations"] =
        json!({"kubevirt.io/allow-pod-bridge-network-live-migration": ""});
    made(&world.admin, PODS, &migratable).await?;
    let mut host_networked = pod("host-networked", "dual");
    host_networked["spec"]["hostNetwork"] = json!(true);
    made(&world.admin, PODS, &host_networked).await?;
    Ok(())
}

pub(crate) async fn addresses(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    placed(world).await?;
    let rows = rows();
    let mut attempts = Attempts::default();
    for node in ["dual", "single", "none"] {
        let agent = access::pod_token(&world.rig, access::Account::NodeAgent, node).await?;
        let agent = access::client_of(&world.rig, &agent).await?;
        for (what, name, text, because) in &rows {
            let here = match *name {
                "on-single" => "single",
                "on-none" => "none",
                _ => "dual",
            };
            if here != node {
                continue;
            }
            for (user, client) in [(REGULAR, &agent), (MANAGER, &world.manager)] {
                let sentence = because.as_ref().map(|because| {
                    format!("user: \"{user}\" is not allowed to set {NETWORKS} on pod \"{name}\": {because}")
                });
                let verdict = sentence.as_deref().map_or(Verdict::Allowed, Verdict::Refused);
                let body = annotation(NETWORKS, &json!(text));
                let what = format!("{user}: an address {what}");
                attempts.merge(&what, client, &paths(name)[1], &body, verdict).await?;
            }
        }
    }
    // What stands there already is not judged again.
    world.set(&paths("on-dual")[0], annotation(NETWORKS, &json!(default(r#"["10.244.2.5/24"]"#)))).await?;
    let gone = annotation(NETWORKS, &Value::Null);
    let path = &paths("on-dual")[1];
    attempts.merge("taken away", &world.manager, path, &gone, Verdict::Allowed).await?;
    attempts.finish()
}

pub(crate) async fn rest(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    for node in ["a", "b"] {
        made(&world.admin, PODS, &pod(&format!("rest-{node}"), node)).await?;
    }
    let mut attempts = Attempts::default();
    let networks = annotation(NETWORKS, &blue());
    let details = annotation(DETAILS, &json!("{}"));
    for (user, client, own, other, body) in [
        (HOST, &world.host, "a", "b", &details),
        (CARD, &world.card, "a", "b", &networks),
        (REGULAR, &world.regular, "b", "a", &networks),
    ] {
        let name = format!("rest-{other}");
        let sentence =
            format!("{user} on node: \"{own}\" is not allowed to modify annotations on pod \"{name}\"");
        for path in paths(&name) {
            let refused = Verdict::Refused(&sentence);
            attempts.merge(&format!("{user} writes to {path}"), client, &path, body, refused).await?;
        }
    }
    for (user, client, node, _) in programs(world) {
        let sentence = format!("{user} is not allowed to modify anything other than annotations of pods");
        for (what, path, body) in [
            ("a label", 0, json!({"metadata": {"labels": {"a": "b"}}})),
            ("a label by the status", 1, json!({"metadata": {"labels": {"a": "b"}}})),
            ("a finalizer", 0, json!({"metadata": {"finalizers": ["example.com/x"]}})),
            ("a deadline", 0, json!({"spec": {"activeDeadlineSeconds": 5}})),
            ("a phase", 1, json!({"status": {"phase": "Running"}})),
        ] {
            let path = &paths(&format!("rest-{node}"))[path];
            let refused = Verdict::Refused(&sentence);
            attempts.merge(&format!("{user} writes {what}"), client, path, &body, refused).await?;
        }
    }
    access::make_card(&world.rig, "pod-stranger").await?;
    let token = access::card_token(&world.rig, "pod-stranger", "a").await?;
    let stranger = access::client_of(&world.rig, &token).await?;
    let sentence = format!(
        "{} is not the card of node \"a\": annotation causeway.internal/dpu-identity of the Node is \"{CARD}\"",
        access::card_user("pod-stranger")
    );
    let status = annotation(STATUS, &json!("{}"));
    let refused = Verdict::Refused(&sentence);
    attempts.merge("a stranger's card", &stranger, &paths("rest-a")[1], &status, refused).await?;
    attempts.finish()
}
