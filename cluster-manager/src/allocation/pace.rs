//! How often a Node is annotated while many networks come or go at once.
//!
//! A Node has one annotation for all networks: each that comes makes it be written again as a whole. One network alone is
//! annotated at once. While several are at work, a Node that was annotated a moment ago waits for more of them, at the longest
//! so long that all Nodes together are annotated [`EACH`] apart; once they are done, it waits no longer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_net::network::name::NodeName;
use tokio::time::Instant;

/// Networks that may be at work without anybody waiting for more.
const FEW: usize = 2;
/// For each Node, the wait grows by this while more are at work.
const EACH: Duration = Duration::from_millis(20);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(2);

/// When each Node was annotated, and how many networks are at work. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    at_work: usize,
    annotated: HashMap<NodeName, Instant>,
    waiting: BTreeSet<NodeName>,
}

impl Pace {
    /// A network is at work from now on.
    pub(super) fn begins(&self) {
        self.lock().at_work += 1;
    }

    /// A network is no longer at work. The Nodes that need not wait any more because of that.
    pub(super) fn ends(&self) -> BTreeSet<NodeName> {
        let mut state = self.lock();
        state.at_work = state.at_work.saturating_sub(1);
        if state.at_work > FEW { BTreeSet::new() } else { std::mem::take(&mut state.waiting) }
    }

    /// How long a Node, one of so many, has to wait; none where it is its turn.
    pub(super) fn wait(&self, node: &NodeName, nodes: usize, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        let pause = EACH.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX)).min(LONGEST);
        let since = state.annotated.get(node).map(|at| now.saturating_duration_since(*at));
        let left = since.filter(|_| state.at_work > FEW).and_then(|since| pause.checked_sub(since));
        let left = left.filter(|left| !left.is_zero());
        if left.is_some() {
            state.waiting.insert(node.clone());
        } else {
            state.waiting.remove(node);
        }
        left
    }

    /// A Node is being annotated.
    pub(super) fn annotated(&self, node: &NodeName, now: Instant) {
        self.lock().annotated.insert(node.clone(), now);
    }

    /// A Node is gone.
    pub(super) fn forget(&self, node: &NodeName) {
        let mut state = self.lock();
        state.annotated.remove(node);
        state.waiting.remove(node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::from(name)
    }

    fn busy() -> Pace {
        let pace = Pace::default();
        (0..=FEW).for_each(|_| pace.begins());
        pace
    }

    #[test]
    fn one_network_after_the_other_waits_for_nobody() {
        let (pace, mut now) = (Pace::default(), Instant::now());
        for _ in 0..3 {
            pace.begins();
            assert_eq!(pace.wait(&node("a"), 100, now), None);
            pace.annotated(&node("a"), now);
            assert!(pace.ends().is_empty());
            now += Duration::from_millis(1);
        }
    }

    #[test]
    fn among_many_a_node_is_annotated_at_once_and_then_waits_longer_where_there_are_more_nodes() {
        let (pace, now) = (busy(), Instant::now());
        assert_eq!(pace.wait(&node("a"), 3, now), None, "it never was annotated");
        pace.annotated(&node("a"), now);
        assert_eq!(pace.wait(&node("a"), 3, now), Some(3 * EACH));
        assert_eq!(pace.wait(&node("a"), 50, now), Some(50 * EACH));
        assert_eq!(pace.wait(&node("a"), 5000, now), Some(LONGEST));
        assert_eq!(pace.wait(&node("a"), 3, now + EACH), Some(2 * EACH));
        assert_eq!(pace.wait(&node("a"), 3, now + 3 * EACH), None, "its time has come");
        assert_eq!(pace.wait(&node("b"), 3, now), None, "another one has its own time");
    }

    #[test]
    fn who_waits_is_named_once_when_few_are_left_and_who_went_is_not() {
        let (pace, now) = (busy(), Instant::now());
        for name in ["a", "b", "c"] {
            pace.annotated(&node(name), now);
            assert!(pace.wait(&node(name), 3, now).is_some());
        }
        pace.forget(&node("b"));
        pace.begins();
        assert!(pace.ends().is_empty(), "as many as before are at work");
        assert_eq!(pace.ends(), BTreeSet::from([node("a"), node("c")]));
        assert!(pace.ends().is_empty());
        assert_eq!(pace.wait(&node("a"), 3, now), None, "few are at work");
    }

    #[test]
    fn a_node_that_comes_back_under_its_name_begins_anew() {
        let (pace, now) = (busy(), Instant::now());
        pace.annotated(&node("a"), now);
        pace.forget(&node("a"));
        assert_eq!(pace.wait(&node("a"), 3, now), None);
    }
}
