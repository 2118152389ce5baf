//! Uplinks and the networks that use them.

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};
use serde_json::{Value, json};

use crate::objects::{cudn, layer3, node, pod, tenant};
use crate::world::{DYNAMIC, World, condition};
use causeway_tests::control::path_of;

pub(crate) fn add(suite: Suite) -> Suite {
    suite
        .test(Level::Api, "the_finalizer_of_an_uplink_follows_the_networks_that_use_it", finalizer)
        .test(Level::Api, "an_overlap_on_a_node_that_a_network_does_not_use_is_the_uplinks_alone", overlap)
        .test(
            Level::Api,
            "networks_in_vrfs_of_their_own_cannot_share_an_uplink_and_each_is_told_by_whom",
            sharing,
        )
        .test(Level::Api, "without_dynamic_allocation_every_node_needs_every_network_again", everywhere)
}

/// An Uplink with an entry for each label of nodes.
fn uplink(name: &str, entries: &[(&str, &str)]) -> Value {
    let configs: Vec<Value> = entries
        .iter()
        .map(|(key, value)| {
            json!({"type": "OVSBridge", "hostInterfaceName": "br-out", "nodeSelector": {"matchLabels": {*key: value}}})
        })
        .collect();
    json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "metadata": {"name": name},
        "spec": {"nodeConfigs": configs}})
}

/// What a node says of an Uplink on which everything is ready.
fn state(uplink: &str, node: &str) -> Value {
    let condition = |type_: &str, reason: &str| json!({"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState", "metadata": {"name": format!("{uplink}.{node}")},
        "spec": {"uplinkName": uplink, "nodeName": node},
        "status": {"type": "OVSBridge", "hostInterfaceName": "br-out", "conditions":
            [condition("Resolved", "Resolved"), condition("GatewayReady", "GatewayConfigured")]}})
}

/// A network over an Uplink.
fn over(name: &str, team: &str, uplink: &str) -> Value {
    let mut network = cudn(name, ("team", team), &layer3("Primary", "10.20.0.0/16", 24));
    if let Some(spec) = network.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("uplinks".to_owned(), json!([uplink]));
    }
    network
}

const OURS: &str = "k8s.ovn.org/uplink-protection";

/// Waits until an Uplink has our finalizer, or has it no more.
async fn protected(world: &World, uplink: &Value, is: bool) -> anyhow::Result<()> {
    let path = path_of(uplink)?;
    let look = || async {
        let uplink = world.get(&path).await.map_err(|error| format!("{error:#}"))?.ok_or("it is gone")?;
        let all = uplink.pointer("/metadata/finalizers").and_then(Value::as_array);
        let has = all.is_some_and(|all| all.contains(&json!(OURS)));
        if has == is { Ok(()) } else { Err(format!("{all:?}")) }
    };
    world.until(&format!("our finalizer on {path} to be {is}"), look).await
}

