//! Rows without a key of their own: which of those that are there each wanted one is.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use crate::row::Row;

/// For each wanted row, the row that is there and that it is; none for a new one.
///
/// Such rows live in a column of another row (routes, translations, access rules): `present` are those of them that are
/// the writer's. A row that is equal is taken first, so that nothing is written where nothing differs; then one with the
/// same `key`, which is changed in place; rows that nobody wants are left over.
pub fn pair<'r, T: Row, K: Ord>(
    wanted: &[&T],
    present: impl IntoIterator<Item = (Uuid, &'r T)>,
    key: impl Fn(&T) -> K,
) -> Vec<Option<Uuid>> {
    let mut by_key: BTreeMap<K, VecDeque<(Uuid, &T)>> = BTreeMap::new();
    for (uuid, row) in present {
        by_key.entry(key(row)).or_default().push_back((uuid, row));
    }
    let mut found: Vec<Option<Uuid>> = wanted
        .iter()
        .map(|want| {
            let same = by_key.get_mut(&key(want))?;
            let place = same.iter().position(|(_, row)| row == want)?;
            same.remove(place).map(|(uuid, _)| uuid)
        })
        .collect();
    for (want, found) in wanted.iter().zip(&mut found) {
        if found.is_none() {
            *found = by_key.get_mut(&key(want)).and_then(VecDeque::pop_front).map(|(uuid, _)| uuid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Claim, Desired, Operation, Snapshot, diff};

    crate::table! {
        struct Route in "Route" {
            prefix: String,
            hop: String,
            mark: String,
        }
    }

    fn route(prefix: &str, hop: &str) -> Route {
        Route { prefix: prefix.to_owned(), hop: hop.to_owned(), mark: "ours".to_owned() }
    }

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn paired(wanted: &[Route], present: &[Route]) -> Vec<Option<Uuid>> {
        let present: Vec<(Uuid, &Route)> = (1..).map(id).zip(present).collect();
        pair(&wanted.iter().collect::<Vec<_>>(), present, |route| route.prefix.clone())
    }

    #[test]
    fn an_equal_row_is_taken_before_one_with_the_same_key() {
        let present = [route("a", "1"), route("a", "2"), route("b", "1")];
        assert_eq!(paired(&[route("a", "2")], &present), [Some(id(2))]);
        assert_eq!(paired(&[route("a", "3"), route("a", "1")], &present), [Some(id(2)), Some(id(1))]);
        assert_eq!(paired(&[route("b", "9")], &present), [Some(id(3))], "changed in place");
    }

    #[test]
    fn no_row_is_taken_twice_and_what_is_not_there_is_new() {
        let present = [route("a", "1")];
        assert_eq!(paired(&[route("a", "1"), route("a", "1")], &present), [Some(id(1)), None]);
        assert_eq!(paired(&[route("c", "1")], &present), [None]);
    }

    fn operations(want: &Desired, have: &Snapshot) -> Vec<&'static str> {
        let words = |operation: &Operation| match operation {
            Operation::Wait { .. } => "wait",
            Operation::Insert { .. } => "insert",
            Operation::Delete { .. } => "delete",
            _ => "other",
        };
        diff(want, have).unwrap().operations().iter().map(words).collect()
    }

    #[test]
    fn a_fresh_row_is_inserted_beside_equal_ones() {
        let have = Snapshot::builder().row(id(1), route("a", "1")).build();
        let claim = std::sync::Arc::new(Claim::fresh().all());
        let mut want = Desired::default();
        want.row(&claim, route("a", "1"));
        want.row(&claim, route("a", "1"));
        assert_eq!(operations(&want, &have), ["insert", "insert"]);
    }

    #[test]
    fn one_row_is_deleted_under_the_guard_of_its_mark_unless_it_is_wanted_or_gone() {
        let have = Snapshot::builder().row(id(1), route("a", "1")).row(id(2), route("b", "1")).build();
        let mut want = Desired::default();
        want.delete::<Route, _>(id(1), Route::mark());
        want.delete::<Route, _>(id(1), Route::mark());
        want.delete::<Route, _>(id(9), Route::mark());
        assert_eq!(operations(&want, &have), ["wait", "delete"]);
        let transaction = diff(&want, &have).unwrap();
        let Some(Operation::Wait { conditions, .. }) = transaction.operations().first() else { panic!() };
        assert_eq!(conditions.len(), 2, "the row and its mark");

        let mut kept = Desired::default();
        kept.row(&std::sync::Arc::new(Claim::row(id(1))), route("a", "1"));
        kept.delete::<Route, _>(id(1), Route::mark());
        assert!(operations(&kept, &have).is_empty());
    }
}
