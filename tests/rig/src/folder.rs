//! The folder of one rig, who owns it, and what happens to folders whose owner is gone.
//!
//! A rig's folder holds `owner`, which its owner keeps locked (`flock`) for as long as it lives. The kernel drops the
//! lock with the process, however it dies, so a folder whose lock can be had is a leftover. Making, and looking for
//! leftovers, happen under one lock of the base folder: nobody sees a folder that is made but not locked yet.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};

use crate::cgroup::RigCgroup;

const OWNER: &str = "owner";
const LOCK: &str = ".lock";

/// A locked folder. [`Folder::remove`] deletes it; a plain drop leaves it to the next sweep.
#[derive(Debug)]
pub(crate) struct Folder {
    id: String,
    path: PathBuf,
    /// Held, not used.
    _owner: Flock<File>,
}

impl Folder {
    /// Makes a folder of a fresh name below `base`.
    ///
    /// # Errors
    /// If it cannot be made, or `base` lies on an overlay.
    pub(crate) fn create(base: &Path) -> anyhow::Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let _lock = lock_base(base)?;
        if statfs(base).context("looking at the file system")?.filesystem_type() == OVERLAYFS_SUPER_MAGIC {
            bail!(
                "{} lies on an overlay file system, where containers cannot be unpacked: set CAUSEWAY_RIG_DIR to a \
                 folder on a real disk",
                base.display()
            );
        }
        // Unique among the living by process id and counter, among leftovers by the time.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:x}-{}-{count}", time.as_millis(), std::process::id());
        let path = base.join(&id);
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        // Passwords of nobody, but tokens of a cluster's admin.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).context("closing the folder")?;
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path.join(OWNER));
        let file = file.context("making the owner file")?;
        let Some(mut owner) = try_lock(file)? else { bail!("somebody else owns {}", path.display()) };
        owner
            .rewind()
            .and_then(|()| write!(owner, "{}", std::process::id()))
            .context("writing the owner file")?;
        Ok(Self { id, path, _owner: owner })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the folder. Nothing may run in it any more.
    ///
    /// # Errors
    /// If something cannot be deleted; a later sweep tries again.
    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        delete(&self.path)
    }
}

/// A rig that somebody owns at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Living {
    /// Name of the rig.
    pub id: String,
    /// Its folder.
    pub path: PathBuf,
    /// Process that holds it, if the owner file can be read.
    pub owner: Option<i32>,
}

/// All rigs below `base` whose owner lives.
///
/// # Errors
/// If the folder cannot be read.
pub fn living(base: &Path) -> anyhow::Result<Vec<Living>> {
    let _lock = lock_base(base)?;
    let mut living = Vec::new();
    for (id, path) in folders(base)? {
        if adopt(&path)?.is_none() {
            let text = std::fs::read_to_string(path.join(OWNER)).unwrap_or_default();
            living.push(Living { id, path, owner: text.trim().parse().ok() });
        }
    }
    Ok(living)
}

/// Removes all that rigs without an owner left: processes, cgroups, folders. Their mounts went with their namespaces.
/// Returns the names of the removed.
///
/// # Errors
/// If something cannot be removed. The others are removed all the same.
pub fn sweep(base: &Path) -> anyhow::Result<Vec<String>> {
    let mut dead = Vec::new();
    {
        let _lock = lock_base(base)?;
        for (id, path) in folders(base)? {
            if let Some(owner) = adopt(&path)? {
                dead.push((id, path, owner));
            }
        }
    }
    // The locks of the dead are ours now: other sweeps and starts do not wait for the deleting.
    let mut removed = Vec::new();
    let mut failure = None;
    for (id, path, _owner) in dead {
        match RigCgroup::of(&id).and_then(|cgroup| cgroup.remove()).and_then(|()| delete(&path)) {
            Ok(()) => removed.push(id),
            Err(error) => failure = Some(error.context(format!("removing what rig {id} left"))),
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(removed),
    }
}

fn folders(base: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(base).with_context(|| format!("reading {}", base.display()))? {
        let entry = entry.context("reading the folder of rigs")?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    folders.sort();
    Ok(folders)
}

/// The lock of a folder that nobody owns, or none.
fn adopt(path: &Path) -> anyhow::Result<Option<Flock<File>>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(OWNER));
    match file {
        // Deleted between reading the list and now.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        file => try_lock(file.with_context(|| format!("opening the owner file in {}", path.display()))?),
    }
}

fn try_lock(file: File) -> anyhow::Result<Option<Flock<File>>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno).context("locking an owner file"),
    }
}

fn lock_base(base: &Path) -> anyhow::Result<Flock<File>> {
    std::fs::create_dir_all(base).with_context(|| format!("making {}", base.display()))?;
    let path = base.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| errno)
        .context("locking the folder of rigs")
}

/// Deletes all but the owner file first: a folder that is half deleted is still a leftover for the next sweep.
fn delete(path: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(path).with_context(|| format!("reading {}", path.display()))? {
        let entry = entry.context("reading a rig's folder")?;
        if entry.file_name() == OWNER {
            continue;
        }
        let (inner, is_dir) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let deleted = if is_dir { std::fs::remove_dir_all(&inner) } else { std::fs::remove_file(&inner) };
        deleted.with_context(|| format!("deleting {}", inner.display()))?;
    }
    std::fs::remove_dir_all(path).with_context(|| format!("deleting {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_folder_lives_and_an_abandoned_one_is_swept() {
        let base = tempfile::tempdir().unwrap();
        let kept = Folder::create(base.path()).unwrap();
        let left = Folder::create(base.path()).unwrap();
        std::fs::create_dir_all(left.path().join("deep/deeper")).unwrap();
        let (left_id, left_path) = (left.id().to_owned(), left.path().to_owned());
        drop(left);
        assert_eq!(sweep(base.path()).unwrap(), [left_id]);
        assert!(!left_path.exists() && kept.path().exists());
        let names: Vec<String> = living(base.path()).unwrap().into_iter().map(|rig| rig.id).collect();
        assert_eq!(names, [kept.id()]);
    }
}
