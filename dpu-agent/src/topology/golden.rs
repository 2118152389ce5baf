//! Captured runs and planned rows in one form, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use causeway_api::annotation::network as annotation;
use causeway_api::nad::{Config, GatewayMode};
use ovsdb::{Arity, Atom, Datum, Row};
use serde_json::{Map, Value, json};

use super::cluster::{ACL_LOG_RATE, COPP_RATE, Cluster};
use super::exit::Exit;
use super::mark;
use super::network::Network;
use super::node::ZoneNode;
use super::plan::{Plan, Ways, ZoneOptions, plan, service_addresses, zone};
use super::rows::{AclHolder, Rows};
use super::service::{self, DefaultService};

/// Rows of each table as text, one line each: what they hold, with names in place of references.
pub(super) type Tables = BTreeMap<String, BTreeSet<String>>;

/// The settings that the captured runs were started with.
pub(super) fn captured_cluster() -> Cluster {
    let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Cluster {
        subnets: nets(&["10.128.0.0/14"]),
        join: nets(&["100.64.0.0/16", "fd98::/64"]),
        masquerade: nets(&["169.254.0.0/17", "fd69::/112"]),
        mtu: 1400,
        node_ports: true,
        port_range: Some("32768-60999".to_owned()),
        multicast: false,
        copp_rate: COPP_RATE,
        acl_log_rate: ACL_LOG_RATE,
        geneve_port: None,
    }
}

/// A captured run.
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) cluster: Cluster,
    pub(super) networks: Vec<Network>,
    pub(super) node: ZoneNode,
    pub(super) remotes: Vec<ZoneNode>,
    /// The Services that networks reach; none where network segmentation was off.
    pub(super) services: Option<Vec<DefaultService>>,
}

