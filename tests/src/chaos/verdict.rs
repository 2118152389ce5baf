//! What has to be true when the trouble is over. Pure: everything that is there in, everything that is wrong with it out.
//!
//! It rests on what upstream's API promises people, not on how the cluster manager computes it: which namespaces have a
//! NetworkAttachmentDefinition, what it says, that nobody has what another one has, and that nothing is left of what went.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::annotation::network::{NETWORK_ID, NETWORK_NAME, TUNNEL_KEYS};
use causeway_api::annotation::node::{NODE_ID, NODE_SUBNETS, TRANSIT_SWITCH_PORT};
use causeway_api::condition;
use causeway_api::label::{PRIMARY_NETWORK, USER_DEFINED_NETWORK};
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_api::network::{NetworkSpec, Role, Topology};
use causeway_api::network_condition::NETWORK_FINALIZER;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::ResourceExt;
use serde_json::Value;

use super::act::TEAM;
pub use super::world::Inventory;

/// Tunnel keys of switches begin above this. Source: OVN-Kubernetes, go-controller/pkg/types/const.go,
/// `BaseTransitSwitchTunnelKey`.
const FIRST_TUNNEL_KEY: u32 = 16_711_683;

/// A network object and the namespaces that it is for.
struct Network<'i> {
    what: String,
    /// Name of its NetworkAttachmentDefinitions.
    name: String,
    /// Name of the network itself.
    known_as: String,
    meta: &'i ObjectMeta,
    spec: NetworkSpec,
    conditions: &'i [Condition],
    chosen: BTreeSet<String>,
    /// Whether it may choose more than one.
    cluster: bool,
}

impl Network<'_> {
    fn layer3(&self) -> bool {
        self.spec.topology == Topology::Layer3
    }

    fn role(&self) -> Option<&Role> {
        let layer2 = self.spec.layer2.as_ref().map(|layer| &layer.role);
        layer2.or(self.spec.layer3.as_ref().map(|layer| &layer.role))
    }

    fn primary(&self) -> bool {
        self.role() == Some(&Role::Primary)
    }

    fn owns(&self, nad: &NetworkAttachmentDefinition) -> bool {
        let uid = self.meta.uid.as_ref();
        nad.owner_references().iter().any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid)
    }

    /// Its subnets as a config says them.
    fn subnets(&self) -> String {
        let layer3 = self.spec.layer3.iter().flat_map(|layer| &layer.subnets).map(|subnet| {
            let length = subnet.host_subnet.map(|length| format!("/{length}")).unwrap_or_default();
            format!("{}{length}", subnet.cidr)
        });
        let layer2 = self.spec.layer2.iter().flat_map(|layer| &layer.subnets).map(ToString::to_string);
        layer3.chain(layer2).collect::<Vec<_>>().join(",")
    }
}

/// Everything that is not as it has to be, a text each.
#[must_use]
pub fn problems(inventory: &Inventory) -> Vec<String> {
    let mut problems = Vec::new();
    for (kind, meta) in inventory.metadata() {
        if meta.deletion_timestamp.is_some() {
            problems.push(format!("{kind} {} is still on its way out", name_of(meta)));
        }
    }
    let networks = networks(inventory);
    let there = definitions(inventory, &networks, &mut problems);
    numbers(inventory, &networks, &mut problems);
    for network in &networks {
        let own: BTreeSet<String> = there
            .iter()
            .filter(|(_, name)| **name == network.what)
            .map(|((namespace, _), _)| namespace.clone())
            .collect();
        told(network, &own, &mut problems);
    }
    for namespace in &inventory.namespaces {
        one_primary(namespace, &networks, &there, &mut problems);
    }
    nodes(inventory, &networks, &there, &mut problems);
    problems
}

