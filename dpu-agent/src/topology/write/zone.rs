//! The zone's own rows.

use std::sync::Arc;

use ovsdb::{Claim, Desired, Snapshot, Uuid};

use super::super::northbound::{Copp, Global, Meter, MeterBand};
use super::super::rows::Rows;

/// Wants the zone's rows; tells the reference to each limit of controllers by name.
pub(super) fn rows(want: &mut Desired, rows: &Rows, have: &Snapshot) -> Vec<(String, Uuid)> {
    if let Some(global) = &rows.global {
        // Options that northd or an administrator set stay.
        let claim = Claim::only().whole(Global::name()).part(Global::options(), |_| false);
        want.row(&Arc::new(claim), global.clone());
    }
    limits(want, rows, have);
    // An old release left one without a name. Source: ovn-kubernetes `pkg/ovn/copp.go`.
    for (uuid, _) in have.find(Copp::by_name(), "") {
        want.delete::<Copp, _>(uuid, Copp::name());
    }
    let claim = Arc::new(Claim::by(Copp::by_name()).all());
    rows.copps.iter().map(|copp| (copp.name.clone(), want.row(&claim, copp.clone()))).collect()
}

/// Limits with equal bands share one band: the one of several equal ones that sorts first.
fn limits(want: &mut Desired, rows: &Rows, have: &Snapshot) {
    let mut bands: Vec<(&MeterBand, Uuid)> = Vec::new();
    let claim = Arc::new(Claim::by(Meter::by_name()).all());
    for limit in &rows.limits {
        let known = bands.iter().find(|(band, _)| **band == limit.band).map(|(_, reference)| *reference);
        let reference = known.unwrap_or_else(|| {
            let present = have.rows::<MeterBand>().find(|(_, band)| ***band == limit.band);
            let claim = match present {
                Some((uuid, _)) => Claim::row(uuid),
                None => Claim::fresh().all(),
            };
            want.row(&Arc::new(claim), limit.band.clone())
        });
        if known.is_none() {
            bands.push((&limit.band, reference));
        }
        let mut meter = limit.meter.clone();
        meter.bands = [reference].into();
        want.row(&claim, meter);
    }
}
