//! Ids of EVPN domains: VLAN ids, which are handed out, and VXLAN network identifiers, which users choose and which
//! must be unique for a VTEP.
//!
//! In: what specs ask for, what NADs carry already. Out: VLAN ids for the NADs, or who has what is asked for.
//! Source: ovn-kubernetes cluster manager, EVPN ids of user-defined networks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway_api::nad::EvpnConfig;
use causeway_api::network::Evpn;

use super::ids::{Exhausted, Ids};
use crate::render::Vids;

/// VLAN ids that domains can have: 0 and 1 are reserved. Source: ovn-kubernetes, 4095 slots.
const VIDS: std::ops::RangeInclusive<u32> = 2..=4094;

/// Ids of all EVPN networks.
#[derive(Clone, Debug)]
pub struct EvpnIds {
    vids: Ids<Domain>,
    /// Who has which identifier, by VTEP.
    vnis: BTreeMap<(String, u32), String>,
    /// What each network has.
    of: BTreeMap<String, BTreeSet<(String, u32)>>,
}

/// One domain of a network; displays as upstream's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain {
    network: String,
    kind: DomainKind,
}

/// Which domain of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainKind {
    /// The bridge domain.
    MacVrf,
    /// The routing domain.
    IpVrf,
}

impl fmt::Display for DomainKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MacVrf => "MAC-VRF",
            Self::IpVrf => "IP-VRF",
        })
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DomainKind::MacVrf => "macvrf",
            DomainKind::IpVrf => "ipvrf",
        };
        write!(f, "{}/{kind}", self.network)
    }
}

/// Why a network has no ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEvpnIds {
    /// Somebody else's identifier.
    #[error("failed to reserve VNIs: VNI {vni} on VTEP {vtep:?} is already reserved by network {by:?}")]
    VniTaken {
        /// The identifier.
        vni: u32,
        /// The VTEP.
        vtep: String,
        /// Who has it.
        by: String,
    },
    /// All VLAN ids are in use.
    #[error("failed to allocate VID for {kind}: {cause}")]
    NoVid {
        /// For which domain.
        kind: DomainKind,
        /// Part of the text on purpose: conditions have one line.
        cause: Exhausted,
    },
}

impl Default for EvpnIds {
    fn default() -> Self {
        Self::new()
    }
}

impl EvpnIds {
    /// Nobody has any.
    #[must_use]
    pub fn new() -> Self {
        Self { vids: Ids::new(VIDS), vnis: BTreeMap::new(), of: BTreeMap::new() }
    }