/// What networks say later in other words than before, a text each.
#[must_use]
pub fn told_differently(before: &Inventory, after: &Inventory) -> Vec<String> {
    let said = |inventory: &Inventory| -> BTreeSet<(String, String)> {
        let networks = networks(inventory);
        let all = networks.iter().flat_map(|network| {
            let says = |condition: &Condition| {
                let Condition { type_, status, reason, message, observed_generation, .. } = condition;
                let at = observed_generation.unwrap_or_default();
                let of = network.meta.generation.unwrap_or_default();
                (
                    network.what.clone(),
                    format!("{type_}={status}/{reason} of generation {at} of {of}: {message}"),
                )
            };
            network.conditions.iter().map(says)
        });
        all.collect()
    };
    let (before, after) = (said(before), said(after));
    let line = |word: &'static str| move |(what, text): &(String, String)| format!("{what} {word} {text}");
    before.difference(&after).map(line("said")).chain(after.difference(&before).map(line("says"))).collect()
}

impl Inventory {
    fn metadata(&self) -> impl Iterator<Item = (&'static str, &ObjectMeta)> {
        let namespaces = self.namespaces.iter().map(|object| ("Namespace", &object.metadata));
        let nodes = self.nodes.iter().map(|object| ("Node", &object.metadata));
        let cudns = self.cudns.iter().map(|object| ("ClusterUserDefinedNetwork", &object.metadata));
        let udns = self.udns.iter().map(|object| ("UserDefinedNetwork", &object.metadata));
        let nads = self.nads.iter().map(|object| ("NetworkAttachmentDefinition", &object.metadata));
        namespaces.chain(nodes).chain(cudns).chain(udns).chain(nads)
    }
}

fn name_of(meta: &ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    meta.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn networks(inventory: &Inventory) -> Vec<Network<'_>> {
    let cudns = inventory.cudns.iter().map(|cudn| {
        let wanted = cudn.spec.namespace_selector.match_labels.as_ref().and_then(|labels| labels.get(TEAM));
        let chosen = inventory.namespaces.iter().filter(|namespace| namespace.labels().get(TEAM) == wanted);
        Network {
            what: format!("ClusterUserDefinedNetwork {}", cudn.name_any()),
            name: cudn.name_any(),
            known_as: format!("cluster_udn_{}", cudn.name_any()),
            meta: &cudn.metadata,
            spec: cudn.spec.network.clone(),
            conditions: cudn.conditions(),
            chosen: chosen.map(ResourceExt::name_any).collect(),
            cluster: true,
        }
    });
    let udns = inventory.udns.iter().map(|udn| {
        let namespace = udn.namespace().unwrap_or_default();
        Network {
            what: format!("UserDefinedNetwork {}", name_of(&udn.metadata)),
            name: udn.name_any(),
            known_as: format!("{namespace}_{}", udn.name_any()),
            meta: &udn.metadata,
            spec: udn.spec.network(),
            conditions: udn.status.as_ref().map_or(&[], |status| &status.conditions),
            chosen: [namespace].into(),
            cluster: false,
        }
    });
    cudns.chain(udns).collect()
}

/// Which network each NetworkAttachmentDefinition is of, by namespace and name.
type There = BTreeMap<(String, String), String>;

