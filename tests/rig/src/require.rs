//! What each level of tests needs, and whether it is there.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nix::unistd::Uid;

use crate::settings::Settings;

/// How much is real in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing outside the process.
    Unit,
    /// etcd, kube-apiserver, kube-controller-manager, kubectl.
    Api,
    /// OVS, OVN and nftables inside namespaces, with the API server.
    Switch,
    /// Nodes with kubelet and containerd.
    Cluster,
    /// A booted User Mode Linux kernel.
    Kernel,
}

impl Level {
    /// All levels, the cheapest first.
    pub const ALL: [Self; 5] = [Self::Unit, Self::Api, Self::Switch, Self::Cluster, Self::Kernel];

    /// The word used in names of files and in `CAUSEWAY_REQUIRE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Api => "api",
            Self::Switch => "switch",
            Self::Cluster => "cluster",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// A word that names no level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no test level \"{}\" (known: unit, api, switch, cluster, kernel)", self.0)
    }
}

impl std::error::Error for UnknownLevel {}

/// Why a level cannot run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// Namespaces and mounts need root.
    Root,
    /// A part that the set-up builds is not there.
    Part(PathBuf),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("not root"),
            Self::Part(path) => write!(f, "{} is missing, run tests/setup", path.display()),
        }
    }
}

impl std::error::Error for Missing {}

/// Checks that everything `level` needs is on this machine.
///
/// # Errors
/// The first thing that is missing.
pub fn require(level: Level, settings: &Settings) -> Result<(), Missing> {
    if level != Level::Unit && !Uid::effective().is_root() {
        return Err(Missing::Root);
    }
    // Links in the Debian tree are absolute and lead nowhere out here: what they lead to is not looked at.
    match parts(level, settings).into_iter().find(|path| path.symlink_metadata().is_err()) {
        Some(path) => Err(Missing::Part(path)),
        None => Ok(()),
    }
}

fn parts(level: Level, settings: &Settings) -> Vec<PathBuf> {
    if level == Level::Unit {
        return Vec::new();
    }
    let (root, kube) = (settings.rootfs(), settings.kube());
    let mut parts = vec![
        root.join("usr/bin/etcd"),
        kube.join("kube-apiserver"),
        kube.join("kube-controller-manager"),
        kube.join("kubectl"),
    ];
    match level {
        Level::Unit | Level::Api => {}
        Level::Switch => parts.push(root.join("usr/sbin/ovs-vswitchd")),
        Level::Cluster => parts.extend([
            root.join("usr/sbin/ovs-vswitchd"),
            root.join("usr/bin/containerd"),
            kube.join("kubelet"),
            kube.join("kube-scheduler"),
            settings.tools().join("runc-nores"),
            settings.images().join("pause.tar"),
            settings.images().join("busybox.tar"),
        ]),
        Level::Kernel => parts.push(settings.uml()),
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_found_by_its_name_and_other_words_are_refused() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("node".parse::<Level>().is_err());
    }

    #[test]
    fn a_missing_part_is_named_and_units_need_nothing() {
        let settings =
            Settings { cache: "/nowhere".into(), base: "/nowhere".into(), required: Vec::new(), tally: None };
        assert_eq!(require(Level::Unit, &settings), Ok(()));
        if Uid::effective().is_root() {
            let missing = Missing::Part("/nowhere/rootfs/usr/bin/etcd".into());
            assert_eq!(require(Level::Api, &settings), Err(missing));
        } else {
            assert_eq!(require(Level::Api, &settings), Err(Missing::Root));
        }
    }
}
