//! Networks come and go with their NetworkAttachmentDefinitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::nad::Config;
use causeway_api::network::Topology;
use causeway_net::activity::{self, Kind, Scope};
use causeway_net::network::duty::Duty;
use causeway_net::network::id::NetworkId;
use causeway_net::network::name::{NadKey, NetworkName, NodeName};
use causeway_net::network::tunnel_key::TunnelKeys;
use jiff::Timestamp;

use super::{Annotated, Identity, Joined, Ledger, Network, Pool, Refusal, Starved, Stir, ranges};
use crate::observed::nad::Nad;

impl Ledger {
    /// The numbers of a network that is about to be made.
    ///
    /// # Errors
    /// None are left.
    pub(in crate::allocation) fn identify(
        &mut self,
        network: &NetworkName,
        config: &Config,
    ) -> Result<Identity, String> {
        let numbers = self.number(network, config, Annotated { id: None, second: None });
        if numbers.is_err() {
            self.starved.insert(Starved::Network(network.clone()));
        }
        numbers
    }

    /// Who was refused for want of numbers, if some are free by now.
    pub(in crate::allocation) fn relieved(&mut self) -> BTreeSet<Starved> {
        if std::mem::take(&mut self.freed) { std::mem::take(&mut self.starved) } else { BTreeSet::new() }
    }

    fn number(
        &mut self,
        network: &NetworkName,
        config: &Config,
        annotated: Annotated,
    ) -> Result<Identity, String> {
        let chosen = self.network_ids.choose(network, annotated.id).map_err(|error| error.to_string())?;
        let keys = if config.is_primary() && config.topology == Some(Topology::Layer2) {
            // A pair that rests on another id is not this network's.
            let second = annotated.second.filter(|_| chosen.replaced.is_none());
            let second = self.second_keys.choose(network, second).map_err(|error| error.to_string())?;
            TunnelKeys::layer2_primary(chosen.id, second)
        } else {
            self.second_keys.release(network);
            TunnelKeys::Derived
        };
        Ok(Identity { id: chosen.id, keys })
    }

    /// Frees what a network has that has no NetworkAttachmentDefinition, and will have none.
    pub(in crate::allocation) fn disown(&mut self, network: &NetworkName, now: Timestamp) -> Stir {
        if network.is_default() || self.networks.get(network).is_some_and(|known| !known.nads.is_empty()) {
            return Stir::default();
        }
        self.freed |= self.network_ids.release(network).is_some();
        self.second_keys.release(network);
        let Some(known) = self.networks.remove(network) else { return Stir::default() };
        let mut stir = Stir { nodes: self.touch_all(network), ..Stir::default() };
        for nad in &known.expected {
            self.awaited.remove(nad);
            let changes = self.activity.remove_nad(nad, now);
            stir.merge(self.stir(&changes));
        }
        stir
    }

    /// Takes over which NetworkAttachmentDefinitions a network is meant to have: others that are gone do not come back.
    pub(in crate::allocation) fn expect_only(
        &mut self,
        network: &NetworkName,
        wanted: &BTreeSet<NadKey>,
        now: Timestamp,
    ) -> Stir {
        let mut stir = Stir::default();
        let Some(known) = self.networks.get_mut(network) else { return stir };
        let gone: Vec<NadKey> = known.expected.difference(wanted).cloned().collect();
        known.expected.retain(|key| wanted.contains(key));
        for key in gone {
            self.awaited.remove(&key);
            let changes = self.activity.remove_nad(&key, now);
            stir.merge(self.stir(&changes));
        }
        stir
    }

    /// Takes over a NetworkAttachmentDefinition that exists. `meant` are the subnets of the Layer3 network object behind it,
    /// if there is one: others that stand in its config have no effect, as they are taken out again.
    pub(in crate::allocation) fn join(
        &mut self,
        key: &NadKey,
        nad: &Nad,
        config: &Arc<Config>,
        meant: Option<&BTreeSet<String>>,
        now: Timestamp,
    ) -> (Joined, Stir) {
        let (joined, mut stir) = match meant {
            None => self.join_with(key, nad, config, &BTreeMap::new(), now),
            Some(meant) => self.join_with(key, nad, &restricted(config, meant), &BTreeMap::new(), now),
        };
        if let (Joined::Of { network, .. }, Some(meant)) = (&joined, meant) {
            stir.nodes.extend(self.shrink(network, config, meant));
        }
        (joined, stir)
    }

