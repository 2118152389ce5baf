//! Coming to a connection, or not.

use std::sync::Arc;

use ovsdb::{AtomicType, NotCurrent, Store, TransactError};

use crate::rows::{Bridge, bridge_with_ports};
use crate::server::{DATABASE, DEADLINE, Kind, Server, Tree, client, lost, open, open_ready, options, spawn};

pub(crate) async fn a_missing_socket_is_named_and_its_appearance_noticed(tree: Arc<Tree>) {
    let mut server = Server::create(tree, Kind::Standalone);
    let (store, _guard) = open(server.remote());
    let why = lost(&store).await;
    assert!(why.contains("db.sock does not exist"), "{why}");
    assert!(matches!(store.current(), Err(NotCurrent::Lost(_))));
    let transaction = ovsdb::diff(&bridge_with_ports("br", None, &[]), &store.last_known());
    assert_eq!(transaction, Err(ovsdb::DiffError::NotRead));
    let mut one = ovsdb::Transaction::default();
    one.push(ovsdb::Operation::Delete { table: "Bridge".into(), conditions: vec![] });
    assert!(matches!(store.transact(&one).await, Err(TransactError::NotConnected(_))));

    server.start("db.sock");
    store.synced(DEADLINE).await.unwrap();
    assert!(store.current().unwrap().is_empty::<Bridge>());
}

pub(crate) async fn a_socket_that_nobody_serves_is_called_refused(tree: Arc<Tree>) {
    let mut server = Server::running(tree);
    drop(open_ready(&server).await);
    server.kill(); // leaves the socket file behind
    let (store, _guard) = open(server.remote());
    let why = lost(&store).await;
    assert!(why.contains("refuses connections"), "{why}");
}

pub(crate) async fn a_missing_database_is_named(tree: Arc<Tree>) {
    let server = Server::running(tree);
    drop(open_ready(&server).await);
    let (store, _guard) = spawn(Store::builder(server.remote(), "OVN_Northbound").options(options()));
    let why = lost(&store).await;
    assert!(why.contains("OVN_Northbound") && why.contains("unknown database"), "{why}");
}

pub(crate) async fn a_missing_column_is_named_and_an_optional_one_is_none(tree: Arc<Tree>) {
    ovsdb::table! {
        /// A bridge with columns that no version has, or of another type.
        pub(crate) struct Odd in "Bridge" {
            name: i64,
            no_such_column: String,
        }
    }
    let server = Server::running(tree);
    let (store, _guard) = open_ready(&server).await;
    let bridge = ovsdb::diff(&bridge_with_ports("br", None, &[]), &store.current().unwrap()).unwrap();
    store.transact(&bridge).await.unwrap();
    let snapshot = store.current().unwrap();
    assert!(!snapshot.has_column::<Bridge>("imagined"));
    assert_eq!(snapshot.find_one(Bridge::by_name(), "br").unwrap().1.imagined, None);

    let (odd, _guard) = spawn(Store::builder(server.remote(), DATABASE).options(options()).table::<Odd>());
    let why = lost(&odd).await;
    assert!(why.contains("column Bridge.no_such_column is missing"), "{why}");
    assert!(why.contains("column Bridge.name is string, but integer was declared"), "{why}");
}

pub(crate) async fn databases_and_schemas_can_be_listed(tree: Arc<Tree>) {
    let server = Server::running(tree);
    drop(open_ready(&server).await);
    let mut client = client(&server.remote()).await;
    assert!(client.databases().await.unwrap().contains(&DATABASE.to_owned()));
    let schema = client.schema(DATABASE).await.unwrap();
    assert_eq!(schema.tables["Bridge"].columns["name"].elements.key, AtomicType::String);
    assert!(schema.tables["Open_vSwitch"].is_root && !schema.tables["Port"].is_root);
}
