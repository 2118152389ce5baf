//! What stands on the API server about Uplinks, kept current by watches.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long the cluster manager may take on a busy machine for what usually takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// An Uplink's condition, without its times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Ready {
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Everything there is, by `Kind/name`; states have no content here, and neither has an Uplink about whose newest spec
/// nothing was said.
pub(crate) type Outcome = BTreeMap<String, Option<Ready>>;

/// Follows all Uplinks and UplinkStates until it is dropped.
pub(crate) struct Seen {
    outcome: watch::Receiver<Outcome>,
    task: JoinHandle<()>,
}

impl Seen {
    pub(crate) fn follow(client: &Client) -> Self {
        let uplinks = watcher(Api::<Uplink>::all(client.clone()), Config::default());
        let states = watcher(Api::<UplinkState>::all(client.clone()), Config::default());
        let uplinks = changes("Uplink", uplinks, |uplink| ready(&uplink));
        let mut events = Box::pin(futures::stream::select(uplinks, changes("UplinkState", states, |_| None)));
        let (sender, outcome) = watch::channel(Outcome::new());
        let task = tokio::spawn(async move {
            while let Some(change) = events.next().await {
                sender.send_modify(|outcome| change.enter(outcome));
            }
        });
        Self { outcome, task }
    }

    /// Waits until exactly `want` is there.
    ///
    /// # Errors
    /// After 20 s, with all that differs.
    pub(crate) async fn becomes(&mut self, want: &Outcome) -> anyhow::Result<()> {
        let wanted = self.outcome.wait_for(|outcome| outcome == want);
        match tokio::time::timeout(DEADLINE, wanted).await.map(|reached| reached.map(drop)) {
            Ok(reached) => reached.context("the watch ended"),
            Err(_) => bail!("{}", difference(want, &self.outcome.borrow())),
        }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The condition of an Uplink, if it is the only one and about its newest spec.
fn ready(uplink: &Uplink) -> Option<Ready> {
    let [condition] = uplink.conditions() else { return None };
    let current = condition.type_ == "Ready" && condition.observed_generation == uplink.metadata.generation;
    current.then(|| Ready {
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    })
}

/// One step of an outcome.
enum Change {
    Restart(&'static str),
    Set(String, Option<Ready>),
    Gone(String),
}

impl Change {
    fn enter(self, outcome: &mut Outcome) {
        match self {
            Self::Restart(kind) => outcome.retain(|object, _| !object.starts_with(&format!("{kind}/"))),
            Self::Set(object, ready) => drop(outcome.insert(object, ready)),
            Self::Gone(object) => drop(outcome.remove(&object)),
        }
    }
}

/// The events of a watch; after an interruption the watcher lists everything again.
fn changes<K: ResourceExt>(
    kind: &'static str,
    events: impl Stream<Item = Result<Event<K>, kube::runtime::watcher::Error>>,
    ready: impl Fn(K) -> Option<Ready>,
) -> impl Stream<Item = Change> {
    let events = events.into_stream().filter_map(|event| std::future::ready(event.ok()));
    events.filter_map(move |event| {
        std::future::ready(match event {
            Event::Init => Some(Change::Restart(kind)),
            Event::InitApply(object) | Event::Apply(object) => {
                Some(Change::Set(format!("{kind}/{}", object.name_any()), ready(object)))
            }
            Event::Delete(object) => Some(Change::Gone(format!("{kind}/{}", object.name_any()))),
            Event::InitDone => None,
        })
    })
}

fn difference(want: &Outcome, have: &Outcome) -> String {
    let mut lines = Vec::new();
    for (object, ready) in want {
        match have.get(object) {
            None => lines.push(format!("{object}: absent, wanted {ready:?}")),
            Some(found) if found != ready => lines.push(format!("{object}: {found:?}, wanted {ready:?}")),
            Some(_) => {}
        }
    }
    let more = have.keys().filter(|object| !want.contains_key(*object));
    lines.extend(more.map(|object| format!("{object}: present, wanted absent")));
    lines.join("\n")
}
