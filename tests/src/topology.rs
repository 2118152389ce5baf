//! Captured runs of upstream: what a node was told, and what was in its Northbound database.
//!
//! In: a folder of `tests/conformance/topology`. Out: the inputs of the planners, and the database's rows as a
//! transaction that puts them into a real one. [`world`] runs the agent that writes.

pub mod churn;
pub mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use causeway_api::annotation::network as annotation;
use causeway_api::nad::{Config, GatewayMode};
use causeway_dpu_agent::topology::cluster::Cluster;
use causeway_dpu_agent::topology::exit::Exit;
use causeway_dpu_agent::topology::network::Network;
use causeway_dpu_agent::topology::node::ZoneNode;
use causeway_dpu_agent::topology::plan::{Plan, Ways, ZoneOptions, plan, service_addresses, zone};
use causeway_dpu_agent::topology::rows::Rows;
use causeway_dpu_agent::topology::service::{DefaultService, ServiceName};
use causeway_dpu_agent::topology::write::Zone;
use ovsdb::{Atom, AtomicType, ColumnSchema, Columns, DatabaseSchema, Datum, Operation, Transaction};
use serde_json::{Map, Value};

/// A captured run on its first node.
#[derive(Debug)]
pub struct CapturedRun {
    /// Settings of the cluster.
    pub cluster: Cluster,
    /// Its networks, the default one first.
    pub networks: Vec<Network>,
    /// The node.
    pub node: ZoneNode,
    /// The other nodes.
    pub remotes: Vec<ZoneNode>,
    /// The Services that networks reach; none where network segmentation was off.
    pub services: Option<Vec<DefaultService>>,
    database: Value,
}

fn folder(run: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/topology")).join(run)
}

