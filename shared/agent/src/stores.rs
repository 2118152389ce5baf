//! The three kinds that discovery watches, cut down to one node.

use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_net::facts::{NodeFacts, UplinkFacts};
use causeway_runtime::watch::{self, Guarded, Store, Watch};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource};
use serde::Deserialize;

/// A Node cut down to its metadata: nothing else of it is read, and the rest is most of its size.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Node)]
pub(crate) struct NodeMeta {
    #[serde(default, deserialize_with = "watch::slim_metadata")]
    metadata: ObjectMeta,
}

/// Snapshots of what discovery reads from the API server.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Every Uplink.
    pub uplinks: Store<String, UplinkFacts>,
    /// The states of this node, by object name.
    pub states: Store<String, UplinkState>,
    /// The Node, if it exists.
    pub node: Store<String, NodeFacts>,
}

/// Why discovery cannot work yet.
#[derive(Debug, thiserror::Error)]
pub enum StoresNotReady {
    /// A kind has not been read.
    #[error(transparent)]
    Watch(#[from] watch::NotReady),
    /// There is no such Node.
    #[error("there is no Node named {0}; check the node name that this agent was started with")]
    NoNode(String),
}

impl Stores {
    /// Whether everything is read and the Node exists.
    ///
    /// # Errors
    /// What is missing.
    pub fn readiness(&self, node: &str) -> Result<(), StoresNotReady> {
        self.uplinks.readiness()?;
        self.states.readiness()?;
        self.node.readiness()?;
        if self.node.snapshot().is_empty() {
            return Err(StoresNotReady::NoNode(node.to_owned()));
        }
        Ok(())
    }

    /// Waits until every kind was listed once.
    pub async fn wait_synced(&self) {
        self.uplinks.wait_synced().await;
        self.states.wait_synced().await;
        self.node.wait_synced().await;
    }
}

/// The watches that fill [`Stores`].
pub(crate) struct Watches {
    pub(crate) uplinks: Watch<Uplink, String, UplinkFacts>,
    pub(crate) states: Watch<UplinkState, String, UplinkState>,
    pub(crate) node: Watch<NodeMeta, String, NodeFacts>,
}

impl Watches {
    pub(crate) fn new(client: &Client, node: &str) -> Self {
        let of_node = watch::config().fields(&format!("spec.nodeName={node}"));
        let the_node = watch::config().fields(&format!("metadata.name={node}"));
        let all = |client: &Client| Api::<Guarded<Uplink>>::all(client.clone());
        Self {
            uplinks: Watch::new(all(client), watch::config(), watch::name, |uplink| UplinkFacts::of(&uplink)),
            states: Watch::new(Api::all(client.clone()), of_node, watch::name, |mut state: UplinkState| {
                for entry in state.metadata.managed_fields.iter_mut().flatten() {
                    // Who wrote counts, what and when does not: the rest is most of the object.
                    (entry.fields_v1, entry.time, entry.fields_type) = (None, None, None);
                }
                Some(state)
            }),
            node: Watch::new(Api::all(client.clone()), the_node, watch::name, |node: NodeMeta| {
                let ObjectMeta { name, labels, annotations, .. } = node.metadata;
                Some(NodeFacts::of(&name?, labels.unwrap_or_default(), &annotations.unwrap_or_default()))
            }),
        }
    }

    pub(crate) fn stores(&self) -> Stores {
        Stores { uplinks: self.uplinks.store(), states: self.states.store(), node: self.node.store() }
    }
}
