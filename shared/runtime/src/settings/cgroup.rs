//! The path of a cgroup, as an option names it.

use std::fmt;
use std::str::FromStr;

/// A cgroup below the root of the tree: components joined by `/`, none of them empty, `.` or `..`, at least one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupPath(String);

/// Why a text names no cgroup below the root. Source: OVN-Kubernetes, option `kubelet-cgroup-path`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CgroupPathError {
    /// It could lead out of the tree.
    #[error("kubelet cgroup path {0:?} must not contain \"..\" elements")]
    LeadsUp(String),
    /// It names the root: every process is below it.
    #[error("kubelet cgroup path {0:?} must not be the cgroup root")]
    Root(String),
}

impl CgroupPath {
    /// The path without a leading `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How deep it lies: the number of its components. A cgroup right below the root has 1.
    #[must_use]
    pub fn level(&self) -> usize {
        self.0.split('/').count()
    }

    /// The last component.
    #[must_use]
    pub fn leaf(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl FromStr for CgroupPath {
    type Err = CgroupPathError;

    /// `..` is refused before anything is cleaned away, so that no text means another place than it seems to.
    fn from_str(text: &str) -> Result<Self, CgroupPathError> {
        if text.split('/').any(|component| component == "..") {
            return Err(CgroupPathError::LeadsUp(text.to_owned()));
        }
        let components: Vec<&str> =
            text.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
        if components.is_empty() {
            return Err(CgroupPathError::Root(text.to_owned()));
        }
        Ok(Self(components.join("/")))
    }
}

impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_cleaned_and_those_that_lead_up_or_name_the_root_are_refused() {
        for (text, want) in [
            ("podruntime/kubelet", Ok("podruntime/kubelet")),
            ("//podruntime/kubelet", Ok("podruntime/kubelet")),
            ("podruntime//kubelet", Ok("podruntime/kubelet")),
            ("podruntime/kubelet/", Ok("podruntime/kubelet")),
            ("./podruntime/./kubelet", Ok("podruntime/kubelet")),
            ("/kubelet.slice/kubelet.service", Ok("kubelet.slice/kubelet.service")),
            ("system.slice/a..b.service", Ok("system.slice/a..b.service")),
            ("/", Err("kubelet cgroup path \"/\" must not be the cgroup root")),
            (".", Err("kubelet cgroup path \".\" must not be the cgroup root")),
            ("//./", Err("kubelet cgroup path \"//./\" must not be the cgroup root")),
            (
                "kubelet.slice/../..",
                Err("kubelet cgroup path \"kubelet.slice/../..\" must not contain \"..\" elements"),
            ),
            ("../../etc", Err("kubelet cgroup path \"../../etc\" must not contain \"..\" elements")),
            ("..", Err("kubelet cgroup path \"..\" must not contain \"..\" elements")),
        ] {
            let got = text.parse::<CgroupPath>();
            let got = got.as_ref().map(CgroupPath::as_str).map_err(ToString::to_string);
            assert_eq!(got, want.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn the_level_counts_components_and_the_leaf_is_the_last() {
        for (text, level, leaf) in [
            ("kubelet", 1, "kubelet"),
            ("kubelet.slice/kubelet.service", 2, "kubelet.service"),
            ("runtime.slice/kubelet.slice/kubelet.service", 3, "kubelet.service"),
        ] {
            let path: CgroupPath = text.parse().unwrap();
            assert_eq!((path.level(), path.leaf()), (level, leaf), "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_taken_stays_the_same_when_read_again(text in "[a./]{0,12}") {
            if let Ok(path) = text.parse::<CgroupPath>() {
                prop_assert_eq!(path.as_str().parse::<CgroupPath>(), Ok(path.clone()));
                prop_assert!(path.as_str().split('/').all(|part| !matches!(part, "" | "." | "..")));
            }
        }
    }
}
