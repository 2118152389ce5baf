//! Namespaces of running processes, and threads that enter them.
//!
//! Entering is done by threads of their own: namespaces belong to a thread, and a thread that changed its mount or pid
//! namespace is of no use to anybody else afterwards.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Context;
use nix::sched::{CloneFlags, setns, unshare};

/// Order in which namespaces are entered: the mount namespace last, after which `/proc` is another one.
const KINDS: [(CloneFlags, &str); 6] = [
    (CloneFlags::CLONE_NEWPID, "pid"),
    (CloneFlags::CLONE_NEWIPC, "ipc"),
    (CloneFlags::CLONE_NEWUTS, "uts"),
    (CloneFlags::CLONE_NEWNET, "net"),
    (CloneFlags::CLONE_NEWCGROUP, "cgroup"),
    (CloneFlags::CLONE_NEWNS, "mnt"),
];

/// Open handles of namespaces. They stay enterable for as long as a process lives in them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    handles: Vec<(CloneFlags, OwnedFd)>,
}

impl Namespaces {
    /// The namespaces of process `pid` that `kinds` lists.
    ///
    /// # Errors
    /// If the process is gone.
    pub(crate) fn of(pid: u32, kinds: CloneFlags) -> anyhow::Result<Self> {
        let mut handles = Vec::new();
        for (kind, name) in KINDS {
            if kinds.contains(kind) {
                let path = format!("/proc/{pid}/ns/{name}");
                let file = File::open(&path).with_context(|| format!("opening {path}"))?;
                handles.push((kind, OwnedFd::from(file)));
            }
        }
        Ok(Self { handles })
    }

    /// Moves the calling thread, and what it starts from now on, into these namespaces.
    ///
    /// # Errors
    /// If the kernel refuses, which it does when all processes inside are gone.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        // A thread shares its root and working directory with the other threads; the kernel lets only a thread that
        // has its own change the mount namespace.
        unshare(CloneFlags::CLONE_FS).context("unsharing the working directory")?;
        for (kind, handle) in &self.handles {
            setns(handle.as_fd(), *kind).with_context(|| format!("entering a namespace ({kind:?})"))?;
        }
        Ok(())
    }
}

/// The only child of process `pid`, in the reader's numbering.
///
/// # Errors
/// If the process is gone or has not exactly one child.
pub(crate) fn only_child(pid: u32) -> anyhow::Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let mut children = text.split_whitespace();
    match (children.next(), children.next()) {
        (Some(child), None) => child.parse().with_context(|| format!("a process id in {path}")),
        _ => anyhow::bail!("process {pid} has not exactly one child: {text:?}"),
    }
}
