//! Which networks have management ports: NetworkAttachmentDefinitions by network id.
//!
//! Several can be of one network: they say the same, and the network is gone when the last one is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_agent::node_facts::view::NodeView;
use causeway_api::annotation::network as annotation;
use causeway_api::annotation::node::{MANAGEMENT_PORT_MACS, NODE_SUBNETS, read_node_subnets};
use causeway_api::nad::{Config, GatewayMode, NetworkAttachmentDefinition};
use causeway_net::network::id::NetworkId;
use causeway_runtime::watch::NamespacedName;

use super::PortKey;
use crate::topology::cluster::Cluster;
use crate::topology::network::Network;

/// What is kept of a NetworkAttachmentDefinition: the network through which pods of its namespace leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nad {
    pub(super) id: PortKey,
    /// The network, or why it has no port.
    pub(super) network: Result<Arc<Network>, String>,
}

impl Nad {
    /// Nothing of one without an id, which nodes do not look at, and of one without a port on nodes.
    pub(super) fn of(
        nad: &NetworkAttachmentDefinition,
        mode: GatewayMode,
        cluster: &Cluster,
    ) -> Option<Self> {
        let annotations = nad.metadata.annotations.as_ref()?;
        let text = |key: &str| annotations.get(key).map(String::as_str);
        let id = annotation::read_network_id(text(annotation::NETWORK_ID)?).ok()?;
        let id = NetworkId::try_from(id).ok().filter(|id| !id.is_default())?;
        let config: Config = nad.read(mode).ok().filter(Config::is_primary)?;
        let keys = text(annotation::TUNNEL_KEYS).map(annotation::read_tunnel_keys);
        let network = keys.transpose().map_err(|error| error.to_string()).and_then(|keys| {
            let network = Network::of(&config, id, &keys.unwrap_or_default(), cluster);
            network.map(Arc::new).map_err(|error| error.to_string())
        });
        Some(Self { id: PortKey(id.get()), network })
    }
}

/// The networks. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Index(Arc<Mutex<Networks>>);

#[derive(Debug, Default)]
struct Networks {
    by_id: BTreeMap<PortKey, BTreeMap<NamespacedName, Arc<Nad>>>,
    ids: BTreeMap<NamespacedName, PortKey>,
    /// Whether all are known, so that one that is not is gone.
    complete: bool,
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Networks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything was listed once.
    pub(super) fn complete(&self) {
        self.lock().complete = true;
    }

    /// Takes over a change; returns whose ports it concerns.
    pub(super) fn change(&self, key: &NamespacedName, new: Option<&Arc<Nad>>) -> BTreeSet<PortKey> {
        let mut networks = self.lock();
        let old = networks.ids.remove(key);
        if let Some(id) = old
            && let Some(of_network) = networks.by_id.get_mut(&id)
        {
            of_network.remove(key);
            if of_network.is_empty() {
                networks.by_id.remove(&id);
            }
        }
        if let Some(nad) = new {
            networks.ids.insert(key.clone(), nad.id);
            networks.by_id.entry(nad.id).or_default().insert(key.clone(), Arc::clone(nad));
        }
        old.into_iter().chain(new.map(|nad| nad.id)).collect()
    }

    /// The network with an id; of several definitions the first one that can be read.
    pub(super) fn get(&self, id: PortKey) -> Option<Result<Arc<Network>, String>> {
        let networks = self.lock();
        let of_network = networks.by_id.get(&id)?;
        let readable = of_network.values().find(|nad| nad.network.is_ok());
        readable.or_else(|| of_network.values().next()).map(|nad| nad.network.clone())
    }

    /// Whether a network that is not here is gone.
    pub(super) fn is_complete(&self) -> bool {
        self.lock().complete
    }

    /// All ports that there should be.
    pub(super) fn all(&self) -> BTreeSet<PortKey> {
        self.lock().by_id.keys().copied().chain([PortKey(0)]).collect()
    }

    /// The ports that a change of the Node concerns: of networks whose subnets here are others.
    pub(super) fn of_node(&self, old: Option<&NodeView>, new: Option<&NodeView>) -> BTreeSet<PortKey> {
        let (Some(old), Some(new)) = (old, new) else { return self.all() };
        let text = |node: &NodeView, key: &str| node.annotations.get(key).cloned();
        let mut concerned = BTreeSet::new();
        if text(old, MANAGEMENT_PORT_MACS) != text(new, MANAGEMENT_PORT_MACS) {
            concerned.insert(PortKey(0));
        }
        let (before, after) = (text(old, NODE_SUBNETS), text(new, NODE_SUBNETS));
        if before == after {
            return concerned;
        }
        let read = |text: Option<String>| read_node_subnets(&text.unwrap_or_else(|| "{}".to_owned())).ok();
        let (Some(before), Some(after)) = (read(before), read(after)) else { return self.all() };
        let differs = |network: &str| {
            let broken =
                |read: &causeway_api::annotation::Read<_>| read.bad.iter().any(|bad| bad.entry == network);
            before.value.get(network) != after.value.get(network) || broken(&before) || broken(&after)
        };
        if differs(causeway_net::network::name::NetworkName::DEFAULT) {
            concerned.insert(PortKey(0));
        }
        let networks = self.lock();
        let of_others = networks.by_id.iter().filter(|(_, nads)| {
            nads.values().any(|nad| nad.network.as_ref().is_ok_and(|network| differs(network.name.as_str())))
        });
        concerned.extend(of_others.map(|(id, _)| *id));
        concerned
    }
}

#[cfg(test)]
mod tests;
