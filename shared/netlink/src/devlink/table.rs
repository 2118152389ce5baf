//! All devlink ports of the namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;

use super::model::{DevlinkPort, DevlinkPortId};
use crate::name::{IfIndex, InterfaceName};

/// All devlink ports. A clone shares everything with its original. Empty where the kernel has no devlink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DevlinkPorts {
    pub(crate) rows: OrdMap<DevlinkPortId, Arc<DevlinkPort>>,
    by_netdev: OrdMap<IfIndex, DevlinkPortId>,
}

impl DevlinkPorts {
    /// The port of a network interface.
    #[must_use]
    pub fn of_netdev(&self, netdev: IfIndex) -> Option<&Arc<DevlinkPort>> {
        self.rows.get(self.by_netdev.get(&netdev)?)
    }

    /// The port whose network interface has this name, as devlink reports it.
    #[must_use]
    pub fn of_netdev_name(&self, name: &InterfaceName) -> Option<&Arc<DevlinkPort>> {
        self.iter().find(|port| port.netdev.is_some_and(|netdev| netdev.name == *name))
    }

    /// The ports of one device, by number.
    pub fn of_device(&self, bus: &str, device: &str) -> impl Iterator<Item = &Arc<DevlinkPort>> {
        let first = DevlinkPortId { bus: bus.into(), device: device.into(), index: 0 };
        let same = first.clone();
        self.rows
            .range(first..)
            .take_while(move |(id, _)| id.bus == same.bus && id.device == same.device)
            .map(|(_, port)| port)
    }

    /// The port with this identity.
    #[must_use]
    pub fn get(&self, id: &DevlinkPortId) -> Option<&Arc<DevlinkPort>> {
        self.rows.get(id)
    }

    /// All ports, by device and number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DevlinkPort>> {
        self.rows.values()
    }

    /// How many ports there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no port.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn upsert(&mut self, port: DevlinkPort) {
        if self.rows.get(&port.id).is_some_and(|known| **known == port) {
            return;
        }
        self.remove(&port.id);
        if let Some(netdev) = port.netdev {
            self.by_netdev.insert(netdev.index, port.id.clone());
        }
        self.rows.insert(port.id.clone(), Arc::new(port));
    }

    pub(crate) fn remove(&mut self, id: &DevlinkPortId) {
        let netdev = self.rows.remove(id).and_then(|port| port.netdev);
        if let Some(netdev) = netdev
            && self.by_netdev.get(&netdev.index) == Some(id)
        {
            self.by_netdev.remove(&netdev.index);
        }
    }

    /// Takes a complete dump.
    pub(crate) fn replace_all(&mut self, rows: Vec<DevlinkPort>) {
        let listed: BTreeSet<&DevlinkPortId> = rows.iter().map(|port| &port.id).collect();
        let gone: Vec<DevlinkPortId> = self.rows.keys().filter(|id| !listed.contains(id)).cloned().collect();
        for id in gone {
            self.remove(&id);
        }
        for row in rows {
            self.upsert(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devlink::{PortFlavour, PortNetdev};

    fn port(device: &str, index: u32, netdev: Option<(u32, &str)>) -> DevlinkPort {
        DevlinkPort {
            id: DevlinkPortId { bus: "pci".into(), device: device.into(), index },
            flavour: PortFlavour::PciVf,
            controller: None,
            pf: None,
            vf: None,
            sf: None,
            external: false,
            number: None,
            netdev: netdev.map(|(index, name)| PortNetdev {
                index: IfIndex::new(index).unwrap(),
                name: name.parse().unwrap(),
            }),
            function: None,
        }
    }

    #[test]
    fn a_port_is_found_by_device_and_by_interface() {
        let mut ports = DevlinkPorts::default();
        ports.replace_all(vec![port("b", 1, None), port("a", 2, Some((7, "x"))), port("a", 1, None)]);
        assert_eq!(ports.of_device("pci", "a").map(|p| p.id.index).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ports.of_netdev(IfIndex::new(7).unwrap()).unwrap().id.index, 2);
        assert!(ports.of_netdev_name(&"x".parse().unwrap()).is_some());
    }

    #[test]
    fn an_interface_that_changed_ports_belongs_to_the_newest() {
        let mut ports = DevlinkPorts::default();
        ports.upsert(port("a", 1, Some((7, "x"))));
        ports.upsert(port("a", 2, Some((7, "x"))));
        ports.upsert(port("a", 1, None));
        assert_eq!(ports.of_netdev(IfIndex::new(7).unwrap()).unwrap().id.index, 2);
        ports.replace_all(vec![]);
        assert!(ports.is_empty() && ports.of_netdev(IfIndex::new(7).unwrap()).is_none());
    }
}
