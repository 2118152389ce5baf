//! Replays recorded runs of the control plane: the requests of a run go to a real API server, step by step, and after each
//! step the objects are compared with what was recorded of upstream.
//!
//! In: a run's `inputs.yaml`, `result.yaml` and `events.txt` (`tests/conformance/control-plane/`), the differences meant so
//! (`tests/differences.jsonl`). Out: every other difference, and every line of these that names none.
//!
//! Compared are spec, status, labels, annotations of the network stack, finalizers, owner references (without uids), and
//! whether an object is being deleted; and what Events have said up to then. Not compared: times, versions, uids, observed generations. What nodes were given is
//! compared as a whole, since which node gets which depends on timing. Where a run was recorded anew the folder says how.

mod heard;
mod meant;
mod normal;

pub use self::meant::Meant;
pub use self::normal::Difference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use self::heard::Hearing;
use self::normal::{at, differences, handed_out, normal};

/// How long a busy machine may take for a step.
const DEADLINE: Duration = Duration::from_secs(30);
/// Pause between two comparisons.
const PAUSE: Duration = Duration::from_millis(50);
/// Where recorded runs are.
const RUNS: &str = "conformance/control-plane";
/// The test that replays them here.
const REPLAY: &str = "api_networks";

/// One recorded request.
#[derive(Debug, Deserialize)]
struct Input {
    step: u32,
    verb: Verb,
    path: String,
    object: Option<Value>,
    response: Option<Response>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verb {
    Create,
    MergePatch,
    Delete,
}

#[derive(Debug, Deserialize)]
struct Response {
    code: u16,
}

/// What there was after a step.
#[derive(Debug, Deserialize)]
struct Result {
    step: u32,
    title: String,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    deleted: Vec<String>,
}

/// A step of a run.
#[derive(Debug)]
pub struct Step {
    /// Its number.
    pub number: u32,
    /// What it is about.
    pub title: String,
    inputs: Vec<Input>,
    result: Result,
}

/// A recorded run.
#[derive(Debug)]
pub struct Run {
    name: String,
    /// The command line of the recorded program, without its name.
    pub flags: Vec<String>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
    heard: Hearing,
    meant: Meant,
}

/// What a replay has reached.
pub struct Replay<'r> {
    run: &'r Run,
    client: Client,
    /// Nodes that exist at this step, as recorded.
    nodes: BTreeMap<String, Value>,
    heard: Hearing,
    meant: Meant,
    /// How many differences were meant so.
    differences: usize,
}

impl Run {
    /// Reads a run.
    ///
    /// # Errors
    /// It is not there, or is none.
    pub fn read(name: &str) -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNS).join(name);
        let mut inputs: Vec<Input> = yaml(&folder.join("inputs.yaml"))?;
        let mut results: Vec<Result> = yaml(&folder.join("result.yaml"))?;
        leave_out_mirrors(&mut inputs, &mut results)?;
        let flags = std::fs::read_to_string(folder.join("flags.txt")).context("reading flags.txt")?;
        let events = std::fs::read_to_string(folder.join("events.txt")).context("reading events.txt")?;
        let mut by_step: BTreeMap<u32, Vec<Input>> = BTreeMap::new();
        for input in inputs {
            by_step.entry(input.step).or_default().push(input);
        }
        let steps = results.into_iter().map(|result| Step {
            number: result.step,
            title: result.title.clone(),
            inputs: by_step.remove(&result.step).unwrap_or_default(),
            result,
        });
        Ok(Self {
            name: name.to_owned(),
            flags: flags.split_whitespace().skip(1).map(str::to_owned).collect(),
            steps: steps.collect(),
            heard: Hearing::recorded(&events)?,
            meant: Meant::of(name, REPLAY)?,
        })
    }

    /// Begins a replay on an API server.
    #[must_use]
    pub fn replay(&self, client: Client) -> Replay<'_> {
        let (heard, meant) = (self.heard.clone(), self.meant.clone());
        Replay { run: self, client, nodes: BTreeMap::new(), heard, meant, differences: 0 }
    }
}

impl Step {
    /// Whether upstream was restarted here.
    #[must_use]
    pub fn is_restart(&self) -> bool {
        let title = self.title.to_lowercase();
        title.starts_with("restart") && !title.contains("(before)")
    }
}

