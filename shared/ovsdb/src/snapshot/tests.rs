use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::change::Change;
use crate::schema::{DatabaseSchema, check};
use crate::update::{Notation, parse};

crate::table! {
    struct Bridge in "Bridge" {
        name: String,
        ports: BTreeSet<i64>,
        external_ids: BTreeMap<String, String>,
        fail_mode: Option<String>,
        /// Declared as a set although the schema allows one element at most.
        tag: BTreeSet<i64>,
        optional newer: Option<String>,
    }
    index by_name = |row| Some(row.name.as_str());
    index by_port = |row| row.ports.iter().copied();
}

fn base() -> Snapshot {
    let many = |kind: &str| json!({"type": {"key": kind, "min": 0, "max": "unlimited"}});
    let schema = json!({"name": "db", "tables": {"Bridge": {"columns": {
        "name": {"type": "string"},
        "ports": many("integer"),
        "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "fail_mode": {"type": {"key": "string", "min": 0}},
        "tag": {"type": {"key": "integer", "min": 0}},
    }}}});
    let layouts = check(&[Bridge::spec()], &DatabaseSchema::parse(&schema).unwrap()).unwrap();
    Snapshot::empty(vec![Arc::new(TypedTable::<Bridge>::new(TableLayout { columns: vec![] }))])
        .cleared(&layouts)
}

