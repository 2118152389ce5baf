//! Transactions and their guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use ovsdb::{
    Claim, Columns, Condition, Datum, Desired, Mutation, Mutator, Operation, Snapshot, Store, TransactError,
    Transaction, Uuid, diff,
};

use crate::rows::{Bridge, Interface, OWNER, Port, Root, bridge_with_ports};
use crate::server::{DEADLINE, Server, Tree, open, open_ready};

/// Plans against a snapshot and applies.
async fn apply(store: &Store, want: &Desired, have: &Snapshot) -> Result<ovsdb::Committed, TransactError> {
    store.transact(&diff(want, have).unwrap()).await
}

fn fail_mode(store: &Store) -> Option<String> {
    store.current().unwrap().find_one(Bridge::by_name(), "br").unwrap().1.fail_mode.clone()
}

fn set_owner(bridge: Uuid, owner: &str) -> Transaction {
    let mut transaction = Transaction::default();
    transaction.push(Operation::Update {
        table: "Bridge".into(),
        conditions: vec![Condition::row(bridge)],
        row: Columns::from([("external_ids".to_owned(), Datum::map([(OWNER, owner)]))]),
    });
    transaction
}

pub(crate) async fn a_stale_plan_loses_the_race_and_the_next_one_wins(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    apply(&store, &bridge_with_ports("br", None, &[]), &store.current().unwrap()).await.unwrap();

    let stale = store.current().unwrap();
    apply(&store, &bridge_with_ports("br", Some("secure"), &[]), &stale).await.unwrap();
    let late = bridge_with_ports("br", Some("standalone"), &[]);
    let error = apply(&store, &late, &stale).await.unwrap_err();
    assert!(matches!(&error, TransactError::LostRace { table, .. } if table == "Bridge"), "{error}");
    assert_eq!(fail_mode(&store).as_deref(), Some("secure"), "the loser has changed nothing");
    apply(&store, &late, &store.current().unwrap()).await.unwrap();
    assert_eq!(fail_mode(&store).as_deref(), Some("standalone"));

    // An owned key that changed and an orphan that changed its owner are lost races too.
    let stale = store.current().unwrap();
    let (uuid, _) = stale.find_one(Bridge::by_name(), "br").unwrap();
    store.transact(&set_owner(uuid, "someone else")).await.unwrap();
    let mut key = Desired::default();
    let claim = Claim::by(Bridge::by_name()).keys(Bridge::external_ids(), [OWNER]);
    let row = Bridge {
        name: "br".into(),
        external_ids: [(OWNER.into(), "new".into())].into(),
        ..Bridge::default()
    };
    key.row(&Arc::new(claim), row);
    let mut orphan = Desired::default();
    orphan.sweep(Bridge::external_ids(), |bridge: &Bridge| bridge.external_ids.contains_key(OWNER));
    for want in [&key, &orphan] {
        let error = apply(&store, want, &stale).await.unwrap_err();
        assert!(error.is_race(), "{error}");
    }
    // A row that is gone is one as well: a mutation of nothing would succeed silently.
    let stale = store.current().unwrap();
    let mut empty = Transaction::default();
    empty.push(Operation::Update {
        table: "Open_vSwitch".into(),
        conditions: vec![],
        row: Columns::from([("bridges".to_owned(), Datum::Set([].into()))]),
    });
    store.transact(&empty).await.unwrap();
    let error = apply(&store, &key, &stale).await.unwrap_err();
    assert!(error.is_race(), "{error}");
}

pub(crate) async fn two_writers_cannot_insert_the_same_unique_row(tree: Arc<Tree>) {
    ovsdb::table! {
        /// Managers have no unique column of their own.
        pub(crate) struct Manager in "Manager" {
            target: String,
            external_ids: BTreeMap<String, String>,
        }
        index by_owner = |manager| manager.external_ids.get(OWNER);
    }
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    let (reader, _reader_guard) = crate::server::spawn(
        Store::builder(server.remote(), crate::server::DATABASE).table::<Manager>().table::<Referrer>(),
    );
    let stale = reader.synced(DEADLINE).await.unwrap();
    let wanted = |target: &str| {
        let mut want = Desired::default();
        let claim = Claim::by(Manager::by_owner()).all().unique_keys(Manager::external_ids(), [OWNER]);
        let external_ids = [(OWNER.to_owned(), "tests".to_owned())].into();
        let manager = want.row(&Arc::new(claim), Manager { target: target.into(), external_ids });
        let root = Claim::only().part(Referrer::manager_options(), |_| false);
        want.row(&Arc::new(root), Referrer { manager_options: [manager].into() });
        want
    };
    apply(&reader, &wanted("tcp:1.1.1.1"), &stale).await.unwrap();
    let error = apply(&reader, &wanted("tcp:2.2.2.2"), &stale).await.unwrap_err();
    assert!(matches!(&error, TransactError::LostRace { table, .. } if table == "Manager"), "{error}");
    apply(&reader, &wanted("tcp:2.2.2.2"), &reader.current().unwrap()).await.unwrap();
    let managers: Vec<_> =
        reader.current().unwrap().rows::<Manager>().map(|(_, row)| row.target.clone()).collect();
    assert_eq!(managers, ["tcp:2.2.2.2"], "the second pass has changed the first one's row");
    drop(store);
}

ovsdb::table! {
    /// The root row, as far as managers are concerned.
    pub(crate) struct Referrer in "Open_vSwitch" {
        manager_options: std::collections::BTreeSet<Uuid>,
    }
}

