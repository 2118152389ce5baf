//! What is to be looked at: keys for the engine, and for each network which of its parts.
//!
//! A key carries no data. Which parts a change concerns is kept beside the queue, so that a change of one node costs one
//! part of each network, and several changes of one network merge into one transaction.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_net::network::name::{NetworkName, NodeName};
use causeway_runtime::engine::KeyQueue;

use super::super::plan::Part;
use super::super::service::ServiceName;
use super::super::write::Parts;

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    /// The rows that a zone has whatever networks there are.
    Zone,
    /// A network.
    Network(NetworkName),
    /// Sets of addresses of Services.
    Services,
    /// Networks in the database that nobody wants.
    Leftovers,
    /// Chassis of other nodes.
    Chassis,
    /// Settings of this node's own chassis.
    Settings,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone => f.write_str("zone"),
            Self::Network(network) => write!(f, "network {network}"),
            Self::Services => f.write_str("services"),
            Self::Leftovers => f.write_str("leftovers"),
            Self::Chassis => f.write_str("chassis"),
            Self::Settings => f.write_str("chassis settings"),
        }
    }
}

/// Parts of a network that are to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stir {
    /// All, also such as this node has forgotten.
    All,
    /// These.
    Only(BTreeSet<Part>),
}

impl Stir {
    /// One part.
    pub(super) fn part(part: Part) -> Self {
        Self::Only([part].into())
    }

    /// Another node.
    pub(super) fn remote(node: &NodeName) -> Self {
        Self::part(Part::Remote(node.clone()))
    }

    /// Everything that depends on this node, by whose own interface Services are reached.
    pub(super) fn local<'s>(services: impl IntoIterator<Item = &'s ServiceName>) -> Self {
        let parts = [Part::Network, Part::Node, Part::Gateway, Part::HostAddresses, Part::Transit];
        Self::Only(parts.into_iter().chain(services.into_iter().cloned().map(Part::Service)).collect())
    }

    /// What depends on where the network leaves.
    pub(super) fn exit() -> Self {
        Self::Only([Part::Gateway, Part::HostAddresses].into())
    }

    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
            (Self::Only(mine), Self::Only(others)) => mine.extend(others),
        }
    }

    /// Whether these are all parts but some.
    pub(super) fn covers(&self, part: &Part) -> bool {
        match self {
            Self::All => true,
            Self::Only(parts) => parts.contains(part),
        }
    }

    /// As the writer takes it, without parts that nothing is known of.
    pub(super) fn parts(self, unknown: BTreeSet<Part>) -> Parts {
        match self {
            Self::All => Parts::AllBut(unknown),
            Self::Only(parts) => Parts::Only(parts.difference(&unknown).cloned().collect()),
        }
    }
}

/// Where changes come in. Cheap to clone; no call waits.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    queue: KeyQueue<Key>,
    stirs: Arc<Mutex<HashMap<NetworkName, Stir>>>,
}

impl Inbox {
    /// The keys, for the engine.
    pub(super) fn queue(&self) -> KeyQueue<Key> {
        self.queue.clone()
    }

    /// Something that concerns these parts of a network happened.
    pub(super) fn network(&self, network: &NetworkName, stir: Stir) {
        self.put_back(network, stir);
        self.queue.enqueue(Key::Network(network.clone()));
    }

    /// The same for several networks.
    pub(super) fn networks<'n>(&self, networks: impl IntoIterator<Item = &'n NetworkName>, stir: &Stir) {
        for network in networks {
            self.network(network, stir.clone());
        }
    }

    /// Something else happened.
    pub(super) fn key(&self, key: Key) {
        self.queue.enqueue(key);
    }

    /// Takes what is to be looked at of a network; all of it where nobody said.
    pub(super) fn take(&self, network: &NetworkName) -> Stir {
        self.lock().remove(network).unwrap_or(Stir::All)
    }

    /// What could not be brought right stays to be looked at, with the next event of its network.
    pub(super) fn put_back(&self, network: &NetworkName, stir: Stir) {
        let mut stirs = self.lock();
        match stirs.get_mut(network) {
            Some(there) => there.merge(stir),
            None => drop(stirs.insert(network.clone(), stir)),
        }
    }

    /// Whether something of a network is left to be looked at.
    #[cfg(test)]
    pub(super) fn waiting(&self, network: &NetworkName) -> Option<Stir> {
        self.lock().get(network).cloned()
    }

    /// Wakes all networks of which something is left.
    pub(super) fn wake_waiting(&self) {
        let waiting: Vec<Key> = self.lock().keys().cloned().map(Key::Network).collect();
        self.queue.enqueue_all(waiting);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NetworkName, Stir>> {
        self.stirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_network_merge_and_what_is_not_done_stays() {
        let inbox = Inbox::default();
        let (blue, red) = (NetworkName::from("blue"), NetworkName::from("red"));
        inbox.network(&blue, Stir::remote(&"n2".into()));
        inbox.network(&blue, Stir::exit());
        let Stir::Only(parts) = inbox.take(&blue) else { panic!("all") };
        assert_eq!(parts, [Part::Gateway, Part::HostAddresses, Part::Remote("n2".into())].into());
        assert_eq!(inbox.take(&blue), Stir::All, "nobody said what: all of it");
        inbox.put_back(&blue, Stir::exit());
        inbox.network(&blue, Stir::All);
        assert_eq!(inbox.waiting(&blue), Some(Stir::All));
        assert_eq!(inbox.waiting(&red), None);
    }

    #[test]
    fn what_rests_on_this_node_are_the_ways_to_services_too() {
        let dns = ServiceName::new("kube-system", "kube-dns");
        assert!(Stir::local([&dns]).covers(&Part::Service(dns.clone())));
        assert!(!Stir::local([]).covers(&Part::Service(dns)));
    }

    #[test]
    fn parts_of_nodes_that_cannot_be_read_are_left_out() {
        let unknown = BTreeSet::from([Part::Remote("n2".into())]);
        assert_eq!(Stir::All.parts(unknown.clone()), Parts::AllBut(unknown.clone()));
        let only = Stir::Only([Part::Remote("n2".into()), Part::Remote("n3".into())].into());
        assert_eq!(only.parts(unknown), Parts::Only([Part::Remote("n3".into())].into()));
    }
}
