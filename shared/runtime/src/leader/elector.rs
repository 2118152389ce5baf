//! The one task that holds, or wants, the lease.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use super::lease::{self, Record, Seen, Step, View};
use super::{LEASE, LeaderMetrics, Leadership, Standing};
use crate::backoff::Backoff;
use crate::events::{Happening, Recorder, Severity};
use crate::settings::LeaderElection;
use crate::telemetry::chain;
use crate::watch::{self as watches, Change, Store, Watch, WatchMetrics};
use crate::writer::{WriteError, Writer};

/// How long one request about the lease may take.
const REQUEST: Duration = Duration::from_secs(5);

/// How long a process that is told to stop waits for the passes of its term. With [`RELEASE`] it stays below the two
/// seconds that a whole process has.
const PASSES: Duration = Duration::from_millis(1200);

/// How long letting go of the lease may take.
const RELEASE: Duration = Duration::from_millis(500);

/// Attempts to take the lease whose renewal is remembered.
const ATTEMPTS: usize = 16;

/// Delay after a first failed attempt; it doubles up to the period between attempts.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// Who stands for election, where and how.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Name of this replica, different from every other's.
    pub identity: String,
    /// Namespace of the lease.
    pub namespace: String,
    /// Timing.
    pub timing: LeaderElection,
}

/// A candidate, ready to run.
pub struct Elector {
    watch: Watch<Lease, String, Record>,
    booth: Booth,
}

/// What the watch shows of the lease.
#[derive(Debug, Clone, Default)]
struct Sight {
    exists: bool,
    /// The newest record, kept also after the lease is deleted.
    last: Option<Seen>,
}

/// Everything of an elector but its watch.
struct Booth {
    candidate: Candidate,
    writer: Writer,
    api: Api<Lease>,
    store: Store<String, Record>,
    sight: watch::Receiver<Sight>,
    standing: watch::Sender<Standing>,
    terms: TaskTracker,
    metrics: LeaderMetrics,
    recorder: Recorder,
    retry: Backoff,
}

/// A lease that is held.
#[derive(Debug)]
struct Held {
    version: String,
    /// Renewals of which the newest in the lease must be one: the last that succeeded and those without an answer.
    renewals: Vec<Timestamp>,
    /// When the request that last renewed it was sent.
    sent: Instant,
    /// When to renew it next.
    next: Instant,
    failures: u32,
    /// The object, for people.
    object: ObjectReference,
}

/// How a term ends.
#[derive(Debug)]
enum End {
    /// The process stops.
    Stopped,
    /// The lease could not be renewed in time.
    Expired,
    /// Somebody else has it.
    Taken(Taken),
}

/// Somebody else has the lease: its holder, unless it was let go meanwhile.
#[derive(Debug)]
struct Taken(Option<String>);

impl Elector {
    /// An elector for `candidate`, and the handle to what it finds out.
    #[must_use]
    pub fn new(
        client: &Client,
        candidate: Candidate,
        metrics: LeaderMetrics,
        watch_metrics: &WatchMetrics,
        recorder: Recorder,
    ) -> (Self, Leadership) {
        let (sights, sight) = watch::channel(Sight::default());
        let config = watches::config().fields(&format!("metadata.name={LEASE}"));
        let api = Api::namespaced(client.clone(), &candidate.namespace);
        let watch = Watch::new(api, config, watches::name, Record::of)
            .metered(watch_metrics)
            .on_change(move |change| sights.send_modify(|sight| sight.take_in(change, Instant::now())));
        let (standing, stands) = watch::channel(Standing::Standby(None));
        let leadership = Leadership { standing: stands, terms: TaskTracker::new() };
        let LeaderElection { renew, retry, .. } = candidate.timing;
        let booth = Booth {
            writer: Writer::new("causeway-leader-election", metrics.writes.clone())
                .with_deadline(REQUEST.min(renew)),
            api: Api::namespaced(client.clone(), &candidate.namespace),
            store: watch.store(),
            candidate,
            sight,
            standing,
            terms: leadership.terms.clone(),
            metrics,
            recorder,
            retry: Backoff::new(FIRST_RETRY, retry),
        };
        (Self { watch, booth }, leadership)
    }

    /// Stands for election, leads, and stands again after a loss, until `stop` is cancelled; then lets the lease go.
    pub async fn run(self, stop: CancellationToken) {
        let Self { watch, booth } = self;
        tokio::join!(watch.run(stop.clone()), booth.run(stop));
    }
}

