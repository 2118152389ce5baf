//! What a node's way out is made of: the options of the default gateway and of tunnels.
//!
//! Texts that the agent of a card may also find in Open vSwitch stay texts here: whoever uses them reads both the same way,
//! and tells the Node what is wrong with them.

use ipnet::IpNet;

use super::layers::Values;
use super::value::{self, ValueError};

/// Highest VLAN number. Source: IEEE 802.1Q; 4095 is reserved there, and upstream takes it.
const MAX_VLAN: i64 = 4095;

/// Options of the default gateway of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Interface or bridge that leads out; `None`: the one with the default route.
    pub interface: Option<String>,
    /// Comma separated routers outside; `None`: those of the default route.
    pub next_hops: Option<String>,
    /// VLAN outside; 0 is untagged.
    pub vlan: u16,
    /// Whether Services have node ports.
    pub node_ports: bool,
    /// Interface or bridge of the second gateway, which takes what leaves by external gateways of pods.
    pub external_interface: Option<String>,
    /// Virtual function or subfunction that carries the gateway's traffic.
    pub accelerated_interface: Option<String>,
    /// On a card: the representor of the host's gateway interface.
    pub representor: Option<String>,
    /// On a card: subnet of the gateway's outer port, where it is not the host's.
    pub router_subnet: Option<IpNet>,
    /// Whether the bridge may have no physical port; only where traffic leaves through the host's own routing.
    pub allow_no_uplink: bool,
    /// Whether gateways tell packets that are too large for pods.
    pub checks_packet_size: bool,
}

pub(super) fn read(values: &Values, problems: &mut Vec<String>) -> Result<GatewaySettings, ValueError> {
    let given = |name: &str| {
        let text = values.text(name).map(str::trim).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let vlan = values.text("gateway-vlanid").map_or(Ok(0), value::number)?;
    if !(0..=MAX_VLAN).contains(&vlan) {
        problems.push(format!("--gateway-vlanid must be between 0 and {MAX_VLAN}, not {vlan}"));
    }
    Ok(GatewaySettings {
        interface: given("gateway-interface"),
        next_hops: given("gateway-nexthop"),
        vlan: u16::try_from(vlan).unwrap_or_default(),
        node_ports: values.is_on("nodeport"),
        external_interface: given("exgw-interface"),
        accelerated_interface: given("gateway-accelerated-interface"),
        representor: given("dpu-host-gateway-representor-interface"),
        router_subnet: given("gateway-router-subnet").as_deref().map(value::cidr).transpose()?,
        allow_no_uplink: values.is_on("allow-no-uplink"),
        checks_packet_size: !values.is_on("disable-pkt-mtu-check"),
    })
}
