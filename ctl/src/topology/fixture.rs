//! Databases for tests: captured ones, and ones written by hand.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::{Atom, Columns, Datum, Uuid};
use serde_json::Value;

use super::rows::{Database, TABLES};

/// Columns whose members are rows.
const REFERENCES: [&str; 5] = ["ports", "static_routes", "policies", "nat", "gateway_chassis"];

/// What a captured run of upstream has left in its Northbound database (tests/conformance/topology).
pub(super) fn captured(run: &str) -> Database {
    let path = format!("{}/../tests/conformance/topology/{run}/nb.json", env!("CARGO_MANIFEST_DIR"));
    database(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
}

/// Tables with rows; a row's `_uuid` may be any text.
pub(super) fn database(json: &Value) -> Database {
    let mut database = Database::new("7.11.0");
    for (table, ..) in TABLES {
        for row in json.get(*table).and_then(Value::as_array).into_iter().flatten() {
            let row = row.as_object().unwrap();
            let columns = row
                .iter()
                .filter(|(name, _)| *name != "_uuid")
                .map(|(name, value)| (name.clone(), datum(value, REFERENCES.contains(&name.as_str()))));
            let columns: Columns = columns.collect();
            // A table of one row, written by hand, may do without.
            let uuid = row.get("_uuid").map_or(Uuid::nil(), |text| uuid(text.as_str().unwrap()));
            database.add(table, uuid, columns);
        }
    }
    database
}

/// A text that is no UUID stands for one made of its first bytes.
fn uuid(text: &str) -> Uuid {
    Uuid::try_parse(text).unwrap_or_else(|_| {
        let mut bytes = [0; 16];
        for (byte, of) in bytes.iter_mut().zip(text.bytes()) {
            *byte = of;
        }
        Uuid::from_bytes(bytes)
    })
}

fn datum(value: &Value, is_reference: bool) -> Datum {
    let one = |value: &Value| match value {
        Value::String(text) if is_reference => Atom::Uuid(uuid(text)),
        Value::String(text) => Atom::from(text),
        Value::Bool(value) => Atom::from(*value),
        number => Atom::from(number.as_i64().unwrap()),
    };
    match value {
        Value::Object(pairs) => {
            let pair = |(key, value): (&String, &Value)| (Atom::from(key), one(value));
            Datum::Map(pairs.iter().map(pair).collect::<BTreeMap<_, _>>())
        }
        Value::Array(items) => Datum::Set(items.iter().map(one).collect::<BTreeSet<_>>()),
        value => Datum::scalar(one(value)),
    }
}
