//! What this node's own ovn-controller is told, on the `Open_vSwitch` row of the machine that holds the integration bridge.
//!
//! Source: ovn-kubernetes `default_node_network_controller.go`; ovn-controller(8).

use std::net::IpAddr;
use std::sync::Arc;

use ovsdb::{Claim, Desired, DiffError, Snapshot, Transaction, Uuid, diff};

use super::mark::pairs;
use super::northbound::Pairs;
use crate::discovery::ovs::INTEGRATION_BRIDGE;

ovsdb::table! {
    /// The configuration as a whole; one row.
    pub struct Settings in "Open_vSwitch" {
        /// Settings of OVN and others.
        external_ids: Pairs,
        /// Settings of Open vSwitch.
        other_config: Pairs,
    }
}

ovsdb::table! {
    /// A bridge, as far as it exports flows.
    pub struct Exporter in "Bridge" {
        /// Name, unique.
        name: String,
        /// Export by NetFlow.
        netflow: Option<Uuid>,
        /// Export by sFlow.
        sflow: Option<Uuid>,
        /// Export by IPFIX.
        ipfix: Option<Uuid>,
    }
    /// By name.
    index by_name = |bridge| Some(bridge.name.as_str());
}

/// Settings of this node's chassis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChassisSettings {
    /// Where tunnels end: the node's primary address, or configured ones.
    pub encap_ips: Vec<IpAddr>,
    /// Name of the node, where the machine is the node; a card keeps its own.
    pub hostname: Option<String>,
    /// How long ovn-controller waits for its databases before it asks whether they live.
    pub remote_probe_ms: u32,
    /// How long it waits for Open vSwitch; 0 never asks. Open vSwitch gets the same number as its idle timeout of bundles.
    pub bridge_probe: u32,
    /// How long it waits before it clears flows that it found.
    pub wait_before_clear_ms: u32,
    /// Whether it watches all of the Southbound database.
    pub monitor_all: bool,
    /// Whether it keeps translated flows.
    pub flow_cache: bool,
    /// At most so many of them.
    pub flow_cache_entries: Option<u32>,
    /// In at most so much memory.
    pub flow_cache_kb: Option<u32>,
}

/// A tunnel address that the node does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("encapsulation address {0} is not an address of this node")]
pub struct ForeignEncap(pub IpAddr);

impl ChassisSettings {
    /// Upstream's defaults.
    #[must_use]
    pub fn new(encap_ips: Vec<IpAddr>, hostname: Option<String>) -> Self {
        Self {
            encap_ips,
            hostname,
            remote_probe_ms: 100_000,
            bridge_probe: 0,
            wait_before_clear_ms: 0,
            monitor_all: true,
            flow_cache: true,
            flow_cache_entries: None,
            flow_cache_kb: None,
        }
    }

    /// Whether tunnels end at addresses that the node has.
    ///
    /// # Errors
    /// The first one that it has not.
    pub fn check(&self, addresses: &[IpAddr]) -> Result<(), ForeignEncap> {
        let foreign = self.encap_ips.iter().find(|ip| !addresses.contains(ip));
        foreign.map_or(Ok(()), |ip| Err(ForeignEncap(*ip)))
    }

    fn external_ids(&self) -> Pairs {
        let ips: Vec<String> = self.encap_ips.iter().map(ToString::to_string).collect();
        let mut ids = pairs([
            ("ovn-encap-type", "geneve".to_owned()),
            ("ovn-encap-ip", ips.join(",")),
            // Without it ovn-controller makes no tunnel to another zone's chassis.
            ("ovn-is-interconn", "true".to_owned()),
            ("ovn-set-local-ip", "true".to_owned()),
            ("ovn-monitor-all", self.monitor_all.to_string()),
            ("ovn-remote-probe-interval", self.remote_probe_ms.to_string()),
            ("ovn-bridge-remote-probe-interval", self.bridge_probe.to_string()),
            ("ovn-ofctrl-wait-before-clear", self.wait_before_clear_ms.to_string()),
            ("ovn-enable-lflow-cache", self.flow_cache.to_string()),
        ]);
        let limits = [
            ("ovn-limit-lflow-cache", self.flow_cache_entries),
            ("ovn-memlimit-lflow-cache-kb", self.flow_cache_kb),
        ];
        ids.extend(limits.into_iter().filter_map(|(key, limit)| Some((key.to_owned(), limit?.to_string()))));
        ids.extend(self.hostname.iter().map(|name| ("hostname".to_owned(), name.clone())));
        ids
    }

