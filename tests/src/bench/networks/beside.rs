//! A plain client that makes one network beside each that the cluster manager makes.
//!
//! It works at an API server of its own, which holds what the cluster manager's holds and has the same policies, under the
//! same account. As the cluster manager does, it hears of a network by a watch. Then it sends the very same writes that the
//! cluster manager sent for the network of that name, in the same causal order ([`causes`]). It knows them beforehand, so
//! what it takes is what the API server and the way to it take.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_rig::{Mark, Process};
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use kube::{Api, Client, Resource, ResourceExt};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::super::audit::Write;
use super::super::process::cpu;
use super::field::{Round, make_namespaces, make_one};
use super::rerun::{Empty, Known, LOGIN, NETWORKS, Step, creation, known, lanes, manager};
use super::sight::{PATIENCE, Sight, follow};

/// The writes for the next network, inside the client's place.
const NEXT: &str = "/etc/causeway/next.json";
/// What the client says when it can be told of a network.
const UP: &str = "up";
/// What it says when it knows the next network's writes.
const READY: &str = "ready for ";
/// What it says when it has sent them all.
const DONE: &str = "done with ";
/// Requests at a time that the client has connections for from the beginning.
const CONNECTIONS: usize = 8;
/// Networks that may have come before the client looks for one.
const QUEUE: usize = 64;

/// The API server without cluster manager, and the client.
pub(super) struct Beside {
    empty: Empty,
    api: Client,
    sight: Sight,
    client: Process,
    nodes: usize,
}

/// A network and what is written for it, in the order of the answers.
#[derive(Debug, Deserialize, Serialize)]
struct Next {
    network: String,
    steps: Vec<Step>,
}

impl Beside {
    /// Starts both, with what the cluster manager's API server holds: so many Nodes, these networks with their namespaces, and
    /// what was written for all of that.
    pub(super) async fn open(nodes: usize, networks: &[String], writes: Vec<Write>) -> anyhow::Result<Self> {
        let empty = Empty::open(nodes, networks).await?;
        empty.time(&lanes(networks.iter().map(|name| creation(name)), writes)).await?;
        let api = empty.client();
        let mut sight = Sight::open(&api);
        sight.all_there(networks.len(), nodes).await?;
        let client = empty.spawn(["one-network", NEXT, LOGIN]).await?;
        client.says(Mark::START, UP, PATIENCE).await?;
        Ok(Self { empty, api, sight, client, nodes })
    }

    /// Makes namespaces for networks to come.
    pub(super) async fn make_namespaces(&self, names: &[String]) -> anyhow::Result<()> {
        make_namespaces(&self.api, names).await
    }

    /// CPU time of the client so far.
    pub(super) fn spent(&self) -> anyhow::Result<Duration> {
        cpu(&self.client)
    }

    /// Makes one network, for which the cluster manager wrote this: how long until it is created, and until it is on all Nodes.
    pub(super) async fn one(&mut self, network: &str, writes: Vec<Write>) -> anyhow::Result<Round> {
        let steps = writes.into_iter().map(Step::of).collect();
        let next = Next { network: network.to_owned(), steps };
        self.empty.write(NEXT, &serde_json::to_vec(&next)?)?;
        let said = self.client.mark()?;
        self.client.signal(Signal::SIGHUP)?;
        self.client.says(said, &format!("{READY}{network}\n"), PATIENCE).await?;
        let took = make_one(&self.api, &mut self.sight, network, self.nodes).await;
        let took = took.with_context(|| format!("beside: {}", self.client.log_text().unwrap_or_default()))?;
        self.client.says(said, &format!("{DONE}{network}\n"), PATIENCE).await?;
        Ok(took)
    }
}