    /// The state that the NADs of networks were left with, oldest network first: of two that claim one id the older
    /// keeps it. Returns also who did not get everything back and has to be looked at again.
    pub fn rebuild<'c>(
        carried: impl IntoIterator<Item = (&'c str, &'c EvpnConfig)>,
    ) -> (Self, BTreeSet<String>) {
        let mut ids = Self::new();
        let mut again = BTreeSet::new();
        for (network, config) in carried {
            for (kind, vrf) in [(DomainKind::MacVrf, &config.mac_vrf), (DomainKind::IpVrf, &config.ip_vrf)] {
                let Some(vrf) = vrf else { continue };
                let vni = ids.reserve(network, &config.vtep, vrf.vni).is_ok();
                let vid = vrf.vid.is_some_and(|vid| ids.vids.claim(&domain(network, kind), vid).is_ok());
                if !(vni && vid) {
                    again.insert(network.to_owned());
                }
            }
        }
        (ids, again)
    }

    /// The VLAN ids of a network: those that it has, else new ones. Identifiers that it does not ask for any more are
    /// free again (upstream keeps them until the network is gone).
    ///
    /// # Errors
    /// An identifier is somebody else's, or no VLAN id is free; nothing changes then.
    pub fn allocate(&mut self, network: &str, spec: &Evpn) -> Result<Vids, NoEvpnIds> {
        let asked = [(DomainKind::MacVrf, &spec.mac_vrf), (DomainKind::IpVrf, &spec.ip_vrf)];
        let number = |vni: i32| u32::try_from(vni).unwrap_or_default();
        let wanted: BTreeSet<(String, u32)> = asked
            .iter()
            .filter_map(|(_, vrf)| vrf.as_ref())
            .map(|vrf| (spec.vtep.clone(), number(vrf.vni)))
            .collect();
        for (vtep, vni) in &wanted {
            self.check(network, vtep, *vni)?;
        }
        let mut vids = Vids::default();
        let mut fresh = Vec::new();
        for (kind, _) in asked.iter().filter(|(_, vrf)| vrf.is_some()) {
            let key = domain(network, *kind);
            if self.vids.get(&key).is_none() {
                fresh.push(key.clone());
            }
            let vid = self.vids.allocate(&key).map_err(|cause| {
                for key in &fresh {
                    self.vids.release(key);
                }
                NoEvpnIds::NoVid { kind: *kind, cause }
            })?;
            match kind {
                DomainKind::MacVrf => vids.mac_vrf = Some(vid),
                DomainKind::IpVrf => vids.ip_vrf = Some(vid),
            }
        }
        self.release_vnis(network);
        for (vtep, vni) in wanted {
            self.insert(network, vtep, vni);
        }
        Ok(vids)
    }

    /// Frees everything that a network has.
    pub fn release(&mut self, network: &str) {
        for kind in [DomainKind::MacVrf, DomainKind::IpVrf] {
            self.vids.release(&domain(network, kind));
        }
        self.release_vnis(network);
    }

    fn release_vnis(&mut self, network: &str) {
        for key in self.of.remove(network).unwrap_or_default() {
            self.vnis.remove(&key);
        }
    }

    fn reserve(&mut self, network: &str, vtep: &str, vni: u32) -> Result<(), NoEvpnIds> {
        self.check(network, vtep, vni)?;
        self.insert(network, vtep.to_owned(), vni);
        Ok(())
    }

    fn check(&self, network: &str, vtep: &str, vni: u32) -> Result<(), NoEvpnIds> {
        match self.vnis.get(&(vtep.to_owned(), vni)) {
            Some(by) if by != network => {
                Err(NoEvpnIds::VniTaken { vni, vtep: vtep.to_owned(), by: by.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn insert(&mut self, network: &str, vtep: String, vni: u32) {
        self.vnis.insert((vtep.clone(), vni), network.to_owned());
        self.of.entry(network.to_owned()).or_default().insert((vtep, vni));
    }
}

fn domain(network: &str, kind: DomainKind) -> Domain {
    Domain { network: network.to_owned(), kind }
}

#[cfg(test)]
mod tests {
    use causeway_api::nad::VrfConfig;
    use causeway_api::network::Vrf;

    use super::*;

    fn spec(vtep: &str, mac: Option<i32>, ip: Option<i32>) -> Evpn {
        let vrf = |vni| Vrf { vni, route_target: None };
        Evpn { vtep: vtep.into(), mac_vrf: mac.map(vrf), ip_vrf: ip.map(vrf) }
    }

    fn config(vtep: &str, mac: (u32, u32), ip: (u32, u32)) -> EvpnConfig {
        let vrf =
            |(vni, vid): (u32, u32)| VrfConfig { vni, route_target: None, vid: (vid > 0).then_some(vid) };
        EvpnConfig { vtep: vtep.into(), mac_vrf: Some(vrf(mac)), ip_vrf: Some(vrf(ip)) }
    }

    #[test]
    fn vlan_ids_begin_at_two_and_stay_with_their_domain() {
        let mut ids = EvpnIds::new();
        let both = spec("v", Some(100), Some(200));
        let want = Vids { mac_vrf: Some(2), ip_vrf: Some(3) };
        assert_eq!(ids.allocate("a", &both), Ok(want));
        assert_eq!(ids.allocate("a", &both), Ok(want));
        assert_eq!(
            ids.allocate("b", &spec("v", None, Some(300))),
            Ok(Vids { mac_vrf: None, ip_vrf: Some(4) })
        );
    }

    #[test]
    fn an_identifier_is_one_networks_for_each_vtep() {
        let mut ids = EvpnIds::new();
        ids.allocate("e2", &spec("v2", Some(200), None)).unwrap();
        assert!(ids.allocate("other", &spec("v1", Some(200), None)).is_ok());
        let error = ids.allocate("e4", &spec("v2", Some(7), Some(200))).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"failed to reserve VNIs: VNI 200 on VTEP "v2" is already reserved by network "e2""#
        );
        assert!(ids.allocate("e5", &spec("v2", Some(7), None)).is_ok(), "a refusal reserves nothing");
        ids.release("e2");
        assert!(ids.allocate("e4", &spec("v2", None, Some(200))).is_ok());
    }

    #[test]
    fn an_identifier_that_is_not_asked_for_any_more_is_free() {
        let mut ids = EvpnIds::new();
        let before = ids.allocate("a", &spec("v", Some(100), None)).unwrap();
        assert_eq!(ids.allocate("a", &spec("v", Some(101), None)), Ok(before));
        assert!(ids.allocate("b", &spec("v", Some(100), None)).is_ok());
    }

    #[test]
    fn without_a_free_vlan_id_nothing_is_taken() {
        let mut ids = EvpnIds::new();
        for vni in 0..4092 {
            ids.allocate(&format!("n{vni}"), &spec("v", Some(vni + 1), None)).unwrap();
        }
        let error = ids.allocate("last", &spec("v", Some(9001), Some(9002))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to allocate VID for IP-VRF: failed to allocate the id for the resource last/ipvrf: \
             all 4093 ids are in use"
        );
        assert!(ids.allocate("other", &spec("v", Some(9001), None)).is_ok());
    }

    #[test]
    fn after_a_restart_the_older_network_keeps_what_two_claim() {
        let (old, new) = (config("v", (100, 12), (200, 13)), config("v", (300, 12), (200, 14)));
        let fine = config("v", (400, 20), (500, 0));
        let carried = [("old", &old), ("new", &new), ("fine", &fine)];
        let (mut ids, again) = EvpnIds::rebuild(carried);
        assert_eq!(
            again,
            ["fine".to_owned(), "new".to_owned()].into(),
            "one lacks a VLAN id, one lost two ids"
        );
        let vids = |mac, ip| Ok(Vids { mac_vrf: Some(mac), ip_vrf: Some(ip) });
        assert_eq!(ids.allocate("old", &spec("v", Some(100), Some(200))), vids(12, 13));
        assert_eq!(ids.allocate("new", &spec("v", Some(300), Some(201))), vids(2, 14));
        assert_eq!(ids.allocate("fine", &spec("v", Some(400), Some(500))), vids(20, 3));
    }
}
