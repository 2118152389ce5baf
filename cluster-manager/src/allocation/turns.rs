//! Whose turn it is to write about a network that is being made.
//!
//! Two writes of one object at a time make the API server do one of them again, and writes that nobody waits for delay the one
//! that somebody waits for. So one comes after the other:
//!
//! 1. Whoever makes the network says that it is made.
//! 2. Nodes are annotated for it: what each carries for all networks is long where there are many.
//! 3. How it fares is told, which is known by then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_net::network::name::{NetworkName, NodeName};

use super::Book;

/// The longest that a Node waits for the first word about a network: one that nobody can be told of is annotated all the same.
pub(super) const FIRST_WORD: Duration = Duration::from_millis(50);

/// A network that comes or goes at this moment: while it is there, Nodes may wait for it.
pub(crate) struct AtWork<'b>(&'b Book, NetworkName);

impl<'b> AtWork<'b> {
    /// From now on.
    pub(super) fn new(book: &'b Book, network: &NetworkName) -> Self {
        book.pace.begins();
        book.turns.begins(network);
        Self(book, network.clone())
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let Next { nodes, status } = self.0.turns.ends(&self.1);
        self.0.wake.nodes(self.0.pace.ends().into_iter().chain(nodes));
        if status {
            self.0.wake.statuses([self.1.clone()]);
        }
    }
}

/// The networks that are being made. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    turns: HashMap<NetworkName, Turn>,
    /// How often Nodes were called.
    calls: u64,
}

/// One of them. It is over when nobody makes it and no Node is left.
#[derive(Debug, Default)]
struct Turn {
    makers: usize,
    /// Nodes that wait for the makers.
    waiting: BTreeSet<NodeName>,
    /// Nodes whose time has come, with the number of the call.
    called: BTreeMap<NodeName, u64>,
    /// Whether how it fares is to be told at the end.
    status: bool,
}

impl Turn {
    fn is_over(&self) -> bool {
        self.makers == 0 && self.called.is_empty()
    }
}

/// Whose time has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Next {
    /// Nodes to annotate.
    pub(super) nodes: BTreeSet<NodeName>,
    /// Whether how the network fares is to be told.
    pub(super) status: bool,
}

impl Turns {
    /// A network is being made from now on.
    pub(super) fn begins(&self, network: &NetworkName) {
        self.lock().turns.entry(network.clone()).or_default().makers += 1;
    }

    /// It is made. Who comes next.
    pub(super) fn ends(&self, network: &NetworkName) -> Next {
        let mut state = self.lock();
        let State { turns, calls } = &mut *state;
        let Some(turn) = turns.get_mut(network) else { return Next::default() };
        turn.makers = turn.makers.saturating_sub(1);
        if turn.makers > 0 {
            return Next::default();
        }
        let nodes = std::mem::take(&mut turn.waiting);
        *calls += 1;
        turn.called.extend(nodes.iter().map(|node| (node.clone(), *calls)));
        let ended = turn.is_over().then(|| turns.remove(network)).flatten();
        Next { nodes, status: ended.is_some_and(|turn| turn.status) }
    }

    /// Whether Nodes have to wait with a network, as it is being made. They are named at the end.
    pub(super) fn holds(&self, network: &NetworkName, nodes: &BTreeSet<NodeName>) -> bool {
        let mut state = self.lock();
        let Some(turn) = state.turns.get_mut(network).filter(|turn| turn.makers > 0) else { return false };
        turn.waiting.extend(nodes.iter().cloned());
        true
    }

    /// How often Nodes have been called when a look at one begins.
    pub(super) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// A look at a Node is over that began after so many calls: what was known then is annotated, or cannot be. The networks of
    /// which it is to be told now how they fare.
    pub(super) fn looked_at(&self, node: &NodeName, calls: u64) -> Vec<NetworkName> {
        let mut told = Vec::new();
        self.lock().turns.retain(|network, turn| {
            let is_the_one = turn.called.get(node).is_some_and(|call| *call <= calls);
            let ends = is_the_one && turn.called.remove(node).is_some() && turn.is_over();
            if ends && turn.status {
                told.push(network.clone());
            }
            !ends
        });
        told
    }

    /// A new term begins: every Node and every network is looked at then, and nobody comes for those that were called in an
    /// earlier one.
    pub(super) fn forget_calls(&self) {
        self.lock().turns.retain(|_, turn| {
            turn.waiting.clear();
            turn.called.clear();
            !turn.is_over()
        });
    }

