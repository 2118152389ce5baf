//! Sets of addresses of Services.

use std::sync::Arc;

use ovsdb::{Claim, Desired, Snapshot};

use super::super::northbound::AddressSet;
use super::super::rows::Rows;
use super::super::service;

/// Wants the sets, and no other ones of their kind. Notes of others stay.
pub(super) fn sets(rows: &Rows, all: bool, have: &Snapshot) -> Desired {
    let mut want = Desired::default();
    let claim = Claim::by(AddressSet::by_name()).whole(AddressSet::name());
    let claim = claim.part(AddressSet::external_ids(), |_| false);
    let claim = Arc::new(if all {
        claim.whole(AddressSet::addresses())
    } else {
        claim.part(AddressSet::addresses(), |_| false)
    });
    for set in rows.address_sets.values() {
        want.row(&claim, set.clone());
    }
    for (uuid, set) in have.find(AddressSet::by_controller(), service::OWNER) {
        if service::is_set(&set.external_ids) && !rows.address_sets.contains_key(&set.name) {
            want.delete::<AddressSet, _>(uuid, AddressSet::external_ids());
        }
    }
    want
}
