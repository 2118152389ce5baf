//! Whether the cluster's definitions are this version's: what an object may say, not how it is described. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde::Serialize;
use serde_json::Value;

/// Differences that a message lists.
const LISTED: usize = 5;

/// What is different, one sentence each; empty if an object means the same under both.
#[must_use]
pub fn differences(want: &CustomResourceDefinition, have: &CustomResourceDefinition) -> Vec<String> {
    let mut found = Vec::new();
    if want.spec.scope != have.spec.scope {
        found.push(format!("scope is {}, not {}", have.spec.scope, want.spec.scope));
    }
    for version in &want.spec.versions {
        match have.spec.versions.iter().find(|other| other.name == version.name) {
            None => found.push(format!("version {} is missing", version.name)),
            Some(other) => version_differences(version, other, &mut found),
        }
    }
    if found.len() > LISTED {
        let more = found.len() - LISTED;
        found.truncate(LISTED);
        found.push(format!("and {more} more"));
    }
    found
}

fn version_differences(
    want: &CustomResourceDefinitionVersion,
    have: &CustomResourceDefinitionVersion,
    found: &mut Vec<String>,
) {
    let name = &want.name;
    for (what, want, have) in [("served", want.served, have.served), ("stored", want.storage, have.storage)] {
        if want != have {
            found.push(format!("{name} is {}{what}", if have { "" } else { "not " }));
        }
    }
    let status = |version: &CustomResourceDefinitionVersion| {
        version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    };
    if status(want) != status(have) {
        let has = if status(have) { "has a" } else { "has no" };
        found.push(format!("{name} {has} status subresource"));
    }
    let (want_leaves, have_leaves) = (leaves(want), leaves(have));
    for (path, value) in &want_leaves {
        match have_leaves.get(path) {
            Some(other) if other == value => {}
            Some(other) => found.push(format!("{path} is {other}, not {value}")),
            None => found.push(format!("{path} ({value}) is missing")),
        }
    }
    let extra = have_leaves.iter().filter(|(path, _)| !want_leaves.contains_key(*path));
    found.extend(extra.map(|(path, value)| format!("{path} ({value}) is not this version's")));
}

/// Schema and selectable fields of a version as paths with their values.
fn leaves(version: &CustomResourceDefinitionVersion) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    collect("schema", &json(&schema), &mut leaves);
    collect("selectableFields", &json(&version.selectable_fields), &mut leaves);
    leaves
}

/// A schema without a JSON form does not exist; as null it differs from everything.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn collect(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, member) in members {
                // Text for people may differ. A property of that name would be an object.
                if name == "description" && member.is_string() {
                    continue;
                }
                collect(&format!("{path}.{name}"), member, leaves);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                collect(&format!("{path}[{index}]"), item, leaves);
            }
        }
        other => drop(leaves.insert(path.to_owned(), other.clone())),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

    use super::*;

    fn uplink() -> CustomResourceDefinition {
        causeway_api::crd::all().into_iter().next().unwrap()
    }

    fn schema(crd: &mut CustomResourceDefinition) -> &mut JSONSchemaProps {
        let version = crd.spec.versions.first_mut().unwrap();
        version.schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap()
    }

    #[test]
    fn a_definition_equals_itself_whatever_its_descriptions() {
        let mut described = uplink();
        schema(&mut described).description = Some("another text".into());
        assert_eq!(differences(&uplink(), &described), Vec::<String>::new());
    }

    #[test]
    fn what_an_object_may_say_makes_a_difference() {
        type Change = fn(&mut CustomResourceDefinition);
        let cases: &[(Change, &str)] = &[
            (|crd| crd.spec.scope = "Namespaced".into(), "scope is Namespaced, not Cluster"),
            (|crd| crd.spec.versions.clear(), "version v1alpha1 is missing"),
            (|crd| crd.spec.versions[0].served = false, "v1alpha1 is not served"),
            (|crd| crd.spec.versions[0].subresources = None, "v1alpha1 has no status subresource"),
            (
                |crd| {
                    let properties = schema(crd).properties.as_mut().unwrap();
                    properties.insert(
                        "extra".into(),
                        JSONSchemaProps { type_: Some("string".into()), ..JSONSchemaProps::default() },
                    );
                },
                r#"schema.properties.extra.type ("string") is not this version's"#,
            ),
            (
                |crd| {
                    let spec = schema(crd).properties.as_mut().unwrap().get_mut("spec").unwrap();
                    spec.properties.as_mut().unwrap().get_mut("nodeConfigs").unwrap().max_items = Some(3);
                },
                "schema.properties.spec.properties.nodeConfigs.maxItems is 3, not 64",
            ),
        ];
        for (change, want) in cases {
            let mut other = uplink();
            change(&mut other);
            assert_eq!(differences(&uplink(), &other), [*want]);
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        let mut other = uplink();
        schema(&mut other).properties = None;
        let found = differences(&uplink(), &other);
        assert_eq!(found.len(), LISTED + 1);
        assert!(found.last().unwrap().ends_with("more"), "{found:?}");
    }
}
