//! The rows of the Northbound database that a drawing needs. Source: ovn-nb(5).

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::{Atom, Columns, Datum, Uuid};

/// Pairs of text, as `external_ids` and `options` are.
pub type Pairs = BTreeMap<String, String>;

/// Tables that are read, with the columns that are looked at. A column of the first list has to be there; one of the
/// second came with a later version of the schema than the others, or could go again.
pub const TABLES: &[(&str, &[&str], &[&str])] = &[
    ("NB_Global", &["name"], &[]),
    ("Logical_Switch", &["name", "ports"], &["other_config", "external_ids"]),
    (
        "Logical_Switch_Port",
        &["name", "type", "addresses", "options"],
        &["tag_request", "peer", "external_ids"],
    ),
    ("Logical_Router", &["name", "ports"], &["static_routes", "policies", "nat", "options", "external_ids"]),
    (
        "Logical_Router_Port",
        &["name", "mac", "networks"],
        &["peer", "gateway_chassis", "options", "external_ids"],
    ),
    ("Gateway_Chassis", &[], &["chassis_name"]),
    ("Logical_Router_Static_Route", &["ip_prefix", "nexthop"], &["policy", "output_port", "route_table"]),
    ("Logical_Router_Policy", &["priority", "match", "action"], &["nexthop", "nexthops", "output_port"]),
    ("NAT", &["type", "external_ip", "logical_ip"], &["logical_port", "external_port_range", "match"]),
    ("Static_MAC_Binding", &[], &["logical_port", "ip", "mac"]),
];

/// Columns that no supported version has to have: that they are missing is nothing to tell. Only newer versions than OVN
/// 25.03 have `output_port` of a policy, `nexthop` gave way to `nexthops`, and `peer` came when switches could be joined.
pub const QUIET: &[(&str, &str)] = &[
    ("Logical_Switch_Port", "peer"),
    ("Logical_Router_Policy", "nexthop"),
    ("Logical_Router_Policy", "output_port"),
];

/// The rows of one database, as they were in one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// Version of its schema.
    pub version: String,
    /// `TABLE:COLUMN` of what this version of the schema does not have.
    pub missing: BTreeSet<String>,
    tables: BTreeMap<&'static str, BTreeMap<Uuid, Row>>,
}

/// One row. A column that is missing reads as its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(Columns);

impl Database {
    /// An empty one.
    #[must_use]
    pub fn new(version: impl Into<String>) -> Self {
        Self { version: version.into(), ..Self::default() }
    }

    /// Adds a row.
    pub fn add(&mut self, table: &'static str, uuid: Uuid, columns: Columns) {
        self.tables.entry(table).or_default().insert(uuid, Row(columns));
    }

    /// The rows of a table.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.tables.get(table).into_iter().flat_map(BTreeMap::values)
    }

    /// The rows of a table that a column of another row refers to. One that is not there is left out: the server keeps
    /// references whole.
    #[must_use]
    pub fn referred<'d>(&'d self, row: &Row, column: &str, table: &str) -> Vec<&'d Row> {
        let found = |uuid| self.tables.get(table)?.get(&uuid);
        row.uuids(column).into_iter().filter_map(found).collect()
    }
}

impl Row {
    fn atoms(&self, column: &str) -> impl Iterator<Item = &Atom> {
        let datum = self.0.get(column);
        datum.into_iter().flat_map(|datum| match datum {
            Datum::Set(atoms) => atoms.iter(),
            Datum::Map(_) => EMPTY.iter(),
        })
    }

    /// A text, where there is one that is not empty.
    #[must_use]
    pub fn some_text(&self, column: &str) -> Option<String> {
        self.texts(column).into_iter().find(|text| !text.is_empty())
    }

    /// A text; empty where there is none.
    #[must_use]
    pub fn text(&self, column: &str) -> String {
        self.some_text(column).unwrap_or_default()
    }

    /// Texts, in order.
    #[must_use]
    pub fn texts(&self, column: &str) -> Vec<String> {
        let text = |atom: &Atom| match atom {
            Atom::String(text) => Some(text.clone()),
            _ => None,
        };
        self.atoms(column).filter_map(text).collect()
    }

    /// A number.
    #[must_use]
    pub fn number(&self, column: &str) -> Option<i64> {
        self.atoms(column).find_map(|atom| match atom {
            Atom::Integer(number) => Some(*number),
            _ => None,
        })
    }

    /// Pairs of text.
    #[must_use]
    pub fn pairs(&self, column: &str) -> Pairs {
        let Some(Datum::Map(pairs)) = self.0.get(column) else { return Pairs::new() };
        let texts = pairs.iter().filter_map(|pair| match pair {
            (Atom::String(key), Atom::String(value)) => Some((key.clone(), value.clone())),
            _ => None,
        });
        texts.collect()
    }

    fn uuids(&self, column: &str) -> BTreeSet<Uuid> {
        let uuid = |atom: &Atom| match atom {
            Atom::Uuid(uuid) => Some(*uuid),
            _ => None,
        };
        self.atoms(column).filter_map(uuid).collect()
    }
}

static EMPTY: BTreeSet<Atom> = BTreeSet::new();