impl Sight {
    fn take_in(&mut self, change: &Change<'_, String, Record>, now: Instant) {
        self.exists = change.new.is_some() || change.unreadable.is_some();
        let Some(record) = &change.new else { return };
        // A change that is no renewal, such as an annotation, gives the holder no more time.
        let same =
            |seen: &&Seen| (&seen.record.holder, seen.record.renewed) == (&record.holder, record.renewed);
        let at = self.last.as_ref().filter(same).map_or(now, |seen| seen.at);
        self.last = Some(Seen { record: record.as_ref().clone(), at });
    }
}

impl Booth {
    async fn run(mut self, stop: CancellationToken) {
        if stop.run_until_cancelled(self.store.wait_synced()).await.is_none() {
            return;
        }
        let mut mine = self.inherited();
        while let Some(held) = self.stand(&mine, &stop).await {
            mine = self.lead(held, &stop).await;
        }
    }

    fn me(&self) -> &str {
        &self.candidate.identity
    }

    /// The renewal of an earlier process of this identity, which is dead where every replica has its own. Only the first
    /// look may be read so: a record of this identity that comes later is that of a second process.
    fn inherited(&self) -> Vec<Timestamp> {
        let sight = self.sight.borrow();
        let record = sight.last.as_ref().map(|seen| &seen.record);
        record
            .filter(|record| record.holder.as_deref() == Some(self.me()))
            .and_then(|r| r.renewed)
            .into_iter()
            .collect()
    }

    /// Waits for the lease to be free and takes it; `None` once `stop` is cancelled.
    async fn stand(&mut self, mine: &[Timestamp], stop: &CancellationToken) -> Option<Held> {
        let mut mine = mine.to_vec();
        let mut failures = 0_u32;
        while !stop.is_cancelled() {
            let Sight { exists, last } = self.sight.borrow_and_update().clone();
            self.tell_standby(last.as_ref().filter(|_| exists).and_then(|seen| seen.record.holder.clone()));
            let (me, timing) = (self.me(), self.candidate.timing);
            let view = View { me, timing, mine: &mine, last: last.as_ref(), exists };
            let now = lease::now();
            let sent = Instant::now();
            let result = match view.step(sent) {
                Step::Wait(until) => {
                    self.wait(until, stop).await;
                    continue;
                }
                Step::Create => {
                    let new = lease::created(LEASE, me, timing, now);
                    stop.run_until_cancelled(self.writer.create(&self.api, &new)).await
                }
                Step::Take(record) => {
                    let patch = lease::taken(&record, me, timing, now);
                    stop.run_until_cancelled(self.writer.merge(&self.api, LEASE, &patch)).await
                }
            };
            // Also without an answer: it may have happened. One that is forgotten costs a wait, no more.
            mine.push(now);
            mine.drain(..mine.len().saturating_sub(ATTEMPTS));
            let mut held = Held { renewals: mine.clone(), ..Held::unseen(sent) };
            match result {
                None => {
                    self.release(&mut held).await;
                    return None;
                }
                Some(Ok(lease)) => {
                    held.renewed(&lease, now, sent, timing);
                    self.announce(&held, "became leader");
                    return Some(held);
                }
                Some(Err(error)) => {
                    failures = failures.saturating_add(1);
                    self.report(&error, failures);
                }
            }
            self.wait(Some(Instant::now() + self.retry.random_delay(failures)), stop).await;
        }
        None
    }

