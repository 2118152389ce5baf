//! Keeping the snapshot current, over restarts too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use ovsdb::{Columns, Condition, Datum, Event, Events, Function, Operation, Remote, Transaction, Uuid};

use crate::rows::{Bridge, Port, Root, bridge_with_ports};
use crate::server::{
    DEADLINE, Kind, Server, Tree, client, free_port, lost, open, open_ready, open_with, options, path_text,
};

pub(crate) async fn a_transaction_is_in_the_snapshot_when_its_reply_arrives(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    for round in 0..50 {
        let name = format!("br{round}");
        let transaction =
            ovsdb::diff(&bridge_with_ports(&name, None, &["p"]), &store.current().unwrap()).unwrap();
        let committed = store.transact(&transaction).await.unwrap();
        let snapshot = store.last_known();
        assert!(snapshot.generation() >= committed.generation);
        assert!(snapshot.find_one(Bridge::by_name(), name.as_str()).is_some(), "round {round}");
        let observed = store.observed(&committed, DEADLINE).await.unwrap();
        assert_eq!(observed.len::<Bridge>(), 1, "the bridge of the last round is swept");
    }
}

pub(crate) async fn changes_by_others_arrive_as_typed_events(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    let (other, _other_guard) = open_ready(&server).await;
    let (_, mut events) = store.subscribe();

    let want = bridge_with_ports("br", Some("secure"), &["p"]);
    other.transact(&ovsdb::diff(&want, &other.current().unwrap()).unwrap()).await.unwrap();
    let Event::Changes(batch) = next(&mut events).await else { panic!("resync") };
    let bridges: Vec<_> = batch.rows::<Bridge>().collect();
    assert_eq!((bridges.len(), batch.rows::<Port>().count()), (1, 1), "one transaction, one batch");
    assert!(bridges[0].old.is_none());
    assert_eq!(bridges[0].new.as_ref().unwrap().fail_mode.as_deref(), Some("secure"));

    other
        .transact(&ovsdb::diff(&bridge_with_ports("br", None, &["p"]), &other.current().unwrap()).unwrap())
        .await
        .unwrap();
    let Event::Changes(batch) = next(&mut events).await else { panic!("resync") };
    assert_eq!(batch.changes.len(), 1);
    let change = batch.changes[0].row::<Bridge>().unwrap();
    assert_eq!(change.old.unwrap().fail_mode.as_deref(), Some("secure"));
    assert_eq!(change.new.unwrap().fail_mode, None);
    assert!(batch.changes[0].row::<Port>().is_none());
}

async fn next(events: &mut Events) -> Event {
    tokio::time::timeout(DEADLINE, events.next()).await.unwrap().unwrap()
}

/// Bridges by name with their fail mode, as events tell of them.
#[derive(Default, Debug, PartialEq)]
struct Told(BTreeMap<String, Option<String>>);

impl Told {
    fn take(&mut self, event: &Event) {
        let Event::Changes(batch) = event else { panic!("resync") };
        for change in batch.rows::<Bridge>() {
            if let Some(old) = &change.old {
                let known = self.0.remove(&old.name);
                assert_eq!(known.as_ref(), Some(&old.fail_mode), "old value of {}", old.name);
            }
            if let Some(new) = &change.new {
                self.0.insert(new.name.clone(), new.fail_mode.clone());
            }
        }
    }

    fn as_set(&self) -> BTreeSet<(&str, Option<&str>)> {
        self.0.iter().map(|(name, mode)| (name.as_str(), mode.as_deref())).collect()
    }
}

/// Inserts bridges under the root row, each with this many notes.
fn add_bridges(names: impl IntoIterator<Item = String>, notes: usize) -> Transaction {
    let mut transaction = Transaction::default();
    let mut references = Vec::new();
    for (position, name) in names.into_iter().enumerate() {
        let id = format!("b{position}");
        references.push(ovsdb::Atom::NamedUuid(id.clone()));
        let notes = Datum::map((0..notes).map(|note| (format!("note{note}"), "some text")));
        let row =
            Columns::from([("name".to_owned(), Datum::scalar(name)), ("external_ids".to_owned(), notes)]);
        transaction.push(Operation::Insert { table: "Bridge".into(), row, name: Some(id) });
    }
    mutate_root(&mut transaction, ovsdb::Mutator::Insert, Datum::set(references));
    transaction
}

fn mutate_root(transaction: &mut Transaction, mutator: ovsdb::Mutator, value: Datum) {
    let mutations = vec![ovsdb::Mutation { column: "bridges".into(), mutator, value }];
    transaction.push(Operation::Mutate { table: "Open_vSwitch".into(), conditions: vec![], mutations });
}

/// Adds one bridge, removes another and changes a third.
fn add_remove_change(added: &str, removed: Uuid, changed: &str) -> Transaction {
    let mut transaction = add_bridges([added.to_owned()], 0);
    mutate_root(&mut transaction, ovsdb::Mutator::Delete, Datum::scalar(removed));
    transaction.push(Operation::Update {
        table: "Bridge".into(),
        conditions: vec![Condition::new("name", Function::Equal, Datum::scalar(changed))],
        row: Columns::from([("fail_mode".to_owned(), Datum::scalar("secure"))]),
    });
    transaction
}

