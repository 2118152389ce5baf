//! The task behind a store: connect, check the schema, read everything or resume, follow, and again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::events::Batch;
use super::status::{LostReason, Status};
use super::{Shared, Snapshot};
use crate::backoff::Backoff;
use crate::change::RowChange;
use crate::connection::{CallError, Connection, Incoming};
use crate::options::Options;
use crate::remote::Remotes;
use crate::row::TableSpec;
use crate::schema::{DatabaseSchema, TableLayout, check};
use crate::transaction::TransactError;
use crate::update::{self, Notation, UpdateError};
use crate::value::parse_uuid;

/// Names our monitor on the connection, which has no other.
const MONITOR_ID: &str = "store";

/// A connection that lasted this long was a success. Shorter ones count as failures, so that a server which breaks every
/// connection with its first update is not asked for everything again without pause.
const STABLE: Duration = Duration::from_secs(1);

/// A transaction on its way to the server.
pub(super) struct Command {
    pub(super) params: Value,
    pub(super) reply: Reply,
}

/// The answer: the result, and the generation of the snapshot when it arrived.
type Reply = oneshot::Sender<Result<(Box<RawValue>, u64), TransactError>>;

/// What a store was declared to be.
pub(super) struct Declaration {
    pub(super) remotes: Remotes,
    pub(super) database: String,
    pub(super) specs: Vec<TableSpec>,
    pub(super) options: Options,
}

/// Keeps a [`Store`](crate::Store) current; made together with it.
#[must_use = "a store without its driver running never connects"]
pub struct Driver {
    declaration: Declaration,
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    events: broadcast::Sender<Arc<Batch>>,
    backoff: Backoff,
    /// Connection attempts so far; picks the remote.
    attempts: usize,
    resume: Option<ResumePoint>,
}

/// From where the next connection may continue.
struct ResumePoint {
    transaction: Uuid,
    /// The snapshot was read with this layout; another one needs other columns.
    layouts: Vec<TableLayout>,
}

/// An accepted monitor request.
struct Monitor {
    notation: Notation,
    /// Whether the reply tells more than updates: what it continues, and how far it goes.
    since: bool,
    /// As the server sent it: the contents of a database, which are not taken apart before they are used.
    reply: Box<RawValue>,
}

/// What the reply to a monitor request says.
struct Contents<'a> {
    /// The updates continue the snapshot instead of replacing it.
    resumed: bool,
    transaction: Option<Uuid>,
    updates: &'a RawValue,
}

impl Driver {
    pub(super) fn new(
        declaration: Declaration,
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        events: broadcast::Sender<Arc<Batch>>,
    ) -> Self {
        let backoff = Backoff::new(declaration.options.backoff_min, declaration.options.backoff_max);
        Self { declaration, shared, commands, events, backoff, attempts: 0, resume: None }
    }

    /// Works until `stop` is cancelled or the last [`Store`](crate::Store) handle is dropped; failures only change the
    /// status.
    ///
    /// # Cancellation
    /// Stopping drops the connection at once: the outcome of transactions that are under way is then unknown, as with
    /// every lost connection.
    pub async fn run(mut self, stop: CancellationToken) {
        let database = self.declaration.database.clone();
        let work = async {
            while !self.commands.is_closed() {
                let why = Arc::new(self.session().await);
                let status = Status::Lost { why: why.clone() };
                let pause = self.backoff.next(fastrand::f64());
                warn!(database = %database, error = %status, retry_in = ?pause, "OVSDB connection lost");
                self.shared.status.send_replace(status);
                refuse_while(&mut self.commands, &why, tokio::time::sleep(pause)).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = work => {}
        }
        self.shared.status.send_replace(Status::Lost { why: Arc::new(LostReason::Stopped) });
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            command.reply.send(Err(TransactError::Stopped)).ok(); // was never sent
        }
    }

    /// One connection from beginning to end; returns why it ended.
    async fn session(&mut self) -> LostReason {
        let why = match &*self.shared.status.borrow() {
            Status::Lost { why } => why.clone(),
            // Not a failure yet, but what a caller that asks for a write now has to hear.
            Status::Connecting | Status::Synced => Arc::new(LostReason::NotYet),
        };
        let remote = self.declaration.remotes.for_attempt(self.attempts).clone();
        self.attempts = self.attempts.wrapping_add(1);
        let resume = self.resume.take();
        let opening = start(&self.declaration, &remote, &self.shared, resume.as_ref());
        let (mut connection, layouts, monitor) = match refuse_while(&mut self.commands, &why, opening).await {
            Ok(started) => started,
            Err(why) => {
                self.resume = resume; // nothing was applied: the snapshot is where it was
                return why;
            }
        };
        let notation = monitor.notation;
        let (resumed, mut last) = match self.begin(monitor, &layouts) {
            Ok(begun) => begun,
            Err(error) => return error.into(),
        };
        info!(database = %self.declaration.database, %remote, resumed, "OVSDB in sync");
        self.shared.status.send_replace(Status::Synced);
        let since = Instant::now();
        let why = self.follow(&mut connection, notation, &mut last).await;
        if since.elapsed() >= STABLE {
            self.backoff.reset();
        }
        // A snapshot that could not be updated is out of step, and a cancelled monitor may mean another database.
        if !matches!(why, LostReason::Update(_) | LostReason::MonitorCanceled { .. }) {
            self.resume = last.map(|transaction| ResumePoint { transaction, layouts });
        }
        why
    }

