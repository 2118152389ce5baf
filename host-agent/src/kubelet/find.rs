//! Where the kubelet's cgroup is, as the file system says now.
//!
//! In: the cgroup tree and `/proc`, both as arguments. Out: [`Found`], or the reason why there is none, word for word as
//! operators know it. Blocks; never writes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use causeway_runtime::settings::CgroupPath;
use nix::errno::Errno;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use super::process;

/// Name of the directory that is searched for. Source: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
const KUBELET_UNIT: &str = "kubelet.service";

/// What cgroups of pods begin with, whichever driver makes them. Source: Kubernetes, `pkg/kubelet/cm/node_container_manager`.
const PODS: &str = "kubepods";

/// Where to look.
#[derive(Clone, Debug)]
pub struct Places {
    /// Root of the cgroup tree.
    pub cgroups: PathBuf,
    /// Root of the process file system.
    pub processes: PathBuf,
    /// Tells whether a folder is the root of a tree of version 2.
    pub unified: fn(&Path) -> io::Result<bool>,
}

impl Default for Places {
    fn default() -> Self {
        Self { cgroups: "/sys/fs/cgroup".into(), processes: "/proc".into(), unified: is_unified }
    }
}

/// The kubelet's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path below the root.
    pub path: CgroupPath,
    /// The kernel's number of it, which is the directory's inode. A cgroup that is removed and made again has another.
    pub id: u64,
    /// How it was found.
    pub source: Source,
}

/// How a cgroup was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An option names it.
    Configured,
    /// A kubelet runs in it.
    Process,
    /// It was in use and is still there.
    Kept,
    /// It is called `kubelet.service`.
    Search,
}

impl Source {
    /// A word for people and programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Process => "process",
            Self::Kept => "kept",
            Self::Search => "search",
        }
    }
}

