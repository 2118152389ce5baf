//! VTEPs: our finalizer, as long as networks rest on one, and the condition `Accepted`, without which they may not.
//!
//! In: VTEPs, Nodes with the addresses that they found, ClusterUserDefinedNetworks with EVPN. Out: the finalizer, the condition
//! (server-side apply as `clustermanager-vtep-controller`), and an Event when what is wrong changes. The key is the VTEP.
//!
//! Never does: give nodes addresses (managed mode).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::condition::{ConditionStatus, Wanted, find, is_true};
use causeway_api::manager::FieldManager;
use causeway_api::network::Transport;
use causeway_api::vtep::{NODE_VTEPS, VTEP, VTEP_FINALIZER, VtepCondition, VtepMode};
use causeway_net::vtep::{self, NodeAddresses};
use causeway_runtime::engine::{KeyQueue, Requeue, Retry, Retryable, Room};
use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::watch::{Change, Lookup, Store};
use causeway_runtime::writer::{WriteError, Writer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};
use serde_json::json;
use tracing::info;

use crate::observed::Stores;
use crate::observed::cr::Cr;
use crate::observed::place::Node;
use crate::written::{Versioned, Written};

const API_VERSION: &str = "k8s.ovn.org/v1";
const KIND: &str = "VTEP";

/// Name of a VTEP.
pub(super) type VtepName = Arc<str>;

/// A VTEP, cut down to what matters here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Vtep {
    uid: String,
    version: Option<String>,
    generation: Option<i64>,
    terminating: bool,
    finalizers: Vec<String>,
    cidrs: Vec<String>,
    mode: Option<VtepMode>,
    conditions: Vec<Condition>,
}

impl Vtep {
    /// From the API object; none for one without uid, which the API server never sends.
    pub(super) fn of(object: VTEP) -> Option<Self> {
        let conditions = object.conditions().to_vec();
        let meta = object.metadata;
        Some(Self {
            uid: meta.uid?,
            version: meta.resource_version,
            generation: meta.generation,
            terminating: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.unwrap_or_default(),
            cidrs: object.spec.cidrs,
            mode: object.spec.mode,
            conditions,
        })
    }

    /// Whether networks may rest on it.
    pub(super) fn is_accepted(&self) -> bool {
        is_true(&self.conditions, VtepCondition::Accepted.as_str())
    }

    fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == VTEP_FINALIZER)
    }

    fn seen<'v>(&'v self, name: &'v str) -> vtep::Vtep<'v> {
        vtep::Vtep { name, cidrs: &self.cidrs, mode: self.mode.as_ref() }
    }

    /// What decides about others.
    fn claim(&self) -> (&[String], bool) {
        (&self.cidrs, self.terminating && self.finalizers.is_empty())
    }
}

impl Versioned for Vtep {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

/// The room that the engine runs.
#[derive(Clone)]
pub(super) struct Vteps {
    pub(super) api: Api<VTEP>,
    pub(super) writer: Writer,
    pub(super) recorder: Recorder,
    pub(super) all: Store<VtepName, Vtep>,
    pub(super) stores: Stores,
    pub(super) written: Written<VtepName, Vtep>,
    pub(super) queue: KeyQueue<VtepName>,
}

/// Why a VTEP could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write VTEP {name}")]
pub(super) struct VtepError {
    name: VtepName,
    #[source]
    source: WriteError,
}

impl Retryable for VtepError {
    fn retry(&self) -> Retry {
        self.source.retry()
    }
}

impl Room for Vteps {
    const NAME: &'static str = "vtep";
    type Key = VtepName;
    type Error = VtepError;

    async fn reconcile(&self, name: &VtepName) -> Result<Requeue, VtepError> {
        let snapshot = self.all.snapshot();
        let watched = snapshot.lookup(name);
        if matches!(watched, Lookup::Unreadable(_)) {
            return Ok(Requeue::Done);
        }
        let Some(vtep) = self.written.newest(name, &watched) else { return Ok(Requeue::Gone) };
        let users = self.users(name);
        if vtep.terminating {
            if vtep.is_protected() && users.is_empty() {
                self.release(name, &vtep).await?;
            }
            return Ok(Requeue::Done);
        }
        if !vtep.is_protected() {
            let metadata = json!({"name": name.as_ref(), "uid": vtep.uid, "finalizers": [VTEP_FINALIZER]});
            let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata});
            self.remember(name, self.writer.apply(&self.api, name, &body).await)?;
        }
        let wanted = self.wanted(name, &vtep, &users);
        if wanted.is_met_by(&vtep.conditions) {
            return Ok(Requeue::Done);
        }
        let status = json!({"conditions": [wanted.against(&vtep.conditions, Timestamp::now())]});
        let body = json!({
            "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name.as_ref()}, "status": status,
        });
        self.remember(name, self.writer.apply_status(&self.api, name, &body).await)?;
        info!(vtep = %name, reason = wanted.reason, detail = wanted.message, "VTEP judged");
        self.tell(name, &vtep, &wanted);
        Ok(Requeue::Done)
    }
}

