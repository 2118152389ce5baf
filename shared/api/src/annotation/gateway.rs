//! The whole of the annotation `k8s.ovn.org/l3-gateway-config`: how a node reaches the outside.
//!
//! [`super::default_gateway`] reads the part of it that discovery needs.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::entries::{AnnotationError, Networks, Read, each, object};
use super::{GatewayMode, L3_GATEWAY_CONFIG, is_mac};
use crate::go_json::{self, Object};

/// The gateway of a node for one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct L3Gateway {
    /// Mode of the gateway; the other fields are empty when it is disabled.
    pub mode: GatewayMode,
    /// Bridge of the gateway.
    pub bridge: String,
    /// Logical port of the bridge, `<bridge>_<node>`.
    pub interface: String,
    /// MAC address of the gateway.
    pub mac: String,
    /// Addresses of the gateway.
    pub addresses: Vec<IpNet>,
    /// The second gateway, of nodes that have one.
    pub external: Option<ExternalGateway>,
    /// The routers outside.
    pub next_hops: Vec<IpAddr>,
    /// Whether services are reachable at the gateway's addresses.
    pub node_port: Option<bool>,
    /// VLAN outside; 0 is untagged.
    pub vlan: Option<u16>,
}

/// A second gateway that takes what leaves through the pods' external gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalGateway {
    /// Logical port.
    pub interface: String,
    /// MAC address.
    pub mac: String,
    /// Addresses.
    pub addresses: Vec<IpNet>,
}

impl L3Gateway {
    /// The node has no gateway.
    #[must_use]
    pub const fn disabled() -> Self {
        Self {
            mode: GatewayMode::Disabled,
            bridge: String::new(),
            interface: String::new(),
            mac: String::new(),
            addresses: Vec::new(),
            external: None,
            next_hops: Vec::new(),
            node_port: None,
            vlan: None,
        }
    }
}

/// The keys. Numbers and booleans are strings; a singular key repeats a list of one.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct Entry {
    mode: String,
    bridge_id: String,
    interface_id: String,
    mac_address: String,
    ip_addresses: Vec<String>,
    ip_address: String,
    exgw_interface_id: String,
    exgw_mac_address: String,
    exgw_ip_addresses: Vec<String>,
    exgw_ip_address: String,
    next_hops: Vec<String>,
    next_hop: String,
    node_port_enable: String,
    vlan_id: String,
}

/// Reads the gateways of a node by network.
///
/// # Errors
/// It is no JSON object.
pub fn read(text: &str) -> Result<Read<Networks<L3Gateway>>, AnnotationError> {
    Ok(each(L3_GATEWAY_CONFIG, object(L3_GATEWAY_CONFIG, text)?, |value| {
        let entry = Entry::deserialize(value).map_err(|error| error.to_string())?;
        gateway(entry)
    }))
}

fn gateway(entry: Entry) -> Result<L3Gateway, String> {
    let mode = match entry.mode.as_str() {
        "shared" => GatewayMode::Shared,
        "local" => GatewayMode::Local,
        "" => return Ok(L3Gateway { bridge: entry.bridge_id, ..L3Gateway::disabled() }),
        other => return Err(format!("bad 'mode' value {other:?}")),
    };
    let mac = |key: &str, text: String| {
        if is_mac(&text) { Ok(text) } else { Err(format!("bad {key:?} value {text:?}")) }
    };
    let external = if entry.exgw_interface_id.is_empty() {
        None
    } else {
        Some(ExternalGateway {
            interface: entry.exgw_interface_id,
            mac: mac("exgw-mac-address", entry.exgw_mac_address)?,
            addresses: list("exgw-ip-addresses", entry.exgw_ip_addresses, entry.exgw_ip_address)?,
        })
    };
    let vlan = match entry.vlan_id.as_str() {
        "" => None,
        text => {
            let number =
                super::entries::decimal(text, 4095).map_err(|cause| format!("bad \"vlan-id\": {cause}"))?;
            u16::try_from(number).ok()
        }
    };
    let addresses: Vec<IpNet> = list("ip-addresses", entry.ip_addresses, entry.ip_address)?;
    if addresses.is_empty() {
        return Err("no \"ip-addresses\"".to_owned());
    }
    Ok(L3Gateway {
        mode,
        bridge: entry.bridge_id,
        interface: entry.interface_id,
        mac: mac("mac-address", entry.mac_address)?,
        addresses,
        external,
        next_hops: list("next-hops", entry.next_hops, entry.next_hop)?,
        node_port: match entry.node_port_enable.as_str() {
            "" => None,
            "true" => Some(true),
            "false" => Some(false),
            other => return Err(format!("bad \"node-port-enable\" value {other:?}")),
        },
        vlan,
    })
}

/// The list form wins over the older form with one value.
fn list<T>(key: &str, many: Vec<String>, one: String) -> Result<Vec<T>, String>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let texts = if many.is_empty() && !one.is_empty() { vec![one] } else { many };
    let parse =
        |text: &String| text.parse().map_err(|error: T::Err| format!("bad {key:?} value {text:?}: {error}"));
    texts.iter().map(parse).collect()
}

/// Writes the gateways of a node by network.
#[must_use]
pub fn render(gateways: &Networks<L3Gateway>) -> String {
    gateways
        .iter()
        .fold(Object::default(), |object, (name, gateway)| object.raw(name, &one(gateway)))
        .finish()
}

fn one(gateway: &L3Gateway) -> String {
    let mode = match gateway.mode {
        GatewayMode::Shared => "shared",
        GatewayMode::Local => "local",
        GatewayMode::Disabled => return Object::default().string("mode", "").finish(),
    };
    let object = Object::default()
        .string("mode", mode)
        .string_if_any("bridge-id", &gateway.bridge)
        .string_if_any("interface-id", &gateway.interface)
        .string_if_any("mac-address", &gateway.mac);
    let mut object = values(object, "ip-addresses", "ip-address", &gateway.addresses);
    if let Some(external) = &gateway.external {
        object = object
            .string_if_any("exgw-interface-id", &external.interface)
            .string_if_any("exgw-mac-address", &external.mac);
        object = values(object, "exgw-ip-addresses", "exgw-ip-address", &external.addresses);
    }
    object = values(object, "next-hops", "next-hop", &gateway.next_hops);
    if let Some(node_port) = gateway.node_port {
        object = object.string("node-port-enable", if node_port { "true" } else { "false" });
    }
    if let Some(vlan) = gateway.vlan {
        object = object.string("vlan-id", &vlan.to_string());
    }
    object.finish()
}

/// A list under its key, and under the singular key when it has one value.
fn values<T: ToString>(object: Object, many: &str, one: &str, values: &[T]) -> Object {
    if values.is_empty() {
        return object;
    }
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    let object = object.raw(many, &go_json::strings(&texts));
    match texts.as_slice() {
        [single] => object.string(one, single),
        _ => object,
    }
}
