//! The live store: a snapshot, its readiness, and subscriptions to its changes.
//!
//! Measured with 2,000 links, 3,000 addresses and 23,700 routes: 130 ms to load, 10 MB resident, 14 MB after full dumps.

mod listen;
mod reader;
mod task;
mod world;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rtnetlink::sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use tokio::runtime::Handle;
use tokio::sync::{Notify, broadcast, watch};

use crate::change::{Batch, Changes};
use crate::devlink::CONTROL_FAMILY;
use crate::error::{OpenError, StoreError};
use crate::snapshot::Snapshot;
use crate::socket::EventSocket;
pub use task::NetlinkTask;

/// Batches a subscriber may be behind before it is told to start over. With one batch per 5 ms at most this is a third
/// of a second of uninterrupted change.
const BATCHES: usize = 64;

/// Multicast groups of rtnetlink as bits. Source: linux/rtnetlink.h, `enum rtnetlink_groups`: link 1, IPv4 address 5,
/// IPv4 route 7, IPv4 rule 8, IPv6 address 9, IPv6 route 11, IPv6 rule 19, nexthop object 32.
const ROUTE_GROUPS: u32 = bit(1) | bit(5) | bit(7) | bit(8) | bit(9) | bit(11) | bit(19) | bit(32);

const fn bit(group: u32) -> u32 {
    1 << (group - 1)
}

/// How a store listens.
#[derive(Debug, Clone)]
pub struct Options {
    /// Receive buffer of an event socket, in bytes. Memory is used only while events queue up.
    pub receive_buffer: usize,
    /// Time between full dumps that nothing else asked for. They catch what the kernel changes without an event: an
    /// alias of a link that is down, the address of a function that its host changed.
    pub resync_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { receive_buffer: 4 * 1024 * 1024, resync_every: Duration::from_mins(5) }
    }
}

/// Whether the snapshot can be relied on.
#[derive(Debug, Clone)]
pub enum Readiness {
    /// The first dump has not ended. The snapshot is empty; conclude nothing from absence.
    Loading,
    /// The snapshot is complete and follows the kernel.
    Ready,
    /// The kernel could not be read; retried until it can. The snapshot is the last complete one.
    Failed {
        /// What went wrong.
        why: Arc<StoreError>,
    },
}

/// Handle of a live store. Clones share one store.
#[derive(Debug, Clone)]
pub struct NetlinkStore {
    snapshot: watch::Receiver<Snapshot>,
    readiness: watch::Receiver<Readiness>,
    batches: broadcast::WeakSender<Batch>,
    resync: Arc<Notify>,
    heard: watch::Receiver<Option<SystemTime>>,
}

/// The store's task has ended, so there will be no newer snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the netlink store has ended")]
pub struct Ended;

impl NetlinkStore {
    /// Opens a store of the calling thread's network namespace. It stays with that namespace, whatever thread runs the
    /// task, and stays empty until [`NetlinkTask::run`] is polled.
    ///
    /// # Errors
    /// There is no tokio runtime on this thread, or the kernel refuses the sockets.
    pub fn open() -> Result<(Self, NetlinkTask), OpenError> {
        Self::open_with(&Options::default())
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(options: &Options) -> Result<(Self, NetlinkTask), OpenError> {
        Handle::try_current().map_err(OpenError::NoRuntime)?;
        let route_events = EventSocket::open(NETLINK_ROUTE, ROUTE_GROUPS, options.receive_buffer)
            .map_err(OpenError::Subscribe)?;
        // The control family tells when devlink appears later, so an absent devlink costs nothing.
        let generic_groups = bit(u32::from(CONTROL_FAMILY));
        let generic_events = EventSocket::open(NETLINK_GENERIC, generic_groups, options.receive_buffer)
            .map_err(OpenError::Subscribe)?;
        let reader = reader::Reader::open().map_err(OpenError::Socket)?;
        let (snapshot_sender, snapshot) = watch::channel(Snapshot::default());
        let (readiness_sender, readiness) = watch::channel(Readiness::Loading);
        let (heard_sender, heard) = watch::channel(None);
        let (batch_sender, _) = broadcast::channel(BATCHES);
        let resync = Arc::new(Notify::new());
        let batches = batch_sender.downgrade();
        let publisher = task::Publisher {
            snapshot: snapshot_sender,
            readiness: readiness_sender,
            batches: batch_sender,
            heard: heard_sender,
            is_first: true,
        };
        let task = NetlinkTask::new(
            task::Sockets { route_events, generic_events, reader },
            publisher,
            Arc::clone(&resync),
            options.resync_every,
        );
        Ok((Self { snapshot, readiness, batches, resync, heard }, task))
    }

    /// The newest complete snapshot; empty while loading.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Watches whether the snapshot can be relied on.
    #[must_use]
    pub fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.clone()
    }

    /// Waits until the store is ready.
    ///
    /// # Errors
    /// The store's task ended first.
    pub async fn ready(&self) -> Result<Snapshot, Ended> {
        let mut readiness = self.readiness.clone();
        readiness.wait_for(|state| matches!(state, Readiness::Ready)).await.map_err(|_| Ended)?;
        Ok(self.snapshot())
    }

    /// Hears of every change from now on. Subscribe first, then take the snapshot: a change may then be heard of that
    /// the snapshot has already, but none is missed.
    #[must_use]
    pub fn subscribe(&self) -> Changes {
        let receiver = match self.batches.upgrade() {
            Some(sender) => sender.subscribe(),
            // Of a sender that is dropped at once: the subscription has ended too.
            None => broadcast::channel(1).1,
        };
        Changes::new(receiver)
    }

    /// When the kernel last told of a change or was read; none before the first time. It is read every few minutes also
    /// if nothing changes.
    #[must_use]
    pub fn last_event(&self) -> Option<SystemTime> {
        *self.heard.borrow()
    }

    /// Asks for a full dump soon, for callers that know of a change the kernel does not announce.
    pub fn resync(&self) {
        self.resync.notify_one();
    }
}
