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
        match function_in_sysfs(&self.sysfs, &link.name) {
            Ok(function) => function,
            Err(error) => {
                debug!(iface = %link.name, error = %error, "PCI function of the interface cannot be told");
                None
            }
        }
    }
}

/// The SR-IOV function behind an interface. Source: OVN-Kubernetes, `pkg/util/sriovnet_linux.go`.
fn function_in_sysfs(sysfs: &Sysfs, name: &InterfaceName) -> Result<Option<PciFunction>, SysfsError> {
    let Some(DeviceId::Pci(device)) = sysfs.device_of(name)? else { return Ok(None) };
    if let Some(physical) = sysfs.pf_of(device)? {
        let vf = sysfs.vf_index_of(device)?;
        return Ok(vf.map(|vf| PciFunction { pf: physical.function().into(), vf: Some(vf) }));
    }
    let capable = sysfs.is_pf_capable(device)?;
    Ok(capable.then(|| PciFunction { pf: device.function().into(), vf: None }))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    /// Makes links (`path -> target`) and files below a root; folders come with them.
    fn tree(entries: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for entry in entries {
            let (path, target) = entry.split_once(" -> ").unwrap_or((entry, ""));
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if target.is_empty() {
                std::fs::write(path, "8").unwrap();
            } else {
                symlink(target, path).unwrap();
            }
        }
        root
    }

    fn function(root: &Path, name: &str) -> Option<String> {
        let found = function_in_sysfs(&Sysfs::new(root), &name.parse().unwrap()).unwrap();
        found.map(|function| function.to_string())
    }

    #[tokio::test]
    async fn interfaces_that_were_not_read_are_not_taken_for_absent() {
        // Its task does not run: nothing is ever read.
        let (netlink, _task) = NetlinkStore::open().unwrap();
        assert_eq!(netlink.last_event(), None);
        let families = Families { ipv4: true, ipv6: false, masquerade: Vec::new() };
        let eyes = HostEyes::new(netlink, Sysfs::new("/nowhere"), families, false);
        for interface in ["lo", "absent0"] {
            let missed = eyes.view(interface).unwrap_err();
            assert_eq!(missed.reason, DiscoveryReason::GatewayInfoUnavailable);
            let why = "the kernel's interfaces are still being read";
            assert_eq!(missed.message, format!("failed to read host interface {interface}: {why}"));
        }
    }

    #[test]
    fn functions_of_the_hosts_fixtures_are_told() {
        let root = tree(&[
            "class/net/ens1f0v7/device -> ../../../0000:03:01.1",
            "bus/pci/devices/0000:03:01.1/physfn -> ../0000:03:00.0",
            "bus/pci/devices/0000:03:00.0/virtfn7 -> ../0000:03:01.1",
            "class/net/enp4s0f1/device -> ../../../0000:03:00.1",
            "bus/pci/devices/0000:03:00.1/sriov_totalvfs",
            "class/net/plain/device -> ../../../0000:05:00.0",
            "bus/pci/devices/0000:05:00.0/vendor",
            "class/net/virtio/device -> ../../../virtio3",
            "class/net/sf1/device -> ../../../mlx5_core.sf.3",
            "class/net/bridge0/mtu",
        ]);
        let cases = [
            ("ens1f0v7", Some("pf0vf7")),
            ("enp4s0f1", Some("pf1")),
            ("plain", None),
            ("virtio", None),
            ("sf1", None),
            ("bridge0", None),
            ("absent", None),
        ];
        for (name, want) in cases {
            assert_eq!(function(root.path(), name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn indices_are_read_from_the_links_and_not_counted() {
        let root = tree(&[
            "class/net/v/device -> ../../../0000:03:01.1",
            "bus/pci/devices/0000:03:01.1/physfn -> ../0000:03:00.0",
            "bus/pci/devices/0000:03:00.0/virtfn0 -> ../0000:03:00.2",
            "bus/pci/devices/0000:03:00.0/virtfn7 -> ../0000:03:01.1",
        ]);
        assert_eq!(function(root.path(), "v").as_deref(), Some("pf0vf7"));
    }
}
