//! The task that keeps a store current.
//!
//! The sockets listen before the first dump, so everything that happens from then on is either in the dump or in the
//! queue. Events that the dump has already are applied again; the tables are made so that this ends in the same state.
//! Nothing is published between a dump and the end of the events that were queued during it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Readiness;
use super::reader::{FAMILIES, Reader, are_few, command};
use super::world::World;
use crate::change::{Batch, between};
use crate::devlink::{self, CONTROL_FAMILY, CTRL_CMD_NEWFAMILY, DevlinkFamily};
use crate::error::StoreError;
use crate::name::IfIndex;
use crate::prefix::Family;
use crate::route::Effect;
use crate::snapshot::Snapshot;
use crate::socket::{Arrival, EventSocket};
use crate::wire::Malformed;

/// Least time between two batches. The first event of a burst is published at once, the rest together.
const PACE: Duration = Duration::from_millis(5);
/// Most changes in one batch; more are a resync, so that slow subscribers cannot pile up memory.
const BATCH_LIMIT: usize = 4096;
/// Datagrams taken in one go before a steady stream of events is published in between.
const DRAIN_LIMIT: usize = 1024;
/// First and longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// First and longest pause when events are lost again while they are being caught up with.
const RELOSS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What the task listens to and asks.
pub(super) struct Sockets {
    pub(super) route_events: EventSocket,
    pub(super) generic_events: EventSocket,
    pub(super) reader: Reader,
}

/// Where the task publishes.
pub(super) struct Publisher {
    pub(super) snapshot: watch::Sender<Snapshot>,
    pub(super) readiness: watch::Sender<Readiness>,
    pub(super) batches: broadcast::Sender<Batch>,
    pub(super) heard: watch::Sender<Option<SystemTime>>,
    pub(super) is_first: bool,
}

/// Keeps one store current until it is told to stop.
#[must_use = "a store stays empty until its task runs"]
pub struct NetlinkTask {
    sockets: Sockets,
    publisher: Publisher,
    resync: Arc<Notify>,
    resync_every: Duration,
    world: World,
    devlink: Option<DevlinkFamily>,
}

impl std::fmt::Debug for NetlinkTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetlinkTask").field("devlink", &self.devlink).finish_non_exhaustive()
    }
}

/// How much of the queue was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// All of it.
    Empty,
    /// As much as is taken in one go.
    Partly,
    /// The kernel threw events away, or one could not be read: only a full dump helps.
    Lost,
}

impl NetlinkTask {
    pub(super) fn new(
        sockets: Sockets,
        publisher: Publisher,
        resync: Arc<Notify>,
        resync_every: Duration,
    ) -> Self {
        Self { sockets, publisher, resync, resync_every, world: World::default(), devlink: None }
    }

    /// Runs until `stop` is cancelled. Failures are published as [`Readiness::Failed`] and retried for ever.
    ///
    /// # Cancellation
    /// The future may be dropped at any point; the store's handles then see that it has ended.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut pause = RETRY.0;
        loop {
            let error = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                result = self.serve() => match result { Err(error) => error },
            };
            if matches!(*self.publisher.readiness.borrow(), Readiness::Ready) {
                pause = RETRY.0;
            }
            warn!(error = &error as &dyn std::error::Error, "Reading the kernel's network state failed");
            self.publisher.readiness.send_replace(Readiness::Failed { why: Arc::new(error) });
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn serve(&mut self) -> Result<Infallible, StoreError> {
        let mut wants_dump = true;
        let mut next_dump = Instant::now();
        loop {
            if wants_dump {
                next_dump = Instant::now() + jittered(self.resync_every);
            }
            self.catch_up(wants_dump).await?;
            self.publisher.publish(&self.world.now);
            sleep(PACE).await;
            wants_dump = tokio::select! {
                arrival = self.sockets.route_events.next() => {
                    take_route_events(&self.sockets.route_events, arrival, &mut self.world)? == Drained::Lost
                }
                arrival = self.sockets.generic_events.next() => {
                    self.take_generic_events(arrival)? == Drained::Lost
                }
                () = self.resync.notified() => true,
                () = sleep_until(next_dump) => true,
            };
        }
    }