impl Vteps {
    pub(super) fn new(
        client: &Client,
        writer: impl FnOnce(&'static str) -> Writer,
        recorder: Recorder,
        all: Store<VtepName, Vtep>,
        stores: Stores,
    ) -> Self {
        Self {
            api: Api::all(client.clone()),
            writer: writer(FieldManager::Vtep.as_str()),
            recorder,
            all,
            stores,
            written: Written::default(),
            queue: KeyQueue::default(),
        }
    }

    /// Everything is looked at once at the beginning of a term.
    pub(super) fn begin(&self) {
        self.written.forget_all();
        self.look_at_all();
    }

    /// Looks at all of them.
    fn look_at_all(&self) {
        self.queue.enqueue_all(self.all.snapshot().iter().map(|(name, _)| name.clone()));
    }

    /// Takes over what the watch shows.
    pub(super) fn seen(&self, change: &Change<'_, VtepName, Vtep>) {
        self.written.seen(change.key, change.new.as_ref());
    }

    /// A VTEP has changed: those that it overlaps, or did, are concerned too.
    pub(super) fn changed(&self, change: &Change<'_, VtepName, Vtep>) {
        let claim = |vtep: &Option<Arc<Vtep>>| vtep.as_ref().map(|vtep| vtep.claim().0.to_vec());
        let gone = |vtep: &Option<Arc<Vtep>>| vtep.as_ref().is_none_or(|vtep| vtep.claim().1);
        if claim(&change.old) != claim(&change.new) || gone(&change.old) != gone(&change.new) {
            self.look_at_all();
        }
        self.queue.enqueue(change.key.clone());
    }

    /// A Node has changed.
    pub(super) fn node_changed(&self, old: Option<&Node>, new: Option<&Node>) {
        let addresses = |node: Option<&Node>| node.map(|node| node.annotations.get(NODE_VTEPS).cloned());
        if addresses(old) != addresses(new) {
            self.look_at_all();
        }
    }

    /// A ClusterUserDefinedNetwork has changed.
    pub(super) fn network_changed(&self, old: Option<&Cr>, new: Option<&Cr>) {
        let (before, after) = (old.and_then(named), new.and_then(named));
        if before != after {
            self.queue.enqueue_all(before.into_iter().chain(after).map(VtepName::from));
        }
    }

    /// The networks that rest on a VTEP.
    fn users(&self, name: &str) -> BTreeSet<String> {
        let cudns = self.stores.cudns();
        let resting = cudns.iter().filter(|(_, cr)| named(cr) == Some(name));
        resting.map(|(key, _)| key.name().to_owned()).collect()
    }

    fn wanted(&self, name: &VtepName, vtep: &Vtep, users: &BTreeSet<String>) -> Wanted {
        let (all, nodes) = (self.all.snapshot(), self.stores.nodes());
        let others = all.iter().filter(|(other, vtep)| *other != name && !vtep.claim().1);
        let others = others.map(|(other, vtep)| vtep.seen(other));
        let addresses: BTreeMap<&str, NodeAddresses> = nodes
            .iter()
            .map(|(node, found)| {
                let text = found.annotations.get(NODE_VTEPS).map(String::as_str);
                (node.as_str(), NodeAddresses::read(text))
            })
            .collect();
        let users = users.iter().map(String::as_str).collect();
        let wanted = vtep::accepted(vtep.seen(name), others, &users, &addresses);
        Wanted { observed_generation: vtep.generation, ..wanted }
    }

    /// Lets a VTEP go that nothing rests on.
    async fn release(&self, name: &VtepName, vtep: &Vtep) -> Result<(), VtepError> {
        let rest: Vec<&String> = vtep.finalizers.iter().filter(|one| *one != VTEP_FINALIZER).collect();
        let patch =
            json!({"metadata": {"uid": vtep.uid, "resourceVersion": vtep.version, "finalizers": rest}});
        self.remember(name, self.writer.merge(&self.api, name, &patch).await)
    }

    fn remember(&self, name: &VtepName, answer: Result<VTEP, WriteError>) -> Result<(), VtepError> {
        match answer {
            Ok(object) => {
                if let Some(vtep) = Vtep::of(object) {
                    self.written.remember(name, vtep);
                }
                Ok(())
            }
            // It went meanwhile.
            Err(WriteError::NotFound(_)) => Ok(()),
            Err(source) => Err(VtepError { name: name.clone(), source }),
        }
    }

    /// Tells people what is wrong, once it is another thing than before.
    fn tell(&self, name: &VtepName, vtep: &Vtep, wanted: &Wanted) {
        let before = find(&vtep.conditions, wanted.type_);
        let same = before.is_some_and(|told| told.reason == wanted.reason && told.message == wanted.message);
        if same || wanted.status == ConditionStatus::True {
            return;
        }
        self.recorder.record(Happening {
            regarding: ObjectReference {
                api_version: Some(API_VERSION.to_owned()),
                kind: Some(KIND.to_owned()),
                name: Some(name.to_string()),
                uid: Some(vtep.uid.clone()),
                ..ObjectReference::default()
            },
            related: None,
            severity: Severity::Warning,
            reason: wanted.reason.to_owned(),
            action: "AcceptVTEP",
            note: wanted.message.clone(),
        });
    }
}

/// The VTEP that a network rests on.
fn named(cr: &Cr) -> Option<&str> {
    let evpn = cr.network.evpn.as_ref().filter(|_| cr.network.transport == Some(Transport::Evpn))?;
    Some(&evpn.vtep)
}
