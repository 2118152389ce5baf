//! Annotations through which components tell each other facts.
//!
//! In: the text of an annotation. Out: its value and what of it cannot be read, by entry; and the way back, byte for
//! byte as upstream writes it. [`node`] and [`gateway`] are about Nodes, [`network`] about NetworkAttachmentDefinitions.
//! Here stands what discovery reads of a node's default gateway.

mod entries;
pub mod gateway;
pub mod network;
pub mod node;
mod subnets;

pub use self::entries::{AnnotationError, BadEntry, Networks, Read};
pub use self::subnets::NodeSubnetsText;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

/// Key of the annotation with the node's default gateway.
pub const L3_GATEWAY_CONFIG: &str = "k8s.ovn.org/l3-gateway-config";

/// Key of the annotation with the node's OVN chassis.
pub const NODE_CHASSIS_ID: &str = "k8s.ovn.org/node-chassis-id";

/// Why the default gateway of a node cannot be read from its annotations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayAnnotationError {
    /// The annotation is not there.
    #[error("{key} annotation not found for node {node:?}")]
    Missing {
        /// Annotation key.
        key: &'static str,
        /// Name of the node.
        node: String,
    },
    /// The annotation is not the JSON that it should be.
    #[error("failed to unmarshal {key} annotation {text:?} for node {node:?}: {cause}")]
    Malformed {
        /// Annotation key.
        key: &'static str,
        /// What the annotation holds.
        text: String,
        /// Name of the node.
        node: String,
        /// What the decoder says.
        cause: String,
    },
    /// The annotation has no `default` network.
    #[error("{key} annotation for node {node:?} has no entry for the default network")]
    NoDefault {
        /// Annotation key.
        key: &'static str,
        /// Name of the node.
        node: String,
    },
    /// A field has a value that cannot be used.
    #[error("{key} annotation for node {node:?}: bad {field} {value:?}")]
    BadField {
        /// Annotation key.
        key: &'static str,
        /// Name of the node.
        node: String,
        /// Field of the default entry.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

/// How the node reaches the outside without an Uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayMode {
    /// Traffic leaves through the shared bridge.
    Shared,
    /// Traffic leaves through the host's own stack.
    Local,
    /// The node has no gateway.
    Disabled,
}

/// The part of `l3-gateway-config` that tells which bridge is the default gateway's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultGateway {
    /// Mode of the gateway.
    pub mode: GatewayMode,
    /// Bridge of the gateway; may be empty when the mode is disabled.
    pub bridge: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Entry {
    #[serde(default)]
    mode: String,
    #[serde(default)]
    bridge_id: String,
    #[serde(default)]
    mac_address: String,
    #[serde(default)]
    ip_addresses: Vec<String>,
    #[serde(default)]
    ip_address: String,
    #[serde(default)]
    next_hops: Vec<String>,
    #[serde(default)]
    next_hop: String,
}

/// Reads the default gateway of a node from its annotations.
///
/// # Errors
/// As upstream's reader: the annotation must be there and hold a valid MAC, addresses, next hops and mode, and,
/// unless the gateway is disabled, the node must have its chassis id annotation.
pub fn default_gateway(
    node: &str,
    annotations: &BTreeMap<String, String>,
) -> Result<DefaultGateway, GatewayAnnotationError> {
    let key = L3_GATEWAY_CONFIG;
    let bad = |field, value: &str| GatewayAnnotationError::BadField {
        key,
        node: node.to_owned(),
        field,
        value: value.to_owned(),
    };
    let text =
        annotations.get(key).ok_or_else(|| GatewayAnnotationError::Missing { key, node: node.to_owned() })?;
    let mut networks: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|cause| malformed(key, text, node, &cause))?;
    let entry = networks
        .remove("default")
        .ok_or_else(|| GatewayAnnotationError::NoDefault { key, node: node.to_owned() })?;
    let entry: Entry = serde_json::from_value(entry).map_err(|cause| malformed(key, text, node, &cause))?;

    let mode = match entry.mode.as_str() {
        "shared" => GatewayMode::Shared,
        "local" => GatewayMode::Local,
        "" => GatewayMode::Disabled,
        other => return Err(bad("mode", other)),
    };
    if mode == GatewayMode::Disabled {
        return Ok(DefaultGateway { mode, bridge: entry.bridge_id });
    }
    if !annotations.contains_key(NODE_CHASSIS_ID) {
        return Err(GatewayAnnotationError::Missing { key: NODE_CHASSIS_ID, node: node.to_owned() });
    }
    if !is_mac(&entry.mac_address) {
        return Err(bad("mac-address", &entry.mac_address));
    }
    let addresses = one_or_many(&entry.ip_addresses, &entry.ip_address);
    if addresses.is_empty() {
        return Err(bad("ip-addresses", ""));
    }
    if let Some(wrong) = addresses.iter().find(|address| !is_cidr(address)) {
        return Err(bad("ip-addresses", wrong));
    }
    if let Some(wrong) =
        one_or_many(&entry.next_hops, &entry.next_hop).iter().find(|hop| hop.parse::<IpAddr>().is_err())
    {
        return Err(bad("next-hops", wrong));
    }
    Ok(DefaultGateway { mode, bridge: entry.bridge_id })
}

