//! Reads bridges and devices out of the stores of this machine.

use causeway_agent::half::NotObserved;
use causeway_agent::kernel;
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::mac::MacAddress;
use causeway_net::simulated;
use causeway_net::wire::{LinkFacts, Part, Wire};
use causeway_netlink::sysfs::{DeviceId, PortName, Sysfs, SysfsError};
use causeway_netlink::{DevlinkPort, InterfaceName, Link, LinkDetails, NetlinkStore, PortFlavour};
use ovsdb::Snapshot;
use tracing::debug;

use super::plan::Way;
use super::representor::{Flavour, LocalFunction, LocalKind, Netdev, Representors};

/// The eyes of the side that holds the bridge.
pub struct BridgeEyes {
    ovs: ovsdb::Store,
    netlink: NetlinkStore,
    sysfs: Sysfs,
    /// The node whose simulated card this is.
    simulated: Option<String>,
}

impl BridgeEyes {
    /// Looks through these stores. `simulated` names the node whose card is played by veth pairs.
    #[must_use]
    pub fn new(ovs: ovsdb::Store, netlink: NetlinkStore, sysfs: Sysfs, simulated: Option<String>) -> Self {
        Self { ovs, netlink, sysfs, simulated }
    }

    /// Open vSwitch as it is now.
    ///
    /// # Errors
    /// The database has not been read, or the connection is lost.
    pub(crate) fn ovs(&self) -> Result<Snapshot, NotObserved> {
        self.ovs.current().map_err(|_| NotObserved {
            reason: DiscoveryReason::BridgeNotFound,
            message: format!(
                "failed to list OVS bridges: Open vSwitch database {}",
                *self.ovs.status().borrow()
            ),
        })
    }

    /// What stands for which function.
    ///
    /// # Errors
    /// The kernel's snapshot is not complete.
    pub(crate) fn representors(&self) -> Result<Representors, NotObserved> {
        let snapshot = kernel::current(&self.netlink).map_err(|why| NotObserved {
            reason: DiscoveryReason::BridgeNotFound,
            message: format!("failed to list representors: {why}"),
        })?;
        if let Some(node) = &self.simulated {
            let named = |link: &Link| (link.name.to_string(), link.alias().map(str::to_owned));
            let links =
                snapshot.links.iter().filter(|link| is_simulated(link)).map(|link| named(link)).collect();
            return Ok(Representors::Simulated { node: node.clone(), links });
        }
        let plain = LinkDetails::default();
        let devices = snapshot.links.iter().filter_map(|link| {
            let port = snapshot.devlink_ports.of_netdev(link.index).map(AsRef::as_ref);
            device(&self.sysfs, &link.name, link.details.as_deref().unwrap_or(&plain), port)
        });
        Ok(Representors::Switchdev(devices.collect()))
    }

    /// Adds the links of a way through a bridge to what is known of the wire. A link that the host's side has added
    /// already is not added twice; one that the kernel does not have (a port of a userspace datapath) is passed over.
    pub(crate) fn follow(&self, way: &Way, wire: &mut Wire) {
        let snapshot = self.netlink.snapshot();
        for (part, name) in
            [(Part::HostPort, &way.host_port), (Part::Bridge, &way.bridge), (Part::Uplink, &way.uplink)]
        {
            let link = name.parse().ok().and_then(|name: InterfaceName| snapshot.links.by_name(&name));
            let Some(link) = link.filter(|_| wire.links.iter().all(|known| known.name != *name)) else {
                continue;
            };
            wire.links.push(LinkFacts {
                part,
                name: name.clone(),
                mtu: link.mtu,
                up: link.flags.is_up(),
                carrier: link.carrier,
            });
        }
    }

    /// The function of this machine behind an interface, if it is one that can have a representor here.
    pub(crate) fn local_function(&self, interface: &str) -> Option<LocalFunction> {
        local_function(&self.sysfs, interface)
    }
}

