//! Annotations on Nodes: what the cluster manager gives a node, and what a node tells about itself.
//!
//! Each `read_` takes the annotation's text and each `render_` gives it, byte for byte as upstream writes it: both write
//! only what differs as text. The writer of each is named at its key. Source: OVN-Kubernetes,
//! go-controller/pkg/util/node_annotations.go and subnet_annotations.go.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::Value;

use super::entries::{
    AnnotationError, BadEntry, Networks, Read, array, decimal, each, items, object, parsed,
};
use crate::go_json::{self, Object};

/// Subnets of the node by network. Written by the cluster manager.
pub const NODE_SUBNETS: &str = "k8s.ovn.org/node-subnets";

/// Network ids by network, from before they stood on NetworkAttachmentDefinitions. The cluster manager takes entries out.
pub const NETWORK_IDS: &str = "k8s.ovn.org/network-ids";

/// Tunnel ids of the gateway routers' ports of Layer2 networks without transit router. Written by the cluster manager.
pub const GATEWAY_ROUTER_TUNNEL_IDS: &str = "k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids";

/// Number of the node. Written by the cluster manager.
pub const NODE_ID: &str = "k8s.ovn.org/node-id";

/// Addresses of the node's port on the transit switch. Written by the cluster manager.
pub const TRANSIT_SWITCH_PORT: &str = "k8s.ovn.org/node-transit-switch-port-ifaddr";

/// Obsolete; the cluster manager removes it from every node.
pub const GATEWAY_ROUTER_PORT: &str = "k8s.ovn.org/node-gateway-router-lrp-ifaddrs";

/// Subnet of the node's hybrid overlay, plain text. Written by the cluster manager or somebody else.
pub const HYBRID_OVERLAY_SUBNET: &str = "k8s.ovn.org/hybrid-overlay-node-subnet";

/// Layout of Layer2 networks on the node. Written by the node.
pub const LAYER2_TOPOLOGY_VERSION: &str = "k8s.ovn.org/layer2-topology-version";

/// Value of [`LAYER2_TOPOLOGY_VERSION`] for the layout with a transit router.
pub const LAYER2_WITH_TRANSIT_ROUTER: &str = "2.0";

/// Addresses of the node's gateway interface. Written by the node, or by its card.
pub const PRIMARY_ADDRESSES: &str = "k8s.ovn.org/node-primary-ifaddr";

/// Subnets of the node's masquerade addresses. Written by the node.
pub const MASQUERADE_SUBNETS: &str = "k8s.ovn.org/node-masquerade-subnet";

/// Addresses of the host's gateway interface, for its card. Written by the host.
pub const DPU_HOST_ADDRESSES: &str = "k8s.ovn.org/primary-dpu-host-addr";

/// All addresses of the host. Written by the node, or by the host of a card.
pub const HOST_CIDRS: &str = "k8s.ovn.org/host-cidrs";

/// Addresses that tunnels start from. Written by the node, or by its card.
pub const ENCAP_IPS: &str = "k8s.ovn.org/node-encap-ips";

/// Functions behind the management ports by network. Written by the node, or by the host of a card.
pub const MANAGEMENT_PORTS: &str = "k8s.ovn.org/node-mgmt-port";

/// MAC addresses of the management ports by network; no longer written, still read.
pub const MANAGEMENT_PORT_MACS: &str = "k8s.ovn.org/node-mgmt-port-mac-addresses";

/// `false` where gateways cannot tell packets that are too large; absent where they can. Written by the node.
pub const GATEWAY_MTU_SUPPORT: &str = "k8s.ovn.org/gateway-mtu-support";

/// Highest number of a node; 0 and 1 are nobody's.
pub const MAX_NODE_ID: u32 = 5000;

/// Highest tunnel id within one Layer2 network.
pub const MAX_GATEWAY_ROUTER_TUNNEL_ID: u32 = 32_767;

/// At most one address, or subnet, of each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4 with prefix length.
    pub ipv4: Option<Ipv4Net>,
    /// IPv6 with prefix length.
    pub ipv6: Option<Ipv6Net>,
}

/// The function of a card behind a management port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagementPort {
    /// PCI address or name of an auxiliary device; empty where only the indices are known.
    pub device: String,
    /// Index of the physical function.
    pub pf: u32,
    /// Index of the function on it.
    pub function: u32,
}

