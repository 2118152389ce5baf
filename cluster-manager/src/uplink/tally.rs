//! How many conditions of UplinkStates say what, and since when. Fed by the watch, change by change, so every replica has
//! these numbers, whoever leads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::watched::{State, Told};

/// Upper bounds of the buckets of time in a status, in seconds: from a blink to a day.
const BOUNDS: [f64; 9] = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0];

/// Type, status and reason of a condition.
type Label = [(&'static str, &'static str); 3];

/// Type and status of a condition.
type Status = [(&'static str, &'static str); 2];

/// Counts of conditions; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    conditions: Family<Label, Gauge>,
    oldest: Family<Label, Gauge>,
    lasted: Family<Status, Histogram, fn() -> Histogram>,
    since: Arc<Mutex<HashMap<Label, BTreeMap<i64, usize>>>>,
}

impl Tally {
    /// Adds the counts to `registry`.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let tally = Self {
            conditions: Family::default(),
            oldest: Family::default(),
            lasted: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            since: Arc::default(),
        };
        registry.register(
            "uplink_state_conditions",
            "Conditions of UplinkStates by type, status and reason",
            tally.conditions.clone(),
        );
        registry.register_with_unit(
            "uplink_state_condition_oldest_transition_timestamp",
            "Oldest transition time among the conditions that say this now, in seconds since 1970",
            Unit::Seconds,
            tally.oldest.clone(),
        );
        registry.register_with_unit(
            "uplink_state_condition_duration",
            "How long conditions of UplinkStates had had a status when it changed",
            Unit::Seconds,
            tally.lasted.clone(),
        );
        tally
    }

    /// Takes over one change of one state.
    pub(super) fn change(&self, old: Option<&State>, new: Option<&State>) {
        let told = |state: Option<&State>| state.map(|state| state.told.clone()).unwrap_or_default();
        let (old, new) = (told(old), told(new));
        for gone in old.iter().filter(|told| !new.contains(told)) {
            self.remove(gone);
        }
        for come in new.iter().filter(|told| !old.contains(told)) {
            self.add(come);
        }
        for now in &new {
            let [type_, status, _] = now.label;
            let before = old.iter().find(|before| before.label[0] == type_ && before.label[1] != status);
            if let Some(before) = before {
                let [type_, status, _] = before.label;
                // Whole seconds are all that the API keeps; a clock that was set back gives none.
                let lasted = u32::try_from(now.since.saturating_sub(before.since)).unwrap_or_default();
                self.lasted.get_or_create(&[type_, status]).observe(f64::from(lasted));
            }
        }
    }

    fn add(&self, told: &Told) {
        self.conditions.get_or_create(&told.label).inc();
        self.count(told, |count| count + 1);
    }

    fn remove(&self, told: &Told) {
        self.conditions.get_or_create(&told.label).dec();
        self.count(told, |count| count.saturating_sub(1));
    }

    /// Changes how many conditions have this label since that time, and shows the oldest.
    fn count(&self, told: &Told, change: impl Fn(usize) -> usize) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let times = since.entry(told.label).or_default();
        let count = times.entry(told.since).or_default();
        *count = change(*count);
        if *count == 0 {
            times.remove(&told.since);
        }
        match times.first_key_value() {
            Some((oldest, _)) => drop(self.oldest.get_or_create(&told.label).set(*oldest)),
            None => drop(self.oldest.remove(&told.label)),
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::uplink_state::UplinkState;
    use prometheus_client::encoding::text::encode;
    use serde_json::json;

    use super::*;

    fn state(conditions: &[(&str, &str, &str, u32)]) -> State {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(type_, status, reason, minute)| {
                json!({"type": type_, "status": status, "reason": reason, "message": "",
                    "lastTransitionTime": format!("1970-01-01T00:{minute:02}:00Z")})
            })
            .collect();
        let state: UplinkState = serde_json::from_value(json!({
            "metadata": {"name": "u.n", "uid": "1"},
            "spec": {"uplinkName": "u", "nodeName": "n"},
            "status": {"conditions": conditions},
        }))
        .unwrap();
        State::of(state).unwrap()
    }

    fn encoded(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    const FAILED: &str = "{type=\"Resolved\",status=\"False\",reason=\"BridgeNotFound\"}";
    const GOOD: &str = "{type=\"Resolved\",status=\"True\",reason=\"Resolved\"}";

    #[track_caller]
    fn check(registry: &Registry, present: &[String], absent: &[String]) {
        let text = encoded(registry);
        for line in present {
            assert!(text.contains(&format!("{line}\n")), "{line} in\n{text}");
        }
        for start in absent {
            assert!(!text.contains(start), "{start} in\n{text}");
        }
    }

    #[test]
    fn conditions_are_counted_with_the_oldest_of_their_transitions() {
        let mut registry = Registry::default();
        let tally = Tally::register(&mut registry);
        let old = state(&[("Resolved", "False", "BridgeNotFound", 1)]);
        let young = state(&[("Resolved", "False", "BridgeNotFound", 2)]);
        tally.change(None, Some(&old));
        tally.change(None, Some(&young));
        let oldest = format!("uplink_state_condition_oldest_transition_timestamp_seconds{FAILED}");
        check(&registry, &[format!("uplink_state_conditions{FAILED} 2"), format!("{oldest} 60")], &[]);
        tally.change(Some(&old), None);
        check(&registry, &[format!("uplink_state_conditions{FAILED} 1"), format!("{oldest} 120")], &[]);
        tally.change(Some(&young), None);
        check(&registry, &[format!("uplink_state_conditions{FAILED} 0")], &[oldest]);
    }

    #[test]
    fn a_status_that_ends_is_observed_with_its_duration() {
        let mut registry = Registry::default();
        let tally = Tally::register(&mut registry);
        let failed = state(&[("Resolved", "False", "BridgeNotFound", 1)]);
        let still = state(&[("Resolved", "False", "BridgeInvalid", 1)]);
        let good = state(&[("Resolved", "True", "Resolved", 3)]);
        tally.change(None, Some(&failed));
        tally.change(Some(&failed), Some(&still));
        check(&registry, &[format!("uplink_state_conditions{FAILED} 0")], &["duration_seconds_count".into()]);
        tally.change(Some(&still), Some(&good));
        let lasted = "uplink_state_condition_duration_seconds";
        let status = "{type=\"Resolved\",status=\"False\"}";
        check(
            &registry,
            &[
                format!("uplink_state_conditions{GOOD} 1"),
                format!("{lasted}_sum{status} 120.0"),
                format!("{lasted}_count{status} 1"),
            ],
            &[],
        );
    }

    #[test]
    fn what_is_unknown_shares_one_label() {
        let mut registry = Registry::default();
        let tally = Tally::register(&mut registry);
        tally.change(None, Some(&state(&[("Novel", "Maybe", "Surprise", 1)])));
        tally.change(None, Some(&state(&[("Newer", "Perhaps", "Shock", 1)])));
        let other = "{type=\"other\",status=\"other\",reason=\"other\"}";
        check(&registry, &[format!("uplink_state_conditions{other} 2")], &["Novel".into(), "Shock".into()]);
    }
}
