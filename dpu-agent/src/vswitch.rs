//! The rows of the Open_vSwitch database that this side reads. Source: ovs-vswitchd.conf.db(5).

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::Uuid;

ovsdb::table! {
    /// A bridge.
    pub struct Bridge in "Bridge" {
        /// Name, unique among bridges.
        name: String,
        /// Its ports.
        ports: BTreeSet<Uuid>,
        /// Notes of managers; `bridge-uplink` names the port that leads out.
        external_ids: BTreeMap<String, String>,
    }
    /// Bridges by name.
    index by_name = |bridge| Some(bridge.name.as_str());
    /// The bridge that has a port.
    index by_port = |bridge| bridge.ports.iter().copied();
}

ovsdb::table! {
    /// A port of a bridge: one interface, or several if it is a bond.
    pub struct Port in "Port" {
        /// Name, unique among ports.
        name: String,
        /// Its interfaces.
        interfaces: BTreeSet<Uuid>,
        /// VLAN of untagged packets.
        tag: Option<i64>,
        /// VLANs that a trunk carries; empty for all.
        trunks: BTreeSet<i64>,
    }
    /// Ports by name.
    index by_name = |port| Some(port.name.as_str());
    /// The port that has an interface.
    index by_interface = |port| port.interfaces.iter().copied();
}

ovsdb::table! {
    /// An interface of a port.
    pub struct Interface in "Interface" {
        /// Name, unique among interfaces.
        name: String,
        /// Type; empty means `system`.
        kind as "type": String,
    }
    /// Interfaces by name.
    index by_name = |interface| Some(interface.name.as_str());
}