/// Notes on each bridge that does not change: together far more than what does change.
const NOTES: usize = 50;

/// Follows a server over a restart during which rows were added, removed and changed unseen.
async fn over_a_restart(server: &mut Server, bridges: usize) -> (ovsdb::Statistics, ovsdb::Statistics) {
    server.start("db.sock");
    let (store, _guard) = open_ready(server).await;
    let (_, mut events) = store.subscribe();
    let names =
        ["goes", "changes"].into_iter().map(str::to_owned).chain((0..bridges).map(|n| format!("many{n}")));
    store.transact(&add_bridges(names, NOTES)).await.unwrap();
    let mut told = Told::default();
    told.take(&next(&mut events).await);
    // A clustered server forgets transactions once they hold more atoms than the database: resume from a small one.
    store.transact(&add_bridges(["small".to_owned()], 0)).await.unwrap();
    told.take(&next(&mut events).await);
    // Read everything once more on a fresh store, to know what that costs.
    let (fresh, fresh_guard) = open(server.remote());
    fresh.synced(DEADLINE).await.unwrap();
    let whole = fresh.statistics();
    drop(fresh_guard);

    let before = store.current().unwrap();
    let statistics = store.statistics();
    server.kill();
    lost(&store).await;
    assert!(store.current().is_err());
    assert_eq!(store.last_known().len::<Bridge>(), bridges + 3, "the last contents stay readable");
    let (removed, _) = before.find_one(Bridge::by_name(), "goes").unwrap();
    server.change_unseen(&add_remove_change("comes", removed, "changes")).await;
    server.start("db.sock");
    store.synced(DEADLINE).await.unwrap();

    let event = next(&mut events).await;
    let Event::Changes(batch) = &event else { panic!("resync") };
    assert_eq!(batch.rows::<Bridge>().count(), 3, "nothing but what changed is told");
    let gone = batch.rows::<Bridge>().find(|change| change.new.is_none()).unwrap();
    assert_eq!((gone.uuid, gone.old.unwrap().name.as_str()), (removed, "goes"));
    told.take(&event);
    let after = store.current().unwrap();
    let present: BTreeSet<_> =
        after.rows::<Bridge>().map(|(_, row)| (row.name.as_str(), row.fail_mode.as_deref())).collect();
    assert_eq!(told.as_set(), present);
    assert!(present.contains(&("comes", None)) && present.contains(&("changes", Some("secure"))));
    let kept = |snapshot: &ovsdb::Snapshot| snapshot.find_one(Bridge::by_name(), "many0").unwrap().1.clone();
    assert_eq!(kept(&before), kept(&after));

    let now = store.statistics();
    let difference = ovsdb::Statistics {
        bytes_in: now.bytes_in - statistics.bytes_in,
        full_reads: now.full_reads - statistics.full_reads,
        resumes: now.resumes - statistics.resumes,
        ..now
    };
    (difference, whole)
}

pub(crate) async fn nothing_is_lost_over_the_restart_of_a_standalone_database(tree: Arc<Tree>) {
    let mut server = Server::create(tree, Kind::Standalone);
    let (reconnected, _) = over_a_restart(&mut server, 1).await;
    assert_eq!((reconnected.full_reads, reconnected.resumes), (1, 0));
}

pub(crate) async fn a_clustered_database_is_resumed_with_only_what_changed(tree: Arc<Tree>) {
    let mut server = Server::create(tree, Kind::Clustered);
    let (reconnected, whole) = over_a_restart(&mut server, 50).await;
    assert_eq!((reconnected.full_reads, reconnected.resumes), (0, 1));
    // The schema is read in both cases; the rows are the rest.
    let saved = whole.bytes_in - reconnected.bytes_in;
    assert!(
        saved > 50 * NOTES as u64 * 10,
        "read {} instead of {} bytes",
        reconnected.bytes_in,
        whole.bytes_in
    );
}

pub(crate) async fn a_converted_database_is_read_again(tree: Arc<Tree>) {
    let server = Server::running(tree.clone());
    let (store, _guard) = open_ready(&server).await;
    store.transact(&add_bridges(["stays".to_owned()], 0)).await.unwrap();
    let schema = std::fs::read_to_string(tree.schema()).unwrap();
    let schema = schema.replace("\"datapath_version\"", "\"renamed_in_a_later_version\"");
    let file = server.path("later.ovsschema");
    std::fs::write(&file, schema).unwrap();
    let (mut status, reads) = (store.status(), store.statistics().full_reads);
    status.mark_unchanged();
    let convert = std::thread::spawn({
        let (remote, file) = (server.remote().to_string(), path_text(&file));
        move || tree.run("usr/bin/ovsdb-client", &["convert", &remote, &file])
    });
    tokio::time::timeout(DEADLINE, status.changed()).await.unwrap().unwrap();
    store.synced(DEADLINE).await.unwrap();
    convert.join().unwrap();
    assert!(store.statistics().full_reads > reads);
    assert!(store.current().unwrap().find_one(Bridge::by_name(), "stays").is_some());
}

