//! The NADs that a pod's annotation `k8s.v1.cni.cncf.io/networks` names.
//!
//! Source: Network Plumbing Working Group, multi-network specification 4.1.2: `[namespace/]name[@interface]` separated by
//! commas, or a JSON list of objects.

use serde_json::Value;

use crate::network::name::{NadKey, Namespace};

/// An annotation that names no NADs. The pod needs the primary network of its namespace all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSelection {
    /// It looks like JSON and is not a list of objects with names.
    #[error("failed to parse pod network annotation: {0}")]
    Json(String),
    /// An element of the short form has too many or too few parts.
    #[error("failed to parse pod network element {0:?}: want [namespace/]name[@interface]")]
    Element(String),
}

/// The NADs that the annotation of a pod of this namespace names, each once.
///
/// # Errors
/// The annotation cannot be read.
pub fn attachments(namespace: &Namespace, text: &str) -> Result<Vec<NadKey>, BadSelection> {
    let keys =
        if text.contains(['[', '{', '"']) { from_json(namespace, text) } else { from_list(namespace, text) };
    keys.map(|mut keys| {
        keys.sort_unstable();
        keys.dedup();
        keys
    })
}

fn from_json(namespace: &Namespace, text: &str) -> Result<Vec<NadKey>, BadSelection> {
    let elements: Vec<Value> =
        serde_json::from_str(text).map_err(|error| BadSelection::Json(error.to_string()))?;
    let key = |element: &Value| {
        let field = |name: &str| element.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = field("name").ok_or_else(|| BadSelection::Json(format!("{element} has no name")))?;
        Ok(NadKey::new(field("namespace").map_or_else(|| namespace.clone(), Namespace::from), name))
    };
    elements.iter().map(key).collect()
}

fn from_list(namespace: &Namespace, text: &str) -> Result<Vec<NadKey>, BadSelection> {
    let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
    let key = |element: &str| {
        let bad = || BadSelection::Element(element.to_owned());
        let (nad, interface) =
            element.split_once('@').map_or((element, None), |(nad, name)| (nad, Some(name)));
        if interface.is_some_and(|name| name.is_empty() || name.contains(['@', '/'])) {
            return Err(bad());
        }
        match nad.split_once('/') {
            None if nad.is_empty() => Err(bad()),
            None => Ok(NadKey::new(namespace.clone(), nad)),
            Some(_) => nad.parse().map_err(|_| bad()),
        }
    };
    elements.map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, BadSelection> {
        attachments(&"n3".into(), text).map(|keys| keys.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn both_forms_name_nads_of_the_pods_namespace_unless_they_say_another() {
        for (text, want) in [
            ("", &[][..]),
            ("s1", &["n3/s1"]),
            ("s1@eth7 , other/net@net2", &["n3/s1", "other/net"]),
            ("s1,s1@second", &["n3/s1"]),
            (
                r#"[{"name":"s1"},{"name":"net","namespace":"other","interface":"net2"}]"#,
                &["n3/s1", "other/net"],
            ),
            (r#"[{"name":"s1","namespace":""}]"#, &["n3/s1"]),
            ("[]", &[]),
        ] {
            assert_eq!(read(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in ["a/b/c", "/s1", "a/", "s1@", "s1@a@b", "@net1"] {
            assert_eq!(read(text), Err(BadSelection::Element(text.to_owned())));
        }
        for text in ["[", "{}", r#"[{"namespace":"a"}]"#, r#"["s1"]"#, r#"{"name":"s1"}"#] {
            assert!(matches!(read(text), Err(BadSelection::Json(_))), "{text}");
        }
    }
}
