//! Input that cannot be used: who wrote it is told what is wrong, and everybody else goes on.

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};
use http::Method;
use serde_json::{Value, json};

use crate::objects::{config, cudn, layer2, layer3, nad, nad_path, node, node_path, plain, tenant, udn};
use crate::world::{World, condition};
use causeway_tests::control::path_of;
use causeway_tests::rest::send;

pub(crate) fn add(suite: Suite) -> Suite {
    suite
        .test(Level::Api, "a_definition_that_nobody_can_use_is_an_event_and_others_go_on", unusable)
        .test(Level::Api, "a_node_whose_subnets_are_no_json_is_told_of_and_others_go_on", garbage)
        .test(Level::Api, "a_topology_of_a_newer_api_is_told_and_others_go_on", future)
        .test(Level::Api, "of_two_networks_of_one_name_the_later_one_is_told_and_waits", namesakes)
        .test(
            Level::Api,
            "what_the_api_accepts_and_cannot_be_is_told_and_neither_ends_nor_wakes_the_manager",
            impossible,
        )
}

/// Network that a definition is annotated with, if it is of one.
async fn network_of(world: &World, namespace: &str, name: &str) -> anyhow::Result<Option<String>> {
    let nad = world.get(&nad_path(namespace, name)).await?.context("the definition")?;
    let name = nad.pointer("/metadata/annotations/k8s.ovn.org~1network-name").and_then(Value::as_str);
    Ok(name.map(str::to_owned))
}

async fn unusable() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_all(&[node("n1", &[]), tenant("hand", &[]), tenant("other", &[])]).await?;
    let overlap = "invalid subnet configuration: pod or join subnet overlaps with already configured internal \
                   subnets: user defined subnet \"10.96.0.0/17\" overlaps service subnet \"10.96.0.0/16\"";
    let own = |name: &str, changes: Value| config(&format!("hand/{name}"), "hand-made", &changes);
    let cases = [
        ("broken", "{".to_owned(), "error parsing Network Attachment Definition hand/broken: "),
        ("null", "null".to_owned(), "error parsing Network Attachment Definition hand/null: "),
        (
            "number",
            own("number", json!({"mtu": "1500"})),
            "error parsing Network Attachment Definition hand/number: ",
        ),
        (
            "elsewhere",
            own("other", json!({})),
            "net-attach-def name (hand/elsewhere) is inconsistent with config (hand/other)",
        ),
        ("topology", own("topology", json!({"topology": "layer9"})), "topology layer9 not supported"),
        ("role", own("role", json!({"role": "Primary"})), "invalid network role value Primary"),
        (
            "name",
            config("hand/name", "default", &json!({})),
            "invalid name in in secondary network netconf (default)",
        ),
        ("overlap", own("overlap", json!({"subnets": "10.96.0.0/17/24"})), overlap),
        (
            "tiny",
            own("tiny", json!({"topology": "layer2", "role": "primary", "subnets": "10.77.0.0/31"})),
            "subnet 10.77.0.0/31 is too small for a layer2 primary network",
        ),
    ];
    for (name, config, _) in &cases {
        world.create(&nad("hand", name, config)).await?;
    }
    for (name, _, why) in &cases {
        let told = format!("InvalidConfig: Failed to parse network config: {why}");
        world.hears("NetworkAttachmentDefinition", name, &told).await?;
        ensure!(network_of(&world, "hand", name).await?.is_none(), "{name} is of a network");
    }

    // A network beside them, one elsewhere, and one that somebody writes well.
    let (beside, elsewhere) = (
        udn("hand", "net", &layer3("Secondary", "10.20.0.0/16", 24)),
        udn("other", "net", &layer2("Primary", "10.30.0.0/16")),
    );
    world
        .create_all(&[beside.clone(), elsewhere.clone(), nad("hand", "good", &own("good", json!({})))])
        .await?;
    world.is_made(&beside).await?;
    world.is_made(&elsewhere).await?;
    world.has(&nad_path("hand", "good"), "/metadata/annotations/k8s.ovn.org~1network-id").await?;
    world.share(&["n1"], "hand_net", &["10.20.0.0/24"]).await?;
    world.share(&["n1"], "hand-made", &["10.40.0.0/24"]).await?;

    // A start in their presence is a start like any other.
    world.restart_writes_nothing().await?;
    for (name, _, _) in &cases {
        ensure!(network_of(&world, "hand", name).await?.is_none(), "{name} is of a network after a restart");
    }
    // Put right, each is what it says.
    let right = config("hand/broken", "late", &json!({"subnets": "10.41.0.0/16/24"}));
    world.merge(&nad_path("hand", "broken"), &json!({"spec": {"config": right}})).await?;
    world.share(&["n1"], "late", &["10.41.0.0/24"]).await
}

