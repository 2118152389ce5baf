//! What this room counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::plan::{Omitted, Unneeded};
use super::watched::SliceKey;

/// Metrics of the room; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    omitted: Family<[(&'static str, &'static str); 1], Gauge>,
    deleted: Family<[(&'static str, &'static str); 1], Counter>,
    seen: Arc<Mutex<HashMap<SliceKey, Causes>>>,
}

/// How many endpoints of a slice are left out, by cause.
type Causes = BTreeMap<&'static str, i64>;

impl Metrics {
    /// Adds the metrics of the room to `registry`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { omitted: Family::default(), deleted: Family::default(), seen: Arc::default() };
        registry.register(
            "mirrored_endpoints_omitted",
            "Endpoints of Services in primary networks that have no address there, by cause",
            metrics.omitted.clone(),
        );
        registry.register(
            "mirrored_endpointslices_deleted",
            "Mirrored EndpointSlices deleted because they are not needed, by cause",
            metrics.deleted.clone(),
        );
        metrics
    }

    /// Takes over what a pass found out about one slice.
    pub(super) fn omitted(&self, key: &SliceKey, omitted: &[Omitted]) {
        let mut new = Causes::new();
        for one in omitted {
            *new.entry(one.cause.as_str()).or_default() += 1;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (cause, number) in seen.remove(key).unwrap_or_default() {
            self.omitted.get_or_create(&[("cause", cause)]).dec_by(number);
        }
        for (cause, number) in &new {
            self.omitted.get_or_create(&[("cause", *cause)]).inc_by(*number);
        }
        if !new.is_empty() {
            seen.insert(key.clone(), new);
        }
    }

    /// Takes everything back that was found out: another process has the say.
    pub(super) fn forget(&self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.omitted.clear();
    }

    /// Counts a deleted mirror.
    pub(super) fn deleted(&self, because: Unneeded) {
        self.deleted.get_or_create(&[("cause", because.as_str())]).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::endpointslice::plan::Cause;

    #[test]
    fn each_slice_counts_with_its_newest_causes_only() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let say = |slice: &str, causes: &[Cause]| {
            let omitted: Vec<Omitted> = causes
                .iter()
                .enumerate()
                .map(|(index, cause)| Omitted { index, pod: None, cause: cause.clone() })
                .collect();
            metrics.omitted(&SliceKey::new("blue", slice), &omitted);
        };
        say("a", &[Cause::NotYet, Cause::NotYet, Cause::NotAPod]);
        say("a", &[Cause::NotYet]);
        say("b", &[Cause::NotAPod]);
        say("b", &[]);
        metrics.deleted(Unneeded::NoSource);
        let text = |registry: &Registry| {
            let mut text = String::new();
            encode(&mut text, registry).unwrap();
            text
        };
        for line in [
            "mirrored_endpoints_omitted{cause=\"no_address_yet\"} 1",
            "mirrored_endpoints_omitted{cause=\"not_a_pod\"} 0",
            "mirrored_endpointslices_deleted_total{cause=\"no_source\"} 1",
        ] {
            let text = text(&registry);
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        metrics.forget();
        assert!(!text(&registry).contains("cause=\"no_address_yet\""));
    }
}
