//! What an agent and a reader of different versions may expect of each other. Pure.

use std::fmt;
use std::str::FromStr;

/// A version, as far as the rule looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Incompatible steps.
    pub major: u32,
    /// The steps that the rule counts.
    pub minor: u32,
}

/// A text that is not a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAVersion(pub String);

/// How far two versions are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// Same version, patches aside: both know the same fields.
    Same,
    /// One step apart: supported; the newer one's additions are missing.
    OneStep,
    /// Further apart, or another major version: what is shown may be incomplete, and nobody tests it.
    Unsupported,
}

impl FromStr for Version {
    type Err = NotAVersion;

    /// `major.minor.patch`, the patch with whatever follows it ignored.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let bad = || NotAVersion(text.to_owned());
        let mut parts = text.splitn(3, '.');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or_else(bad);
        let (major, minor) = (number()?, number()?);
        parts.next().map(|_| Self { major, minor }).ok_or_else(bad)
    }
}

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a version such as 0.1.0", self.0)
    }
}

impl std::error::Error for NotAVersion {}

/// How far `theirs` is from `ours`.
#[must_use]
pub fn between(ours: Version, theirs: Version) -> Skew {
    match (ours.major == theirs.major, ours.minor.abs_diff(theirs.minor)) {
        (true, 0) => Skew::Same,
        (true, 1) => Skew::OneStep,
        _ => Skew::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(ours: &str, theirs: &str) -> Skew {
        between(ours.parse().unwrap(), theirs.parse().unwrap())
    }

    #[test]
    fn one_minor_step_in_either_direction_is_supported() {
        assert_eq!(skew("0.1.0", "0.1.7"), Skew::Same);
        assert_eq!(skew("0.1.0", "0.2.0-rc.1"), Skew::OneStep);
        assert_eq!(skew("0.2.0", "0.1.0"), Skew::OneStep);
        assert_eq!(skew("0.3.0", "0.1.0"), Skew::Unsupported);
        assert_eq!(skew("1.0.0", "0.1.0"), Skew::Unsupported);
    }

    #[test]
    fn a_text_that_is_not_a_version_is_refused() {
        for text in ["", "1", "1.2", "a.b.c", "1.x.0"] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion(text.into())));
        }
    }
}
