//! What the program's settings mean for networks.

use causeway_api::nad::GatewayMode;
use causeway_runtime::settings::{self, Settings};
use ipnet::IpNet;

use super::cluster::{COPP_RATE, Cluster};

impl Cluster {
    /// What holds for every network, as the settings say.
    pub(crate) fn of(settings: &Settings) -> Self {
        let pair = |pair: &settings::SubnetPair| vec![IpNet::V4(pair.v4), IpNet::V6(pair.v6)];
        Self {
            subnets: settings.cluster_subnets.iter().map(|entry| entry.subnet).collect(),
            join: pair(&settings.join),
            masquerade: pair(&settings.masquerade),
            mtu: settings.mtu,
            node_ports: settings.gateway.node_ports,
            port_range: settings.ovn.port_range.clone().or_else(kernel_ports),
            multicast: false,
            copp_rate: COPP_RATE,
            acl_log_rate: settings.ovn.acl_log_rate.into(),
            geneve_port: Some(settings.ovn.geneve_port),
        }
    }
}

/// How nodes reach the outside, as far as it decides what a network config may say.
pub(crate) const fn nad_mode(settings: &Settings) -> GatewayMode {
    match settings.gateway_mode {
        settings::GatewayMode::Shared => GatewayMode::Shared,
        settings::GatewayMode::Local | settings::GatewayMode::Disabled => GatewayMode::Other,
    }
}

/// Ports that this machine's kernel gives to connections without one, as upstream takes them where nobody names others.
/// Source: `Documentation/networking/ip-sysctl.rst` of Linux, `ip_local_port_range`.
fn kernel_ports() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    port_range(&text)
}

fn port_range(text: &str) -> Option<String> {
    let mut ports = text.split_whitespace().map(str::parse::<u16>);
    match (ports.next()?, ports.next()?, ports.next()) {
        (Ok(first), Ok(last), None) => Some(format!("{first}-{last}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_ports_are_written_as_ovn_writes_ranges() {
        assert_eq!(port_range("32768\t60999\n").as_deref(), Some("32768-60999"));
        for other in ["", "32768", "32768 x", "1 2 3"] {
            assert_eq!(port_range(other), None, "{other:?}");
        }
    }
}
