//! The recorded run: what was done to a cluster, what upstream's cluster manager made of it, and what ours makes
//! otherwise on purpose. The planner is held against the same files without an API server.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use http::Method;
use kube::Client;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::seen::{Outcome, Ready};
use causeway_tests::rest::{MERGE_PATCH, OBJECT, send};

/// Name of the run.
const RUN: &str = "05-uplink";

/// Last step before networks come into it.
const LAST: i64 = 43;

macro_rules! recorded {
    ($file:literal) => {
        include_str!(concat!("../../conformance/uplink/05-uplink/", $file))
    };
}

/// A request.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    step: i64,
    verb: Verb,
    path: String,
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
    step: i64,
    title: String,
    #[serde(default)]
    ready: BTreeMap<String, Ready>,
    #[serde(default)]
    states: Vec<String>,
    #[serde(default)]
    deleted: Vec<String>,
}

/// What is otherwise on purpose, from step to step, both included.
#[derive(Debug, Deserialize)]
struct Difference {
    object: String,
    steps: (i64, i64),
    causeway: Option<Ready>,
}

/// A line of `differences.jsonl`: which paths of which steps of which runs may differ.
#[derive(Debug, Deserialize)]
struct Allowed {
    run: String,
    step: Option<i64>,
    path: String,
    why: String,
}

/// One step: what is sent, and all that is there when it is done.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: i64,
    pub(crate) title: String,
    pub(crate) requests: Vec<Request>,
    pub(crate) ours: Outcome,
    theirs: Outcome,
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
    ensure!(i64::try_from(wants.len())? == LAST, "{} steps", wants.len());
    let mut theirs = Outcome::new();
    let mut steps = Vec::new();
    for want in wants {
        let step = want.step;
        theirs.extend(want.ready.into_iter().map(|(name, ready)| (format!("Uplink/{name}"), Some(ready))));
        theirs.extend(want.states.into_iter().map(|name| (format!("UplinkState/{name}"), None)));
        theirs.retain(|object, _| !want.deleted.contains(object));
        let mut ours = theirs.clone();
        for difference in differences.iter().filter(|one| one.steps.0 <= step && step <= one.steps.1) {
            match &difference.causeway {
                Some(ready) => ours.insert(difference.object.clone(), Some(ready.clone())),
                None => ours.remove(&difference.object),
            };
        }
        let of_step = requests.extract_if(.., |request| request.step == step).collect();
        steps.push(Step { number: step, title: want.title, requests: of_step, ours, theirs: theirs.clone() });
    }
    ensure!(requests.is_empty(), "requests of no step: {requests:?}");
    Ok(steps)
}

impl Request {
    /// Sends it. `there` is what was there before: a state that was collected here and kept upstream can be deleted.
    ///
    /// # Errors
    /// The API server refuses it.
    pub(crate) async fn send(&self, client: &Client, there: &Outcome) -> anyhow::Result<()> {
        let (collection, name) = self.path.rsplit_once('/').context("a path")?;
        let body = self.object.as_ref();
        let answer = match self.verb {
            Verb::Create => send(client, Method::POST, collection, OBJECT, body).await?,
            Verb::MergePatch => send(client, Method::PATCH, &self.path, MERGE_PATCH, body).await?,
            Verb::Delete => send(client, Method::DELETE, &self.path, OBJECT, None).await?,
        };
        let collected = matches!(self.verb, Verb::Delete)
            && collection.ends_with("/uplinkstates")
            && !there.contains_key(&format!("UplinkState/{name}"));
        let fine = answer.is_accepted() || (collected && answer.code == 404);
        ensure!(fine && answer.warnings.is_empty(), "{self:?}: {} {:?}", answer.message(), answer.warnings);
        Ok(())
    }
}

impl Step {
    /// What differs from upstream, as the tool that replays recorded runs names it.
    fn differing(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let objects: BTreeSet<&String> = self.theirs.keys().chain(self.ours.keys()).collect();
        for object in objects {
            let (kind, name) = object.split_once('/').unwrap_or((object, ""));
            match (self.theirs.get(object), self.ours.get(object)) {
                (Some(Some(theirs)), Some(Some(ours))) => {
                    let fields = [
                        ("status", theirs.status == ours.status),
                        ("reason", theirs.reason == ours.reason),
                        ("message", theirs.message == ours.message),
                    ];
                    let fields = fields.into_iter().filter(|(_, same)| !same);
                    paths.extend(
                        fields.map(|(field, _)| format!("{kind}//{name} status.conditions.Ready.{field}")),
                    );
                }
                (theirs, ours) if theirs != ours => paths.push(format!("{kind}//{name} ")),
                _ => {}
            }
        }
        paths
    }
}

/// Whether `differences.jsonl` names exactly what differs.
///
/// # Errors
/// What it does not name, or what it names although nothing differs there.
pub(crate) fn check_differences(steps: &[Step]) -> anyhow::Result<()> {
    let lines = include_str!("../../differences.jsonl").lines();
    let allowed: Vec<Allowed> = lines
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect::<Result<_, _>>()?;
    let mut of_this_run = Vec::new();
    for one in &allowed {
        ensure!(!one.why.is_empty(), "no reason: {one:?}");
        // What nodes are given and what comes later in the run is compared where the whole run is (api_networks).
        let here = one.path.starts_with("^Uplink") && one.step.is_none_or(|step| step <= LAST);
        if here && Regex::new(&one.run)?.is_match(RUN) {
            of_this_run.push((one, Regex::new(&one.path)?, false));
        }
    }
    for step in steps {
        for path in step.differing() {
            let mut named = false;
            for (one, regex, used) in &mut of_this_run {
                if one.step.is_none_or(|number| number == step.number) && regex.is_match(&path) {
                    (named, *used) = (true, true);
                }
            }
            ensure!(named, "step {}: no line of differences.jsonl names {path:?}", step.number);
        }
    }
    let unused = of_this_run.iter().find(|(.., used)| !used);
    ensure!(unused.is_none(), "nothing differs that {:?} names", unused.map(|(one, ..)| one));
    Ok(())
}
