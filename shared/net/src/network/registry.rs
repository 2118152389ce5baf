//! Which NADs form which network.
//!
//! In: configs of NADs, whether a controller rendered them or somebody wrote them by hand. Out: networks, each with one
//! config and its NADs, and what one change made of them. A NAD that does not fit is refused with a reason and is tried
//! again as soon as what it collided with is gone: nobody has to remember it.
//!
//! Source: ovn-kubernetes `networkmanager` NAD controller.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::nad::{Config, Defaults};
use causeway_api::network::Topology;

use super::name::{NadKey, Namespace, NetworkName};

/// Networks with their NADs.
#[derive(Clone, Debug)]
pub struct Registry {
    defaults: Defaults,
    nads: BTreeMap<NadKey, Entry>,
    networks: BTreeMap<NetworkName, Network>,
    primaries: BTreeMap<Namespace, NadKey>,
    refused: BTreeMap<Obstacle, BTreeSet<NadKey>>,
}

/// One network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// What its NADs say, without the key of any of them.
    pub config: Config,
    /// Its NADs.
    pub nads: BTreeSet<NadKey>,
}

#[derive(Clone, Debug)]
struct Entry {
    config: Config,
    refused: Option<(Refused, Obstacle)>,
}

/// What has to go before a refused NAD can be tried again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    Network(NetworkName),
    PrimaryOf(Namespace),
}

/// Why a NAD is in no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its namespace has a primary network already.
    #[error("NAD {holder} is primary for the namespace, NAD {nad} can't be primary")]
    NotPrimary {
        /// The NAD.
        nad: NadKey,
        /// The one that is.
        holder: NadKey,
    },
    /// Its network is something else by its other NADs.
    #[error("NAD {nad} CNI config does not match that of network {network}")]
    Mismatch {
        /// The NAD.
        nad: NadKey,
        /// The network.
        network: NetworkName,
        /// Keys of the config that differ.
        differing: Vec<&'static str>,
    },
}

/// What became of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Created,
    /// It is the same one and says something else, as when it grows.
    Updated,
    /// Under its name there is another one now: what was set up for it has to go first.
    Replaced,
    /// Its last NAD is gone.
    Ended,
}

/// What one change of a NAD made of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Networks that changed.
    pub networks: BTreeMap<NetworkName, Change>,
    /// NADs that were looked at, with why they are in no network.
    pub nads: BTreeMap<NadKey, Option<Refused>>,
}

/// Networks as they were before a change, and what can be tried again after it.
#[derive(Default)]
struct Pass {
    before: BTreeMap<NetworkName, Option<Config>>,
    cleared: BTreeSet<Obstacle>,
    nads: BTreeSet<NadKey>,
}

impl Registry {
    /// No NAD is known.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self {
            defaults,
            nads: BTreeMap::new(),
            networks: BTreeMap::new(),
            primaries: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// A NAD of ours is there, or says something else.
    pub fn set(&mut self, key: &NadKey, config: &Config) -> Update {
        let config = Config { nad_name: String::new(), ..config.clone() };
        if self.nads.get(key).is_some_and(|entry| entry.config == config) {
            return Update::default();
        }
        let mut pass = Pass::default();
        if self.fits_where_it_is(key, &config) {
            self.touch(&name(&config), &mut pass);
            self.absorb(&config);
            self.nads.insert(key.clone(), Entry { config, refused: None });
            pass.nads.insert(key.clone());
        } else {
            self.leave(key, &mut pass);
            self.nads.insert(key.clone(), Entry { config, refused: None });
            self.join(key, &mut pass);
        }
        self.finish(pass)
    }

    /// A NAD is gone, or is not ours any more.
    pub fn remove(&mut self, key: &NadKey) -> Update {
        let mut pass = Pass::default();
        self.leave(key, &mut pass);
        self.nads.remove(key);
        self.finish(pass)
    }

    /// A network.
    #[must_use]
    pub fn network(&self, network: &NetworkName) -> Option<&Network> {
        self.networks.get(network)
    }

    /// Every network, by name.
    pub fn networks(&self) -> impl Iterator<Item = (&NetworkName, &Network)> {
        self.networks.iter()
    }

    /// The network that a NAD is in.
    #[must_use]
    pub fn network_of(&self, key: &NadKey) -> Option<NetworkName> {
        self.nads.get(key).filter(|entry| entry.refused.is_none()).map(|entry| name(&entry.config))
    }

    /// Why a NAD is in no network.
    #[must_use]
    pub fn refusal(&self, key: &NadKey) -> Option<&Refused> {
        self.nads.get(key)?.refused.as_ref().map(|(why, _)| why)
    }

    /// The NAD that is a namespace's primary one; it may be refused for another reason.
    #[must_use]
    pub fn primary_of(&self, namespace: &Namespace) -> Option<&NadKey> {
        self.primaries.get(namespace)
    }

