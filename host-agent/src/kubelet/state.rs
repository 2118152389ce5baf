//! What follows from a look: what is published, what people are told. Pure.

use causeway_runtime::settings::CgroupPath;

use super::Kubelet;
use super::check::Refusal;
use super::find::{Found, NotFound};

/// Why there was a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The first one.
    Start,
    /// Something in the tree changed, or would not have been noticed for a while.
    Changed,
    /// systemd says that the kubelet's unit became active.
    Restarted,
    /// Time passed.
    Slow,
}

/// What to tell about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Probes are dropped, for this reason.
    ProbesNotSupported(String),
    /// A kubelet that starts again would be lost, for this reason.
    RestartTrackingUnavailable(String),
}

/// What is to be done after a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing is different.
    Nothing,
    /// Ask the kernel about this one first.
    Check(Found),
    /// Tell those who load rules.
    Publish(Kubelet),
}

/// What was found and told so far.
#[derive(Debug, Default)]
pub(super) struct State {
    /// What rules are loaded with.
    held: Option<Found>,
    /// Where it was last.
    last: Option<Found>,
    /// What the kernel took. Whether it does depends on the kernel and the path, so it is asked once about each.
    taken: Option<CgroupPath>,
    /// What the kernel refused.
    refused: Option<CgroupPath>,
    generation: u64,
    told_probes: bool,
    told_tracking: bool,
}

impl State {
    /// What rules are loaded with.
    pub(super) fn held(&self) -> Option<&Found> {
        self.held.as_ref()
    }

    /// The newest place that was ever used.
    pub(super) fn last(&self) -> Option<&Found> {
        self.last.as_ref()
    }

    /// A look ended.
    pub(super) fn looked(&mut self, look: Result<Found, NotFound>, cause: Cause) -> Next {
        let found = match look {
            Ok(found) => found,
            Err(reason) => return self.lost(&reason, cause),
        };
        match &self.held {
            Some(held) if (&held.path, held.id) == (&found.path, found.id) => {
                if cause != Cause::Restarted {
                    return Next::Nothing;
                }
                self.accept(found)
            }
            _ if self.taken.as_ref() == Some(&found.path) => self.accept(found),
            // Asked again now and then: a module may be loaded, a program installed.
            _ if self.refused.as_ref() == Some(&found.path) && cause != Cause::Slow => Next::Nothing,
            _ => Next::Check(found),
        }
    }

    /// The kernel was asked about what a look found.
    pub(super) fn checked(&mut self, found: Found, answer: Result<(), Refusal>) -> Next {
        match answer {
            Ok(()) => {
                self.taken = Some(found.path.clone());
                self.refused = None;
                self.accept(found)
            }
            Err(refusal) => {
                self.refused = Some(found.path);
                self.held = None;
                Next::Publish(Kubelet::Unsupported { reason: refusal.to_string() })
            }
        }
    }

    fn accept(&mut self, found: Found) -> Next {
        self.generation += 1;
        let path = found.path.to_string();
        self.last = Some(found.clone());
        self.held = Some(found);
        Next::Publish(Kubelet::Cgroup { path, generation: self.generation })
    }

    /// A cgroup that goes while it is used is most likely made again in a moment; before, and after a while, its absence
    /// is an answer.
    fn lost(&mut self, reason: &NotFound, cause: Cause) -> Next {
        let was_held = self.held.take().is_some();
        let waiting = self.last.is_some() && cause != Cause::Slow;
        match (was_held, waiting) {
            (true, true) => Next::Publish(Kubelet::Unknown),
            (false, true) => Next::Nothing,
            (_, false) => Next::Publish(Kubelet::Unsupported { reason: reason.to_string() }),
        }
    }

    /// What to tell about what is published, once in the life of the agent.
    pub(super) fn tell_probes(&mut self, kubelet: &Kubelet) -> Option<Telling> {
        let Kubelet::Unsupported { reason } = kubelet else { return None };
        let first = !std::mem::replace(&mut self.told_probes, true);
        first.then(|| Telling::ProbesNotSupported(reason.clone()))
    }

    /// What to tell about the ways by which a restart is noticed, once in the life of the agent, if there is none.
    ///
    /// Differs from upstream: systemd is one way, the cgroup's directory another; one of them is enough.
    pub(super) fn tell_tracking(
        &mut self,
        systemd: &Result<(), String>,
        directories: &Result<(), String>,
    ) -> Option<Telling> {
        let (Err(systemd), Err(directories)) = (systemd, directories) else { return None };
        if self.held.is_none() || std::mem::replace(&mut self.told_tracking, true) {
            return None;
        }
        Some(Telling::RestartTrackingUnavailable(format!(
            "{systemd}; and its cgroup cannot be watched: {directories}"
        )))
    }
}

#[cfg(test)]
mod tests;
