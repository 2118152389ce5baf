//! What this room counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_api::uplink::UplinkReason;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::plan::{Stale, Verdict};
use super::watched::UplinkName;

/// Metrics of the room; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    uplinks: Family<[(&'static str, &'static str); 1], Gauge>,
    failing_nodes: Gauge,
    collected: Family<[(&'static str, &'static str); 1], Counter>,
    seen: Arc<Mutex<HashMap<UplinkName, (UplinkReason, i64)>>>,
}

impl Metrics {
    /// Adds the metrics of the room to `registry`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            uplinks: Family::default(),
            failing_nodes: Gauge::default(),
            collected: Family::default(),
            seen: Arc::default(),
        };
        registry.register(
            "uplinks",
            "Uplinks by the reason of their condition Ready",
            metrics.uplinks.clone(),
        );
        registry.register(
            "uplink_failing_nodes",
            "Selected nodes that keep an Uplink from being ready, over all Uplinks",
            metrics.failing_nodes.clone(),
        );
        registry.register(
            "uplink_states_collected",
            "UplinkStates deleted because nobody needs them, by cause",
            metrics.collected.clone(),
        );
        metrics
    }

    /// Takes over what a pass found out about one Uplink; none for one that is gone.
    pub(super) fn verdict(&self, name: &UplinkName, verdict: Option<&Verdict>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let new = verdict.map(|verdict| (verdict.reason, i64::try_from(verdict.failing).unwrap_or(i64::MAX)));
        let old = match new {
            Some(new) => seen.insert(name.clone(), new),
            None => seen.remove(name),
        };
        if let Some((reason, failing)) = old {
            self.uplinks.get_or_create(&[("reason", reason.as_str())]).dec();
            self.failing_nodes.dec_by(failing);
        }
        if let Some((reason, failing)) = new {
            self.uplinks.get_or_create(&[("reason", reason.as_str())]).inc();
            self.failing_nodes.inc_by(failing);
        }
    }

    /// Takes back every verdict: another process has the say.
    pub(super) fn forget_verdicts(&self) {
        let names: Vec<UplinkName> = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.keys().cloned().collect()
        };
        for name in &names {
            self.verdict(name, None);
        }
    }

    /// Counts a deleted state.
    pub(super) fn collected(&self, because: Stale) {
        let cause = match because {
            Stale::UplinkGone => "uplink_gone",
            Stale::UplinkTerminating => "uplink_terminating",
            Stale::NodeGone => "node_gone",
            Stale::NotSelected => "not_selected",
        };
        self.collected.get_or_create(&[("cause", cause)]).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn each_uplink_counts_once_under_its_newest_reason() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let say = |name: &str, reason, failing| {
            let verdict = Verdict { reason, message: String::new(), failing };
            metrics.verdict(&UplinkName::from(name), Some(&verdict));
        };
        say("a", UplinkReason::MissingUplinkState, 3);
        say("a", UplinkReason::UplinkStateNotResolved, 2);
        say("b", UplinkReason::Ready, 0);
        say("c", UplinkReason::MissingUplinkState, 5);
        metrics.verdict(&UplinkName::from("c"), None);
        metrics.collected(Stale::NodeGone);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "uplinks{reason=\"UplinkStateNotResolved\"} 1",
            "uplinks{reason=\"MissingUplinkState\"} 0",
            "uplinks{reason=\"Ready\"} 1",
            "uplink_failing_nodes 2",
            "uplink_states_collected_total{cause=\"node_gone\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        metrics.forget_verdicts();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in ["uplinks{reason=\"Ready\"} 0", "uplink_failing_nodes 0"] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
