//! Which Uplinks a change outside Kubernetes can concern.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use causeway_runtime::engine::KeyQueue;

use crate::half::RelyOn;

/// Asks for another look at Uplinks. Cheap to clone; given to whoever listens to the kernel or to Open vSwitch.
#[derive(Clone)]
pub struct Looker {
    queue: KeyQueue<String>,
    resting: Arc<Mutex<BTreeMap<String, Resting>>>,
}

/// The last answer about an Uplink.
#[derive(Debug, Default)]
struct Resting {
    /// What it rests on.
    on: RelyOn,
    /// When the first change came that no look has taken up yet.
    changed: Option<Instant>,
}

impl Looker {
    pub(crate) fn new(queue: KeyQueue<String>) -> Self {
        Self { queue, resting: Arc::default() }
    }

    /// Looks again at the Uplinks whose last answer rests on what changed.
    ///
    /// A change that comes while an answer is being found counts as concerning it: [`Looker::begin`] has made it
    /// incomplete, and the engine runs another pass after the one that may have missed the change.
    pub fn look(&self, concerns: impl Fn(&RelyOn) -> bool) {
        let now = Instant::now();
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = resting.iter_mut().filter(|(_, answer)| concerns(&answer.on));
        let concerned = concerned.map(|(uplink, answer)| {
            answer.changed.get_or_insert(now);
            uplink.clone()
        });
        let concerned: Vec<_> = concerned.collect();
        drop(resting);
        self.queue.enqueue_all(concerned);
    }

    /// Looks again at every Uplink, for a snapshot that was read anew.
    pub fn look_at_all(&self) {
        self.look(|_| true);
    }

    /// An answer about `interface` is being looked for: from here on any change concerns it. Returns when the change came
    /// that asked for this look, if one did.
    pub(crate) fn begin(&self, uplink: &str, interface: &str) -> Option<Instant> {
        let on = RelyOn { interface: Some(interface.to_owned()), ..RelyOn::default() };
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(uplink.to_owned(), Resting { on, changed: None })?.changed
    }

    /// The answer was found and rests on this.
    pub(crate) fn set(&self, uplink: &str, on: RelyOn) {
        self.resting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(uplink.to_owned())
            .or_default()
            .on = on;
    }

    /// The Uplink does not concern this node (any more).
    pub(crate) fn forget(&self, uplink: &str) {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner).remove(uplink);
    }
}

#[cfg(test)]
mod tests {
    use causeway_runtime::engine::Pacing;

    use super::*;

    fn concerned(looker: &Looker, concerns: impl Fn(&RelyOn) -> bool) -> Vec<String> {
        let resting = looker.resting.lock().unwrap();
        resting.iter().filter(|(_, answer)| concerns(&answer.on)).map(|(name, _)| name.clone()).collect()
    }

    fn looker() -> Looker {
        Looker::new(KeyQueue::new(Pacing::default()))
    }

    #[test]
    fn a_change_concerns_the_uplinks_that_rest_on_it_and_those_without_an_answer() {
        let looker = looker();
        let on = |interface: &str| RelyOn {
            interface: Some(interface.into()),
            complete: true,
            ..RelyOn::default()
        };
        looker.set("blue", on("eth1"));
        looker.set("red", on("eth2"));
        looker.begin("green", "eth3");
        let eth1 = |rely: &RelyOn| !rely.complete || rely.interface.as_deref() == Some("eth1");
        assert_eq!(concerned(&looker, eth1), ["blue", "green"]);
        looker.forget("blue");
        assert_eq!(concerned(&looker, eth1), ["green"]);
    }

    #[test]
    fn a_look_is_told_when_the_first_change_came_that_asked_for_it() {
        let looker = looker();
        assert_eq!(looker.begin("blue", "eth1"), None, "nothing changed: the Uplink itself is new");
        let before = Instant::now();
        looker.look(|_| true);
        let first = Instant::now();
        looker.look(|_| true);
        // The answer that was being looked for does not take up what came meanwhile.
        looker.set("blue", RelyOn { interface: Some("eth1".into()), complete: true, ..RelyOn::default() });
        let told = looker.begin("blue", "eth1").unwrap();
        assert!((before..=first).contains(&told));
        assert_eq!(looker.begin("blue", "eth1"), None, "each change counts once");
        looker.look(|rely| rely.interface.as_deref() == Some("eth2"));
        assert_eq!(looker.begin("blue", "eth1"), None, "it concerned another");
    }
}
