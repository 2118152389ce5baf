//! Names of devices on their buses.

use std::fmt;
use std::str::FromStr;

/// Address of a PCI function, written `dddd:bb:ss.f` in lower-case hexadecimal digits, device number up to 1f, function
/// 0 to 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    slot: u8,
    function: u8,
}

/// Not the name of such a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a PCI function or auxiliary device")]
pub struct UnrecognizedDevice;

impl PciAddress {
    /// Function number, 0 to 7: which physical function of its card a physical function is.
    #[must_use]
    pub const fn function(self) -> u8 {
        self.function
    }
}

impl FromStr for PciAddress {
    type Err = UnrecognizedDevice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (domain, rest) = text.split_once(':').ok_or(UnrecognizedDevice)?;
        let (bus, rest) = rest.split_once(':').ok_or(UnrecognizedDevice)?;
        let (slot, function) = rest.split_once('.').ok_or(UnrecognizedDevice)?;
        let address = Self {
            domain: hex(domain, 4)?,
            bus: u8::try_from(hex(bus, 2)?).map_err(|_| UnrecognizedDevice)?,
            slot: u8::try_from(hex(slot, 2)?).map_err(|_| UnrecognizedDevice)?,
            function: u8::try_from(hex(function, 1)?).map_err(|_| UnrecognizedDevice)?,
        };
        if address.slot > 0x1f || address.function > 7 { Err(UnrecognizedDevice) } else { Ok(address) }
    }
}

/// Exactly `digits` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Result<u16, UnrecognizedDevice> {
    if text.len() != digits || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(UnrecognizedDevice);
    }
    u16::from_str_radix(text, 16).map_err(|_| UnrecognizedDevice)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.slot, self.function)
    }
}

impl fmt::Debug for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Name of a device on the auxiliary bus, `module.kind.number`, such as `mlx5_core.sf.3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuxDevice(Box<str>);

impl AuxDevice {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AuxDevice {
    type Err = UnrecognizedDevice;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_word =
            |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        let mut parts = text.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(module), Some(kind), Some(number), None)
                if is_word(module)
                    && is_word(kind)
                    && !number.is_empty()
                    && number.bytes().all(|c| c.is_ascii_digit()) =>
            {
                Ok(Self(text.into()))
            }
            _ => Err(UnrecognizedDevice),
        }
    }
}

impl fmt::Display for AuxDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AuxDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is behind an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceId {
    /// A PCI function.
    Pci(PciAddress),
    /// A device on the auxiliary bus: a subfunction.
    Auxiliary(AuxDevice),
    /// Anything else, such as `virtio3`.
    Other(Box<str>),
}

impl From<&str> for DeviceId {
    fn from(name: &str) -> Self {
        match (name.parse::<PciAddress>(), name.parse::<AuxDevice>()) {
            (Ok(address), _) => Self::Pci(address),
            (_, Ok(device)) => Self::Auxiliary(device),
            _ => Self::Other(name.into()),
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(address) => address.fmt(f),
            Self::Auxiliary(device) => device.fmt(f),
            Self::Other(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pci_addresses_are_lower_case_with_a_device_below_32_and_a_function_below_8() {
        for (text, good) in [
            ("1234:00:00.1", true),
            ("0000:03:1f.7", true),
            ("beef:00:00.0", true),
            ("BEEF:00:00.0", false),
            ("0000:jj:00.0", false),
            ("0000:00:23.0", false),
            ("0000:00:00.f", false),
            ("0000:00:00.8", false),
            ("000:00:00.0", false),
            ("0000:00:00.00", false),
            ("0000:00:00", false),
            ("virtio3", false),
            ("", false),
        ] {
            let parsed = text.parse::<PciAddress>();
            assert_eq!(parsed.is_ok(), good, "{text:?}");
            if let Ok(address) = parsed {
                assert_eq!(address.to_string(), text);
            }
        }
        assert_eq!("0000:03:00.1".parse::<PciAddress>().map(PciAddress::function), Ok(1));
    }

    #[test]
    fn auxiliary_names_are_two_words_and_a_number() {
        for (text, good) in [
            ("foo.bar.15", true),
            ("mlx5_core.sf.3", true),
            ("not-a.driver.1", false),
            ("wrong.device-type.1", false),
            ("wrong.device.id", false),
            ("abc_def_1", false),
            ("a.b.1.2", false),
            ("a..1", false),
        ] {
            assert_eq!(text.parse::<AuxDevice>().is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn a_device_is_told_by_its_name() {
        assert!(matches!(DeviceId::from("0000:03:00.0"), DeviceId::Pci(_)));
        assert!(matches!(DeviceId::from("mlx5_core.sf.3"), DeviceId::Auxiliary(_)));
        assert_eq!(DeviceId::from("virtio3"), DeviceId::Other("virtio3".into()));
    }

    proptest! {
        #[test]
        fn what_parses_is_written_the_same(text in "[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]") {
            prop_assert_eq!(text.parse::<PciAddress>().map(|address| address.to_string()), Ok(text));
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            prop_assert_eq!(DeviceId::from(text.as_str()).to_string(), text);
        }
    }
}