async fn finalizer() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (blue, red) = (uplink("br-blue", &[("rack", "r1")]), uplink("br-red", &[("rack", "r1")]));
    world
        .create_all(&[
            node("n1", &[("rack", "r1")]),
            tenant("a", &[("team", "a")]),
            tenant("b", &[("team", "b")]),
        ])
        .await?;
    // The networks first: what they name is not there yet.
    let (one, two) = (over("one", "a", "br-blue"), over("two", "b", "br-blue"));
    world.create_all(&[one.clone(), two.clone()]).await?;
    world.says(&one, "UplinksReady", "False/UplinkNotFound: Uplink br-blue is missing").await?;
    world.is_made(&one).await?;
    world.create_all(&[blue.clone(), red.clone(), state("br-blue", "n1")]).await?;
    protected(&world, &blue, true).await?;
    protected(&world, &red, false).await?;
    world.says(&one, "UplinksReady", "True/UplinksReady: ").await?;

    // One of two goes, and the other still holds it.
    world.delete(&path_of(&one)?).await?;
    world.is_gone(&path_of(&one)?).await?;
    world.rest().await?;
    protected(&world, &blue, true).await?;
    // Made again over another Uplink, it holds that one; the last user of the first lets it go.
    let moved = over("one", "a", "br-red");
    world.create(&moved).await?;
    protected(&world, &red, true).await?;
    world.delete(&path_of(&two)?).await?;
    protected(&world, &blue, false).await?;

    // A finalizer that somebody takes off comes back; one of somebody else is not touched.
    world.merge(&path_of(&red)?, &json!({"metadata": {"finalizers": ["example.com/theirs"]}})).await?;
    protected(&world, &red, true).await?;
    // A terminating Uplink stays as long as a network uses it, and what it says is so.
    world.create(&state("br-red", "n1")).await?;
    world.says(&moved, "UplinksReady", "True/UplinksReady: ").await?;
    world.delete(&path_of(&red)?).await?;
    world.says(&red, "Ready", "False/UplinkTerminating: ").await?;
    world.says(&moved, "UplinksReady", "False/UplinkTerminating: ").await?;
    let late = over("late", "b", "br-red");
    world.create(&late).await?;
    world.says(&late, "UplinksReady", "False/UplinkTerminating: ").await?;
    ensure!(world.get(&path_of(&state("br-red", "n1"))?).await?.is_some(), "its state went before its users");
    world.delete(&path_of(&moved)?).await?;
    world.is_gone(&path_of(&moved)?).await?;
    world.rest().await?;
    protected(&world, &red, true).await?;
    world.delete(&path_of(&late)?).await?;
    world.is_gone(&path_of(&state("br-red", "n1"))?).await?;
    protected(&world, &red, false).await?;
    let left = world.get(&path_of(&red)?).await?.context("the Uplink that somebody else holds")?;
    ensure!(left.pointer("/metadata/finalizers") == Some(&json!(["example.com/theirs"])), "{left}");
    world.restart_writes_nothing().await
}

async fn overlap() -> anyhow::Result<()> {
    let world = World::start_with(&[DYNAMIC]).await?;
    let out = uplink("out", &[("rack", "r1"), ("gpu", "yes")]);
    world
        .create_all(&[
            tenant("a", &[("team", "a")]),
            node("n1", &[("rack", "r1")]),
            node("n3", &[("rack", "r1"), ("gpu", "yes")]),
            out.clone(),
            state("out", "n1"),
        ])
        .await?;
    let network = over("net", "a", "out");
    world.create(&network).await?;
    world.says(&out, "Ready", "False/NodeSelectorOverlap: ").await?;
    // Nobody needs it anywhere, then where it is ready.
    world.says(&network, "UplinksReady", "True/UplinksReady: ").await?;
    world.create(&pod("a", "p1", "n1", &[])).await?;
    world.says(&network, "NodesSelected", "True/DynamicAllocation: 1 node(s) rendered with network").await?;
    world.rest().await?;
    world.says(&network, "UplinksReady", "True/UplinksReady: ").await?;
    world.create(&pod("a", "p3", "n3", &[])).await?;
    let told = "False/UplinkOverlapOnNode: 1 active node/uplink readiness check(s) failed; examples: \
                out/n3=UplinkOverlapOnNode";
    world.says(&network, "UplinksReady", told).await?;
    // At once when the last pod is gone, though the node keeps what it has for a while.
    world.delete("/api/v1/namespaces/a/pods/p3").await?;
    world.says(&network, "UplinksReady", "True/UplinksReady: ").await?;
    ensure!(!world.subnet("n3", "cluster_udn_net").await?.is_empty(), "the node lost its subnet at once");
    Ok(())
}

async fn everywhere() -> anyhow::Result<()> {
    let mut world = World::start_with(&[DYNAMIC]).await?;
    let out = uplink("out", &[("rack", "r1")]);
    let network = over("net", "a", "out");
    world
        .create_all(&[
            tenant("a", &[("team", "a")]),
            node("n1", &[("rack", "r1")]),
            node("n2", &[]),
            out,
            state("out", "n1"),
            network.clone(),
            pod("a", "p", "n1", &[]),
        ])
        .await?;
    world.share(&["n1"], "cluster_udn_net", &["10.20.0.0/24"]).await?;
    world.says(&network, "UplinksReady", "True/UplinksReady: ").await?;
    ensure!(world.subnet("n2", "cluster_udn_net").await?.is_empty(), "nobody needs it there");
    world.manage_without(DYNAMIC).await?;
    world.share(&["n1", "n2"], "cluster_udn_net", &["10.20.0.0/24", "10.20.1.0/24"]).await?;
    ensure!(world.subnet("n1", "cluster_udn_net").await? == "10.20.0.0/24", "its subnet moved");
    let path = path_of(&network)?;
    let withdrawn = || async {
        let network = world.get(&path).await.map_err(|error| format!("{error:#}"))?.ok_or("it is gone")?;
        condition(&network, "NodesSelected").map_or(Ok(()), Err)
    };
    world.until("nobody to count nodes any more", withdrawn).await?;
    // From then on the Uplink has to select every node.
    let told = "False/UplinkNotFoundForNode: 1 active node/uplink readiness check(s) failed; examples: \
                out/n2=UplinkNotFoundForNode";
    world.says(&network, "UplinksReady", told).await
}

