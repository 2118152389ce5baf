//! Leader election: of all replicas one writes, and it knows until when it may.
//!
//! In: a Lease, watched, and the time of this machine's monotonic clock. Out: [`Leadership`], a handle that says whether
//! this process leads and, through [`crate::writer::Writer::fenced`], how long it may still write.
//!
//! * The lease is upstream's: `ovn-kubernetes-master` in the namespace of the network stack, held and let go the way
//!   client-go does it. Upstream's cluster manager and Causeway's can therefore not lead at the same time, and each takes
//!   over from the other.
//! * A leader may write until [`LeaderElection::renew`] after it *sent* the request that last renewed the lease. Others wait
//!   [`LeaderElection::lease`] from when they *saw* that renewal. No clocks are compared, and the difference of the two is a
//!   margin in which nobody writes. (The clock stands still while a machine is suspended: then, and for a request that
//!   is on its way, the version that each write names is what keeps it from undoing a later leader's.)
//! * A lease that was lost ends the term at once: passes are not begun, writes are refused before they are sent.
//! * Told to stop, a leader waits for the passes of its term and then lets the lease go; the others see that by their
//!   watch, not by a timer.
//!
//! Every change of the lease carries the `resourceVersion` that it rests on. That is why this is not the crate
//! `kube-lease-manager` (0.13.1 was read): it renews, takes over and releases by patches without any precondition, so two
//! candidates that find an expired lease can both believe that they got it, and a process that was stopped beyond its lease
//! can renew what is another's by then; it judges expiry by comparing the wall clocks of two machines; and it asks again on
//! a timer instead of watching, so a released lease is noticed late.
//!
//! Never does: write anything but the Lease, or decide what is written under it.

mod elector;
mod lease;
#[cfg(test)]
mod tests;

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

pub use self::elector::{Candidate, Elector};

use crate::writer::WriteMetrics;

#[cfg(doc)]
use crate::settings::LeaderElection;

/// Name of the lease. Source: upstream's events on it, `cm0 became leader` on Lease `ovn-kubernetes-master`
/// (control plane captures, step 1).
pub const LEASE: &str = "ovn-kubernetes-master";

/// Whether this process leads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Leadership {
    standing: watch::Receiver<Standing>,
    terms: TaskTracker,
}

/// A term of leadership. Hold it while its work runs: a process that is told to stop lets the lease go only when all
/// holders have dropped theirs.
#[derive(Debug)]
pub struct Term {
    over: CancellationToken,
    _held: TaskTrackerToken,
}

/// What this process is.
#[derive(Debug, Clone)]
enum Standing {
    /// Another one leads, or nobody; the holder as last seen.
    Standby(Option<String>),
    /// This one leads.
    Leading {
        /// Nothing may be written from here on; `None` where there is no election.
        until: Option<Instant>,
        /// Cancelled when the term ends, or the process is told to stop: no further pass begins.
        over: CancellationToken,
    },
}

/// What is counted about elections.
#[derive(Debug, Clone)]
pub struct LeaderMetrics {
    leading: Gauge,
    won: Counter,
    lost: Counter,
    writes: WriteMetrics,
}

impl LeaderMetrics {
    /// Adds the numbers of elections to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            leading: Gauge::default(),
            won: Counter::default(),
            lost: Counter::default(),
            writes: WriteMetrics::register_as(
                "lease_writes",
                "Requests that change the lease of the leader election",
                registry,
            ),
        };
        registry.register("leader", "1 while this process leads, else 0", metrics.leading.clone());
        registry.register("leader_terms", "Times that this process began to lead", metrics.won.clone());
        registry.register(
            "leader_losses",
            "Times that this process lost the lease without being told to stop",
            metrics.lost.clone(),
        );
        metrics
    }
}

impl Leadership {
    /// Leadership without an election: for one replica, and for tests.
    #[must_use]
    pub fn alone(stop: &CancellationToken, metrics: &LeaderMetrics) -> Self {
        metrics.leading.set(1);
        metrics.won.inc();
        let (_, standing) = watch::channel(Standing::Leading { until: None, over: stop.child_token() });
        Self { standing, terms: TaskTracker::new() }
    }

    /// Waits for the next term; `None` if `stop` comes first. The term also ends with `stop`.
    pub async fn term(&self, stop: &CancellationToken) -> Option<Term> {
        let mut standing = self.standing.clone();
        loop {
            if let Standing::Leading { over, .. } = &*standing.borrow_and_update()
                && !over.is_cancelled()
            {
                return Some(Term { over: over.clone(), _held: self.terms.token() });
            }
            // The elector is gone, or there is none and the only term is over: nothing will change.
            match stop.run_until_cancelled(standing.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) => {
                    stop.cancelled().await;
                    return None;
                }
                None => return None,
            }
        }
    }

    /// Whether this process is in a term. Whatever happens outside one is looked at when the next begins.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Leading { .. })
    }

    /// Who leads instead, for people; `None` while this process leads.
    #[must_use]
    pub fn standby(&self) -> Option<String> {
        match &*self.standing.borrow() {
            Standing::Leading { .. } => None,
            Standing::Standby(Some(holder)) => Some(format!("standby, {holder} leads")),
            Standing::Standby(None) => Some("standby, no leader is known".to_owned()),
        }
    }

    /// How long a write that begins now and would like to have `wish` may take; `None` if it must not begin. A pass that
    /// runs when the process is told to stop may finish: the lease is let go after it.
    pub(crate) fn allowance(&self, wish: Duration) -> Option<Duration> {
        match &*self.standing.borrow() {
            Standing::Leading { until: Some(until), .. } => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then(|| left.min(wish))
            }
            Standing::Leading { until: None, .. } => Some(wish),
            Standing::Standby(_) => None,
        }
    }
}

impl Term {
    /// Cancelled when the term ends, by loss of the lease or because the process stops.
    #[must_use]
    pub fn over(&self) -> CancellationToken {
        self.over.clone()
    }
}
