//! Ethernet addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// An Ethernet address of six bytes; written in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

/// A text that is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {0}: invalid MAC address")]
pub struct BadMac(pub String);

impl MacAddress {
    /// From six bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The address of an interface, if it can identify one: exactly six bytes, not multicast, not all zero.
    ///
    /// Zero means "not set" wherever a driver reports an address, so it is never equal to anything.
    #[must_use]
    pub fn usable(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 6] = bytes.try_into().ok()?;
        let multicast = bytes[0] & 1 == 1;
        (!multicast && bytes != [0; 6]).then_some(Self(bytes))
    }

    /// The address of a port whose first IP address this is: `0a:58` and the four bytes of an IPv4 address, or the first
    /// four of the SHA-256 of an IPv6 address's canonical text. Source: ovn-kubernetes `util.IPAddrToHWAddr`.
    #[must_use]
    pub fn of_ip(address: IpAddr) -> Self {
        let [a, b, c, d] = match address {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => {
                let digest: [u8; 32] = Sha256::digest(address.to_string()).into();
                let [a, b, c, d, ..] = digest;
                [a, b, c, d]
            }
        };
        Self([0x0a, 0x58, a, b, c, d])
    }

    /// The link-local address that an interface with this address makes itself: `fe80::/64` and the modified EUI-64.
    /// Source: RFC 4291, appendix A.
    #[must_use]
    pub fn link_local(self) -> Ipv6Addr {
        let [first, second, third, rest @ ..] = self.0.map(u16::from);
        let [fourth, fifth, sixth] = rest;
        let halves =
            [(first ^ 0x02) << 8 | second, third << 8 | 0xff, 0xfe << 8 | fourth, fifth << 8 | sixth];
        let [one, two, three, four] = halves;
        Ipv6Addr::new(0xfe80, 0, 0, 0, one, two, three, four)
    }

    /// The six bytes.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if position == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || BadMac(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            // Two hex digits exactly: from_str_radix alone would also take a sign.
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()));
            *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(bad)?;
        }
        parts.next().is_none().then_some(Self(bytes)).ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_either_case_reads_and_lower_case_is_written() {
        assert_eq!("02:42:AC:1c:00:02".parse::<MacAddress>().unwrap().to_string(), "02:42:ac:1c:00:02");
    }

    #[test]
    fn anything_but_six_pairs_of_hex_digits_is_refused() {
        for text in [
            "",
            "02:42:ac:1c:00",
            "02:42:ac:1c:00:02:03",
            "2:42:ac:1c:00:02",
            "+2:42:ac:1c:00:02",
            "0g:42:ac:1c:00:02",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(BadMac(text.into())), "{text:?}");
        }
    }

    #[test]
    fn addresses_of_ports_equal_the_published_ones() {
        for (ip, mac) in [
            ("203.203.2.5", "0a:58:cb:cb:02:05"),
            ("2010:100:200::3", "0a:58:75:c0:87:92"),
            ("fd99::4", "0a:58:29:37:8e:56"),
            ("fd12:1234::3", "0a:58:81:e8:aa:4c"),
        ] {
            assert_eq!(MacAddress::of_ip(ip.parse().unwrap()).to_string(), mac, "{ip}");
        }
        let port: MacAddress = "0a:58:64:41:00:04".parse().unwrap();
        assert_eq!(port.link_local().to_string(), "fe80::858:64ff:fe41:4");
    }

    #[test]
    fn zero_multicast_and_other_lengths_do_not_identify_an_interface() {
        for bytes in [&[][..], &[0; 6], &[1, 0, 0x5e, 0, 0, 1], &[2; 20]] {
            assert_eq!(MacAddress::usable(bytes), None, "{bytes:?}");
        }
        assert!(MacAddress::usable(&[2, 0, 0, 0, 0, 1]).is_some());
    }
}
