//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

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
    fn zero_multicast_and_other_lengths_do_not_identify_an_interface() {
        for bytes in [&[][..], &[0; 6], &[1, 0, 0x5e, 0, 0, 1], &[2; 20]] {
            assert_eq!(MacAddress::usable(bytes), None, "{bytes:?}");
        }
        assert!(MacAddress::usable(&[2, 0, 0, 0, 0, 1]).is_some());
    }
}
