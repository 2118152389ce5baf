//! Tells people on the Service which endpoints are not on its network.
//!
//! In: what a pass left out. Out: an Event when that changes. What passes by itself, a pod that has no address yet, is
//! not told: every start of a pod would be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use causeway_runtime::events::{Happening, Recorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;

use super::observe::World;
use super::plan::{Omitted, Plan};
use super::watched::SliceKey;

/// Reason of the Events.
const REASON: &str = "EndpointsNotMirrored";
/// So many endpoints are named; a Service can have thousands.
const NAMED: usize = 5;

/// Tells what was not told yet. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    recorder: Recorder,
    told: Arc<Mutex<HashMap<SliceKey, String>>>,
}

impl Voice {
    /// A voice that speaks through `recorder`.
    #[must_use]
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, told: Arc::default() }
    }

    /// Tells what `plan` leaves out of the mirror of `key`, if that is new.
    pub(super) fn tell(&self, key: &SliceKey, world: &World, plan: &Plan) {
        let note = note(key, world, plan);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(note) = note else {
            told.remove(key);
            return;
        };
        if told.get(key) == Some(&note) {
            return;
        }
        if let Some(service) = service(key, world) {
            self.recorder.record(Happening {
                regarding: service,
                related: None,
                severity: Severity::Warning,
                reason: REASON.to_owned(),
                action: "MirrorEndpoints",
                note: note.clone(),
            });
        }
        told.insert(key.clone(), note);
    }
}

/// What there is to tell.
fn note(key: &SliceKey, world: &World, plan: &Plan) -> Option<String> {
    let network = &world.network.as_ref()?.name;
    let all = world.source.as_ref()?.content.endpoints.len();
    let omitted: Vec<&Omitted> = plan.omitted.iter().filter(|one| one.cause.is_for_people()).collect();
    if omitted.is_empty() {
        return None;
    }
    let mut named: Vec<String> = omitted.iter().take(NAMED).map(ToString::to_string).collect();
    if omitted.len() > NAMED {
        named.push(format!("{} more", omitted.len() - NAMED));
    }
    Some(format!(
        "{} of {all} endpoints of EndpointSlice {} cannot be reached on network {network}: {}",
        omitted.len(),
        key.name(),
        named.join(", ")
    ))
}

/// The Service of the slice: its owner, else by name.
fn service(key: &SliceKey, world: &World) -> Option<ObjectReference> {
    let source = world.source.as_ref()?;
    let owner = source.owners.iter().find(|owner| owner.kind == "Service" && owner.api_version == "v1");
    let name = owner.map_or(&source.service, |owner| &owner.name);
    (!name.is_empty()).then(|| ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some(key.namespace().to_owned()),
        name: Some(name.clone()),
        uid: owner.map(|owner| owner.uid.clone()),
        ..ObjectReference::default()
    })
}
