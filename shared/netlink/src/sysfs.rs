//! Facts that only sysfs has: which device is behind an interface, which function of which card that is.
//!
//! Reading only; what follows from the facts is decided elsewhere. Everything is read when asked for, never kept: the
//! files have no events. The calls block for microseconds, but a driver can make them slow: use them off the async
//! threads.
//!
//! Source of the rules: the sriovnet library as described in OVN-Kubernetes' vendored copy, and the kernel's
//! Documentation/ABI/testing/sysfs-class-net and sysfs-bus-pci.

mod device;
mod port_name;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

pub use device::{AuxDevice, DeviceId, PciAddress, UnrecognizedDevice};
pub use port_name::PortName;

use crate::mac::MacAddress;
use crate::name::InterfaceName;

/// Reads sysfs below a root, `/sys` on a machine. Tests give a made tree.
#[derive(Debug, Clone)]
pub struct Sysfs {
    root: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::new("/sys")
    }
}

/// A file is there but cannot be read. What is not there, or not supported by the device, is no error but `None`.
#[derive(Debug, thiserror::Error)]
#[error("reading {}", path.display())]
pub struct SysfsError {
    /// The file.
    pub path: PathBuf,
    /// What happened.
    #[source]
    pub source: io::Error,
}

impl Sysfs {
    /// A reader of the tree at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Identity of the switch that the interface is a port of, as text; `None` for an ordinary NIC.
    ///
    /// # Errors
    /// The file is there but unreadable.
    pub fn phys_switch_id(&self, netdev: &InterfaceName) -> Result<Option<Box<str>>, SysfsError> {
        text(&self.netdev(netdev).join("phys_switch_id"))
    }

    /// Whether the interface is a port of a switch: it has a non-empty `phys_switch_id`.
    ///
    /// # Errors
    /// The file is there but unreadable.
    pub fn is_switchdev(&self, netdev: &InterfaceName) -> Result<bool, SysfsError> {
        Ok(self.phys_switch_id(netdev)?.is_some())
    }

    /// Name of the port on its device, such as `p0` or `c1pf0vf7`.
    ///
    /// # Errors
    /// The file is there but unreadable.
    pub fn phys_port_name(&self, netdev: &InterfaceName) -> Result<Option<Box<str>>, SysfsError> {
        text(&self.netdev(netdev).join("phys_port_name"))
    }

    /// The device behind the interface: last element of the target of its `device` link. `None` for bridges and other
    /// software devices.
    ///
    /// # Errors
    /// The link is there but unreadable.
    pub fn device_of(&self, netdev: &InterfaceName) -> Result<Option<DeviceId>, SysfsError> {
        let target = link(&self.netdev(netdev).join("device"))?;
        Ok(target.as_deref().and_then(last).map(DeviceId::from))
    }

    /// The PCI function behind the interface, if it is one.
    ///
    /// # Errors
    /// The link is there but unreadable.
    pub fn pci_device_of(&self, netdev: &InterfaceName) -> Result<Option<PciAddress>, SysfsError> {
        match self.device_of(netdev)? {
            Some(DeviceId::Pci(address)) => Ok(Some(address)),
            _ => Ok(None),
        }
    }

    /// The physical function that a virtual one belongs to; `None` for anything that is no virtual function.
    ///
    /// # Errors
    /// The link is there but unreadable.
    pub fn pf_of(&self, function: PciAddress) -> Result<Option<PciAddress>, SysfsError> {
        let target = link(&self.pci(function).join("physfn"))?;
        Ok(target.as_deref().and_then(last).and_then(|name| name.parse().ok()))
    }

