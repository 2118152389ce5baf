//! One pass over one Uplink on this node: observe, decide, publish.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_api::condition;
use causeway_api::uplink_state::{UplinkState, UplinkStateStatus};
use causeway_net::facts::{NodeFacts, UplinkFacts};
use causeway_net::lifecycle::{self, ForeignState, Next, World};
use causeway_net::publish::{self, Failure, Findings, Target};
use causeway_net::state_name::StateName;
use causeway_net::takeover;
use causeway_runtime::engine::{Requeue, Retry, Retryable, Room};
use causeway_runtime::events::Recorder;
use causeway_runtime::watch::{Lookup, Snapshot};
use causeway_runtime::writer::{Expected, WriteError, WriteMetrics, Writer};
use jiff::Timestamp;
use kube::Api;
use prometheus_client::metrics::histogram::Histogram;
use std::time::Duration;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::half::{Ask, Half, NotObserved, RelyOn};
use crate::introspect::ledger::Ledger;
use crate::look::Looker;
use crate::stores::Stores;
use crate::witness;

/// How long to leave alone a name that belongs to another pair. The object is not watched (it names another node), so
/// nobody tells when it goes.
const FOREIGN_PAUSE: Duration = Duration::from_mins(1);

/// When to look again for a state that was made. Usually the watch has shown it long before; where it was deleted before
/// the watch ever showed it, nobody tells.
const CONFIRM: Duration = Duration::from_secs(10);

/// How long a read of one object may take.
const READ_DEADLINE: Duration = Duration::from_secs(10);

/// The room of one node's UplinkStates. The key is the Uplink's name.
pub struct StateRoom<H> {
    pub(crate) node: String,
    pub(crate) half: H,
    pub(crate) stores: Stores,
    pub(crate) api: Api<UplinkState>,
    pub(crate) writer: Writer,
    pub(crate) write_metrics: WriteMetrics,
    pub(crate) looker: Looker,
    pub(crate) written: Written,
    pub(crate) ledger: Ledger,
    pub(crate) recorder: Recorder,
    pub(crate) reactions: Histogram,
}

