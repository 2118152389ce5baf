//! The tables of examples of the kinds Uplink and UplinkState, one case per row.

use serde_json::{Value, json};

use super::cases::{Case, Cause, Stored, strict};

/// What the API server adds to other causes where a rule in CEL could not be evaluated.
pub(crate) const UNCHECKED: (&str, &str) = (
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
     existing errors to complete validation",
);

/// The time of conditions here.
const TIME: &str = "2026-01-01T00:00:00Z";

/// An Uplink with these nodeConfigs.
pub(crate) fn uplink(name: &str, configs: &Value) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "Uplink",
        "metadata": {"name": name},
        "spec": {"nodeConfigs": configs},
    })
}

/// A nodeConfig of this selector and interface.
pub(crate) fn config(selector: &Value, interface: &str) -> Value {
    json!({"type": "OVSBridge", "nodeSelector": selector, "hostInterfaceName": interface})
}

/// An UplinkState with this spec.
pub(crate) fn state(name: &str, uplink: &str, node: &str) -> Value {
    json!({
        "apiVersion": "k8s.ovn.org/v1alpha1",
        "kind": "UplinkState",
        "metadata": {"name": name},
        "spec": {"uplinkName": uplink, "nodeName": node},
    })
}

/// A manifest and a status.
pub(crate) fn with_status(mut manifest: Value, status: Value) -> Value {
    if let Some(fields) = manifest.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    manifest
}

impl Stored {
    /// All that a manifest says.
    fn of(manifest: &Value) -> Option<Self> {
        Some(Self { spec: manifest.get("spec")?.clone(), status: manifest.get("status").cloned() })
    }
}

impl Case {
    /// The creation of an object, of which only the answer's code is known.
    fn new(name: &str, manifest: Value, code: u16) -> Self {
        Self {
            name: name.to_owned(),
            manifest,
            previous: None,
            subresource: None,
            field_validation: strict(),
            code,
            message: String::new(),
            causes: None,
            stored: None,
            generation: None,
            warning: None,
        }
    }
}

fn accepted(name: &str, manifest: Value) -> Case {
    let stored = Stored::of(&manifest);
    Case { stored, generation: Some(1), ..Case::new(name, manifest, 201) }
}

fn refused(name: &str, manifest: Value, causes: &[(&str, &str)]) -> Case {
    let cause =
        |(field, message): &(&str, &str)| Cause { field: (*field).into(), message: (*message).into() };
    Case { causes: Some(causes.iter().map(cause).collect()), ..Case::new(name, manifest, 422) }
}

/// The rows about Uplinks.
pub(crate) fn uplinks() -> Vec<Case> {
    let interface = "spec.nodeConfigs[0].hostInterfaceName";
    let with_interface = |name: &str| uplink("row", &json!([config(&json!({}), name)]));
    let with_selector = |selector: &Value| uplink("row", &json!([config(selector, "br")]));
    let expression = |operator: &str, values: Value| {
        with_selector(&json!({"matchExpressions": [{"key": "rack", "operator": operator, "values": values}]}))
    };
    let many = |count: usize| {
        uplink(
            "row",
            &(0..count).map(|n| config(&json!({"matchLabels": {"n": n.to_string()}}), "br")).collect(),
        )
    };
    let mut rows = vec![
        refused(
            "no nodeConfig",
            uplink("row", &json!([])),
            &[(
                "spec.nodeConfigs",
                "Invalid value: 0: spec.nodeConfigs in body should have at least 1 items",
            )],
        ),
        accepted("as many nodeConfigs as there may be", many(64)),
        refused(
            "one nodeConfig too many",
            many(65),
            &[("spec.nodeConfigs", "Too many: 65: must have at most 64 items")],
        ),
        refused(
            "an interface name of 16 letters",
            with_interface("abcdefghijklmnop"),
            &[(interface, "Too long: may not be more than 15 bytes")],
        ),
        refused(
            "an empty interface name",
            with_interface(""),
            &[(
                interface,
                "Invalid value: \"\": spec.nodeConfigs[0].hostInterfaceName in body should be at least 1 chars \
                 long",
            )],
        ),
        accepted("an interface name of 15 letters", with_interface("abcdefghijklmno")),
        accepted("an interface name with a dot", with_interface("eth0.100")),
        accepted("an interface name that is not ASCII", with_interface("é")),
        refused(
            "a type that is not known",
            uplink("row", &json!([{"type": "Interface", "nodeSelector": {}, "hostInterfaceName": "br"}])),
            &[(
                "spec.nodeConfigs[0].type",
                "Unsupported value: \"Interface\": supported values: \"OVSBridge\"",
            )],
        ),
        accepted("Exists with values", expression("Exists", json!(["a"]))),
        accepted("DoesNotExist with values", expression("DoesNotExist", json!(["a"]))),
        accepted("In without values", expression("In", json!([]))),
        accepted("NotIn without values", expression("NotIn", json!([]))),
        accepted("an operator that is not known", expression("Foo", json!(["a"]))),
        accepted("a malformed label value", with_selector(&json!({"matchLabels": {"rack": "a b"}}))),
        accepted("a malformed label key", with_selector(&json!({"matchLabels": {"a/b/c": "d"}}))),
        accepted(
            "two identical nodeConfigs",
            uplink("row", &json!([config(&json!({}), "br"), config(&json!({}), "br")])),
        ),
        accepted("a name with dots", uplink("row.a.b", &json!([config(&json!({}), "br")]))),
        Case {
            stored: Stored::of(&with_interface("br")),
            ..Case::new(
                "status at creation is dropped",
                with_status(
                    with_interface("br"),
                    json!({"conditions": [condition("Ready", "True", "Ready")]}),
                ),
                201,
            )
        },
        Case {
            previous: Some(with_interface("br")),
            stored: Stored::of(&uplink("row", &json!([config(&json!({"matchLabels": {"a": "b"}}), "br2")]))),
            generation: Some(2),
            ..Case::new(
                "other nodeConfigs later",
                uplink("row", &json!([config(&json!({"matchLabels": {"a": "b"}}), "br2")])),
                200,
            )
        },
    ];
    for (name, letter) in [("a slash", "eth/0"), ("a space", "eth 0")] {
        let message = format!(
            "Invalid value: \"{letter}\": spec.nodeConfigs[0].hostInterfaceName in body should match \
             '^[^/\\s]+$'"
        );
        let name = format!("an interface name with {name}");
        rows.push(refused(&name, with_interface(letter), &[(interface, &message)]));
    }
    rows
}

