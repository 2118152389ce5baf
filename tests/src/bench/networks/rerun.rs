//! A plain client that sends writes again that the cluster manager once sent, to an API server without cluster manager.
//!
//! It knows everything beforehand, so what it takes is what the API server takes. Writes of one object go out one after
//! the other, as each builds on the one before; of different objects there are [`WIDTH`] requests at a time. It reaches the
//! API server the same way as the cluster manager, under the same account and policies; what the bench itself did
//! (creating and deleting networks) it does as the bench.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use causeway_rig::{Node, Process, Rig, RigOptions, Side};
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::audit::{Audit, Write};
use super::super::crowd::{WIDTH, all, control_plane, make_node};
use super::field::{make_namespaces, network};
use super::sight::PATIENCE;

/// Where networks are.
pub(super) const NETWORKS: &str = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks";
/// Where Nodes are.
const NODES: &str = "/api/v1/nodes";
/// What is there before the client comes.
const LISTS: [&str; 3] = [NODES, NETWORKS, "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"];
/// The writes, inside the client's place.
const LANES: &str = "/etc/causeway/lanes.json";
/// The cluster manager's kubeconfig, inside the client's place.
pub(super) const LOGIN: &str = "/etc/causeway/manager";
/// The end of the path of a status.
const STATUS: &str = "/status";
/// What asks for an answer without the object.
const BRIEF: &str = "includeObject=None";
/// Media type of such an answer.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// What the client's answer begins with.
const ANSWER: &str = "took_us=";

/// One write.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Step {
    verb: String,
    uri: String,
    body: Value,
    /// It is the bench's own.
    own: bool,
}

/// Writes of one object, in their order.
pub type Lane = Vec<Step>;

/// The bench's own creation of a network.
pub(super) fn creation(name: &str) -> Step {
    Step { verb: "create".to_owned(), uri: NETWORKS.to_owned(), body: network(name), own: true }
}

/// The bench's own deletion of a network.
pub(super) fn deletion(name: &str) -> Step {
    Step { verb: "delete".to_owned(), uri: format!("{NETWORKS}/{name}"), body: json!({}), own: true }
}

/// What the bench did, and what the cluster manager wrote, by object; those with most to do first.
pub(super) fn lanes(own: impl IntoIterator<Item = Step>, writes: Vec<Write>) -> Vec<Lane> {
    let theirs = writes.into_iter().map(Step::of);
    let mut lanes: BTreeMap<String, Lane> = BTreeMap::new();
    for step in own.into_iter().chain(theirs) {
        lanes.entry(step.object()).or_default().push(step);
    }
    let mut lanes: Vec<Lane> = lanes.into_values().collect();
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.len()));
    lanes
}

impl Step {
    /// A write of the cluster manager.
    pub(super) fn of(Write { verb, uri, body }: Write) -> Self {
        Self { verb, uri, body, own: false }
    }

    /// Whether it makes an object.
    pub(super) fn is_creation(&self) -> bool {
        self.verb == "create"
    }

    /// Whether it writes the status of an object, or what is written the same way.
    pub(super) fn is_status(&self) -> bool {
        self.path().ends_with(STATUS)
    }

    fn path(&self) -> &str {
        self.uri.split('?').next().unwrap_or_default()
    }

    /// Path of the object.
    pub(super) fn object(&self) -> String {
        let path = self.path();
        if self.is_creation() {
            let name = self.body.pointer("/metadata/name").and_then(Value::as_str);
            return format!("{path}/{}", name.unwrap_or_default());
        }
        path.trim_end_matches(STATUS).to_owned()
    }

    fn method(&self) -> anyhow::Result<(Method, &'static str)> {
        let forced = self.uri.contains("force=true");
        Ok(match self.verb.as_str() {
            "create" => (Method::POST, "application/json"),
            "update" => (Method::PUT, "application/json"),
            // Only an apply can be forced. Source: kubernetes.io, Server-Side Apply.
            "patch" if forced => (Method::PATCH, "application/apply-patch+yaml"),
            "patch" if self.uri.starts_with(NODES) => {
                (Method::PATCH, "application/strategic-merge-patch+json")
            }
            "patch" => (Method::PATCH, "application/merge-patch+json"),
            "delete" => (Method::DELETE, "application/json"),
            other => bail!("a write by {other}"),
        })
    }

