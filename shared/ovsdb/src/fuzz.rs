//! Whatever a peer sends, nothing panics, and what is accepted is consistent.
//!
//! The defaults of proptest bound each of these; `PROPTEST_CASES` makes them long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::BufMut;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::decoder::Decoder;
use crate::row::Row;
use crate::rpc::Message;
use crate::schema::{DatabaseSchema, TableLayout, check};
use crate::snapshot::{Snapshot, TypedTable};
use crate::update::{Notation, parse};
use crate::value::{AtomicType, Datum, ElementType};

crate::table! {
    struct Thing in "Thing" {
        name: String,
        numbers: BTreeSet<i64>,
        notes: BTreeMap<String, String>,
        maybe: Option<bool>,
        other: BTreeSet<Uuid>,
        optional newer: Option<String>,
    }
    index by_name = |row| Some(row.name.as_str());
    index by_number = |row| row.numbers.iter().copied();
}

fn many(key: &str) -> Value {
    json!({"type": {"key": key, "min": 0, "max": "unlimited"}})
}

fn schema() -> Value {
    json!({"name": "db", "version": "1.0.0", "tables": {"Thing": {"columns": {
        "name": {"type": "string"},
        "numbers": many("integer"),
        "notes": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        "maybe": {"type": {"key": "boolean", "min": 0}},
        "other": many("uuid"),
    }}}})
}

fn empty() -> Snapshot {
    let layouts = check(&[Thing::spec()], &DatabaseSchema::parse(&schema()).unwrap()).unwrap();
    let table = TypedTable::<Thing>::new(TableLayout { columns: vec![] });
    Snapshot::empty(vec![Arc::new(table)]).cleared(&layouts)
}

/// Any of a few rows, so that updates meet.
fn row_key() -> impl Strategy<Value = String> {
    (0_u128..4).prop_map(|number| Uuid::from_u128(number).to_string())
}

/// Texts that mean something somewhere in the protocol, and others.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "set",
            "map",
            "uuid",
            "named-uuid",
            "old",
            "new",
            "initial",
            "insert",
            "modify",
            "delete",
            "id",
            "method",
            "params",
            "result",
            "error",
            "details",
            "echo",
            "update3",
            "name",
            "tables",
            "columns",
            "type",
            "key",
            "value",
            "min",
            "max",
            "unlimited",
            "refTable",
            "isRoot",
            "integer",
            "string",
            "Thing",
            "numbers",
            "notes",
            "maybe",
            "other",
            "newer",
        ])
        .prop_map(str::to_owned),
        row_key(),
        ".{0,4}",
    ]
}

/// JSON of any form.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word(), inner.clone()), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            (prop_oneof![Just("set"), Just("map"), Just("uuid")], inner)
                .prop_map(|(kind, body)| json!([kind, body])),
        ]
    })
}

/// A value for a column: mostly of its type.
fn column() -> impl Strategy<Value = (String, Value)> {
    let pair = (prop_oneof![Just("a"), Just("b"), Just("c")], 0_u8..3);
    let pair = pair.prop_map(|(key, value)| json!([key, value.to_string()]));
    prop_oneof![
        4 => prop_oneof![Just("x"), Just("y")].prop_map(|name| ("name".to_owned(), json!(name))),
        4 => proptest::collection::btree_set(0_i64..5, 0..4).prop_map(|set| ("numbers".to_owned(), json!(["set", set]))),
        2 => (0_i64..5).prop_map(|one| ("numbers".to_owned(), json!(one))),
        4 => proptest::collection::vec(pair, 0..3).prop_map(|map| ("notes".to_owned(), json!(["map", map]))),
        2 => any::<bool>().prop_map(|one| ("maybe".to_owned(), json!(one))),
        1 => Just(("maybe".to_owned(), json!(["set", []]))),
        2 => row_key().prop_map(|uuid| ("other".to_owned(), json!(["uuid", uuid]))),
        1 => (word(), any_json()),
    ]
}

fn columns() -> impl Strategy<Value = Value> {
    proptest::collection::vec(column(), 0..5)
        .prop_map(|columns| Value::Object(columns.into_iter().collect::<Map<_, _>>()))
}

fn row_update(notation: Notation) -> BoxedStrategy<Value> {
    match notation {
        Notation::Whole => prop_oneof![
            4 => columns().prop_map(|row| json!({"new": row})),
            2 => (columns(), columns()).prop_map(|(old, new)| json!({"old": old, "new": new})),
            2 => columns().prop_map(|row| json!({"old": row})),
            1 => any_json(),
        ]
        .boxed(),
        Notation::Delta => prop_oneof![
            2 => columns().prop_map(|row| json!({"initial": row})),
            4 => columns().prop_map(|row| json!({"insert": row})),
            6 => columns().prop_map(|row| json!({"modify": row})),
            2 => Just(json!({"delete": null})),
            1 => any_json(),
        ]
        .boxed(),
    }
}

fn notation() -> impl Strategy<Value = Notation> {
    prop_oneof![Just(Notation::Whole), Just(Notation::Delta)]
}