    /// Whether it is too early to tell how a network fares. Who asks is named at the end.
    pub(super) fn waits(&self, network: &NetworkName) -> bool {
        self.lock().turns.get_mut(network).is_some_and(|turn| {
            turn.status = true;
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: Next = Next { nodes: BTreeSet::new(), status: true };
    const NOBODY: Next = Next { nodes: BTreeSet::new(), status: false };

    fn networks() -> (NetworkName, NetworkName) {
        (NetworkName::of_cudn("blue"), NetworkName::of_cudn("red"))
    }

    fn nodes<const N: usize>(names: [&str; N]) -> BTreeSet<NodeName> {
        names.into_iter().map(NodeName::from).collect()
    }

    /// A whole look at a Node.
    fn look_at(turns: &Turns, node: &str) -> Vec<NetworkName> {
        turns.looked_at(&NodeName::from(node), turns.calls())
    }

    #[test]
    fn who_asks_while_a_network_is_made_is_named_once_at_its_end() {
        let (turns, (blue, red)) = (Turns::default(), networks());
        assert!(!turns.waits(&blue), "nobody makes it");
        turns.begins(&blue);
        turns.begins(&red);
        turns.begins(&blue);
        assert!(turns.waits(&blue));
        assert_eq!(turns.ends(&red), NOBODY, "nobody asked for that one");
        assert_eq!(turns.ends(&blue), NOBODY, "one of two makers is still at it");
        assert!(turns.waits(&blue));
        assert_eq!(turns.ends(&blue), STATUS);
        assert!(!turns.waits(&blue), "nothing is kept");
        assert_eq!(turns.ends(&blue), NOBODY);
        assert!(turns.lock().turns.is_empty());
    }

    #[test]
    fn nodes_come_after_the_makers_of_their_network_and_how_it_fares_after_the_last_node() {
        let (turns, (blue, red)) = (Turns::default(), networks());
        assert!(!turns.holds(&blue, &nodes(["a"])), "nobody makes it");
        turns.begins(&blue);
        turns.begins(&red);
        assert!(turns.holds(&blue, &nodes(["a", "b"])));
        assert!(turns.waits(&blue));
        assert_eq!(turns.ends(&red), NOBODY, "they wait for another one");
        assert_eq!(turns.ends(&blue), Next { nodes: nodes(["a", "b"]), status: false });
        assert!(turns.waits(&blue), "not before the nodes");
        assert!(!turns.holds(&blue, &nodes(["c"])), "nobody makes it any more");
        assert!(look_at(&turns, "c").is_empty(), "nobody waits for that one");
        assert!(look_at(&turns, "a").is_empty(), "one is left");
        assert_eq!(look_at(&turns, "b"), std::slice::from_ref(&blue));
        assert!(look_at(&turns, "b").is_empty() && !turns.waits(&blue), "nothing is kept");
    }

    #[test]
    fn a_look_that_began_before_nodes_were_called_is_not_the_one() {
        let (turns, (blue, _)) = (Turns::default(), networks());
        turns.begins(&blue);
        assert!(turns.holds(&blue, &nodes(["a"])));
        assert!(turns.waits(&blue));
        let before = turns.calls();
        assert_eq!(turns.ends(&blue), Next { nodes: nodes(["a"]), status: false });
        assert!(turns.looked_at(&NodeName::from("a"), before).is_empty());
        assert!(turns.waits(&blue));
        assert_eq!(look_at(&turns, "a"), [blue]);
        assert!(turns.lock().turns.is_empty());
    }

    #[test]
    fn a_network_that_is_made_again_while_nodes_are_annotated_is_over_after_both() {
        let (turns, (blue, _)) = (Turns::default(), networks());
        turns.begins(&blue);
        assert!(turns.holds(&blue, &nodes(["a"])));
        assert!(turns.waits(&blue));
        assert_eq!(turns.ends(&blue).nodes, nodes(["a"]));
        turns.begins(&blue);
        assert!(look_at(&turns, "a").is_empty(), "it is being made again");
        assert_eq!(turns.ends(&blue), STATUS);
        assert!(turns.lock().turns.is_empty());
    }

    #[test]
    fn a_new_term_waits_for_no_node_that_was_called_in_an_earlier_one() {
        let (turns, (blue, red)) = (Turns::default(), networks());
        for network in [&blue, &red] {
            turns.begins(network);
            assert!(turns.holds(network, &nodes(["a"])));
        }
        assert_eq!(turns.ends(&blue).nodes, nodes(["a"]));
        assert!(turns.waits(&blue));
        turns.forget_calls();
        assert!(!turns.waits(&blue), "the node may be gone, and it is looked at anyway");
        assert!(turns.waits(&red), "somebody is still making that one");
        assert_eq!(turns.ends(&red), STATUS);
        assert!(turns.lock().turns.is_empty());
    }

    #[test]
    fn a_look_counts_though_the_network_was_looked_at_or_called_others_meanwhile() {
        let (turns, (blue, _)) = (Turns::default(), networks());
        turns.begins(&blue);
        assert!(turns.holds(&blue, &nodes(["a"])));
        assert!(turns.waits(&blue));
        assert_eq!(turns.ends(&blue).nodes, nodes(["a"]));
        let began = turns.calls();
        turns.begins(&blue);
        assert_eq!(turns.ends(&blue), NOBODY, "nothing was made this time");
        turns.begins(&blue);
        assert!(turns.holds(&blue, &nodes(["b"])));
        assert_eq!(turns.ends(&blue).nodes, nodes(["b"]));
        assert!(turns.looked_at(&NodeName::from("a"), began).is_empty(), "one is left");
        assert_eq!(look_at(&turns, "b"), [blue]);
        assert!(turns.lock().turns.is_empty());
    }
}
