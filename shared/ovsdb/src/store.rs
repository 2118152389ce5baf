//! The declared tables of one database, kept current by one connection that is made again for ever.
//!
//! [`StoreBuilder::build`] gives a [`Store`], the handle for readers and writers, and a [`Driver`], the future that does
//! the work and has to be spawned. What readers see is always a complete [`Snapshot`]; whether it is current is told by
//! the [`Status`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::options::Options;
use crate::remote::Remotes;
use crate::row::{Row, TableSpec};
use crate::snapshot::{AnyTable, Snapshot, TypedTable};
use crate::statistics::{Counters, Moment, Statistics};
use crate::transaction::{Committed, TransactError, Transaction, read_results};
use crate::value::shorten_text;

mod driver;
mod events;
mod status;

pub use driver::Driver;
use driver::{Command, Declaration};
pub use events::{Batch, Event, Events};
pub use status::{LostReason, NotCurrent, NotSynced, Status, WaitError};

/// Transactions that may wait for the driver; further callers wait for a place.
const COMMAND_QUEUE: usize = 64;

/// What handles and driver share.
struct Shared {
    snapshot: watch::Sender<Snapshot>,
    status: watch::Sender<Status>,
    counters: Arc<Counters>,
    heard: Moment,
}

/// Handle to a store; clones refer to the same store.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    events: broadcast::WeakSender<Arc<Batch>>,
    database: Arc<str>,
    request_timeout: Duration,
}

/// Declares what a store reads.
pub struct StoreBuilder {
    remotes: Remotes,
    database: String,
    options: Options,
    specs: Vec<TableSpec>,
    tables: Vec<Arc<dyn AnyTable>>,
}

impl StoreBuilder {
    /// Reads a table. Declaring a row type twice changes nothing; two row types may read different columns of one table.
    #[must_use]
    pub fn table<T: Row>(mut self) -> Self {
        if !self.tables.iter().any(|table| table.as_any().is::<TypedTable<T>>()) {
            self.specs.push(T::spec());
            self.tables
                .push(Arc::new(TypedTable::<T>::new(crate::schema::TableLayout { columns: Vec::new() })));
        }
        self
    }

    /// Deadlines, limits and credentials.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The store, and the future that keeps it current.
    pub fn build(self) -> (Store, Driver) {
        let (commands, queue) = mpsc::channel(COMMAND_QUEUE);
        let (events, _) = broadcast::channel(self.options.event_capacity.max(1));
        let shared = Arc::new(Shared {
            snapshot: watch::Sender::new(Snapshot::empty(self.tables)),
            status: watch::Sender::new(Status::Connecting),
            counters: Arc::new(Counters::default()),
            heard: Moment::default(),
        });
        let store = Store {
            shared: shared.clone(),
            commands,
            events: events.downgrade(),
            database: self.database.as_str().into(),
            request_timeout: self.options.request_timeout,
        };
        let declaration = Declaration {
            remotes: self.remotes,
            database: self.database,
            specs: self.specs,
            options: self.options,
        };
        (store, Driver::new(declaration, shared, queue, events))
    }
}

