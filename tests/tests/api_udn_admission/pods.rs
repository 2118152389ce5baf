//! Who writes which annotation of a pod, and which addresses.

use std::sync::Arc;

use causeway_rig::Rig;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{Attempts, PODS, Verdict, World, annotation, made, world};

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
        let create = (http::Method::POST, causeway_tests::rest::OBJECT);
        let what = format!("a pod of a backup comes with {key}");
        attempts.send(&what, &world.ann, create, PODS, Some(&new), Verdict::Allowed).await?;
    }
    attempts.finish()
}

pub(crate) async fn host_networked(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let mut attempts = Attempts::default();
    for (node, name) in [("a", "host-a"), ("b", "host-b")] {
        let mut pod = pod(name, node);
        pod["spec"]["hostNetwork"] = json!(true);
        made(&world.admin, PODS, &pod).await?;
    }
    let networks = annotation(NETWORKS, &blue());
    for (user, client, name) in [
        (CARD, &world.card, "host-a"),
        (REGULAR, &world.regular, "host-b"),
        (MANAGER, &world.manager, "host-a"),
    ] {
        let sentence = format!(
            "user: \"{user}\" is not allowed to set {NETWORKS} on pod \"{name}\": the annotation is not allowed on \
             host networked pods"
        );
        for path in paths(name) {
            let what = format!("{user} writes to {path}");
            attempts.merge(&what, client, &path, &networks, Verdict::Refused(&sentence)).await?;
        }
    }
    let details = annotation(DETAILS, &json!("{}"));
    attempts
        .merge("another annotation", &world.host, &paths("host-a")[1], &details, Verdict::Allowed)
        .await?;
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
    attempts.finish()
}
