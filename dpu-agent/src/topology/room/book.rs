//! Which networks there are, by what all NetworkAttachmentDefinitions say. Pure, and kept up change by change.
//!
//! Several NADs can be of one network: the oldest that can be used says what it is. Several networks can have rows of the
//! same names: the one with the lowest id has them, the others wait until it is gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_net::network::id::NetworkId;
use causeway_net::network::name::{NadKey, NetworkName};

use super::super::network::{Network, NetworkError};
use super::watched::{Nad, NadProblem};

/// The networks.
#[derive(Debug, Default)]
pub(super) struct Book {
    networks: BTreeMap<NetworkName, Entry>,
    /// Where each NAD stands in `networks`.
    places: HashMap<NadKey, (NetworkName, i64)>,
    /// Networks that have a number, by the prefix of their names in OVN.
    prefixes: HashMap<String, BTreeSet<(NetworkId, NetworkName)>>,
}

#[derive(Debug, Default)]
struct Entry {
    nads: BTreeMap<(i64, NadKey), Arc<Nad>>,
    current: Option<Arc<Network>>,
}

/// What is to become of a network.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wanted {
    /// It is to be there.
    Here(Arc<Network>),
    /// It stays as it is, and this is why.
    Kept(Why),
    /// It is to be gone.
    Gone,
}

/// Why a network stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// None of its NADs can be used; this is the oldest one.
    Nad {
        /// Which.
        key: NadKey,
        /// The object.
        nad: Arc<Nad>,
        /// What is wrong with it.
        problem: NadProblem,
    },
    /// Another network has its names.
    Prefix {
        /// Its oldest NAD.
        key: NadKey,
        /// The object.
        nad: Arc<Nad>,
        /// What is wrong.
        error: NetworkError,
    },
}

impl Book {
    /// Takes over what a NAD says now, or that it is gone; returns the networks that are to be looked at.
    pub(super) fn update(&mut self, key: &NadKey, new: Option<&Arc<Nad>>) -> BTreeSet<NetworkName> {
        let mut touched = BTreeSet::new();
        if let Some((name, created)) = self.places.remove(key) {
            if let Some(entry) = self.networks.get_mut(&name) {
                entry.nads.remove(&(created, key.clone()));
            }
            touched.insert(name);
        }
        if let Some(new) = new {
            let entry = self.networks.entry(new.name.clone()).or_default();
            entry.nads.insert((new.created, key.clone()), Arc::clone(new));
            self.places.insert(key.clone(), (new.name.clone(), new.created));
            touched.insert(new.name.clone());
        }
        let mut concerned = BTreeSet::new();
        for name in touched {
            self.settle(&name, &mut concerned);
        }
        concerned
    }

    /// Decides anew what a network is; whom that concerns goes into `concerned`.
    fn settle(&mut self, name: &NetworkName, concerned: &mut BTreeSet<NetworkName>) {
        let Some(entry) = self.networks.get_mut(name) else { return };
        let now = entry.nads.values().find_map(|nad| nad.network.as_ref().ok()).cloned();
        let before = std::mem::replace(&mut entry.current, now.clone());
        let is_gone = entry.nads.is_empty();
        if is_gone {
            self.networks.remove(name);
        }
        if before.is_none() || before != now || is_gone {
            concerned.insert(name.clone());
        }
        let id = |network: &Option<Arc<Network>>| network.as_ref().map(|network| network.id);
        if id(&before) == id(&now) {
            return;
        }
        let prefix = name.ovn_prefix();
        let sharing = self.prefixes.entry(prefix.clone()).or_default();
        if let Some(before) = before {
            sharing.remove(&(before.id, name.clone()));
        }
        if let Some(now) = now {
            sharing.insert((now.id, name.clone()));
        }
        if sharing.is_empty() {
            self.prefixes.remove(&prefix);
        } else {
            concerned.extend(sharing.iter().map(|(_, other)| other.clone()));
        }
    }

    /// What is to become of a network.
    pub(super) fn wanted(&self, name: &NetworkName) -> Wanted {
        let Some(entry) = self.networks.get(name) else { return Wanted::Gone };
        let Some(((_, key), nad)) = entry.nads.first_key_value() else { return Wanted::Gone };
        let (key, nad) = (key.clone(), Arc::clone(nad));
        let Some(network) = &entry.current else {
            return match &nad.network {
                Err(problem) => Wanted::Kept(Why::Nad { problem: problem.clone(), key, nad }),
                Ok(network) => Wanted::Here(Arc::clone(network)),
            };
        };
        match self.holder(&name.ovn_prefix()) {
            Some(holder) if holder != name => {
                let (network, holder) = (name.clone(), holder.clone());
                Wanted::Kept(Why::Prefix { key, nad, error: NetworkError::PrefixTaken { network, holder } })
            }
            _ => Wanted::Here(Arc::clone(network)),
        }
    }

