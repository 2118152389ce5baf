//! The pass: look, compare with the Node, write the difference, tell what is wrong.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::telemetry::chain;
use causeway_runtime::watch::{Lookup, Store};
use causeway_runtime::writer::{WriteError, Writer};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use tracing::{info, warn};

use super::plan::{Annotations, Change, patch};
use super::view::{NodeView, WatchedNode};
use super::{Facts, OwnNode, Problem, Source};

/// What is being done when something is wrong, for Events.
const ACTION: &str = "PublishNodeFacts";

/// How far it is; for readiness.
pub(super) type Progress = Arc<Mutex<Result<(), String>>>;

/// Tells the facts of one node.
pub(super) struct FactsRoom {
    pub(super) node: String,
    pub(super) nodes: Store<String, NodeView>,
    pub(super) sources: Vec<Box<dyn Source>>,
    pub(super) api: Api<WatchedNode>,
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) progress: Progress,
    pub(super) memory: Mutex<Memory>,
}

/// What is kept from pass to pass; nothing that a restart would miss.
#[derive(Default)]
pub(super) struct Memory {
    /// What the server answered to the last write, until the watch has caught up with it.
    written: Option<NodeView>,
    /// What people were told last: it is not told again while it lasts.
    told: BTreeSet<Problem>,
}

/// Why a pass did not end well.
#[derive(Debug, thiserror::Error)]
pub(super) enum FactsError {
    /// The Node exists, but not in a form that this version understands.
    #[error("Node {node} cannot be read: {cause}")]
    Unreadable {
        /// Which.
        node: String,
        /// What the decoder says.
        cause: String,
    },
    /// Annotations could not be written.
    #[error("cannot annotate Node {node} with {keys}")]
    Write {
        /// Which.
        node: String,
        /// Which annotations.
        keys: String,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for FactsError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unreadable { .. } => Retry::Never,
            Self::Write { source, .. } => source.retry(),
        }
    }
}

impl Room for FactsRoom {
    const NAME: &'static str = "node-facts";
    type Key = OwnNode;
    type Error = FactsError;

    async fn reconcile(&self, _key: &OwnNode) -> Result<Requeue, FactsError> {
        let result = self.pass().await;
        let progress = match &result {
            Ok(waiting) if waiting.is_empty() => Ok(()),
            Ok(waiting) => Err(waiting.iter().map(String::as_str).collect::<Vec<_>>().join("; ")),
            Err(error) => Err(chain(error).to_string()),
        };
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = progress;
        result.map(|_| Requeue::Done)
    }
}

impl FactsRoom {
    /// Returns what is still missing.
    async fn pass(&self) -> Result<BTreeSet<String>, FactsError> {
        let Some(node) = self.newest()? else {
            let missing = format!("there is no Node named {}", self.node);
            return Ok([missing].into());
        };
        let facts = self.look(&node);
        let mut problems = facts.problems.clone();
        let mut outcome = Ok(());
        for annotations in Change::between(&facts, &node).requests() {
            if let Err(error) = self.write(&node, &annotations).await {
                problems.extend(refusal(&error));
                outcome = Err(error);
            }
        }
        let missing = facts.waiting.iter().cloned().chain(problems.iter().map(Problem::to_string)).collect();
        self.tell(&node, problems);
        outcome.map(|()| missing)
    }

    /// The newer of what the watch shows and what was written. A Node of another identity is another one.
    fn newest(&self) -> Result<Option<NodeView>, FactsError> {
        let nodes = self.nodes.snapshot();
        let watched = match nodes.lookup(&self.node) {
            Lookup::Present(node) => Some(node),
            Lookup::Absent => None,
            Lookup::Unreadable(cause) => {
                return Err(FactsError::Unreadable { node: self.node.clone(), cause: cause.to_string() });
            }
        };
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let is_behind = |written: &NodeView| {
            watched.is_some_and(|watched| watched.uid == written.uid && watched.version < written.version)
        };
        memory.written = memory.written.take().filter(is_behind);
        Ok(memory.written.clone().or_else(|| watched.map(|watched| NodeView::clone(watched))))
    }

    fn look(&self, node: &NodeView) -> Facts {
        let mut facts = Facts::default();
        for source in &self.sources {
            facts.add(source.look(node));
        }
        facts
    }

    async fn write(&self, node: &NodeView, annotations: &Annotations) -> Result<(), FactsError> {
        match self.writer.merge_node_status(&self.api, &self.node, &patch(node, annotations)).await {
            Ok(written) => {
                let written = NodeView::of(written);
                self.memory.lock().unwrap_or_else(PoisonError::into_inner).written = written;
                info!(node = self.node, annotations = names(annotations), "Node annotated");
                Ok(())
            }
            // It went meanwhile: there is nobody to tell about.
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(source) => {
                Err(FactsError::Write { node: self.node.clone(), keys: names(annotations), source })
            }
        }
    }

    /// Tells what is wrong and was not wrong at the last look.
    fn tell(&self, node: &NodeView, problems: BTreeSet<Problem>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in problems.difference(&memory.told) {
            warn!(
                node = self.node,
                reason = problem.reason,
                problem = problem.message,
                "Fact cannot be told"
            );
            self.recorder.record(Happening {
                regarding: ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Node".to_owned()),
                    name: Some(node.name.clone()),
                    uid: Some(node.uid.clone()),
                    ..ObjectReference::default()
                },
                related: None,
                severity: Severity::Warning,
                reason: problem.reason.to_owned(),
                action: ACTION,
                note: problem.message.clone(),
            });
        }
        memory.told = problems;
    }
}

/// What the server refused for good is for people: they may have taken away a right, or the node may have been made anew.
fn refusal(error: &FactsError) -> Option<Problem> {
    match error {
        FactsError::Write { source: WriteError::Forbidden(_) | WriteError::Invalid(_), .. } => {
            Some(Problem { reason: "NodeAnnotationRefused", message: chain(error).to_string() })
        }
        FactsError::Write { .. } | FactsError::Unreadable { .. } => None,
    }
}

/// The annotations' keys without the group.
fn names(annotations: &Annotations) -> String {
    let names = annotations.keys().map(|key| key.rsplit_once('/').map_or(*key, |(_, name)| name));
    names.collect::<Vec<_>>().join(", ")
}