/// Each NetworkAttachmentDefinition is that of a network that is for its namespace, and says what the network says.
fn definitions(inventory: &Inventory, networks: &[Network<'_>], problems: &mut Vec<String>) -> There {
    let mut there = There::new();
    for nad in &inventory.nads {
        let (key, namespace) = (name_of(&nad.metadata), nad.namespace().unwrap_or_default());
        let Some(network) = networks.iter().find(|network| network.owns(nad)) else {
            problems.push(format!("{key} is left of a network that is gone"));
            continue;
        };
        if network.name != nad.name_any() || !network.chosen.contains(&namespace) {
            problems.push(format!("{key} is where {} is not for", network.what));
        }
        there.insert((namespace, nad.name_any()), network.what.clone());
        let role = if network.primary() { "primary" } else { "secondary" };
        let topology = if network.layer3() { "layer3" } else { "layer2" };
        let wanted = [
            ("name", network.known_as.as_str()),
            ("netAttachDefName", key.as_str()),
            ("role", role),
            ("topology", topology),
            ("subnets", &network.subnets()),
            ("type", "ovn-k8s-cni-overlay"),
        ];
        let config: Value = serde_json::from_str(&nad.spec.config).unwrap_or_default();
        for (field, wanted) in wanted {
            let found = config.get(field).and_then(Value::as_str);
            if found != Some(wanted) {
                problems.push(format!("{field} of {key} is {found:?} instead of {wanted:?}"));
            }
        }
        if nad.annotations().get(NETWORK_NAME) != Some(&network.known_as) {
            problems.push(format!("{key} is not annotated with its network"));
        }
        if !nad.labels().contains_key(USER_DEFINED_NETWORK) {
            problems.push(format!("{key} has lost its label"));
        }
        if !nad.finalizers().iter().any(|finalizer| finalizer == NETWORK_FINALIZER) {
            problems.push(format!("{key} is not protected"));
        }
    }
    there
}

/// No two networks have one id or tunnel key, and a network has one.
fn numbers(inventory: &Inventory, networks: &[Network<'_>], problems: &mut Vec<String>) {
    let mut ids: BTreeMap<u32, &str> = BTreeMap::new();
    let mut keys: BTreeMap<u32, &str> = BTreeMap::new();
    for network in networks {
        let own = || inventory.nads.iter().filter(|nad| network.owns(nad));
        let annotated: BTreeSet<[Option<&String>; 2]> =
            own().map(|nad| [NETWORK_ID, TUNNEL_KEYS].map(|key| nad.annotations().get(key))).collect();
        let mut annotated = annotated.into_iter();
        let Some([id, pair]) = annotated.next() else { continue };
        if annotated.next().is_some() {
            problems.push(format!("{} has more than one set of numbers", network.what));
        }
        let Some(id) = id.and_then(|id| id.parse::<u32>().ok()).filter(|id| *id > 0) else {
            problems.push(format!("{} has no id: {id:?}", network.what));
            continue;
        };
        if let Some(other) = ids.insert(id, &network.what) {
            problems.push(format!("{} and {other} have one id, {id}", network.what));
        }
        let found: Option<Vec<u32>> = pair.and_then(|pair| serde_json::from_str(pair).ok());
        let wanted = if network.primary() && !network.layer3() { 2 } else { 0 };
        let Some(found) = found.filter(|found| found.len() == wanted) else {
            problems.push(format!("{} has tunnel keys {pair:?}", network.what));
            continue;
        };
        if found.first().is_some_and(|first| *first != FIRST_TUNNEL_KEY + id) {
            problems.push(format!("{} with id {id} has tunnel keys {found:?}", network.what));
        }
        for key in found {
            if let Some(other) = keys.insert(key, &network.what) {
                problems.push(format!("{} and {other} have one tunnel key, {key}", network.what));
            }
        }
    }
}

/// A network that has all its NetworkAttachmentDefinitions says so, and one that has not says that.
fn told(network: &Network<'_>, own: &BTreeSet<String>, problems: &mut Vec<String>) {
    let what = &network.what;
    if !network.meta.finalizers.iter().flatten().any(|finalizer| finalizer == NETWORK_FINALIZER) {
        problems.push(format!("{what} is not protected"));
    }
    let complete = *own == network.chosen;
    if !network.primary() && !complete {
        problems.push(format!("{what} is in {own:?} instead of {:?}", network.chosen));
    }
    let mut check = |type_: &str, wanted: bool, text: Option<String>| {
        let wanted = if wanted { "True" } else { "False" };
        match condition::find(network.conditions, type_) {
            Some(found) if found.status != wanted => {
                problems.push(format!(
                    "{type_} of {what} is {} ({}) instead of {wanted}",
                    found.status, found.message
                ));
            }
            Some(found) if text.as_ref().is_some_and(|text| *text != found.message) => {
                problems.push(format!("{type_} of {what} says {:?} instead of {text:?}", found.message));
            }
            Some(found) if found.observed_generation != network.meta.generation => {
                problems.push(format!("{type_} of {what} is of generation {:?}", found.observed_generation));
            }
            Some(_) => {}
            None => problems.push(format!("{type_} of {what} is missing")),
        }
    };
    let names: Vec<&str> = own.iter().map(String::as_str).collect();
    let list = format!(
        "NetworkAttachmentDefinition has been created in following namespaces: [{}]",
        names.join(", ")
    );
    check("NetworkCreated", complete, (complete && network.cluster).then_some(list));
    if !own.is_empty() {
        check("NetworkAllocationSucceeded", true, None);
    }
}

/// A namespace that may have a primary network has one of those that want it, and others have none.
fn one_primary(namespace: &Namespace, networks: &[Network<'_>], there: &There, problems: &mut Vec<String>) {
    let name = namespace.name_any();
    let wanting: Vec<&Network<'_>> =
        networks.iter().filter(|network| network.primary() && network.chosen.contains(&name)).collect();
    let is_there =
        |network: &&&Network<'_>| there.get(&(name.clone(), network.name.clone())) == Some(&network.what);
    let having = wanting.iter().filter(is_there).count();
    let may = namespace.labels().contains_key(PRIMARY_NETWORK);
    let wanted = usize::from(may && !wanting.is_empty());
    if having != wanted {
        let names: Vec<&str> = wanting.iter().map(|network| network.what.as_str()).collect();
        problems.push(format!("namespace {name} has {having} primary networks of {names:?}"));
    }
}

/// Each Node has its own id, address and subnets, of the networks that there are and of no other.
fn nodes(inventory: &Inventory, networks: &[Network<'_>], there: &There, problems: &mut Vec<String>) {
    let present: BTreeSet<&String> = there.values().collect();
    let layer3 = networks.iter().filter(|network| network.layer3() && present.contains(&network.what));
    let ranges: BTreeMap<&str, &Network<'_>> =
        layer3.map(|network| (network.known_as.as_str(), network)).collect();
    let mut taken: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut take = |what: &str, value: String, node: &Node, problems: &mut Vec<String>| {
        if let Some(other) = taken.insert((what.to_owned(), value.clone()), node.name_any()) {
            problems.push(format!("{} and {other} have one {what}, {value}", node.name_any()));
        }
    };
    for node in &inventory.nodes {
        let name = node.name_any();
        for (what, key) in [("id", NODE_ID), ("transit address", TRANSIT_SWITCH_PORT)] {
            match node.annotations().get(key) {
                Some(value) => take(what, value.clone(), node, problems),
                None => problems.push(format!("{name} has no {what}")),
            }
        }
        let text = node.annotations().get(NODE_SUBNETS).map(String::as_str).unwrap_or_default();
        let subnets: BTreeMap<String, Vec<String>> = serde_json::from_str(text).unwrap_or_default();
        for wanted in ranges.keys().chain([&"default"]) {
            if !subnets.contains_key(*wanted) {
                problems.push(format!("{name} has no subnet of {wanted}"));
            }
        }
        for (network, subnets) in subnets {
            if network != "default" && !ranges.contains_key(network.as_str()) {
                problems.push(format!("{name} has {subnets:?} of {network}, which is gone"));
            }
            for subnet in subnets {
                // Every range here is a /16 that hands out /24.
                let belongs = ranges.get(network.as_str()).is_none_or(|network| {
                    let mut parts = subnet.split('.');
                    let range = format!(
                        "{}.{}.0.0/16",
                        parts.next().unwrap_or_default(),
                        parts.next().unwrap_or_default()
                    );
                    subnet.ends_with(".0/24") && network.subnets().contains(&range)
                });
                if !belongs {
                    problems.push(format!("{name} has {subnet} of {network}, which does not have it"));
                }
                take(&format!("subnet of {network}"), subnet, node, problems);
            }
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
