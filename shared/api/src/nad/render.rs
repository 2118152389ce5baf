//! From a config to its text.

use super::CNI_TYPE;
use super::config::{Config, EvpnConfig, VrfConfig, Word};
use crate::go_json::Object;

impl Config {
    /// The text for `spec.config`: compact, keys in the order of their bytes. Upstream renders a map, so that any other
    /// order would rewrite every NetworkAttachmentDefinition once.
    #[must_use]
    pub fn render(&self) -> String {
        let mut object = Object::default();
        if self.persistent_ips {
            object = object.raw("allowPersistentIPs", "true");
        }
        object = object
            .string("cniVersion", &self.cni_version)
            .string_if_any("defaultGatewayIPs", &self.default_gateway_ips.join(","));
        if let Some(evpn) = &self.evpn {
            object = object.raw("evpn", &domains(evpn));
        }
        object
            .string_if_any("excludeSubnets", &self.exclude_subnets.join(","))
            .string_if_any("infrastructureSubnets", &self.infrastructure_subnets.join(","))
            .string_if_any("joinSubnet", &self.join_subnets.join(","))
            .number_if_any("mtu", self.mtu)
            .string("name", &self.name)
            .string("netAttachDefName", &self.nad_name)
            .string_if_any("outboundSNAT", word(self.outbound_snat.as_ref()))
            .string_if_any("physicalNetworkName", self.physical_network.as_deref().unwrap_or_default())
            .string_if_any("reservedSubnets", &self.reserved_subnets.join(","))
            .string("role", word(self.role.as_ref()))
            .string_if_any("subnets", &self.subnets.join(","))
            .string("topology", word(self.topology.as_ref()))
            .string_if_any("transitSubnet", &self.transit_subnets.join(","))
            .string_if_any("transport", word(self.transport.as_ref()))
            .string("type", CNI_TYPE)
            .string_if_any("uplink", self.uplink.as_deref().unwrap_or_default())
            .number_if_any("vlanID", self.vlan)
            .finish()
    }
}

fn word<T: Word>(value: Option<&T>) -> &str {
    value.map_or("", Word::word)
}

/// The inner objects keep the order of upstream's structs, which is not that of their bytes.
fn domains(evpn: &EvpnConfig) -> String {
    let mut object = Object::default().string("vtep", &evpn.vtep);
    for (key, vrf) in [("macVRF", &evpn.mac_vrf), ("ipVRF", &evpn.ip_vrf)] {
        if let Some(vrf) = vrf {
            object = object.raw(key, &domain(vrf));
        }
    }
    object.finish()
}

fn domain(vrf: &VrfConfig) -> String {
    Object::default()
        .raw("vni", &vrf.vni.to_string())
        .string_if_any("routeTarget", vrf.route_target.as_deref().unwrap_or_default())
        .number_if_any("vid", vrf.vid)
        .finish()
}