    /// Publishes what the reply to the monitor request contains; returns whether it continues the snapshot, and the last
    /// transaction in it. Takes the reply, which may be large, so that nothing of it stays while the connection lasts.
    #[expect(clippy::needless_pass_by_value, reason = "it ends here")]
    fn begin(&self, monitor: Monitor, layouts: &[TableLayout]) -> Result<(bool, Option<Uuid>), UpdateError> {
        let before = self.shared.snapshot.borrow().clone();
        let Contents { resumed, transaction, updates } = monitor.contents()?;
        let updates = update::parse(updates, monitor.notation)?;
        if resumed {
            self.shared.counters.resumes.add(1);
            let (snapshot, changes) = before.apply(&updates)?;
            self.publish(snapshot, changes);
        } else {
            self.shared.counters.full_reads.add(1);
            let (snapshot, _) = before.cleared(layouts).apply(&updates)?;
            let changes = snapshot.changes_since(&before);
            self.publish(snapshot, changes);
        }
        Ok((resumed, transaction))
    }

    /// Snapshot first: whoever hears of a change finds it in the snapshot.
    fn publish(&self, snapshot: Snapshot, changes: Vec<RowChange>) {
        let generation = snapshot.generation();
        self.shared.heard.is_now();
        self.shared.snapshot.send_replace(snapshot);
        if !changes.is_empty() {
            // Fails only if there is no subscriber.
            self.events.send(Arc::new(Batch { generation, changes })).ok();
        }
    }

    /// Applies updates and sends transactions until the connection ends.
    async fn follow(
        &mut self,
        connection: &mut Connection,
        notation: Notation,
        last: &mut Option<Uuid>,
    ) -> LostReason {
        let mut waiting: HashMap<u64, Reply> = HashMap::new();
        loop {
            tokio::select! {
                incoming = connection.next() => match incoming {
                    Ok(Incoming::Reply { id, result }) => {
                        if let Some(reply) = waiting.remove(&id) {
                            let generation = self.shared.snapshot.borrow().generation();
                            let answer = result.map(|result| (result, generation)).map_err(TransactError::Request);
                            reply.send(answer).ok(); // fails only if the caller has given up
                        }
                    }
                    Ok(Incoming::Notification { method, params }) => {
                        match self.notified(&method, &params, notation, last) {
                            Ok(()) => {}
                            Err(why) => return why,
                        }
                    }
                    Err(error) => return error.into(), // drops `waiting`: their callers hear of the interruption
                },
                command = self.commands.recv(), if connection.has_room() => match command {
                    Some(command) if command.reply.is_closed() => {} // the caller gave up before anything was sent
                    Some(command) => {
                        waiting.retain(|_, reply| !reply.is_closed());
                        self.shared.counters.transactions.add(1);
                        waiting.insert(connection.request("transact", command.params), command.reply);
                    }
                    None => return LostReason::Stopped, // no handle is left; `run` ends too
                },
            }
        }
    }

    fn notified(
        &self,
        method: &str,
        params: &RawValue,
        notation: Notation,
        last: &mut Option<Uuid>,
    ) -> Result<(), LostReason> {
        let parts: Vec<&RawValue> = serde_json::from_str(params.get()).unwrap_or_default();
        let updates = match (method, &*parts) {
            ("update" | "update2", [_, updates]) => updates,
            ("update3", [_, transaction, updates]) => {
                let text: String =
                    serde_json::from_str(transaction.get()).map_err(|_| UpdateError::malformed(params))?;
                *last = transaction_id(&text);
                updates
            }
            ("update" | "update2" | "update3", _) => return Err(UpdateError::malformed(params).into()),
            ("monitor_canceled", _) => {
                return Err(LostReason::MonitorCanceled { database: self.declaration.database.clone() });
            }
            _ => {
                debug!(method, "Unknown OVSDB notification ignored");
                return Ok(());
            }
        };
        let updates = update::parse(updates, notation)?;
        let before = self.shared.snapshot.borrow().clone();
        let (snapshot, changes) = before.apply(&updates)?;
        self.shared.counters.updates.add(1);
        self.publish(snapshot, changes);
        Ok(())
    }
}

