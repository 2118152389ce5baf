//! Where a network leaves a node: its default gateway, or an Uplink.

use std::net::IpAddr;

use causeway_api::annotation::GatewayMode;
use causeway_api::annotation::gateway::L3Gateway;
use causeway_api::condition::is_true;
use causeway_api::uplink_state::{StateCondition, UplinkState};
use causeway_net::mac::MacAddress;
use causeway_net::network::name::NodeName;
use ipnet::IpNet;

use super::cluster::Cluster;
use super::network::Network;
use super::node::{Untold, ZoneNode};

/// The bridge network of the default gateway. Source: ovn-kubernetes `types.PhysicalNetworkName`.
const DEFAULT_PHYSICAL_NETWORK: &str = "physnet";

/// Where a network leaves a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nowhere: the node has no gateway.
    Disabled,
    /// Here.
    Through(Gateway),
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Name of the external switch's port to the bridge.
    pub localnet_port: String,
    /// Name of the bridge in the bridge mappings.
    pub physical_network: String,
    /// MAC address of the bridge.
    pub mac: String,
    /// Addresses of the node there.
    pub addresses: Vec<IpNet>,
    /// The routers outside.
    pub next_hops: Vec<IpAddr>,
    /// VLAN outside.
    pub vlan: Option<u16>,
    /// Whether services have node ports there.
    pub node_ports: bool,
    /// The default network's second way out, which external gateways of pods use.
    pub second: Option<SecondGateway>,
}

/// A second gateway beside the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondGateway {
    /// Name of its external switch's port to its bridge.
    pub localnet_port: String,
    /// MAC address of its bridge.
    pub mac: String,
    /// Addresses of the node there.
    pub addresses: Vec<IpNet>,
}

/// Why it is not known where a network leaves a node. Texts as upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExitError {
    /// The node has not told its gateway.
    #[error("failed to get node {node} network {network} L3 gateway config: {cause}")]
    Gateway {
        /// The node.
        node: NodeName,
        /// The network.
        network: String,
        /// Part of the text on purpose: it goes into one line of a log or condition.
        cause: Untold,
    },
    /// Nobody has looked yet.
    #[error("waiting for UplinkState {state} for uplink {uplink:?} on node {node:?}")]
    NoState {
        /// Name of the state.
        state: String,
        /// The Uplink.
        uplink: String,
        /// The node.
        node: String,
    },
    /// The state is of another kind.
    #[error("uplink state {state} has no OVSBridge uplink for uplink {uplink:?} on node {node:?}")]
    NotABridge {
        /// Name of the state.
        state: String,
        /// The Uplink.
        uplink: String,
        /// The node.
        node: String,
    },
    /// What was found cannot be used.
    #[error("uplink state {state} for uplink {uplink:?} on node {node:?} is not resolved")]
    Unresolved {
        /// Name of the state.
        state: String,
        /// The Uplink.
        uplink: String,
        /// The node.
        node: String,
    },
    /// The bridge has no name.
    #[error("uplink state {state} has no resolved OVS bridge for uplink {uplink:?}")]
    NoBridge {
        /// Name of the state.
        state: String,
        /// The Uplink.
        uplink: String,
    },
    /// There is no address.
    #[error("UplinkState has no gateway IP addresses")]
    NoAddresses,
    /// A field means nothing.
    #[error("failed to parse UplinkState {field} {text:?}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it is.
        text: String,
    },
}

impl Exit {
    /// The default gateway of a node, as a network's.
    ///
    /// # Errors
    /// The node has not told it, or what cannot be read.
    pub fn of_node(network: &Network, node: &ZoneNode) -> Result<Self, ExitError> {
        let gateway = node.gateway().map_err(|cause| ExitError::Gateway {
            node: node.name.clone(),
            network: network.name.to_string(),
            cause,
        })?;
        match gateway.mode {
            GatewayMode::Disabled => Ok(Self::Disabled),
            GatewayMode::Shared | GatewayMode::Local => {
                Ok(Self::Through(default_gateway(network, node, gateway)))
            }
        }
    }

    /// An Uplink of a node, as a network's.
    ///
    /// # Errors
    /// The state does not tell a usable bridge with addresses.
    pub fn of_uplink(
        network: &Network,
        node: &NodeName,
        cluster: &Cluster,
        state_name: &str,
        uplink: &str,
        state: Option<&UplinkState>,
    ) -> Result<Self, ExitError> {
        let (name, uplink_name) = (state_name.to_owned(), uplink.to_owned());
        let Some(state) = state else {
            return Err(ExitError::NoState { state: name, uplink: uplink_name, node: node.to_string() });
        };
        let status = state.status_or_default();
        if status.ovs_bridge.is_none() {
            return Err(ExitError::NotABridge { state: name, uplink: uplink_name, node: node.to_string() });
        }
        if !is_true(state.conditions(), StateCondition::Resolved.as_str()) {
            return Err(ExitError::Unresolved { state: name, uplink: uplink_name, node: node.to_string() });
        }
        let bridge = status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.clone());
        let bridge = bridge
            .filter(|bridge| !bridge.is_empty())
            .ok_or(ExitError::NoBridge { state: name, uplink: uplink_name })?;
        let mac = status.mac_address.clone().unwrap_or_default();
        let mac =
            mac.parse::<MacAddress>().map_err(|_| ExitError::Field { field: "MAC address", text: mac })?;
        let addresses: Vec<IpNet> = parsed("IP address", &status.ip_addresses)?;
        if addresses.is_empty() {
            return Err(ExitError::NoAddresses);
        }
        Ok(Self::Through(Gateway {
            localnet_port: network.names().external_localnet_port(&bridge, node.as_str()),
            physical_network: network.name.to_string(),
            mac: mac.to_string(),
            addresses,
            next_hops: parsed("default gateway", &status.default_gateways)?,
            vlan: None,
            node_ports: cluster.node_ports,
            second: None,
        }))
    }
}

fn default_gateway(network: &Network, node: &ZoneNode, gateway: &L3Gateway) -> Gateway {
    let localnet_port = if network.is_default() {
        gateway.interface.clone()
    } else {
        network.names().external_localnet_port(&gateway.bridge, node.name.as_str())
    };
    Gateway {
        localnet_port,
        physical_network: DEFAULT_PHYSICAL_NETWORK.to_owned(),
        mac: gateway.mac.to_ascii_lowercase(),
        addresses: gateway.addresses.clone(),
        next_hops: gateway.next_hops.clone(),
        vlan: gateway.vlan.filter(|vlan| *vlan > 0),
        node_ports: gateway.node_port == Some(true),
        second: gateway.external.as_ref().filter(|_| network.is_default()).map(|second| SecondGateway {
            localnet_port: second.interface.clone(),
            mac: second.mac.to_ascii_lowercase(),
            addresses: second.addresses.clone(),
        }),
    }
}

fn parsed<T: std::str::FromStr>(field: &'static str, texts: &[String]) -> Result<Vec<T>, ExitError> {
    let one = |text: &String| text.parse().map_err(|_| ExitError::Field { field, text: text.clone() });
    texts.iter().map(one).collect()
}

#[cfg(test)]
mod tests;