/// Why a pass did not end well.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// An object exists that this version cannot read: nothing may be concluded from it.
    #[error("{kind} {name} cannot be read: {cause}")]
    Unreadable {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What the decoder says.
        cause: String,
    },
    /// The state's name is taken by another pair.
    #[error(transparent)]
    Foreign(#[from] ForeignState),
    /// Something that has to be seen could not be. What was published stays.
    #[error("nothing is changed: {0}")]
    NotObserved(NotObserved),
    /// Whether a state that was made is still there could not be read.
    #[error("failed to read UplinkState {state}")]
    Read {
        /// Name of the state.
        state: StateName,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// Writing failed.
    #[error("failed to {verb} UplinkState {state}")]
    Write {
        /// What was tried.
        verb: &'static str,
        /// Name of the state.
        state: StateName,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for PassError {
    fn retry(&self) -> Retry {
        match self {
            // The next version of the object, or the store that becomes complete, is an event.
            Self::Unreadable { .. } | Self::NotObserved(_) => Retry::Never,
            Self::Foreign(_) => Retry::After(FOREIGN_PAUSE),
            Self::Read { source, .. } | Self::Write { source, .. } => source.retry(),
        }
    }
}

impl<H: Half> Room for StateRoom<H> {
    const NAME: &'static str = "uplink-discovery";
    type Key = String;
    type Error = PassError;

    async fn reconcile(&self, key: &String) -> Result<Requeue, PassError> {
        let name = StateName::of(key, &self.node);
        let (uplinks, nodes, states) =
            (self.stores.uplinks.snapshot(), self.stores.node.snapshot(), self.stores.states.snapshot());
        let watched = readable("UplinkState", &states, name.as_str())?;
        if watched.is_none() && self.written.has(name.as_str()) {
            self.confirm(&name).await?;
        }
        let state = self.written.newest(name.as_str(), watched);
        let world = World {
            role: self.half.role(),
            uplink_name: key,
            node_name: &self.node,
            uplink: readable("Uplink", &uplinks, key)?.map(AsRef::as_ref),
            node: readable("Node", &nodes, &self.node)?.map(AsRef::as_ref),
            state: state.as_deref(),
        };
        match lifecycle::next(&world) {
            Next::Nothing => {
                self.looker.forget(key);
                Ok(Requeue::Gone)
            }
            Next::ForeignState(foreign) => {
                if let Some(uplink) = world.uplink {
                    self.recorder.record(witness::foreign(uplink, &self.node, &foreign));
                }
                Err(foreign.into())
            }
            Next::NodeMissing => {
                warn!(node = self.node, uplink = key, "No Node of this agent's name; waiting for it");
                Ok(Requeue::Done)
            }
            Next::Delete { uid } => {
                self.looker.forget(key);
                self.delete(&name, uid).await?;
                self.ledger.wrote(key, Timestamp::now());
                Ok(Requeue::Gone)
            }
            Next::Discover { uplink, node, config } => {
                let interface = &config.host_interface_name;
                let current = state.as_ref().map(|state| state.status_or_default()).unwrap_or_default();
                let changed = self.looker.begin(key, interface);
                let ask = Ask { node, interface, status: &current };
                let (findings, missed) = match self.half.discover(&ask) {
                    Ok(found) => {
                        self.ledger.answered(key, interface, &found, Timestamp::now());
                        self.looker.set(key, found.relied_on);
                        (found.findings, None)
                    }
                    Err(missed) if self.says_something(&current) => {
                        return Err(PassError::NotObserved(missed));
                    }
                    Err(missed) => {
                        let failure = Failure::new(missed.reason, missed.message.clone());
                        (Findings::failed(failure), Some(missed))
                    }
                };
                let half = publish::Half::new(self.half.role(), Some(interface), &current, findings);
                if let Some(changed) = changed {
                    self.reactions.observe(changed.elapsed().as_secs_f64());
                }
                self.publish(&name, uplink, state.as_deref(), &half).await?;
                if let Some(state) = &state {
                    self.take_over(&name, node, state).await?;
                }
                match missed {
                    Some(missed) => Err(PassError::NotObserved(missed)),
                    None => Ok(after_publishing(state.as_deref())),
                }
            }
            Next::Refuse { uplink, failure } => {
                self.looker.set(key, RelyOn { complete: true, ..RelyOn::default() });
                let current = state.as_ref().map(|state| state.status_or_default()).unwrap_or_default();
                let half = publish::Half::new(self.half.role(), None, &current, Findings::failed(failure));
                self.publish(&name, uplink, state.as_deref(), &half).await?;
                Ok(after_publishing(state.as_deref()))
            }
        }
    }
}

/// `before` is the state as it was before.
fn after_publishing(before: Option<&UplinkState>) -> Requeue {
    if before.is_none() { Requeue::After(CONFIRM) } else { Requeue::Done }
}

fn readable<'s, T>(
    kind: &'static str,
    snapshot: &'s Snapshot<String, T>,
    name: &str,
) -> Result<Option<&'s Arc<T>>, PassError> {
    match snapshot.lookup(name) {
        Lookup::Present(object) => Ok(Some(object)),
        Lookup::Absent => Ok(None),
        Lookup::Unreadable(cause) => {
            Err(PassError::Unreadable { kind, name: name.to_owned(), cause: cause.to_owned() })
        }
    }
}

impl<H: Half> StateRoom<H> {
    /// Whether this side has said anything about the state, so that silence is not the better message.
    fn says_something(&self, current: &UplinkStateStatus) -> bool {
        condition::find(&current.conditions, self.half.role().discovery_condition().as_str()).is_some()
    }

    /// Asks the API server for a state that was written and that the watch does not show: it has not caught up yet, or it
    /// has, and the state is gone. The answer to a write may come after the news that its object was deleted, and of an
    /// object that came and went while the watch was away there is no news at all.
    async fn confirm(&self, name: &StateName) -> Result<(), PassError> {
        let read = timeout(READ_DEADLINE, self.api.get_opt(name.as_str())).await;
        let found =
            read.map_or(Err(WriteError::Deadline(READ_DEADLINE)), |read| read.map_err(WriteError::from));
        match found {
            Ok(Some(state)) => self.written.remember(name.as_str(), state),
            Ok(None) => self.written.forget(name.as_str()),
            Err(source) => return Err(PassError::Read { state: name.clone(), source }),
        }
        Ok(())
    }

    async fn publish(
        &self,
        name: &StateName,
        uplink: &UplinkFacts,
        state: Option<&UplinkState>,
        half: &publish::Half,
    ) -> Result<(), PassError> {
        let current = state.map(UplinkState::status_or_default).unwrap_or_default();
        if state.is_some_and(|state| is_owned(state, uplink)) && half.is_met_by(&current) {
            debug!(uplink = uplink.name, node = self.node, "State is as it should be");
            return Ok(());
        }
        let state_uid = state.and_then(|state| state.metadata.uid.as_deref());
        let target = Target { uplink: &uplink.name, uplink_uid: &uplink.uid, node: &self.node, state_uid };
        let status = half.status(&current, Timestamp::now());
        let body = publish::apply_body(target, &status);
        match self.writer.apply(&self.api, name.as_str(), &body).await {
            Ok(written) => {
                let condition = half.condition();
                info!(
                    uplink = uplink.name,
                    node = self.node,
                    condition = condition.type_,
                    status = condition.status.as_str(),
                    reason = condition.reason,
                    detail = condition.message,
                    created = state.is_none(),
                    "State published"
                );
                let news = witness::changes(uplink, &self.node, &current.conditions, &status.conditions);
                for happening in news {
                    self.recorder.record(happening);
                }
                self.written.remember(name.as_str(), written);
                self.ledger.wrote(&uplink.name, Timestamp::now());
                Ok(())
            }
            Err(source) => {
                self.written.forget(name.as_str());
                if let Some(foreign) = self.foreign(name, uplink, &source).await {
                    self.recorder.record(witness::foreign(uplink, &self.node, &foreign));
                    return Err(foreign.into());
                }
                Err(PassError::Write { verb: "publish", state: name.clone(), source })
            }
        }
    }

    /// Withdraws what the agents of another role left. After publishing, so that nothing is missing in between: a field
    /// that this role has published too stays.
    async fn take_over(
        &self,
        name: &StateName,
        node: &NodeFacts,
        state: &UplinkState,
    ) -> Result<(), PassError> {
        for manager in takeover::left_behind(self.half.role(), node, state) {
            let body = publish::nothing_of(name, state.metadata.uid.as_deref());
            let writer = Writer::new(manager.as_str(), self.write_metrics.clone());
            match writer.apply(&self.api, name.as_str(), &body).await {
                Ok(written) => {
                    info!(state = %name, node = self.node, manager = manager.as_str(), "Took over from another role");
                    self.written.remember(name.as_str(), written);
                }
                // The other half has not published yet, and its fields are not ours to withdraw: its write is an event.
                Err(WriteError::Forbidden(why)) => {
                    debug!(state = %name, manager = manager.as_str(), why, "Other role's fields stay for now");
                }
                Err(source) => {
                    self.written.forget(name.as_str());
                    return Err(PassError::Write { verb: "take over", state: name.clone(), source });
                }
            }
        }
        Ok(())
    }

    /// A refused write may mean that the name belongs to another pair, whose object this node's watch does not show.
    async fn foreign(
        &self,
        name: &StateName,
        uplink: &UplinkFacts,
        error: &WriteError,
    ) -> Option<ForeignState> {
        if !matches!(error, WriteError::Invalid(_)) {
            return None;
        }
        let found = self.api.get_opt(name.as_str()).await.ok().flatten()?;
        let world = World {
            role: self.half.role(),
            uplink_name: &uplink.name,
            node_name: &self.node,
            uplink: Some(uplink),
            node: None,
            state: Some(&found),
        };
        match lifecycle::next(&world) {
            Next::ForeignState(foreign) => Some(foreign),
            _ => None,
        }
    }

    async fn delete(&self, name: &StateName, uid: String) -> Result<(), PassError> {
        self.written.forget(name.as_str());
        let expected = Expected { uid: Some(uid), ..Expected::default() };
        match self.writer.delete(&self.api, name.as_str(), expected).await {
            Ok(()) => {
                info!(state = %name, node = self.node, "State deleted");
                Ok(())
            }
            Err(source) => Err(PassError::Write { verb: "delete", state: name.clone(), source }),
        }
    }
}

/// Whether the state names this Uplink as its owner.
fn is_owned(state: &UplinkState, uplink: &UplinkFacts) -> bool {
    state.metadata.owner_references.iter().flatten().any(|owner| owner.uid == uplink.uid)
}

/// Objects that this process wrote and that the watch has not shown yet.
///
/// A pass that comes before the watch would plan from the object as it was before the write, and write again, with
/// another transition time.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<HashMap<String, Arc<UplinkState>>>>);

impl Written {
    fn remember(&self, name: &str, state: UplinkState) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::new(state));
    }

    /// Whether something was written that the watch has not caught up with.
    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// The object is gone, or is not what was written.
    pub(crate) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The newer of what the watch shows and what was written.
    fn newest(&self, name: &str, watched: Option<&Arc<UplinkState>>) -> Option<Arc<UplinkState>> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ours) = written.get(name) else { return watched.cloned() };
        match watched {
            Some(watched) if version(watched) >= version(ours) => {
                let watched = Arc::clone(watched);
                written.remove(name);
                Some(watched)
            }
            Some(_) | None => Some(Arc::clone(ours)),
        }
    }
}

/// Resource versions of one kind are numbers that grow (kubernetes.io, API concepts, "Resource versions").
fn version(state: &UplinkState) -> Option<u64> {
    state.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests;