impl Replay<'_> {
    /// How many differences were meant so.
    #[must_use]
    pub const fn meant(&self) -> usize {
        self.differences
    }

    /// Sends the requests of a step and waits until nothing differs but what is meant to, and all that is meant to in just this
    /// step.
    ///
    /// # Errors
    /// Something else differs, something that is meant to does not, or a request was answered differently.
    pub async fn step(&mut self, step: &Step) -> anyhow::Result<()> {
        let what = || format!("{} step {} ({})", self.run.name, step.number, step.title);
        for input in &step.inputs {
            self.send(step.number, input).await.with_context(what)?;
        }
        for node in step.result.objects.iter().filter(|object| at(object, "/kind") == "Node") {
            let name = at(node, "/metadata/name").as_str().unwrap_or_default();
            self.nodes.insert(name.to_owned(), node.clone());
        }
        for gone in step.result.deleted.iter().filter_map(|gone| gone.strip_prefix("Node/")) {
            self.nodes.remove(gone.trim_start_matches('/'));
        }
        self.heard.step(step.number);
        let begun = Instant::now();
        loop {
            let mut found = self.compare(step).await?;
            self.compare_events(&mut found).await?;
            let Err(wrong) = self.meant.judge(step.number, &found) else {
                self.differences += found.len();
                return Ok(());
            };
            if begun.elapsed() > DEADLINE {
                bail!("{}:\n{}", what(), wrong.join("\n"));
            }
            sleep(PAUSE).await;
        }
    }

    /// Says whether nothing else was heard in the end, and whether each line that is for this run was needed.
    ///
    /// # Errors
    /// It says what was heard, or which line names nothing that differs.
    pub async fn finish(&mut self) -> anyhow::Result<()> {
        let last = self.run.steps.last().map_or(0, |step| step.number);
        let mut found = Vec::new();
        self.compare_events(&mut found).await?;
        self.meant.finish(last, &found).with_context(|| self.run.name.clone())
    }

    async fn send(&mut self, step: u32, input: &Input) -> anyhow::Result<()> {
        let path = &input.path;
        let (code, body) = match input.verb {
            Verb::Create => {
                let object = input.object.as_ref().context("a creation without an object")?;
                let collection = path.rsplit_once('/').context("a path")?.0;
                let answer = self.call(Method::POST, collection, JSON, Some(object)).await?;
                let has_status = ["Pod", "Uplink"].iter().any(|kind| at(object, "/kind") == *kind)
                    && object.get("status").is_some();
                if has_status && answer.0 < 300 {
                    let status = json!({"status": at(object, "/status")});
                    self.call(Method::PATCH, &format!("{path}/status"), MERGE, Some(&status)).await?;
                }
                if at(object, "/kind") == "Node" {
                    self.numbered(path).await?;
                }
                answer
            }
            Verb::MergePatch => self.call(Method::PATCH, path, MERGE, input.object.as_ref()).await?,
            Verb::Delete => {
                let grace = if path.contains("/pods/") { "?gracePeriodSeconds=0" } else { "" };
                self.call(Method::DELETE, &format!("{path}{grace}"), JSON, None).await?
            }
        };
        let recorded = input.response.as_ref().map_or(200, |response| response.code);
        let refused = Difference::new(
            &format!("{:?} {path}", input.verb),
            &Value::from(recorded),
            &json!({"code": code, "message": at(&body, "/message")}),
        );
        if (recorded >= 400) != (code >= 400) {
            self.meant.judge_one(step, &refused)?;
        }
        Ok(())
    }

    /// Waits until a Node has its id: ids and subnets follow the order in which Nodes appear.
    async fn numbered(&self, path: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let (_, node) = self.call(Method::GET, path, JSON, None).await?;
            let annotations = at(&node, "/metadata/annotations");
            let has = |name: &str| annotations.get(name).is_some_and(Value::is_string);
            if has("k8s.ovn.org/node-subnets") && has("k8s.ovn.org/node-id") {
                return Ok(());
            }
            ensure!(begun.elapsed() < DEADLINE, "{path} got no numbers: {annotations}");
            sleep(PAUSE).await;
        }
    }

    async fn compare(&self, step: &Step) -> anyhow::Result<Vec<Difference>> {
        let mut found = Vec::new();
        for recorded in &step.result.objects {
            let (kind, meta) = (text(at(recorded, "/kind")), at(recorded, "/metadata"));
            let name = format!("{kind}/{}/{} ", text(at(meta, "/namespace")), text(at(meta, "/name")));
            let (code, ours) = self.call(Method::GET, &path_of(recorded)?, JSON, None).await?;
            if code == 200 {
                differences(&name, &normal(recorded), &normal(&with_kind(ours, kind)), &mut found);
            } else {
                found.push(Difference::new(&name, &json!("present"), &json!(format!("absent ({code})"))));
            }
        }
        for gone in &step.result.deleted {
            let path = path_of_gone(gone)?;
            if self.call(Method::GET, &path, JSON, None).await?.0 == 200 {
                found.push(Difference::new(&format!("{gone} "), &json!("deleted"), &json!("present")));
            }
        }
        let (_, nodes) = self.call(Method::GET, "/api/v1/nodes", JSON, None).await?;
        let ours = at(&nodes, "/items").as_array().map(Vec::as_slice).unwrap_or_default();
        differences("all nodes: ", &handed_out(self.nodes.values()), &handed_out(ours), &mut found);
        Ok(found)
    }

    async fn compare_events(&self, found: &mut Vec<Difference>) -> anyhow::Result<()> {
        let (_, events) = self.call(Method::GET, "/api/v1/events", JSON, None).await?;
        found.extend(self.heard.differences(&events));
        Ok(())
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let what = format!("{method} {path}");
        let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let response =
            self.client.send(request.body(Body::from(bytes))?).await.with_context(|| what.clone())?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.with_context(|| what.clone())?;
        Ok((
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(&bytes)})),
        ))
    }
}

