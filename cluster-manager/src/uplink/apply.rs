//! Carries out a plan, step by step; the first error stops it. Decides nothing.

use causeway_api::manager::FieldManager;
use causeway_api::uplink::Uplink as ApiUplink;
use causeway_api::uplink_state::UplinkState;
use causeway_api::{GROUP, V1ALPHA1};
use causeway_runtime::writer::{Expected, WriteMetrics, Writer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::info;

use super::error::UplinkError;
use super::metrics::Metrics;
use super::ownership::FinalizerOwner;
use super::plan::{Deletion, Plan, Step};
use super::watched::UplinkName;

/// Writes Uplinks and deletes states, as the field manager of this room.
#[derive(Clone, Debug)]
pub(super) struct Hand {
    writer: Writer,
    uplinks: Api<ApiUplink>,
    states: Api<UplinkState>,
}

impl Hand {
    /// A hand over this connection.
    #[must_use]
    pub(super) fn new(client: Client, metrics: WriteMetrics) -> Self {
        Self {
            writer: Writer::new(FieldManager::ClusterManagerUplink.as_str(), metrics),
            uplinks: Api::all(client.clone()),
            states: Api::all(client),
        }
    }
}

/// Carries out `plan`.
///
/// # Errors
/// The first step that failed; the steps before it are done, those after it are not begun.
///
/// # Cancellation
/// Leaves a prefix of the steps done; the next pass plans the rest.
pub(super) async fn run(
    name: &UplinkName,
    plan: &Plan,
    hand: &Hand,
    metrics: &Metrics,
) -> Result<(), UplinkError> {
    for step in &plan.steps {
        match step {
            Step::WriteReady { uid, condition } => {
                let body = status_body(name, uid, condition);
                hand.writer
                    .apply_status(&hand.uplinks, name.as_str(), &body)
                    .await
                    .map_err(|source| UplinkError::Status { uplink: name.clone(), source })?;
                info!(
                    uplink = %name,
                    status = condition.status,
                    reason = condition.reason,
                    detail = condition.message,
                    "Uplink condition written"
                );
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
            Step::ReleaseFinalizer { uid, owner } => {
                release(name, uid, owner, hand).await?;
                info!(uplink = %name, "Uplink finalizer released");
            }
        }
    }
    Ok(())
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

fn status_body(name: &UplinkName, uid: &str, condition: &Condition) -> Value {
    let mut body = identity_body(name, uid);
    if let Some(fields) = body.as_object_mut() {
        fields.insert("status".to_owned(), json!({"conditions": [condition]}));
    }
    body
}
