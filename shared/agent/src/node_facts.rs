//! What a node tells about itself: the annotations of its Node that agents own.
//!
//! In: [`Source`]s, the eyes of this machine, each of which says what some annotations should hold; the Node. Out: one patch
//! with the annotations that differ, and Events on the Node about facts that cannot be told. A fact that cannot be observed
//! changes nothing that was published.
//!
//! Never looks at a kernel or at Open vSwitch itself, and touches no annotation that no source names.
//!
//! [`view`] is the Node as it is read, [`plan`] compares, [`room`] writes. [`start`] puts it together.

pub mod plan;
mod room;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_runtime::engine::{self, EngineMetrics, KeyQueue, Limits};
use causeway_runtime::events::{EventMetrics, Publisher, Reporter};
use causeway_runtime::start::Context;
use causeway_runtime::watch::{self, Watch, WatchMetrics};
use causeway_runtime::writer::{WriteMetrics, Writer};
use kube::{Api, Client};
use prometheus_client::registry::Registry;

use self::room::{FactsRoom, Progress};
use self::view::{NodeView, WatchedNode};

/// Who owns the annotations, as field managers go. Upstream names none: the API server then takes the program's name.
const MANAGER: &str = "causeway-node-facts";

/// Who tells people, as `kubectl describe node` shows it.
const PROGRAM: &str = "causeway-node-facts";

/// Eyes on this machine.
pub trait Source: Send + Sync + 'static {
    /// What is known now. Quick and synchronous: it looks at memory.
    fn look(&self, node: &NodeView) -> Facts;
}

/// What is known of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What annotations should hold; none: that they should not be there. What is not named is left as it is.
    pub annotations: BTreeMap<&'static str, Option<String>>,
    /// Why other annotations cannot be told.
    pub problems: BTreeSet<Problem>,
    /// What is still waited for.
    pub waiting: BTreeSet<String>,
}

/// Why a fact cannot be told, for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// In CamelCase: the reason of the Event.
    pub reason: &'static str,
    /// A sentence that says what was found and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl Facts {
    /// An annotation should hold this.
    pub fn tell(&mut self, key: &'static str, text: impl Into<String>) {
        self.annotations.insert(key, Some(text.into()));
    }

    /// An annotation should not be there.
    pub fn remove(&mut self, key: &'static str) {
        self.annotations.insert(key, None);
    }

    /// Something is wrong.
    pub fn problem(&mut self, reason: &'static str, message: impl fmt::Display) {
        self.problems.insert(Problem { reason, message: message.to_string() });
    }

    /// Something is not known yet.
    pub fn wait(&mut self, what: impl Into<String>) {
        self.waiting.insert(what.into());
    }

    fn add(&mut self, other: Self) {
        self.annotations.extend(other.annotations);
        self.problems.extend(other.problems);
        self.waiting.extend(other.waiting);
    }
}

/// The one key there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct OwnNode;

impl fmt::Display for OwnNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("node")
    }
}

/// How listeners ask for another look. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(KeyQueue<OwnNode>);

impl Waker {
    /// Something that a source looks at has changed.
    pub fn wake(&self) {
        self.0.enqueue(OwnNode);
    }
}

/// Where its numbers go.
struct Metrics {
    engine: EngineMetrics,
    watch: WatchMetrics,
    write: WriteMetrics,
    events: EventMetrics,
}

impl Metrics {
    fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("node_facts");
        Self {
            engine: EngineMetrics::register(registry),
            watch: WatchMetrics::register(registry),
            write: WriteMetrics::register(registry),
            events: EventMetrics::register(registry),
        }
    }
}

/// Starts to tell what `sources` see: tasks run under `context`. Whoever hears of a change wakes the returned waker.
pub fn start(context: &mut Context, client: &Client, sources: Vec<Box<dyn Source>>) -> Waker {
    let metrics = Metrics::register(&mut context.registry);
    let node = context.settings.identity.clone();
    let waker = Waker(KeyQueue::default());
    let the_node = watch::config().fields(&format!("metadata.name={node}"));
    let watch: Watch<WatchedNode, String, NodeView> =
        Watch::new(Api::all(client.clone()), the_node, watch::name, NodeView::of);
    let watch = watch.metered(&metrics.watch).on_change({
        let waker = waker.clone();
        move |_| waker.wake()
    });
    let reporter = Reporter { program: PROGRAM, instance: node.clone() };
    let (recorder, publisher) = Publisher::new(client.clone(), reporter, metrics.events.clone());
    let progress: Progress = Arc::new(Mutex::new(Err("the node's facts were not looked at yet".to_owned())));
    let room = FactsRoom {
        node,
        nodes: watch.store(),
        sources,
        api: Api::all(client.clone()),
        writer: Writer::new(MANAGER, metrics.write.clone()),
        recorder,
        progress: Arc::clone(&progress),
        memory: Mutex::default(),
    };
    let (store, queue) = (watch.store(), waker.0.clone());
    let limits = Limits { parallelism: 1, resync: context.settings.resync, ..Limits::default() };
    let (tasks, stop) = (context.tasks.clone(), context.tasks.stop());
    context.readiness.add("node-facts", {
        let store = store.clone();
        move || {
            store.readiness().map_err(|error| error.to_string())?;
            progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }
    });
    tasks.spawn("node-facts-events", publisher.run(stop.clone()));
    tasks.spawn("node-facts-node", watch.run(stop.clone()));
    let first = waker.clone();
    tasks.spawn("node-facts", async move {
        // That there is no Node means something only when Nodes were listed.
        if stop.run_until_cancelled(store.wait_synced()).await.is_some() {
            first.wake();
            engine::run(room, queue, limits, &metrics.engine, stop).await;
        }
    });
    waker
}
