//! Schema fragments that derive macros cannot express, equal to upstream's CRDs in all but the descriptions.
//!
//! Source: ovn-kubernetes `pkg/crd/uplink/v1alpha1`.

pub(crate) mod network;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The schema of `T` itself where the field is an option of it: the API has absent values, never null ones.
pub(crate) fn plain<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// The only kind of uplink that the API accepts; the Rust type also holds kinds of a newer API.
pub(crate) fn uplink_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Kind of uplink; the only one is OVSBridge.",
        "type": "string",
        "enum": ["OVSBridge"],
    })
}

/// A Linux interface name.
pub(crate) fn interface_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The host's interface that was looked at. Written by the side that sees the host.",
        "type": "string", "minLength": 1, "maxLength": 15, "pattern": r"^[^/\s]+$",
    })
}

/// The object with the bridge's name.
pub(crate) fn ovs_bridge(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The bridge of Open vSwitch behind the interface. Written by the side that sees the bridge.",
        "type": "object",
        "properties": {
            "name": {
                "description": "Name of the bridge.",
                "type": "string", "minLength": 1, "maxLength": 15, "pattern": r"^[^/\s]+$",
            },
        },
    })
}

/// A MAC address of six bytes.
pub(crate) fn mac_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "MAC address of the host's interface.",
        "type": "string", "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$",
    })
}

/// PF and VF index.
pub(crate) fn host_function(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "SR-IOV function behind the host's interface; absent where there is none.",
        "type": "object",
        "required": ["pfID"],
        "properties": {
            "pfID": {
                "description": "Index of the physical function.",
                "type": "integer", "format": "int32", "minimum": 0,
            },
            "vfID": {
                "description": "Index of the virtual function on it; absent for the physical function itself.",
                "type": "integer", "format": "int32", "minimum": 0,
            },
        },
    })
}

/// Addresses with prefix length.
pub(crate) fn ip_addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Addresses of the host's interface with prefix length, at most one of each family.",
        "type": "array", "maxItems": 2, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 64,
            "x-kubernetes-validations": [{"rule": "isCIDR(self)", "message": "must be a valid CIDR"}],
        },
    })
}

/// Addresses of next hops.
pub(crate) fn default_gateways(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Next hops of the default routes over the host's interface, at most one of each family.",
        "type": "array", "maxItems": 2, "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 64,
            "x-kubernetes-validations": [{"rule": "isIP(self)", "message": "must be a valid IP address"}],
        },
    })
}

/// metav1.LabelSelector as it stands in CRDs: atomic, and without an enum of operators.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The nodes of this group. An empty selector selects every node.",
        "type": "object", "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "description": "Labels that a node must have, with exactly these values.",
                "type": "object", "additionalProperties": {"type": "string"},
            },
            "matchExpressions": {
                "description": "Requirements that a node's labels must all meet.",
                "type": "array", "x-kubernetes-list-type": "atomic",
                "items": {
                    "description": "One requirement on the value of a label.",
                    "type": "object", "required": ["key", "operator"],
                    "properties": {
                        "key": {"description": "The label.", "type": "string"},
                        "operator": {
                            "description": "In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                        },
                        "values": {
                            "description": "Values for In and NotIn; must be empty for the other operators.",
                            "type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}

/// A list of metav1.Condition, a map by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Conditions; each type has one writer.",
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "description": "One aspect of the state of this object.",
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.", "type": "string", "format": "date-time",
                },
                "message": {"description": "Text for people.", "type": "string", "maxLength": 32768},
                "observedGeneration": {
                    "description": "metadata.generation that this condition was computed for.",
                    "type": "integer", "format": "int64", "minimum": 0,
                },
                "reason": {
                    "description": "Reason in CamelCase, for programs.",
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "True, False or Unknown.", "type": "string", "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Type of the condition in CamelCase.",
                    "type": "string", "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}
