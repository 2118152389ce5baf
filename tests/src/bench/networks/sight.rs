//! When networks were there: watches that note it.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use causeway_api::annotation::node::NODE_SUBNETS;
use causeway_api::condition;
use causeway_api::cudn::ClusterUserDefinedNetwork;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long anything may take on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(5);

/// Watches of networks and Nodes. They end with it.
pub(super) struct Sight {
    seen: watch::Receiver<Seen>,
    _watches: JoinSet<()>,
}

/// What the watches have shown.
#[derive(Default)]
pub(super) struct Seen {
    /// Since when each network there is says `NetworkCreated=True`, and what it says about it.
    created: HashMap<String, (Instant, String)>,
    /// Every network there is.
    present: HashSet<String>,
    /// The networks that say how they fare, which is the last thing that is told of a new one.
    fare: HashSet<String>,
    /// The networks of each Node.
    nodes: HashMap<String, HashSet<String>>,
    /// On how many Nodes each network is, and since when on the last one.
    spread: HashMap<String, (usize, Option<Instant>)>,
    /// Why a watch ended.
    failure: Option<String>,
}

impl Sight {
    /// Starts watching.
    pub(super) fn open(client: &Client) -> Self {
        let (told, seen) = watch::channel(Seen::default());
        let mut watches = JoinSet::new();
        let networks: Api<ClusterUserDefinedNetwork> = Api::all(client.clone());
        let tell = told.clone();
        watches.spawn(async move {
            let ended = follow(networks, |network, there| {
                tell.send_modify(|seen| seen.network(&network, there));
            });
            if let Err(error) = ended.await {
                tell.send_modify(|seen| seen.failure = Some(format!("{error:#}")));
            }
        });
        let nodes: Api<Node> = Api::all(client.clone());
        watches.spawn(async move {
            let ended = follow(nodes, |node, there| told.send_modify(|seen| seen.node(&node, there)));
            if let Err(error) = ended.await {
                told.send_modify(|seen| seen.failure = Some(format!("{error:#}")));
            }
        });
        Self { seen, _watches: watches }
    }

    /// Waits until what was seen is good for `accept`, and takes something of it.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut accept: impl FnMut(&Seen) -> Option<T>,
    ) -> anyhow::Result<T> {
        let waiting = async {
            loop {
                let found = {
                    let seen = self.seen.borrow_and_update();
                    if let Some(failure) = &seen.failure {
                        bail!("a watch of the bench ended: {failure}");
                    }
                    accept(&seen)
                };
                if let Some(found) = found {
                    return Ok(found);
                }
                self.seen.changed().await.context("the watches of the bench ended")?;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        waited.map_err(|_| anyhow!("waited {PATIENCE:?} for {what}")).flatten()
    }

    /// Waits until all networks are created and on all of so many Nodes; since when that is so.
    pub(super) async fn all_there(&mut self, networks: usize, nodes: usize) -> anyhow::Result<Instant> {
        let what = format!("{networks} networks on {nodes} nodes");
        self.until(&what, |seen| seen.are_there(networks, nodes).then(Instant::now)).await
    }
}

impl Seen {
    /// Since when a network says that it is created.
    pub(super) fn created(&self, network: &str) -> Option<Instant> {
        self.created.get(network).map(|(since, _)| *since)
    }

    /// Whether a network says how it fares.
    pub(super) fn fares(&self, network: &str) -> bool {
        self.fare.contains(network)
    }

    /// What a network that is created says about that.
    pub(super) fn message(&self, network: &str) -> Option<&str> {
        self.created.get(network).map(|(_, message)| message.as_str())
    }

    /// Since when a network is on so many Nodes.
    pub(super) fn on_nodes(&self, network: &str, nodes: usize) -> Option<Instant> {
        let (count, since) = self.spread.get(&name_of(network))?;
        since.filter(|_| *count == nodes)
    }

    /// Whether just so many networks are there, and on so many Nodes, each with the default network.
    pub(super) fn are_there(&self, networks: usize, nodes: usize) -> bool {
        self.present.len() == networks
            && self.created.len() == networks
            && self.nodes.len() == nodes
            && self.nodes.values().all(|on_it| on_it.len() == networks + 1)
    }

    fn network(&mut self, network: &ClusterUserDefinedNetwork, there: bool) {
        let name = network.name_any();
        if !there {
            self.present.remove(&name);
            self.created.remove(&name);
            self.fare.remove(&name);
            return;
        }
        if condition::find(network.conditions(), "NetworkAllocationSucceeded").is_some() {
            self.fare.insert(name.clone());
        }
        let told =
            condition::find(network.conditions(), "NetworkCreated").filter(|told| told.status == "True");
        match told {
            None => drop(self.created.remove(&name)),
            Some(told) => {
                let (_, message) =
                    self.created.entry(name.clone()).or_insert_with(|| (Instant::now(), String::new()));
                message.clone_from(&told.message);
            }
        }
        self.present.insert(name);
    }

    /// Looks at what is new alone: whoever watches must not take the time that is measured.
    #[expect(
        clippy::zero_sized_map_values,
        reason = "a map is what is annotated, and its values do not matter"
    )]
    fn node(&mut self, node: &Node, there: bool) {
        let text = node.annotations().get(NODE_SUBNETS).filter(|_| there);
        let now: HashMap<&str, IgnoredAny> =
            text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mut on_it = self.nodes.remove(&node.name_any()).unwrap_or_default();
        for new in now.keys() {
            if !on_it.contains(*new) {
                on_it.insert((*new).to_owned());
                let (count, since) = self.spread.entry((*new).to_owned()).or_default();
                *count += 1;
                *since = Some(Instant::now());
            }
        }
        if on_it.len() > now.len() {
            on_it.retain(|network| {
                let stays = now.contains_key(network.as_str());
                if let Some((count, since)) = self.spread.get_mut(network).filter(|_| !stays) {
                    *count -= 1;
                    *since = None;
                }
                stays
            });
        }
        if there {
            self.nodes.insert(node.name_any(), on_it);
        }
    }
}

/// Name of the network of a ClusterUserDefinedNetwork. Source: OVN-Kubernetes, go-controller/pkg/util/util.go,
/// `GenerateCUDNNetworkName`.
fn name_of(network: &str) -> String {
    format!("cluster_udn_{network}")
}

/// Hands over every object that there is and every version that comes, with whether it is there.
pub(super) async fn follow<K>(api: Api<K>, mut take: impl FnMut(K, bool)) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.context("listing")?;
    for object in list.items {
        take(object, true);
    }
    let mut version = list.metadata.resource_version.context("a list without a version")?;
    loop {
        let events = api.watch(&WatchParams::default().timeout(290), &version).await.context("watching")?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().unwrap_or(version);
                    take(object, true);
                }
                WatchEvent::Deleted(object) => {
                    version = object.resource_version().unwrap_or(version);
                    take(object, false);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(error) => bail!("the watch failed: {error:?}"),
            }
        }
    }
}