pub(crate) async fn refused_transactions_say_what_is_wrong(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    let one = |operation: Operation| {
        let mut transaction = Transaction::default();
        transaction.push(operation);
        transaction
    };
    let insert = |table: &str, columns: &[(&str, Datum)]| {
        let row = columns.iter().map(|(column, value)| ((*column).to_owned(), value.clone())).collect();
        one(Operation::Insert { table: table.into(), row, name: None })
    };
    let refused = async |transaction: Transaction| store.transact(&transaction).await.unwrap_err();

    let error = refused(insert("Interface", &[("admin_state", Datum::scalar("sideways"))])).await;
    assert!(
        matches!(&error, TransactError::Constraint { table: Some(table), details }
            if table == "Interface" && details.contains("sideways")),
        "{error}"
    );
    let error = refused(insert("Open_vSwitch", &[])).await;
    assert!(
        matches!(&error, TransactError::Constraint { table: None, details } if details.contains("Open_vSwitch")),
        "{error}"
    );
    let error = refused(insert("Open_vSwitch", &[("nonsense", Datum::scalar("x"))])).await;
    assert!(matches!(&error, TransactError::Refused { error, .. } if error == "unknown column"), "{error}");
    let dangling = Mutation {
        column: "bridges".into(),
        mutator: Mutator::Insert,
        value: Datum::scalar(Uuid::from_u128(1)),
    };
    let mutate =
        Operation::Mutate { table: "Open_vSwitch".into(), conditions: vec![], mutations: vec![dangling] };
    let error = refused(one(mutate)).await;
    assert!(
        matches!(&error, TransactError::Reference { details } if details.contains("table Bridge")),
        "{error}"
    );
}

/// A bridge, port and interface of someone else, and a note of theirs on everything.
async fn add_foreign_things(store: &Store) {
    let notes = || Datum::map([("theirs", "1")]);
    let row =
        |name: &str| Columns::from([("name".into(), Datum::scalar(name)), ("external_ids".into(), notes())]);
    let named = |name: &str| Datum::scalar(ovsdb::Atom::NamedUuid(name.into()));
    let mut transaction = Transaction::default();
    let mut insert = |table: &str, mut columns: Columns, refers: Option<(&str, &str)>, name: &str| {
        columns.extend(refers.map(|(column, target)| (column.to_owned(), named(target))));
        transaction.push(Operation::Insert { table: table.into(), row: columns, name: Some(name.into()) });
    };
    insert("Interface", row("theirs"), None, "i");
    insert("Port", row("theirs"), Some(("interfaces", "i")), "p");
    insert("Bridge", row("br"), Some(("ports", "p")), "b");
    insert("Bridge", row("other"), None, "o");
    let bridges = Datum::set([ovsdb::Atom::NamedUuid("b".into()), ovsdb::Atom::NamedUuid("o".into())]);
    transaction.push(Operation::Mutate {
        table: "Open_vSwitch".into(),
        conditions: vec![],
        mutations: vec![Mutation { column: "bridges".into(), mutator: Mutator::Insert, value: bridges }],
    });
    store.transact(&transaction).await.unwrap();
}

pub(crate) async fn foreign_rows_elements_and_keys_survive(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    add_foreign_things(&store).await;
    let names = |store: &Store| -> (Vec<String>, Vec<String>) {
        let snapshot = store.current().unwrap();
        let mut ports: Vec<_> = snapshot.rows::<Port>().map(|(_, row)| row.name.clone()).collect();
        let mut bridges: Vec<_> = snapshot.rows::<Bridge>().map(|(_, row)| row.name.clone()).collect();
        ports.sort();
        bridges.sort();
        (bridges, ports)
    };
    for (wanted, present) in
        [(&["a", "b"][..], vec!["a", "b", "theirs"]), (&["b"], vec!["b", "theirs"]), (&[], vec!["theirs"])]
    {
        let want = bridge_with_ports("br", Some("secure"), wanted);
        apply(&store, &want, &store.current().unwrap()).await.unwrap();
        let (bridges, ports) = names(&store);
        assert_eq!(
            (bridges, ports),
            (vec!["br".to_owned(), "other".to_owned()], present.iter().map(ToString::to_string).collect())
        );
        let snapshot = store.current().unwrap();
        let (_, bridge) = snapshot.find_one(Bridge::by_name(), "br").unwrap();
        assert_eq!(bridge.ports.len(), present.len());
        let keys: Vec<&str> = bridge.external_ids.keys().map(String::as_str).collect();
        assert_eq!(keys, [OWNER, "theirs"]);
        let owned =
            snapshot.rows::<Interface>().filter(|(_, row)| row.external_ids.contains_key(OWNER)).count();
        assert_eq!(owned, wanted.len());
    }
}

pub(crate) async fn a_second_pass_is_empty_and_not_sent(tree: Arc<Tree>) {
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    add_foreign_things(&store).await;
    let want = bridge_with_ports("br", Some("secure"), &["a", "b"]);
    apply(&store, &want, &store.current().unwrap()).await.unwrap();
    let (before, generation) = (store.statistics(), store.current().unwrap().generation());
    let again = diff(&want, &store.current().unwrap()).unwrap();
    assert!(again.is_empty(), "{again}");
    store.transact(&again).await.unwrap();
    assert_eq!(store.statistics().transactions, before.transactions);

    // A restart of the writer writes nothing either.
    let (restarted, _restarted_guard) = open(server.remote());
    let snapshot = restarted.synced(DEADLINE).await.unwrap();
    assert!(diff(&want, &snapshot).unwrap().is_empty());
    assert_eq!(store.current().unwrap().generation(), generation);
    assert_eq!(snapshot.len::<Root>(), 1);
}
