//! What this node's own ovn-controller is told, as the settings of this process and the node say.

use std::net::IpAddr;

use causeway_agent::kernel;
use causeway_netlink::NetlinkStore;
use causeway_runtime::settings::{ControllerSettings, OvnSettings};
use causeway_runtime::watch::Store;

use super::super::chassis_settings::{ChassisSettings, Settings};
use super::super::write::WriteError;
use super::error::PassError;
use super::watched::NodeFacts;

/// External id of the ends of tunnels. Source: ovn-controller(8).
const ENCAP_IP: &str = "ovn-encap-ip";

/// Writes the settings.
pub(super) struct Chassis {
    pub(super) store: ovsdb::Store,
    pub(super) netlink: NetlinkStore,
    pub(super) nodes: Store<String, NodeFacts>,
    pub(super) node: String,
    /// Whether this machine is the node; a card keeps its own name, and its tunnels end where it says.
    pub(super) is_node: bool,
    pub(super) ovn: OvnSettings,
}

impl Chassis {
    /// Brings the settings to what they should be; returns whether something changed.
    pub(super) async fn settle(&self) -> Result<bool, PassError> {
        let have = self.store.current().map_err(WriteError::from)?;
        let wanted = self.wanted(&have)?;
        let change = wanted.change(&have).map_err(PassError::SettingsDiff)?;
        if change.is_empty() {
            return Ok(false);
        }
        self.store.transact(&change).await.map_err(PassError::Settings)?;
        Ok(true)
    }

    fn wanted(&self, have: &ovsdb::Snapshot) -> Result<ChassisSettings, PassError> {
        let configured = self.ovn.encap_ips.clone();
        let (ends, told) = if !configured.is_empty() {
            (configured, true)
        } else if self.is_node {
            let address = self.nodes.snapshot().get(self.node.as_str()).and_then(|facts| facts.address);
            (address.into_iter().collect(), false)
        } else {
            (there(have), false)
        };
        if ends.is_empty() {
            return Err(PassError::NoEncap);
        }
        let hostname = self.is_node.then(|| self.node.clone());
        let wanted = settings(ends, hostname, &self.ovn.controller);
        // What the kernel has is known once it was read; until then nothing is refused for it.
        if told && let Ok(kernel) = kernel::current(&self.netlink) {
            let addresses: Vec<IpAddr> = kernel.addresses.iter().map(|address| address.ip()).collect();
            wanted.check(&addresses)?;
        }
        Ok(wanted)
    }
}

/// Where tunnels end by what is there already: on a card, whoever set it up says so.
fn there(have: &ovsdb::Snapshot) -> Vec<IpAddr> {
    let row = have.rows::<Settings>().next();
    let text = row.and_then(|(_, row)| row.external_ids.get(ENCAP_IP)).unwrap_or_default();
    text.split(',').filter_map(|text| text.trim().parse().ok()).collect()
}

fn settings(ends: Vec<IpAddr>, hostname: Option<String>, controller: &ControllerSettings) -> ChassisSettings {
    let default = ChassisSettings::new(ends, hostname);
    ChassisSettings {
        remote_probe_ms: controller.remote_probe.unwrap_or(default.remote_probe_ms),
        bridge_probe: controller.bridge_probe.unwrap_or(default.bridge_probe),
        wait_before_clear_ms: controller.wait_before_clear.unwrap_or(default.wait_before_clear_ms),
        monitor_all: controller.monitor_all,
        flow_cache: controller.flow_cache,
        flow_cache_entries: controller.flow_cache_entries.or(default.flow_cache_entries),
        flow_cache_kb: controller.flow_cache_kb.or(default.flow_cache_kb),
        ..default
    }
}
