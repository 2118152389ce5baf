//! Nodes: each has an id, and its subnets of the networks that it needs.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotation::node as node_annotation;
use causeway_api::nad::DEFAULT_NETWORK;
use causeway_net::activity::Need;
use causeway_net::ipam::nodes::{Families, Family};
use causeway_net::network::name::{NetworkName, NodeName};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{Ledger, NodeEntry, NodeVerdict, Pool, Stir};
use crate::observed::place::Node;

impl Ledger {
    /// Takes over what a node is labelled with: whether it gets subnets at all.
    pub(in crate::allocation) fn label(&mut self, name: &NodeName, node: &Node) {
        let exempt = self.is_exempt(node);
        let foreign = node.annotations.get(node_annotation::HYBRID_OVERLAY_SUBNET).filter(|_| exempt);
        let foreign = foreign.and_then(|text| node_annotation::read_hybrid_overlay_subnet(text).ok());
        let foreign: Vec<IpNet> = foreign.into_iter().collect();
        if let Some(Pool::Of(pool)) = self.networks.get_mut(DEFAULT_NETWORK).map(|known| &mut known.pool) {
            // Of the cluster's own addresses nobody else may get what another network stack gave out.
            pool.set_foreign(name, &foreign);
        }
        let entry = self.nodes.entry(name.clone()).or_default();
        if std::mem::replace(&mut entry.exempt, exempt) != exempt {
            entry.dirty.extend(self.networks.keys().cloned());
        }
    }

    /// Whether the annotations of a node changed, and in more than what it was to be annotated with.
    pub(in crate::allocation) fn is_news(&self, name: &NodeName, old: &Node, new: &Node) -> bool {
        let changed: Vec<&str> = old.changed_annotations(new);
        let is_wanted = || {
            let entry = self.nodes.get(name).filter(|entry| entry.read);
            entry.is_some_and(|entry| {
                entry.text.as_ref() == new.annotations.get(node_annotation::NODE_SUBNETS)
            })
        };
        match changed.as_slice() {
            [] => false,
            [node_annotation::NODE_SUBNETS] => !is_wanted(),
            _ => true,
        }
    }

    /// Looks at a node that exists. `annotations` are what it has now.
    pub(in crate::allocation) fn node(
        &mut self,
        name: &NodeName,
        annotations: &BTreeMap<String, String>,
    ) -> NodeVerdict {
        let mut verdict = NodeVerdict::default();
        self.activity.add_node(name);
        self.number_node(name, annotations, &mut verdict);
        // Deprecated: upstream takes it off as well.
        if annotations.contains_key(node_annotation::GATEWAY_ROUTER_PORT) {
            verdict.changes.insert(node_annotation::GATEWAY_ROUTER_PORT, None);
        }
        let text = annotations.get(node_annotation::NODE_SUBNETS);
        let entry = self.nodes.entry(name.clone()).or_default();
        let mut look_at = std::mem::take(&mut entry.dirty);
        if !entry.read || entry.text.as_ref() != text {
            entry.take_over(text);
            // What stands there of networks that are gone goes.
            entry.subnets.retain(|network| self.networks.contains_key(network));
            look_at = self.networks.keys().cloned().chain(look_at).collect();
        }
        let exempt = entry.exempt;
        let (mut subnets, unreadable) = (std::mem::take(&mut entry.subnets), entry.unreadable.clone());
        self.correct_legacy_ids(annotations, &mut verdict);
        let is_news = !look_at.is_empty();
        let mut freed = Vec::new();
        for network in look_at {
            let Some(known) = self.networks.get_mut(&network) else {
                subnets.remove(network.as_str());
                continue;
            };
            let pool = match &mut known.pool {
                Pool::Of(pool) => pool,
                Pool::None => {
                    subnets.remove(network.as_str());
                    continue;
                }
                Pool::Bad(_) => continue,
            };
            let had = pool.of(name).to_vec();
            let idle = !network.is_default() && self.activity.need(&network, name) == Need::Idle;
            if exempt || idle {
                pool.release(name);
                subnets.remove(network.as_str());
                if known.problems.remove(name).is_some() {
                    verdict.told.insert(network.clone());
                }
                if !had.is_empty() {
                    freed.push(network);
                }
                continue;
            }
            let annotated = subnets.get(network.as_str()).unwrap_or_default().to_vec();
            let result = match &unreadable {
                Some(error) => Err(format!("failed to update node {name} annotation: {error}")),
                None => pool
                    .sync(name, &annotated)
                    .map(|assigned| assigned.subnets)
                    .map_err(|error| error.to_string()),
            };
            match result {
                Ok(assigned) => {
                    subnets.set(network.as_str(), assigned);
                    known.unannounced.remove(name);
                    if known.problems.remove(name).is_some() {
                        verdict.told.insert(network.clone());
                    }
                }
                Err(error) => {
                    let kept = pool.of(name).to_vec();
                    if unreadable.is_none() {
                        subnets.set(network.as_str(), kept);
                    }
                    let before = known.problems.insert(name.clone(), error.clone());
                    let is_news = before.as_ref() != Some(&error);
                    if known.unannounced.remove(name) || is_news {
                        verdict.failures.push((network.clone(), error));
                        verdict.told.insert(network.clone());
                    }
                }
            }
            if had.iter().any(|had| !pool.of(name).contains(had)) {
                freed.push(network);
            }
        }
        let entry = self.nodes.entry(name.clone()).or_default();
        if is_news && unreadable.is_none() {
            let wanted = subnets.render();
            if wanted.as_ref() != text {
                verdict.changes.insert(node_annotation::NODE_SUBNETS, wanted.clone());
            }
            entry.text = wanted;
        }
        entry.subnets = subnets;
        for network in freed {
            verdict.woken.extend(self.wake_waiting(&network));
        }
        verdict.woken.remove(name);
        verdict
    }

