//! Carries out a plan, step by step; the first error stops it. Decides nothing.

use std::sync::Arc;

use causeway_runtime::leader::Leadership;
use causeway_runtime::writer::{Expected, WriteError, WriteMetrics, Writer};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::info;

use super::error::MirrorError;
use super::metrics::Metrics;
use super::plan::{Plan, Step, Wanted};
use super::watched::{
    MANAGED_BY, MIRRORED_SERVICE, MIRRORS, Mirror, NETWORK, SOURCE, SOURCE_VERSION, Slice, SliceKey,
};
use crate::written::Written;

/// Writes are recorded under this name. Upstream gives none, so that its host's name stands there.
const FIELD_MANAGER: &str = "endpointslice-mirror-controller";

/// Writes mirrors.
#[derive(Clone)]
pub(super) struct Hand {
    client: Client,
    writer: Writer,
    written: Written<SliceKey, Mirror>,
}

impl Hand {
    /// A hand over this connection, that writes as long as this process leads and leaves what it wrote in `written`.
    #[must_use]
    pub(super) fn new(
        client: Client,
        metrics: WriteMetrics,
        leadership: Leadership,
        written: Written<SliceKey, Mirror>,
    ) -> Self {
        Self { client, writer: Writer::new(FIELD_MANAGER, metrics).fenced(leadership), written }
    }
}

/// Carries out `plan` for the mirrors of `key`.
///
/// # Errors
/// The first step that failed. The steps before it are done, those after it are not begun.
///
/// # Cancellation
/// Leaves some of the first steps done; the next pass plans the rest.
pub(super) async fn run(
    key: &SliceKey,
    plan: &Plan,
    hand: &Hand,
    metrics: &Metrics,
) -> Result<(), MirrorError> {
    for step in &plan.steps {
        let done = carry_out(key, step, hand).await;
        if let Err(error) = &done
            && is_about_another_state(error)
            && let Step::Update { mirror, .. } | Step::Delete { mirror, .. } = step
        {
            hand.written.forget(mirror);
        }
        done?;
        if let Step::Delete { because, .. } = step {
            metrics.deleted(*because);
        }
    }
    Ok(())
}

async fn carry_out(key: &SliceKey, step: &Step, hand: &Hand) -> Result<(), MirrorError> {
    let slices: Api<EndpointSlice> = Api::namespaced(hand.client.clone(), key.namespace());
    match step {
        Step::Delete { mirror, uid, because } => {
            let expected = Expected { uid: Some(uid.clone()), resource_version: None };
            let deleted = hand.writer.delete(&slices, mirror.name(), expected).await;
            deleted.map_err(|source| MirrorError::Delete { mirror: mirror.clone(), source })?;
            hand.written.forget(mirror);
            info!(slice = %key, mirror = %mirror, cause = %because, "Mirrored EndpointSlice deleted");
        }
        Step::Create { prefix, owners, wanted } => {
            let mirror = EndpointSlice {
                metadata: ObjectMeta {
                    generate_name: Some(prefix.clone()),
                    namespace: Some(key.namespace().to_owned()),
                    labels: Some(
                        labels(wanted).map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
                    ),
                    annotations: Some(
                        annotations(key, wanted)
                            .map(|(key, value)| (key.to_owned(), value.to_owned()))
                            .into(),
                    ),
                    owner_references: (!owners.is_empty()).then(|| owners.clone()),
                    ..ObjectMeta::default()
                },
                address_type: wanted.content.address_type.clone(),
                endpoints: Some(wanted.content.endpoints.clone()),
                ports: Some(wanted.content.ports.clone()),
            };
            let made = hand.writer.create(&slices, &mirror).await;
            let made = made.map_err(|source| MirrorError::Create { slice: key.clone(), source })?;
            info!(slice = %key, network = wanted.network, endpoints = wanted.content.endpoints.len(), "EndpointSlice mirrored");
            if let Some(mirror) = mirror_of(made) {
                hand.written.created(&mirror.key.clone(), mirror);
            }
        }
        Step::Update { mirror, uid, version, wanted } => {
            let patch = patch(key, uid, version, wanted);
            let changed = hand.writer.merge(&slices, mirror.name(), &patch).await;
            let changed = changed.map_err(|source| MirrorError::Update { mirror: mirror.clone(), source })?;
            info!(slice = %key, mirror = %mirror, network = wanted.network, endpoints = wanted.content.endpoints.len(), "Mirrored EndpointSlice changed");
            if let Some(changed) = mirror_of(changed) {
                hand.written.remember(mirror, changed);
            }
        }
    }
    Ok(())
}

/// A write that another state of the object stood against: what was remembered of it is old.
fn is_about_another_state(error: &MirrorError) -> bool {
    let (MirrorError::Create { source, .. }
    | MirrorError::Update { source, .. }
    | MirrorError::Delete { source, .. }) = error
    else {
        return false;
    };
    matches!(source, WriteError::NotFound(_) | WriteError::Conflict(_))
}

fn mirror_of(answer: EndpointSlice) -> Option<Mirror> {
    match Slice::of(answer)? {
        Slice::Mirror(mirror) => Some(Arc::unwrap_or_clone(mirror)),
        Slice::Source(_) => None,
    }
}

fn labels(wanted: &Wanted) -> [(&'static str, &str); 2] {
    [(MANAGED_BY, MIRRORS), (MIRRORED_SERVICE, &wanted.service)]
}

fn annotations<'w>(key: &'w SliceKey, wanted: &'w Wanted) -> [(&'static str, &'w str); 3] {
    [(SOURCE, key.name()), (SOURCE_VERSION, &wanted.source_version), (NETWORK, &wanted.network)]
}

/// What changes of a mirror. Lists are replaced as a whole; labels and annotations of others stay.
fn patch(key: &SliceKey, uid: &str, version: &str, wanted: &Wanted) -> Value {
    let map = |pairs: &[(&str, &str)]| -> Value {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
    };
    json!({
        "metadata": {
            "uid": uid,
            "resourceVersion": version,
            "labels": map(&labels(wanted)),
            "annotations": map(&annotations(key, wanted)),
        },
        "endpoints": wanted.content.endpoints,
        "ports": wanted.content.ports,
    })
}
