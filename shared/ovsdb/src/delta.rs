//! How `update2` and `update3` write the change of one column (ovsdb-server(7), "Update2 Notification").
//!
//! Columns that can hold more than one element are sent as a difference: elements that are in exactly one of the old
//! and the new set, or for maps the keys that were removed (with their old value), added or changed (with their new
//! value). All other columns are sent as their new value.

use std::collections::BTreeMap;

use crate::value::{Atom, Datum};

/// The new value of a composite column from its old value and a difference.
///
/// `None` if one is a set and the other a map.
#[must_use]
pub fn apply(old: &Datum, difference: &Datum) -> Option<Datum> {
    match (old, difference) {
        (Datum::Set(old), Datum::Set(difference)) => {
            Some(Datum::Set(old.symmetric_difference(difference).cloned().collect()))
        }
        (Datum::Map(old), Datum::Map(difference)) => {
            let mut new = old.clone();
            for (key, value) in difference {
                // A pair that is there already can only mean its removal: an unchanged pair is never sent.
                if old.get(key) == Some(value) {
                    new.remove(key);
                } else {
                    new.insert(key.clone(), value.clone());
                }
            }
            Some(Datum::Map(new))
        }
        _ => None,
    }
}

/// The difference that turns `old` into `new` in a composite column.
///
/// `None` if one is a set and the other a map.
#[must_use]
pub fn between(old: &Datum, new: &Datum) -> Option<Datum> {
    match (old, new) {
        (Datum::Set(old), Datum::Set(new)) => {
            Some(Datum::Set(old.symmetric_difference(new).cloned().collect()))
        }
        (Datum::Map(old), Datum::Map(new)) => {
            let removed = old.iter().filter(|(key, _)| !new.contains_key(key));
            let written = new.iter().filter(|(key, value)| old.get(key) != Some(value));
            let pairs = removed.chain(written).map(|(key, value)| (key.clone(), value.clone()));
            Some(Datum::Map(pairs.collect::<BTreeMap<Atom, Atom>>()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = Datum> {
        proptest::collection::btree_set(0i64..8, 0..8).prop_map(Datum::set)
    }

    fn map() -> impl Strategy<Value = Datum> {
        proptest::collection::btree_map(0i64..6, 0i64..3, 0..6).prop_map(Datum::map)
    }

    proptest! {
        #[test]
        fn the_difference_of_two_sets_leads_from_one_to_the_other(old in set(), new in set()) {
            prop_assert_eq!(apply(&old, &between(&old, &new).unwrap()), Some(new));
        }

        #[test]
        fn the_difference_of_two_maps_leads_from_one_to_the_other(old in map(), new in map()) {
            prop_assert_eq!(apply(&old, &between(&old, &new).unwrap()), Some(new));
        }

        #[test]
        fn equal_values_have_an_empty_difference(set in set(), map in map()) {
            prop_assert!(between(&set, &set).unwrap().is_empty());
            prop_assert!(between(&map, &map).unwrap().is_empty());
        }
    }

    #[test]
    fn a_map_difference_removes_adds_and_changes_keys() {
        let old = Datum::map([("gone", "1"), ("kept", "2"), ("changed", "3")]);
        let difference = Datum::map([("gone", "1"), ("changed", "4"), ("new", "5")]);
        let new = Datum::map([("kept", "2"), ("changed", "4"), ("new", "5")]);
        assert_eq!(apply(&old, &difference), Some(new));
    }

    #[test]
    fn a_set_and_a_map_do_not_mix() {
        let (set, map) = (Datum::set([1i64]), Datum::map([(1i64, 1i64)]));
        assert_eq!(apply(&set, &map), None);
        assert_eq!(between(&map, &set), None);
    }
}
