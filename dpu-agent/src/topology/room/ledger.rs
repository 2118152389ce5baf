//! What became of each network, for people who ask and for readiness. Nothing here decides anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::NetworkName;

use super::super::plan::{Part, PlanError};
use super::super::write::Parts;

/// What became of all networks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) networks: BTreeMap<NetworkName, Standing>,
    /// What is wrong with something other than a network, by what it is.
    pub(super) others: BTreeMap<&'static str, String>,
    /// Networks that have not been looked at since the start; none before it is known which there are.
    ahead: Option<BTreeSet<NetworkName>>,
}

/// What became of one network.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Standing {
    /// Its id, where it has one.
    pub(super) id: Option<u32>,
    /// Why it is left as it is, or could not be written.
    pub(super) why: Option<String>,
    /// Parts that have no rows yet.
    pub(super) problems: BTreeMap<Part, PlanError>,
    /// Transactions since the start.
    pub(super) transactions: u64,
}

impl Standing {
    /// Whether all of it is as it should be.
    pub(super) fn is_whole(&self) -> bool {
        self.why.is_none() && self.problems.is_empty()
    }

    /// Takes over what was found out about some parts.
    pub(super) fn take(&mut self, parts: &Parts, problems: BTreeMap<Part, PlanError>) {
        self.problems.retain(|part, _| !parts.covers(part));
        self.problems.extend(problems.into_iter().filter(|(part, _)| parts.covers(part)));
    }
}

impl Ledger {
    /// These are all networks that there are at the start.
    pub(super) fn begin(&self, networks: BTreeSet<NetworkName>) {
        self.lock().ahead = Some(networks);
    }

    /// A network was looked at; returns whether it was the last one of those that were there at the start.
    pub(super) fn passed(&self, network: &NetworkName) -> bool {
        let mut book = self.lock();
        let Some(ahead) = &mut book.ahead else { return false };
        ahead.remove(network) && ahead.is_empty()
    }

    /// Why the topology is not ready, as far as the start goes.
    pub(super) fn readiness(&self) -> Result<(), String> {
        match self.lock().ahead.as_ref().map(BTreeSet::len) {
            None => Err("networks are not known yet".to_owned()),
            Some(0) => Ok(()),
            Some(1) => Err("1 network has not been compared with the database yet".to_owned()),
            Some(many) => Err(format!("{many} networks have not been compared with the database yet")),
        }
    }

    /// One line about what is not as it should be.
    pub(super) fn remark(&self) -> Option<String> {
        let book = self.lock();
        let broken = book.networks.iter().filter(|(_, standing)| standing.is_broken());
        let mut broken = broken.map(|(network, standing)| (network.as_str(), &standing.why));
        let first = broken.next();
        let networks = first.map(|(first, why)| {
            let text = match broken.count() {
                0 => format!("network {first} has not all of its rows"),
                more => format!("network {first} and {more} more have not all of their rows"),
            };
            // What a server refuses of one it refuses of all, so the first one's reason is worth the place.
            why.as_ref().map_or_else(|| text.clone(), |why| format!("{text}: {why}"))
        });
        let others = book.others.values().cloned();
        let all: Vec<String> = networks.into_iter().chain(others).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// Whether somebody has to do something about it.
    pub(super) fn is_broken(&self) -> bool {
        self.why.is_some() || self.problems.values().any(|problem| !problem.is_quiet())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::node::Untold;
    use super::*;

    #[test]
    fn readiness_waits_for_every_network_of_the_start_and_says_how_many_are_ahead() {
        let ledger = Ledger::default();
        assert_eq!(ledger.readiness(), Err("networks are not known yet".to_owned()));
        ledger.begin(["blue".into(), "red".into()].into());
        assert!(!ledger.passed(&"blue".into()) && !ledger.passed(&"green".into()));
        assert_eq!(
            ledger.readiness(),
            Err("1 network has not been compared with the database yet".to_owned())
        );
        assert!(ledger.passed(&"red".into()) && !ledger.passed(&"red".into()));
        assert_eq!(ledger.readiness(), Ok(()));
    }

    #[test]
    fn only_what_somebody_has_to_act_on_is_remarked() {
        let ledger = Ledger::default();
        let problem = |cause: Untold| PlanError::Node { node: "n2".into(), cause };
        let missing = || problem(Untold::Missing("k8s.ovn.org/node-chassis-id"));
        let mut standing = Standing::default();
        standing.take(&Parts::all(), [(Part::Node, missing())].into());
        ledger.lock().networks.insert("blue".into(), standing.clone());
        assert_eq!(ledger.remark(), None);
        let loud = PlanError::NoNodeId { node: "n2".into(), cause: Untold::Missing("k8s.ovn.org/node-id") };
        let remote = Part::Remote("n2".into());
        standing.take(&Parts::Only([remote.clone()].into()), [(remote.clone(), loud)].into());
        assert_eq!(standing.problems.len(), 2, "the other part's problem stays");
        ledger.lock().networks.insert("blue".into(), standing.clone());
        assert_eq!(ledger.remark().as_deref(), Some("network blue has not all of its rows"));
        let refused = Standing { why: Some("refused".to_owned()), ..Standing::default() };
        ledger.lock().networks.insert("azure".into(), refused);
        let want = "network azure and 1 more have not all of their rows: refused";
        assert_eq!(ledger.remark().as_deref(), Some(want));
        standing.take(&Parts::Only([remote].into()), BTreeMap::new());
        assert_eq!(standing.problems.keys().collect::<Vec<_>>(), [&Part::Node]);
    }
}
