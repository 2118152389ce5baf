//! Rows that live in a column of another row and have no name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ovsdb::{Claim, Desired, FlatSet, Row, Snapshot, Uuid, pair};

use super::super::mark;
use super::super::northbound::{Acl, Nat, Pairs, RouterPolicy, StaticRoute};

/// A kind of such rows.
pub(super) trait Nameless: Row {
    /// What makes two of them the same row although they differ.
    fn key(&self) -> Vec<String>;
    /// Notes of a row.
    fn ids(&self) -> &Pairs;
    /// A claim to all of a row, but to foreign notes.
    fn claim(claim: Claim<Self>) -> Claim<Self>;
    /// Whether a row without any note is the wanted one, which lost its marks or never had some.
    fn is_unmarked(&self, wanted: &Self) -> bool {
        self.ids().is_empty() && self.key() == wanted.key()
    }
}

impl Nameless for StaticRoute {
    fn key(&self) -> Vec<String> {
        // One prefix has one route: a route of a node that is gone is replaced, not doubled.
        let option = |value: &Option<String>| value.clone().unwrap_or_default();
        vec![
            self.ip_prefix.clone(),
            option(&self.policy),
            option(&self.output_port),
            self.route_table.clone(),
        ]
    }

    fn ids(&self) -> &Pairs {
        &self.external_ids
    }

    fn claim(claim: Claim<Self>) -> Claim<Self> {
        claim.all().keys(Self::external_ids(), mark::KEYS.iter().copied())
    }
}

impl Nameless for RouterPolicy {
    fn key(&self) -> Vec<String> {
        vec![self.priority.to_string(), self.condition.clone()]
    }

    fn ids(&self) -> &Pairs {
        &self.external_ids
    }

    fn claim(claim: Claim<Self>) -> Claim<Self> {
        claim.all().keys(Self::external_ids(), mark::KEYS.iter().copied())
    }
}

impl Nameless for Nat {
    fn key(&self) -> Vec<String> {
        vec![self.kind.clone(), self.logical_ip.clone(), self.logical_port.clone().unwrap_or_default()]
    }

    fn ids(&self) -> &Pairs {
        &self.external_ids
    }

    fn claim(claim: Claim<Self>) -> Claim<Self> {
        claim.all().keys(Self::external_ids(), mark::KEYS.iter().copied())
    }
}

impl Nameless for Acl {
    fn key(&self) -> Vec<String> {
        vec![self.external_ids.get(causeway_net::network::object_id::ID).unwrap_or_default().to_owned()]
    }

    fn ids(&self) -> &Pairs {
        &self.external_ids
    }

    fn claim(claim: Claim<Self>) -> Claim<Self> {
        claim.all().part(Self::external_ids(), |_| false)
    }

    fn is_unmarked(&self, wanted: &Self) -> bool {
        // The key is a note, so everything else has to be the same.
        self.external_ids.is_empty()
            && Self { external_ids: wanted.external_ids.clone(), ..self.clone() } == *wanted
    }
}

/// Wants rows of one parent; `present` are those that live there now, `ours` tells which of them are the writer's.
pub(super) fn want<T: Nameless>(
    want: &mut Desired,
    have: &Snapshot,
    rows: &[&T],
    present: Option<&FlatSet<Uuid>>,
    ours: impl Fn(&T) -> bool,
) -> FlatSet<Uuid> {
    let present: Vec<(Uuid, &T)> = present
        .into_iter()
        .flatten()
        .filter_map(|uuid| Some((*uuid, have.row::<T>(*uuid)?.as_ref())))
        .collect();
    let owned = present.iter().copied().filter(|(_, row)| ours(row));
    let mut found = pair(rows, owned, T::key);
    for (wanted, found) in rows.iter().zip(&mut found) {
        if found.is_none() {
            let adopted = present.iter().find(|(_, row)| !ours(row) && row.is_unmarked(wanted));
            *found = adopted.map(|(uuid, _)| *uuid);
        }
    }
    let fresh = Arc::new(T::claim(Claim::fresh()));
    let place = |(row, found): (&&T, Option<Uuid>)| match found {
        Some(uuid) => want.row(&Arc::new(T::claim(Claim::row(uuid))), T::clone(row)),
        None => want.row(&fresh, T::clone(row)),
    };
    rows.iter().zip(found).map(place).collect()
}

/// Rows by the name of their parent.
pub(super) fn by_parent<'r, T: 'r>(
    rows: impl IntoIterator<Item = (&'r str, &'r T)>,
) -> BTreeMap<&'r str, Vec<&'r T>> {
    let mut all: BTreeMap<&str, Vec<&T>> = BTreeMap::new();
    for (parent, row) in rows {
        all.entry(parent).or_default().push(row);
    }
    all
}
