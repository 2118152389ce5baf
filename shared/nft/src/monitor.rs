//! Word of changes that others made to what is ours.
//!
//! The kernel tells of every change, with the netlink port of who made it (Linux, `net/netfilter/nf_tables_api.c`,
//! `nf_tables_commit`). The port of an `nft` process is its process id, as that namespace sees it that it runs in
//! (`net/netlink/af_netlink.c`, `netlink_autobind`), so changes of our own are known, once each: a port may be somebody
//! else's by chance, and then our own change counts as foreign. A look too many is the worst that comes of it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::debug;

use crate::model::Owned;
use crate::wire::{Change, messages};

/// `NFNLGRP_NFTABLES`. Source: Linux, `include/uapi/linux/netfilter/nfnetlink.h`.
const GROUP: u32 = 7;

/// Receive buffer in bytes: room for word of some ten thousand elements. Where it is full, everything counts as changed.
const RECEIVE_BUFFER: usize = 4 * 1024 * 1024;

/// Room for one datagram. The kernel fills them up to a page (`NLMSG_GOODSIZE`), but for single messages that are larger.
const DATAGRAM: usize = 64 * 1024;

/// Processes that are remembered: far more than run at a time.
const REMEMBERED: usize = 64;

/// A full receive buffer can be reported when nothing is queued: then only the error wakes, and until it was read
/// the kernel drops everything.
const INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);

/// Processes of ours whose transaction has not been told of yet. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct OwnWrites(Arc<Mutex<VecDeque<u32>>>);

impl OwnWrites {
    /// The process may change something from now on.
    pub(crate) fn begin(&self, process: u32) {
        let mut processes = self.lock();
        processes.push_back(process);
        if processes.len() > REMEMBERED {
            processes.pop_front();
        }
    }

    /// The process has changed nothing, and will not.
    pub(crate) fn failed(&self, process: u32) {
        self.lock().retain(|own| *own != process);
    }

    fn contains(&self, process: u32) -> bool {
        self.lock().contains(&process)
    }

    /// A transaction of this port is complete.
    fn complete(&self, process: u32) {
        self.failed(process);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to the kernel.
pub struct Watcher {
    socket: AsyncFd<Socket>,
    buffer: Vec<u8>,
    owned: Owned,
    own: OwnWrites,
}

impl Watcher {
    /// Listens from now on to changes of `owned` in this network namespace by anybody but `own`.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open(owned: Owned, own: OwnWrites) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        socket.add_membership(GROUP)?;
        if let Err(errno) = setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER) {
            // Without CAP_NET_ADMIN in the first user namespace: a small buffer costs a look now and then.
            debug!(error = %errno, "Receive buffer kept at the system's limit");
        }
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that could swap their descriptor; this one owns its only one"
        )]
        let socket = AsyncFd::with_interest(socket, INTEREST)?;
        Ok(Self { socket, buffer: Vec::with_capacity(DATAGRAM), owned, own })
    }

    /// Waits until somebody else has changed something of ours, or may have.
    ///
    /// # Errors
    /// The socket fails for another reason than a full buffer.
    ///
    /// # Cancellation
    /// A change may be forgotten if the future is dropped after it was received: do not race it against anything but the
    /// end of the watcher.
    pub async fn foreign_change(&mut self) -> io::Result<()> {
        loop {
            let mut guard = self.socket.ready(INTEREST).await?;
            self.buffer.clear();
            match guard.get_inner().recv_from(&mut self.buffer, 0) {
                // Only the kernel, whose port is 0, is believed.
                Ok((_, sender)) if sender.port_number() != 0 => {}
                Ok(_) => {
                    if is_foreign(&self.buffer, &self.owned, &self.own) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a datagram tells of a change of what is ours by somebody else. The whole of it is read: it may complete
/// transactions of our own.
fn is_foreign(datagram: &[u8], owned: &Owned, own: &OwnWrites) -> bool {
    let mut foreign = false;
    for message in messages(datagram) {
        let Some(message) = message else { return true };
        match message.change {
            Some(Change::Complete) => own.complete(message.by),
            Some(change) if concerns(&change, owned) => foreign |= !own.contains(message.by),
            Some(_) | None => {}
        }
    }
    foreign
}

fn concerns(change: &Change, owned: &Owned) -> bool {
    match change {
        Change::Table { table } => table == owned.table,
        Change::Chain { table, chain } => table == owned.table && owned.has_chain(chain),
        Change::Set { table, set } => table == owned.table && owned.has_set(set),
        Change::Complete => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::message;

    const OWNED: Owned = Owned { table: "t", chains: &["ours"], sets: &["our-set"] };
    const RULE: u8 = 6;
    const ELEMENT: u8 = 12;
    const COMPLETE: u8 = 15;

    type Names<'a> = &'a [(u16, &'a str)];

    fn seen(own: &OwnWrites, messages: &[(u8, u32, Names<'_>)]) -> bool {
        let bytes = messages.iter().flat_map(|(number, by, names)| message(*number, 1, *by, names));
        is_foreign(&bytes.collect::<Vec<u8>>(), &OWNED, own)
    }

    #[test]
    fn changes_of_others_to_what_is_ours_count_and_no_others() {
        let own = OwnWrites::default();
        let cases: [(u8, Names<'_>, bool); 6] = [
            (RULE, &[(1, "t"), (2, "ours")], true),
            (ELEMENT, &[(1, "t"), (2, "our-set")], true),
            (2, &[(1, "t")], true),
            (RULE, &[(1, "t"), (2, "theirs")], false),
            (ELEMENT, &[(1, "t"), (2, "ours")], false),
            (RULE, &[(1, "other"), (2, "ours")], false),
        ];
        for (number, names, want) in cases {
            assert_eq!(seen(&own, &[(number, 5, names)]), want, "{number} {names:?}");
        }
    }

    #[test]
    fn a_change_of_our_own_is_known_once() {
        let own = OwnWrites::default();
        own.begin(42);
        let element: (u8, u32, Names<'_>) = (ELEMENT, 42, &[(1, "t"), (2, "our-set")]);
        assert!(!seen(&own, &[element, element, (COMPLETE, 42, &[])]));
        assert!(seen(&own, &[element]), "somebody else with the number that ours had");
        own.begin(43);
        own.failed(43);
        assert!(seen(&own, &[(ELEMENT, 43, &[(1, "t"), (2, "our-set")])]), "ours had changed nothing");
    }

    #[test]
    fn what_cannot_be_read_counts_as_a_change() {
        assert!(is_foreign(&[1, 2, 3], &OWNED, &OwnWrites::default()));
    }

    #[test]
    fn what_is_remembered_of_processes_is_bounded() {
        let own = OwnWrites::default();
        (0..1000).for_each(|process| own.begin(process));
        assert_eq!(own.lock().len(), REMEMBERED);
        assert!(own.contains(999));
    }
}
