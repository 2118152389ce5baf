//! What an Uplink costs in writes, and what people are told about it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::wait_object;
use causeway_tests::access::{self, Account};
use causeway_tests::states;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::world::{DEADLINE, UPSTREAM, World, uplink};

/// Requests of a test that run at a time.
const WIDTH: usize = 64;
/// Nodes of the large test.
const NODES: usize = 100;
/// Its Uplinks: each has a state on each node.
const UPLINKS: usize = 10;
/// Shortest time between two writes of one Uplink, in milliseconds.
const INTERVAL: usize = 100;

pub(crate) async fn make_node(client: &Client, name: String) -> anyhow::Result<()> {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": name, "labels": {"way": "out"}}}))?;
    Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await?;
    Ok(())
}

/// The status of a state that resolved its interface, or did not.
fn status(resolved: bool) -> serde_json::Value {
    let (status, reason) = if resolved { ("True", "Resolved") } else { ("False", "BridgeNotFound") };
    json!({"type": "OVSBridge", "hostInterfaceName": "br", "conditions": [{
        "type": "Resolved", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]})
}

pub(crate) async fn make_state(
    client: &Client,
    uplink: &str,
    node: &str,
    resolved: bool,
) -> anyhow::Result<()> {
    let state: UplinkState = serde_json::from_value(json!({
        "metadata": {"name": format!("{uplink}.{node}")},
        "spec": {"uplinkName": uplink, "nodeName": node},
        "status": status(resolved),
    }))?;
    Api::<UplinkState>::all(client.clone()).create(&PostParams::default(), &state).await?;
    Ok(())
}

pub(crate) async fn resolve(client: &Client, name: &str) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({ "status": status(true) }));
    let api: Api<UplinkState> = Api::all(client.clone());
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

pub(crate) async fn described() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (client, manager) = (world.client(), world.replica("a", UPSTREAM).await?);
    make_node(&client, "one".to_owned()).await?;
    world.rig.apply(&uplink("blue", "way: out")).await?;
    make_state(&client, "blue", "one", false).await?;
    states::uplink_says(&client, "blue", "False/UplinkStateNotResolved").await?;
    resolve(&client, "blue.one").await?;
    states::uplink_says(&client, "blue", "True/Ready").await?;
    make_node(&client, "two".to_owned()).await?;
    world.rig.apply(&uplink("red", "kubernetes.io/hostname: two")).await?;
    world.rig.kubectl(["label", "node", "two", "way-", "kubernetes.io/hostname=two"]).await?;
    let token = access::pod_token(&world.rig, Account::NodeAgent, "two").await?;
    let _agent = world.program("node-agent", "place-two", Some(&token), ["--init-node", "two"]).await?;
    states::uplink_says(&client, "red", "False/UplinkStateNotResolved").await?;
    let bad = uplink("bad", "way: out")
        .replace("matchLabels: {way: out}", "matchExpressions: [{key: way, operator: In}]");
    world.rig.apply(&bad).await?;
    states::uplink_says(&client, "bad", "False/InvalidSpec").await?;
    let described = |name: &'static str, lines: &'static [[&'static str; 3]]| {
        let rig = &world.rig;
        async move {
            let look = || async {
                let text =
                    rig.kubectl(["describe", "uplink", name]).await.map_err(|error| format!("{error:#}"))?;
                let events = text.split_once("Events:").map_or("", |(_, events)| events);
                let told = |line: &&[&str; 3]| {
                    events.lines().any(|told| line.iter().all(|word| told.contains(word)))
                };
                if lines.iter().all(|line| told(&line)) { Ok(()) } else { Err(text) }
            };
            rig.wait_for("kubectl describe to tell", DEADLINE, look).await
        }
    };
    described(
        "blue",
        &[
            ["Warning", "UplinkStateNotResolved", "one=BridgeNotFound"],
            ["Normal", "Ready", "all 1 selected node(s) are resolved"],
        ],
    )
    .await?;
    described("red", &[["Warning", "HostInterfaceNotFound", "two: Resolved: "]]).await?;
    described("bad", &[["Warning", "InvalidSpec", "its spec is not accepted"]]).await?;
    let lease =
        world.rig.kubectl(["describe", "lease", "-n", "ovn-kubernetes", "ovn-kubernetes-master"]).await?;
    ensure!(lease.contains("LeaderElection") && lease.contains("a became leader"), "the lease says {lease}");
    ensure!(manager.count("causeway_events_total{outcome=\"failed\"}").await? == 0, "events were refused");
    Ok(())
}

