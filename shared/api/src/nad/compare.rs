//! What a config means where it says nothing, and whether two configs mean one network.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::config::{Config, EvpnConfig};
use crate::network::Topology;

/// Values for what a config leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Largest packet of the cluster.
    pub mtu: u32,
    /// Subnets between routers, one of each family.
    pub join_subnets: Vec<String>,
}

impl Default for Defaults {
    /// Upstream's compiled-in values.
    fn default() -> Self {
        Self { mtu: 1400, join_subnets: vec!["100.65.0.0/16".into(), "fd99::/64".into()] }
    }
}

/// Prefix length of a node's subnet where a Layer3 entry has none.
const HOST_LENGTH: [(Family, u8); 2] = [(Family::V4, 24), (Family::V6, 64)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Config {
    /// The same network with everything said: MTU, lengths of Layer3 nodes' subnets, join subnets of both families, and the
    /// underlay of a Localnet network, which is named as the network unless the config says otherwise.
    #[must_use]
    pub fn with_defaults(&self, defaults: &Defaults) -> Self {
        let mut full = self.clone();
        full.mtu = full.mtu.or(Some(defaults.mtu));
        match full.topology {
            Some(Topology::Layer3) => {
                full.subnets = full.subnets.iter().map(|entry| complete(entry)).collect();
            }
            Some(Topology::Localnet) => {
                full.physical_network = full.physical_network.or_else(|| Some(full.name.clone()));
            }
            _ => {}
        }
        // A network of the underlay has no routers.
        if matches!(full.topology, Some(Topology::Layer3 | Topology::Layer2)) {
            for default in &defaults.join_subnets {
                if !full.join_subnets.iter().any(|given| family(given) == family(default)) {
                    full.join_subnets.push(default.clone());
                }
            }
        }
        full
    }

    /// The keys in which another config of the same name means something else; none where both mean one network.
    ///
    /// Subnets of Layer3 networks may differ: that is how a network grows. Gateway addresses and the VLANs of EVPN domains
    /// are not part of the identity.
    #[must_use]
    pub fn differences(&self, other: &Self, defaults: &Defaults) -> Vec<&'static str> {
        let (a, b) = (self.with_defaults(defaults), other.with_defaults(defaults));
        let subnets_may_differ = a.topology == Some(Topology::Layer3);
        let compared = [
            ("name", a.name == b.name),
            ("topology", a.topology == b.topology),
            ("mtu", a.mtu == b.mtu),
            ("vlanID", a.vlan == b.vlan),
            ("allowPersistentIPs", a.persistent_ips == b.persistent_ips),
            // No role is a secondary one.
            ("role", a.is_primary() == b.is_primary()),
            ("physicalNetworkName", a.physical_network == b.physical_network),
            ("transport", a.transport == b.transport),
            ("uplink", a.uplink == b.uplink),
            ("evpn", without_vids(a.evpn) == without_vids(b.evpn)),
            ("outboundSNAT", a.outbound_snat == b.outbound_snat),
            ("excludeSubnets", set(&a.exclude_subnets) == set(&b.exclude_subnets)),
            ("reservedSubnets", set(&a.reserved_subnets) == set(&b.reserved_subnets)),
            ("infrastructureSubnets", set(&a.infrastructure_subnets) == set(&b.infrastructure_subnets)),
            ("joinSubnet", set(&a.join_subnets) == set(&b.join_subnets)),
            ("transitSubnet", set(&a.transit_subnets) == set(&b.transit_subnets)),
            ("subnets", subnets_may_differ || set(&a.subnets) == set(&b.subnets)),
        ];
        compared.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
    }

    /// Whether two configs mean one network, whose ids may be known: two ids are two networks.
    #[must_use]
    pub fn is_compatible(
        &self,
        id: Option<u32>,
        other: &Self,
        other_id: Option<u32>,
        defaults: &Defaults,
    ) -> bool {
        let one_id = match (id, other_id) {
            (Some(id), Some(other)) => id == other,
            _ => true,
        };
        one_id && self.differences(other, defaults).is_empty()
    }
}

/// The entry with the length of nodes' subnets.
fn complete(entry: &str) -> String {
    let is_complete = entry.split('/').count() != 2;
    let length = family(entry).and_then(|family| HOST_LENGTH.iter().find(|(of, _)| *of == family));
    match length {
        Some((_, length)) if !is_complete => format!("{entry}/{length}"),
        _ => entry.to_owned(),
    }
}

fn family(entry: &str) -> Option<Family> {
    let address = entry.split('/').next()?.parse::<IpAddr>().ok()?;
    Some(if address.is_ipv4() { Family::V4 } else { Family::V6 })
}

/// Subnets whatever their order and notation.
fn set(entries: &[String]) -> BTreeSet<String> {
    entries.iter().map(|entry| normal(entry).unwrap_or_else(|| entry.clone())).collect()
}

/// The notation that all notations of a subnet share: no host bits, the address in canonical form.
fn normal(entry: &str) -> Option<String> {
    let mut parts = entry.splitn(3, '/');
    let address: IpAddr = parts.next()?.parse().ok()?;
    let length: u32 = parts.next()?.parse().ok()?;
    let network: IpAddr = match address {
        IpAddr::V4(address) => {
            let host = 32_u32.checked_sub(length)?;
            IpAddr::V4((address.to_bits() & u32::MAX.checked_shl(host).unwrap_or(0)).into())
        }
        IpAddr::V6(address) => {
            let host = 128_u32.checked_sub(length)?;
            IpAddr::V6((address.to_bits() & u128::MAX.checked_shl(host).unwrap_or(0)).into())
        }
    };
    let rest = parts.next().map(|rest| format!("/{rest}")).unwrap_or_default();
    Some(format!("{network}/{length}{rest}"))
}

fn without_vids(evpn: Option<EvpnConfig>) -> Option<EvpnConfig> {
    evpn.map(|mut evpn| {
        for vrf in [&mut evpn.mac_vrf, &mut evpn.ip_vrf].into_iter().flatten() {
            vrf.vid = None;
        }
        evpn
    })
}
