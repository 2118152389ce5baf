//! From the rows to a drawing. Pure.

use std::collections::{BTreeMap, BTreeSet};

use causeway_net::network::name::NetworkName;
use causeway_net::network::ovn::OvnNames;

use super::model::{Device, End, Kind, Neighbour, Network, Problem, Topology};
use super::rows::{Database, QUIET, Row, TABLES};

mod layers;
mod port;
mod rules;

/// The network of a row; its raw name. Source: ovn-kubernetes `types` (`NetworkExternalID` and the two below).
const NETWORK: &str = "k8s.ovn.org/network";
const TOPOLOGY: &str = "k8s.ovn.org/topology";
const ROLE: &str = "k8s.ovn.org/role";

/// A network that was asked for and is not in the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no network {wanted} in this database; there are: {}", known.join(", "))]
pub struct UnknownNetwork {
    /// What was asked for.
    pub wanted: String,
    /// What there is.
    pub known: Vec<String>,
}

/// Draws the whole zone, or one network of it. The name is the network's own (`cluster_udn_blue`), a
/// ClusterUserDefinedNetwork's (`blue`) or a UserDefinedNetwork's (`namespace/name`).
///
/// # Errors
/// There is no such network.
pub fn draw(database: &Database, wanted: Option<&str>) -> Result<Topology, UnknownNetwork> {
    let zone = database.rows("NB_Global").find_map(|row| row.some_text("name"));
    let mut problems = Vec::new();
    let mut networks = networks(database, zone.as_deref(), &mut problems);
    if let Some(wanted) = wanted {
        let name = chosen(&networks, wanted)?;
        networks.retain(|network| network.name.as_deref() == Some(name.as_str()));
    }
    let drawn: BTreeSet<&str> =
        networks.iter().flat_map(|network| &network.devices).map(|device| device.name.as_str()).collect();
    let problems = problems
        .into_iter()
        .filter(|(device, _)| drawn.contains(device.as_str()))
        .map(|(_, problem)| problem)
        .collect();
    let (schema, notes) = (database.version.clone(), notes(database, zone.is_none()));
    Ok(Topology { zone, schema, networks, problems, notes, wide: false })
}

fn chosen(networks: &[Network], wanted: &str) -> Result<String, UnknownNetwork> {
    let known: Vec<&str> = networks.iter().filter_map(|network| network.name.as_deref()).collect();
    let mut names = vec![wanted.to_owned(), NetworkName::of_cudn(wanted).as_str().to_owned()];
    if let Some((namespace, name)) = wanted.split_once('/') {
        names.push(NetworkName::of_udn(namespace, name).as_str().to_owned());
    }
    names.into_iter().find(|name| known.contains(&name.as_str())).ok_or_else(|| UnknownNetwork {
        wanted: wanted.to_owned(),
        known: known.into_iter().map(str::to_owned).collect(),
    })
}

fn notes(database: &Database, unnamed: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if unnamed {
        notes.push(
            "the zone has no name: the default network's rows are told by its gateway routers alone"
                .to_owned(),
        );
    }
    let told = |missing: &&String| {
        !QUIET.iter().any(|(table, column)| missing.split_once(':') == Some((*table, *column)))
    };
    notes.extend(database.missing.iter().filter(told).map(|missing| {
        format!("this database has no {missing} (schema {}): it is not drawn", database.version)
    }));
    notes
}

/// Problems, by the device that they are at.
type Problems = Vec<(String, Problem)>;

fn networks(database: &Database, zone: Option<&str>, problems: &mut Problems) -> Vec<Network> {
    let nodes = nodes(database, zone);
    let wiring = port::Wiring::of(database);
    // The default network's name sorts as it may; it comes first all the same, and rows of nobody last.
    let mut networks: BTreeMap<(u8, Option<String>), Network> = BTreeMap::new();
    for (table, kind) in [("Logical_Router", Kind::Router), ("Logical_Switch", Kind::Switch)] {
        for row in database.rows(table) {
            let ids = row.pairs("external_ids");
            let name = row.text("name");
            let network = ids.get(NETWORK).cloned().or_else(|| default_network(&name, &nodes));
            let rank = match network.as_deref() {
                Some(NetworkName::DEFAULT) => 0,
                Some(_) => 1,
                None => 2,
            };
            let drawn = networks.entry((rank, network.clone())).or_default();
            drawn.name.clone_from(&network);
            drawn.topology = drawn.topology.take().or_else(|| ids.get(TOPOLOGY).cloned());
            drawn.role = drawn.role.take().or_else(|| ids.get(ROLE).cloned());
            let names = network.map(|network| OvnNames::of(&NetworkName::from(network.as_str())));
            let management: BTreeSet<String> =
                names.iter().flat_map(|names| nodes.iter().map(|node| names.management_port(node))).collect();
            let device = device(database, &wiring, &management, kind, row);
            problems.extend(found(&device, &wiring).into_iter().map(|problem| (name.clone(), problem)));
            drawn.devices.push(device);
        }
    }
    let mut networks: Vec<Network> = networks.into_values().collect();
    for network in &mut networks {
        layers::arrange(&mut network.devices);
    }
    networks
}