impl Store {
    /// Starts the declaration of a store for one database.
    #[must_use]
    pub fn builder(remotes: impl Into<Remotes>, database: &str) -> StoreBuilder {
        StoreBuilder {
            remotes: remotes.into(),
            database: database.to_owned(),
            options: Options::default(),
            specs: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Whether the snapshot is current, and why not; observable.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// The newest snapshot, observable: wakes with every update. [`Snapshot::generation`] counts them.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.shared.snapshot.subscribe()
    }

    /// The contents of the database, from which may be concluded that something is absent.
    ///
    /// # Errors
    /// [`NotCurrent`] before the first sync and while the connection is lost.
    pub fn current(&self) -> Result<Snapshot, NotCurrent> {
        match &*self.shared.status.borrow() {
            Status::Synced => {}
            Status::Connecting => return Err(NotCurrent::NotRead),
            Status::Lost { why } => return Err(NotCurrent::Lost(why.clone())),
        }
        Ok(self.last_known())
    }

    /// The last contents that were read, current or not; without rows before the first sync.
    #[must_use]
    pub fn last_known(&self) -> Snapshot {
        self.shared.snapshot.borrow().clone()
    }

    /// Subscribes to changes of rows: all that happen after the returned snapshot.
    #[must_use]
    pub fn subscribe(&self) -> (Snapshot, Events) {
        // Receiver first: what arrives between the two lines is in the snapshot too, and is skipped by its generation.
        let receiver = self.events.upgrade().map(|sender| sender.subscribe());
        let snapshot = self.last_known();
        let events = Events::new(receiver, self.shared.snapshot.subscribe(), snapshot.generation());
        (snapshot, events)
    }

    /// Does a transaction and waits for the server's verdict. An empty transaction succeeds without being sent.
    ///
    /// # Errors
    /// [`TransactError`]; after [`is_race`](TransactError::is_race) plan again, after
    /// [`is_outcome_unknown`](TransactError::is_outcome_unknown) look again.
    ///
    /// # Cancellation
    /// If dropped, the transaction may or may not be done; a later snapshot shows which.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Committed, TransactError> {
        if transaction.is_empty() {
            let generation = self.last_known().generation();
            return Ok(Committed::new(transaction, Vec::new(), generation));
        }
        let (reply, answer) = oneshot::channel();
        let command = Command { params: transaction.to_params(&self.database), reply };
        let after = self.request_timeout;
        let outcome = async {
            self.commands.send(command).await.map_err(|_| TransactError::Stopped)?;
            answer.await.unwrap_or(Err(TransactError::Interrupted))
        };
        let (result, generation) =
            timeout(after, outcome).await.unwrap_or(Err(TransactError::Deadline { after }))?;
        let malformed = |_| TransactError::Malformed { found: shorten_text(result.get()) };
        let result = serde_json::from_str(result.get()).map_err(malformed)?;
        Ok(Committed::new(transaction, read_results(transaction, &result)?, generation))
    }

    /// Waits until the snapshot contains the effect of a transaction, and returns it.
    ///
    /// # Errors
    /// [`WaitError`] if that takes longer than `deadline`.
    pub async fn observed(&self, committed: &Committed, deadline: Duration) -> Result<Snapshot, WaitError> {
        self.wait_for(deadline, |snapshot| {
            (snapshot.generation() >= committed.generation).then(|| snapshot.clone())
        })
        .await
    }

    /// Waits until `found` finds something in a snapshot, and returns that. Looks at the newest snapshot first.
    ///
    /// # Errors
    /// [`WaitError`] if that takes longer than `deadline`; it carries the last snapshot and the status.
    pub async fn wait_for<R>(
        &self,
        deadline: Duration,
        mut found: impl FnMut(&Snapshot) -> Option<R>,
    ) -> Result<R, WaitError> {
        let mut snapshots = self.snapshots();
        let search = async {
            loop {
                let snapshot = snapshots.borrow_and_update().clone();
                if let Some(result) = found(&snapshot) {
                    return Some(result);
                }
                snapshots.changed().await.ok()?; // the sender lives in `self`
            }
        };
        let result = timeout(deadline, search).await.ok().flatten();
        result.ok_or_else(|| WaitError {
            after: deadline,
            status: self.shared.status.borrow().clone(),
            last: self.last_known(),
        })
    }

    /// Waits until the snapshot is current, and returns it.
    ///
    /// # Errors
    /// [`NotSynced`] with the last reason if that takes longer than `deadline`.
    pub async fn synced(&self, deadline: Duration) -> Result<Snapshot, NotSynced> {
        let mut status = self.status();
        let synced = timeout(deadline, status.wait_for(|status| matches!(status, Status::Synced))).await;
        match synced {
            Ok(Ok(_)) => Ok(self.last_known()),
            _ => Err(NotSynced { after: deadline, status: self.shared.status.borrow().clone() }),
        }
    }

    /// When the server last told the contents or a change of them; none before the first time. A database that nobody
    /// changes says nothing for hours.
    #[must_use]
    pub fn last_event(&self) -> Option<SystemTime> {
        self.shared.heard.read()
    }

    /// What the store has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.counters.read()
    }
}