/// Updates in one notation, in the form that the server uses or nearly so.
fn updates() -> impl Strategy<Value = (Notation, Vec<Value>)> {
    let table = prop_oneof![20 => Just("Thing".to_owned()), 1 => word()];
    notation().prop_flat_map(move |notation| {
        let rows = proptest::collection::btree_map(row_key(), row_update(notation), 0..4);
        let update = (table.clone(), rows).prop_map(|(table, rows)| json!({ table: rows }));
        let update = prop_oneof![20 => update, 1 => any_json()];
        (Just(notation), proptest::collection::vec(update, 0..8))
    })
}

/// All that a decoder makes of a stream that arrives in these pieces.
fn decode(bytes: &[u8], cuts: &[usize], limit: usize) -> (Vec<Value>, Option<String>) {
    let mut decoder = Decoder::new(limit);
    let mut frames = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        decoder.buffer().put_slice(&bytes[from..to]);
        from = to;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error.to_string())),
            }
        }
        assert!(decoder.buffer().len() <= limit, "more than a frame can have is kept");
    }
    (frames, None)
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let frame = any_json().prop_map(|json| json!({"id": 1, "result": json}).to_string().into_bytes()).boxed();
    let piece = prop_oneof![
        6 => frame.clone(),
        2 => Just(b" \r\n".to_vec()),
        // Half of a message, as of a server that ends in the middle of it.
        1 => (frame, any::<proptest::sample::Index>()).prop_map(|(mut frame, at)| {
            frame.truncate(at.index(frame.len()));
            frame
        }),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
        1 => "[\\[\\]{}\"\\\\:, a1]{0,12}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_the_stream_arrives(
        bytes in stream(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        limit in prop_oneof![Just(1_usize << 20), 1_usize..200],
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let (frames, error) = decode(&bytes, &cuts, limit);
        let each: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&decode(&bytes, &each, limit), &(frames, error));
    }

    #[test]
    fn what_is_taken_for_a_message_survives_the_wire(frame in any_json()) {
        if let Some(message) = Message::parse(&frame) {
            // Errors without text are written with an empty one.
            prop_assert_eq!(Message::parse(&message.to_json()), Some(message));
        }
    }

    #[test]
    fn any_json_is_a_schema_or_is_refused(json in any_json(), column in any_json()) {
        let one = json!({"name": "db", "tables": {"Thing": {"columns": {"name": {"type": column}}}}});
        for json in [json, one] {
            if let Ok(schema) = DatabaseSchema::parse(&json) {
                // None of these has all columns.
                prop_assert!(check(&[Thing::spec()], &schema).is_err());
            }
        }
    }

    #[test]
    fn any_json_is_a_value_or_is_refused(json in any_json()) {
        for key in [AtomicType::Integer, AtomicType::Real, AtomicType::Boolean, AtomicType::String, AtomicType::Uuid] {
            for value in [None, Some(AtomicType::String), Some(AtomicType::Integer)] {
                let kind = ElementType { key, value };
                if let Ok(datum) = Datum::from_json(&json, kind) {
                    prop_assert_eq!(Datum::from_json(&datum.to_json(), kind), Ok(datum));
                }
            }
        }
    }

    /// A refused update leaves the snapshot as it was; an accepted one keeps rows, indexes and told changes in step.
    #[test]
    fn updates_keep_rows_indexes_and_changes_in_step((notation, updates) in updates()) {
        let mut now = empty();
        for json in updates {
            let json = serde_json::value::to_raw_value(&json).unwrap();
            let Ok(update) = parse(&json, notation) else { continue };
            let Ok((next, changes)) = now.apply(&update) else { continue };
            let mut told: BTreeMap<Uuid, Arc<Thing>> = now.rows::<Thing>().map(|(uuid, row)| (uuid, row.clone())).collect();
            for change in changes {
                let change = change.row::<Thing>().unwrap();
                let before = match change.new {
                    Some(row) => told.insert(change.uuid, row),
                    None => told.remove(&change.uuid),
                };
                prop_assert_eq!(before, change.old);
            }
            let rows: BTreeMap<Uuid, Arc<Thing>> = next.rows::<Thing>().map(|(uuid, row)| (uuid, row.clone())).collect();
            prop_assert_eq!(&told, &rows);
            for name in rows.values().map(|row| row.name.as_str()).chain(["", "x", "y"]) {
                let found: Vec<Uuid> = next.find(Thing::by_name(), name).map(|(uuid, _)| uuid).collect();
                let want: Vec<Uuid> = rows.iter().filter(|(_, row)| row.name == name).map(|(uuid, _)| *uuid).collect();
                prop_assert_eq!(found, want);
            }
            for number in 0..5_i64 {
                let found: Vec<Uuid> = next.find(Thing::by_number(), number).map(|(uuid, _)| uuid).collect();
                let want: Vec<Uuid> =
                    rows.iter().filter(|(_, row)| row.numbers.contains(&number)).map(|(uuid, _)| *uuid).collect();
                prop_assert_eq!(found, want);
            }
            now = next;
        }
    }
}
