//! Whose turn it is to write the status of a network.
//!
//! Two writes of one object at a time make the API server do one of them again. While a network is being made, how it fares is
//! not told: whoever makes it has the first word, and says when it is done.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::NetworkName;

/// The networks that are being made. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<NetworkName, Turn>>>);

#[derive(Debug, Default)]
struct Turn {
    makers: usize,
    /// Whether somebody waits for the end.
    waited: bool,
}

impl Turns {
    /// A network is being made from now on.
    pub(super) fn begins(&self, network: &NetworkName) {
        self.lock().entry(network.clone()).or_default().makers += 1;
    }

    /// It is made. Whether somebody waited for that.
    pub(super) fn ends(&self, network: &NetworkName) -> bool {
        let mut turns = self.lock();
        let Some(turn) = turns.get_mut(network) else { return false };
        turn.makers = turn.makers.saturating_sub(1);
        turn.makers == 0 && turns.remove(network).is_some_and(|turn| turn.waited)
    }

    /// Whether a network is being made. Who asks is named at the end.
    pub(super) fn waits(&self, network: &NetworkName) -> bool {
        self.lock().get_mut(network).is_some_and(|turn| {
            turn.waited = true;
            true
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NetworkName, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_while_a_network_is_made_is_named_once_at_its_end() {
        let (turns, blue, red) =
            (Turns::default(), NetworkName::of_cudn("blue"), NetworkName::of_cudn("red"));
        assert!(!turns.waits(&blue), "nobody makes it");
        turns.begins(&blue);
        turns.begins(&red);
        turns.begins(&blue);
        assert!(turns.waits(&blue));
        assert!(!turns.ends(&red), "nobody asked for that one");
        assert!(!turns.ends(&blue), "one of two makers is still at it");
        assert!(turns.waits(&blue));
        assert!(turns.ends(&blue));
        assert!(!turns.waits(&blue) && !turns.ends(&blue), "nothing is kept");
        assert!(turns.lock().is_empty());
    }
}
