//! What the kernel answers, and why a store cannot be opened or kept current.

use std::io;
use std::time::Duration;

use nix::errno::Errno;

use crate::wire::Malformed;

/// What the kernel said, sorted by what a caller does about it. Nothing outside this crate compares errno values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The object is not there (ENOENT, ESRCH, ENODEV, ENXIO, EADDRNOTAVAIL). For a delete this is success.
    #[error("no such object")]
    Absent,
    /// The object is there already (EEXIST). For an add of the same object this is success.
    #[error("already exists")]
    Exists,
    /// A gateway or destination cannot be reached (ENETUNREACH, EHOSTUNREACH, ENETDOWN).
    #[error("unreachable")]
    Unreachable,
    /// The object is in use (EBUSY).
    #[error("busy")]
    Busy,
    /// The caller lacks the right (EPERM, EACCES).
    #[error("permission denied")]
    Denied,
    /// Anything else.
    #[error("{0}")]
    Other(Errno),
}

impl From<Errno> for KernelError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT | Errno::ESRCH | Errno::ENODEV | Errno::ENXIO | Errno::EADDRNOTAVAIL => {
                Self::Absent
            }
            Errno::EEXIST => Self::Exists,
            Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENETDOWN => Self::Unreachable,
            Errno::EBUSY => Self::Busy,
            Errno::EPERM | Errno::EACCES => Self::Denied,
            other => Self::Other(other),
        }
    }
}

/// Why one dump has no usable result. A failed dump changes nothing in a store.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The socket failed.
    #[error("netlink socket")]
    Socket(#[source] io::Error),
    /// The kernel refused the request.
    #[error("kernel refused the dump")]
    Kernel(#[source] KernelError),
    /// Objects changed while the kernel listed them (`NLM_F_DUMP_INTR`).
    #[error("objects changed while they were listed")]
    Interrupted,
    /// Part of the answer was lost (ENOBUFS).
    #[error("part of the answer was lost")]
    Overrun,
    /// The answer could not be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The kernel did not answer in time.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
}

/// What a store was reading when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// Network interfaces.
    Links,
    /// Addresses of interfaces.
    Addresses,
    /// Routes of all tables.
    Routes,
    /// Policy routing rules.
    Rules,
    /// Devlink ports.
    DevlinkPorts,
    /// The generic netlink family `devlink`.
    DevlinkFamily,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Links => "links",
            Self::Addresses => "addresses",
            Self::Routes => "routes",
            Self::Rules => "rules",
            Self::DevlinkPorts => "devlink ports",
            Self::DevlinkFamily => "the devlink family",
        })
    }
}

/// Why a store is not current. The store goes on trying; its last complete snapshot stays.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A dump failed.
    #[error("reading {subject}")]
    Dump {
        /// What was read.
        subject: Subject,
        /// How it failed.
        #[source]
        source: DumpError,
    },
    /// The event socket failed.
    #[error("receiving netlink events")]
    Events(#[source] io::Error),
    /// The event socket cannot take a multicast group.
    #[error("joining multicast group {group}")]
    Join {
        /// Number of the group.
        group: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Netlink sockets are driven by tokio; there is no runtime on this thread.
    #[error("no tokio runtime on this thread")]
    NoRuntime(#[source] tokio::runtime::TryCurrentError),
    /// A socket cannot be made.
    #[error("opening a netlink socket")]
    Socket(#[source] io::Error),
    /// The event socket cannot take the multicast groups.
    #[error("subscribing to netlink events")]
    Subscribe(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_a_caller_acts_on_has_its_class() {
        for (errno, class) in [
            (Errno::ENODEV, KernelError::Absent),
            (Errno::ESRCH, KernelError::Absent),
            (Errno::ENOENT, KernelError::Absent),
            (Errno::EADDRNOTAVAIL, KernelError::Absent),
            (Errno::EEXIST, KernelError::Exists),
            (Errno::ENETUNREACH, KernelError::Unreachable),
            (Errno::EHOSTUNREACH, KernelError::Unreachable),
            (Errno::EBUSY, KernelError::Busy),
            (Errno::EPERM, KernelError::Denied),
            (Errno::EACCES, KernelError::Denied),
            (Errno::EINVAL, KernelError::Other(Errno::EINVAL)),
        ] {
            assert_eq!(KernelError::from(errno), class, "{errno}");
        }
    }
}
