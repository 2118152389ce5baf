//! Objects as they are compared: without what differs from run to run.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// Metadata that differs from run to run.
const VOLATILE: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// Annotations of which the values belong to the nodes together.
const HANDED_OUT: [&str; 3] =
    ["k8s.ovn.org/node-subnets", "k8s.ovn.org/node-id", "k8s.ovn.org/node-transit-switch-port-ifaddr"];

/// Prefixes of annotations of the network stack.
const OURS: [&str; 3] = ["k8s.ovn.org/", "k8s.cni.cncf.io/", "k8s.v1.cni.cncf.io/"];

/// One place where an object is not as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Object and field.
    pub(super) path: String,
    theirs: String,
    ours: String,
}

impl Difference {
    /// A place where there is this upstream, and that here.
    #[must_use]
    pub fn new(path: &str, theirs: &Value, ours: &Value) -> Self {
        Self { path: path.to_owned(), theirs: short(theirs), ours: short(ours) }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: theirs {} ours {}", self.path, self.theirs, self.ours)
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.char_indices()
        .nth(400)
        .map_or(text.clone(), |(at, _)| format!("{}…", text.get(..at).unwrap_or_default()))
}

/// The value at a JSON pointer (RFC 6901); null where there is none.
pub(super) fn at<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// An object as it is compared.
pub(super) fn normal(object: &Value) -> Value {
    let kind = at(object, "/kind").as_str().unwrap_or_default();
    let mut meta = Map::new();
    let given = at(object, "/metadata").as_object().cloned().unwrap_or_default();
    for (key, value) in &given {
        let apart = ["annotations", "ownerReferences", "deletionTimestamp", "finalizers"];
        if !VOLATILE.contains(&key.as_str()) && !apart.contains(&key.as_str()) {
            meta.insert(key.clone(), value.clone());
        }
    }
    meta.insert("deleting".to_owned(), json!(given.contains_key("deletionTimestamp")));
    let annotations = given.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let compared = annotations.into_iter().filter(|(key, _)| {
        OURS.iter().any(|prefix| key.starts_with(prefix))
            && (kind != "Node" || !HANDED_OUT.contains(&key.as_str()))
    });
    let compared: Map<String, Value> = compared.map(|(key, value)| (key, unpacked(&value))).collect();
    meta.insert("annotations".to_owned(), Value::Object(compared));
    let owners = given.get("ownerReferences").and_then(Value::as_array).cloned().unwrap_or_default();
    meta.insert("ownerReferences".to_owned(), owners.into_iter().map(without_uid).collect());
    let mut finalizers = given.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.sort_by_key(Value::to_string);
    meta.insert("finalizers".to_owned(), Value::Array(finalizers));
    let mut normal = Map::from_iter([("metadata".to_owned(), Value::Object(meta))]);
    if ["Node", "Pod", "Namespace", "Service"].contains(&kind) {
        return Value::Object(normal);
    }
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "metadata" | "apiVersion" | "kind" => {}
            "status" => drop(normal.insert(key.clone(), status(value))),
            "spec" => drop(normal.insert(key.clone(), spec(value))),
            _ => drop(normal.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(normal)
}

fn without_uid(mut owner: Value) -> Value {
    if let Some(fields) = owner.as_object_mut() {
        fields.remove("uid");
    }
    owner
}

/// Conditions by type; errors that were joined may come in any order.
fn status(status: &Value) -> Value {
    let Some(conditions) = at(status, "/conditions").as_array() else { return status.clone() };
    let by_type: Map<String, Value> = conditions
        .iter()
        .map(|condition| {
            let fields = condition.as_object().into_iter().flatten();
            let fields = fields
                .filter(|(key, _)| {
                    !["lastTransitionTime", "observedGeneration", "type"].contains(&key.as_str())
                })
                .map(|(key, value)| (key.clone(), sorted_lines(value)));
            (at(condition, "/type").as_str().unwrap_or_default().to_owned(), Value::Object(fields.collect()))
        })
        .collect();
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.insert("conditions".to_owned(), Value::Object(by_type));
    }
    status
}

/// A network config as bytes and as what it says, which is easier to read where it differs.
fn spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(config) = at(&spec, "/config").as_str().map(str::to_owned)
        && let Some(fields) = spec.as_object_mut()
    {
        fields.insert("config".to_owned(), unpacked(&json!(config)));
        fields.insert("configBytes".to_owned(), json!(config));
    }
    spec
}