    /// The change that brings the row to these settings. Bridge mappings, the chassis' id and all other keys are others'.
    ///
    /// # Errors
    /// They cannot be compared with what is there.
    pub fn change(&self, have: &Snapshot) -> Result<Transaction, DiffError> {
        let mut want = Desired::default();
        // A limit that is not set any more goes; what else nobody here sets stays.
        let optional = ["ovn-limit-lflow-cache", "ovn-memlimit-lflow-cache-kb"];
        let claim = Claim::only()
            .must_exist()
            .keys(Settings::external_ids(), optional)
            .part(Settings::other_config(), |_| false);
        let row = Settings {
            external_ids: self.external_ids(),
            other_config: pairs([("bundle-idle-timeout", self.bridge_probe.to_string())]),
        };
        want.row(&Arc::new(claim), row);
        if let Some((uuid, bridge)) = have.find_one(Exporter::by_name(), INTEGRATION_BRIDGE) {
            let claim = Claim::row(uuid);
            let claim = claim.whole(Exporter::netflow()).whole(Exporter::sflow()).whole(Exporter::ipfix());
            let name = bridge.name.clone();
            want.row(&Arc::new(claim), Exporter { name, ..Exporter::default() });
        }
        diff(&want, have)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What upstream wrote, without the keys that others own.
    fn captured() -> Pairs {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/topology/03-cudn-l3-primary/ovs.json");
        let row: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let ids: BTreeMap<String, String> = serde_json::from_value(row["external_ids"].clone()).unwrap();
        let mut ids: Pairs = ids.into_iter().collect();
        for foreign in ["ovn-bridge-datapath-type", "ovn-bridge-mappings", "ovn-remote", "system-id"] {
            assert!(ids.remove(foreign), "{foreign}");
        }
        assert_eq!(row["other_config"]["bundle-idle-timeout"], "0");
        ids
    }

    fn settings() -> ChassisSettings {
        ChassisSettings::new(vec!["172.30.0.2".parse().unwrap()], Some("node1".to_owned()))
    }

    fn row(id: u128, external_ids: Pairs, other_config: Pairs) -> ovsdb::SnapshotBuilder {
        let builder = Snapshot::builder().table::<Exporter>();
        builder.row(Uuid::from_u128(id), Settings { external_ids, other_config })
    }

    #[test]
    fn settings_equal_the_captured_ones_and_are_not_written_twice() {
        assert_eq!(settings().external_ids(), captured());
        let others = pairs([("system-id", "c1"), ("ovn-bridge-mappings", "physnet:br-ex")]);
        let empty = row(1, others.clone(), Pairs::new()).build();
        assert!(!settings().change(&empty).unwrap().is_empty());
        let mut ids = captured();
        ids.extend(&others);
        let full = row(1, ids, pairs([("bundle-idle-timeout", "0"), ("vlan-limit", "0")])).build();
        assert!(settings().change(&full).unwrap().is_empty());
    }

    #[test]
    fn a_card_keeps_its_own_name_and_a_limit_that_is_not_set_goes() {
        let card = ChassisSettings { hostname: None, ..settings() };
        assert!(!card.external_ids().contains_key("hostname"));
        let mut ids = captured();
        ids.extend([("ovn-limit-lflow-cache", "1000"), ("hostname", "bluefield")]);
        let have = row(1, ids, pairs([("bundle-idle-timeout", "0")])).build();
        let change = format!("{:?}", card.change(&have).unwrap());
        assert!(change.contains("ovn-limit-lflow-cache") && !change.contains("bluefield"), "{change}");
        let limited = ChassisSettings { flow_cache_entries: Some(1000), ..card };
        assert!(limited.change(&have).unwrap().is_empty());
    }

    #[test]
    fn exports_of_the_integration_bridge_are_switched_off_and_of_others_not() {
        let exporting = |name: &str| Exporter {
            name: name.to_owned(),
            netflow: Some(Uuid::from_u128(9)),
            ..Exporter::default()
        };
        let ids = (captured(), pairs([("bundle-idle-timeout", "0")]));
        let with = |name: &str| {
            row(1, ids.0.clone(), ids.1.clone()).row(Uuid::from_u128(2), exporting(name)).build()
        };
        assert!(!settings().change(&with("br-int")).unwrap().is_empty());
        assert!(settings().change(&with("br-ex")).unwrap().is_empty());
    }

    #[test]
    fn tunnels_end_at_addresses_of_the_node_only() {
        let own: Vec<IpAddr> = vec!["172.30.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        assert_eq!(settings().check(&own), Ok(()));
        assert_eq!(settings().check(&own[1..]), Err(ForeignEncap(own[0])));
    }
}