const SUBNETS: &str = "k8s.ovn.org/node-subnets";

async fn garbage() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (net, late) = (
        cudn("net", ("team", "a"), &layer3("Primary", "10.20.0.0/16", 24)),
        udn("b", "late", &layer3("Primary", "10.30.0.0/16", 24)),
    );
    world.create_all(&[tenant("a", &[("team", "a")]), tenant("b", &[]), net.clone()]).await?;
    world.create_all(&[node("n1", &[]), node("n2", &[]), node("n3", &[])]).await?;
    let all = ["10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24"];
    world.share(&["n1", "n2", "n3"], "cluster_udn_net", &all).await?;
    world.says(&net, "NetworkAllocationSucceeded", "True/").await?;
    let before = world.has(&node_path("n2"), "/metadata/annotations/k8s.ovn.org~1node-subnets").await?;

    for other in ["k8s.ovn.org/host-cidrs", "k8s.ovn.org/l3-gateway-config", "k8s.ovn.org/network-ids"] {
        world.annotate(&node_path("n2"), other, Some("{[")).await?;
    }
    world.annotate(&node_path("n2"), SUBNETS, Some("{\"default\"")).await?;
    let told = "False/InternalError: Network allocation failed for at least one node: n2, check UDN events for more info.";
    world.says(&net, "NetworkAllocationSucceeded", told).await?;
    let event = "NetworkAllocationFailed: Error occurred for node n2: failed to update node n2 annotation: ";
    world.hears("ClusterUserDefinedNetwork", "net", event).await?;

    // New networks and new nodes are served; the text stays, since nobody knows what it meant.
    world.create_all(&[late.clone(), node("n4", &[])]).await?;
    world.is_made(&late).await?;
    let of_late = ["10.30.0.0/24", "10.30.1.0/24", "10.30.2.0/24"];
    world.share(&["n1", "n3", "n4"], "b_late", &of_late).await?;
    world.says(&late, "NetworkAllocationSucceeded", "False/InternalError: ").await?;
    let node = world.get(&node_path("n2")).await?.context("n2")?;
    let text = |key: &str| {
        node.pointer(&format!("/metadata/annotations/k8s.ovn.org~1{key}")).and_then(Value::as_str)
    };
    ensure!(text("node-subnets") == Some("{\"default\""), "{node}");
    ensure!(text("host-cidrs") == Some("{[") && text("l3-gateway-config") == Some("{["), "{node}");
    world.restart_writes_nothing().await?;

    // Taken off, the node has what it had, and what came meanwhile.
    world.annotate(&node_path("n2"), SUBNETS, None).await?;
    world.says(&net, "NetworkAllocationSucceeded", "True/").await?;
    world.says(&late, "NetworkAllocationSucceeded", "True/").await?;
    let had: Value = serde_json::from_str(&before)?;
    for network in ["default", "cluster_udn_net"] {
        let subnet = had.get(network).and_then(|subnets| subnets.get(0)?.as_str()).context("a subnet")?;
        let has = world.subnet("n2", network).await?;
        ensure!(has == subnet, "{network}: {has}, and before {subnet}");
    }
    world.share(&["n2"], "b_late", &["10.30.3.0/24"]).await
}

