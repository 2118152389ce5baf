//! Bridges, ports and interfaces of Open vSwitch, joined by name for the rules that read them.
//!
//! Every question costs what its answer touches: the integration bridge with its thousands of ports is never walked.

use std::collections::BTreeMap;

use causeway_net::wire::PortVlan;
use ovsdb::{Snapshot, Uuid};

use crate::vswitch::{Bridge, Interface, Port};

/// Name of OVN's integration bridge.
pub const INTEGRATION_BRIDGE: &str = "br-int";

/// Key in a bridge's `external_ids` with the name of the interface that leads out.
const BRIDGE_UPLINK: &str = "bridge-uplink";

/// What Open vSwitch is configured to have.
#[derive(Clone, Copy)]
pub struct OvsView<'s>(&'s Snapshot);

impl std::fmt::Debug for OvsView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OvsView").field(&self.0.generation()).finish()
    }
}

/// One bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeView<'s> {
    /// Its name.
    pub name: &'s str,
    /// `external_ids:bridge-uplink`, unless empty.
    pub bridge_uplink: Option<&'s str>,
    /// Type of each interface of each port, by name.
    pub ports: BTreeMap<&'s str, BTreeMap<&'s str, &'s str>>,
    /// Ports that it refers to and that do not exist.
    pub dangling_ports: usize,
}

/// Why no bridge has a port or interface of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOnABridge {
    /// There is neither a port nor an interface of that name.
    #[error("OVS port or interface {0} not found: object not found")]
    Unknown(String),
    /// There is, but no bridge has it.
    #[error("OVS port or interface {0} is not attached to a bridge: object not found")]
    Detached(String),
}

impl<'s> OvsView<'s> {
    /// Looks at a snapshot.
    #[must_use]
    pub fn new(snapshot: &'s Snapshot) -> Self {
        Self(snapshot)
    }

    /// A bridge by its name.
    #[must_use]
    pub fn bridge(self, name: &str) -> Option<BridgeView<'s>> {
        self.0.find_one(Bridge::by_name(), name).map(|(_, row)| self.view_of(row))
    }

    /// Every bridge but the integration bridge, by name.
    #[must_use]
    pub fn external_bridges(self) -> Vec<BridgeView<'s>> {
        let rows = self.0.rows::<Bridge>().filter(|(_, row)| row.name != INTEGRATION_BRIDGE);
        let mut bridges: Vec<_> = rows.map(|(_, row)| self.view_of(row)).collect();
        bridges.sort_unstable_by_key(|bridge| bridge.name);
        bridges
    }

    /// VLANs of the port that has an interface of this name.
    #[must_use]
    pub fn vlan_of(self, interface: &str) -> Option<PortVlan> {
        let (uuid, _) = self.0.find_one(Interface::by_name(), interface)?;
        let (_, port) = self.0.find_one(Port::by_interface(), uuid)?;
        let trunks = port.trunks.iter().copied().collect();
        Some(PortVlan { name: port.name.clone(), tag: port.tag, trunks })
    }

    fn view_of(self, row: &'s Bridge) -> BridgeView<'s> {
        let mut ports = BTreeMap::new();
        let mut dangling_ports = 0;
        for uuid in &row.ports {
            let Some(port) = self.0.row::<Port>(*uuid) else {
                dangling_ports += 1;
                continue;
            };
            let interfaces = port.interfaces.iter().filter_map(|uuid| self.0.row::<Interface>(*uuid));
            ports.insert(
                port.name.as_str(),
                interfaces.map(|interface| (interface.name.as_str(), interface.kind.as_str())).collect(),
            );
        }
        let bridge_uplink =
            row.external_ids.get(BRIDGE_UPLINK).map(String::as_str).filter(|name| !name.is_empty());
        BridgeView { name: &row.name, bridge_uplink, ports, dangling_ports }
    }

    /// The bridge that has a port or interface of this name; the first by name if several claim it.
    ///
    /// # Errors
    /// No such port or interface, or one that no bridge has.
    pub fn bridge_of(self, name: &str) -> Result<&'s str, NotOnABridge> {
        let interfaces: Vec<Uuid> = self.0.find(Interface::by_name(), name).map(|(uuid, _)| uuid).collect();
        let named = self.0.find(Port::by_name(), name);
        let holding = interfaces.iter().flat_map(|uuid| self.0.find(Port::by_interface(), *uuid));
        let ports: Vec<Uuid> = named.chain(holding).map(|(uuid, _)| uuid).collect();
        if ports.is_empty() && interfaces.is_empty() {
            return Err(NotOnABridge::Unknown(name.to_owned()));
        }
        let bridges = ports.into_iter().flat_map(|port| self.0.find(Bridge::by_port(), port));
        bridges.map(|(_, row)| row.name.as_str()).min().ok_or_else(|| NotOnABridge::Detached(name.to_owned()))
    }
}

impl<'s> BridgeView<'s> {
    /// The bridge's own copy of an interface's name, if it has that interface.
    #[must_use]
    pub fn own_interface(&self, name: &str) -> Option<&'s str> {
        self.interface_names().find(|own| *own == name)
    }

    /// Names of all interfaces of all ports, in port order.
    pub fn interface_names(&self) -> impl Iterator<Item = &'s str> {
        self.ports.values().flat_map(|interfaces| interfaces.keys().copied())
    }
}

#[cfg(test)]
pub(crate) mod fixture;
