//! What may not change once an object was made.

use std::sync::Arc;

use causeway_rig::Rig;
use http::Method;
use serde_json::{Value, json};

use crate::world::{Attempts, NAMESPACES, PODS, Verdict, annotation, made, world};
use causeway_tests::rest::{OBJECT, send};

const LABEL: &str = "k8s.ovn.org/primary-user-defined-network";
const ADDED: &str = "The 'k8s.ovn.org/primary-user-defined-network' label cannot be added/removed after the namespace was created";
const CHANGED: &str =
    "The 'k8s.ovn.org/primary-user-defined-network' label cannot be changed after the namespace was created";
const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
const ANNOTATION_CHANGED: &str =
    "The 'v1.multus-cni.io/default-network' annotation cannot be changed after the pod was created";

fn labelled(key: &str, value: &Value) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

pub(crate) async fn namespaces(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let admin = &world.admin;
    let mut attempts = Attempts::default();
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    for (name, labels) in
        [("bare", json!({})), ("empty", json!({LABEL: ""})), ("valued", json!({LABEL: "x"}))]
    {
        // Made with it or without it: either is allowed.
        made(admin, NAMESPACES, &namespace(name, labels)).await?;
    }
    let rows = [
        ("added", "bare", labelled(LABEL, &json!("")), Some(ADDED)),
        ("added with a value", "bare", labelled(LABEL, &json!("x")), Some(ADDED)),
        ("removed", "empty", labelled(LABEL, &Value::Null), Some(ADDED)),
        ("removed with its value", "valued", labelled(LABEL, &Value::Null), Some(ADDED)),
        ("all labels removed", "empty", json!({"metadata": {"labels": null}}), Some(ADDED)),
        ("given a value", "empty", labelled(LABEL, &json!("x")), Some(CHANGED)),
        ("given another value", "valued", labelled(LABEL, &json!("y")), Some(CHANGED)),
        ("emptied", "valued", labelled(LABEL, &json!("")), Some(CHANGED)),
        ("written as it is", "empty", labelled(LABEL, &json!("")), None),
        ("left alone where another is added", "valued", labelled("other", &json!("x")), None),
        ("left alone where there is none", "bare", labelled("other", &json!("x")), None),
        ("left alone by an annotation", "empty", annotation("other", &json!("x")), None),
    ];
    for (what, name, body, sentence) in &rows {
        for path in [format!("{NAMESPACES}/{name}"), format!("{NAMESPACES}/{name}/status")] {
            let verdict = sentence.map_or(Verdict::Allowed, Verdict::Refused);
            attempts.merge(&format!("{what}: {path}"), admin, &path, body, verdict).await?;
        }
    }
    // The end of a namespace is written through a part of its own, which carries labels too.
    let path = format!("{NAMESPACES}/bare");
    let mut whole = send(admin, Method::GET, &path, OBJECT, None).await?.body;
    let finalize = format!("{path}/finalize");
    let put = (Method::PUT, OBJECT);
    attempts.send("finalized", admin, put.clone(), &finalize, Some(&whole), Verdict::Allowed).await?;
    whole["metadata"]["labels"][LABEL] = json!("");
    let refused = Verdict::Refused(ADDED);
    attempts.send("added by the end", admin, put, &finalize, Some(&whole), refused).await?;
    let gone = (Method::DELETE, OBJECT);
    attempts.send("deleted", admin, gone, &format!("{NAMESPACES}/empty"), None, Verdict::Allowed).await?;
    attempts.finish()
}

pub(crate) async fn pods(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = world(rig).await?;
    let admin = &world.admin;
    let mut attempts = Attempts::default();
    let pod = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": "a", "containers": [{"name": "one", "image": "none"}]},
        })
    };
    for (name, annotations) in [
        ("bare", Value::Null),
        ("other", json!({"other": "x"})),
        ("choosing", json!({DEFAULT_NETWORK: "one"})),
    ] {
        made(admin, PODS, &pod(name, annotations)).await?;
    }
    let rows = [
        ("added", "bare", annotation(DEFAULT_NETWORK, &json!("one")), Some(ANNOTATION_CHANGED)),
        (
            "added beside others",
            "other",
            annotation(DEFAULT_NETWORK, &json!("one")),
            Some(ANNOTATION_CHANGED),
        ),
        ("changed", "choosing", annotation(DEFAULT_NETWORK, &json!("two")), Some(ANNOTATION_CHANGED)),
        ("removed", "choosing", annotation(DEFAULT_NETWORK, &Value::Null), Some(ANNOTATION_CHANGED)),
        (
            "all annotations removed",
            "choosing",
            json!({"metadata": {"annotations": null}}),
            Some(ANNOTATION_CHANGED),
        ),
        ("written as it is", "choosing", annotation(DEFAULT_NETWORK, &json!("one")), None),
        ("left alone by another", "choosing", annotation("other", &json!("x")), None),
        // Upstream's expression asks for annotations that a pod need not have.
        ("left alone where there are none", "bare", labelled("other", &json!("x")), None),
        ("left alone where others go", "other", json!({"metadata": {"annotations": null}}), None),
    ];
    for (what, name, body, sentence) in &rows {
        for path in [format!("{PODS}/{name}"), format!("{PODS}/{name}/status")] {
            let verdict = sentence.map_or(Verdict::Allowed, Verdict::Refused);
            attempts.merge(&format!("{what}: {path}"), admin, &path, body, verdict).await?;
        }
    }
    attempts.finish()
}
