//! A control plane with Nodes, Namespaces and the cluster manager, and networks to make on it.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::label::PRIMARY_NETWORK;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::super::audit::{Audit, Request, Write};
use super::super::crowd::{Crowd, all, create};
use super::super::process::cpu;
use super::sight::{PATIENCE, Sight};
use crate::access::Account;
use causeway_rig::{Mark, RigOptions};

/// Label that tells the namespaces of a network.
pub(super) const TENANT: &str = "tenant";
/// After so long without a write nothing more comes of what was before.
const QUIET: Duration = Duration::from_secs(1);

/// After so long without a write the writes of one network are there.
const SETTLED: Duration = Duration::from_millis(50);

/// How long a network takes until it is created, and until it is on all Nodes.
pub(super) type Round = (Duration, Duration);

/// The control plane, and what the bench sees of it.
pub(super) struct Field {
    pub(super) crowd: Crowd,
    pub(super) client: Client,
    pub(super) sight: Sight,
    nodes: usize,
}

impl Field {
    /// Starts it with so many Nodes that have their subnets of the default network.
    pub(super) async fn open(ground: (Audit, RigOptions), nodes: usize) -> anyhow::Result<Self> {
        let crowd = Crowd::gather_on(ground, nodes, 0).await?;
        let client = crowd.rig.client();
        let mut sight = Sight::open(&client);
        sight.all_there(0, nodes).await?;
        Ok(Self { crowd, client, sight, nodes })
    }

    /// Makes networks, as many at a time as the API server takes, and waits until all of so many are everywhere. How long
    /// that took.
    pub(super) async fn grow(&mut self, names: &[String], present: usize) -> anyhow::Result<Duration> {
        let start = Instant::now();
        all(names.iter().map(|name| make_network(&self.client, name))).await?;
        let end = self.sight.all_there(present, self.nodes).await?;
        Ok(end.duration_since(start))
    }

    /// Deletes networks, as many at a time as the API server takes, and waits until only so many are left. How long that
    /// took.
    pub(super) async fn shrink(&mut self, names: &[String], present: usize) -> anyhow::Result<Duration> {
        let start = Instant::now();
        all(names.iter().map(|name| delete_network(&self.client, name))).await?;
        let end = self.sight.all_there(present, self.nodes).await?;
        Ok(end.duration_since(start))
    }

    /// Makes one network: how long until it is created, and until it is on all Nodes.
    pub(super) async fn one(&mut self, name: &str) -> anyhow::Result<Round> {
        make_one(&self.client, &mut self.sight, name, self.nodes).await
    }

    /// What the cluster manager wrote for a network that was made alone after this.
    pub(super) async fn written_for(&mut self, name: &str, mark: Mark) -> anyhow::Result<Vec<Write>> {
        self.sight.until(name, |seen| seen.fares(name).then_some(())).await?;
        // A watch may be faster than the log.
        let mut writes = self.crowd.audit.writes_since(mark)?;
        loop {
            tokio::time::sleep(SETTLED).await;
            let more = self.crowd.audit.writes_since(mark)?;
            if more.len() == writes.len() {
                return Ok(more);
            }
            writes = more;
        }
    }

    /// Waits until the cluster manager writes nothing more.
    pub(super) async fn quiet(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let mark = self.crowd.audit.mark()?;
            tokio::time::sleep(QUIET).await;
            let Some(write) = self.writes(mark)?.pop() else { return Ok(()) };
            ensure!(begun.elapsed() < PATIENCE, "the cluster manager does not come to rest: {write:?}");
        }
    }

    /// Writes of the cluster manager.
    pub(super) fn writes(&self, mark: Mark) -> anyhow::Result<Vec<Request>> {
        let mut requests = self.crowd.audit.since(mark)?;
        requests
            .retain(|request| request.is_write() && request.user.contains(Account::ClusterManager.name()));
        Ok(requests)
    }

    /// CPU time of the cluster manager so far.
    pub(super) fn spent(&self) -> anyhow::Result<Duration> {
        cpu(&self.crowd.manager)
    }
}

/// Makes one network: how long until it is created, and until it is on so many Nodes.
pub(super) async fn make_one(
    client: &Client,
    sight: &mut Sight,
    name: &str,
    nodes: usize,
) -> anyhow::Result<Round> {
    let start = Instant::now();
    make_network(client, name).await?;
    let there = sight.until(name, |seen| seen.created(name).zip(seen.on_nodes(name, nodes))).await;
    let (created, subnets) = there?;
    Ok((created.duration_since(start), subnets.duration_since(start)))
}

/// Names of networks, and of their namespaces.
pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number:04}")).collect()
}

/// A count as a figure.
pub(super) fn figure(count: usize) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(count).context("a count")?))
}

/// What writes were for, for whoever has to find out why there are so many.
pub(super) fn told(writes: &[Request]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for write in writes {
        *counts.entry(format!("{} {}", write.verb, write.resource)).or_insert(0_usize) += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} {what}")).collect();
    counts.join(", ")
}

/// Makes a namespace for each name, in which primary networks may be.
pub(super) async fn make_namespaces(client: &Client, names: &[String]) -> anyhow::Result<()> {
    let labelled =
        |name: &String| make_namespace(client, name.clone(), json!({PRIMARY_NETWORK: "", TENANT: name}));
    all(names.iter().map(labelled)).await
}

/// Makes a namespace.
pub(super) async fn make_namespace(client: &Client, name: String, labels: Value) -> anyhow::Result<()> {
    create::<Namespace>(client, json!({"metadata": {"name": name, "labels": labels}})).await
}

/// A Layer3 network of the namespaces of a tenant of its name.
pub(super) fn network(name: &str) -> Value {
    let layer3 = json!({"role": "Primary", "subnets": [{"cidr": "10.20.0.0/16", "hostSubnet": 24}]});
    json!({
        "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {TENANT: name}},
            "network": {"topology": "Layer3", "layer3": layer3},
        },
    })
}

/// Makes a network.
pub(super) async fn make_network(client: &Client, name: &str) -> anyhow::Result<()> {
    create::<ClusterUserDefinedNetwork>(client, network(name)).await
}

async fn delete_network(client: &Client, name: &str) -> anyhow::Result<()> {
    let networks: Api<ClusterUserDefinedNetwork> = Api::all(client.clone());
    networks.delete(name, &DeleteParams::default()).await.with_context(|| format!("deleting {name}"))?;
    Ok(())
}
