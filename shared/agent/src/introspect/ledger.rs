//! How the passes of discovery went, one entry per Uplink.
//!
//! The room notes what its half finds and what it writes; [`Noted`], around the room, how a pass ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::publish::Findings;
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::telemetry::chain;
use causeway_runtime::watch::Lookup;
use jiff::Timestamp;

use crate::half::{Found, Half, RelyOn};
use crate::room::{PassError, StateRoom};

/// The entries. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<BTreeMap<String, Entry>>>);

/// What is known of one Uplink's passes since the agent started.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    /// The last complete answer.
    pub(crate) answer: Option<Answer>,
    /// Why the last pass did not end well.
    pub(crate) failure: Option<PassFailure>,
    /// When the last pass ended.
    pub(crate) last_pass: Timestamp,
    /// Passes that ended.
    pub(crate) passes: u64,
    /// Writes that succeeded.
    pub(crate) writes: u64,
    /// When the last write did.
    pub(crate) last_write: Option<Timestamp>,
}

/// What a half found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The interface that was asked for.
    pub(crate) interface: String,
    /// What to publish.
    pub(crate) findings: Findings,
    /// What it rests on.
    pub(crate) relied_on: RelyOn,
    /// Since when it is the same.
    pub(crate) since: Timestamp,
}

/// Why a pass did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PassFailure {
    /// The error with its causes.
    pub(crate) message: String,
    /// What happens next.
    pub(crate) retry: Retry,
    /// When.
    pub(crate) at: Timestamp,
}

impl Ledger {
    /// All entries.
    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        self.lock().clone()
    }

    /// A write about an Uplink succeeded.
    pub(crate) fn wrote(&self, uplink: &str, now: Timestamp) {
        let mut entries = self.lock();
        let entry = entries.entry(uplink.to_owned()).or_default();
        entry.writes += 1;
        entry.last_write = Some(now);
    }

    /// The half gave a complete answer.
    pub(crate) fn answered(&self, uplink: &str, interface: &str, found: &Found, now: Timestamp) {
        let mut entries = self.lock();
        let entry = entries.entry(uplink.to_owned()).or_default();
        let same = entry.answer.as_ref().filter(|answer| answer.findings.verdict == found.findings.verdict);
        let since = same.map_or(now, |answer| answer.since);
        entry.answer = Some(Answer {
            interface: interface.to_owned(),
            findings: found.findings.clone(),
            relied_on: found.relied_on.clone(),
            since,
        });
    }

    /// A pass ended. `exists`: there is an Uplink of that name; what is known of others is forgotten.
    fn passed(&self, uplink: &str, exists: bool, result: &Result<Requeue, PassError>, now: Timestamp) {
        let mut entries = self.lock();
        if !exists && result.is_ok() {
            entries.remove(uplink);
            return;
        }
        let entry = entries.entry(uplink.to_owned()).or_default();
        entry.passes += 1;
        entry.last_pass = now;
        if matches!(result, Ok(Requeue::Gone)) {
            entry.answer = None;
        }
        entry.failure = result.as_ref().err().map(|error| PassFailure {
            message: chain(error).to_string(),
            retry: error.retry(),
            at: now,
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room of discovery, with the ends of its passes noted.
pub(crate) struct Noted<H>(pub(crate) StateRoom<H>);

impl<H: Half> Room for Noted<H> {
    const NAME: &'static str = StateRoom::<H>::NAME;
    type Key = String;
    type Error = PassError;

    async fn reconcile(&self, key: &String) -> Result<Requeue, PassError> {
        let result = self.0.reconcile(key).await;
        let exists = !matches!(self.0.stores.uplinks.snapshot().lookup(key), Lookup::Absent);
        self.0.ledger.passed(key, exists, &result, Timestamp::now());
        result
    }
}

#[cfg(test)]
mod tests {
    use causeway_api::uplink_state::DiscoveryReason;
    use causeway_net::publish::Failure;

    use super::*;
    use crate::half::NotObserved;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn entry(ledger: &Ledger) -> Entry {
        ledger.entries().remove("blue").unwrap()
    }

    fn found(reason: DiscoveryReason) -> Found {
        let findings = Findings::failed(Failure::new(reason, "a message"));
        Found { findings, relied_on: RelyOn::default() }
    }

    #[test]
    fn an_answer_that_stays_the_same_keeps_its_age() {
        let ledger = Ledger::default();
        ledger.answered("blue", "eth1", &found(DiscoveryReason::BridgeNotFound), at(1));
        ledger.answered("blue", "eth1", &found(DiscoveryReason::BridgeNotFound), at(2));
        assert_eq!(entry(&ledger).answer.unwrap().since, at(1));
        ledger.answered("blue", "eth1", &found(DiscoveryReason::BridgeInvalid), at(3));
        assert_eq!(entry(&ledger).answer.unwrap().since, at(3));
    }

    #[test]
    fn a_failed_pass_is_told_until_one_ends_well() {
        let ledger = Ledger::default();
        let missed = NotObserved { reason: DiscoveryReason::BridgeNotFound, message: "no database".into() };
        ledger.passed("blue", true, &Err(PassError::NotObserved(missed)), at(1));
        let failure = entry(&ledger).failure.unwrap();
        assert_eq!(
            (failure.message.as_str(), failure.retry),
            ("nothing is changed: no database", Retry::Never)
        );
        ledger.passed("blue", true, &Ok(Requeue::Done), at(2));
        assert_eq!((entry(&ledger).failure, entry(&ledger).passes), (None, 2));
    }

    #[test]
    fn an_uplink_that_leaves_the_node_loses_its_answer_and_one_that_is_deleted_its_entry() {
        let ledger = Ledger::default();
        ledger.answered("blue", "eth1", &found(DiscoveryReason::BridgeNotFound), at(1));
        ledger.wrote("blue", at(1));
        ledger.passed("blue", true, &Ok(Requeue::Gone), at(2));
        assert_eq!((entry(&ledger).answer, entry(&ledger).writes), (None, 1));
        ledger.passed("blue", false, &Ok(Requeue::Gone), at(3));
        assert!(ledger.entries().is_empty());
    }
}