/// The client itself: makes a network each time it is told what to write by a hang-up, until it is killed.
///
/// # Errors
/// The API server refuses a write, or a watch ends.
pub async fn run(next: &Path, login: &Path) -> anyhow::Result<()> {
    let client = manager(login).await?;
    let mut there = known(&client).await?;
    // The cluster manager has its connections when the first network comes.
    try_join_all((0..CONNECTIONS).map(|_| client.apiserver_version()))
        .await
        .context("asking for the version")?;
    let mut told = signal(SignalKind::hangup()).context("listening for signals")?;
    let (came, mut networks) = mpsc::channel(QUEUE);
    let watched: Api<ClusterUserDefinedNetwork> = Api::all(client.clone());
    let watch = follow(watched, |network, there| {
        // Where the queue is full nobody waits for one, and what is in it is of the past.
        if there {
            drop(came.try_send(network));
        }
    });
    let work = async {
        println!("{UP}");
        while told.recv().await.is_some() {
            let next = read(next)?;
            while networks.try_recv().is_ok() {}
            println!("{READY}{}", next.network);
            let network = loop {
                let network: ClusterUserDefinedNetwork = networks.recv().await.context("the watch ended")?;
                if network.name_any() == next.network {
                    break network;
                }
            };
            there.insert(format!("{NETWORKS}/{}", next.network), Known::of(network.meta()));
            send_all(&client, &next.steps, &mut there).await?;
            println!("{DONE}{}", next.network);
        }
        anyhow::Ok(())
    };
    tokio::try_join!(watch, work).map(drop)
}

fn read(path: &Path) -> anyhow::Result<Next> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).context("reading the writes")
}

/// Sends each write as soon as those are answered that it waits for.
async fn send_all(client: &Client, steps: &[Step], there: &mut HashMap<String, Known>) -> anyhow::Result<()> {
    let mut waiting: Vec<Option<BTreeSet<usize>>> = causes(steps).into_iter().map(Some).collect();
    let mut running = FuturesUnordered::new();
    loop {
        for (index, (step, causes)) in steps.iter().zip(&mut waiting).enumerate() {
            if causes.take_if(|causes| causes.is_empty()).is_some() {
                let known = there.get(&step.object()).cloned().unwrap_or_default();
                running.push(async move { (index, step.send(client, &known).await) });
            }
        }
        let Some((done, answer)) = running.next().await else { break };
        if let (Some(step), Some(answer)) = (steps.get(done), answer?) {
            there.insert(step.object(), answer);
        }
        for causes in waiting.iter_mut().flatten() {
            causes.remove(&done);
        }
    }
    ensure!(waiting.iter().all(Option::is_none), "writes that wait for each other");
    Ok(())
}

/// Which writes each write waits for, as with the cluster manager: those of one object go one after the other, each builds on
/// the one before. A network is told that it is made when it has its definitions, and Nodes are annotated when it was told.
/// Nothing else waits: its finalizer goes out with the definitions, and Nodes are annotated while it is told how it fares.
fn causes(steps: &[Step]) -> Vec<BTreeSet<usize>> {
    let mut last: HashMap<String, usize> = HashMap::new();
    let mut made: BTreeSet<usize> = BTreeSet::new();
    let mut told: Option<usize> = None;
    let mut all = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        let mut causes = BTreeSet::new();
        causes.extend(last.insert(step.object(), index));
        if step.is_creation() {
            made.insert(index);
        } else if step.is_status() {
            causes.extend(made.iter().copied());
            causes.extend(told);
            if told.is_none() && step.object().starts_with(NETWORKS) {
                told = Some(index);
            }
        }
        all.push(causes);
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(uri: &str) -> Step {
        Step::of(Write { verb: "patch".to_owned(), uri: format!("{uri}?fieldManager=x"), body: json!({}) })
    }

    fn definition(namespace: &str) -> Step {
        let uri = format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/nads?fieldManager=x");
        Step::of(Write { verb: "create".to_owned(), uri, body: json!({"metadata": {"name": "a"}}) })
    }

    #[test]
    fn writes_wait_for_what_they_build_on_and_for_nothing_else() {
        let network = format!("{NETWORKS}/a");
        let steps = [
            definition("one"),
            patch(&network),
            definition("two"),
            patch(&format!("{network}/status")),
            patch("/api/v1/nodes/n0/status"),
            patch("/api/v1/nodes/n1/status"),
            patch(&format!("{network}/status")),
        ];
        let found: Vec<Vec<usize>> = causes(&steps).into_iter().map(|of| of.into_iter().collect()).collect();
        let want: [&[usize]; 7] = [&[], &[], &[], &[0, 1, 2], &[0, 2, 3], &[0, 2, 3], &[0, 2, 3]];
        assert_eq!(found, want);
    }
}
