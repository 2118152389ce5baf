//! Hardware addresses: six-byte MACs and everything else the kernel has.

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// The address with these bytes, first on the wire first.
    #[must_use]
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The bytes, first on the wire first.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether a single station can have it: not multicast (bit 0 of the first byte), not all zero.
    #[must_use]
    pub const fn is_usable_unicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 == 0 && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }
}

/// Why a text is no MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a MAC address is six two-digit hexadecimal numbers joined by colons")]
pub struct MacAddressError;

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacAddressError)?;
            // from_str_radix alone would take "+f" and one digit.
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(MacAddressError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacAddressError)?;
        }
        if parts.next().is_some() { Err(MacAddressError) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_colon_hex(f, &self.0)
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The hardware address of a link, of whatever length its type has: none (tun), 4 bytes (GRE), 6 bytes, 16 bytes
/// (ip6gre), 20 bytes (InfiniBand).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HardwareAddress {
    /// No address at all.
    Absent,
    /// An Ethernet address.
    Mac(MacAddress),
    /// Any other length.
    Other(Box<[u8]>),
}

impl HardwareAddress {
    /// The address, if it is six bytes long, not multicast and not all zero.
    #[must_use]
    pub const fn usable_mac(&self) -> Option<MacAddress> {
        match self {
            Self::Mac(mac) if mac.is_usable_unicast() => Some(*mac),
            _ => None,
        }
    }

    /// Whether [`Self::usable_mac`] has an answer.
    #[must_use]
    pub const fn is_usable_unicast(&self) -> bool {
        self.usable_mac().is_some()
    }
}

impl From<&[u8]> for HardwareAddress {
    fn from(bytes: &[u8]) -> Self {
        match <[u8; 6]>::try_from(bytes) {
            Ok(mac) => Self::Mac(MacAddress(mac)),
            Err(_) if bytes.is_empty() => Self::Absent,
            Err(_) => Self::Other(bytes.into()),
        }
    }
}

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("none"),
            Self::Mac(mac) => mac.fmt(f),
            Self::Other(bytes) => write_colon_hex(f, bytes),
        }
    }
}

impl fmt::Debug for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_colon_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for (position, byte) in bytes.iter().enumerate() {
        if position > 0 {
            f.write_str(":")?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_six_full_bytes_of_hexadecimal_are_a_mac() {
        for (text, good) in [
            ("00:07:3d:f2:76:4a", true),
            ("00:07:3D:F2:76:4A", true),
            ("0:7:3d:f2:76:4a", false),
            ("+0:07:3d:f2:76:4a", false),
            ("00:07:3d:f2:76", false),
            ("00:07:3d:f2:76:4a:00", false),
            ("00-07-3d-f2-76-4a", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<MacAddress>().is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn only_a_six_byte_unicast_address_other_than_zero_is_usable() {
        for (bytes, usable) in [
            (vec![0x52, 0x54, 0, 0xd9, 0x20, 0x10], true),
            (vec![0, 0, 0, 0, 0, 1], true),
            (vec![0; 6], false),
            (vec![0x01, 0, 0x5e, 0, 0, 1], false),
            (vec![0xff; 6], false),
            (vec![], false),
            (vec![2, 0, 0, 1], false),
            (vec![2; 20], false),
        ] {
            assert_eq!(HardwareAddress::from(bytes.as_slice()).is_usable_unicast(), usable, "{bytes:02x?}");
        }
    }

    #[test]
    fn an_infiniband_address_is_shown_whole() {
        let address = HardwareAddress::from([0xa0; 20].as_slice());
        assert_eq!(address.to_string(), ["a0"; 20].join(":"));
    }

    proptest! {
        #[test]
        fn a_mac_survives_its_text(bytes: [u8; 6]) {
            let mac = MacAddress::new(bytes);
            prop_assert_eq!(mac.to_string().parse::<MacAddress>(), Ok(mac));
        }
    }
}