    /// Marks the nodes that lack a subnet of a network: one has become free.
    fn wake_waiting(&mut self, network: &NetworkName) -> BTreeSet<NodeName> {
        let Some(Pool::Of(pool)) = self.networks.get(network).map(|known| &known.pool) else {
            return BTreeSet::new();
        };
        let waiting: BTreeSet<NodeName> = pool.waiting().cloned().collect();
        for node in &waiting {
            if let Some(entry) = self.nodes.get_mut(node) {
                entry.dirty.insert(network.clone());
            }
        }
        waiting
    }

    /// Puts ids right that old versions annotated: nobody adds one any more.
    fn correct_legacy_ids(&self, annotations: &BTreeMap<String, String>, verdict: &mut NodeVerdict) {
        let Some(text) = annotations.get(node_annotation::NETWORK_IDS) else { return };
        let Ok(read) = node_annotation::read_network_ids(text) else { return };
        let mut ids = read.value;
        ids.retain(|network, id| {
            let network = NetworkName::from(network.as_str());
            if network.is_default() {
                return true;
            }
            let right = self.network_ids.get(&network);
            *id = right.map_or(*id, |right| u32::from(right.get()));
            right.is_some()
        });
        let wanted = node_annotation::render_numbers(&ids);
        if wanted.as_ref() != Some(text) {
            verdict.changes.insert(node_annotation::NETWORK_IDS, wanted);
        }
    }

    /// The node's own id, and the address that follows from it.
    fn number_node(
        &mut self,
        name: &NodeName,
        annotations: &BTreeMap<String, String>,
        verdict: &mut NodeVerdict,
    ) {
        let Ok(id) = self.node_ids.allocate(name) else {
            verdict
                .failures
                .push((NetworkName::default_network(), format!("node {name}: all node ids are in use")));
            return;
        };
        let families = Families::of(self.plan.ranges.iter().map(|range| &range.network));
        let has = |family| families.is_some_and(|families| families.has(family));
        let address = |range: IpNet| id.address_in(range).ok();
        let transit = node_annotation::Addresses {
            ipv4: has(Family::V4).then(|| address(IpNet::V4(self.plan.transit.0))).flatten().and_then(v4),
            ipv6: has(Family::V6).then(|| address(IpNet::V6(self.plan.transit.1))).flatten().and_then(v6),
        };
        let wanted = [
            (node_annotation::NODE_ID, id.get().to_string()),
            (node_annotation::TRANSIT_SWITCH_PORT, node_annotation::render_addresses(&transit)),
        ];
        for (key, value) in wanted {
            if annotations.get(key) != Some(&value) {
                verdict.changes.insert(key, Some(value));
            }
        }
    }

    /// Takes over that a node is gone. What is free for others now wakes them.
    pub(in crate::allocation) fn node_left(&mut self, name: &NodeName) -> Stir {
        let changes = self.activity.remove_node(name);
        let mut stir = self.stir(&changes);
        if self.node_ids.release(name).is_some() {
            let without = self.nodes.keys().filter(|node| self.node_ids.get(node).is_none());
            stir.nodes.extend(without.cloned());
        }
        stir.nodes.remove(name);
        if self.nodes.remove(name).is_none() {
            return stir;
        }
        let mut freed = Vec::new();
        for (network, known) in &mut self.networks {
            known.unannounced.remove(name);
            if let Pool::Of(pool) = &mut known.pool {
                pool.set_foreign(name, &[]);
            }
            if known.problems.remove(name).is_some() {
                stir.networks.insert(network.clone());
            }
            let Pool::Of(pool) = &mut known.pool else { continue };
            if !pool.release(name).is_empty() {
                freed.push(network.clone());
            }
        }
        if self.plan.without_subnets.is_some() {
            // What it took away as a node of another network stack is free, too.
            freed.push(NetworkName::default_network());
        }
        for network in freed {
            stir.nodes.extend(self.wake_waiting(&network));
        }
        stir
    }
}

impl NodeEntry {
    pub(super) fn annotated(node: &Node) -> Self {
        let mut entry = Self::default();
        entry.take_over(node.annotations.get(node_annotation::NODE_SUBNETS));
        // The first look at the node compares again what stands there.
        entry.read = false;
        entry
    }

    fn take_over(&mut self, text: Option<&String>) {
        self.read = true;
        self.text = text.cloned();
        self.unreadable = None;
        let Some(text) = text else { return };
        match node_annotation::read_node_subnets(text) {
            // Entries that cannot be read are made anew.
            Ok(read) => self.subnets = read.value.into(),
            Err(error) => self.unreadable = Some(error.to_string()),
        }
    }
}

fn v4(network: IpNet) -> Option<Ipv4Net> {
    match network {
        IpNet::V4(network) => Some(network),
        IpNet::V6(_) => None,
    }
}

fn v6(network: IpNet) -> Option<Ipv6Net> {
    match network {
        IpNet::V6(network) => Some(network),
        IpNet::V4(_) => None,
    }
}