/// A port of a switch; none for an ordinary device.
fn device(
    sysfs: &Sysfs,
    link: &InterfaceName,
    details: &LinkDetails,
    port: Option<&DevlinkPort>,
) -> Option<Netdev> {
    if port.is_none() && details.phys_switch_id.is_none() {
        return None;
    }
    let named = details.phys_port_name.as_deref().and_then(PortName::parse);
    let mut device = Netdev {
        name: link.to_string(),
        alias: details.alias.as_deref().map(str::to_owned),
        flavour: Flavour::Other,
        controller: None,
        pf: None,
        vf: None,
        sf: None,
        device: None,
        peer_mac: None,
    };
    match named {
        Some(PortName::Physical(_)) => device.flavour = Flavour::Physical,
        Some(PortName::Pf { controller, pf }) => {
            (device.flavour, device.controller, device.pf) = (Flavour::Pf, controller, Some(pf));
        }
        Some(PortName::Vf { controller, pf, vf }) => {
            (device.flavour, device.controller) = (Flavour::Vf, controller);
            (device.pf, device.vf) = (Some(pf), Some(vf));
        }
        Some(PortName::Sf { controller, pf, sf }) => {
            (device.flavour, device.controller) = (Flavour::Sf, controller);
            (device.pf, device.sf) = (Some(pf), Some(sf));
        }
        None => {}
    }
    if let Some(port) = port {
        device.flavour = flavour(port.flavour).unwrap_or(device.flavour);
        // A function of another host has a controller above 0, whatever an old driver reports.
        let controller = port.controller.filter(|controller| *controller > 0 || !port.external);
        device.controller = controller.or(device.controller);
        device.pf = port.pf.map(u32::from).or(device.pf);
        device.vf = port.vf.map(u32::from).or(device.vf);
        device.sf = port.sf.or(device.sf);
        device.device = Some(port.id.device.to_string());
        device.peer_mac = port.peer_mac().map(|mac| MacAddress::new(mac.octets()));
    }
    if device.device.is_none() {
        device.device = told(sysfs.pci_device_of(link)).map(|address| address.to_string());
    }
    if let (None, Flavour::Pf, Some(pf)) = (device.peer_mac, device.flavour, device.pf) {
        device.peer_mac = told(legacy_pf_mac(sysfs, link, pf));
    }
    Some(device)
}

/// Address of a host's physical function from the card's own driver, for kernels whose devlink does not tell it.
/// Source: the Go library `sriovnet`, `sriovnet_switchdev.go`.
fn legacy_pf_mac(
    sysfs: &Sysfs,
    representor: &InterfaceName,
    pf: u32,
) -> Result<Option<MacAddress>, SysfsError> {
    for beside in sysfs.netdevs_beside(representor)? {
        let name = sysfs.phys_port_name(&beside)?;
        let is_its_port = name.as_deref().and_then(PortName::parse) == Some(PortName::Physical(pf));
        if is_its_port && sysfs.is_switchdev(&beside)? {
            let mac = sysfs.smart_nic_pf_mac(&beside)?;
            return Ok(mac.map(|mac| MacAddress::new(mac.octets())));
        }
    }
    Ok(None)
}

fn local_function(sysfs: &Sysfs, interface: &str) -> Option<LocalFunction> {
    let name: InterfaceName = interface.parse().ok()?;
    match told(sysfs.device_of(&name))? {
        DeviceId::Pci(function) => {
            let physical = told(sysfs.pf_of(function))?;
            let vf = told(sysfs.vf_index_of(function))?;
            Some(LocalFunction { pf_address: physical.to_string(), kind: LocalKind::Vf(vf) })
        }
        DeviceId::Auxiliary(device) => {
            let physical = told(sysfs.aux_parent_pci(&device))?;
            let sf = told(sysfs.sf_number(&device))?;
            Some(LocalFunction { pf_address: physical.to_string(), kind: LocalKind::Sf(sf) })
        }
        DeviceId::Other(_) => None,
    }
}

/// What sysfs tells; a file that cannot be read tells nothing, as an absent one.
fn told<T>(fact: Result<Option<T>, SysfsError>) -> Option<T> {
    fact.unwrap_or_else(|error| {
        debug!(error = %error, "Fact of sysfs cannot be read");
        None
    })
}

/// Whether a link's name or alias is one of a simulated representor.
pub(super) fn is_simulated(link: &Link) -> bool {
    let names = [Some(link.name.as_str()), link.alias()];
    names.into_iter().flatten().any(|name| simulated::representor_index(name).is_some())
}

