//! Which Uplinks a change outside Kubernetes can concern.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_runtime::engine::KeyQueue;

use crate::half::RelyOn;

/// Asks for another look at Uplinks. Cheap to clone; given to whoever listens to the kernel or to Open vSwitch.
#[derive(Clone)]
pub struct Looker {
    queue: KeyQueue<String>,
    relied_on: Arc<Mutex<BTreeMap<String, RelyOn>>>,
}

impl Looker {
    pub(crate) fn new(queue: KeyQueue<String>) -> Self {
        Self { queue, relied_on: Arc::default() }
    }

    /// Looks again at the Uplinks whose last answer rests on what changed.
    ///
    /// A change that comes while an answer is being found counts as concerning it: [`Looker::begin`] has made it
    /// incomplete, and the engine runs another pass after the one that may have missed the change.
    pub fn look(&self, concerns: impl Fn(&RelyOn) -> bool) {
        let relied_on = self.relied_on.lock().unwrap_or_else(PoisonError::into_inner);
        let concerned = relied_on.iter().filter(|(_, rely)| concerns(rely)).map(|(uplink, _)| uplink.clone());
        let concerned: Vec<_> = concerned.collect();
        drop(relied_on);
        self.queue.enqueue_all(concerned);
    }

    /// Looks again at every Uplink, for a snapshot that was read anew.
    pub fn look_at_all(&self) {
        self.look(|_| true);
    }

    /// An answer about `interface` is being looked for: from here on any change concerns it.
    pub(crate) fn begin(&self, uplink: &str, interface: &str) {
        let rely = RelyOn { interface: Some(interface.to_owned()), ..RelyOn::default() };
        self.set(uplink, rely);
    }

    /// The answer was found and rests on this.
    pub(crate) fn set(&self, uplink: &str, rely: RelyOn) {
        self.relied_on.lock().unwrap_or_else(PoisonError::into_inner).insert(uplink.to_owned(), rely);
    }

    /// The Uplink does not concern this node (any more).
    pub(crate) fn forget(&self, uplink: &str) {
        self.relied_on.lock().unwrap_or_else(PoisonError::into_inner).remove(uplink);
    }
}

#[cfg(test)]
mod tests {
    use causeway_runtime::engine::Pacing;

    use super::*;

    fn concerned(looker: &Looker, concerns: impl Fn(&RelyOn) -> bool) -> Vec<String> {
        let names = Mutex::new(Vec::new());
        let relied_on = looker.relied_on.lock().unwrap();
        names
            .lock()
            .unwrap()
            .extend(relied_on.iter().filter(|(_, rely)| concerns(rely)).map(|(name, _)| name.clone()));
        names.into_inner().unwrap()
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
}
