//! Reads one interface out of the kernel's snapshot and sysfs.

use causeway_agent::half::NotObserved;
use causeway_agent::kernel;
use causeway_api::uplink_state::DiscoveryReason;
use causeway_net::host_data::{InterfaceAddress, PciFunction};
use causeway_net::simulated;
use causeway_net::wire::Detection;
use causeway_netlink::sysfs::{DeviceId, Sysfs, SysfsError};
use causeway_netlink::{HardwareAddress, InterfaceName, Link, NetlinkStore, Snapshot, TABLE_MAIN};
use tracing::debug;

use super::plan::{AddressView, Families, InterfaceView, RouteView};

/// The host's eyes on its interfaces.
pub struct HostEyes {
    netlink: NetlinkStore,
    sysfs: Sysfs,
    families: Families,
    simulated: bool,
}

impl HostEyes {
    /// Looks through these stores. `simulated` takes a function's indices from the interface's name.
    #[must_use]
    pub fn new(netlink: NetlinkStore, sysfs: Sysfs, families: Families, simulated: bool) -> Self {
        Self { netlink, sysfs, families, simulated }
    }

    pub(crate) fn families(&self) -> &Families {
        &self.families
    }

    /// What there is to know about an interface; none if there is no interface of that name.
    ///
    /// # Errors
    /// The kernel's snapshot is not complete.
    pub(crate) fn view(&self, interface: &str) -> Result<Option<InterfaceView>, NotObserved> {
        let snapshot = kernel::current(&self.netlink).map_err(|why| NotObserved {
            reason: DiscoveryReason::GatewayInfoUnavailable,
            message: format!("failed to read host interface {interface}: {why}"),
        })?;
        // A name that the kernel cannot have is a name that no interface has.
        let Some(link) =
            interface.parse::<InterfaceName>().ok().and_then(|name| snapshot.links.by_name(&name))
        else {
            return Ok(None);
        };
        Ok(Some(InterfaceView {
            hardware_address: match &link.address {
                HardwareAddress::Absent => Vec::new(),
                HardwareAddress::Mac(mac) => mac.octets().to_vec(),
                HardwareAddress::Other(bytes) => bytes.to_vec(),
            },
            addresses: addresses(&snapshot, link),
            routes: routes(&snapshot, link),
            function: self.function(link),
            mtu: link.mtu,
            up: link.flags.is_up(),
            carrier: link.carrier,
        }))
    }

    /// The SR-IOV function behind an interface. That there is none, or that it cannot be told, is not an error: the card
    /// then finds the interface by its address.
    fn function(&self, link: &Link) -> Option<PciFunction> {
        if self.simulated {
            let (pf, vf) = simulated::function_of(link.name.as_str())?;
            return Some(PciFunction { pf, vf: Some(vf) });
        }
        match self.function_in_sysfs(&link.name) {
            Ok(function) => function,
            Err(error) => {
                debug!(iface = %link.name, error = %error, "PCI function of the interface cannot be told");
                None
            }
        }
    }

    /// Source: reference/uplinks-node.md 5.2.
    fn function_in_sysfs(&self, name: &InterfaceName) -> Result<Option<PciFunction>, SysfsError> {
        let Some(DeviceId::Pci(device)) = self.sysfs.device_of(name)? else { return Ok(None) };
        if let Some(physical) = self.sysfs.pf_of(device)? {
            let vf = self.sysfs.vf_index_of(device)?;
            return Ok(vf.map(|vf| PciFunction { pf: physical.function().into(), vf: Some(vf) }));
        }
        let capable = self.sysfs.is_pf_capable(device)?;
        Ok(capable.then(|| PciFunction { pf: device.function().into(), vf: None }))
    }
}

fn addresses(snapshot: &Snapshot, link: &Link) -> Vec<AddressView> {
    let of_link = snapshot.addresses.of(link.index).iter();
    of_link
        .map(|address| AddressView {
            address: InterfaceAddress { address: address.ip(), prefix: address.prefix.length() },
            secondary: address.flags.is_secondary_or_temporary(),
            deprecated: address.flags.is_deprecated(),
            label: address.label.as_deref().map(str::to_owned),
            detection: if address.flags.is_dad_failed() {
                Detection::Duplicate
            } else if address.flags.is_tentative() {
                Detection::Tentative
            } else {
                Detection::Settled
            },
        })
        .collect()
}

/// Routes over the link in the table that it uses: the kernel moves them when the link enters or leaves a VRF.
fn routes(snapshot: &Snapshot, link: &Link) -> Vec<RouteView> {
    let master = link.master.and_then(|master| snapshot.links.get(master));
    let table = master.and_then(|master| master.vrf_table()).unwrap_or(TABLE_MAIN);
    let of_table = snapshot.routes.through(link.index).filter(|route| route.key.table == table);
    of_table
        .flat_map(|route| {
            let destination = InterfaceAddress {
                address: route.key.destination.address(),
                prefix: route.key.destination.length(),
            };
            let hops = route.hops.as_slice().iter().filter(|hop| hop.link == Some(link.index));
            hops.map(move |hop| RouteView { destination, gateway: hop.gateway, metric: route.key.priority })
        })
        .collect()
}
