//! The pass: what changed since the last one is taken over, compared with what the kernel holds, and the difference is
//! one transaction.
//!
//! What the kernel holds is listed at the first pass, after a change by somebody else, after a failure and once per resync;
//! in between it is what the listing said and our own transactions since. So a pass for one pod is one transaction with its
//! elements, whatever the sets hold.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_nft::{Cgroup, Desired, Nft, NftError, Observed, Transaction, diff, diff_elements};
use causeway_runtime::engine::{KeyQueue, Requeue, Room};
use causeway_runtime::settings::Families;
use causeway_runtime::telemetry::chain;
use causeway_runtime::watch::{Lookup, NamespacedName, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::error::IsolationError;
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::plan::{self, OWNED, SetId};
use super::pod::PodFacts;
use super::tell::Voice;
use crate::kubelet::Kubelet;

/// The one key there is: the table's part that is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Table;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OWNED.table)
    }
}

/// What happened since the last pass. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct News(Arc<Inbox>);

#[derive(Debug)]
struct Inbox {
    pods: Mutex<BTreeSet<NamespacedName>>,
    look: AtomicBool,
    queue: KeyQueue<Table>,
}

impl News {
    pub(super) fn new(queue: KeyQueue<Table>) -> Self {
        let (pods, look) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Inbox { pods, look, queue }))
    }

    /// The pod is another than before.
    pub(super) fn pod(&self, pod: &NamespacedName) {
        self.0.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.clone());
        self.wake();
    }

    /// The kernel may hold something else than before.
    pub(super) fn look(&self) {
        self.0.look.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Something else is new.
    pub(super) fn wake(&self) {
        self.0.queue.enqueue(Table);
    }

    fn take_pods(&self) -> BTreeSet<NamespacedName> {
        std::mem::take(&mut *self.0.pods.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How far isolation is; for readiness.
pub(super) type Progress = Arc<Mutex<Result<(), String>>>;

/// What the room works with.
pub(super) struct IsolationRoom {
    pub(super) families: Families,
    pub(super) resync: Option<Duration>,
    pub(super) cgroups: PathBuf,
    pub(super) nft: Nft,
    pub(super) pods: Store<NamespacedName, PodFacts>,
    pub(super) kubelet: watch::Receiver<Kubelet>,
    pub(super) news: News,
    pub(super) progress: Progress,
    pub(super) voice: Voice,
    pub(super) metrics: Metrics,
    pub(super) memory: tokio::sync::Mutex<Memory>,
}

/// What is kept from pass to pass; nothing that a restart would miss.
#[derive(Default)]
pub(super) struct Memory {
    ledger: Ledger,
    /// What the kernel holds, and when it was listed.
    have: Option<(Observed, Instant)>,
    /// Whether the sets have been compared with all pods.
    complete: bool,
    /// The generation of the kubelet's cgroup with which the rules were loaded.
    loaded: Option<u64>,
}

impl Room for IsolationRoom {
    const NAME: &'static str = "isolation";
    type Key = Table;
    type Error = IsolationError;

    async fn reconcile(&self, _key: &Table) -> Result<Requeue, IsolationError> {
        let mut memory = self.memory.lock().await;
        let result = self.pass(&mut memory).await;
        let complete = memory.complete;
        drop(memory);
        let progress = match &result {
            Ok(()) if complete => Ok(()),
            Ok(()) => Err("the list of pods has not arrived".to_owned()),
            Err(error) => Err(chain(error).to_string()),
        };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        result.map(|()| Requeue::Done)
    }
}

impl IsolationRoom {
    async fn pass(&self, memory: &mut Memory) -> Result<(), IsolationError> {
        // What comes from here on asks for another pass.
        let looked_long_ago =
            |looked: Instant| self.resync.is_some_and(|period| looked.elapsed() * 5 > period * 4);
        let stale = memory.have.as_ref().is_none_or(|(_, looked)| looked_long_ago(*looked));
        if self.news.0.look.swap(false, Ordering::SeqCst) || stale {
            memory.have = None;
        }
        if *self.pods.synced().borrow() {
            self.take_over(&mut memory.ledger);
        }
        let kubelet = self.kubelet.borrow().clone();
        let was_listed = memory.have.is_some();
        let cgroup = self.cgroup(&kubelet);
        match self.converge(memory, &kubelet, cgroup.as_ref()).await {
            Err(error) if was_listed => {
                // The kernel may hold something else than remembered, of which no word has come yet.
                debug!(error = %chain(&error), "Looking again at the table");
                self.converge_or_close(memory, &kubelet, cgroup.as_ref()).await
            }
            Err(error) => self.close(memory, &kubelet, cgroup.as_ref(), error).await,
            Ok(()) => Ok(()),
        }
    }

    async fn converge_or_close(
        &self,
        memory: &mut Memory,
        kubelet: &Kubelet,
        cgroup: Option<&Cgroup>,
    ) -> Result<(), IsolationError> {
        match self.converge(memory, kubelet, cgroup).await {
            Err(error) => self.close(memory, kubelet, cgroup, error).await,
            Ok(()) => Ok(()),
        }
    }

    /// After rules with a cgroup were refused: the cgroup may be gone or the kernel unable to match it, and the others must
    /// not wait for that. Probes do, with the error.
    async fn close(
        &self,
        memory: &mut Memory,
        kubelet: &Kubelet,
        cgroup: Option<&Cgroup>,
        error: IsolationError,
    ) -> Result<(), IsolationError> {
        if cgroup.is_some() && matches!(error, IsolationError::SetUp(NftError::Refused { .. })) {
            self.converge(memory, kubelet, None).await?;
        }
        Err(error)
    }

    /// Pods that changed, into the ledger.
    fn take_over(&self, ledger: &mut Ledger) {
        let changed = self.news.take_pods();
        let pods = self.pods.snapshot();
        for pod in &changed {
            match pods.lookup(pod) {
                Lookup::Present(facts) => {
                    ledger.update(pod, Some(facts));
                    self.voice.tell(pod, facts);
                }
                Lookup::Absent => ledger.update(pod, None),
                // Whatever it is: nothing is concluded from it.
                Lookup::Unreadable(error) => warn!(%pod, error, "Pod cannot be read"),
            }
        }
    }

    fn cgroup(&self, kubelet: &Kubelet) -> Option<Cgroup> {
        let Kubelet::Cgroup { path, .. } = kubelet else { return None };
        match plan::cgroup(path, observe_number(&self.cgroups, path)) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                warn!(%error, "Probes of the kubelet stay blocked");
                None
            }
        }
    }

    /// Makes the kernel hold what it should.
    async fn converge(
        &self,
        memory: &mut Memory,
        kubelet: &Kubelet,
        cgroup: Option<&Cgroup>,
    ) -> Result<(), IsolationError> {
        let synced = *self.pods.synced().borrow();
        let listed = memory.have.is_none();
        let (mut have, looked) = match memory.have.take() {
            Some(have) => have,
            None => (self.list().await?, Instant::now()),
        };
        let mut desired = plan::desired(self.families, cgroup);
        if *kubelet == Kubelet::Unknown {
            plan::keep_probes(&mut desired, self.families, &have);
        }
        let generation = match kubelet {
            Kubelet::Cgroup { generation, .. } => Some(*generation),
            Kubelet::Unknown | Kubelet::Unsupported { .. } => None,
        };
        let reload = cgroup.is_some() && memory.loaded.is_some_and(|loaded| Some(loaded) != generation);
        let everything = synced && (listed || !memory.complete);
        let transaction = difference(&desired, &memory.ledger, &have, reload, everything);
        self.apply(&transaction).await?;
        have.apply(&transaction);
        memory.have = Some((have, looked));
        if synced {
            self.metrics.count(&memory.ledger, SetId::ALL);
            memory.ledger.settled();
            memory.complete = true;
        }
        if cgroup.is_some() {
            memory.loaded = generation;
        }
        Ok(())
    }

    async fn list(&self) -> Result<Observed, IsolationError> {
        self.metrics.looks.inc();
        self.nft.list(&OWNED).await.map_err(|error| {
            self.metrics.errors.inc();
            IsolationError::Look(error)
        })
    }

    async fn apply(&self, transaction: &Transaction) -> Result<(), IsolationError> {
        if transaction.is_empty() {
            return Ok(());
        }
        let of_rules = transaction.changes_structure();
        let result = self.nft.apply(transaction).await;
        if let Err(error) = result {
            self.metrics.errors.inc();
            return Err(if of_rules { IsolationError::SetUp(error) } else { IsolationError::Update(error) });
        }
        self.metrics.transaction(if of_rules { "rules" } else { "elements" });
        let (added, deleted) = transaction.elements();
        info!(table = OWNED.table, rules = of_rules, added, deleted, "Host isolation changed");
        Ok(())
    }
}

/// What has to be done. Without `everything`, elements that nothing touched are not looked at.
fn difference(
    desired: &Desired,
    ledger: &Ledger,
    have: &Observed,
    reload: bool,
    everything: bool,
) -> Transaction {
    if everything {
        return diff(desired, &ledger.contents(), have, reload);
    }
    let mut transaction = diff(desired, &causeway_nft::Contents::new(), have, reload);
    for (set, touched) in ledger.touched() {
        let commands = diff_elements(set.name(), &touched, |element| ledger.has(set, element), have);
        transaction.commands.extend(commands);
    }
    transaction
}

/// The number that the kernel has for a cgroup: the inode of its directory, if there is one.
fn observe_number(root: &std::path::Path, path: &str) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(root.join(path)).ok().map(|metadata| metadata.ino())
}
