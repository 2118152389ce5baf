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
use crate::vtep::VTEP;

/// Every CRD that Causeway installs: Uplinks, networks, and what is told of them outside.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        complete(Uplink::crd()),
        without_subresources(complete(UplinkState::crd())),
        complete(UserDefinedNetwork::crd()),
        complete(ClusterUserDefinedNetwork::crd()),
        with_optional_spec(complete(RouteAdvertisements::crd())),
        complete(VTEP::crd()),
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
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrArray;

    use super::*;

    #[test]
    fn definitions_offer_neither_null_nor_default() {
        fn check(path: &str, value: &serde_json::Value) {
            match value {
                serde_json::Value::Object(fields) => {
                    for (key, value) in fields {
                        let is_property = path.ends_with("/properties");
                        // As upstream's: who reads a VTEP's mode sees what it means.
                        let is_meant = path
                            == "VTEP/spec/versions/schema/openAPIV3Schema/properties/spec/properties/mode";
                        let is_odd = key == "nullable" || key == "default" && !is_meant;
                        assert!(is_property || !is_odd, "{path}/{key}");
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

    /// Path, list type or map type, and keys, of everything under `schema` that is merged in its own way.
    fn merges(path: &str, schema: &JSONSchemaProps, found: &mut Vec<String>) {
        if let Some(kind) = &schema.x_kubernetes_list_type {
            let keys =
                schema.x_kubernetes_list_map_keys.iter().flatten().cloned().collect::<Vec<_>>().join(",");
            found.push(format!("{path} {kind} {keys}").trim_end().to_owned());
        } else if schema.type_.as_deref() == Some("array") {
            found.push(format!("{path} -"));
        }
        if let Some(kind) = &schema.x_kubernetes_map_type {
            // What is in a selector is one unit; its own lists say so again.
            found.push(format!("{path} {kind} map"));
            return;
        }
        for (name, property) in schema.properties.iter().flatten() {
            merges(&format!("{path}.{name}"), property, found);
        }
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
            merges(&format!("{path}[]"), items, found);
        }
    }

    /// Two appliers of one list: an atomic list belongs to one of them, another is merged. No request to one writer shows it.
    #[test]
    fn lists_and_maps_are_merged_as_upstreams() {
        let layer2 = "layer2.defaultGatewayIPs - layer2.infrastructureSubnets atomic layer2.joinSubnets - \
                      layer2.reservedSubnets atomic layer2.subnets -";
        let layer3 = "layer3.joinSubnets - layer3.subnets atomic";
        let selectors = ".spec.networkSelectors[].";
        let under = |prefix: &str, text: &str| -> Vec<String> {
            let words: Vec<&str> = text.split_whitespace().collect();
            words.chunks(2).map(|pair| format!("{prefix}{} {}", pair[0], pair[1])).collect()
        };
        let conditions = || vec![".status.conditions map type".to_owned()];
        let rows = [
            (
                UserDefinedNetwork::crd(),
                [under(".spec.", layer2), under(".spec.", layer3), conditions()].concat(),
            ),
            (
                ClusterUserDefinedNetwork::crd(),
                [
                    vec![".spec.namespaceSelector atomic map".to_owned()],
                    under(".spec.network.", layer2),
                    under(".spec.network.", layer3),
                    under(".spec.network.", "localnet.excludeSubnets atomic localnet.subnets -"),
                    vec![".spec.uplinks atomic".to_owned()],
                    conditions(),
                ]
                .concat(),
            ),
            (
                RouteAdvertisements::crd(),
                [
                    vec![
                        ".spec.advertisements atomic".to_owned(),
                        ".spec.frrConfigurationSelector atomic map".to_owned(),
                        ".spec.networkSelectors map networkSelectionType".to_owned(),
                        format!("{selectors}clusterUserDefinedNetworkSelector.networkSelector atomic map"),
                        format!(
                            "{selectors}networkAttachmentDefinitionSelector.namespaceSelector atomic map"
                        ),
                        format!("{selectors}networkAttachmentDefinitionSelector.networkSelector atomic map"),
                        format!("{selectors}primaryUserDefinedNetworkSelector.namespaceSelector atomic map"),
                        format!(
                            "{selectors}secondaryUserDefinedNetworkSelector.namespaceSelector atomic map"
                        ),
                        format!("{selectors}secondaryUserDefinedNetworkSelector.networkSelector atomic map"),
                        ".spec.nodeSelector atomic map".to_owned(),
                    ],
                    conditions(),
                ]
                .concat(),
            ),
        ];
        for (crd, want) in rows {
            let mut found = Vec::new();
            let version = crd.spec.versions.first().unwrap();
            let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            merges("", schema, &mut found);
            assert_eq!(found, want, "{}", crd.spec.names.kind);
        }
    }
}