/// Lets the API server take a topology that this version does not know, as a newer definition does.
async fn newer_api(world: &World, kind: &str, place: &str) -> anyhow::Result<()> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.k8s.ovn.org");
    let place =
        format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{place}topology/enum/-");
    let change = json!([{"op": "add", "path": place, "value": "Layer9"}]);
    let answer =
        send(&world.admin, Method::PATCH, &path, "application/json-patch+json", Some(&change)).await?;
    ensure!(answer.is_accepted(), "{}", answer.message());
    Ok(())
}

async fn future() -> anyhow::Result<()> {
    let world = World::start().await?;
    newer_api(&world, "userdefinednetworks", "").await?;
    newer_api(&world, "clusteruserdefinednetworks", "network/properties/").await?;
    world.create_all(&[tenant("a", &[("team", "a")]), plain("b", &[("team", "a")]), node("n1", &[])]).await?;
    let unknown = json!({"topology": "Layer9"});
    let (wide, narrow) = (cudn("wide", ("team", "a"), &unknown), udn("b", "narrow", &unknown));
    for object in [&wide, &narrow] {
        let taken = || async { world.create(object).await.map_err(|error| format!("{error:#}")) };
        world.until("the newer definition to be heeded", taken).await?;
    }
    let neighbour = udn("a", "net", &layer3("Primary", "10.20.0.0/16", 24));
    world.create(&neighbour).await?;
    world.is_made(&neighbour).await?;
    world.share(&["n1"], "a_net", &["10.20.0.0/24"]).await?;
    for (object, reason) in [(&wide, "NetworkAttachmentDefinitionSyncError"), (&narrow, "SyncError")] {
        let told = format!("False/{reason}: failed to generate NetworkAttachmentDefinition: ");
        world.says(object, "NetworkCreated", &told).await?;
        let object = world.get(&path_of(object)?).await?.context("the network")?;
        let text = condition(&object, "NetworkCreated").unwrap_or_default();
        ensure!(text.contains("Layer9"), "the value is named: {text}");
        ensure!(
            object.pointer("/spec/topology").or(object.pointer("/spec/network/topology"))
                == Some(&json!("Layer9")),
            "{object}"
        );
    }
    world.restart_writes_nothing().await?;
    for object in [&wide, &narrow] {
        world.delete(&path_of(object)?).await?;
        world.is_gone(&path_of(object)?).await?;
    }
    world.is_made(&neighbour).await
}

async fn namesakes() -> anyhow::Result<()> {
    let world = World::start().await?;
    let labels = &[("team", "a")][..];
    world
        .create_all(&[
            tenant("a", labels),
            tenant("b", labels),
            tenant("c", &[]),
            plain("d", &[]),
            node("n1", &[]),
        ])
        .await?;

    // Two definitions by hand that say different things about one network.
    let id = "/metadata/annotations/k8s.ovn.org~1network-id";
    world.create(&nad("a", "one", &config("a/one", "shared", &json!({"mtu": 1300})))).await?;
    world.has(&nad_path("a", "one"), id).await?;
    world
        .create(&nad(
            "b",
            "one",
            &config("b/one", "shared", &json!({"mtu": 1400, "subnets": "10.42.0.0/16/24"})),
        ))
        .await?;
    let told = "InvalidConfig: NAD b/one CNI config does not match that of network shared: mtu";
    world.hears("NetworkAttachmentDefinition", "one", told).await?;
    world.share(&["n1"], "shared", &["10.40.0.0/24"]).await?;
    world.delete(&nad_path("a", "one")).await?;
    world.has(&nad_path("b", "one"), id).await?;
    world.share(&["n1"], "shared", &["10.42.0.0/24"]).await?;

    // A definition by hand that takes the name of a tenant's network.
    world
        .create(&nad(
            "d",
            "taken",
            &config("d/taken", "c_net", &json!({"topology": "layer2", "subnets": "10.43.0.0/16"})),
        ))
        .await?;
    world.has(&nad_path("d", "taken"), id).await?;
    let tenants = udn("c", "net", &layer3("Primary", "10.20.0.0/16", 24));
    world.create(&tenants).await?;
    let told = "InvalidConfig: NAD c/net CNI config does not match that of network c_net: ";
    world.hears("NetworkAttachmentDefinition", "net", told).await?;
    let told = "False/InternalError: NAD c/net CNI config does not match that of network c_net: ";
    world.says(&tenants, "NetworkAllocationSucceeded", told).await?;
    world.delete(&nad_path("d", "taken")).await?;
    world.share(&["n1"], "c_net", &["10.20.0.0/24"]).await?;
    world.says(&tenants, "NetworkAllocationSucceeded", "True/").await?;

    // A network of a namespace and one of the cluster, both called net.
    let (first, second) = (
        udn("a", "net", &layer2("Secondary", "10.50.0.0/16")),
        cudn("net", ("team", "a"), &layer2("Secondary", "10.60.0.0/16")),
    );
    world.create(&first).await?;
    world.is_made(&first).await?;
    world.create(&second).await?;
    let foreign = "False/NetworkAttachmentDefinitionSyncError: foreign NetworkAttachmentDefinition with the desired \
                   name already exist [a/net]";
    world.says(&second, "NetworkCreated", foreign).await?;
    world.has(&nad_path("b", "net"), id).await?;
    world.is_made(&first).await?;
    world.delete(&path_of(&first)?).await?;
    let both = "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following \
                namespaces: [a, b]";
    world.says(&second, "NetworkCreated", both).await?;
    world.restart_writes_nothing().await
}

