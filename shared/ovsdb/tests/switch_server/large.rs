//! A database far larger than any node has: what it costs to read and to follow.

use std::sync::Arc;
use std::time::Duration;

use ovsdb::{Columns, Condition, Datum, Event, Function, Operation, Store, TextMap, Transaction};

use crate::server::{DATABASE, DEADLINE, Server, Tree, client, options, spawn};

ovsdb::table! {
    /// A row that lives without being referred to.
    pub struct Queue in "Queue" {
        /// Number, unique in this test.
        dscp: Option<i64>,
        /// Notes.
        external_ids: TextMap,
    }
    /// By the note `name`.
    index by_name = |queue| queue.external_ids.get("name");
}

const ROWS: usize = 100_000;
const ROWS_PER_TRANSACTION: usize = 10_000;

/// Most that may pass until everything is read, where everything else runs beside it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Most processor time that reading may take, unoptimised.
const READING: Duration = Duration::from_secs(10);
/// Most that the process may grow by at any moment while it reads, in KiB: the text twice, where its rows are, and the rows.
const PEAK: u64 = 150 * 1024;
/// Most that it may have grown by when everything is read, in KiB: the rows, and what the allocator keeps.
const LEFT: u64 = 80 * 1024;

fn notes(number: usize) -> Datum {
    Datum::map([("name", format!("queue-{number}")), ("owner", "a test of large databases".to_owned())])
}

fn insert(numbers: std::ops::Range<usize>) -> Transaction {
    let mut transaction = Transaction::default();
    for number in numbers {
        let row = Columns::from([("external_ids".to_owned(), notes(number))]);
        transaction.push(Operation::Insert { table: "Queue".into(), row, name: None });
    }
    transaction
}

/// A figure of this process, in KiB.
fn kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// What this thread, on which the store runs too, has used of a processor.
fn processor_time() -> Duration {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(figures.split(' ').next().unwrap().parse().unwrap())
}

pub(crate) async fn a_hundred_thousand_rows_are_read_and_followed_within_bounds(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (waiting, guard) =
        spawn(Store::builder(server.remote(), DATABASE).options(options()).table::<Queue>());
    waiting.synced(DEADLINE).await.unwrap();
    drop((waiting, guard));
    let mut writer = client(&server.remote()).await;
    for from in (0..ROWS).step_by(ROWS_PER_TRANSACTION) {
        writer.transact(DATABASE, &insert(from..from + ROWS_PER_TRANSACTION)).await.unwrap();
    }

    // The peak counts from here.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, begun) = (kib("VmRSS"), processor_time());
    let (store, _guard) =
        spawn(Store::builder(server.remote(), DATABASE).options(options()).table::<Queue>());
    let snapshot = store.synced(PATIENCE).await.unwrap();
    let took = processor_time().saturating_sub(begun);
    let (peak, left) = (kib("VmHWM") - before, kib("VmRSS").saturating_sub(before));
    println!(
        "{ROWS} rows: read with {took:?} of processor time, {peak} KiB more at the peak, {left} KiB left"
    );
    assert_eq!(snapshot.len::<Queue>(), ROWS);
    assert!(took < READING, "{took:?} of processor time");
    assert!(peak < PEAK, "{peak} KiB more at the peak");
    assert!(left < LEFT, "{left} KiB more after it");

    // One change costs one row, not the table.
    let (_, mut events) = store.subscribe();
    let bytes = store.statistics().bytes_in;
    let (uuid, _) = snapshot.find_one(Queue::by_name(), "queue-77777").unwrap();
    let mut change = Transaction::default();
    change.push(Operation::Update {
        table: "Queue".into(),
        conditions: vec![Condition::new("_uuid", Function::Equal, Datum::scalar(uuid))],
        row: Columns::from([("dscp".to_owned(), Datum::scalar(7_i64))]),
    });
    writer.transact(DATABASE, &change).await.unwrap();
    let event = tokio::time::timeout(DEADLINE, events.next()).await.unwrap().unwrap();
    let Event::Changes(batch) = event else { panic!("resync") };
    let changed: Vec<_> = batch.rows::<Queue>().map(|change| change.uuid).collect();
    assert_eq!(changed, [uuid]);
    let bytes = store.statistics().bytes_in - bytes;
    assert!(bytes < 1000, "{bytes} bytes for one change");
    let now = store.current().unwrap();
    assert_eq!(now.find_one(Queue::by_name(), "queue-77777").unwrap().1.dscp, Some(7));
    assert_eq!(now.len::<Queue>(), ROWS);
}
