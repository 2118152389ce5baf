//! When the condition of an Uplink may be written: at once if it is news, later if it is only a better account of the same.
//!
//! The nodes of a large cluster change together, and each change makes another text ("7 of 100 selected nodes …"). Such a
//! text waits for the others, and what turns the condition round while it waits is written instead of it. So a thousand
//! changes make a few writes, and the last node of three to find its bridge makes the Uplink ready at once.
//!
//! In no [`INTERVAL`] is an Uplink written twice, but for its very first condition, which nothing has to wait for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_api::uplink::UplinkReason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::Instant;

use super::watched::UplinkName;

/// Shortest time between two writes of one Uplink, and how long an account waits for better ones.
const INTERVAL: Duration = Duration::from_millis(100);

/// Reasons that tell what an Uplink waits for: while it waits, one of them is as good as the other.
const WAITING: [UplinkReason; 2] = [UplinkReason::MissingUplinkState, UplinkReason::UplinkStateNotResolved];

/// What was written when, by Uplink. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(Arc<Mutex<HashMap<UplinkName, Written>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// When it was written last; none if that was its first condition.
    last: Option<Instant>,
    /// Since when an account waits.
    waits: Option<Instant>,
}

impl Pace {
    /// How long the condition `wanted` has to wait, of an Uplink whose condition is `seen`; none if it may be written now.
    pub(super) fn wait(
        &self,
        name: &UplinkName,
        seen: Option<&Condition>,
        wanted: &Condition,
        now: Instant,
    ) -> Option<Duration> {
        let mut entries = self.lock();
        let entry = entries.entry(name.clone()).or_default();
        let begun = if seen.is_some_and(|seen| is_account_of(seen, wanted)) {
            Some(*entry.waits.get_or_insert(now))
        } else {
            None
        };
        let due = entry.last.into_iter().chain(begun).max()? + INTERVAL;
        due.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// The condition was written. `is_first` says that the Uplink had none before.
    pub(super) fn wrote(&self, name: &UplinkName, is_first: bool, now: Instant) {
        let last = (!is_first).then_some(now);
        self.lock().insert(name.clone(), Written { last, waits: None });
    }

    /// There is nothing to write: what waited is not true any more.
    pub(super) fn rests(&self, name: &UplinkName) {
        if let Some(entry) = self.lock().get_mut(name) {
            entry.waits = None;
        }
    }

    /// The Uplink is gone.
    pub(super) fn forget(&self, name: &UplinkName) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UplinkName, Written>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a condition says in other words what another one says already, or what else the Uplink waits for.
fn is_account_of(seen: &Condition, wanted: &Condition) -> bool {
    let waits = |condition: &Condition| WAITING.iter().any(|reason| reason.as_str() == condition.reason);
    let same = seen.reason == wanted.reason || (waits(seen) && waits(wanted));
    same && seen.status == wanted.status && seen.observed_generation == wanted.observed_generation
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const MISSING: UplinkReason = UplinkReason::MissingUplinkState;
    const UNRESOLVED: UplinkReason = UplinkReason::UplinkStateNotResolved;

    fn condition(reason: UplinkReason, message: &str, generation: i64) -> Condition {
        let status = if reason == UplinkReason::Ready { "True" } else { "False" };
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.as_str().into(),
            message: message.into(),
            observed_generation: Some(generation),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn only_another_account_of_the_same_can_wait() {
        let seen = condition(UNRESOLVED, "2 of 3", 1);
        let rows = [
            (condition(UNRESOLVED, "1 of 3", 1), true),
            (condition(MISSING, "1 of 3", 1), true),
            (condition(UplinkReason::Ready, "all", 1), false),
            (condition(UplinkReason::InvalidSpec, "bad", 1), false),
            (condition(UplinkReason::UplinkTerminating, "", 1), false),
            (condition(UNRESOLVED, "2 of 3", 2), false),
        ];
        for (wanted, waits) in rows {
            assert_eq!(is_account_of(&seen, &wanted), waits, "{wanted:?}");
        }
        let ready = condition(UplinkReason::Ready, "all 3", 1);
        assert!(is_account_of(&ready, &condition(UplinkReason::Ready, "all 4", 1)));
        assert!(!is_account_of(&ready, &seen));
    }

    /// What happens, in milliseconds, and how long the write has to wait: none for at once.
    #[track_caller]
    fn check(rows: &[(u64, &Condition, Option<u64>)], seen: &mut Option<Condition>) {
        let (pace, name, begun) = (Pace::default(), UplinkName::from("u"), Instant::now());
        for (at, wanted, want) in rows {
            let now = begun + Duration::from_millis(*at);
            let wait = pace.wait(&name, seen.as_ref(), wanted, now);
            assert_eq!(wait, want.map(Duration::from_millis), "at {at} ms");
            if wait.is_none() {
                pace.wrote(&name, seen.is_none(), now);
                *seen = Some((*wanted).clone());
            }
        }
    }

    #[test]
    fn an_uplink_gets_ready_at_once_after_its_first_condition() {
        let (missing, ready) = (condition(MISSING, "", 1), condition(UplinkReason::Ready, "", 1));
        let part = condition(UNRESOLVED, "2 of 3", 1);
        let rows = [(0, &missing, None), (5, &part, Some(100)), (8, &part, Some(97)), (11, &ready, None)];
        check(&rows, &mut None);
    }

    #[test]
    fn no_account_waits_longer_than_the_interval() {
        let texts: Vec<_> = (0..6).map(|left| condition(UNRESOLVED, &format!("{left} of 6"), 1)).collect();
        let rows = [
            (0, &texts[5], Some(100)),
            (60, &texts[4], Some(40)),
            (99, &texts[3], Some(1)),
            (100, &texts[2], None),
            (101, &texts[1], Some(100)),
            (201, &texts[0], None),
        ];
        check(&rows, &mut Some(condition(UNRESOLVED, "6 of 6", 1)));
    }

    #[test]
    fn news_wait_only_for_the_write_before() {
        let (ready, broken) = (condition(UplinkReason::Ready, "", 1), condition(UNRESOLVED, "1 of 3", 1));
        let rows = [(0, &ready, None), (30, &broken, Some(70)), (99, &broken, Some(1)), (100, &broken, None)];
        check(&rows, &mut Some(broken.clone()));
    }

    #[test]
    fn what_is_not_true_any_more_does_not_make_the_next_account_older() {
        let (pace, name, begun) = (Pace::default(), UplinkName::from("u"), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let (seen, other) = (condition(UNRESOLVED, "1 of 3", 1), condition(UNRESOLVED, "2 of 3", 1));
        assert!(pace.wait(&name, Some(&seen), &other, at(0)).is_some());
        pace.rests(&name);
        let wait = pace.wait(&name, Some(&seen), &other, at(500));
        assert_eq!(wait, Some(INTERVAL));
        pace.forget(&name);
        assert_eq!(pace.wait(&name, Some(&seen), &other, at(900)), Some(INTERVAL));
    }
}