/// Reads [`NODE_SUBNETS`].
///
/// # Errors
/// It is no JSON object.
pub fn read_node_subnets(text: &str) -> Result<Read<Networks<Vec<IpNet>>>, AnnotationError> {
    Ok(each(NODE_SUBNETS, object(NODE_SUBNETS, text)?, |value| match value {
        // Old versions wrote a single subnet without a list.
        Value::String(_) => Ok(vec![parsed(value)?]),
        Value::Array(subnets) => subnets.iter().map(parsed).collect(),
        _ => Err("neither a subnet nor a list of subnets".to_owned()),
    }))
}

/// Writes [`NODE_SUBNETS`]; none when the node has no subnet: the annotation is removed.
#[must_use]
pub fn render_node_subnets(subnets: &Networks<Vec<IpNet>>) -> Option<String> {
    by_network(subnets.iter().filter(|(_, subnets)| !subnets.is_empty()), |subnets| subnets_text(subnets))
}

/// What [`NODE_SUBNETS`] says of one network.
pub(super) fn subnets_text(subnets: &[IpNet]) -> String {
    go_json::strings(subnets.iter().map(ToString::to_string))
}

/// Reads [`NETWORK_IDS`].
///
/// # Errors
/// It is no JSON object.
pub fn read_network_ids(text: &str) -> Result<Read<Networks<u32>>, AnnotationError> {
    numbers(NETWORK_IDS, text, super::network::MAX_NETWORK_ID)
}

/// Reads [`GATEWAY_ROUTER_TUNNEL_IDS`].
///
/// # Errors
/// It is no JSON object.
pub fn read_gateway_router_tunnel_ids(text: &str) -> Result<Read<Networks<u32>>, AnnotationError> {
    numbers(GATEWAY_ROUTER_TUNNEL_IDS, text, MAX_GATEWAY_ROUTER_TUNNEL_ID)
}

/// Writes [`NETWORK_IDS`] and [`GATEWAY_ROUTER_TUNNEL_IDS`]: numbers as strings; none when there are none.
#[must_use]
pub fn render_numbers(numbers: &Networks<u32>) -> Option<String> {
    by_network(numbers.iter(), |number| go_json::quoted(&number.to_string()))
}

/// Reads [`NODE_ID`].
///
/// # Errors
/// It is no number of a node.
pub fn read_node_id(text: &str) -> Result<u32, AnnotationError> {
    decimal(text, MAX_NODE_ID).map_err(|cause| AnnotationError::new(NODE_ID, text, &cause))
}

/// Reads an annotation of one address for each family: [`TRANSIT_SWITCH_PORT`], [`PRIMARY_ADDRESSES`],
/// [`MASQUERADE_SUBNETS`], [`DPU_HOST_ADDRESSES`].
///
/// # Errors
/// It is no JSON object.
pub fn read_addresses(key: &'static str, text: &str) -> Result<Read<Addresses>, AnnotationError> {
    let mut object = object(key, text)?;
    let mut read = Read::<Addresses>::default();
    read.value.ipv4 = family(key, object.remove("ipv4"), "ipv4", &mut read.bad);
    read.value.ipv6 = family(key, object.remove("ipv6"), "ipv6", &mut read.bad);
    Ok(read)
}

/// Writes an annotation of one address for each family.
#[must_use]
pub fn render_addresses(addresses: &Addresses) -> String {
    let text = |address: Option<String>| address.unwrap_or_default();
    Object::default()
        .string_if_any("ipv4", &text(addresses.ipv4.map(|address| address.to_string())))
        .string_if_any("ipv6", &text(addresses.ipv6.map(|address| address.to_string())))
        .finish()
}

/// Reads [`HOST_CIDRS`].
///
/// # Errors
/// It is no JSON array.
pub fn read_host_cidrs(text: &str) -> Result<Read<Vec<IpNet>>, AnnotationError> {
    Ok(items(HOST_CIDRS, &array(HOST_CIDRS, text)?, parsed))
}

/// Writes [`HOST_CIDRS`]: as text, sorted, each once.
#[must_use]
pub fn render_host_cidrs(addresses: &[IpNet]) -> String {
    sorted(addresses)
}

