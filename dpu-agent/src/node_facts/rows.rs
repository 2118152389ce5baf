//! What facts of a node read of the Open_vSwitch database beside its bridges and ports. Source: ovs-vswitchd.conf.db(5).

use std::collections::BTreeMap;

use ovsdb::Uuid;

ovsdb::table! {
    /// The configuration as a whole; one row.
    pub struct Root in "Open_vSwitch" {
        /// Settings of OVN and of whoever set the machine up.
        external_ids: BTreeMap<String, String>,
        /// Settings of Open vSwitch.
        other_config: BTreeMap<String, String>,
        /// Datapaths by type.
        datapaths: BTreeMap<String, Uuid>,
    }
}

ovsdb::table! {
    /// What one type of datapath can do.
    pub struct Datapath in "Datapath" {
        /// Capabilities by name.
        capabilities: BTreeMap<String, String>,
    }
}

ovsdb::table! {
    /// A bridge, as far as it says what it runs on.
    pub struct BridgeType in "Bridge" {
        /// Name, unique.
        name: String,
        /// Type of its datapath; empty means `system`.
        datapath_type: String,
    }
    /// By name.
    index by_name = |bridge| Some(bridge.name.as_str());
}

ovsdb::table! {
    /// An interface, as far as it has an address.
    pub struct Port in "Interface" {
        /// Name, unique.
        name: String,
        /// Its MAC address; none before the switch has it.
        mac_in_use: Option<String>,
    }
    /// By name.
    index by_name = |port| Some(port.name.as_str());
}

/// Key of the chassis' id in `external_ids`; the platform makes it.
pub(super) const SYSTEM_ID: &str = "system-id";

impl Root {
    /// The one row, if it is there.
    #[must_use]
    pub fn of(snapshot: &ovsdb::Snapshot) -> Option<&Self> {
        snapshot.rows::<Self>().next().map(|(_, row)| &**row)
    }

    /// A text of `external_ids`. Whoever writes it with a shell may have left quotes around it.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        let text = self.external_ids.get(key)?.trim().trim_matches('"');
        Some(text).filter(|text| !text.is_empty())
    }
}