fn sorted_lines(value: &Value) -> Value {
    match value.as_str() {
        Some(text) if text.contains('\n') => {
            let mut lines: Vec<&str> = text.split('\n').collect();
            lines.sort_unstable();
            json!(lines.join("\n"))
        }
        _ => value.clone(),
    }
}

fn unpacked(value: &Value) -> Value {
    let read = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    read.filter(|read| read.is_object() || read.is_array()).unwrap_or_else(|| value.clone())
}

/// What nodes have together, whoever has which.
pub(super) fn handed_out<'n>(nodes: impl IntoIterator<Item = &'n Value>) -> Value {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes {
        for key in HANDED_OUT {
            let value = unpacked(at(node, "/metadata/annotations").get(key).unwrap_or(&json!("")));
            match value.as_object() {
                Some(entries) => {
                    for (name, item) in entries {
                        all.entry(format!("{key}.{name}")).or_default().push(item.to_string());
                    }
                }
                None => all.entry(format!("{key}.")).or_default().push(value.to_string()),
            }
        }
    }
    for values in all.values_mut() {
        values.sort_unstable();
    }
    json!(all)
}

/// Adds what differs between two values.
pub(super) fn differences(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (theirs.as_object(), ours.as_object()) {
        (Some(a), Some(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let (theirs, ours) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                if is_empty(theirs) && is_empty(ours) {
                    continue;
                }
                // The part that belongs to all nodes is written as the field of an object without a name.
                let dot = if path.ends_with(' ') && !path.ends_with(": ") { "" } else { "." };
                differences(&format!("{path}{dot}{key}"), theirs, ours, found);
            }
        }
        _ if theirs != ours => found.push(Difference::new(path, theirs, ours)),
        _ => {}
    }
}

/// What is left out and what is empty mean the same.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(_) | Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(theirs: &Value, ours: &Value) -> Vec<String> {
        let mut found = Vec::new();
        differences("X//x ", &normal(theirs), &normal(ours), &mut found);
        found.into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn times_versions_and_the_order_of_joined_errors_do_not_count() {
        let object = |version: &str, message: &str, time: &str| {
            json!({"kind": "X", "metadata": {"name": "x", "resourceVersion": version, "uid": version},
                "status": {"conditions": [{"type": "C", "status": "False", "message": message,
                    "lastTransitionTime": time, "observedGeneration": 1}]}})
        };
        assert_eq!(found(&object("1", "a\nb", "t"), &object("2", "b\na", "u")), Vec::<String>::new());
        assert_eq!(
            found(&object("1", "a", "t"), &object("1", "b", "t")),
            ["X//x status.conditions.C.message"]
        );
    }

    #[test]
    fn deletion_owners_finalizers_and_own_annotations_count() {
        let with = |meta: Value| json!({"kind": "X", "metadata": meta});
        let plain = with(json!({"name": "x"}));
        for (meta, field) in [
            (json!({"name": "x", "deletionTimestamp": "t"}), "deleting"),
            (json!({"name": "x", "finalizers": ["f"]}), "finalizers"),
            (json!({"name": "x", "ownerReferences": [{"name": "o", "uid": "1"}]}), "ownerReferences"),
            (json!({"name": "x", "annotations": {"k8s.ovn.org/a": "b"}}), "annotations.k8s.ovn.org/a"),
            (json!({"name": "x", "labels": {"a": "b"}}), "labels"),
        ] {
            let paths = found(&plain, &with(meta));
            assert!(
                paths.iter().any(|path| path.contains(&format!("metadata.{field}"))),
                "{field}: {paths:?}"
            );
        }
        assert_eq!(
            found(&plain, &with(json!({"name": "x", "annotations": {"else": "b"}}))),
            Vec::<String>::new()
        );
    }

    #[test]
    fn which_node_has_which_subnet_does_not_count_but_what_they_have_together_does() {
        let node = |subnet: &str| {
            json!({"kind": "Node", "metadata": {"name": "n", "annotations": {
            "k8s.ovn.org/node-subnets": format!("{{\"net\":[\"{subnet}\"]}}")}}})
        };
        let (one, two, three) = (node("10.0.0.0/24"), node("10.0.1.0/24"), node("10.0.2.0/24"));
        assert_eq!(handed_out([&one, &two]), handed_out([&two, &one]));
        assert_ne!(handed_out([&one, &two]), handed_out([&one, &three]));
        assert_eq!(normal(&one), normal(&two));
    }
}