    /// Takes all events there are and resolves every doubt, so that the world is what the kernel has.
    async fn catch_up(&mut self, mut lost: bool) -> Result<(), StoreError> {
        let mut pause = RELOSS.0;
        // From a dump until the queue is empty, events are older than what the dump said.
        let mut replaying = false;
        loop {
            let drained = self.drain()?;
            if drained == Drained::Lost || mem::take(&mut lost) {
                if replaying {
                    // Lost again while catching up: whoever makes the events is faster than the dumps.
                    sleep(pause).await;
                    pause = (pause * 2).min(RELOSS.1);
                    self.drain()?;
                }
                self.observe().await?;
                replaying = true;
            } else if !self.world.doubts.is_empty() {
                self.resolve().await?;
                replaying = true;
            } else if drained == Drained::Empty || !replaying {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes what is queued, without waiting.
    ///
    /// After a loss the queue is emptied before anything is read anew: until it is empty the kernel goes on dropping
    /// events, and does not say so a second time. Source: `netlink_overrun` in net/netlink/af_netlink.c.
    fn drain(&mut self) -> Result<Drained, StoreError> {
        let mut is_lost = false;
        let mut taken = 0;
        while let Some(arrival) = self.sockets.route_events.try_next() {
            is_lost |=
                take_route_events(&self.sockets.route_events, arrival, &mut self.world)? == Drained::Lost;
            taken += 1;
            if taken >= DRAIN_LIMIT && !is_lost {
                return Ok(Drained::Partly);
            }
        }
        while let Some(arrival) = self.sockets.generic_events.try_next() {
            is_lost |= self.take_generic_events(arrival)? == Drained::Lost;
        }
        Ok(if is_lost { Drained::Lost } else { Drained::Empty })
    }

    fn take_generic_events(&mut self, arrival: std::io::Result<Arrival>) -> Result<Drained, StoreError> {
        if arrival.map_err(StoreError::Events)? == Arrival::Lost {
            return Ok(Drained::Lost);
        }
        for message in self.sockets.generic_events.messages() {
            let taken = message.and_then(|message| match command(&message) {
                Some(CTRL_CMD_NEWFAMILY) if message.kind == CONTROL_FAMILY => {
                    let found = devlink::family(message.payload)?;
                    // Devlink has appeared, or is there under a new number: everything about it must be read.
                    let is_news = found.is_some() && found != self.devlink;
                    Ok(if is_news { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                }
                Some(command) if self.devlink.is_some_and(|family| family.id == message.kind) => {
                    self.world.apply_devlink(command, message.payload).map(ControlFlow::Continue)
                }
                _ => Ok(ControlFlow::Continue(())),
            });
            if is_lost(taken) {
                return Ok(Drained::Lost);
            }
        }
        Ok(Drained::Partly)
    }

    /// Reads everything. Links come before addresses and routes: what a link takes along when it changes after it was
    /// read has an event that is still in the queue.
    async fn observe(&mut self) -> Result<(), StoreError> {
        self.world.doubts = super::world::Doubts::default();
        let reader = &mut self.sockets.reader;
        let now = &mut self.world.now;
        now.links.replace_all(reader.links().await?);
        let mut addresses = reader.addresses(Family::V4, None).await?;
        addresses.extend(reader.addresses(Family::V6, None).await?);
        now.addresses.replace_all(addresses);
        for family in FAMILIES {
            now.routes.replace_family(family, reader.routes(family).await?);
        }
        for family in FAMILIES {
            let rules = reader.rules(family).await?;
            self.world.replace_rules(family, rules);
        }
        self.observe_devlink().await
    }

    async fn observe_devlink(&mut self) -> Result<(), StoreError> {
        self.devlink = self.sockets.reader.devlink_family().await?;
        let ports = match self.devlink {
            None => Vec::new(),
            Some(family) => {
                let joined = self.sockets.generic_events.join(family.group);
                joined.map_err(|source| StoreError::Join { group: family.group, source })?;
                self.sockets.reader.devlink_ports(family).await?
            }
        };
        self.world.now.devlink_ports.replace_all(ports);
        Ok(())
    }

    /// Asks for what events left open.
    async fn resolve(&mut self) -> Result<(), StoreError> {
        let doubts = mem::take(&mut self.world.doubts);
        self.resolve_links(doubts.links).await?;
        self.resolve_addresses(doubts.addresses_of).await?;
        let mut families = doubts.routes;
        let routes = &self.world.now.routes;
        for address in doubts.preferred_sources {
            if routes.has_preferred_source(address) {
                families.insert(Family::of(address));
            }
        }
        for family in FAMILIES {
            // A link without known routes has none to lose.
            let links = doubts.routes_through.iter().copied();
            let links = links.filter(|link| self.world.now.routes.has_through(*link, family)).collect();
            if families.contains(&family) || !are_few(&links) {
                self.resolve_routes(family).await?;
            } else {
                self.resolve_routes_through(family, links).await?;
            }
        }
        for family in doubts.rules {
            let rules = self.sockets.reader.rules(family).await?;
            self.world.replace_rules(family, rules);
        }
        Ok(())
    }

    async fn resolve_links(&mut self, links: BTreeSet<IfIndex>) -> Result<(), StoreError> {
        let reader = &mut self.sockets.reader;
        if !are_few(&links) {
            self.world.now.links.replace_all(reader.links().await?);
            return Ok(());
        }
        for link in links {
            // One that is gone has an event that says so.
            if let Some(link) = reader.link(link).await? {
                self.world.now.links.upsert(link);
            }
        }
        Ok(())
    }

    async fn resolve_addresses(&mut self, links: BTreeSet<IfIndex>) -> Result<(), StoreError> {
        let reader = &mut self.sockets.reader;
        if !are_few(&links) {
            let mut rows = reader.addresses(Family::V4, None).await?;
            rows.extend(reader.addresses(Family::V6, None).await?);
            self.world.now.addresses.replace_all(rows);
            return Ok(());
        }
        for link in links {
            let mut rows = reader.addresses(Family::V4, Some(link)).await?;
            rows.extend(reader.addresses(Family::V6, Some(link)).await?);
            self.world.now.addresses.replace_link(link, rows);
        }
        Ok(())
    }

    async fn resolve_routes(&mut self, family: Family) -> Result<(), StoreError> {
        let rows = self.sockets.reader.routes(family).await?;
        self.world.now.routes.replace_family(family, rows);
        Ok(())
    }

    async fn resolve_routes_through(
        &mut self,
        family: Family,
        links: BTreeSet<IfIndex>,
    ) -> Result<(), StoreError> {
        for link in links {
            let rows = self.sockets.reader.routes_through(family, link).await?;
            if self.world.now.routes.replace_link(family, link, rows) == Effect::Uncertain {
                return self.resolve_routes(family).await;
            }
        }
        Ok(())
    }
}

impl Publisher {
    /// Publishes the snapshot if it differs from the last one, before those who hear of it can look.
    fn publish(&mut self, now: &Snapshot) {
        self.heard.send_replace(Some(SystemTime::now()));
        let changes = if self.is_first { None } else { between(&self.snapshot.borrow(), now, BATCH_LIMIT) };
        let batch = match changes {
            Some(changes) if changes.is_empty() => None,
            Some(changes) => Some(Batch::Changes(changes.into())),
            None => Some(Batch::Resync),
        };
        if batch.is_some() {
            self.snapshot.send_replace(now.clone());
        }
        self.is_first = false;
        self.readiness.send_if_modified(|state| {
            let was_ready = matches!(state, Readiness::Ready);
            *state = Readiness::Ready;
            !was_ready
        });
        if let Some(batch) = batch
            && self.batches.send(batch).is_err()
        {
            debug!("Nobody listens to network changes");
        }
    }
}

fn take_route_events(
    socket: &EventSocket,
    arrival: std::io::Result<Arrival>,
    world: &mut World,
) -> Result<Drained, StoreError> {
    if arrival.map_err(StoreError::Events)? == Arrival::Lost {
        return Ok(Drained::Lost);
    }
    for message in socket.messages() {
        let taken = message.and_then(|message| world.apply(&message)).map(ControlFlow::Continue);
        if is_lost(taken) {
            return Ok(Drained::Lost);
        }
    }
    Ok(Drained::Partly)
}

/// An event that cannot be read is as good as lost; the dump will tell.
fn is_lost(taken: Result<ControlFlow<()>, Malformed>) -> bool {
    match taken {
        Ok(flow) => flow.is_break(),
        Err(error) => {
            warn!(%error, "Reading everything again after an event that could not be read");
            true
        }
    }
}

/// The time, give or take a tenth, so that many agents do not read at the same moment.
fn jittered(time: Duration) -> Duration {
    let random = RandomState::new().hash_one(()) % 201;
    let per_mille = u32::try_from(random).unwrap_or(100) + 900;
    time / 1000 * per_mille
}
