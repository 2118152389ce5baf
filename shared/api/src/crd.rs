//! The custom resource definitions, made from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceSubresources, JSONSchemaProps,
};
use kube::CustomResourceExt;

use crate::cudn::ClusterUserDefinedNetwork;
use crate::route_advertisements::RouteAdvertisements;
use crate::udn::UserDefinedNetwork;
use crate::uplink::Uplink;
use crate::uplink_state::UplinkState;

/// Every CRD that Causeway installs: Uplinks, networks, and what is told of them outside.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        complete(Uplink::crd()),
        without_subresources(complete(UplinkState::crd())),
        complete(UserDefinedNetwork::crd()),
        complete(ClusterUserDefinedNetwork::crd()),
        with_optional_spec(complete(RouteAdvertisements::crd())),
    ]
}

/// Upstream's RouteAdvertisements may have no spec; what it says then is up to its controller.
fn with_optional_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            schema.required = None;
        }
    }
    crd
}

/// UplinkState has no status subresource: its identity and first status are created in one request. The derive
/// macro offers a status type only together with the subresource, so it is taken out here.
fn without_subresources(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = Some(CustomResourceSubresources { scale: None, status: None });
    }
    crd
}

/// Completes what the derive macro leaves out of the top level: the three standard properties, the required `spec`,
/// and a `status` that cannot be null (a null would be stored as written).
fn complete(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            schema.title = None;
            schema.required = Some(vec!["spec".to_owned()]);
            let properties = schema.properties.get_or_insert_default();
            if let Some(status) = properties.get_mut("status") {
                status.nullable = None;
            }
            for (name, type_, description) in STANDARD_PROPERTIES {
                properties.insert(
                    (*name).to_owned(),
                    JSONSchemaProps {
                        type_: Some((*type_).to_owned()),
                        description: description.map(str::to_owned),
                        ..JSONSchemaProps::default()
                    },
                );
            }
        }
    }
    crd
}

/// Name, type and description of the properties that every Kubernetes object has. The API server refuses any word
/// about `metadata` but its type.
const STANDARD_PROPERTIES: &[(&str, &str, Option<&str>)] = &[
    ("apiVersion", "string", Some("Group and version of this object's schema.")),
    ("kind", "string", Some("Kind of this object.")),
    ("metadata", "object", None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_offer_neither_null_nor_default() {
        fn check(path: &str, value: &serde_json::Value) {
            match value {
                serde_json::Value::Object(fields) => {
                    for (key, value) in fields {
                        let is_property = path.ends_with("/properties");
                        assert!(is_property || (key != "nullable" && key != "default"), "{path}/{key}");
                        check(&format!("{path}/{key}"), value);
                    }
                }
                serde_json::Value::Array(items) => items.iter().for_each(|item| check(path, item)),
                _ => {}
            }
        }
        for crd in all() {
            check(&crd.spec.names.kind, &serde_json::to_value(&crd).unwrap());
        }
    }
}