    /// Whether the answer says nothing but the version.
    fn is_brief(&self) -> bool {
        self.uri.contains(BRIEF)
    }

    /// Sends it, to an object of which this is known. What is known then, if the answer says so.
    pub(super) async fn send(&self, client: &Client, known: &Known) -> anyhow::Result<Option<Known>> {
        let mut body = self.body.clone();
        known.put_into(&mut body);
        let (method, content_type) = self.method()?;
        let answer = send(client, method, &self.uri, content_type, &body).await?;
        let Answer { metadata } = serde_json::from_slice(&answer).context("an answer")?;
        if self.is_brief() {
            return Ok(Some(Known { resource_version: metadata.resource_version, ..known.clone() }));
        }
        Ok(Some(metadata).filter(|known| !known.uid.is_empty()))
    }
}

/// What a write may name of the object as it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Known {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: Known,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Answer>,
}

impl Known {
    /// What the metadata of an object say.
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            name: text(&metadata.name),
            namespace: text(&metadata.namespace),
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
        }
    }

    /// Makes a body that named another object, or another state of it, name this one.
    fn put_into(&self, body: &mut Value) {
        let places = [
            ("/metadata/uid", &self.uid),
            ("/metadata/resourceVersion", &self.resource_version),
            ("/preconditions/uid", &self.uid),
        ];
        for (place, value) in places {
            if let Some(found) = body.pointer_mut(place).filter(|found| found.is_string()) {
                *found = json!(value);
            }
        }
    }
}

/// A control plane without cluster manager.
pub(super) struct Empty {
    place: Node,
    _audit: Audit,
    rig: Rig,
}

impl Empty {
    /// Starts it with Nodes and Namespaces.
    pub(super) async fn open(nodes: usize, namespaces: &[String]) -> anyhow::Result<Self> {
        let (audit, options) = Audit::with_writes(RigOptions::bare())?;
        let (rig, token) = control_plane(options).await?;
        let client = rig.client();
        let nodes: Vec<String> = (0..nodes).map(|number| format!("n{number}")).collect();
        all(nodes.iter().map(|name| make_node(&client, name))).await?;
        make_namespaces(&client, namespaces).await?;
        let place = rig.node("plain").unregistered().start().await?;
        place.write(LOGIN, rig.kubeconfig_of(&token, Side::Inside)?)?;
        Ok(Self { place, _audit: audit, rig })
    }

    /// The bench's own way to it.
    pub(super) fn client(&self) -> Client {
        self.rig.client()
    }

    /// Writes a file for a client.
    pub(super) fn write(&self, file: &str, content: &[u8]) -> anyhow::Result<()> {
        self.place.write(file, content)
    }

    /// Starts a client with these arguments.
    pub(super) async fn spawn(&self, arguments: [&str; 3]) -> anyhow::Result<Process> {
        self.place.spawn_built("causeway-bench", arguments).await
    }

    /// How long the plain client takes for these writes.
    pub(super) async fn time(&self, lanes: &[Lane]) -> anyhow::Result<Duration> {
        self.write(LANES, &serde_json::to_vec(lanes)?)?;
        let client = self.spawn(["same-writes", LANES, LOGIN]).await?;
        let status = client.wait_exit(PATIENCE).await?;
        let log = client.log_text()?;
        ensure!(status.success(), "the plain client failed: {log}");
        let took = log.lines().rev().find_map(|line| line.strip_prefix(ANSWER));
        let took = took.and_then(|took| took.parse().ok()).with_context(|| format!("no answer in {log}"))?;
        Ok(Duration::from_micros(took))
    }
}

/// The client itself: prints how long it took.
///
/// # Errors
/// The API server refuses a write.
pub async fn run(lanes: &Path, login: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(lanes).context("reading the writes")?;
    let lanes: Vec<Lane> = serde_json::from_str(&text).context("reading the writes")?;
    let own = Client::try_default().await.context("a client")?;
    let (manager, known) = (manager(login).await?, known(&own).await?);
    let start = Instant::now();
    let work = lanes.iter().map(|lane| {
        let known = lane.first().and_then(|step| known.get(&step.object())).cloned().unwrap_or_default();
        along(lane, known, &own, &manager)
    });
    stream::iter(work).buffer_unordered(WIDTH).try_collect::<Vec<()>>().await?;
    println!("{ANSWER}{}", start.elapsed().as_micros());
    Ok(())
}

