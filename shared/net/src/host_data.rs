//! What the host's side knows of an Uplink's interface, and how the card reads it back from the state.

use std::fmt;
use std::net::{AddrParseError, IpAddr};
use std::str::FromStr;

use causeway_api::uplink_state::{HostFunction, UplinkStateStatus};

use crate::mac::{BadMac, MacAddress};

/// The gateway identity of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostData {
    /// The interface's MAC address.
    pub mac: MacAddress,
    /// Addresses, at most one of each family that the cluster uses.
    pub addresses: Vec<InterfaceAddress>,
    /// Next hops of the default routes over the interface, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// The SR-IOV function behind the interface, where it is one.
    pub function: Option<PciFunction>,
}

/// An address with the length of its network's prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Prefix length, at most 32 or 128.
    pub prefix: u8,
}

/// A text that is not an address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid CIDR address: {0}")]
pub struct BadCidr(pub String);

impl fmt::Display for InterfaceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for InterfaceAddress {
    type Err = BadCidr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadCidr(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_: AddrParseError| bad())?;
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = digits.then(|| prefix.parse().ok()).flatten().ok_or_else(bad)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then_some(Self { address, prefix }).ok_or_else(bad)
    }
}

/// A PCI function by the indices that representors are named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciFunction {
    /// Index of the physical function.
    pub pf: u32,
    /// Index of the virtual function on it, none for the physical function itself.
    pub vf: Option<u32>,
}

impl fmt::Display for PciFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pf{}", self.pf)?;
        self.vf.map_or(Ok(()), |vf| write!(f, "vf{vf}"))
    }
}

impl PciFunction {
    /// From the state's field; none if an index is negative, which the schema refuses.
    #[must_use]
    pub fn from_wire(wire: HostFunction) -> Option<Self> {
        let vf = wire.vf_id.map(u32::try_from).transpose().ok()?;
        Some(Self { pf: u32::try_from(wire.pf_id).ok()?, vf })
    }

    /// For the state's field; none if an index is larger than the schema allows.
    #[must_use]
    pub fn to_wire(self) -> Option<HostFunction> {
        let vf_id = self.vf.map(i32::try_from).transpose().ok()?;
        Some(HostFunction { pf_id: i32::try_from(self.pf).ok()?, vf_id })
    }
}

/// Why the card cannot use what the state says about the host. All of them are reported as `WaitingForDPUHost`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitingForHost {
    /// The host has not published the interface that the Uplink names now.
    #[error("waiting for DPU-host state for interface {0}")]
    State(String),
    /// No MAC address, or not one.
    #[error("waiting for DPU-host MAC address for interface {interface}: {cause}")]
    Mac {
        /// Interface named by the Uplink.
        interface: String,
        /// What is wrong with it.
        cause: BadMac,
    },
    /// An address that is not one.
    #[error("failed to parse DPU-host IP address {text:?}: {cause}")]
    Address {
        /// The text found.
        text: String,
        /// What is wrong with it.
        cause: BadCidr,
    },
    /// No address at all.
    #[error("waiting for DPU-host IP addresses for interface {0}")]
    Addresses(String),
    /// A gateway that is not an address.
    #[error("failed to parse DPU-host default gateway {0:?}")]
    Gateway(String),
}

