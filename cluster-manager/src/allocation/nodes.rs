//! Nodes: each carries its id and its subnet of every network, in one patch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_api::annotation::node as node_annotation;
use causeway_api::manager::FieldManager;
use causeway_api::network_condition::NetworkEvent;
use causeway_net::network::name::{NetworkName, NodeName};
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Client};
use serde::Serialize;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Book, Wake};
use crate::observed::cr::CrKey;
use crate::observed::place::{AnsweredNode, Node};
use crate::observed::{Stores, Unreadable};

/// Annotates Nodes.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    api: Api<AnsweredNode>,
    writer: Writer,
    book: Book,
    stores: Stores,
    wake: Wake,
    recorder: Recorder,
}

/// A look at a Node: when it is over, the Node carries what was known at its beginning, or cannot.
struct Look<'b> {
    book: &'b Book,
    node: &'b NodeName,
    calls: u64,
}

impl<'b> Look<'b> {
    fn new(book: &'b Book, node: &'b NodeName) -> Self {
        Self { book, node, calls: book.turns.calls() }
    }

    /// Another look comes, and will be the one.
    fn put_off(self) {
        std::mem::forget(self);
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let told = self.book.turns.looked_at(self.node, self.calls);
        self.book.wake.statuses(told);
    }
}

/// Why a look at a Node failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NodeError {
    /// It exists, but not in a form that this version understands.
    #[error("Node {node} cannot be read ({error}); what it has is left to it")]
    Unreadable {
        /// Which.
        node: NodeName,
        /// What is wrong with it.
        error: Unreadable,
    },
    /// Its annotations could not be written.
    #[error("cannot annotate Node {node}")]
    Annotate {
        /// Which.
        node: NodeName,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for NodeError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unreadable { .. } => Retry::Never,
            Self::Annotate { source, .. } => source.retry(),
        }
    }
}

impl Room for Nodes {
    const NAME: &'static str = "node";
    type Key = NodeName;
    type Error = NodeError;

    async fn reconcile(&self, name: &NodeName) -> Result<Requeue, NodeError> {
        let look = Look::new(&self.book, name);
        let node =
            self.stores.node(name).map_err(|error| NodeError::Unreadable { node: name.clone(), error })?;
        let Some(node) = node else {
            self.book.pace.forget(name);
            let stir = self.book.lock().node_left(name);
            self.wake.stirred(stir);
            return Ok(Requeue::Gone);
        };
        if let Some(wait) = self.book.waits(name) {
            look.put_off();
            return Ok(Requeue::After(wait));
        }
        let now = Timestamp::now();
        let (stir, verdict, expiry) = {
            let mut ledger = self.book.lock();
            ledger.label(name, &node);
            (ledger.expire(now), ledger.node(name, &node.annotations), ledger.next_expiry())
        };
        self.wake.stirred(stir);
        // Whoever began to keep something for a while was looked at then: one of these looks waits for its end.
        let requeue = expiry.map_or(Requeue::Done, |at| Requeue::After(until(now, at)));
        for (network, error) in &verdict.failures {
            self.tell(name, network, error);
        }
        self.wake.statuses(verdict.told);
        self.wake.nodes(verdict.woken);
        if verdict.changes.is_empty() {
            return Ok(requeue);
        }
        let changes_of_subnets =
            verdict.changes.get(node_annotation::NODE_SUBNETS).map(|text| text.clone().unwrap_or_default());
        let (uid, resource_version) = (&node.uid, &node.version);
        let patch =
            NodePatch { metadata: PatchMeta { uid, resource_version, annotations: &verdict.changes } };
        let begun = Instant::now();
        self.book.pace.annotated(name, begun);
        match self.writer.merge_node_status_briefly(&self.api, name.as_str(), &patch).await {
            Ok(written) => {
                self.measure(&node, changes_of_subnets, begun.elapsed());
                // Nobody else changed it meanwhile: the API server would have refused.
                let annotated = node.annotated(written.version(), verdict.changes);
                self.stores.written_nodes.remember(name, annotated);
                debug!(node = %name, "Node annotated");
                Ok(requeue)
            }
            Err(WriteError::NotFound(_)) => Ok(Requeue::Done),
            Err(source) => Err(NodeError::Annotate { node: name.clone(), source }),
        }
    }
}

/// A change of annotations of one Node in one version; those that are none are removed.
#[derive(Debug, Serialize)]
struct NodePatch<'p> {
    metadata: PatchMeta<'p>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchMeta<'p> {
    uid: &'p str,
    resource_version: &'p Option<String>,
    annotations: &'p BTreeMap<&'static str, Option<String>>,
}

/// How long it is until then; never less than nothing.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

impl Nodes {
    pub(super) fn new(
        client: &Client,
        hand: impl Fn(&'static str) -> Writer,
        book: &Book,
        stores: &Stores,
        wake: &Wake,
        recorder: &Recorder,
    ) -> Self {
        Self {
            api: Api::all(client.clone()),
            writer: hand(FieldManager::NetworkCluster.as_str()),
            book: book.clone(),
            stores: stores.clone(),
            wake: wake.clone(),
            recorder: recorder.clone(),
        }
    }

    /// Counts an annotation for the networks whose subnets it changed; `text` is what it says of them now, empty for nothing.
    fn measure(&self, before: &Node, text: Option<String>, took: Duration) {
        let scale = self.book.scale();
        let Some(text) = text.filter(|_| scale.is_on()) else { return };
        let read = |text: Option<&String>| {
            let read = text.and_then(|text| node_annotation::read_node_subnets(text).ok());
            read.map(|read| read.value).unwrap_or_default()
        };
        let (old, new) = (read(before.annotations.get(node_annotation::NODE_SUBNETS)), read(Some(&text)));
        let networks: BTreeSet<NetworkName> = old
            .keys()
            .chain(new.keys())
            .filter(|network| old.get(*network) != new.get(*network))
            .map(|network| NetworkName::from(network.as_str()))
            .collect();
        let ledger = self.book.lock();
        let there: Vec<NetworkName> =
            networks.into_iter().filter(|network| !network.is_default() && ledger.knows(network)).collect();
        drop(ledger);
        scale.node_annotated(&there, took);
    }

    /// Tells the owner of a network that a node did not get what it needs.
    fn tell(&self, node: &NodeName, network: &NetworkName, error: &str) {
        warn!(node = %node, network = %network, error, "Node lacks a subnet");
        let Some(key) = CrKey::of_network(network) else { return };
        let Ok(Some(cr)) = self.stores.cr(&key) else { return };
        self.recorder.record(Happening {
            regarding: key.reference(&cr.uid),
            related: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.as_str().to_owned()),
                ..ObjectReference::default()
            }),
            severity: Severity::Warning,
            reason: NetworkEvent::NetworkAllocationFailed.as_str().to_owned(),
            action: "AllocateNodeSubnet",
            note: format!("Error occurred for node {node}: {error}"),
        });
    }
}