fn read(run: &str, file: &str) -> Value {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/topology"));
    let path = folder.join(run).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn text_pairs(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// The Services of a run, as the API server had them.
fn services(run: &str) -> Option<Vec<DefaultService>> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/conformance/topology"));
    if !folder.join(run).join("services.json").exists() {
        return None;
    }
    let services = read(run, "services.json");
    let service = |service: &Value| DefaultService {
        name: service["service"].as_str().unwrap().parse().unwrap(),
        addresses: serde_json::from_value(service["clusterIPs"].clone()).unwrap(),
    };
    Some(services.as_array().unwrap().iter().map(service).collect())
}

/// A captured Northbound database.
pub(super) fn raw(run: &str) -> Value {
    read(run, "nb.json")
}

impl Run {
    pub(super) fn load(name: &'static str) -> Self {
        let cluster = captured_cluster();
        let nodes = read(name, "nodes.json");
        let mut nodes: Vec<ZoneNode> = nodes
            .as_array()
            .unwrap()
            .iter()
            .map(|node| &node["metadata"])
            .map(|meta| ZoneNode::of(meta["name"].as_str().unwrap(), &text_pairs(&meta["annotations"])))
            .collect();
        let at = nodes.iter().position(|node| node.name.as_str() == "node1").unwrap();
        let node = nodes.remove(at);
        let mut networks = vec![Network::default_network(&cluster)];
        for nad in read(name, "nads.json").as_array().unwrap() {
            let annotations = text_pairs(&nad["annotations"]);
            let config = Config::read(
                nad["config"].as_str().unwrap(),
                nad["nad"].as_str().unwrap(),
                GatewayMode::Shared,
            );
            let id = annotation::read_network_id(&annotations[annotation::NETWORK_ID]).unwrap();
            let keys = annotation::read_tunnel_keys(&annotations[annotation::TUNNEL_KEYS]).unwrap();
            let network = Network::of(&config.unwrap(), id.try_into().unwrap(), &keys, &cluster);
            networks.push(network.unwrap());
        }
        Self { name, cluster, networks, node, remotes: nodes, services: services(name) }
    }

    pub(super) fn plan(&self, network: &Network) -> Plan {
        let exit = Exit::of_node(network, &self.node);
        let services = self.services.as_deref().unwrap_or_default();
        plan(&self.cluster, network, &self.node, Ways { exit: &exit, services }, &self.remotes)
    }

    /// The zone's own rows, with the settings that the runs' northd was started with.
    pub(super) fn zone(&self) -> Rows {
        let options = ZoneOptions { northd_backoff_ms: Some(300), ct_inv_match: None };
        zone(&self.cluster, self.node.name.as_str(), &options)
    }

    /// Sets of addresses of Services.
    pub(super) fn service_addresses(&self) -> Rows {
        let sets = self.services.as_ref().map(|services| service_addresses(&self.cluster, services));
        sets.unwrap_or_default()
    }

    /// Everything that is planned.
    pub(super) fn rows(&self) -> Rows {
        let mut rows = self.zone();
        rows.extend(self.service_addresses());
        for network in &self.networks {
            let plan = self.plan(network);
            assert_eq!(plan.problems, BTreeMap::new(), "{} {}", self.name, network.name);
            rows.extend(plan.rows());
        }
        rows
    }

    /// Everything that was captured.
    pub(super) fn captured(&self) -> Tables {
        captured(&read(self.name, "nb.json"))
    }

    pub(super) fn captured_chassis(&self) -> Value {
        read(self.name, "sb.json")
    }
}

/// Columns that show a row's children; each child's line tells its parent instead.
const CHILDREN: &[(&str, &str)] = &[
    ("Logical_Switch", "ports"),
    ("Logical_Switch", "acls"),
    ("Logical_Router", "ports"),
    ("Logical_Router", "static_routes"),
    ("Logical_Router", "policies"),
    ("Logical_Router", "nat"),
    ("Logical_Router_Port", "gateway_chassis"),
    ("Port_Group", "acls"),
    ("Meter", "bands"),
];

/// Columns that are others', or are northd's answers.
const FOREIGN: &[(&str, &[&str])] = &[
    ("Logical_Switch", &["load_balancer"]),
    ("Logical_Router", &["load_balancer"]),
    ("Logical_Switch_Port", &["up"]),
    ("Logical_Router_Port", &["status"]),
    (
        "NB_Global",
        &["nb_cfg", "sb_cfg", "hv_cfg", "nb_cfg_timestamp", "sb_cfg_timestamp", "hv_cfg_timestamp"],
    ),
];

const NORTHD_OPTIONS: &[&str] = &[
    "mac_prefix",
    "max_tunid",
    "northd_internal_version",
    "svc_monitor_mac",
    "svc_monitor_mac_dst",
    "e2e_timestamp",
];

/// Whether a row belongs to load balancers or isolation.
fn is_others(table: &str, row: &Map<String, Value>) -> bool {
    let ids = row.get("external_ids");
    let kind = ids.and_then(|ids| ids.get(mark::OWNER_TYPE)).and_then(Value::as_str);
    let ours = || ids.is_some_and(|ids| service::is_set(&mark::pairs(text_pairs(ids))));
    table == "Load_Balancer" || kind == Some("UDNIsolation") || (table == "Address_Set" && !ours())
}

pub(super) fn captured(database: &Value) -> Tables {
    let database = database.as_object().unwrap();
    let uuid_of = |row: &Value| row["_uuid"].as_str().unwrap().to_owned();
    let mut names = BTreeMap::new();
    let mut parents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (table, rows) in database {
        for row in rows.as_array().unwrap() {
            let name = row["name"].as_str().unwrap_or_default().to_owned();
            for (parent, column) in CHILDREN.iter().filter(|(parent, _)| parent == table) {
                for child in row[*column].as_array().into_iter().flatten() {
                    let child = child.as_str().unwrap().to_owned();
                    parents.entry(child).or_default().insert(format!("{parent} {name}"));
                }
            }
            names.insert(uuid_of(row), name);
        }
    }
    let mut tables = Tables::new();
    for (table, rows) in database {
        for row in rows.as_array().unwrap() {
            let mut fields = row.as_object().unwrap().clone();
            if is_others(table, &fields) {
                continue;
            }
            fields.remove("_uuid");
            let dropped = CHILDREN.iter().filter(|(parent, _)| parent == table).map(|(_, column)| *column);
            let foreign =
                FOREIGN.iter().filter(|(foreign, _)| foreign == table).flat_map(|(_, columns)| *columns);
            for column in dropped.chain(foreign.copied()) {
                fields.remove(column);
            }
            if table == "NB_Global" {
                let options = fields.get_mut("options").and_then(Value::as_object_mut).unwrap();
                for key in NORTHD_OPTIONS {
                    options.remove(*key);
                }
            }
            for value in fields.values_mut() {
                named(value, &names);
            }
            let mut parents: Vec<String> =
                parents.get(&uuid_of(row)).into_iter().flatten().cloned().collect();
            // One line for each place that the row is in.
            if parents.is_empty() {
                parents.push(String::new());
            }
            for parent in parents {
                tables.entry(table.clone()).or_default().insert(line(&parent, fields.clone()));
            }
        }
    }
    tables
}

fn named(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(name) = names.get(text) {
                text.clone_from(name);
            }
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                named(item, names);
            }
            items.sort_by_key(ToString::to_string);
        }
        _ => {}
    }
}