    /// Takes subnets away that the network got by an edit that has been undone: neither the network object nor this config of
    /// it says so. That happens only to an edit from before this process led.
    fn shrink(
        &mut self,
        network: &NetworkName,
        config: &Arc<Config>,
        meant: &BTreeSet<String>,
    ) -> BTreeSet<NodeName> {
        let Some(known) = self.networks.get(network) else { return BTreeSet::new() };
        let is_undone = |subnet: &String| !meant.contains(subnet) && !config.subnets.contains(subnet);
        if !matches!(known.pool, Pool::Of(_)) || !known.config.subnets.iter().any(is_undone) {
            return BTreeSet::new();
        }
        let mut subnets: Vec<String> =
            known.config.subnets.iter().filter(|subnet| !is_undone(subnet)).cloned().collect();
        if subnets.is_empty() {
            subnets.clone_from(&restricted(config, meant).subnets);
        }
        let config = Arc::new(Config { subnets, ..(*known.config).clone() });
        let pool = self.pool(network, ranges(&config, &self.plan.defaults));
        if let Some(known) = self.networks.get_mut(network) {
            (known.config, known.pool) = (config, pool);
        }
        self.touch_all(network)
    }

    pub(super) fn join_with(
        &mut self,
        key: &NadKey,
        nad: &Nad,
        config: &Arc<Config>,
        legacy: &BTreeMap<String, NetworkId>,
        now: Timestamp,
    ) -> (Joined, Stir) {
        let network = NetworkName::from(config.name.as_str());
        let mut stir = Stir::default();
        if self.joined.get(key).is_some_and(|before| *before != network)
            && let Some((left, change)) = self.leave(key, |_| false, now)
        {
            stir.merge(change);
            stir.networks.insert(left);
        }
        if let Some(former) = self.awaited.remove(key).filter(|former| *former != network) {
            // It came back, but to another network.
            stir.merge(self.give_up(key, &former, now));
            stir.networks.insert(former);
        }
        if config.is_primary()
            && let Some(primary) = self.other_primary(key)
        {
            return (Joined::Refused(Refusal::SecondPrimary { nad: key.clone(), primary }), stir);
        }
        let anew = match self.compare(key, nad, &network, config) {
            Agreement::Same => false,
            Agreement::Anew => true,
            Agreement::Differs(differences) => {
                let known = self.networks.get_mut(&network).filter(|known| known.nads.contains(key));
                let Some(known) = known else {
                    let refusal = Refusal::Mismatch { nad: key.clone(), network, differences };
                    return (Joined::Refused(refusal), stir);
                };
                known.astray.insert(key.clone());
                return (Joined::Pending, stir);
            }
        };
        let mut annotated = Annotated::of(nad);
        annotated.id = annotated.id.or_else(|| legacy.get(network.as_str()).copied());
        let identity = match self.number(&network, config, annotated) {
            Ok(identity) => identity,
            Err(error) => {
                self.starved.insert(Starved::Nad(key.clone()));
                return (Joined::Refused(Refusal::Exhausted(error)), stir);
            }
        };
        stir.nodes.extend(self.take_over(key, &network, config, anew));
        self.joined.insert(key.clone(), network.clone());
        if config.is_primary() {
            self.primaries.entry(key.namespace().clone()).or_default().insert(key.clone());
        } else {
            self.not_primary(key);
        }
        let changes = self.activity.set_nad(key, &activity_of(nad, config, &network), now);
        stir.merge(self.stir(&changes));
        (Joined::Of { identity, network }, stir)
    }

    /// How a config goes with what the network is so far.
    fn compare(&self, key: &NadKey, nad: &Nad, network: &NetworkName, config: &Config) -> Agreement {
        let Some(known) = self.networks.get(network) else { return Agreement::Same };
        let differences = known.config.differences(config, &self.plan.defaults);
        let others_agree = known.nads.iter().any(|other| other != key && !known.astray.contains(other));
        if !differences.is_empty() {
            let text = differences.join(", ");
            return if others_agree { Agreement::Differs(text) } else { Agreement::Anew };
        }
        // A Layer3 network that gets other subnets, not just more, cannot keep its pool. Where a network object stands behind
        // it, the object is right, and the NetworkAttachmentDefinition is put right.
        let alone = known.nads.iter().all(|other| other == key);
        let loses = known.config.subnets.iter().any(|subnet| !config.subnets.contains(subnet));
        let replaced = loses && alone && nad.controller.is_none();
        let repaired = matches!(known.pool, Pool::Bad(_)) && known.config.subnets != config.subnets;
        let layer3 = config.topology == Some(Topology::Layer3);
        if layer3 && (replaced || repaired) { Agreement::Anew } else { Agreement::Same }
    }

