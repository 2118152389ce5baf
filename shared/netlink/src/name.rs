//! How interfaces are named: number and name.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Number of an interface within its network namespace. Never zero; the kernel may use a number again later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfIndex(NonZeroU32);

impl IfIndex {
    /// The index, or `None` for 0, which the kernel uses to say "no interface".
    #[must_use]
    pub const fn new(index: u32) -> Option<Self> {
        match NonZeroU32::new(index) {
            Some(index) => Some(Self(index)),
            None => None,
        }
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The lowest index there can be; start of range scans.
    pub(crate) const MIN: Self = Self(NonZeroU32::MIN);
}

impl fmt::Display for IfIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for IfIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Longest interface name, in bytes. Source: linux/if.h, `IFNAMSIZ` less its NUL.
const MAX_LEN: usize = 15;

/// Name of an interface as the kernel accepts it: 1 to 15 bytes, no white space, `/` or `:`, not `.` or `..`.
/// Source: `dev_valid_name` in net/core/dev.c.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName {
    // Padded with zeros; compared before `len`, so the order is that of the text.
    bytes: [u8; MAX_LEN],
    len: u8,
}

/// Why a text is no interface name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceNameError {
    /// Nothing, `.` or `..`.
    #[error("interface name is empty, `.` or `..`")]
    Reserved,
    /// More than 15 bytes.
    #[error("interface name is {0} bytes long, at most {MAX_LEN} are allowed")]
    TooLong(usize),
    /// A character that the kernel refuses.
    #[error("interface name contains {0:?}")]
    Character(char),
}

impl InterfaceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Every constructor starts from a `str`, so the fallback is never taken.
        self.bytes
            .get(..usize::from(self.len))
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// A name the kernel gave. Bytes that are not UTF-8 are kept as `?`, so such a link is visible but not addressable.
    pub(crate) fn from_kernel(bytes: &[u8]) -> Result<Self, InterfaceNameError> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let bytes = bytes.get(..end).unwrap_or_default();
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(std::iter::repeat_n('?', chunk.invalid().len()));
        }
        text.parse()
    }
}

impl FromStr for InterfaceName {
    type Err = InterfaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if matches!(text, "" | "." | "..") {
            return Err(InterfaceNameError::Reserved);
        }
        if let Some(bad) = text.chars().find(|c| matches!(c, '/' | ':' | '\0') || is_kernel_space(*c)) {
            return Err(InterfaceNameError::Character(bad));
        }
        let mut bytes = [0; MAX_LEN];
        let Some(place) = bytes.get_mut(..text.len()) else {
            return Err(InterfaceNameError::TooLong(text.len()));
        };
        place.copy_from_slice(text.as_bytes());
        let len = u8::try_from(text.len()).map_err(|_| InterfaceNameError::TooLong(text.len()))?;
        Ok(Self { bytes, len })
    }
}

/// White space as the kernel's `isspace` sees it, for the characters below 0x80.
const fn is_kernel_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

impl TryFrom<&str> for InterfaceName {
    type Error = InterfaceNameError;

    fn try_from(text: &str) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl AsRef<str> for InterfaceName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_kernels_rule_at_its_edges() {
        for (text, want) in [
            ("eth0", None),
            ("a", None),
            ("exactly-15-byte", None),
            ("sixteen-byte-is!", Some(InterfaceNameError::TooLong(16))),
            ("", Some(InterfaceNameError::Reserved)),
            (".", Some(InterfaceNameError::Reserved)),
            ("..", Some(InterfaceNameError::Reserved)),
            ("...", None),
            ("a/b", Some(InterfaceNameError::Character('/'))),
            ("a:1", Some(InterfaceNameError::Character(':'))),
            ("a b", Some(InterfaceNameError::Character(' '))),
            ("a\u{b}b", Some(InterfaceNameError::Character('\u{b}'))),
        ] {
            let got = text.parse::<InterfaceName>();
            assert_eq!(got.as_ref().err().copied(), want, "{text:?}");
            if let Ok(name) = got {
                assert_eq!(name.as_str(), text);
            }
        }
    }

    #[test]
    fn names_sort_as_text() {
        let mut names: Vec<InterfaceName> = ["eth10", "eth", "eth1"].map(|n| n.parse().unwrap()).to_vec();
        names.sort();
        assert_eq!(names.iter().map(InterfaceName::as_str).collect::<Vec<_>>(), ["eth", "eth1", "eth10"]);
    }

    #[test]
    fn a_kernel_name_that_is_not_utf8_stays_visible() {
        assert_eq!(InterfaceName::from_kernel(b"e\xffth\0junk").unwrap().as_str(), "e?th");
    }
}