fn malformed(key: &'static str, text: &str, node: &str, cause: &serde_json::Error) -> GatewayAnnotationError {
    GatewayAnnotationError::Malformed {
        key,
        text: text.to_owned(),
        node: node.to_owned(),
        cause: cause.to_string(),
    }
}

/// The list form wins over the older form with one value.
fn one_or_many<'e>(many: &'e [String], one: &'e str) -> Vec<&'e str> {
    if many.is_empty() && !one.is_empty() { vec![one] } else { many.iter().map(String::as_str).collect() }
}

fn is_mac(text: &str) -> bool {
    let bytes: Vec<_> = text.split(':').collect();
    bytes.len() == 6
        && bytes.iter().all(|byte| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, length)| {
        // Numbers parse with a sign too, prefix lengths do not.
        if !length.bytes().all(|digit| digit.is_ascii_digit()) {
            return false;
        }
        match (address.parse::<IpAddr>(), length.parse::<u8>()) {
            (Ok(IpAddr::V4(_)), Ok(length)) => length <= 32,
            (Ok(IpAddr::V6(_)), Ok(length)) => length <= 128,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"{"default":{"mode":"shared","bridge-id":"breth0","interface-id":"breth0_node-a",
        "mac-address":"02:42:ac:12:00:01","ip-addresses":["192.0.2.2/24"],"next-hops":["192.0.2.1"],
        "node-port-enable":"true"}}"#;

    fn read(config: Option<&str>, chassis: bool) -> Result<DefaultGateway, GatewayAnnotationError> {
        let mut annotations = BTreeMap::new();
        if let Some(config) = config {
            annotations.insert(L3_GATEWAY_CONFIG.to_owned(), config.to_owned());
        }
        if chassis {
            annotations.insert(NODE_CHASSIS_ID.to_owned(), "chassis-id".to_owned());
        }
        default_gateway("node-a", &annotations)
    }

    #[test]
    fn the_bridge_of_a_complete_annotation_is_read() {
        let want = DefaultGateway { mode: GatewayMode::Shared, bridge: "breth0".into() };
        assert_eq!(read(Some(GOOD), true), Ok(want));
    }

    #[test]
    fn each_missing_or_wrong_part_is_named() {
        let cases = [
            (None, true, r#"k8s.ovn.org/l3-gateway-config annotation not found for node "node-a""#),
            (
                Some(GOOD.to_owned()),
                false,
                r#"k8s.ovn.org/node-chassis-id annotation not found for node "node-a""#,
            ),
            (Some("{".to_owned()), true, "failed to unmarshal"),
            (Some(r#"{"other":{}}"#.to_owned()), true, "no entry for the default network"),
            (Some(GOOD.replace("shared", "Shared")), true, r#"bad mode "Shared""#),
            (Some(GOOD.replace("02:42", "0242")), true, "bad mac-address"),
            (Some(GOOD.replace("192.0.2.2/24", "192.0.2.2/33")), true, r#"bad ip-addresses "192.0.2.2/33""#),
            (Some(GOOD.replace("02:42", "02:+2")), true, r#"bad mac-address "02:+2:"#),
            (
                Some(GOOD.replace("192.0.2.2/24", "192.0.2.2/+24")),
                true,
                r#"bad ip-addresses "192.0.2.2/+24""#,
            ),
            (Some(GOOD.replace(r#""192.0.2.2/24""#, "")), true, "bad ip-addresses"),
            (Some(GOOD.replace(r#"["192.0.2.1"]"#, r#"["x"]"#)), true, r#"bad next-hops "x""#),
        ];
        for (config, chassis, text) in cases {
            let found = read(config.as_deref(), chassis).unwrap_err().to_string();
            assert!(found.contains(text), "{config:?}: {found}");
        }
    }

    #[test]
    fn a_disabled_gateway_needs_neither_addresses_nor_chassis() {
        assert_eq!(read(Some(r#"{"default":{"mode":""}}"#), false).unwrap().mode, GatewayMode::Disabled);
    }

    #[test]
    fn the_older_form_with_single_values_is_read_too() {
        let old = GOOD
            .replace(r#""ip-addresses":["192.0.2.2/24"]"#, r#""ip-address":"192.0.2.2/24""#)
            .replace(r#""next-hops":["192.0.2.1"]"#, r#""next-hop":"192.0.2.1""#);
        assert_eq!(read(Some(&old), true).unwrap().bridge, "breth0");
    }

    fn field() -> impl Strategy<Value = serde_json::Value> {
        prop_oneof![
            proptest::sample::select(vec![
                "",
                "shared",
                "local",
                "breth0",
                "02:42:ac:12:00:01",
                "192.0.2.2/24",
                "fd00::2/64",
                "192.0.2.1",
                "fd00::1",
                "192.0.2.2/33",
                "/",
                "é:é:é:é:é:é",
            ])
            .prop_map(serde_json::Value::from),
            ".{0,8}".prop_map(serde_json::Value::from),
            any::<i32>().prop_map(serde_json::Value::from),
            Just(serde_json::Value::Null),
        ]
    }

    /// The annotation as something may have written it: the known fields, with values that fit and others.
    fn config() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            2 => field(),
            2 => proptest::collection::vec(field(), 0..3).prop_map(serde_json::Value::from),
        ];
        let key = proptest::sample::select(vec![
            "mode",
            "bridge-id",
            "mac-address",
            "ip-addresses",
            "ip-address",
            "next-hops",
            "next-hop",
            "vlan-id",
        ]);
        // What is changed in a good annotation.
        let changes = proptest::collection::vec((key, proptest::option::of(value)), 0..3);
        changes.prop_map(|changes| {
            let mut config: serde_json::Value = serde_json::from_str(GOOD).unwrap();
            let entry = config["default"].as_object_mut().unwrap();
            for (key, value) in changes {
                match value {
                    Some(value) => drop(entry.insert(key.to_owned(), value)),
                    None => drop(entry.remove(key)),
                }
            }
            config.to_string()
        })
    }

    proptest! {
        /// Any text is read or refused in words that name annotation and node.
        #[test]
        fn any_text_is_read_or_refused_by_name(
            text in prop_oneof![4 => config(), 1 => ".*", 1 => "[{}\\[\\]\":, a-z0-9]*"],
            chassis: bool,
        ) {
            match read(Some(&text), chassis) {
                Ok(gateway) => {
                    prop_assert!(chassis || gateway.mode == GatewayMode::Disabled);
                    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(config["default"]["bridge-id"].as_str().unwrap_or_default(), gateway.bridge);
                }
                Err(error) => {
                    let error = error.to_string();
                    prop_assert!(error.contains("node-a") && error.contains("k8s.ovn.org/"), "{}", error);
                }
            }
        }

        /// An annotation that was cut off is never read as a shorter one.
        #[test]
        fn half_an_annotation_is_refused(at: proptest::sample::Index) {
            let cut = at.index(GOOD.len());
            prop_assert!(read(Some(&GOOD[..cut]), true).is_err());
        }

        /// What is taken for an address or a MAC is one: the parsers of the standard library agree.
        #[test]
        fn addresses_are_what_the_standard_library_takes_for_some(
            text in prop_oneof![
                "[0-9a-f:./]{0,20}",
                "([+0-9a-f][0-9a-f]:){5}[+0-9a-f][0-9a-f]",
                "192\\.0\\.2\\.2/\\+?[0-9]{1,3}", "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]\\.[0-9]/[0-9]{1,3}", ".*"],
        ) {
            if is_cidr(&text) {
                let (address, length) = text.split_once('/').unwrap();
                let bits = if address.parse::<IpAddr>().unwrap().is_ipv4() { 32 } else { 128 };
                prop_assert!(length.parse::<u32>().unwrap() <= bits && !length.starts_with('+'));
            }
            if is_mac(&text) {
                prop_assert_eq!((text.len(), text.matches(':').count()), (17, 5));
                prop_assert!(text.chars().all(|digit| digit == ':' || digit.is_ascii_hexdigit()), "{}", text);
            }
        }
    }
}
