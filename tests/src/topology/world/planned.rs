//! What the planners say of a world.

use std::collections::BTreeSet;

use anyhow::ensure;
use causeway_dpu_agent::topology::cluster::Cluster;
use causeway_dpu_agent::topology::exit::Exit;
use causeway_dpu_agent::topology::network::Network;
use causeway_dpu_agent::topology::networks;
use causeway_dpu_agent::topology::node::ZoneNode;
use causeway_dpu_agent::topology::plan::{Ways, ZoneOptions, plan, service_addresses, zone};
use causeway_dpu_agent::topology::service::DefaultService;
use causeway_dpu_agent::topology::write::{Parts, Zone};
use causeway_net::network::name::NetworkName;
use ovsdb::{Snapshot, Transaction};

use super::{NetworkSpec, World, cluster};

impl World {
    /// What differs between the Northbound database and what the planners say of [`World::nodes`], [`World::networks`] and
    /// [`World::services`].
    ///
    /// # Errors
    /// The inputs of the world itself are not what they should be.
    pub fn differences(&self, have: &Snapshot) -> anyhow::Result<Vec<String>> {
        self.differences_with(have, &[])
    }

    /// As [`World::differences`], where these networks, whose rows nobody looks at, may be there too.
    ///
    /// # Errors
    /// As there.
    pub fn differences_with(&self, have: &Snapshot, others: &[&str]) -> anyhow::Result<Vec<String>> {
        let cluster = cluster();
        let (writer, own, nodes) = self.writer(&cluster)?;
        let mut all = vec![Network::default_network(&cluster)];
        for spec in self.networks.values() {
            all.push(spec.network(&cluster)?);
        }
        let mut differences = Vec::new();
        if !writer.change(have)?.is_empty() {
            differences.push("rows of the zone".to_owned());
        }
        let services = self.known_services();
        if !Zone::services_change(&service_addresses(&cluster, &services), true, have)?.is_empty() {
            differences.push("addresses of services".to_owned());
        }
        for network in &all {
            let exit = Exit::of_node(network, &own);
            let plan = plan(&cluster, network, &own, Ways { exit: &exit, services: &services }, &nodes);
            ensure!(plan.problems.is_empty(), "{}: {:?}", network.name, plan.problems);
            match writer.network_change(&network.name, &plan, &Parts::all(), have) {
                Ok(change) if change.is_empty() => {}
                Ok(change) => {
                    let many = change.operations().len();
                    differences.push(format!("{}: {many} operations", network.name));
                }
                Err(error) => differences.push(format!("{}: {error}", network.name)),
            }
        }
        let there: BTreeSet<NetworkName> =
            networks(have).into_iter().filter(|name| !name.is_default()).collect();
        let unwanted = there
            .into_iter()
            .filter(|name| !self.networks.contains_key(name.as_str()) && !others.contains(&name.as_str()));
        differences.extend(unwanted.map(|name| format!("{name} is still there")));
        Ok(differences)
    }

    /// The side that writes, its own node and the others.
    fn writer(&self, cluster: &Cluster) -> anyhow::Result<(Zone, ZoneNode, Vec<ZoneNode>)> {
        let nodes = self.nodes.iter();
        let mut nodes: Vec<ZoneNode> =
            nodes.map(|(n, annotations)| ZoneNode::of(&format!("node{n}"), annotations)).collect();
        ensure!(!nodes.is_empty(), "there is no node");
        let own = nodes.remove(0);
        let rows = zone(cluster, own.name.as_str(), &ZoneOptions::default());
        let writer = Zone { node: own.name.clone(), default_join: cluster.join.clone(), rows };
        Ok((writer, own, nodes))
    }

    fn known_services(&self) -> Vec<DefaultService> {
        self.services.values().cloned().collect()
    }

    /// The change that brings a network to what the planners say of it.
    ///
    /// # Errors
    /// They say nothing of it, or it cannot be compared with what is there.
    pub fn change(&self, spec: &NetworkSpec, have: &Snapshot) -> anyhow::Result<Transaction> {
        let cluster = cluster();
        let (writer, own, nodes) = self.writer(&cluster)?;
        let (network, services) = (spec.network(&cluster)?, self.known_services());
        let exit = Exit::of_node(&network, &own);
        let plan = plan(&cluster, &network, &own, Ways { exit: &exit, services: &services }, &nodes);
        ensure!(plan.problems.is_empty(), "{}: {:?}", network.name, plan.problems);
        Ok(writer.network_change(&network.name, &plan, &Parts::all(), have)?)
    }
}