    /// Makes the network what this config says. Returns the nodes to look at because of that.
    fn take_over(
        &mut self,
        key: &NadKey,
        network: &NetworkName,
        config: &Arc<Config>,
        anew: bool,
    ) -> BTreeSet<NodeName> {
        let ranges = (Duty::of(config) == Duty::NodeSubnets).then(|| ranges(config, &self.plan.defaults));
        if let Some(known) = self.networks.get_mut(network).filter(|_| !anew) {
            known.nads.insert(key.clone());
            known.astray.remove(key);
            known.expected.remove(key);
            if known.config.subnets == config.subnets {
                return BTreeSet::new();
            }
            // A NetworkAttachmentDefinition that is not updated yet says less than another one: that changes nothing.
            let more = config.subnets.len() > known.config.subnets.len();
            let grown = match (&mut known.pool, ranges) {
                (Pool::Of(pool), Some(Ok(ranges))) if more => pool.expand(&ranges).is_ok(),
                _ => false,
            };
            if !grown {
                return BTreeSet::new();
            }
            known.config = Arc::clone(config);
            return self.touch_all(network);
        }
        let before = self.networks.remove(network);
        let pool = ranges.map_or(Pool::None, |ranges| self.pool(network, ranges));
        let mut entry = Network::new(Arc::clone(config), pool);
        if let Some(before) = before {
            // The others say what it was: they are looked at again.
            entry.astray = before.nads.iter().filter(|other| *other != key).cloned().collect();
            entry.nads = before.nads;
            entry.expected = before.expected;
            entry.expected.remove(key);
        }
        entry.nads.insert(key.clone());
        let touches = matches!(entry.pool, Pool::Of(_)) || anew;
        self.networks.insert(network.clone(), entry);
        if touches { self.touch_all(network) } else { BTreeSet::new() }
    }

    fn touch_all(&mut self, network: &NetworkName) -> BTreeSet<NodeName> {
        for entry in self.nodes.values_mut() {
            entry.dirty.insert(network.clone());
        }
        self.nodes.keys().cloned().collect()
    }

    /// Another NetworkAttachmentDefinition that is the primary one of the namespace.
    fn other_primary(&self, key: &NadKey) -> Option<NadKey> {
        let primaries = self.primaries.get(key.namespace())?;
        primaries.iter().find(|other| *other != key).cloned()
    }

    fn not_primary(&mut self, key: &NadKey) {
        if let Some(primaries) = self.primaries.get_mut(key.namespace()) {
            primaries.remove(key);
            if primaries.is_empty() {
                self.primaries.remove(key.namespace());
            }
        }
    }

    /// Takes over that a NetworkAttachmentDefinition is gone, or is no longer one of ours. Returns its network, and what that
    /// changes. One that `comes_back` to the network keeps it alive, also if it was its last one.
    pub(in crate::allocation) fn leave(
        &mut self,
        key: &NadKey,
        comes_back: impl FnOnce(&NetworkName) -> bool,
        now: Timestamp,
    ) -> Option<(NetworkName, Stir)> {
        self.starved.remove(&Starved::Nad(key.clone()));
        let network = self.joined.remove(key)?;
        self.not_primary(key);
        let known = self.networks.get_mut(&network)?;
        known.nads.remove(key);
        known.astray.remove(key);
        if comes_back(&network) {
            known.expected.insert(key.clone());
            self.awaited.insert(key.clone(), network.clone());
            return Some((network, Stir::default()));
        }
        let stir = self.give_up(key, &network, now);
        Some((network, stir))
    }

    /// A network does without one of its NetworkAttachmentDefinitions from now on.
    fn give_up(&mut self, key: &NadKey, network: &NetworkName, now: Timestamp) -> Stir {
        let changes = self.activity.remove_nad(key, now);
        let mut stir = self.stir(&changes);
        let Some(known) = self.networks.get_mut(network) else { return stir };
        known.expected.remove(key);
        // Another one of the network may be on its way back.
        if known.expected.is_empty() {
            stir.merge(self.disown(network, now));
        }
        stir
    }
}

/// A config with those of its subnets that are meant; all of them where none is.
fn restricted(config: &Arc<Config>, meant: &BTreeSet<String>) -> Arc<Config> {
    let kept: Vec<String> = config.subnets.iter().filter(|subnet| meant.contains(*subnet)).cloned().collect();
    if kept.is_empty() || kept.len() == config.subnets.len() {
        return Arc::clone(config);
    }
    Arc::new(Config { subnets: kept, ..(**config).clone() })
}

/// How a config goes with what a network is so far.
enum Agreement {
    /// It says the same, or the network is new.
    Same,
    /// It makes the network another one: nobody says what it was any more.
    Anew,
    /// Others say something else: in these keys.
    Differs(String),
}

/// A NetworkAttachmentDefinition as the model of who needs what sees it.
fn activity_of(nad: &Nad, config: &Config, network: &NetworkName) -> activity::Nad {
    activity::Nad {
        network: network.clone(),
        kind: if config.is_primary() { Kind::Primary } else { Kind::Secondary },
        scope: if nad.controller.is_some() { Scope::OnDemand } else { Scope::Everywhere },
    }
}