fn read(run: &str, file: &str) -> anyhow::Result<Value> {
    let path = folder(run).join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// The Services of a run. Where network segmentation was off there is no such file.
fn services(run: &str) -> anyhow::Result<Option<Vec<DefaultService>>> {
    if !folder(run).join("services.json").exists() {
        return Ok(None);
    }
    let mut services = Vec::new();
    for service in items(&read(run, "services.json")?) {
        let name =
            service.get("service").and_then(Value::as_str).context("a Service without a name")?.parse()?;
        let addresses = serde_json::from_value(service.get("clusterIPs").cloned().unwrap_or_default())?;
        services.push(DefaultService { name, addresses });
    }
    Ok(Some(services))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl CapturedRun {
    /// Reads a run.
    ///
    /// # Errors
    /// A file is missing or is not what it should be.
    pub fn load(run: &str) -> anyhow::Result<Self> {
        let cluster = world::cluster();
        let mut nodes = Vec::new();
        for node in items(&read(run, "nodes.json")?) {
            let meta = node.get("metadata").context("a node without metadata")?;
            let name = meta.get("name").and_then(Value::as_str).context("a node without name")?;
            let annotations = meta.get("annotations").cloned().unwrap_or_default();
            nodes.push(ZoneNode::of(name, &serde_json::from_value(annotations)?));
        }
        let mut networks = vec![Network::default_network(&cluster)];
        for nad in items(&read(run, "nads.json")?) {
            let text = |key: &str| nad.get(key).and_then(Value::as_str).unwrap_or_default();
            let annotations: BTreeMap<String, String> =
                serde_json::from_value(nad.get("annotations").cloned().unwrap_or_default())?;
            let annotated = |key: &str| annotations.get(key).map(String::as_str).unwrap_or_default();
            let config = Config::read(text("config"), text("nad"), GatewayMode::Shared)?;
            let id = annotation::read_network_id(annotated(annotation::NETWORK_ID))?;
            let keys = annotation::read_tunnel_keys(annotated(annotation::TUNNEL_KEYS))?;
            networks.push(Network::of(&config, id.try_into()?, &keys, &cluster)?);
        }
        ensure!(!nodes.is_empty(), "{run} has no node");
        let node = nodes.remove(0);
        let services = services(run)?;
        Ok(Self { cluster, networks, node, remotes: nodes, services, database: read(run, "nb.json")? })
    }

    /// A made-up run with both families: two nodes, a Layer3 and a Layer2 primary network, a Service, multicast on.
    ///
    /// # Errors
    /// One of its values is not what it should be.
    pub fn dual_stack() -> anyhow::Result<Self> {
        let mut run = Self::load("01-default-v4")?;
        run.cluster.subnets = vec!["10.128.0.0/14".parse()?, "fd01::/48".parse()?];
        run.cluster.multicast = true;
        run.networks = vec![Network::default_network(&run.cluster)];
        for (name, id, keys, subnets) in [
            ("layer3", 1, &[][..], r#""topology":"layer3","subnets":"10.200.0.0/16/24,fd20::/48/64""#),
            (
                "layer2",
                2,
                &[16_711_685, 16_715_779],
                r#""topology":"layer2","subnets":"10.201.0.0/16,fd21::/64""#,
            ),
        ] {
            let config = format!(
                r#"{{"type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns/{name}","role":"primary",{subnets}}}"#
            );
            let config = Config::read(&config, &format!("ns/{name}"), GatewayMode::Shared)?;
            run.networks.push(Network::of(&config, u32::try_into(id)?, keys, &run.cluster)?);
        }
        let addresses = vec!["fd00:10:96::a".parse()?, "10.96.0.10".parse()?];
        run.services =
            Some(vec![DefaultService { name: ServiceName::new("kube-system", "kube-dns"), addresses }]);
        let node = |n: u8| {
            let annotations = [
                ("node-id", (n + 1).to_string()),
                ("node-chassis-id", format!("chassis-{n}")),
                (
                    "node-subnets",
                    format!(
                        r#"{{"default":["10.128.{n}.0/24","fd01:0:0:{n}::/64"],"layer3":["10.200.{n}.0/24","fd20:0:0:{n}::/64"]}}"#
                    ),
                ),
                (
                    "l3-gateway-config",
                    format!(
                        r#"{{"default":{{"mode":"shared","bridge-id":"br-ex","interface-id":"br-ex_node{n}","mac-address":"02:42:ac:1e:00:0{n}","ip-addresses":["172.30.0.{n}/24","fc00::{n}/64"],"next-hops":["172.30.0.254","fc00::fe"],"node-port-enable":"true"}}}}"#
                    ),
                ),
                (
                    "node-transit-switch-port-ifaddr",
                    format!(r#"{{"ipv4":"100.88.0.{0}/16","ipv6":"fd97::{0}/64"}}"#, n + 1),
                ),
                ("host-cidrs", format!(r#"["172.30.0.{n}/24","fc00::{n}/64"]"#)),
                ("node-encap-ips", format!(r#"["172.30.0.{n}"]"#)),
            ];
            let annotations = annotations.map(|(key, value)| (format!("k8s.ovn.org/{key}"), value));
            ZoneNode::of(&format!("node{n}"), &annotations.into_iter().collect())
        };
        (run.node, run.remotes) = (node(1), vec![node(2), node(3)]);
        Ok(run)
    }

    /// The zone of its first node.
    #[must_use]
    pub fn zone(&self) -> Zone {
        let options = ZoneOptions { northd_backoff_ms: Some(300), ct_inv_match: None };
        Zone {
            node: self.node.name.clone(),
            default_join: self.cluster.join.clone(),
            rows: zone(&self.cluster, self.node.name.as_str(), &options),
        }
    }

    /// The plan of a network.
    #[must_use]
    pub fn plan(&self, network: &Network) -> Plan {
        let exit = Exit::of_node(network, &self.node);
        let services = self.services.as_deref().unwrap_or_default();
        plan(&self.cluster, network, &self.node, Ways { exit: &exit, services }, &self.remotes)
    }

    /// The sets of addresses of Services.
    #[must_use]
    pub fn service_addresses(&self) -> Rows {
        let sets = self.services.as_ref().map(|services| service_addresses(&self.cluster, services));
        sets.unwrap_or_default()
    }

    /// What fills an empty database with the captured rows. Tables and columns that the server does not know are left out.
    ///
    /// # Errors
    /// A row cannot be one of this database.
    pub fn fill(&self, schema: &DatabaseSchema) -> anyhow::Result<Transaction> {
        let mut transaction = Transaction::default();
        let tables = self.database.as_object().context("a database is an object")?;
        for (table, rows) in tables {
            let Some(known) = schema.tables.get(table) else { continue };
            for row in items(rows) {
                let row = row.as_object().context("a row is an object")?;
                let columns = columns(row, &known.columns).with_context(|| format!("a row of {table}"))?;
                if table == "NB_Global" {
                    let (table, conditions) = (table.clone(), Vec::new());
                    transaction.push(Operation::Update { table, conditions, row: columns });
                    continue;
                }
                let name = row.get("_uuid").and_then(Value::as_str).map(named);
                transaction.push(Operation::Insert { table: table.clone(), row: columns, name });
            }
        }
        Ok(transaction)
    }

    /// How many rows the captured database has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.database.as_object().map_or(0, |tables| tables.values().map(|rows| items(rows).len()).sum())
    }

    /// `TABLE:COLUMN` of what the captured database has and a server's does not know, so that [`Self::fill`] leaves it out.
    #[must_use]
    pub fn unknown(&self, schema: &DatabaseSchema) -> BTreeSet<String> {
        let mut unknown = BTreeSet::new();
        for (table, rows) in self.database.as_object().into_iter().flatten() {
            let known = schema.tables.get(table).map(|table| &table.columns);
            let columns = items(rows).iter().filter_map(Value::as_object).flat_map(Map::keys);
            let lacks = |column: &&String| {
                *column != "_uuid" && known.is_none_or(|known| !known.contains_key(column.as_str()))
            };
            unknown.extend(columns.filter(lacks).map(|column| format!("{table}:{column}")));
        }
        unknown
    }

    /// Names of rows in a table of the captured database.
    #[must_use]
    pub fn names(&self, table: &str) -> BTreeSet<&str> {
        let rows = self.database.get(table).map_or(&[][..], items).iter();
        rows.filter_map(|row| row.get("name").and_then(Value::as_str)).collect()
    }
}

fn named(uuid: &str) -> String {
    format!("row{}", uuid.replace('-', ""))
}

fn columns(row: &Map<String, Value>, known: &BTreeMap<String, ColumnSchema>) -> anyhow::Result<Columns> {
    let mut columns = Columns::new();
    for (column, value) in row {
        let Some(schema) = known.get(column) else { continue };
        let one = |value: &Value| atom(value, schema.elements.key);
        let datum = match (value, schema.elements.value) {
            (Value::Object(pairs), Some(kind)) => {
                let pairs = pairs.iter().map(|(key, value)| Ok((Atom::from(key), atom(value, kind)?)));
                Datum::Map(pairs.collect::<anyhow::Result<_>>()?)
            }
            (Value::Array(items), _) => {
                Datum::Set(items.iter().map(one).collect::<anyhow::Result<BTreeSet<_>>>()?)
            }
            (value, _) => Datum::scalar(one(value)?),
        };
        columns.insert(column.clone(), datum);
    }
    Ok(columns)
}

fn atom(value: &Value, kind: AtomicType) -> anyhow::Result<Atom> {
    let wrong = || format!("{value} is no {kind:?}");
    Ok(match kind {
        AtomicType::Integer => Atom::Integer(value.as_i64().with_context(wrong)?),
        AtomicType::Real => Atom::Real(value.as_f64().with_context(wrong)?),
        AtomicType::Boolean => Atom::Boolean(value.as_bool().with_context(wrong)?),
        AtomicType::String => Atom::String(value.as_str().with_context(wrong)?.to_owned()),
        AtomicType::Uuid => Atom::NamedUuid(named(value.as_str().with_context(wrong)?)),
    })
}