    /// Whether a NAD can say this and stay in its network.
    fn fits_where_it_is(&self, key: &NadKey, config: &Config) -> bool {
        let there = self.network_of(key).filter(|network| *network == name(config));
        let network = there.and_then(|network| self.networks.get(&network));
        network.is_some_and(|network| network.config.differences(config, &self.defaults).is_empty())
    }

    /// Takes over what a NAD of a network says.
    ///
    /// The NADs of a network that grows are written one after the other: one that has not grown yet takes nothing back,
    /// unless it is the only one.
    fn absorb(&mut self, config: &Config) {
        let Some(network) = self.networks.get_mut(&name(config)) else { return };
        let layer3 = config.topology == Some(Topology::Layer3);
        let shrinks = layer3 && network.config.subnets.iter().any(|subnet| !config.subnets.contains(subnet));
        if !shrinks || network.nads.len() == 1 {
            network.config = config.clone();
        }
    }

    fn touch(&self, network: &NetworkName, pass: &mut Pass) {
        let now = || self.networks.get(network).map(|network| network.config.clone());
        pass.before.entry(network.clone()).or_insert_with(now);
    }

    /// Takes a NAD out of its network, or out of the refused ones.
    fn leave(&mut self, key: &NadKey, pass: &mut Pass) {
        let Some(entry) = self.nads.get(key) else { return };
        if let Some((_, obstacle)) = &entry.refused {
            if let Some(keys) = self.refused.get_mut(obstacle) {
                keys.remove(key);
                if keys.is_empty() {
                    self.refused.remove(obstacle);
                }
            }
        } else {
            let network = name(&entry.config);
            self.touch(&network, pass);
            if let Some(left) = self.networks.get_mut(&network) {
                left.nads.remove(key);
                if left.nads.is_empty() {
                    self.networks.remove(&network);
                    pass.cleared.insert(Obstacle::Network(network));
                }
            }
        }
        if self.primaries.get(key.namespace()) == Some(key) {
            self.primaries.remove(key.namespace());
            pass.cleared.insert(Obstacle::PrimaryOf(key.namespace().clone()));
        }
    }

    /// Puts a NAD that is in none into its network, or refuses it.
    fn join(&mut self, key: &NadKey, pass: &mut Pass) {
        let Some(config) = self.nads.get(key).map(|entry| entry.config.clone()) else { return };
        pass.nads.insert(key.clone());
        let network = name(&config);
        let refused = self.obstacle(key, &config, &network);
        if config.is_primary() {
            // Also one that does not match its network: it does so for a moment while the network's NADs change one by
            // one, and its namespace must not go to another network for that.
            self.primaries.entry(key.namespace().clone()).or_insert_with(|| key.clone());
        }
        if let Some((_, obstacle)) = &refused {
            self.refused.entry(obstacle.clone()).or_default().insert(key.clone());
        } else {
            self.touch(&network, pass);
            let fresh = || Network { config: config.clone(), nads: BTreeSet::new() };
            self.networks.entry(network).or_insert_with(fresh).nads.insert(key.clone());
            self.absorb(&config);
        }
        if let Some(entry) = self.nads.get_mut(key) {
            entry.refused = refused;
        }
    }

    /// What keeps a NAD out of its network.
    fn obstacle(&self, key: &NadKey, config: &Config, network: &NetworkName) -> Option<(Refused, Obstacle)> {
        let holder =
            self.primaries.get(key.namespace()).filter(|holder| config.is_primary() && *holder != key);
        if let Some(holder) = holder {
            let why = Refused::NotPrimary { nad: key.clone(), holder: holder.clone() };
            return Some((why, Obstacle::PrimaryOf(key.namespace().clone())));
        }
        let there = self.networks.get(network)?;
        let differing = there.config.differences(config, &self.defaults);
        if differing.is_empty() {
            return None;
        }
        let why = Refused::Mismatch { nad: key.clone(), network: network.clone(), differing };
        Some((why, Obstacle::Network(network.clone())))
    }

    /// Tries again whoever waited for what has been cleared, and sums up.
    fn finish(&mut self, mut pass: Pass) -> Update {
        for obstacle in std::mem::take(&mut pass.cleared) {
            for key in self.refused.remove(&obstacle).unwrap_or_default() {
                self.join(&key, &mut pass);
            }
        }
        let mut update = Update::default();
        for (network, before) in pass.before {
            let after = self.networks.get(&network).map(|network| &network.config);
            let change = match (before, after) {
                (None, None) => continue,
                (None, Some(_)) => Change::Created,
                (Some(_), None) => Change::Ended,
                (Some(before), Some(after)) if before == *after => continue,
                (Some(before), Some(after)) if before.differences(after, &self.defaults).is_empty() => {
                    Change::Updated
                }
                (Some(_), Some(_)) => Change::Replaced,
            };
            update.networks.insert(network, change);
        }
        for key in pass.nads {
            let why = self.refusal(&key).cloned();
            update.nads.insert(key, why);
        }
        update
    }
}

fn name(config: &Config) -> NetworkName {
    config.name.as_str().into()
}

#[cfg(test)]
mod tests;
