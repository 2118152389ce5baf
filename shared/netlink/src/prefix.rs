//! IP prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address family of routes, rules and addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address of this family.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The all-zero address of this family.
    #[must_use]
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// An address and how many of its leading bits count. Bits behind the length are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why something is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a prefix is an IP address, a slash and a length of at most 32 (IPv4) or 128 (IPv6)")]
pub struct PrefixError;

impl Prefix {
    /// The prefix of `length` bits.
    ///
    /// # Errors
    /// `length` exceeds the family's 32 or 128 bits.
    pub const fn new(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        if length > Family::of(address).bits() { Err(PrefixError) } else { Ok(Self { address, length }) }
    }

    /// The default route's prefix: zero bits.
    #[must_use]
    pub const fn everything(family: Family) -> Self {
        Self { address: family.unspecified(), length: 0 }
    }

    /// The address part.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// How many leading bits count.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Family of the address.
    #[must_use]
    pub const fn family(self) -> Family {
        Family::of(self.address)
    }

    /// Whether the prefix holds every address of its family.
    #[must_use]
    pub const fn is_everything(self) -> bool {
        self.length == 0
    }

    /// Whether `address` is of this family and equal in the bits that count.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let ignored = u32::from(self.family().bits() - self.length);
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(ignored).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(ignored).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, length) = text.split_once('/').ok_or(PrefixError)?;
        if !length.bytes().all(|c| c.is_ascii_digit()) {
            return Err(PrefixError);
        }
        Self::new(address.parse().map_err(|_| PrefixError)?, length.parse().map_err(|_| PrefixError)?)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_what_agrees_in_its_bits() {
        for (prefix, address, inside) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("::/0", "203.0.113.9", false),
            ("2001:db8::/127", "2001:db8::1", true),
            ("2001:db8::/128", "2001:db8::1", false),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert_eq!(prefix.contains(address.parse().unwrap()), inside, "{prefix} {address}");
        }
    }

    #[test]
    fn lengths_end_at_the_familys_bits() {
        for (text, good) in [
            ("1.2.3.4/32", true),
            ("1.2.3.4/33", false),
            ("::1/128", true),
            ("::1/129", false),
            ("::1", false),
            ("1.2.3.4/+8", false),
        ] {
            assert_eq!(text.parse::<Prefix>().is_ok(), good, "{text}");
        }
    }
}
