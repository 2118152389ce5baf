//! Cgroups of a rig: one folder in the cgroup v2 tree, by which all its processes can be found and killed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

/// Folder of all rigs in the cgroup v2 tree.
const PARENT: &str = "causeway-rig";
/// How long killed processes may take to leave their cgroups.
const LEAVE_DEADLINE: Duration = Duration::from_secs(5);
/// Time between two looks at a cgroup that is not empty yet.
const PAUSE: Duration = Duration::from_millis(5);

/// The cgroup of one rig. Not removed on drop: [`remove`](Self::remove) is part of the order of a teardown.
#[derive(Debug, Clone)]
pub(crate) struct RigCgroup {
    path: PathBuf,
}

impl RigCgroup {
    /// The cgroup of rig `id`, whether it exists or not.
    ///
    /// # Errors
    /// If no cgroup v2 tree is mounted.
    pub(crate) fn of(id: &str) -> anyhow::Result<Self> {
        Ok(Self { path: v2_mount()?.join(PARENT).join(id) })
    }

    pub(crate) fn create(&self) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.path).with_context(|| format!("making {}", self.path.display()))
    }

    /// Makes a child cgroup.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn child(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(path)
    }

    /// Kills everything in it and removes it. A cgroup that is not there is fine.
    ///
    /// # Errors
    /// If processes stay.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        remove(&self.path)
    }
}

/// Kills everything in the cgroup at `path` and removes it with all below.
///
/// # Errors
/// If processes stay.
pub(crate) fn remove(path: &Path) -> anyhow::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    // The kernel kills the whole subtree in one go, forks included. Refusals show below as a folder that stays.
    std::fs::write(path.join("cgroup.kill"), "1").ok();
    let start = Instant::now();
    loop {
        match remove_tree(path) {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > LEAVE_DEADLINE => {
                return Err(error).with_context(|| format!("removing cgroup {}", path.display()));
            }
            Err(_) => pause(),
        }
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[allow(clippy::disallowed_methods, reason = "teardown runs in drop, where nothing can be awaited")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Where the cgroup v2 tree is mounted: `/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` beside version 1.
fn v2_mount() -> anyhow::Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("reading /proc/self/mounts")?;
    find_v2(&mounts).ok_or_else(|| anyhow!("no cgroup v2 tree is mounted: mount one at /sys/fs/cgroup"))
}

fn find_v2(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let path = fields.next()?;
        (fields.next() == Some("cgroup2")).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v2_tree_is_found_beside_version_1() {
        let mounts =
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find_v2(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(find_v2("proc /proc proc rw 0 0\n"), None);
    }
}