impl HostData {
    /// Reads what the host published, in the order of upstream's card. The host's condition is not
    /// consulted: the data is there or it is not.
    ///
    /// # Errors
    /// The first thing that is missing or unreadable.
    pub fn from_status(status: &UplinkStateStatus, interface: &str) -> Result<Self, WaitingForHost> {
        if status.host_interface_name.as_deref() != Some(interface) {
            return Err(WaitingForHost::State(interface.to_owned()));
        }
        let mac = status.mac_address.as_deref().unwrap_or_default().parse();
        let mac = mac.map_err(|cause| WaitingForHost::Mac { interface: interface.to_owned(), cause })?;
        let mut addresses = Vec::new();
        for text in &status.ip_addresses {
            let address = text.parse();
            addresses.push(address.map_err(|cause| WaitingForHost::Address { text: text.clone(), cause })?);
        }
        if addresses.is_empty() {
            return Err(WaitingForHost::Addresses(interface.to_owned()));
        }
        let mut gateways = Vec::new();
        for text in &status.default_gateways {
            gateways.push(text.parse().map_err(|_: AddrParseError| WaitingForHost::Gateway(text.clone()))?);
        }
        let function = status.host_function.and_then(PciFunction::from_wire);
        Ok(Self { mac, addresses, gateways, function })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> UplinkStateStatus {
        UplinkStateStatus {
            host_interface_name: Some("eth0-16".into()),
            mac_address: Some("52:54:00:d9:20:10".into()),
            ip_addresses: vec!["172.31.0.10/24".into(), "fd00::10/64".into()],
            default_gateways: vec!["172.31.0.1".into()],
            host_function: Some(HostFunction { pf_id: 0, vf_id: Some(16) }),
            ..UplinkStateStatus::default()
        }
    }

    #[test]
    fn what_the_host_published_reads_back() {
        let data = HostData::from_status(&published(), "eth0-16").unwrap();
        assert_eq!(data.mac.to_string(), "52:54:00:d9:20:10");
        assert_eq!(
            data.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            published().ip_addresses
        );
        assert_eq!(data.gateways, ["172.31.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(data.function.unwrap().to_string(), "pf0vf16");
    }

    #[test]
    fn the_first_thing_that_is_missing_is_what_the_card_waits_for() {
        type Change = fn(&mut UplinkStateStatus);
        let cases: &[(Change, &str)] = &[
            (
                |s| s.host_interface_name = Some("eth0".into()),
                "waiting for DPU-host state for interface eth0-16",
            ),
            (|s| s.host_interface_name = None, "waiting for DPU-host state for interface eth0-16"),
            (
                |s| s.mac_address = None,
                "waiting for DPU-host MAC address for interface eth0-16: address : invalid MAC address",
            ),
            (
                |s| s.ip_addresses = vec!["192.0.2.1".into()],
                r#"failed to parse DPU-host IP address "192.0.2.1": invalid CIDR address: 192.0.2.1"#,
            ),
            (|s| s.ip_addresses = vec![], "waiting for DPU-host IP addresses for interface eth0-16"),
            (|s| s.default_gateways = vec!["gw".into()], r#"failed to parse DPU-host default gateway "gw""#),
        ];
        for (change, text) in cases {
            let mut status = published();
            change(&mut status);
            assert_eq!(HostData::from_status(&status, "eth0-16").unwrap_err().to_string(), *text);
        }
    }

    #[test]
    fn a_missing_gateway_or_function_is_legal() {
        let mut status = published();
        (status.default_gateways, status.host_function) = (vec![], None);
        let data = HostData::from_status(&status, "eth0-16").unwrap();
        assert!(data.gateways.is_empty() && data.function.is_none());
    }

    #[test]
    fn addresses_need_a_prefix_of_their_family() {
        for text in ["192.0.2.1/33", "fd00::1/129", "192.0.2.1/", "192.0.2.1/+8", "x/24", "192.0.2.1"] {
            assert_eq!(text.parse::<InterfaceAddress>(), Err(BadCidr(text.into())), "{text}");
        }
        assert_eq!("FD00::0:1/64".parse::<InterfaceAddress>().unwrap().to_string(), "fd00::1/64");
    }

    #[test]
    fn a_negative_index_is_not_a_function() {
        assert_eq!(PciFunction::from_wire(HostFunction { pf_id: -1, vf_id: None }), None);
        assert_eq!(PciFunction::from_wire(HostFunction { pf_id: 0, vf_id: Some(-1) }), None);
    }
}