fn flavour(port: PortFlavour) -> Option<Flavour> {
    match port {
        PortFlavour::Physical => Some(Flavour::Physical),
        PortFlavour::PciPf => Some(Flavour::Pf),
        PortFlavour::PciVf => Some(Flavour::Vf),
        PortFlavour::PciSf => Some(Flavour::Sf),
        PortFlavour::Cpu | PortFlavour::Dsa | PortFlavour::Virtual | PortFlavour::Unused => {
            Some(Flavour::Other)
        }
        PortFlavour::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use causeway_netlink::{DevlinkPortId, PortFunction};

    use super::*;

    fn link(port_name: &str) -> LinkDetails {
        let (switch, name) = (Some([1, 2].into()), Some(port_name.into()));
        LinkDetails { phys_switch_id: switch, phys_port_name: name, ..LinkDetails::default() }
    }

    fn port(flavour: PortFlavour, address: Option<[u8; 6]>) -> DevlinkPort {
        let function = address.map(|octets| PortFunction { hardware_address: octets.as_slice().into() });
        let id = DevlinkPortId { bus: "pci".into(), device: "0000:03:00.0".into(), index: 1 };
        let (pf, vf) = (Some(0), (flavour == PortFlavour::PciVf).then_some(0));
        let (controller, external) = (Some(1), true);
        DevlinkPort {
            id,
            flavour,
            controller,
            pf,
            vf,
            sf: None,
            external,
            number: None,
            netdev: None,
            function,
        }
    }

    #[test]
    fn an_unset_address_is_none_and_leaves_a_physical_function_to_the_cards_own_file() {
        const SET: [u8; 6] = [2, 0, 0, 0, 0, 1];
        let root = tempfile::tempdir().unwrap();
        let beside = root.path().join("class/net/rep/device/net/p0");
        std::fs::create_dir_all(&beside).unwrap();
        let own = root.path().join("class/net/p0");
        std::fs::create_dir_all(own.join("smart_nic/pf")).unwrap();
        std::fs::write(own.join("phys_port_name"), "p0\n").unwrap();
        std::fs::write(own.join("phys_switch_id"), "0102\n").unwrap();
        let sysfs = Sysfs::new(root.path());
        let name: InterfaceName = "rep".parse().unwrap();
        let peer = |details: &LinkDetails, port: Option<&DevlinkPort>, file: &str| {
            std::fs::write(own.join("smart_nic/pf/config"), format!("MAC        : {file}\nMaxTxRate  : 0\n"))
                .unwrap();
            let found = device(&sysfs, &name, details, port).unwrap();
            found.peer_mac.map_or_else(|| "none".to_owned(), |mac| mac.to_string())
        };
        let (file, zero) = ("02:00:00:00:00:99", "00:00:00:00:00:00");
        let (pf, vf) = (PortFlavour::PciPf, PortFlavour::PciVf);
        for (what, details, port, file, want) in [
            ("devlink tells it", link("c1pf0"), Some(port(pf, Some(SET))), file, "02:00:00:00:00:01"),
            ("devlink says zero", link("c1pf0"), Some(port(pf, Some([0; 6]))), file, file),
            ("devlink tells no function", link("c1pf0"), Some(port(pf, None)), file, file),
            ("no devlink", link("pf0"), None, file, file),
            ("both say zero", link("c1pf0"), Some(port(pf, Some([0; 6]))), zero, "none"),
            ("a virtual function, zero", link("c1pf0vf0"), Some(port(vf, Some([0; 6]))), file, "none"),
            ("another physical function", link("pf1"), None, file, "none"),
        ] {
            assert_eq!(peer(&details, port.as_ref(), file), want, "{what}");
        }
        assert_eq!(device(&sysfs, &name, &LinkDetails::default(), None), None, "an ordinary device");
    }

    #[test]
    fn virtual_functions_and_subfunctions_of_this_machine_are_told() {
        let root = tempfile::tempdir().unwrap();
        let path = |path: &str| root.path().join(path);
        for folder in [
            "class/net/v",
            "class/net/s",
            "class/net/x",
            "bus/pci/devices/0000:03:01.1",
            "bus/pci/devices/0000:03:00.0",
        ] {
            std::fs::create_dir_all(path(folder)).unwrap();
        }
        let device = "devices/pci0000:00/0000:03:00.0/mlx5_core.sf.3";
        std::fs::create_dir_all(path(device)).unwrap();
        std::fs::write(path(device).join("sfnum"), "88\n").unwrap();
        std::fs::create_dir_all(path("bus/auxiliary/devices")).unwrap();
        let links = [
            ("class/net/v/device", "../../../0000:03:01.1"),
            ("bus/pci/devices/0000:03:01.1/physfn", "../0000:03:00.0"),
            ("bus/pci/devices/0000:03:00.0/virtfn7", "../0000:03:01.1"),
            ("class/net/s/device", "../../../mlx5_core.sf.3"),
            (
                "bus/auxiliary/devices/mlx5_core.sf.3",
                "../../../devices/pci0000:00/0000:03:00.0/mlx5_core.sf.3",
            ),
        ];
        for (link, target) in links {
            symlink(target, path(link)).unwrap();
        }
        let sysfs = Sysfs::new(root.path());
        let found = |name| local_function(&sysfs, name).map(|function| function.to_string());
        assert_eq!(found("v").as_deref(), Some("VF 7 of PCI device 0000:03:00.0"));
        assert_eq!(found("s").as_deref(), Some("SF 88 of PCI device 0000:03:00.0"));
        assert_eq!([found("x"), found("absent"), found("not/a/name")], [None, None, None]);
    }
}
