use proptest::prelude::*;
use serde_json::json;

use super::*;

const STRINGS: ElementType = ElementType { key: AtomicType::String, value: None };
const STRING_MAP: ElementType = ElementType { key: AtomicType::String, value: Some(AtomicType::String) };

pub(crate) fn atom(kind: AtomicType) -> BoxedStrategy<Atom> {
    match kind {
        AtomicType::Integer => any::<i64>().prop_map(Atom::Integer).boxed(),
        // Finite only: JSON has no infinity. Negative zero is written as -0.0 and read back as such.
        AtomicType::Real => (-1e300f64..1e300).prop_map(Atom::Real).boxed(),
        AtomicType::Boolean => any::<bool>().prop_map(Atom::Boolean).boxed(),
        AtomicType::String => any::<String>().prop_map(Atom::String).boxed(),
        AtomicType::Uuid => prop_oneof![
            any::<u128>().prop_map(|bits| Atom::Uuid(Uuid::from_u128(bits))),
            "[a-z_][a-z0-9_]{0,8}".prop_map(Atom::NamedUuid)
        ]
        .boxed(),
    }
}

fn kind() -> impl Strategy<Value = AtomicType> {
    prop_oneof![
        Just(AtomicType::Integer),
        Just(AtomicType::Real),
        Just(AtomicType::Boolean),
        Just(AtomicType::String),
        Just(AtomicType::Uuid)
    ]
}

fn datum() -> impl Strategy<Value = (ElementType, Datum)> {
    (kind(), proptest::option::of(kind())).prop_flat_map(|(key, value)| {
        let data = match value {
            None => proptest::collection::btree_set(atom(key), 0..5).prop_map(Datum::Set).boxed(),
            Some(kind) => {
                proptest::collection::btree_map(atom(key), atom(kind), 0..5).prop_map(Datum::Map).boxed()
            }
        };
        data.prop_map(move |datum| (ElementType { key, value }, datum))
    })
}

proptest! {
    #[test]
    fn every_value_survives_the_wire((kind, datum) in datum()) {
        let text = datum.to_json().to_string();
        let back = Datum::from_json(&serde_json::from_str(&text).unwrap(), kind).unwrap();
        prop_assert_eq!(back, datum);
    }
}

#[test]
fn wire_forms_are_those_of_the_rfc() {
    let uuid = Uuid::from_u128(7);
    let cases = [
        (Datum::scalar("x"), json!("x")),
        (Datum::Set(BTreeSet::new()), json!(["set", []])),
        (Datum::set([1i64, 2]), json!(["set", [1, 2]])),
        (Datum::scalar(uuid), json!(["uuid", "00000000-0000-0000-0000-000000000007"])),
        (Datum::scalar(Atom::NamedUuid("new".into())), json!(["named-uuid", "new"])),
        (Datum::map([("a", "1")]), json!(["map", [["a", "1"]]])),
    ];
    for (datum, wire) in cases {
        assert_eq!(datum.to_json(), wire);
    }
}

#[test]
fn a_real_without_fraction_is_read_as_a_real() {
    let kind = ElementType { key: AtomicType::Real, value: None };
    assert_eq!(Datum::from_json(&json!(3), kind).unwrap(), Datum::scalar(3.0));
}

#[test]
fn a_set_of_one_may_come_with_or_without_the_tag() {
    assert_eq!(Datum::from_json(&json!(["set", ["a"]]), STRINGS), Datum::from_json(&json!("a"), STRINGS));
}

#[test]
fn values_of_another_type_are_refused_and_shown() {
    for (wire, kind) in [
        (json!(1), STRINGS),
        (json!(["map", []]), STRINGS),
        (json!(["set", []]), STRING_MAP),
        (json!(["map", [["a"]]]), STRING_MAP),
        (json!(1.5), ElementType { key: AtomicType::Integer, value: None }),
        (json!(["uuid", "not-a-uuid"]), ElementType { key: AtomicType::Uuid, value: None }),
        (
            json!(["uuid", "0123456789abcdef0123456789abcdef"]),
            ElementType { key: AtomicType::Uuid, value: None },
        ),
    ] {
        let error = Datum::from_json(&wire, kind).unwrap_err();
        assert!(!error.found.is_empty(), "{wire} was accepted");
    }
}

#[test]
fn long_values_are_cut_on_a_character_boundary_in_error_texts() {
    let text = shorten(&json!("é".repeat(500)));
    assert_eq!(text.chars().count(), 121);
}