/// The label that says who keeps an EndpointSlice, and its value on mirrors.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORS: &str = "endpointslice-mirror-controller.k8s.ovn.org";

const JSON: &str = "application/json";
/// Source: RFC 7396.
const MERGE: &str = "application/merge-patch+json";

/// Leaves out mirrored EndpointSlices: the API server makes up their names, and what is in them is compared elsewhere
/// (`api_endpointslice`).
fn leave_out_mirrors(inputs: &mut Vec<Input>, results: &mut [Result]) -> anyhow::Result<()> {
    let is_mirror = |object: &Value| {
        let labels = at(object, "/metadata/labels");
        labels.get(MANAGED_BY).is_some_and(|manager| manager == MIRRORS)
    };
    let all = results.iter().flat_map(|result| &result.objects).filter(|object| is_mirror(object));
    let mirrors: BTreeSet<String> = all.map(path_of).collect::<anyhow::Result<_>>()?;
    inputs.retain(|input| !mirrors.contains(&input.path));
    for result in results {
        result.objects.retain(|object| !is_mirror(object));
        result.deleted.retain(|gone| path_of_gone(gone).map_or(true, |path| !mirrors.contains(&path)));
    }
    Ok(())
}

fn yaml<T: for<'de> Deserialize<'de>>(path: &PathBuf) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    serde_yaml_ng::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Lists leave out what the items are.
fn with_kind(mut object: Value, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".to_owned(), json!(kind));
    }
    object
}

fn path_of(object: &Value) -> anyhow::Result<String> {
    let meta = at(object, "/metadata");
    path(
        text(at(object, "/apiVersion")),
        text(at(object, "/kind")),
        text(at(meta, "/namespace")),
        text(at(meta, "/name")),
    )
}

/// The path of an object that is recorded as `Kind/name` or `Kind/namespace/name`.
fn path_of_gone(gone: &str) -> anyhow::Result<String> {
    let parts: Vec<&str> = gone.split('/').collect();
    let (kind, namespace, name) = match parts.as_slice() {
        [kind, name] => (*kind, "", *name),
        [kind, namespace, name] => (*kind, *namespace, *name),
        _ => bail!("{gone} is no object"),
    };
    let api_version = match kind {
        "NetworkAttachmentDefinition" => "k8s.cni.cncf.io/v1",
        "UserDefinedNetwork" | "ClusterUserDefinedNetwork" => "k8s.ovn.org/v1",
        "Uplink" | "UplinkState" => "k8s.ovn.org/v1alpha1",
        "EndpointSlice" => "discovery.k8s.io/v1",
        _ => "v1",
    };
    path(api_version, kind, namespace, name)
}

fn path(api_version: &str, kind: &str, namespace: &str, name: &str) -> anyhow::Result<String> {
    ensure!(!kind.is_empty() && !name.is_empty(), "an object without kind or name");
    let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let plural = match kind {
        "NetworkAttachmentDefinition" => "network-attachment-definitions".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let scope = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    Ok(format!("{root}{scope}/{plural}/{name}"))
}