    /// Leads until the term ends; returns the renewals by which the lease can be known as one's own afterwards.
    async fn lead(&mut self, mut held: Held, stop: &CancellationToken) -> Vec<Timestamp> {
        let over = stop.child_token();
        let until = self.until(&held);
        info!(identity = self.me(), lease = LEASE, "Leading");
        self.standing.send_replace(Standing::Leading { until: Some(until), over: over.clone() });
        self.metrics.leading.set(1);
        self.metrics.won.inc();
        let end = self.term(&mut held, &over, stop).await;
        if matches!(end, End::Stopped) {
            self.terms.close();
            if timeout(PASSES, self.terms.wait()).await.is_err() {
                warn!(after = ?PASSES, "Passes still run; the lease is let go all the same, nothing more is written");
            }
        }
        let holder = match &end {
            End::Stopped | End::Expired => None,
            End::Taken(Taken(holder)) => holder.clone(),
        };
        self.standing.send_replace(Standing::Standby(holder.clone()));
        over.cancel();
        self.metrics.leading.set(0);
        match end {
            End::Stopped => {
                self.release(&mut held).await;
                self.announce(&held, "stopped leading");
                Vec::new()
            }
            End::Expired => {
                self.announce(&held, "stopped leading: its lease was not renewed in time");
                self.metrics.lost.inc();
                error!(
                    identity = self.me(),
                    lease = LEASE,
                    "Lease not renewed in time; nothing is written any more"
                );
                held.renewals
            }
            End::Taken(_) => {
                self.metrics.lost.inc();
                if holder.as_deref() == Some(self.me()) {
                    error!(
                        identity = self.me(),
                        "Another process leads under this identity; each replica needs its own"
                    );
                } else {
                    error!(
                        identity = self.me(),
                        holder,
                        lease = LEASE,
                        "Lease lost; nothing is written any more"
                    );
                    self.announce(&held, "stopped leading: it lost its lease");
                }
                Vec::new()
            }
        }
    }

