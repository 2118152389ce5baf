//! Directories under watch: tells when one appears, goes or is put in another's place.
//!
//! In: which directories, and which names in them count ([`Watched`]). Out: *look again*. Works for cgroups too, which are
//! made and removed by `mkdir(2)` and `rmdir(2)`. Never says what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use causeway_runtime::settings::CgroupPath;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use super::find::{folders, is_pods_folder};

/// How deep the tree is watched while the kubelet's cgroup is not known: units lie in slices, which lie in the root.
const DEPTH: usize = 2;

/// How many directories are watched at most for that; the kernel has a limit for the whole machine.
const MOST: usize = 512;

/// Names that count in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// These.
    These(BTreeSet<String>),
    /// Each directory.
    All,
}

/// Directories to watch.
pub(super) type Watched = BTreeMap<PathBuf, Names>;

/// What to watch so that a change of `target` is noticed: each directory on the way to it, for the next name on the way.
pub(super) fn way_to(root: &Path, target: &CgroupPath) -> Watched {
    let mut watched = Watched::new();
    let mut folder = root.to_owned();
    for name in target.as_str().split('/') {
        watched.insert(folder.clone(), Names::These(BTreeSet::from([name.to_owned()])));
        folder.push(name);
    }
    watched
}

/// What to watch so that a new unit is noticed, wherever it is: the upper part of the tree without the pods' cgroups.
pub(super) fn upper_part(root: &Path) -> Watched {
    let mut watched = Watched::from([(root.to_owned(), Names::All)]);
    let mut level = vec![root.to_owned()];
    for _ in 1..=DEPTH {
        let mut next = Vec::new();
        for folder in level {
            // What is gone by now is told by the directory above.
            for name in folders(&folder).unwrap_or_default() {
                if watched.len() < MOST && !is_pods_folder(&name) {
                    let path = folder.join(name);
                    watched.insert(path.clone(), Names::All);
                    next.push(path);
                }
            }
        }
        level = next;
    }
    watched
}

/// Both: a directory of which everything counts has no need of names.
pub(super) fn joined(mut left: Watched, right: Watched) -> Watched {
    for (folder, names) in right {
        match (left.get_mut(&folder), names) {
            (Some(Names::These(ours)), Names::These(theirs)) => ours.extend(theirs),
            (Some(ours), Names::All) => *ours = Names::All,
            (Some(Names::All), Names::These(_)) => {}
            (None, names) => drop(left.insert(folder, names)),
        }
    }
    left
}

/// The watches.
#[derive(Debug)]
pub(super) struct Eyes {
    instance: AsyncFd<Instance>,
    watches: BTreeMap<PathBuf, Watch>,
}

#[derive(Debug)]
struct Instance(Inotify);

#[derive(Debug)]
struct Watch {
    descriptor: WatchDescriptor,
    names: Names,
}

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Eyes {
    /// Opens them, on nothing.
    ///
    /// # Errors
    /// Mostly `EMFILE`: the user has as many as the kernel allows (`fs.inotify.max_user_instances`).
    pub(super) fn open() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; `Instance` owns its descriptor and never changes it"
        )]
        let instance = AsyncFd::new(Instance(inotify))?;
        Ok(Self { instance, watches: BTreeMap::new() })
    }

    /// Watches these directories and no others; those that do not exist are left out. Tells whether one is watched that
    /// was not before: what happened in it until now was not seen.
    ///
    /// # Errors
    /// Mostly `ENOSPC`: the kernel's limit is reached (`fs.inotify.max_user_watches`). What was watched before still is.
    pub(super) fn turn_to(&mut self, wanted: Watched) -> io::Result<bool> {
        let inotify = &self.instance.get_ref().0;
        let mask = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.watches.retain(|folder, watch| {
            let keep = wanted.contains_key(folder);
            if !keep {
                // It is gone with its directory, or goes now.
                inotify.rm_watch(watch.descriptor).ok();
            }
            keep
        });
        let mut new = false;
        for (folder, names) in wanted {
            // Asked for again where it is watched already: the directory may be another one of the same name.
            match inotify.add_watch(&folder, mask) {
                Ok(descriptor) => {
                    let old = self.watches.insert(folder, Watch { descriptor, names });
                    new |= old.is_none_or(|old| old.descriptor != descriptor);
                }
                Err(Errno::ENOENT | Errno::ENOTDIR) => drop(self.watches.remove(&folder)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(new)
    }

    /// Waits for a change that counts.
    ///
    /// # Errors
    /// If the kernel gives no events any more.
    ///
    /// # Cancellation
    /// Nothing is lost: events are taken only when they are looked at.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.instance.readable().await?;
            match ready.get_inner().0.read_events() {
                Ok(events) => {
                    if events.iter().any(|event| self.counts(event)) {
                        return Ok(());
                    }
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn counts(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        // Events of watches that were given up may still be there.
        let watch = self.watches.values().find(|watch| watch.descriptor == event.wd);
        let Some(watch) = watch else { return false };
        match (&event.name, &watch.names) {
            // About the directory itself.
            (None, _) => true,
            (Some(_), Names::All) => event.mask.contains(AddWatchFlags::IN_ISDIR),
            (Some(name), Names::These(names)) => names.iter().any(|one| OsStr::new(one) == name),
        }
    }
}

#[cfg(test)]
mod tests;
