//! Carries out a plan, step by step, deletions side by side; the first error stops it. Decides nothing.

use std::time::Duration;

use causeway_api::condition;
use causeway_api::manager::FieldManager;
use causeway_api::uplink::{UPLINK_FINALIZER, Uplink as ApiUplink};
use causeway_api::uplink_state::UplinkState;
use causeway_api::{GROUP, V1ALPHA1};
use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::leader::Leadership;
use causeway_runtime::writer::{Expected, WriteMetrics, Writer};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::info;

use super::error::UplinkError;
use super::metrics::Metrics;
use super::ownership::FinalizerOwner;
use super::pace::Pace;
use super::plan::{Deletion, Plan, Step};
use super::watched::{Uplink, UplinkName};
use crate::side_by_side::side_by_side;
use crate::written::Written;

/// Writes Uplinks and deletes states, as the field manager of this room.
#[derive(Clone, Debug)]
pub(super) struct Hand {
    writer: Writer,
    uplinks: Api<ApiUplink>,
    states: Api<UplinkState>,
    recorder: Recorder,
    written: Written<UplinkName, Uplink>,
    pace: Pace,
}

impl Hand {
    /// A hand over this connection, that writes as long as this process leads.
    #[must_use]
    pub(super) fn new(
        client: Client,
        metrics: WriteMetrics,
        leadership: Leadership,
        recorder: Recorder,
    ) -> Self {
        Self {
            writer: Writer::new(FieldManager::ClusterManagerUplink.as_str(), metrics).fenced(leadership),
            uplinks: Api::all(client.clone()),
            states: Api::all(client),
            recorder,
            written: Written::default(),
            pace: Pace::default(),
        }
    }

    /// The same, that leaves what it wrote in `written`.
    #[must_use]
    pub(super) fn remembering(self, written: Written<UplinkName, Uplink>) -> Self {
        Self { written, ..self }
    }

    /// Takes the status out of a plan whose turn has not come, and says how long that takes. `uplink` is the one that was
    /// planned for.
    pub(super) fn paced(
        &self,
        name: &UplinkName,
        uplink: Option<&Uplink>,
        plan: &mut Plan,
    ) -> Option<Duration> {
        let Some(uplink) = uplink else {
            self.pace.forget(name);
            return None;
        };
        let Some(wanted) = plan.status() else {
            self.pace.rests(name);
            return None;
        };
        let seen = condition::find(&uplink.conditions, &wanted.type_);
        let wait = self.pace.wait(name, seen, wanted, Instant::now());
        if wait.is_some() {
            plan.hold_status();
        }
        wait
    }
}

/// Carries out `plan`.
///
/// # Errors
/// The first step that failed. The steps before it are done; those after it are not begun, but for deletions that ran
/// beside it.
///
/// # Cancellation
/// Leaves some of the first steps done; the next pass plans the rest.
pub(super) async fn run(
    name: &UplinkName,
    plan: &Plan,
    hand: &Hand,
    metrics: &Metrics,
) -> Result<(), UplinkError> {
    // States do not depend on each other; everything else keeps its order.
    for steps in plan.steps.chunk_by(|a, b| matches!((a, b), (Step::DeleteState(_), Step::DeleteState(_)))) {
        side_by_side(steps, |step| carry_out(name, step, hand, metrics)).await?;
    }
    Ok(())
}

async fn carry_out(
    name: &UplinkName,
    step: &Step,
    hand: &Hand,
    metrics: &Metrics,
) -> Result<(), UplinkError> {
    match step {
        Step::WriteReady { uid, version, condition, is_first, news } => {
            let body = status_body(name, uid, version.as_deref(), condition);
            let written = hand
                .writer
                .apply_status(&hand.uplinks, name.as_str(), &body)
                .await
                .map_err(|source| UplinkError::Status { uplink: name.clone(), source })?;
            hand.pace.wrote(name, *is_first, Instant::now());
            if let Some(uplink) = Uplink::of(&written) {
                hand.written.remember(name, uplink);
            }
            info!(
                uplink = %name,
                status = condition.status,
                reason = condition.reason,
                detail = condition.message,
                "Uplink condition written"
            );
            if let Some(severity) = *news {
                hand.recorder.record(happening(name, uid, condition, severity));
            }
        }
        Step::DeleteState(Deletion { state, uid, node, because }) => {
            let expected = Expected { uid: Some(uid.clone()), resource_version: None };
            hand.writer
                .delete(&hand.states, state.as_str(), expected)
                .await
                .map_err(|source| UplinkError::Delete { state: state.clone(), source })?;
            metrics.collected(*because);
            info!(uplink = %name, node = %node, state = %state, cause = %because, "UplinkState deleted");
        }
        Step::Protect { uid } => {
            let mut body = identity_body(name, uid);
            if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                metadata.insert("finalizers".to_owned(), json!([UPLINK_FINALIZER]));
            }
            let written = hand.writer.apply(&hand.uplinks, name.as_str(), &body).await;
            let written =
                written.map_err(|source| UplinkError::Finalizer { uplink: name.clone(), source })?;
            if let Some(uplink) = Uplink::of(&written) {
                hand.written.remember(name, uplink);
            }
            info!(uplink = %name, "Uplink protected");
        }
        Step::ReleaseFinalizer { uid, owner } => {
            release(name, uid, owner, hand).await?;
            info!(uplink = %name, "Uplink finalizer released");
        }
    }
    Ok(())
}

/// What people are told about a new reason.
fn happening(name: &UplinkName, uid: &str, condition: &Condition, severity: Severity) -> Happening {
    let regarding = ObjectReference {
        api_version: Some(format!("{GROUP}/{V1ALPHA1}")),
        kind: Some("Uplink".to_owned()),
        name: Some(name.as_str().to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    };
    Happening {
        regarding,
        related: None,
        severity,
        reason: condition.reason.clone(),
        action: "UpdateReady",
        note: condition.message.clone(),
    }
}

async fn release(
    name: &UplinkName,
    uid: &str,
    owner: &FinalizerOwner,
    hand: &Hand,
) -> Result<(), UplinkError> {
    let result = match owner {
        FinalizerOwner::Us => {
            hand.writer.apply(&hand.uplinks, name.as_str(), &identity_body(name, uid)).await
        }
        FinalizerOwner::Others { rest, resource_version } => {
            let patch =
                json!({"metadata": {"uid": uid, "resourceVersion": resource_version, "finalizers": rest}});
            hand.writer.merge(&hand.uplinks, name.as_str(), &patch).await
        }
    };
    result.map(drop).map_err(|source| UplinkError::Finalizer { uplink: name.clone(), source })
}

/// Which object is meant. With the uid, the API server neither writes to another Uplink of the name nor makes one.
fn identity_body(name: &UplinkName, uid: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{V1ALPHA1}"),
        "kind": "Uplink",
        "metadata": {"name": name.as_str(), "uid": uid},
    })
}

/// The status subresource ignores the uid; the version stands for it, and keeps out a write that comes late.
fn status_body(name: &UplinkName, uid: &str, version: Option<&str>, condition: &Condition) -> Value {
    let mut body = identity_body(name, uid);
    if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.extend(version.map(|version| ("resourceVersion".to_owned(), json!(version))));
    }
    if let Some(fields) = body.as_object_mut() {
        fields.insert("status".to_owned(), json!({"conditions": [condition]}));
    }
    body
}