/// The rows about UplinkStates.
pub(crate) fn states() -> Vec<Case> {
    let with = |status: Value| with_status(state("row.n", "row", "n"), status);
    let long = "n".repeat(253);
    let immutable = |field: &str, manifest: Value, value: &str| {
        let message = format!("Invalid value: \"{value}\": {field} is immutable");
        Case {
            previous: Some(state("row.n", "row", "n")),
            ..refused(&format!("another {field} later"), manifest, &[(&format!("spec.{field}"), &message)])
        }
    };
    vec![
        accepted("a state of split mode, complete", with(complete())),
        accepted("status at creation is kept", with(json!({"type": "OVSBridge"}))),
        accepted("names as long as they may be", state("row.n", &long, &long)),
        refused(
            "an empty uplinkName",
            state("row.n", "", "n"),
            &[(
                "spec.uplinkName",
                "Invalid value: \"\": spec.uplinkName in body should be at least 1 chars long",
            )],
        ),
        refused(
            "an uplinkName that is too long",
            state("row.n", &"u".repeat(254), "n"),
            &[("spec.uplinkName", "Too long: may not be more than 253 bytes"), UNCHECKED],
        ),
        immutable("nodeName", state("row.n", "row", "m"), "m"),
        immutable("uplinkName", state("row.n", "other", "n"), "other"),
        refused(
            "no spec, only status",
            json!({
                "apiVersion": "k8s.ovn.org/v1alpha1",
                "kind": "UplinkState",
                "metadata": {"name": "row.n"},
                "status": {"type": "OVSBridge"},
            }),
            &[("spec", "Required value"), UNCHECKED],
        ),
        accepted("a name that does not match the spec", state("row.other", "row", "n")),
        accepted("two IPv4 addresses", with(json!({"ipAddresses": ["192.0.2.1/24", "192.0.2.2/24"]}))),
        accepted("no addresses", with(json!({"ipAddresses": []}))),
        accepted("a bridge without a name", with(json!({"ovsBridge": {}}))),
        accepted("a physical function", with(json!({"hostFunction": {"pfID": 0}}))),
        refused(
            "a function without an index",
            with(json!({"hostFunction": {"vfID": 1}})),
            &[("status.hostFunction.pfID", "Required value"), UNCHECKED],
        ),
        refused(
            "a negative index of a virtual function",
            with(json!({"hostFunction": {"pfID": 0, "vfID": -1}})),
            &[(
                "status.hostFunction.vfID",
                "Invalid value: -1: status.hostFunction.vfID in body should be greater than or equal to 0",
            )],
        ),
        refused(
            "a MAC address with dashes",
            with(json!({"macAddress": "02-00-00-00-00-01"})),
            &[(
                "status.macAddress",
                "Invalid value: \"02-00-00-00-00-01\": status.macAddress in body should match \
                 '^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$'",
            )],
        ),
        refused(
            "a gateway that is no address",
            with(json!({"defaultGateways": ["gw"]})),
            &[("status.defaultGateways[0]", "Invalid value: \"gw\": must be a valid IP address")],
        ),
        refused(
            "a condition twice",
            with(
                json!({"conditions": [condition("Resolved", "True", "A"), condition("Resolved", "True", "A")]}),
            ),
            &[("status.conditions[1]", "Duplicate value: {\"type\":\"Resolved\"}")],
        ),
    ]
}

/// A condition with an empty message.
pub(crate) fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": TIME})
}

/// Everything that a status can hold.
fn complete() -> Value {
    json!({
        "type": "OVSBridge",
        "hostInterfaceName": "eth0-16",
        "macAddress": "02:42:ac:1c:00:02",
        "hostFunction": {"pfID": 0, "vfID": 16},
        "ipAddresses": ["172.31.0.10/24", "fd00::a/64"],
        "defaultGateways": ["172.31.0.1", "fd00::1"],
        "ovsBridge": {"name": "breth-uplink"},
        "conditions": [
            condition("HostDataReady", "True", "HostDataDiscovered"),
            condition("HostGatewayReady", "True", "GatewayConfigured"),
            condition("Resolved", "True", "Resolved"),
            condition("GatewayReady", "True", "GatewayConfigured"),
        ],
    })
}
