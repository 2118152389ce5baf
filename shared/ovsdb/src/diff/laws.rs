//! Laws of the differ, checked on a model of the server that executes transactions on two tables.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::row::Row;
use crate::transaction::{Columns, Condition, Function, Mutation, Mutator};

crate::table! {
    struct Group in "Group" {
        name: String,
        members: BTreeSet<Uuid>,
        notes: BTreeMap<String, String>,
        mode: Option<String>,
        status: i64,
    }
    index by_name = |row| Some(row.name.as_str());
}

crate::table! {
    struct Member in "Member" {
        name: String,
        notes: BTreeMap<String, String>,
        weight: i64,
    }
    index by_name = |row| Some(row.name.as_str());
}

const OWNER: &str = "owner";
const OURS: &str = "us";

fn is_ours(notes: &BTreeMap<String, String>) -> bool {
    notes.get(OWNER).is_some_and(|owner| owner == OURS)
}

/// Contents of the modelled database.
#[derive(Debug, Clone, PartialEq, Default)]
struct Model {
    groups: BTreeMap<Uuid, Group>,
    members: BTreeMap<Uuid, Member>,
    next: u128,
}

impl Model {
    fn snapshot(&self) -> Snapshot {
        let mut builder = Snapshot::builder().table::<Group>().table::<Member>();
        for (uuid, row) in &self.groups {
            builder = builder.row(*uuid, row.clone());
        }
        for (uuid, row) in &self.members {
            builder = builder.row(*uuid, row.clone());
        }
        builder.build()
    }

    fn add<T: Row>(rows: &mut BTreeMap<Uuid, T>, next: &mut u128, row: T) -> Uuid {
        *next += 1;
        let uuid = Uuid::from_u128(*next);
        rows.insert(uuid, row);
        uuid
    }

    /// Executes a transaction as RFC 7047 section 5.2 says; `false` if a guard fails, and then nothing is changed.
    fn execute(&mut self, transaction: &Transaction) -> bool {
        let mut next = self.clone();
        let names: BTreeMap<String, Uuid> = transaction
            .operations()
            .iter()
            .filter_map(|operation| match operation {
                Operation::Insert { name: Some(name), .. } => Some(name.clone()),
                _ => None,
            })
            .map(|name| {
                next.next += 1;
                (name, Uuid::from_u128(next.next))
            })
            .collect();
        let fine = transaction.operations().iter().all(|operation| match operation.table() {
            Some("Group") => run(&mut next.groups, operation, &names),
            Some("Member") => run(&mut next.members, operation, &names),
            other => panic!("operation on {other:?}"),
        });
        if fine {
            *self = next;
        }
        fine
    }
}

fn run<T: Row>(rows: &mut BTreeMap<Uuid, T>, operation: &Operation, names: &BTreeMap<String, Uuid>) -> bool {
    let resolved = |datum: &Datum| {
        datum.map_atoms(|atom| match atom {
            Atom::NamedUuid(name) => Atom::Uuid(names[name]),
            other => other.clone(),
        })
    };
    let assign = |row: &mut T, columns: &Columns| {
        for (column, value) in columns {
            row.set_datum(column, Some(&resolved(value))).unwrap();
        }
    };
    let matching = |rows: &BTreeMap<Uuid, T>, conditions: &[Condition]| -> Vec<Uuid> {
        let fits = |uuid: &Uuid, row: &T| conditions.iter().all(|condition| holds(*uuid, row, condition));
        rows.iter().filter(|(uuid, row)| fits(uuid, row)).map(|(uuid, _)| *uuid).collect()
    };
    match operation {
        Operation::Wait { conditions, rows: expected, .. } => {
            let found: BTreeSet<Datum> = matching(rows, conditions).into_iter().map(Datum::scalar).collect();
            return found == expected.iter().map(|row| row["_uuid"].clone()).collect();
        }
        Operation::Insert { row: columns, name, .. } => {
            let mut row = T::default();
            assign(&mut row, columns);
            rows.insert(names[name.as_ref().unwrap()], row);
        }
        Operation::Update { conditions, row: columns, .. } => {
            for uuid in matching(rows, conditions) {
                assign(rows.get_mut(&uuid).unwrap(), columns);
            }
        }
        Operation::Mutate { conditions, mutations, .. } => {
            for uuid in matching(rows, conditions) {
                for mutation in mutations {
                    mutate(rows.get_mut(&uuid).unwrap(), mutation, &resolved(&mutation.value));
                }
            }
        }
        Operation::Delete { conditions, .. } => {
            for uuid in matching(rows, conditions) {
                rows.remove(&uuid);
            }
        }
        Operation::Select { .. } | Operation::Comment(_) => {}
    }
    true
}

