//! A server whose every word is the test's.

use std::time::Duration;

use ovsdb::{Decoder, Options, Remote, Status, Store, StoreBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longer than anything here takes on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

ovsdb::table! {
    /// The only table of the fake schema.
    pub(crate) struct Thing in "Thing" {
        /// Name.
        name: String,
        /// A set, for differences.
        numbers: std::collections::BTreeSet<i64>,
        /// A column that appears only in the later schema.
        optional later: Option<String>,
    }
    /// By name.
    index by_name = |thing| Some(thing.name.as_str());
}

/// Listens.
pub(crate) struct Fake {
    listener: UnixListener,
    directory: TempDir,
}

/// One connection.
pub(crate) struct Peer {
    stream: UnixStream,
    decoder: Decoder,
}

/// The schema, with or without the later column.
pub(crate) fn schema(with_later: bool) -> Value {
    let mut columns = json!({
        "name": {"type": "string"},
        "numbers": {"type": {"key": "integer", "min": 0, "max": "unlimited"}},
    });
    if with_later {
        columns["later"] = json!({"type": {"key": "string", "min": 0}});
    }
    json!({"name": "db", "version": "1.0.0", "tables": {"Thing": {"columns": columns, "isRoot": true}}})
}

/// A UUID on the wire.
pub(crate) fn key(number: u128) -> String {
    ovsdb::Uuid::from_u128(number).to_string()
}

impl Fake {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("db.sock")).unwrap();
        Self { listener, directory }
    }

    /// A store of the fake table that is connected to this server.
    pub(crate) fn store(&self, options: Options) -> (Store, DropGuard) {
        self.store_of(options, StoreBuilder::table::<Thing>)
    }

    /// A store of any tables that is connected to this server.
    pub(crate) fn store_of(
        &self,
        options: Options,
        tables: impl FnOnce(StoreBuilder) -> StoreBuilder,
    ) -> (Store, DropGuard) {
        let remote = Remote::Unix(self.directory.path().join("db.sock"));
        let (store, driver) = tables(Store::builder(remote, "db").options(options)).build();
        let stop = CancellationToken::new();
        tokio::spawn(driver.run(stop.clone()));
        (store, stop.drop_guard())
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = tokio::time::timeout(DEADLINE, self.listener.accept()).await.unwrap().unwrap();
        Peer { stream, decoder: Decoder::new(1 << 20) }
    }

    /// Accepts a connection and answers everything up to the monitor request, which is returned.
    pub(crate) async fn accept_monitor(&self, schema: &Value) -> (Peer, Value) {
        let mut peer = self.accept().await;
        let request = peer.expect("set_db_change_aware").await;
        peer.reply(&request, &json!({})).await;
        let request = peer.expect("get_schema").await;
        peer.reply(&request, schema).await;
        let request = peer.expect("monitor_cond_since").await;
        (peer, request)
    }

    /// Accepts a connection and tells it that these are all rows, as of a transaction.
    pub(crate) async fn accept_and_fill(&self, transaction: u128, rows: &Value) -> Peer {
        let (mut peer, request) = self.accept_monitor(&schema(false)).await;
        peer.reply(&request, &json!([false, key(transaction), {"Thing": rows}])).await;
        peer
    }
}

impl Peer {
    /// The next request; probes are answered on the way.
    pub(crate) async fn receive(&mut self) -> Value {
        let request = async {
            loop {
                match self.decoder.next_frame().unwrap() {
                    Some(frame) if frame["method"] == "echo" => {
                        let params = frame["params"].clone();
                        self.reply(&frame, &params).await;
                    }
                    Some(frame) => return frame,
                    None => {
                        let length = self.stream.read_buf(self.decoder.buffer()).await.unwrap();
                        assert_ne!(length, 0, "the store closed the connection");
                    }
                }
            }
        };
        tokio::time::timeout(DEADLINE, request).await.unwrap()
    }

    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let request = self.receive().await;
        assert_eq!(request["method"], method, "{request}");
        request
    }

    pub(crate) async fn reply(&mut self, request: &Value, result: &Value) {
        self.send(json!({"id": request["id"], "result": result, "error": null}).to_string().as_bytes()).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value) {
        self.send(json!({"id": request["id"], "error": "unknown method"}).to_string().as_bytes()).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"id": null, "method": method, "params": params}).to_string().as_bytes()).await;
    }

    /// An `update3` as of a transaction.
    pub(crate) async fn update(&mut self, transaction: u128, rows: Value) {
        self.notify("update3", json!(["store", key(transaction), {"Thing": rows}])).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

/// Options that make a test quick.
pub(crate) fn options() -> Options {
    Options {
        backoff_min: Duration::from_millis(5),
        backoff_max: Duration::from_millis(20),
        ..Options::default()
    }
}

/// Waits for a lost status, and returns its text.
pub(crate) async fn lost(store: &Store) -> String {
    let mut status = store.status();
    let lost = status.wait_for(|status| matches!(status, Status::Lost { .. }));
    tokio::time::timeout(DEADLINE, lost).await.unwrap().unwrap().to_string()
}

/// Names of the rows that are there once `count` are.
pub(crate) async fn names(store: &Store, count: usize) -> Vec<String> {
    let found = store.wait_for(DEADLINE, |snapshot| {
        let names: Vec<String> = snapshot.rows::<Thing>().map(|(_, row)| row.name.clone()).collect();
        (names.len() == count).then_some(names)
    });
    found.await.unwrap()
}