/// RouteAdvertisements of the networks with a label to VRFs of their own.
fn advertise(tenant: &str) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements", "metadata": {"name": tenant}, "spec": {
        "targetVRF": "auto", "nodeSelector": {}, "frrConfigurationSelector": {}, "advertisements": ["PodNetwork"],
        "networkSelectors": [{
            "networkSelectionType": "ClusterUserDefinedNetworks",
            "clusterUserDefinedNetworkSelector": {"networkSelector": {"matchLabels": {"tenant": tenant}}},
        }],
    }})
}

/// What whoever looks after RouteAdvertisements says of one in its first generation.
async fn accept(world: &World, advertisement: &Value) -> anyhow::Result<()> {
    let accepted = json!({"type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let path = format!("{}/status", path_of(advertisement)?);
    world.merge(&path, &json!({"status": {"conditions": [accepted]}})).await
}

async fn sharing() -> anyhow::Result<()> {
    let world = World::start_with(&["--enable-route-advertisements"]).await?;
    let labelled = |name: &str, team: &str| {
        let mut network = over(name, team, "out");
        if let Some(metadata) = network.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels".to_owned(), json!({"tenant": name}));
        }
        network
    };
    let (one, two) = (labelled("one", "a"), labelled("two", "b"));
    let (of_one, of_two) = (advertise("one"), advertise("two"));
    world
        .create_all(&[
            node("n1", &[("rack", "r1")]),
            node("n2", &[("rack", "r1")]),
            tenant("a", &[("team", "a")]),
            tenant("b", &[("team", "b")]),
            uplink("out", &[("rack", "r1")]),
            state("out", "n1"),
            state("out", "n2"),
            one.clone(),
            two.clone(),
            of_one.clone(),
            of_two.clone(),
        ])
        .await?;
    // In the default domain any number may share; one that is apart is alone.
    for network in [&one, &two] {
        world.says(network, "UplinksReady", "True/UplinksReady: ").await?;
    }
    accept(&world, &of_one).await?;
    world.rest().await?;
    for network in [&one, &two] {
        world.says(network, "UplinksReady", "True/UplinksReady: ").await?;
    }
    accept(&world, &of_two).await?;
    let told = |other: &str| {
        format!(
            "False/UplinkConfigurationConflict: 2 active node/uplink readiness check(s) failed; examples: \
             out/n1=UplinkConfigurationConflict (also used by {other}), \
             out/n2=UplinkConfigurationConflict (also used by {other})"
        )
    };
    world.says(&one, "UplinksReady", &told("two")).await?;
    world.says(&two, "UplinksReady", &told("one")).await?;
    world.restart_writes_nothing().await?;

    // Each of these ends it, and the other network hears of it.
    world.merge(&path_of(&two)?, &json!({"metadata": {"labels": {"tenant": "none"}}})).await?;
    world.says(&one, "UplinksReady", "True/UplinksReady: ").await?;
    world.says(&two, "UplinksReady", "True/UplinksReady: ").await?;
    world.merge(&path_of(&two)?, &json!({"metadata": {"labels": {"tenant": "two"}}})).await?;
    world.says(&one, "UplinksReady", &told("two")).await?;
    world.delete(&path_of(&of_two)?).await?;
    world.says(&one, "UplinksReady", "True/UplinksReady: ").await?;
    world.create(&of_two).await?;
    accept(&world, &of_two).await?;
    world.says(&one, "UplinksReady", &told("two")).await?;
    world.delete(&path_of(&two)?).await?;
    world.says(&one, "UplinksReady", "True/UplinksReady: ").await?;
    world.restart_writes_nothing().await
}