    /// Number of a virtual function on its physical one: N of the `physfn/virtfnN` that leads back to it.
    ///
    /// # Errors
    /// The directory or a link in it is there but unreadable.
    pub fn vf_index_of(&self, function: PciAddress) -> Result<Option<u32>, SysfsError> {
        let physical = self.pci(function).join("physfn");
        for entry in names(&physical)? {
            let Some(index) = entry.strip_prefix("virtfn").and_then(decimal) else { continue };
            let target = link(&physical.join(&entry))?;
            if target.as_deref().and_then(last).and_then(|name| name.parse().ok()) == Some(function) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Whether the function can have virtual functions: `sriov_totalvfs` exists, whatever it says.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn is_pf_capable(&self, function: PciAddress) -> Result<bool, SysfsError> {
        let path = self.pci(function).join("sriov_totalvfs");
        path.try_exists().map_err(|source| SysfsError { path, source })
    }

    /// The interfaces of a PCI function, by name: its own, and on a card in switchdev mode its representors.
    ///
    /// # Errors
    /// The directory is there but unreadable.
    pub fn netdevs_of_pci(&self, function: PciAddress) -> Result<Vec<InterfaceName>, SysfsError> {
        interfaces(&self.pci(function).join("net"))
    }

    /// The interfaces that share the interface's device, itself included, by name.
    ///
    /// # Errors
    /// The directory is there but unreadable.
    pub fn netdevs_beside(&self, netdev: &InterfaceName) -> Result<Vec<InterfaceName>, SysfsError> {
        interfaces(&self.netdev(netdev).join("device").join("net"))
    }

    /// All interfaces of the namespace that sysfs was mounted in, by name.
    ///
    /// # Errors
    /// The directory is there but unreadable.
    pub fn netdevs(&self) -> Result<Vec<InterfaceName>, SysfsError> {
        interfaces(&self.root.join("class/net"))
    }

    /// The PCI function that an auxiliary device (a subfunction) belongs to: the nearest element above it, in the
    /// target of its link, that is a PCI address. The walk ends at the top of that path.
    ///
    /// # Errors
    /// The link is there but unreadable.
    pub fn aux_parent_pci(&self, device: &AuxDevice) -> Result<Option<PciAddress>, SysfsError> {
        let Some(target) = link(&self.auxiliary(device))? else { return Ok(None) };
        Ok(target.iter().rev().find_map(|element| element.to_str()?.parse().ok()))
    }

    /// Number of a subfunction.
    ///
    /// # Errors
    /// The file is there but unreadable.
    pub fn sf_number(&self, device: &AuxDevice) -> Result<Option<u32>, SysfsError> {
        Ok(text(&self.auxiliary(device).join("sfnum"))?.as_deref().and_then(decimal))
    }

    /// The MAC that a BlueField card's own driver reports for the host's physical function, in the file
    /// `smart_nic/pf/config` of the physical port. `None` if it is not there or not usable.
    ///
    /// # Errors
    /// The file is there but unreadable.
    pub fn smart_nic_pf_mac(&self, physical_port: &InterfaceName) -> Result<Option<MacAddress>, SysfsError> {
        let config = text(&self.netdev(physical_port).join("smart_nic/pf/config"))?;
        Ok(config.as_deref().and_then(mac_in_config))
    }

    fn netdev(&self, name: &InterfaceName) -> PathBuf {
        self.root.join("class/net").join(name.as_str())
    }

    fn pci(&self, function: PciAddress) -> PathBuf {
        self.root.join("bus/pci/devices").join(function.to_string())
    }

    fn auxiliary(&self, device: &AuxDevice) -> PathBuf {
        self.root.join("bus/auxiliary/devices").join(device.as_str())
    }
}

/// The value of key `MAC` among lines `KEY : VALUE`.
fn mac_in_config(config: &str) -> Option<MacAddress> {
    let (_, value) =
        config.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == "MAC")?;
    value.trim().parse().ok().filter(|mac: &MacAddress| mac.is_usable_unicast())
}

/// A number as drivers write it: digits only.
fn decimal(text: &str) -> Option<u32> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Content of a file without white space around it; `None` if that leaves nothing, or there is no such file.
fn text(path: &Path) -> Result<Option<Box<str>>, SysfsError> {
    let content = present(path, std::fs::read(path))?;
    Ok(content.and_then(|bytes| match String::from_utf8_lossy(&bytes).trim() {
        "" => None,
        text => Some(text.into()),
    }))
}

fn link(path: &Path) -> Result<Option<PathBuf>, SysfsError> {
    present(path, std::fs::read_link(path))
}

fn last(target: &Path) -> Option<&str> {
    target.file_name().and_then(OsStr::to_str)
}

/// Names in a directory, sorted; none if there is no such directory.
fn names(path: &Path) -> Result<Vec<String>, SysfsError> {
    let Some(entries) = present(path, std::fs::read_dir(path))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| SysfsError { path: path.into(), source })?;
        names.extend(entry.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

fn interfaces(path: &Path) -> Result<Vec<InterfaceName>, SysfsError> {
    // What is no interface name is something else, such as the file `bonding_masters`' neighbours in other trees.
    Ok(names(path)?.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Tells "not there" and "the device cannot say" from a failure.
fn present<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>, SysfsError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(source) => match source.raw_os_error().map(Errno::from_raw) {
            // EINVAL: a link was asked for and a file is there, or the driver refuses; ENOTDIR: a part of the path is
            // a file; ENODEV: the device is on its way out.
            Some(Errno::ENOENT | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOTDIR | Errno::ENODEV) => {
                Ok(None)
            }
            _ => Err(SysfsError { path: path.into(), source }),
        },
    }
}

#[cfg(test)]
mod tests;