async fn impossible() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_all(&[node("n1", &[]), tenant("good", &[])]).await?;
    let cases = [
        (
            "tiny31",
            layer2("Primary", "10.77.0.0/31"),
            "subnet 10.77.0.0/31 is too small for a layer2 primary network",
        ),
        (
            "tiny32",
            layer2("Primary", "10.77.1.1/32"),
            "subnet 10.77.1.1/32 is too small for a layer2 primary network",
        ),
        ("services", layer3("Primary", "10.96.0.0/16", 24), "overlaps service subnet"),
        ("pods", layer2("Secondary", "10.129.0.0/16"), "overlaps cluster subnet"),
        ("six", layer3("Primary", "fd00:20::/48", 80), "IPv6 only supports /64 host subnets"),
        (
            "family",
            layer3("Primary", "fd00:20::/48", 64),
            "is attempting to use ipv6 subnets but the cluster does not support ipv6",
        ),
    ];
    let objects: Vec<Value> = cases.iter().map(|(name, spec, _)| udn(name, "net", spec)).collect();
    for ((name, _, _), object) in cases.iter().zip(&objects) {
        world.create_all(&[tenant(name, &[]), object.clone()]).await?;
    }
    let told = "False/SyncError: failed to generate NetworkAttachmentDefinition: failed to render CNI network config: ";
    for ((name, _, why), object) in cases.iter().zip(&objects) {
        world.says(object, "NetworkCreated", told).await?;
        let object = world.get(&path_of(object)?).await?.context("the network")?;
        let text = condition(&object, "NetworkCreated").unwrap_or_default();
        ensure!(text.contains(why), "{name}: {text}");
        ensure!(condition(&object, "NetworkAllocationSucceeded").is_none(), "{name}: {object}");
        ensure!(world.get(&nad_path(name, "net")).await?.is_none(), "{name} has a definition");
    }
    let good = udn("good", "net", &layer2("Primary", "10.77.2.0/30"));
    world.create(&good).await?;
    world.is_made(&good).await?;
    world.says(&good, "NetworkAllocationSucceeded", "True/").await?;
    // Nothing is tried again as long as nothing changes, and a start goes through.
    world.restart_writes_nothing().await?;
    let looks = || world.sum("causeway_reconcile_passes_total{room=\"network\"");
    let before = looks().await?;
    world.create(&node("n2", &[])).await?;
    world.share(&["n1", "n2"], "default", &["10.128.0.0/24", "10.128.1.0/24"]).await?;
    let after = looks().await?;
    ensure!(after == before, "{} more looks at networks of which nothing changed", after - before);
    Ok(())
}