/// Names of the nodes whose rows these can be: the zone's, and those with a gateway router of the default network.
fn nodes(database: &Database, zone: Option<&str>) -> BTreeSet<String> {
    let unmarked =
        database.rows("Logical_Router").filter(|row| !row.pairs("external_ids").contains_key(NETWORK));
    let gateways = unmarked.filter_map(|row| row.text("name").strip_prefix("GR_").map(str::to_owned));
    zone.map(str::to_owned).into_iter().chain(gateways).collect()
}

/// The default network, if the name of a row without marks is one that only that network gives.
fn default_network(name: &str, nodes: &BTreeSet<String>) -> Option<String> {
    let default = NetworkName::default_network();
    let names = OvnNames::of(&default);
    let shared = [names.cluster_router(), names.join_switch(), names.transit_switch()];
    let of_node = |node: &String| {
        let external = names.external_switch(node);
        [names.node_switch(node), names.gateway_router(node), format!("exgw-{external}"), external]
            .iter()
            .any(|own| own == name)
    };
    let is = shared.iter().any(|own| own == name) || nodes.iter().any(of_node);
    is.then(|| default.as_str().to_owned())
}

fn device(
    database: &Database,
    wiring: &port::Wiring,
    management: &BTreeSet<String>,
    kind: Kind,
    row: &Row,
) -> Device {
    let name = row.text("name");
    let mut device = Device {
        kind,
        name,
        layer: 0,
        subnets: Vec::new(),
        chassis: None,
        tunnel_key: None,
        ports: Vec::new(),
        pods: 0,
        remote_pods: 0,
        routes: Vec::new(),
        nats: Vec::new(),
        policies: Vec::new(),
        neighbours: Vec::new(),
    };
    match kind {
        Kind::Switch => {
            let config = row.pairs("other_config");
            device.subnets =
                ["subnet", "ipv6_prefix"].iter().filter_map(|key| config.get(*key).cloned()).collect();
            device.tunnel_key = config.get("requested-tnl-key").cloned();
            for row in database.referred(row, "ports", "Logical_Switch_Port") {
                match port::of_switch(wiring, management, row) {
                    port::Seen::Pod => device.pods += 1,
                    port::Seen::RemotePod => device.remote_pods += 1,
                    port::Seen::Shown(port) => device.ports.push(port),
                }
            }
        }
        Kind::Router => {
            let options = row.pairs("options");
            device.chassis = options.get("chassis").cloned();
            device.tunnel_key = options.get("requested-tnl-key").cloned();
            for row in database.referred(row, "ports", "Logical_Router_Port") {
                device.ports.push(port::of_router(database, wiring, row));
            }
            rules::add(database, row, &mut device);
            let neighbours = database.rows("Static_MAC_Binding").filter_map(|row| {
                let port = row.text("logical_port");
                let own = device.ports.iter().any(|own| own.name == port);
                own.then(|| Neighbour { port, address: row.text("ip"), mac: row.text("mac") })
            });
            device.neighbours = neighbours.collect();
            device.neighbours.sort();
        }
    }
    device.ports.sort_by(|one, other| port::rank(one).cmp(&port::rank(other)));
    device
}

/// What is wrong with a device's links.
fn found(device: &Device, wiring: &port::Wiring) -> Vec<Problem> {
    let mut problems = Vec::new();
    for port in &device.ports {
        if let End::Missing { port: missing } = &port.end {
            problems.push(Problem {
                found: format!("port {} of {} leads to {missing}, which is not there", port.name, device.name),
                remedy: "see whether the agent of this node is well (causewayctl agent); it restores its rows",
            });
        }
        let holders = wiring.holders(&port.name);
        if device.kind == Kind::Router && holders.len() > 1 {
            problems.push(Problem {
                found: format!("ports {} lead to the one port {}", holders.join(", "), port.name),
                remedy: "remove the port that no agent has made (ovn-nbctl lsp-del)",
            });
        }
    }
    problems
}

/// Whether `column` of `table` is one that a drawing cannot do without.
#[must_use]
pub fn is_required(table: &str, column: &str) -> bool {
    TABLES.iter().any(|(name, required, _)| *name == table && required.contains(&column))
}

#[cfg(test)]
mod tests;