/// A client with the cluster manager's account.
pub(super) async fn manager(login: &Path) -> anyhow::Result<Client> {
    let login = Kubeconfig::read_from(login).context("reading the kubeconfig")?;
    let config = kube::Config::from_custom_kubeconfig(login, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("a client")
}

/// What is there, by path.
pub(super) async fn known(client: &Client) -> anyhow::Result<HashMap<String, Known>> {
    let mut known = HashMap::new();
    for path in LISTS {
        let list = send(client, Method::GET, path, "application/json", &Value::Null).await?;
        let list: List = serde_json::from_slice(&list).context("a list")?;
        for Answer { metadata } in list.items {
            let path = if metadata.namespace.is_empty() {
                format!("{path}/{}", metadata.name)
            } else {
                let (root, plural) = path.rsplit_once('/').context("a path")?;
                format!("{root}/namespaces/{}/{plural}/{}", metadata.namespace, metadata.name)
            };
            known.insert(path, metadata);
        }
    }
    Ok(known)
}

async fn along(lane: &Lane, mut known: Known, own: &Client, manager: &Client) -> anyhow::Result<()> {
    for step in lane {
        let client = if step.own { own } else { manager };
        known = step.send(client, &known).await?.unwrap_or(known);
    }
    Ok(())
}

async fn send(
    client: &Client,
    method: Method,
    uri: &str,
    content_type: &str,
    body: &Value,
) -> anyhow::Result<Vec<u8>> {
    let what = format!("{method} {uri}");
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
    let accept = if uri.contains(BRIEF) { TABLE } else { "application/json" };
    let request = Request::builder().method(method).uri(uri).header("content-type", content_type);
    let request = request.header("accept", accept);
    let response = client.send(request.body(Body::from(bytes))?).await.with_context(|| what.clone())?;
    let status = response.status();
    let answer = response.into_body().collect_bytes().await.with_context(|| what.clone())?;
    ensure!(status.is_success(), "{what}: {status}: {}", String::from_utf8_lossy(&answer));
    Ok(answer.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(verb: &str, uri: &str, body: Value) -> Write {
        Write { verb: verb.to_owned(), uri: uri.to_owned(), body }
    }

    #[test]
    fn writes_of_one_object_keep_their_order_and_the_longest_row_begins() {
        let named = json!({"metadata": {"name": "a"}});
        let writes = vec![
            write("patch", &format!("{NETWORKS}/a?fieldManager=x&force=true"), json!({})),
            write("create", "/n/namespaces/b/nads?fieldManager=x", named.clone()),
            write("patch", &format!("{NETWORKS}/a/status?fieldManager=x&force=true"), json!({})),
        ];
        let found = lanes([creation("a")], writes);
        let told: Vec<Vec<&str>> =
            found.iter().map(|lane| lane.iter().map(|step| step.verb.as_str()).collect()).collect();
        assert_eq!(told, [vec!["create", "patch", "patch"], vec!["create"]]);
        let kinds: Vec<&str> = found.iter().flatten().map(|step| step.method().unwrap().1).collect();
        assert_eq!(
            kinds,
            [
                "application/json",
                "application/apply-patch+yaml",
                "application/apply-patch+yaml",
                "application/json"
            ]
        );
    }

    #[test]
    fn a_write_names_the_object_that_is_there_and_only_where_it_named_one() {
        let known = Known { uid: "new".into(), resource_version: "7".into(), ..Known::default() };
        let mut body = json!({"metadata": {"uid": "old", "resourceVersion": "1", "name": "a"}});
        known.put_into(&mut body);
        assert_eq!(body, json!({"metadata": {"uid": "new", "resourceVersion": "7", "name": "a"}}));
        let mut body = json!({"preconditions": {"uid": "old"}});
        known.put_into(&mut body);
        assert_eq!(body, json!({"preconditions": {"uid": "new"}}));
        let mut body = json!({"metadata": {"name": "a"}});
        known.put_into(&mut body);
        assert_eq!(body, json!({"metadata": {"name": "a"}}));
    }
}