fn line(parent: &str, mut fields: Map<String, Value>) -> String {
    fields.retain(|_, value| !matches!(value, Value::Null) && !is_default(value));
    if !parent.is_empty() {
        fields.insert("in".to_owned(), json!(parent));
    }
    // Keys of a map of serde_json are sorted.
    Value::Object(fields).to_string()
}

fn is_default(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(on) => !on,
        Value::Null => true,
    }
}

fn fields<T: Row>(row: &T) -> Map<String, Value> {
    let scalar = |atom: &Atom| match atom {
        Atom::String(text) => json!(text),
        Atom::Integer(number) => json!(number),
        Atom::Boolean(on) => json!(on),
        other => json!(other.to_string()),
    };
    let value = |datum: &Datum, arity: Arity| match datum {
        Datum::Map(pairs) => {
            Value::Object(pairs.iter().map(|(key, value)| (bare(key), scalar(value))).collect())
        }
        Datum::Set(atoms) if arity == Arity::Many => {
            let mut items: Vec<Value> = atoms.iter().map(scalar).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Datum::Set(atoms) => atoms.first().map_or(Value::Null, scalar),
    };
    let columns = T::columns().iter();
    columns
        .filter_map(|column| {
            Some((column.name.to_owned(), value(&row.datum(column.name)?, column.shape.arity)))
        })
        .collect()
}

fn bare(atom: &Atom) -> String {
    match atom {
        Atom::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Planned rows in the captured form.
pub(super) fn planned(rows: &Rows) -> Tables {
    let mut tables = Tables::new();
    let mut put = |table: &str, parent: &str, fields: Map<String, Value>| {
        assert!(tables.entry(table.to_owned()).or_default().insert(line(parent, fields)), "{table} twice");
    };
    let names = |names: &BTreeSet<String>| Value::Array(names.iter().map(|name| json!(name)).collect());
    rows.global.iter().for_each(|row| put("NB_Global", "", fields(row)));
    rows.copps.iter().for_each(|row| put("Copp", "", fields(row)));
    for limit in &rows.limits {
        put("Meter", "", fields(&limit.meter));
        put("Meter_Band", &format!("Meter {}", limit.meter.name), fields(&limit.band));
    }
    for name in &rows.load_balancer_groups {
        put("Load_Balancer_Group", "", [("name".to_owned(), json!(name))].into_iter().collect());
    }
    for root in rows.switches.values() {
        let mut fields = fields(&root.row);
        fields.insert("load_balancer_group".to_owned(), names(&root.load_balancer_groups));
        put("Logical_Switch", "", fields);
    }
    for root in rows.routers.values() {
        let mut fields = fields(&root.row);
        fields.insert("load_balancer_group".to_owned(), names(&root.load_balancer_groups));
        fields.insert("copp".to_owned(), json!(super::plan::COPP));
        put("Logical_Router", "", fields);
    }
    let on_switch = |name: &str| format!("Logical_Switch {name}");
    let on_router = |name: &str| format!("Logical_Router {name}");
    for port in rows.switch_ports.values() {
        put("Logical_Switch_Port", &on_switch(&port.parent), fields(&port.row));
    }
    for port in rows.router_ports.values() {
        put("Logical_Router_Port", &on_router(&port.router), fields(&port.row));
        for chassis in &port.chassis {
            put("Gateway_Chassis", &format!("Logical_Router_Port {}", port.row.name), fields(chassis));
        }
    }
    for route in &rows.routes {
        put("Logical_Router_Static_Route", &on_router(&route.parent), fields(&route.row));
    }
    for policy in &rows.policies {
        put("Logical_Router_Policy", &on_router(&policy.parent), fields(&policy.row));
    }
    for nat in &rows.nats {
        put("NAT", &on_router(&nat.parent), fields(&nat.row));
    }
    for (holder, acl) in &rows.acls {
        let parent = match holder {
            AclHolder::Switch(name) => on_switch(name),
            AclHolder::Group(name) => format!("Port_Group {name}"),
        };
        put("ACL", &parent, fields(acl));
    }
    for (name, ids) in &rows.port_groups {
        let ports = rows.members.get(name).cloned().unwrap_or_default();
        let row = [
            ("name".to_owned(), json!(name)),
            ("external_ids".to_owned(), json!(ids)),
            ("ports".to_owned(), names(&ports)),
        ];
        put("Port_Group", "", row.into_iter().collect());
    }
    rows.mac_bindings.iter().for_each(|row| put("Static_MAC_Binding", "", fields(row)));
    rows.address_sets.values().for_each(|row| put("Address_Set", "", fields(row)));
    tables
}

/// What differs, as lines that begin with `+` (planned only) and `-` (captured only).
pub(super) fn differences(planned: &Tables, captured: &Tables) -> Vec<String> {
    let none = BTreeSet::new();
    let tables: BTreeSet<&String> = planned.keys().chain(captured.keys()).collect();
    let mut lines = Vec::new();
    for table in tables {
        let (want, have) = (planned.get(table).unwrap_or(&none), captured.get(table).unwrap_or(&none));
        lines.extend(want.difference(have).map(|line| format!("+ {table} {line}")));
        lines.extend(have.difference(want).map(|line| format!("- {table} {line}")));
    }
    lines
}

#[track_caller]
fn check(run: &'static str) {
    let run = Run::load(run);
    let lines = differences(&planned(&run.rows()), &run.captured());
    assert!(lines.is_empty(), "{}:\n{}", run.name, lines.join("\n"));
}

#[test]
fn a_node_alone_has_the_captured_rows() {
    check("01-default-v4");
}

#[test]
fn network_segmentation_changes_no_row_of_the_topology() {
    check("01b-default-v4-segmentation-flags");
}

#[test]
fn three_zones_have_the_captured_rows() {
    check("02-default-v4-3zones");
}

#[test]
fn three_zones_with_segmentation_have_the_captured_rows() {
    check("02b-default-v4-3zones-segmentation-flags");
}

#[test]
fn a_layer3_primary_network_has_the_captured_rows() {
    check("03-cudn-l3-primary");
}

#[test]
fn a_layer2_primary_network_has_the_captured_rows() {
    check("04-cudn-l2-primary");
}

#[test]
fn secondary_networks_have_the_captured_rows() {
    check("06-secondary");
}

#[test]
fn two_primary_networks_have_the_captured_rows() {
    check("14-before");
}

#[test]
fn a_restart_of_upstream_leads_to_the_same_rows() {
    check("14-after-restart");
}

#[test]
fn deleted_networks_leave_the_captured_rows() {
    check("14-after-delete");
}

#[test]
fn networks_deleted_while_upstream_was_down_leave_the_captured_rows() {
    check("14-deleted-while-down");
}

#[test]
fn a_deleted_node_leaves_the_captured_rows() {
    check("17-remote-node-deleted");
}

#[test]
fn a_difference_in_any_column_fails_the_comparison() {
    let run = Run::load("03-cudn-l3-primary");
    let captured = run.captured();
    let rows = planned(&run.rows());
    let mut compared = 0;
    for (table, lines) in &rows {
        for line in lines {
            let mut altered = rows.clone();
            let other = line.replacen("\":", "\": \"changed\",\"was\":", 1);
            let lines = altered.get_mut(table).unwrap();
            lines.remove(line);
            lines.insert(other);
            assert_eq!(differences(&altered, &captured).len(), 2, "{table} {line}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn other_nodes_chassis_equal_the_captured_ones() {
    for run in ["02-default-v4-3zones", "03-cudn-l3-primary", "17-remote-node-deleted"] {
        let run = Run::load(run);
        let captured = run.captured_chassis();
        let tunnels: BTreeMap<&str, &Value> = captured["Encap"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tunnel| (tunnel["_uuid"].as_str().unwrap(), tunnel))
            .collect();
        let mut want = BTreeSet::new();
        for chassis in captured["Chassis"].as_array().unwrap() {
            if chassis["other_config"]["is-remote"] != json!("true") {
                continue;
            }
            let tunnels =
                chassis["encaps"].as_array().unwrap().iter().map(|uuid| tunnels[uuid.as_str().unwrap()]);
            let tunnels: Vec<String> =
                tunnels.map(|tunnel| format!("{} {}", tunnel["ip"], tunnel["options"])).collect();
            want.insert(format!("{} {} {tunnels:?}", chassis["name"], chassis["hostname"]));
        }
        let mut found = BTreeSet::new();
        for node in &run.remotes {
            let row = super::plan::remote_chassis(&run.cluster, node).unwrap();
            let options = json!(row.options);
            let tunnels: Vec<String> =
                row.addresses.iter().map(|address| format!("\"{address}\" {options}")).collect();
            found.insert(format!("\"{}\" \"{}\" {tunnels:?}", row.name, row.node));
        }
        assert_eq!(found, want, "{}", run.name);
    }
}
