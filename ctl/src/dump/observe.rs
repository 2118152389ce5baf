//! Gathers the documents of a dump.

use std::path::PathBuf;

use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_runtime::telemetry::chain;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Gathered, redact};
use crate::agent;
use crate::check::{self, Report};
use crate::cluster::{self, NodeRow, list, why};
use crate::error::CtlError;
use crate::explain::model::World;
use crate::explain::plan::explain;
use crate::output::Shown;

/// Kinds whose events belong to a dump.
const EVENT_KINDS: &[&str] = &["Uplink", "UplinkState", "Node"];

/// Annotations of Nodes that belong to a dump; all others stay out.
const NODE_ANNOTATIONS: &[&str] = &["k8s.ovn.org/", "causeway.internal/"];

impl Gathered {
    /// Adds a document, without credentials.
    fn add(&mut self, path: &str, document: &impl Serialize) {
        match serde_json::to_value(document) {
            Ok(mut value) => {
                self.removed += redact::document(&mut value);
                self.files.insert(path.to_owned(), format!("{value:#}\n").into_bytes());
            }
            Err(error) => self.lack(path, &error.to_string()),
        }
    }

    fn add_text(&mut self, path: &str, text: &str) {
        let (kept, removed) = redact::lines(text);
        self.removed += removed;
        self.files.insert(path.to_owned(), kept.into_bytes());
    }

    fn lack(&mut self, part: &str, why: &str) {
        let (why, removed) = redact::lines(why);
        self.removed += removed;
        self.missing.insert(part.to_owned(), why.trim_end().to_owned());
    }
}

/// Gathers. Agents that were asked for and do not answer are missing parts, too.
///
/// # Errors
/// The API server does not answer at all.
pub async fn gather(client: &Client, sockets: &[PathBuf], now: Timestamp) -> Result<Gathered, CtlError> {
    let facts = check::observe::facts(client).await?;
    let mut gathered = Gathered::default();
    let (major, minor, text) = &facts.server;
    let versions = json!({
        "causewayctl": env!("CARGO_PKG_VERSION"),
        "apiServer": {"major": major, "minor": minor, "gitVersion": text},
    });
    gathered.add("versions.json", &versions);
    gathered.add("check.json", &Report::of(check::plan::judge(&facts)));
    match &facts.pods {
        Ok(pods) => gathered.add("pods.json", pods),
        Err(why) => gathered.lack("pods.json", why),
    }
    let agents = agents(&mut gathered, sockets).await;
    let nodes = cluster::nodes(client).await;
    match &nodes {
        Ok(nodes) => gathered.add("nodes.json", &nodes.iter().map(relevant).collect::<Vec<_>>()),
        Err(error) => gathered.lack("nodes.json", &chain(error).to_string()),
    }
    let states = objects::<UplinkState>(client, "uplinkstates", &mut gathered).await;
    let uplinks = objects::<Uplink>(client, "uplinks", &mut gathered).await;
    if let (Ok(nodes), Some(states)) = (nodes, states) {
        for uplink in uplinks.into_iter().flatten() {
            let name = uplink.metadata.name.clone().unwrap_or_default();
            let (nodes, states, agents) = (nodes.clone(), states.clone(), agents.clone());
            let world = World { uplink, nodes, states, agents, only: None, now };
            gathered.add_text(&format!("explain/{name}.txt"), &explain(&world).text(now));
        }
    }
    events(client, &mut gathered).await;
    Ok(gathered)
}

async fn agents(gathered: &mut Gathered, sockets: &[PathBuf]) -> Vec<agent::AgentView> {
    let usual = [PathBuf::from(causeway_proto::INTROSPECT_SOCKET)];
    let asked = if sockets.is_empty() { &usual } else { sockets };
    let mut agents = Vec::new();
    for (index, socket) in asked.iter().enumerate() {
        match agent::ask(socket, None).await {
            Ok(view) => {
                gathered.add(&format!("agents/{index}-{}-{}.json", view.program, view.node), &view);
                agents.push(view);
            }
            Err(error) => {
                gathered.lack(&format!("agents/{index} ({})", socket.display()), &chain(&error).to_string());
            }
        }
    }
    agents
}

/// A Node without what is nobody's business.
fn relevant(node: &NodeRow) -> NodeRow {
    let ours = |key: &String| NODE_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix));
    let mut node = node.clone();
    node.annotations.retain(|key, _| ours(key));
    node
}

/// Adds every object of a kind as a file of its own.
async fn objects<K>(client: &Client, folder: &str, gathered: &mut Gathered) -> Option<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Serialize,
{
    match list(&Api::<K>::all(client.clone()), &ListParams::default()).await {
        Ok(objects) => {
            for object in &objects {
                let name = object.meta().name.clone().unwrap_or_default();
                gathered.add(&format!("{folder}/{name}.json"), object);
            }
            Some(objects)
        }
        Err(error) => {
            gathered.lack(folder, &why(&error));
            None
        }
    }
}

async fn events(client: &Client, gathered: &mut Gathered) {
    let api: Api<Event> = Api::all(client.clone());
    let mut all: Vec<Value> = Vec::new();
    for kind in EVENT_KINDS {
        match list(&api, &ListParams::default().fields(&format!("involvedObject.kind={kind}"))).await {
            Ok(events) => all.extend(events.iter().filter_map(|event| serde_json::to_value(event).ok())),
            Err(error) => gathered.lack(&format!("events of {kind}s"), &why(&error)),
        }
    }
    gathered.add("events.json", &all);
}
