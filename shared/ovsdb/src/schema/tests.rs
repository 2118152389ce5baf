use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::row::Row;

crate::table! {
    struct Bridge in "Bridge" {
        name: String,
        ports: BTreeSet<Uuid>,
        external_ids: BTreeMap<String, String>,
        fail_mode: Option<String>,
        optional flood: Option<bool>,
    }
}

fn schema(columns: &Value) -> DatabaseSchema {
    let json =
        json!({"name": "db", "version": "8.3.0", "tables": {"Bridge": {"columns": columns, "isRoot": true}}});
    DatabaseSchema::parse(&json).unwrap()
}

fn columns() -> Value {
    json!({
        "name": {"type": "string", "mutable": false},
        "ports": {"type": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": "unlimited"}},
        "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "fail_mode": {"type": {"key": {"type": "string", "enum": ["set", ["secure"]]}, "min": 0}},
        "flood": {"type": {"key": "boolean", "min": 0, "max": 1}},
        "unrelated": {"type": "real"}
    })
}

#[track_caller]
fn mismatches(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut columns = columns();
    change(&mut columns);
    check(&[Bridge::spec()], &schema(&columns)).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_schema_with_all_declared_columns_is_accepted() {
    let layouts = check(&[Bridge::spec()], &schema(&columns())).unwrap();
    assert!(layouts[0].columns.iter().all(Option::is_some));
    assert_eq!(layouts[0].columns[1].as_ref().unwrap().ref_table.as_deref(), Some("Port"));
}

#[test]
fn a_missing_optional_column_is_accepted_and_known_to_be_missing() {
    let mut columns = columns();
    columns.as_object_mut().unwrap().remove("flood");
    let layouts = check(&[Bridge::spec()], &schema(&columns)).unwrap();
    assert_eq!(layouts[0].columns[4], None);
}

#[test]
fn a_missing_column_is_named_with_its_table() {
    let found = mismatches(|columns| drop(columns.as_object_mut().unwrap().remove("ports")));
    assert_eq!(found, ["column Bridge.ports is missing"]);
}

#[test]
fn a_missing_table_is_named() {
    let json = json!({"name": "db", "tables": {}});
    let found = check(&[Bridge::spec()], &DatabaseSchema::parse(&json).unwrap()).unwrap_err();
    assert_eq!(found, [SchemaMismatch::MissingTable { table: "Bridge".into() }]);
}

#[test]
fn wrong_types_are_named_with_both_types_all_at_once() {
    let found = mismatches(|columns| {
        columns["name"] = json!({"type": {"key": "string", "min": 0}});
        columns["external_ids"] = json!({"type": {"key": "string", "min": 0, "max": "unlimited"}});
        columns["fail_mode"] = json!({"type": "string"});
        columns["flood"] = json!({"type": {"key": "integer", "min": 0}});
    });
    let expected = [
        "column Bridge.name is set of string (0..1), but string was declared",
        "column Bridge.external_ids is set of string (0 or more), but map of string to string (0 or more) was declared",
        "column Bridge.fail_mode is string, but set of string (0..1) was declared",
        "column Bridge.flood is set of integer (0..1), but set of boolean (0..1) was declared",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_reply_that_is_no_schema_is_refused_with_the_place() {
    for (json, place) in [
        (json!(null), "name"),
        (json!({"name": "x"}), "tables"),
        (json!({"name": "x", "tables": {"T": {}}}), "columns of T"),
        (json!({"name": "x", "tables": {"T": {"columns": {"c": {"type": "complex"}}}}}), "type of T.c"),
        (
            json!({"name": "x", "tables": {"T": {"columns": {"c": {"type": {"key": "string", "max": "x"}}}}}}),
            "type of T.c",
        ),
    ] {
        assert_eq!(DatabaseSchema::parse(&json).unwrap_err().place, place);
    }
}

#[test]
fn defaults_are_those_that_servers_omit() {
    let schema = schema(&columns());
    let default = |column: &str| schema.tables["Bridge"].columns[column].default_datum();
    assert_eq!(default("name"), Datum::scalar(""));
    assert_eq!(default("ports"), Datum::Set(BTreeSet::new()));
    assert_eq!(default("external_ids"), Datum::Map(BTreeMap::new()));
    assert_eq!(default("unrelated"), Datum::scalar(0.0));
}