fn holds<T: Row>(uuid: Uuid, row: &T, condition: &Condition) -> bool {
    let value =
        if condition.column == "_uuid" { Datum::scalar(uuid) } else { row.datum(&condition.column).unwrap() };
    match (condition.function, &value, &condition.value) {
        (Function::Equal, have, want) => have == want,
        (Function::NotEqual, have, want) => have != want,
        (Function::Includes, Datum::Set(have), Datum::Set(want)) => want.is_subset(have),
        (Function::Includes, Datum::Map(have), Datum::Map(want)) => {
            want.iter().all(|(key, value)| have.get(key) == Some(value))
        }
        other => panic!("condition {other:?}"),
    }
}

fn mutate<T: Row>(row: &mut T, mutation: &Mutation, value: &Datum) {
    let have = row.datum(&mutation.column).unwrap();
    let new = match (mutation.mutator, have, value) {
        (Mutator::Insert, Datum::Set(have), Datum::Set(value)) => {
            Datum::Set(have.union(value).cloned().collect())
        }
        (Mutator::Delete, Datum::Set(have), Datum::Set(value)) => {
            Datum::Set(have.difference(value).cloned().collect())
        }
        (Mutator::Insert, Datum::Map(mut have), Datum::Map(value)) => {
            for (key, value) in value {
                have.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Datum::Map(have)
        }
        (Mutator::Delete, Datum::Map(mut have), Datum::Set(keys)) => {
            have.retain(|key, _| !keys.contains(key));
            Datum::Map(have)
        }
        other => panic!("mutation {other:?}"),
    };
    row.set_datum(&mutation.column, Some(&new)).unwrap();
}

/// What one owner wants: groups with a mode and members with a weight.
type Wish = BTreeMap<String, (Option<String>, BTreeMap<String, i64>)>;

fn desired(wish: &Wish) -> Desired {
    let mut want = Desired::default();
    let members = Arc::new(Claim::by(Member::by_name()).all().unique(Member::name()));
    let groups = Arc::new(
        Claim::by(Group::by_name())
            .whole(Group::name())
            .whole(Group::mode())
            .keys(Group::notes(), [OWNER, "extra"])
            .references(Group::members(), |member: &Member| is_ours(&member.notes)),
    );
    let ours = || BTreeMap::from([(OWNER.to_owned(), OURS.to_owned())]);
    for (name, (mode, wanted)) in wish {
        let references = wanted.iter().map(|(member, weight)| {
            // Members are named after their group, so that none is wanted twice.
            let row = Member { name: format!("{name}-{member}"), notes: ours(), weight: *weight };
            want.row(&members, row)
        });
        let row = Group {
            members: references.collect(),
            name: name.clone(),
            notes: ours(),
            mode: mode.clone(),
            status: 0,
        };
        want.row(&groups, row);
    }
    want.sweep(Group::notes(), |group: &Group| is_ours(&group.notes));
    want.sweep(Member::notes(), |member: &Member| is_ours(&member.notes));
    want
}

fn wish() -> impl Strategy<Value = Wish> {
    let mode = proptest::option::of("[st]");
    let members = proptest::collection::btree_map("[a-c]", 0i64..3, 0..3);
    proptest::collection::btree_map("[g-j]", (mode, members), 0..4)
}

/// A database with rows of ours and of others, and foreign keys and members in both.
fn world() -> impl Strategy<Value = Model> {
    let owner = || prop_oneof![Just(Some(OURS)), Just(Some("them")), Just(None)];
    let notes = move || {
        (owner(), proptest::collection::btree_map("extra|other", "[xy]", 0..3)).prop_map(
            |(owner, mut notes)| {
                notes.extend(owner.map(|owner| (OWNER.to_owned(), owner.to_owned())));
                notes
            },
        )
    };
    let members = proptest::collection::btree_map("([g-j]-[a-c])|z", (notes(), 0i64..3), 0..6);
    let chosen = proptest::collection::vec(any::<prop::sample::Index>(), 0..4);
    let groups = proptest::collection::btree_map(
        "[g-k]",
        (notes(), proptest::option::of("[st]"), 0i64..3, chosen),
        0..5,
    );
    (members, groups).prop_map(|(members, groups)| {
        let mut model = Model::default();
        for (name, (notes, weight)) in members {
            Model::add(&mut model.members, &mut model.next, Member { name, notes, weight });
        }
        let known: Vec<Uuid> = model.members.keys().copied().collect();
        for (name, (notes, mode, status, chosen)) in groups {
            let members =
                chosen.iter().filter(|_| !known.is_empty()).map(|index| *index.get(&known)).collect();
            Model::add(&mut model.groups, &mut model.next, Group { name, members, notes, mode, status });
        }
        model
    })
}

/// What the wish demands, and what must be left alone, both hold.
fn assert_fulfilled(wish: &Wish, before: &Model, after: &Model) -> Result<(), TestCaseError> {
    let wanted_member = |name: &str| {
        let parts = name.split_once('-');
        parts.is_some_and(|(group, member)| {
            wish.get(group).is_some_and(|(_, members)| members.contains_key(member))
        })
    };
    let ours: BTreeSet<&str> =
        after.groups.values().filter(|row| is_ours(&row.notes)).map(|row| row.name.as_str()).collect();
    prop_assert_eq!(ours, wish.keys().map(String::as_str).collect::<BTreeSet<_>>());
    for (name, (mode, wanted)) in wish {
        let (uuid, group) = after.groups.iter().find(|(_, row)| row.name == *name).unwrap();
        prop_assert_eq!(&group.mode, mode);
        prop_assert_eq!(group.notes.get("extra"), None, "an owned key without wanted value is removed");
        let members = group.members.iter().map(|uuid| &after.members[uuid]).filter(|row| is_ours(&row.notes));
        let present: BTreeMap<&str, i64> = members.map(|row| (row.name.as_str(), row.weight)).collect();
        let wanted: Vec<_> =
            wanted.iter().map(|(member, weight)| (format!("{name}-{member}"), *weight)).collect();
        prop_assert_eq!(present, wanted.iter().map(|(name, weight)| (name.as_str(), *weight)).collect());
        if let Some(old) = before.groups.get(uuid) {
            prop_assert_eq!(group.notes.get("other"), old.notes.get("other"), "a foreign key changed");
            prop_assert_eq!(group.status, old.status, "an unclaimed column changed");
            let foreign = |uuid: &&Uuid| {
                let member = &before.members[*uuid];
                !is_ours(&member.notes) && !wanted_member(&member.name)
            };
            for member in old.members.iter().filter(foreign) {
                prop_assert!(group.members.contains(member), "a foreign member was dropped");
            }
        }
    }
    for (uuid, group) in &before.groups {
        if !is_ours(&group.notes) && !wish.contains_key(&group.name) {
            prop_assert_eq!(after.groups.get(uuid), Some(group), "a foreign group changed");
        }
    }
    for (uuid, member) in &before.members {
        if !is_ours(&member.notes) && !wanted_member(&member.name) {
            prop_assert_eq!(after.members.get(uuid), Some(member), "a foreign member changed");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn applying_the_difference_fulfils_the_wish_and_nothing_else(wish in wish(), before in world()) {
        let transaction = diff(&desired(&wish), &before.snapshot()).unwrap();
        let mut after = before.clone();
        prop_assert!(after.execute(&transaction), "a guard failed without a race:\n{transaction}");
        assert_fulfilled(&wish, &before, &after)?;
    }

    #[test]
    fn the_second_pass_is_empty(wish in wish(), before in world()) {
        let mut after = before;
        let first = diff(&desired(&wish), &after.snapshot()).unwrap();
        after.execute(&first);
        let second = diff(&desired(&wish), &after.snapshot()).unwrap();
        prop_assert!(second.is_empty(), "after\n{first}came\n{second}");
    }

    #[test]
    fn one_wish_after_another_ends_where_the_last_alone_ends(first in wish(), second in wish()) {
        let mut model = Model::default();
        for wish in [&first, &second] {
            let transaction = diff(&desired(wish), &model.snapshot()).unwrap();
            prop_assert!(model.execute(&transaction));
        }
        assert_fulfilled(&second, &Model::default(), &model)?;
        prop_assert_eq!(model.groups.len(), second.len(), "orphans are left");
    }

    #[test]
    fn of_two_plans_for_the_same_value_the_second_fails_and_changes_nothing(
        wish in wish(), first in modes(), second in modes(), before in world(),
    ) {
        let mut base = before;
        base.execute(&diff(&desired(&wish), &base.snapshot()).unwrap());
        let plan = |modes: &[Option<String>]| diff(&desired(&with_modes(&wish, modes)), &base.snapshot()).unwrap();
        let mut present = base.clone();
        prop_assert!(present.execute(&plan(&first)));
        let mut after = present.clone();
        let accepted = after.execute(&plan(&second));
        let changed = |mode: &Option<String>, new: &Option<String>| mode != new;
        let conflict = wish.values().zip(first.iter().zip(&second)).any(|((mode, _), (first, second))| {
            changed(mode, first) && changed(mode, second)
        });
        prop_assert_eq!(accepted, !conflict);
        if conflict {
            prop_assert_eq!(after, present);
        }
    }
}

fn modes() -> impl Strategy<Value = Vec<Option<String>>> {
    proptest::collection::vec(proptest::option::of("[st]"), 4)
}

fn with_modes(wish: &Wish, modes: &[Option<String>]) -> Wish {
    let changed = wish
        .iter()
        .zip(modes)
        .map(|((name, (_, members)), mode)| (name.clone(), (mode.clone(), members.clone())));
    changed.collect()
}