pub(crate) async fn three_states() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (client, manager) = (world.client(), world.replica("a", UPSTREAM).await?);
    manager.leads().await?;
    for node in ["n1", "n2", "n3"] {
        make_node(&client, node.to_owned()).await?;
    }
    world.rig.apply(&uplink("blue", "way: out")).await?;
    // As agents do it: all see the Uplink at the same time.
    let states = ["n1", "n2", "n3"].map(|node| make_state(&client, "blue", node, true));
    futures::future::try_join_all(states).await?;
    states::uplink_says(&client, "blue", "True/Ready").await?;
    manager.quiet(1).await?;
    let writes = manager.writes().await?;
    ensure!((1..=3).contains(&writes), "{writes} writes");
    Ok(())
}

/// How often each Uplink was seen in a new version.
struct Versions(BTreeMap<String, AtomicUsize>);

pub(crate) async fn thousand_states() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (client, manager) = (world.client(), world.replica("a", UPSTREAM).await?);
    let nodes: Vec<_> = (0..NODES).map(|node| make_node(&client, format!("n{node}"))).collect();
    stream::iter(nodes).buffer_unordered(WIDTH).try_collect::<Vec<()>>().await?;
    let names: Vec<String> = (0..UPLINKS).map(|number| format!("u{number}")).collect();
    for name in &names {
        world.rig.apply(&uplink(name, "way: out")).await?;
    }
    let pairs = || names.iter().flat_map(|uplink| (0..NODES).map(move |node| (uplink, format!("n{node}"))));
    let made = pairs().map(|(uplink, node)| {
        let client = client.clone();
        async move { make_state(&client, uplink, &node, false).await }
    });
    stream::iter(made).buffer_unordered(WIDTH).try_collect::<Vec<()>>().await?;
    // The last state was looked at: nothing is left to write.
    let all = format!("{NODES} of {NODES} selected node(s)");
    for name in &names {
        let says = |uplink: Option<&Uplink>| {
            uplink.is_some_and(|uplink| {
                let conditions = uplink.conditions();
                states::verdict(conditions, "Ready") == "False/UplinkStateNotResolved"
                    && states::message(conditions, "Ready").starts_with(&all)
            })
        };
        wait_object(Api::<Uplink>::all(client.clone()), name, &all, DEADLINE, says).await?;
    }
    manager.quiet(UPLINKS).await?;
    let before = manager.writes().await?;

    let versions = Arc::new(Versions(names.iter().map(|name| (name.clone(), AtomicUsize::new(0))).collect()));
    let (ready, mut all_ready) = watch::channel(0_usize);
    let (listed, mut is_listed) = watch::channel(false);
    let (counting, watched) = (Arc::clone(&versions), client.clone());
    let counter = tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(Api::<Uplink>::all(watched), Config::default()));
        let mut done = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(uplink)) => {
                    let name = uplink.metadata.name.clone().unwrap_or_default();
                    if let Some(count) = counting.0.get(&name) {
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    done.insert(name, states::verdict(uplink.conditions(), "Ready") == "True/Ready");
                    ready.send_replace(done.values().filter(|done| **done).count());
                }
                Ok(Event::InitDone) => drop(listed.send_replace(true)),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    });
    timeout(DEADLINE, is_listed.wait_for(|listed| *listed)).await??;

    let begun = Instant::now();
    let changed = pairs().map(|(uplink, node)| {
        let (client, name) = (client.clone(), format!("{uplink}.{node}"));
        async move { resolve(&client, &name).await }
    });
    stream::iter(changed).buffer_unordered(WIDTH).try_collect::<Vec<()>>().await?;
    let waited = timeout(DEADLINE, all_ready.wait_for(|ready| *ready == UPLINKS)).await;
    waited.context("the Uplinks did not become ready")??;
    let took = usize::try_from(begun.elapsed().as_millis())?;
    counter.abort();
    manager.quiet(UPLINKS).await?;

    let bound = took / INTERVAL + 1;
    let mut seen = 0;
    for (name, count) in &versions.0 {
        let count = count.load(Ordering::SeqCst);
        ensure!(count <= bound, "{name} was written {count} times in {took} ms: more than {bound}");
        seen += count;
    }
    manager.wrote(before + seen).await.context("not what was seen")?;
    ensure!(
        (UPLINKS..NODES * UPLINKS).contains(&seen),
        "one write for each change: nothing was put together"
    );
    Ok(())
}