fn update(
    snapshot: &Snapshot,
    notation: Notation,
    rows: &Value,
) -> Result<(Snapshot, Vec<Change<Bridge>>), UpdateError> {
    let json = json!({ "Bridge": rows });
    let json = serde_json::value::to_raw_value(&json).unwrap();
    let (next, changes) = snapshot.apply(&parse(&json, notation)?)?;
    Ok((next, changes.iter().map(|change| change.row().unwrap()).collect()))
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn key(number: u128) -> String {
    uuid(number).to_string()
}

/// One bridge with some of everything, as `update2` announces it.
fn with_bridge() -> Snapshot {
    let row = json!({key(1): {"initial": {
        "name": "br", "ports": ["set", [1, 2]], "external_ids": ["map", [["a", "1"], ["b", "2"]]],
        "fail_mode": "secure", "tag": 7,
    }}});
    update(&base(), Notation::Delta, &row).unwrap().0
}

#[test]
fn an_inserted_row_gets_defaults_for_omitted_columns() {
    let (next, changes) =
        update(&base(), Notation::Delta, &json!({key(1): {"insert": {"name": "br"}}})).unwrap();
    let expected = Bridge { name: "br".into(), ..Bridge::default() };
    assert_eq!(**next.row::<Bridge>(uuid(1)).unwrap(), expected);
    assert_eq!(changes, [Change { uuid: uuid(1), old: None, new: Some(Arc::new(expected)) }]);
    assert_eq!(next.generation(), 1);
}

#[test]
fn modify_applies_differences_to_sets_and_maps_and_replaces_the_rest() {
    let row = json!({key(1): {"modify": {
        "ports": ["set", [2, 3]], "external_ids": ["map", [["a", "1"], ["b", "9"], ["c", "3"]]],
        "fail_mode": ["set", []], "tag": 8,
    }}});
    let before = with_bridge();
    let (next, changes) = update(&before, Notation::Delta, &row).unwrap();
    let expected = Bridge {
        name: "br".into(),
        ports: [1, 3].into(),
        external_ids: [("b".into(), "9".into()), ("c".into(), "3".into())].into(),
        fail_mode: None,
        tag: [8].into(), // max 1 in the schema: the new value, not a difference
        newer: None,
    };
    assert_eq!(**next.row::<Bridge>(uuid(1)).unwrap(), expected);
    assert_eq!(changes[0].old.as_ref(), before.row::<Bridge>(uuid(1)));
    assert_eq!(
        before.row::<Bridge>(uuid(1)).unwrap().ports,
        [1, 2].into(),
        "the old snapshot must not change"
    );
}

#[test]
fn a_set_difference_may_consist_of_one_bare_element() {
    let (next, _) =
        update(&with_bridge(), Notation::Delta, &json!({key(1): {"modify": {"ports": 1}}})).unwrap();
    assert_eq!(next.row::<Bridge>(uuid(1)).unwrap().ports, [2].into());
}

#[test]
fn a_deleted_row_is_reported_with_its_last_contents() {
    let before = with_bridge();
    let (next, changes) = update(&before, Notation::Delta, &json!({key(1): {"delete": null}})).unwrap();
    assert!(next.is_empty::<Bridge>());
    let old = before.row::<Bridge>(uuid(1)).cloned();
    assert_eq!(changes, [Change { uuid: uuid(1), old, new: None }]);
}

#[test]
fn updates_of_the_rfc_carry_whole_rows() {
    let rows = json!({key(1): {"new": {"name": "br2", "ports": ["set", []], "external_ids": ["map", []],
        "fail_mode": ["set", []], "tag": ["set", []]}, "old": {"name": "br"}}});
    let (next, _) = update(&with_bridge(), Notation::Whole, &rows).unwrap();
    assert_eq!(**next.row::<Bridge>(uuid(1)).unwrap(), Bridge { name: "br2".into(), ..Bridge::default() });
    let (next, changes) = update(&next, Notation::Whole, &json!({key(1): {"old": {"name": "br2"}}})).unwrap();
    assert!(next.is_empty::<Bridge>() && changes.len() == 1);
}

#[test]
fn an_update_that_changes_nothing_is_no_change() {
    let (_, changes) =
        update(&with_bridge(), Notation::Delta, &json!({key(1): {"modify": {"tag": 7}}})).unwrap();
    assert_eq!(changes, []);
}

#[test]
fn indexes_follow_inserts_changes_and_deletes() {
    let rows = json!({key(2): {"insert": {"name": "other", "ports": 2}}});
    let (two, _) = update(&with_bridge(), Notation::Delta, &rows).unwrap();
    let holders = |snapshot: &Snapshot, port: i64| -> Vec<Uuid> {
        snapshot.find(Bridge::by_port(), port).map(|(uuid, _)| uuid).collect()
    };
    assert_eq!(holders(&two, 2), [uuid(1), uuid(2)]);
    assert_eq!(two.find_one(Bridge::by_name(), "other").map(|(uuid, _)| uuid), Some(uuid(2)));

    let rows = json!({key(1): {"modify": {"name": "renamed", "ports": 2}}, key(2): {"delete": null}});
    let (next, _) = update(&two, Notation::Delta, &rows).unwrap();
    assert!(holders(&next, 2).is_empty());
    assert!(next.find_one(Bridge::by_name(), "br").is_none());
    assert!(next.find_one(Bridge::by_name(), "renamed").is_some());
    assert_eq!(holders(&two, 2).len(), 2, "the older snapshot keeps its index");
}

#[test]
fn updates_that_do_not_fit_the_snapshot_are_refused() {
    let refused = |rows: Value| update(&with_bridge(), Notation::Delta, &rows).unwrap_err().to_string();
    let missing = format!("update of row {} in table Bridge, which does not exist", uuid(9));
    assert_eq!(refused(json!({key(9): {"modify": {"name": "x"}}})), missing);
    assert_eq!(refused(json!({key(9): {"delete": null}})), missing);
    let wrong = format!("value of Bridge.name in row {}", uuid(1));
    assert_eq!(refused(json!({key(1): {"modify": {"name": 5}}})), wrong);
    assert_eq!(refused(json!({key(1): {"modify": {"name": ["set", []]}}})), wrong);
    assert!(refused(json!({"no-uuid": {"delete": null}})).starts_with("malformed update"));
    assert!(refused(json!({key(1): {"rename": {}}})).starts_with("malformed update"));
    let json = serde_json::value::to_raw_value(&json!({"Port": {}})).unwrap();
    let error = with_bridge().apply(&parse(&json, Notation::Delta).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "update for table Port, which is not monitored");
}

#[test]
fn two_snapshots_are_compared_row_by_row() {
    let old = with_bridge();
    let rows = json!({key(2): {"insert": {"name": "new"}}, key(1): {"delete": null}});
    let (new, _) = update(&old, Notation::Delta, &rows).unwrap();
    let changes: Vec<String> = new.changes_since(&old).iter().map(|change| format!("{change:?}")).collect();
    assert_eq!(changes, [format!("delete Bridge {}", uuid(1)), format!("insert Bridge {}", uuid(2))]);
    assert!(old.changes_since(&old).is_empty());
}

#[test]
fn an_optional_column_that_the_server_lacks_is_none_and_known() {
    let snapshot = with_bridge();
    assert!(!snapshot.has_column::<Bridge>("newer"));
    assert!(snapshot.has_column::<Bridge>("name"));
    assert_eq!(snapshot.row::<Bridge>(uuid(1)).unwrap().newer, None);
}

#[test]
fn a_snapshot_can_be_made_by_hand() {
    let bridge = |name: &str| Bridge { name: name.into(), ..Bridge::default() };
    let snapshot = Snapshot::builder().row(uuid(1), bridge("a")).row(uuid(1), bridge("b")).build();
    assert_eq!(snapshot.len::<Bridge>(), 1);
    assert!(snapshot.find_one(Bridge::by_name(), "a").is_none());
    assert!(snapshot.find_one(Bridge::by_name(), "b").is_some());
}
