//! What a candidate concludes from the lease. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::settings::LeaderElection;

/// The lease as the election reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; `None` if it was let go.
    pub(super) holder: Option<String>,
    /// For how long a renewal counts, by the holder's word.
    pub(super) duration: Option<Duration>,
    /// When it was renewed, by the holder's clock. Only compared for equality: it tells one renewal from another.
    pub(super) renewed: Option<Timestamp>,
    /// How often the holder changed.
    pub(super) transitions: i32,
    /// `metadata.resourceVersion`.
    pub(super) version: String,
}

impl Record {
    /// From the API object; none for one without a version, which the API server never sends.
    pub(super) fn of(lease: Lease) -> Option<Self> {
        let version = lease.metadata.resource_version?;
        let spec = lease.spec.unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Some(Self {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
            version,
        })
    }
}

/// A record and when this process first saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) record: Record,
    pub(super) at: Instant,
}

/// What a candidate does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// There is no lease: make one.
    Create,
    /// Take the lease from this state of it.
    Take(Record),
    /// Wait for a change of the lease, and look again at this time.
    Wait(Option<Instant>),
}

/// What a candidate goes by.
#[derive(Debug)]
pub(super) struct View<'v> {
    /// Its identity.
    pub(super) me: &'v str,
    /// Its timing.
    pub(super) timing: LeaderElection,
    /// Renewals that are certainly its own.
    pub(super) mine: &'v [Timestamp],
    /// The newest record that was seen, also after the lease was deleted.
    pub(super) last: Option<&'v Seen>,
    /// Whether the lease exists.
    pub(super) exists: bool,
}

impl View<'_> {
    /// What to do at `now`.
    ///
    /// A lease that somebody deleted does not free the way: its holder may not know yet.
    pub(super) fn step(&self, now: Instant) -> Step {
        let Some(Seen { record, at }) = self.last else {
            return if self.exists { Step::Wait(None) } else { Step::Create };
        };
        let own = record.holder.as_deref() == Some(self.me)
            && record.renewed.is_some_and(|renewed| self.mine.contains(&renewed));
        let over = *at + record.duration.unwrap_or(self.timing.lease);
        if record.holder.is_some() && !own && now < over {
            return Step::Wait(Some(over));
        }
        if self.exists { Step::Take(record.clone()) } else { Step::Create }
    }
}

/// Now, as precisely as a Lease can say it, so that what is read back is equal.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// A new lease, held.
pub(super) fn created(name: &str, me: &str, timing: LeaderElection, now: Timestamp) -> Lease {
    let mut lease = Lease::default();
    lease.metadata.name = Some(name.to_owned());
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(me.to_owned());
    spec.lease_duration_seconds = seconds(timing.lease);
    spec.acquire_time = Some(MicroTime(now));
    spec.renew_time = Some(MicroTime(now));
    spec.lease_transitions = Some(0);
    lease
}

/// The patch that takes `record` over.
pub(super) fn taken(record: &Record, me: &str, timing: LeaderElection, now: Timestamp) -> Value {
    let again = record.holder.as_deref() == Some(me);
    json!({
        "metadata": { "resourceVersion": record.version },
        "spec": {
            "holderIdentity": me,
            "leaseDurationSeconds": seconds(timing.lease),
            "acquireTime": MicroTime(now),
            "renewTime": MicroTime(now),
            "leaseTransitions": if again { record.transitions } else { record.transitions.saturating_add(1) },
        },
    })
}

/// The patch that renews it.
pub(super) fn renewed(version: &str, timing: LeaderElection, now: Timestamp) -> Value {
    json!({
        "metadata": { "resourceVersion": version },
        "spec": { "leaseDurationSeconds": seconds(timing.lease), "renewTime": MicroTime(now) },
    })
}

/// The patch that lets it go. Source: client-go, `tools/leaderelection`, `release`: no holder, one second.
pub(super) fn released(version: &str, now: Timestamp) -> Value {
    json!({
        "metadata": { "resourceVersion": version },
        "spec": {
            "holderIdentity": null,
            "leaseDurationSeconds": 1,
            "acquireTime": MicroTime(now),
            "renewTime": MicroTime(now),
        },
    })
}

fn seconds(duration: Duration) -> Option<i32> {
    i32::try_from(duration.as_secs()).ok()
}
