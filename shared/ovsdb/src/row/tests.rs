use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::*;
use crate::column::Arity;
use crate::value::AtomicType;

crate::table! {
    /// A table with every kind of declaration.
    struct Sample in "Sample_Table" {
        /// Documented.
        name: String,
        kind as "type": String,
        ports: BTreeSet<Uuid>,
        optional since: Option<i64>,
        optional tuned as "x-tuned": BTreeMap<String, String>,
        rate: f64
    }
    index by_name = |row| Some(row.name.as_str());
    index by_port = |row| row.ports.iter().copied();
}

#[test]
fn a_declaration_lists_its_columns_by_their_schema_names() {
    let listed: Vec<(&str, bool)> =
        Sample::columns().iter().map(|column| (column.name, column.optional)).collect();
    let expected = [
        ("name", false),
        ("type", false),
        ("ports", false),
        ("since", true),
        ("x-tuned", true),
        ("rate", false),
    ];
    assert_eq!(listed, expected);
    assert_eq!(Sample::TABLE, "Sample_Table");
    assert_eq!(Sample::kind().name(), "type");
    let since = Sample::columns()[3].shape;
    assert_eq!((since.elements.key, since.arity), (AtomicType::Integer, Arity::Optional));
}

#[test]
fn columns_are_written_and_read_by_name() {
    let mut row = Sample::default();
    for (column, datum) in [
        ("name", Datum::scalar("a")),
        ("type", Datum::scalar("b")),
        ("since", Datum::scalar(3i64)),
        ("x-tuned", Datum::map([("k", "v")])),
        ("rate", Datum::scalar(1.5)),
    ] {
        row.set_datum(column, Some(&datum)).unwrap();
        assert_eq!(row.datum(column), Some(datum));
    }
    assert_eq!((row.kind.as_str(), row.since), ("b", Some(Some(3))));
    assert_eq!(row.datum("undeclared"), None);
}

#[test]
fn an_optional_column_tells_absent_from_empty() {
    let mut row = Sample::default();
    row.set_datum("since", Some(&Datum::Set(BTreeSet::new()))).unwrap();
    assert_eq!(row.since, Some(None));
    row.set_datum("since", None).unwrap();
    assert_eq!((row.since, row.datum("since")), (None, None));
}

#[test]
fn a_value_that_does_not_fit_is_refused() {
    let mut row = Sample::default();
    assert!(row.set_datum("name", Some(&Datum::Set(BTreeSet::new()))).is_err());
    assert!(row.set_datum("since", Some(&Datum::set([1i64, 2]))).is_err());
    assert!(row.set_datum("ports", Some(&Datum::scalar("x"))).is_err());
    assert!(row.set_datum("x-tuned", Some(&Datum::scalar("x"))).is_err());
}

#[test]
fn an_index_yields_any_number_of_keys_per_row() {
    let ports = BTreeSet::from([Uuid::from_u128(1), Uuid::from_u128(2)]);
    let row = Sample { name: "a".into(), ports: ports.clone(), ..Sample::default() };
    assert_eq!((Sample::by_name().keys)(&row), [Atom::from("a")]);
    assert_eq!((Sample::by_port().keys)(&row), ports.into_iter().map(Atom::from).collect::<Vec<_>>());
    assert_eq!(Sample::indexes().len(), 2);
}