/// Answers commands that there is no connection while `work` runs.
async fn refuse_while<R>(
    commands: &mut mpsc::Receiver<Command>,
    why: &Arc<LostReason>,
    work: impl Future<Output = R>,
) -> R {
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => return result,
            Some(command) = commands.recv() => {
                command.reply.send(Err(TransactError::NotConnected(why.clone()))).ok();
            }
        }
    }
}

/// Connects, checks the schema, and starts the monitor.
async fn start(
    declaration: &Declaration,
    remote: &crate::remote::Remote,
    shared: &Shared,
    resume: Option<&ResumePoint>,
) -> Result<(Connection, Vec<TableLayout>, Monitor), LostReason> {
    let options = &declaration.options;
    let database = || declaration.database.clone();
    let request_failed = |source| match source {
        CallError::Connection(error) => LostReason::Connection(error),
        source => LostReason::Request { database: database(), source },
    };
    let mut connection = Connection::open(remote, options, shared.counters.clone()).await?;
    // Asks the server to tell of changed databases instead of dropping the connection. Old servers do not know it.
    match connection.call("set_db_change_aware", json!([true]), options.request_timeout).await {
        Err(error) if !error.is_unknown_method() => return Err(request_failed(error)),
        _ => {}
    }
    let schema = connection
        .call("get_schema", json!([declaration.database]), options.sync_timeout)
        .await
        .map_err(request_failed)?;
    let schema = DatabaseSchema::parse(&schema)
        .map_err(|source| LostReason::BadSchema { database: database(), source })?;
    let layouts = check(&declaration.specs, &schema).map_err(|mismatches| LostReason::Mismatch {
        database: database(),
        version: schema.version.clone(),
        mismatches,
    })?;
    let from = resume.filter(|point| point.layouts == layouts).map(|point| point.transaction);
    let requests = monitor_requests(&declaration.specs, &layouts);
    let monitor = monitor(&mut connection, declaration, &requests, from, options.sync_timeout)
        .await
        .map_err(request_failed)?;
    Ok((connection, layouts, monitor))
}

/// Asks for the best kind of monitor that the server knows.
async fn monitor(
    connection: &mut Connection,
    declaration: &Declaration,
    requests: &Value,
    from: Option<Uuid>,
    deadline: Duration,
) -> Result<Monitor, CallError> {
    let plain = json!([declaration.database, MONITOR_ID, requests]);
    let since = json!([declaration.database, MONITOR_ID, requests, from.unwrap_or_default().to_string()]);
    match connection.call_for_text("monitor_cond_since", since, deadline).await {
        Err(error) if error.is_unknown_method() => {}
        reply => return Ok(Monitor { notation: Notation::Delta, since: true, reply: reply? }),
    }
    let (notation, reply) = match connection.call_for_text("monitor_cond", plain.clone(), deadline).await {
        Err(error) if error.is_unknown_method() => {
            (Notation::Whole, connection.call_for_text("monitor", plain, deadline).await?)
        }
        reply => (Notation::Delta, reply?),
    };
    Ok(Monitor { notation, since: false, reply })
}

impl Monitor {
    /// Reads the reply: the updates, or `[found, last-txn-id, updates]`.
    fn contents(&self) -> Result<Contents<'_>, UpdateError> {
        if !self.since {
            return Ok(Contents { resumed: false, transaction: None, updates: &self.reply });
        }
        let parts: Result<(bool, String, &RawValue), _> = serde_json::from_str(self.reply.get());
        let (resumed, last, updates) = parts.map_err(|_| UpdateError::malformed(&self.reply))?;
        Ok(Contents { resumed, transaction: transaction_id(&last), updates })
    }
}

/// Databases without history report the id zero: there is nothing to resume from.
fn transaction_id(text: &str) -> Option<Uuid> {
    parse_uuid(text).filter(|id| !id.is_nil())
}

/// One monitor request per table: the declared columns that the server has, each once.
fn monitor_requests(specs: &[TableSpec], layouts: &[TableLayout]) -> Value {
    let mut tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (spec, layout) in specs.iter().zip(layouts) {
        let columns = tables.entry(spec.name).or_default();
        for (column, known) in spec.columns.iter().zip(&layout.columns) {
            if known.is_some() && !columns.contains(&column.name) {
                columns.push(column.name);
            }
        }
    }
    let request = |(table, columns): (&str, Vec<&str>)| (table.to_owned(), json!([{ "columns": columns }]));
    Value::Object(tables.into_iter().map(request).collect())
}
