//! The recorded run: what was done to a cluster, what upstream's cluster manager made of it, and what ours makes
//! otherwise on purpose.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;

use crate::seen::{Mirror, Outcome, mirrors};
use causeway_tests::control::create;
use causeway_tests::replay::{self, Meant};
use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

/// Name of the run, and of the test that replays it.
const RUN: &str = "06-endpointslice-mirror";
const REPLAY: &str = "api_endpointslice";

macro_rules! recorded {
    ($file:literal) => {
        include_str!(concat!("../../conformance/endpointslice/06-endpointslice-mirror/", $file))
    };
}

/// A request.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    step: u32,
    verb: Verb,
    path: Option<String>,
    /// What the slice mirrors that is meant; its name is another one in each run.
    mirror: Option<String>,
    object: Option<Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    MergePatch,
    Delete,
}

/// What changed in a step.
#[derive(Debug, Deserialize)]
struct Want {
    step: u32,
    title: String,
    #[serde(default)]
    mirrors: BTreeMap<String, Mirror>,
    #[serde(default)]
    deleted: Vec<String>,
}

/// What is otherwise on purpose, from step to step, both included.
#[derive(Debug, Deserialize)]
struct Difference {
    mirrors: Vec<String>,
    steps: (u32, u32),
    /// Fields that ours has otherwise, or all of it; none where there is none.
    causeway: Option<Value>,
    why: String,
}

/// One step: what is sent, and all that is there when it is done.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: u32,
    pub(crate) title: String,
    pub(crate) requests: Vec<Request>,
    pub(crate) ours: Outcome,
    /// What upstream changed in it.
    theirs: Outcome,
}

/// The differences that are meant so.
///
/// # Errors
/// They cannot be read.
pub(crate) fn meant() -> anyhow::Result<Meant> {
    Meant::of(RUN, REPLAY)
}

/// The steps, in order.
///
/// # Errors
/// The files are not as they should be.
pub(crate) fn steps() -> anyhow::Result<Vec<Step>> {
    let mut requests: Vec<Request> =
        serde_yaml_ng::from_str(recorded!("input.yaml")).context("input.yaml")?;
    let wants: Vec<Want> = serde_yaml_ng::from_str(recorded!("want.yaml")).context("want.yaml")?;
    let differences: Vec<Difference> =
        serde_yaml_ng::from_str(recorded!("differences.yaml")).context("differences.yaml")?;
    ensure!(wants.len() == 29, "{} steps", wants.len());
    ensure!(differences.iter().all(|difference| !difference.why.is_empty()), "a difference without a reason");
    let mut theirs = Outcome::new();
    let mut steps = Vec::new();
    for want in wants {
        theirs.extend(want.mirrors.clone());
        theirs.retain(|mirror, _| !want.deleted.contains(mirror));
        let mut ours = theirs.clone();
        let of_step = |one: &&Difference| one.steps.0 <= want.step && want.step <= one.steps.1;
        for difference in differences.iter().filter(of_step) {
            for mirror in &difference.mirrors {
                match changed(theirs.get(mirror), difference.causeway.as_ref())? {
                    Some(changed) => {
                        let same = ours.insert(mirror.clone(), changed.clone()) == Some(changed);
                        ensure!(!same, "step {}: nothing differs about {mirror}", want.step);
                    }
                    None => ensure!(ours.remove(mirror).is_some(), "step {}: no {mirror}", want.step),
                }
            }
        }
        let of_step = requests.extract_if(.., |request| request.step == want.step).collect();
        steps.push(Step {
            number: want.step,
            title: want.title,
            requests: of_step,
            ours,
            theirs: want.mirrors,
        });
    }
    ensure!(requests.is_empty(), "requests of no step: {requests:?}");
    Ok(steps)
}

/// Upstream's mirror with our fields.
fn changed(theirs: Option<&Mirror>, fields: Option<&Value>) -> anyhow::Result<Option<Mirror>> {
    let Some(fields) = fields else { return Ok(None) };
    let Some(mut mirror) = theirs.cloned() else {
        return serde_json::from_value(fields.clone()).map(Some).context("a whole mirror");
    };
    for (field, value) in fields.as_object().context("fields")? {
        let value = value.clone();
        match field.as_str() {
            "labels" => mirror.labels = serde_json::from_value(value)?,
            "endpoints" => mirror.endpoints = serde_json::from_value(value)?,
            other => anyhow::bail!("{other} does not differ"),
        }
    }
    Ok(Some(mirror))
}

impl Request {
    /// Sends it.
    ///
    /// # Errors
    /// The API server refuses it.
    pub(crate) async fn send(&self, admin: &Client) -> anyhow::Result<()> {
        let path = match (&self.path, &self.mirror) {
            (Some(path), None) => path.clone(),
            (None, Some(source)) => {
                let there = mirrors(admin).await?;
                let name = there.get(source).and_then(|mirror| mirror.name.clone()).context("a mirror")?;
                let (namespace, _) = source.split_once('/').context("a namespace")?;
                format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}")
            }
            _ => anyhow::bail!("{self:?} has no path, or two"),
        };
        let answer = match (self.verb, &self.object) {
            (Verb::Create, Some(object)) => return create(admin, object).await,
            (Verb::MergePatch, Some(change)) => {
                send(admin, Method::PATCH, &path, MERGE_PATCH, Some(change)).await?
            }
            (Verb::Delete, None) => {
                let path = format!("{path}?gracePeriodSeconds=0");
                send(admin, Method::DELETE, &path, OBJECT, None).await?
            }
            _ => anyhow::bail!("{self:?} has no object, or one too many"),
        };
        ensure!(answer.is_accepted(), "{self:?}: {}", answer.message());
        ensure!(answer.warnings.is_empty(), "{self:?}: {:?}", answer.warnings);
        Ok(())
    }
}

impl Step {
    /// What upstream wrote in it and ours has otherwise.
    ///
    /// # Errors
    /// A mirror without a name.
    pub(crate) fn differing(&self) -> anyhow::Result<Vec<replay::Difference>> {
        let differing = self.theirs.iter().filter(|(key, theirs)| self.ours.get(*key) != Some(theirs));
        let difference = |(key, theirs): (&String, &Mirror)| {
            let (namespace, _) = key.split_once('/').context("a namespace")?;
            let path = format!("EndpointSlice/{namespace}/{} ", theirs.name.as_deref().context("a name")?);
            let [theirs, ours] =
                [Some(theirs), self.ours.get(key)].map(|mirror| format!("{mirror:?}").into());
            Ok(replay::Difference::new(&path, &theirs, &ours))
        };
        differing.map(difference).collect()
    }
}