/// Why there is no cgroup. Source of the texts: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// Nothing to match on.
    #[error("the node uses cgroup v1")]
    VersionOne,
    /// Whether it is version 2 cannot be told.
    #[error("the cgroup tree at {} cannot be read: {error}", root.display())]
    Unreadable {
        /// Root of the tree.
        root: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The paths that are seen here are not those that the kernel counts levels in.
    #[error(
        "the cgroup tree at {} is mounted from {from:?}, outside of the agent's own cgroup namespace, where the kernel \
         would look at the wrong level; run the agent in the node's cgroup namespace",
        root.display()
    )]
    OtherNamespace {
        /// Root of the tree.
        root: PathBuf,
        /// What is mounted there, seen from this process's namespace.
        from: String,
    },
    /// What an option names is not there.
    #[error("configured kubelet cgroup path {:?} is not present under {}: {error}", path.as_str(), root.display())]
    ConfiguredAbsent {
        /// Root of the tree.
        root: PathBuf,
        /// The configured path.
        path: CgroupPath,
        /// Why.
        error: io::Error,
    },
    /// What an option names is a file.
    #[error("configured kubelet cgroup path {:?} under {} is not a cgroup directory", path.as_str(), root.display())]
    ConfiguredFile {
        /// Root of the tree.
        root: PathBuf,
        /// The configured path.
        path: CgroupPath,
    },
    /// No process and no directory of that name.
    #[error("no \"{KUBELET_UNIT}\" directory found under {}", .0.display())]
    Nowhere(PathBuf),
    /// The root cannot be listed.
    #[error("failed to walk {}: {error}", root.display())]
    Walk {
        /// Root of the tree.
        root: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Finds the kubelet's cgroup: the configured one and no other; else the one that a kubelet runs in; else `held`, if it
/// is still there, as while a kubelet is started again; else by name.
///
/// Differs from upstream: processes are looked at before names, which finds kubelets of distributions that call their
/// unit differently; and nothing below the pods' cgroups counts, where a tenant may choose names.
///
/// # Errors
/// What keeps the match from being used.
pub fn find(
    places: &Places,
    configured: Option<&CgroupPath>,
    held: Option<&Found>,
) -> Result<Found, NotFound> {
    let root = || places.cgroups.clone();
    match (places.unified)(&places.cgroups) {
        Ok(true) => {}
        Ok(false) => return Err(NotFound::VersionOne),
        Err(error) => return Err(NotFound::Unreadable { root: root(), error }),
    }
    if let Some(from) = foreign_mount(places) {
        return Err(NotFound::OtherNamespace { root: root(), from });
    }
    if let Some(path) = configured {
        return match directory(&places.cgroups, path) {
            Ok(Some(id)) => Ok(Found { path: path.clone(), id, source: Source::Configured }),
            Ok(None) => Err(NotFound::ConfiguredFile { root: root(), path: path.clone() }),
            Err(error) => Err(NotFound::ConfiguredAbsent { root: root(), path: path.clone(), error }),
        };
    }
    let there =
        |path: &CgroupPath| directory(&places.cgroups, path).ok().flatten().filter(|_| !is_of_pods(path));
    if let Some((path, id)) =
        process::kubelet(places, |path| there(path)).and_then(|path| Some((path.clone(), there(&path)?)))
    {
        return Ok(Found { path, id, source: Source::Process });
    }
    if let Some(held) = held.filter(|held| there(&held.path) == Some(held.id)) {
        return Ok(Found { source: Source::Kept, ..held.clone() });
    }
    let found = search(&places.cgroups).map_err(|error| NotFound::Walk { root: root(), error })?;
    let found = found.and_then(|path| Some((path.clone(), there(&path)?)));
    found
        .map(|(path, id)| Found { path, id, source: Source::Search })
        .ok_or_else(|| NotFound::Nowhere(root()))
}

/// Whether `folder` is called as the cgroups of pods are.
pub(super) fn is_pods_folder(folder: &str) -> bool {
    folder.starts_with(PODS)
}

fn is_of_pods(path: &CgroupPath) -> bool {
    path.as_str().split('/').any(is_pods_folder)
}

/// The number of a cgroup; `None` if there is something else in its place.
fn directory(root: &Path, path: &CgroupPath) -> io::Result<Option<u64>> {
    let metadata = fs::metadata(root.join(path.as_str()))?;
    Ok(metadata.is_dir().then(|| metadata.ino()))
}

/// The first directory called `kubelet.service`, in lexical order, each before what is in it.
fn search(root: &Path) -> io::Result<Option<CgroupPath>> {
    // The next one is at the end.
    let mut open: Vec<String> = folders(root)?.into_iter().rev().collect();
    while let Some(path) = open.pop() {
        let leaf = path.rsplit('/').next().unwrap_or_default();
        if leaf == KUBELET_UNIT {
            return Ok(path.parse().ok());
        }
        if is_pods_folder(leaf) {
            continue;
        }
        // What cannot be read, or is gone by now, holds nothing that could be used.
        let below = folders(&root.join(&path)).unwrap_or_default();
        open.extend(below.into_iter().rev().map(|name| format!("{path}/{name}")));
    }
    Ok(None)
}

/// Names of the directories in `folder`, in order. Names that are no text are left out: `nft` could not be given them.
pub(super) fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether the tree is one of version 2; a tree that is not mounted is not.
/// Source: cgroups(7); the magic number is of `include/uapi/linux/magic.h`.
fn is_unified(root: &Path) -> io::Result<bool> {
    match statfs(root) {
        Ok(found) => Ok(found.filesystem_type() == CGROUP2_SUPER_MAGIC),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What is mounted at the root of the tree, if that is not the root of this process's cgroup namespace.
///
/// The kernel counts the level of a match from the namespace of whoever loads the rule (`net/netfilter/nft_socket.c`,
/// since 6.11), while `nft` takes the path from this tree: where the two differ, the rule would match other cgroups.
fn foreign_mount(places: &Places) -> Option<String> {
    let mounts = fs::read_to_string(places.processes.join("self/mountinfo")).ok()?;
    mount_root(&mounts, &places.cgroups).filter(|from| from != "/")
}

/// The fourth field of the last cgroup2 mount at `at`, which lies over the others. Source: `proc_pid_mountinfo(5)`.
fn mount_root(mountinfo: &str, at: &Path) -> Option<String> {
    let root_of = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        (Path::new(mounted) == at && kind == "cgroup2").then(|| root.to_owned())
    };
    mountinfo.lines().rev().find_map(root_of)
}

#[cfg(test)]
mod tests;
