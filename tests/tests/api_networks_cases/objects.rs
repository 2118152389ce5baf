//! Objects as people write them.

use serde_json::{Value, json};

/// Label of a namespace that takes a primary network.
const PRIMARY: &str = "k8s.ovn.org/primary-user-defined-network";

/// A namespace that takes a primary network, with these labels too.
pub(crate) fn tenant(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut all: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    all.insert(PRIMARY.to_owned(), json!(""));
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": all}})
}

/// A namespace that takes none.
pub(crate) fn plain(name: &str, labels: &[(&str, &str)]) -> Value {
    let mut namespace = tenant(name, labels);
    if let Some(labels) = namespace.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(PRIMARY);
    }
    namespace
}

/// The spec of a Layer3 network.
pub(crate) fn layer3(role: &str, cidr: &str, host: u8) -> Value {
    json!({"topology": "Layer3", "layer3": {"role": role, "subnets": [{"cidr": cidr, "hostSubnet": host}]}})
}

/// The spec of a Layer2 network.
pub(crate) fn layer2(role: &str, cidr: &str) -> Value {
    json!({"topology": "Layer2", "layer2": {"role": role, "subnets": [cidr]}})
}

/// A network of a namespace.
pub(crate) fn udn(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// A network of the namespaces with a label.
pub(crate) fn cudn(name: &str, label: (&str, &str), network: &Value) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
        "spec": {"namespaceSelector": {"matchLabels": {label.0: label.1}}, "network": network}})
}

/// The config of a network that somebody writes by hand; a null takes a key out.
pub(crate) fn config(key: &str, network: &str, changes: &Value) -> String {
    let mut config = json!({"cniVersion": "1.1.0", "name": network, "netAttachDefName": key, "role": "secondary",
        "subnets": "10.40.0.0/16/24", "topology": "layer3", "type": "ovn-k8s-cni-overlay"});
    for (key, value) in changes.as_object().into_iter().flatten() {
        if let Some(fields) = config.as_object_mut() {
            match value {
                Value::Null => drop(fields.remove(key)),
                value => drop(fields.insert(key.clone(), value.clone())),
            }
        }
    }
    config.to_string()
}

/// A NetworkAttachmentDefinition that somebody writes by hand.
pub(crate) fn nad(namespace: &str, name: &str, config: &str) -> Value {
    json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": namespace, "name": name}, "spec": {"config": config}})
}

/// Path of a NetworkAttachmentDefinition.
pub(crate) fn nad_path(namespace: &str, name: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions/{name}")
}

/// A node.
pub(crate) fn node(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
}

/// Path of a node.
pub(crate) fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// A pod that runs on a node and is attached to these NetworkAttachmentDefinitions.
pub(crate) fn pod(namespace: &str, name: &str, node: &str, attached: &[&str]) -> Value {
    let entries: serde_json::Map<String, Value> =
        attached.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name,
            "annotations": {"k8s.ovn.org/pod-networks": Value::Object(entries).to_string()}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}