    /// The network that has the names of a prefix.
    pub(super) fn holder(&self, prefix: &str) -> Option<&NetworkName> {
        self.prefixes.get(prefix)?.first().map(|(_, name)| name)
    }

    /// Whether anything says that a network exists.
    pub(super) fn knows(&self, name: &NetworkName) -> bool {
        self.networks.contains_key(name)
    }

    /// The names of all networks that something says of that they exist.
    pub(super) fn names(&self) -> impl Iterator<Item = &NetworkName> {
        self.networks.keys()
    }

    /// The networks that can be used, whoever has their names.
    pub(super) fn networks(&self) -> impl Iterator<Item = &Arc<Network>> {
        self.networks.values().filter_map(|entry| entry.current.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::fixture::cluster;
    use super::*;
    use causeway_api::nad::{Config, GatewayMode};
    use causeway_net::network::name::Namespace;

    fn key(name: &str) -> NadKey {
        NadKey::new(Namespace::from("ns"), name)
    }

    fn nad(name: &str, created: i64, id: Option<u32>) -> Arc<Nad> {
        let config = format!(
            r#"{{"type":"ovn-k8s-cni-overlay","name":"{name}","netAttachDefName":"ns/n","topology":"layer3","subnets":"10.0.0.0/16/24"}}"#
        );
        let config = Config::read(&config, "ns/n", GatewayMode::Shared).unwrap();
        let network = id.map_or(Err(NadProblem::NoNumber("network-id")), |id| {
            Ok(Arc::new(Network::of(&config, id.try_into().unwrap(), &[], &cluster()).unwrap()))
        });
        Arc::new(Nad { uid: "u".into(), created, name: name.into(), network })
    }

    fn names(networks: &BTreeSet<NetworkName>) -> Vec<&str> {
        networks.iter().map(NetworkName::as_str).collect()
    }

    #[test]
    fn a_network_is_what_its_oldest_usable_nad_says_and_goes_with_its_last_one() {
        let mut book = Book::default();
        let (young, old) = (nad("blue", 2, Some(1)), nad("blue", 1, None));
        assert_eq!(names(&book.update(&key("young"), Some(&young))), ["blue"]);
        assert!(
            matches!(book.wanted(&"blue".into()), Wanted::Here(network) if network.id == 1_u32.try_into().unwrap())
        );
        // A further NAD that changes nothing wakes nobody.
        assert_eq!(names(&book.update(&key("old"), Some(&old))), [""; 0]);
        assert!(matches!(book.wanted(&"blue".into()), Wanted::Here(_)));
        assert_eq!(names(&book.update(&key("young"), None)), ["blue"]);
        let kept = book.wanted(&"blue".into());
        assert!(matches!(kept, Wanted::Kept(Why::Nad { problem: NadProblem::NoNumber(_), .. })), "{kept:?}");
        assert_eq!(names(&book.update(&key("old"), None)), ["blue"]);
        assert_eq!((book.wanted(&"blue".into()), book.knows(&"blue".into())), (Wanted::Gone, false));
    }

    #[test]
    fn a_nad_that_changes_its_network_concerns_both() {
        let mut book = Book::default();
        let (before, after) = (nad("blue", 1, Some(1)), nad("red", 1, Some(2)));
        book.update(&key("n"), Some(&before));
        assert_eq!(names(&book.update(&key("n"), Some(&after))), ["blue", "red"]);
        assert_eq!(book.wanted(&"blue".into()), Wanted::Gone);
    }

    #[test]
    fn of_two_networks_with_the_same_names_the_lower_id_has_them_whoever_came_first() {
        let (dash, dot) = (nad("a-b", 1, Some(5)), nad("a.b", 2, Some(3)));
        for dash_first in [true, false] {
            let mut book = Book::default();
            let order = if dash_first { [&dash, &dot] } else { [&dot, &dash] };
            book.update(&key(order[0].name.as_str()), Some(order[0]));
            let concerned = book.update(&key(order[1].name.as_str()), Some(order[1]));
            assert_eq!(names(&concerned), ["a-b", "a.b"]);
            assert!(matches!(book.wanted(&"a.b".into()), Wanted::Here(_)));
            let Wanted::Kept(Why::Prefix { error, .. }) = book.wanted(&"a-b".into()) else { panic!() };
            assert!(error.to_string().contains("same names in OVN as network a.b"), "{error}");
            // Its turn comes when the other one goes.
            assert_eq!(names(&book.update(&key("a.b"), None)), ["a-b", "a.b"]);
            assert!(matches!(book.wanted(&"a-b".into()), Wanted::Here(_)));
        }
    }
}