/// Somebody converts the database to a schema with one more column while this program writes.
pub(crate) async fn an_upgrade_between_writes_loses_none_and_brings_the_optional_column(tree: Arc<Tree>) {
    const WRITES: usize = 60;
    let server = Server::running(tree.clone());
    let (store, _guard) = open_ready(&server).await;
    assert!(!store.current().unwrap().has_column::<Bridge>("imagined"));
    let schema = std::fs::read_to_string(tree.schema()).unwrap();
    let mut schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    schema["tables"]["Bridge"]["columns"]["imagined"] =
        serde_json::json!({"type": {"key": "string", "min": 0}});
    let file = server.path("later.ovsschema");
    std::fs::write(&file, schema.to_string()).unwrap();

    let (mut known, mut refused, mut convert) = (BTreeSet::new(), 0, None);
    for round in 0..WRITES {
        if round == WRITES / 3 {
            let (tree, remote, file) = (tree.clone(), server.remote().to_string(), path_text(&file));
            convert = Some(std::thread::spawn(move || {
                tree.run("usr/bin/ovsdb-client", &["convert", &remote, &file]);
            }));
        }
        // A write without a database waits for it; one that the upgrade cuts off may or may not have happened.
        store.synced(DEADLINE).await.unwrap();
        match store.transact(&add_bridges([format!("br{round}")], 0)).await {
            Ok(_) => drop(known.insert(format!("br{round}"))),
            Err(_) => refused += 1,
        }
    }
    tokio::task::spawn_blocking(|| convert.unwrap().join()).await.unwrap().unwrap();
    let upgraded = |snapshot: &ovsdb::Snapshot| {
        let all = known.iter().all(|name| snapshot.find_one(Bridge::by_name(), name.as_str()).is_some());
        (all && snapshot.has_column::<Bridge>("imagined")).then_some(())
    };
    store.wait_for(DEADLINE, upgraded).await.unwrap();
    assert!(known.len() >= WRITES - 5, "{refused} of {WRITES} writes failed");

    let mut write = Transaction::default();
    write.push(Operation::Update {
        table: "Bridge".into(),
        conditions: vec![Condition::new("name", Function::Equal, Datum::scalar("br0"))],
        row: Columns::from([("imagined".to_owned(), Datum::scalar("now there"))]),
    });
    store.transact(&write).await.unwrap();
    let snapshot = store.current().unwrap();
    let (_, bridge) = snapshot.find_one(Bridge::by_name(), "br0").unwrap();
    assert_eq!(bridge.imagined, Some(Some("now there".to_owned())));
}

pub(crate) async fn a_server_that_is_stopped_is_noticed_and_followed_when_it_goes_on(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let options = ovsdb::Options { probe_interval: Duration::from_millis(100), ..options() };
    drop(open_ready(&server).await);
    let (store, _guard) = open_with(server.remote(), options);
    store.synced(DEADLINE).await.unwrap();
    store.transact(&add_bridges(["before".to_owned()], 0)).await.unwrap();
    server.signal(Signal::SIGSTOP);
    let why = lost(&store).await;
    assert!(why.contains("echo unanswered"), "{why}");
    assert!(store.current().is_err(), "a server that says nothing is not current");
    assert!(store.last_known().find_one(Bridge::by_name(), "before").is_some());
    server.signal(Signal::SIGCONT);
    client(&server.remote())
        .await
        .transact("Open_vSwitch", &add_bridges(["after".to_owned()], 0))
        .await
        .unwrap();
    let both = |snapshot: &ovsdb::Snapshot| {
        let has = |name: &str| snapshot.find_one(Bridge::by_name(), name).is_some();
        (has("before") && has("after")).then_some(())
    };
    store.wait_for(DEADLINE, both).await.unwrap();
    store.synced(DEADLINE).await.unwrap();
}

pub(crate) async fn a_server_reached_over_tcp_is_followed(tree: Arc<Tree>) {
    let mut server = Server::create(tree, Kind::Standalone);
    let port = free_port();
    server.argument(format!("--remote=ptcp:{port}:127.0.0.1"));
    server.start("db.sock");
    let remote: Remote = format!("tcp:127.0.0.1:{port}").parse().unwrap();
    // The server probes too; a short interval on this side shows that probes are answered in time.
    let options = ovsdb::Options { probe_interval: Duration::from_millis(100), ..options() };
    let (store, _guard) = open_with(remote.clone(), options);
    store.synced(DEADLINE).await.unwrap();
    let mut root = Transaction::default();
    root.push(Operation::Insert { table: "Open_vSwitch".into(), row: [].into(), name: None });
    client(&remote).await.transact("Open_vSwitch", &root).await.unwrap();
    store.wait_for(DEADLINE, |snapshot| (!snapshot.is_empty::<Root>()).then_some(())).await.unwrap();
    assert_eq!(store.statistics().connections, 1);
}