/// Reads [`ENCAP_IPS`].
///
/// # Errors
/// It is no JSON array.
pub fn read_encap_ips(text: &str) -> Result<Read<Vec<IpAddr>>, AnnotationError> {
    Ok(items(ENCAP_IPS, &array(ENCAP_IPS, text)?, parsed))
}

/// Writes [`ENCAP_IPS`]: as text, sorted, each once.
#[must_use]
pub fn render_encap_ips(addresses: &[IpAddr]) -> String {
    sorted(addresses)
}

/// Reads [`HYBRID_OVERLAY_SUBNET`].
///
/// # Errors
/// It is no subnet.
pub fn read_hybrid_overlay_subnet(text: &str) -> Result<IpNet, AnnotationError> {
    text.parse().map_err(|error| AnnotationError::new(HYBRID_OVERLAY_SUBNET, text, &error))
}

/// Whether the node's gateways can tell packets that are too large: yes unless it says otherwise.
#[must_use]
pub fn read_gateway_mtu_support(text: Option<&str>) -> bool {
    text != Some("false")
}

/// Reads [`MANAGEMENT_PORTS`]; the older form with one object is the default network's.
///
/// # Errors
/// It is no JSON object.
pub fn read_management_ports(text: &str) -> Result<Read<Networks<ManagementPort>>, AnnotationError> {
    let key = MANAGEMENT_PORTS;
    let ports = object(key, text)?;
    let ports = if ports.contains_key("PfId") || ports.contains_key("FuncId") {
        [("default".to_owned(), Value::Object(ports))].into_iter().collect()
    } else {
        ports
    };
    Ok(each(key, ports, |value| {
        let index = |name: &str| match value.get(name).map(Value::as_u64) {
            None => Ok(0),
            Some(index) => {
                index.and_then(|index| u32::try_from(index).ok()).ok_or_else(|| format!("{name} is no index"))
            }
        };
        let device = match value.as_object().ok_or("no object")?.get("DeviceId") {
            None => String::new(),
            Some(device) => parsed(device)?,
        };
        Ok(ManagementPort { device, pf: index("PfId")?, function: index("FuncId")? })
    }))
}

/// Writes [`MANAGEMENT_PORTS`]; none when there are none.
#[must_use]
pub fn render_management_ports(ports: &Networks<ManagementPort>) -> Option<String> {
    by_network(ports.iter(), |port| {
        Object::default()
            .string("DeviceId", &port.device)
            .raw("PfId", &port.pf.to_string())
            .raw("FuncId", &port.function.to_string())
            .finish()
    })
}

/// Reads [`MANAGEMENT_PORT_MACS`].
///
/// # Errors
/// It is no JSON object.
pub fn read_management_port_macs(text: &str) -> Result<Read<Networks<String>>, AnnotationError> {
    let key = MANAGEMENT_PORT_MACS;
    Ok(each(key, object(key, text)?, |value| match value.as_str() {
        Some(mac) if super::is_mac(mac) => Ok(mac.to_owned()),
        _ => Err("no MAC address".to_owned()),
    }))
}

/// Values as an object by network, in the order of the networks' bytes.
fn by_network<'a, T: 'a>(
    entries: impl Iterator<Item = (&'a String, &'a T)>,
    value: impl Fn(&T) -> String,
) -> Option<String> {
    let mut entries = entries.peekable();
    entries.peek()?;
    Some(entries.fold(Object::default(), |object, (name, entry)| object.raw(name, &value(entry))).finish())
}

fn numbers(key: &'static str, text: &str, most: u32) -> Result<Read<Networks<u32>>, AnnotationError> {
    Ok(each(key, object(key, text)?, |value| decimal(value.as_str().ok_or("no string")?, most)))
}

fn family<T>(key: &'static str, value: Option<Value>, entry: &str, bad: &mut Vec<BadEntry>) -> Option<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    // Absent, null and empty are three ways in which writers say none.
    let value = value.filter(|value| !value.is_null() && value.as_str() != Some(""))?;
    match parsed(&value) {
        Ok(address) => Some(address),
        Err(cause) => {
            bad.push(BadEntry { key, entry: entry.to_owned(), value: value.to_string(), cause });
            None
        }
    }
}

fn sorted<T: ToString>(values: &[T]) -> String {
    let texts: std::collections::BTreeSet<String> = values.iter().map(ToString::to_string).collect();
    go_json::strings(texts)
}

#[cfg(test)]
mod tests;