    /// Renews the lease until it is over.
    async fn term(&mut self, held: &mut Held, over: &CancellationToken, stop: &CancellationToken) -> End {
        loop {
            let until = self.until(held);
            tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                () = sleep_until(until) => return End::Expired,
                Ok(()) = self.sight.changed() => {
                    let sight = self.sight.borrow_and_update().clone();
                    if let Some(thief) = self.taken_by(&sight, held) {
                        return End::Taken(thief);
                    }
                    if sight.exists {
                        continue;
                    }
                }
                () = sleep_until(held.next) => {}
            }
            let renewal = timeout_at(until, self.renew(held));
            match stop.run_until_cancelled(renewal).await {
                None => return End::Stopped,
                Some(Err(_elapsed)) => return End::Expired,
                Some(Ok(Some(thief))) => return End::Taken(thief),
                Some(Ok(None)) => {}
            }
            let until = Some(self.until(held));
            self.standing.send_replace(Standing::Leading { until, over: over.clone() });
        }
    }

    /// The end of what a lease allows its holder.
    fn until(&self, held: &Held) -> Instant {
        held.sent + self.candidate.timing.renew
    }

    /// Whether the watch shows that the lease is another's, and whose.
    fn taken_by(&self, sight: &Sight, held: &Held) -> Option<Taken> {
        let record = &sight.last.as_ref()?.record;
        // Resource versions of one object are numbers that grow (kubernetes.io, API concepts, "Resource versions").
        let newer = record.version.parse::<u64>().ok() > held.version.parse::<u64>().ok();
        (newer && !self.is_own(record, held)).then(|| Taken(record.holder.clone()))
    }

    fn is_own(&self, record: &Record, held: &Held) -> bool {
        record.holder.as_deref() == Some(self.me())
            && record.renewed.is_some_and(|renewed| held.renewals.contains(&renewed))
    }

    /// One renewal. Returns who has the lease if it is another's.
    async fn renew(&self, held: &mut Held) -> Option<Taken> {
        let timing = self.candidate.timing;
        let (now, sent) = (lease::now(), Instant::now());
        held.renewals.push(now);
        let patch = lease::renewed(&held.version, timing, now);
        let error = match self.writer.merge(&self.api, LEASE, &patch).await {
            Ok(lease) => {
                held.renewed(&lease, now, sent, timing);
                return None;
            }
            Err(error) => error,
        };
        let changed = matches!(error, WriteError::Conflict(_) | WriteError::NotFound(_));
        held.failures = held.failures.saturating_add(1);
        held.next = Instant::now() + self.retry.random_delay(held.failures);
        if held.failures.is_power_of_two() {
            warn!(lease = LEASE, error = %chain(&error), failures = held.failures, "Lease not renewed; it is tried again");
        }
        if changed { self.look(held).await } else { None }
    }

    /// Looks at a lease that somebody changed. Returns who has it if it is another's.
    async fn look(&self, held: &mut Held) -> Option<Taken> {
        match in_time(self.api.get_opt(LEASE)).await {
            Some(Ok(Some(lease))) => {
                let record = Record::of(lease)?;
                if !self.is_own(&record, held) {
                    return Some(Taken(record.holder));
                }
                // An annotation, say: the next renewal rests on this version.
                held.version = record.version;
                held.next = Instant::now();
            }
            Some(Ok(None)) => {
                let (now, sent, timing) = (lease::now(), Instant::now(), self.candidate.timing);
                let new = lease::created(LEASE, self.me(), timing, now);
                held.renewals.push(now);
                // If it fails, the next renewal looks again.
                if let Ok(lease) = self.writer.create(&self.api, &new).await {
                    warn!(lease = LEASE, "The lease had been deleted; it is made anew");
                    held.renewed(&lease, now, sent, timing);
                }
            }
            Some(Err(error)) => debug!(lease = LEASE, error = %chain(&error), "Lease cannot be read"),
            None => debug!(lease = LEASE, "Lease cannot be read in time"),
        }
        None
    }

    /// Lets the lease go, if it is still held.
    async fn release(&self, held: &mut Held) {
        let release = async {
            // An answer that was not waited for may have brought a newer version.
            let mut doubtful = held.version.is_empty() || held.renewals.len() > 1;
            loop {
                if doubtful && (self.look(held).await.is_some() || held.version.is_empty()) {
                    return Ok(());
                }
                let patch = lease::released(&held.version, lease::now());
                match self.writer.merge(&self.api, LEASE, &patch).await {
                    Ok(_) => return Ok(()),
                    Err(WriteError::Conflict(_)) if !doubtful => doubtful = true,
                    Err(error) => return Err(error),
                }
            }
        };
        match timeout(RELEASE, release).await {
            Ok(Ok(())) => info!(lease = LEASE, "Lease let go"),
            Ok(Err(error)) => {
                warn!(lease = LEASE, error = %chain(&error), "Lease not let go; it will run out");
            }
            Err(_elapsed) => {
                warn!(lease = LEASE, after = ?RELEASE, "Lease not let go in time; it will run out");
            }
        }
    }

    /// Waits for a change of the lease, for `until`, or for `stop`.
    async fn wait(&mut self, until: Option<Instant>, stop: &CancellationToken) {
        let at = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            Ok(()) = self.sight.changed() => {}
            () = at => {}
        }
    }

    fn tell_standby(&self, holder: Option<String>) {
        self.standing.send_if_modified(|standing| match standing {
            Standing::Standby(known) if *known == holder => false,
            standing => {
                info!(holder, lease = LEASE, "Standing by");
                *standing = Standing::Standby(holder);
                true
            }
        });
    }

    fn report(&self, error: &WriteError, failures: u32) {
        let namespace = &self.candidate.namespace;
        match error {
            // Another candidate was faster; the watch will say so.
            WriteError::Conflict(_) | WriteError::Exists(_) => {
                debug!(lease = LEASE, "Another one took the lease");
            }
            WriteError::NotFound(_) if failures.is_power_of_two() => error!(
                namespace,
                error = %chain(error),
                "No lease without its namespace: create it, or name another by --ovn-config-namespace"
            ),
            error if failures.is_power_of_two() => {
                warn!(lease = LEASE, namespace, error = %chain(error), failures, "Lease not taken; it is tried again");
            }
            error => debug!(lease = LEASE, namespace, error = %chain(error), failures, "Lease not taken"),
        }
    }

    /// Tells people, the way client-go does.
    fn announce(&self, held: &Held, what: &str) {
        self.recorder.record(Happening {
            regarding: held.object.clone(),
            related: None,
            severity: Severity::Normal,
            reason: "LeaderElection".to_owned(),
            action: "LeaderElection",
            note: format!("{} {what}", self.me()),
        });
    }
}

impl Held {
    /// Of which nothing is known but that it may have been taken by a request sent at `sent`.
    fn unseen(sent: Instant) -> Self {
        let (version, object) = (String::new(), ObjectReference::default());
        Self { version, renewals: Vec::new(), sent, next: sent, failures: 0, object }
    }

    /// Takes over the answer to a request that was sent at `sent` and renewed the lease as of `now`.
    fn renewed(&mut self, lease: &Lease, now: Timestamp, sent: Instant, timing: LeaderElection) {
        self.version = lease.metadata.resource_version.clone().unwrap_or_default();
        self.object = lease.object_ref(&());
        self.renewals = vec![now];
        self.sent = sent;
        self.next = sent + timing.retry;
        self.failures = 0;
    }
}

async fn in_time<T>(request: impl Future<Output = T>) -> Option<T> {
    timeout(REQUEST, request).await.ok()
}
