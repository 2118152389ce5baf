//! Changes what Open vSwitch is configured to have, over its own protocol.
//!
//! Each change returns when its transaction was about to be sent.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_rig::Ovs;
use ovsdb::{Atom, Condition, Datum, Mutation, Mutator, Operation, Transaction, Uuid};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the database may take to be read.
const SYNC: Duration = Duration::from_secs(10);

ovsdb::table! {
    /// A bridge, as far as the bench changes it.
    struct Bridge in "Bridge" {
        /// Name.
        name: String,
        /// Its ports.
        ports: BTreeSet<Uuid>,
    }
    index by_name = |bridge| Some(bridge.name.as_str());
}

ovsdb::table! {
    /// A port, as far as the bench changes it.
    struct Port in "Port" {
        /// Name.
        name: String,
    }
    index by_name = |port| Some(port.name.as_str());
}

/// A connection to a switch's database.
pub struct Switch {
    store: ovsdb::Store,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Switch {
    /// Connects.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn open(ovs: &Ovs) -> anyhow::Result<Self> {
        let remote: ovsdb::Remotes = format!("unix:{}", ovs.socket().display()).parse()?;
        let builder = ovsdb::Store::builder(remote, "Open_vSwitch").table::<Bridge>().table::<Port>();
        let (store, driver) = builder.build();
        let stop = CancellationToken::new();
        let running = tokio::spawn(driver.run(stop.clone()));
        store.synced(SYNC).await?;
        Ok(Self { store, stop, running })
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// It had broken.
    pub async fn close(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.running.await.context("the bench's own connection to Open vSwitch")
    }

    /// Names a bridge's uplink in its `external_ids`, or takes the name away.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn name_uplink(&self, bridge: &str, uplink: Option<&str>) -> anyhow::Result<Instant> {
        const KEY: &str = "bridge-uplink";
        let mutation = match uplink {
            Some(uplink) => mutation("external_ids", Mutator::Insert, Datum::map([(KEY, uplink)])),
            None => mutation("external_ids", Mutator::Delete, Datum::set([KEY])),
        };
        self.send([mutate("Bridge", self.bridge(bridge)?, mutation)]).await
    }

    /// Adds a port of one interface to a bridge, as `ovs-vsctl add-port` does.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn add_port(&self, bridge: &str, port: &str) -> anyhow::Result<Instant> {
        let insert = |table: &str, name: &str, columns: Vec<(&str, Datum)>| Operation::Insert {
            table: table.to_owned(),
            row: columns.into_iter().map(|(column, value)| (column.to_owned(), value)).collect(),
            name: Some(name.to_owned()),
        };
        let named = |name: &str| Datum::set([Atom::NamedUuid(name.to_owned())]);
        let interface = insert("Interface", "interface", vec![("name", Datum::scalar(port))]);
        let row = vec![("name", Datum::scalar(port)), ("interfaces", named("interface"))];
        let row = insert("Port", "port", row);
        let attach =
            mutate("Bridge", self.bridge(bridge)?, mutation("ports", Mutator::Insert, named("port")));
        self.send([interface, row, attach]).await
    }

    /// Takes a port off a bridge, as `ovs-vsctl del-port` does: what nobody refers to goes by itself.
    ///
    /// # Errors
    /// The server refuses, or there is no such port.
    pub async fn remove_port(&self, bridge: &str, port: &str) -> anyhow::Result<Instant> {
        let mutation = mutation("ports", Mutator::Delete, Datum::set([self.port(port)?]));
        self.send([mutate("Bridge", self.bridge(bridge)?, mutation)]).await
    }

    /// Puts the untagged packets of a port into a VLAN, or into none.
    ///
    /// # Errors
    /// The server refuses, or there is no such port.
    pub async fn set_tag(&self, port: &str, tag: Option<i64>) -> anyhow::Result<Instant> {
        let row = [("tag".to_owned(), Datum::set(tag))].into();
        let conditions = vec![Condition::row(self.port(port)?)];
        self.send([Operation::Update { table: "Port".to_owned(), conditions, row }]).await
    }

    async fn send(&self, operations: impl IntoIterator<Item = Operation>) -> anyhow::Result<Instant> {
        let mut transaction = Transaction::default();
        operations.into_iter().for_each(|operation| transaction.push(operation));
        let start = Instant::now();
        let committed = self.store.transact(&transaction).await?;
        // The next change looks up rows that this one made.
        self.store.observed(&committed, SYNC).await?;
        Ok(start)
    }

    fn bridge(&self, name: &str) -> anyhow::Result<Uuid> {
        let snapshot = self.store.current()?;
        let found = snapshot.find_one(Bridge::by_name(), name).map(|(uuid, _)| uuid);
        found.with_context(|| format!("there is no bridge {name}"))
    }

    fn port(&self, name: &str) -> anyhow::Result<Uuid> {
        let snapshot = self.store.current()?;
        let found = snapshot.find_one(Port::by_name(), name).map(|(uuid, _)| uuid);
        found.with_context(|| format!("there is no port {name}"))
    }
}

fn mutation(column: &str, mutator: Mutator, value: Datum) -> Mutation {
    Mutation { column: column.to_owned(), mutator, value }
}

fn mutate(table: &str, row: Uuid, mutation: Mutation) -> Operation {
    let conditions = vec![Condition::row(row)];
    Operation::Mutate { table: table.to_owned(), conditions, mutations: vec![mutation] }
}
