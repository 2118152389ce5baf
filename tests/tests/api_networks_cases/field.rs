//! Reports from the field.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};
use serde_json::{Value, json};

use crate::objects::{cudn, layer2, layer3, nad, nad_path, node, node_path, plain, pod, tenant, udn};
use crate::world::{World, condition};
use causeway_tests::control::path_of;

pub(crate) fn add(suite: Suite) -> Suite {
    suite
        .test(Level::Api, "a_selector_that_changes_moves_the_network_and_pods_hold_what_they_use", selector)
        .test(Level::Api, "labels_and_annotations_of_a_network_follow_to_its_definition", annotations)
        .test(Level::Api, "networks_that_come_and_go_at_once_leave_nothing", quick)
        .test(Level::Api, "what_was_deleted_while_nobody_led_is_cleaned_up_at_the_start", away)
        .test(Level::Api, "a_pool_that_is_too_small_fails_its_own_network_only", small)
}

async fn selector() -> anyhow::Result<()> {
    let world = World::start().await?;
    let named = |name: &str, labels: &[(&str, &str)]| {
        let mut labels = labels.to_vec();
        labels.push(("kubernetes.io/metadata.name", name));
        tenant(name, &labels)
    };
    let team = &[("team", "x")][..];
    let net = cudn("net", ("team", "x"), &layer3("Primary", "10.20.0.0/16", 24));
    world
        .create_all(&[
            named("a", team),
            named("b", &[]),
            named("c", team),
            plain("bare", team),
            node("n1", &[]),
        ])
        .await?;
    world.create(&net).await?;
    let made = |list: &str| {
        format!(
            "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following \
                 namespaces: [{list}]"
        )
    };
    // A namespace without the label that primary networks need is told of; the others have the network.
    let bare =
        "False/NetworkAttachmentDefinitionSyncError: invalid primary network state for namespace \"bare\": ";
    world.says(&net, "NetworkCreated", bare).await?;
    for namespace in ["a", "c"] {
        world.has(&nad_path(namespace, "net"), "/metadata/uid").await?;
    }
    ensure!(world.get(&nad_path("bare", "net")).await?.is_none(), "bare has the network");
    world.merge("/api/v1/namespaces/bare", &json!({"metadata": {"labels": {"team": null}}})).await?;
    world.says(&net, "NetworkCreated", &made("a, c")).await?;
    world.create(&pod("c", "p", "n1", &["default", "c/net"])).await?;

    world.merge("/api/v1/namespaces/b", &json!({"metadata": {"labels": {"team": "x"}}})).await?;
    world.says(&net, "NetworkCreated", &made("a, b, c")).await?;
    let select = |selector: Value| json!({"spec": {"namespaceSelector": selector}});
    let path = path_of(&net)?;
    world.merge("/api/v1/namespaces/b", &json!({"metadata": {"labels": {"only": "b"}}})).await?;
    world.merge(&path, &select(json!({"matchLabels": {"team": null, "only": "b"}}))).await?;
    let held = "False/NetworkAttachmentDefinitionSyncError: failed to delete NetworkAttachmentDefinition [c/net]: \
                network in use by the following pods: [c/p]";
    world.says(&net, "NetworkCreated", held).await?;
    world.is_gone(&nad_path("a", "net")).await?;
    let id = world.has(&nad_path("b", "net"), "/metadata/annotations/k8s.ovn.org~1network-id").await?;
    world.delete("/api/v1/namespaces/c/pods/p").await?;
    world.says(&net, "NetworkCreated", &made("b")).await?;
    world.is_gone(&nad_path("c", "net")).await?;
    let by_name = json!({"matchLabels": null, "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]});
    world.merge(&path, &select(by_name)).await?;
    world.says(&net, "NetworkCreated", &made("a, b")).await?;
    let again = world.has(&nad_path("a", "net"), "/metadata/annotations/k8s.ovn.org~1network-id").await?;
    ensure!(again == id, "one network has the ids {id} and {again}");
    world.share(&["n1"], "cluster_udn_net", &["10.20.0.0/24"]).await?;
    world.restart_writes_nothing().await
}

async fn annotations() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create(&tenant("a", &[])).await?;
    let net = udn("a", "net", &layer2("Primary", "10.20.0.0/16"));
    world.create(&net).await?;
    world.is_made(&net).await?;
    let own = world.has(&nad_path("a", "net"), "/metadata/annotations/k8s.ovn.org~1network-id").await?;
    let more = json!({"metadata": {"labels": {"cost": "7"},
        "annotations": {"example.com/owner": "blue", "k8s.ovn.org/internal": "1", "k8s.ovn.org/network-id": "99"}}});
    world.merge(&path_of(&net)?, &more).await?;
    let owner = "/metadata/annotations/example.com~1owner";
    ensure!(world.has(&nad_path("a", "net"), owner).await? == "blue");
    world.has(&nad_path("a", "net"), "/metadata/labels/cost").await?;
    let nad = world.get(&nad_path("a", "net")).await?.context("the definition")?;
    ensure!(nad.pointer("/metadata/annotations/k8s.ovn.org~1internal").is_none(), "{nad}");
    ensure!(nad.pointer("/metadata/annotations/k8s.ovn.org~1network-id") == Some(&json!(own)), "{nad}");
    world.merge(&path_of(&net)?, &json!({"metadata": {"annotations": {"example.com/owner": null}}})).await?;
    let gone = || async {
        let nad = world.get(&nad_path("a", "net")).await.map_err(|error| format!("{error:#}"))?;
        let text = nad.as_ref().and_then(|nad| nad.pointer(owner));
        if nad.is_some() && text.is_none() { Ok(()) } else { Err(format!("{text:?}")) }
    };
    world.until("the annotation to go", gone).await
}

async fn quick() -> anyhow::Result<()> {
    let world = World::start().await?;
    let networks: Vec<Value> = [layer3("Secondary", "10.20.0.0/16", 24), layer2("Secondary", "10.30.0.0/16")]
        .iter()
        .enumerate()
        .map(|(number, spec)| udn("a", &format!("n{number}"), spec))
        .chain([udn("a", "primary", &layer2("Primary", "10.40.0.0/16"))])
        .collect();
    world.create_all(&[tenant("a", &[]), node("n1", &[])]).await?;
    // What the first one leaves open is for all.
    let first = udn("a", "first", &layer2("Primary", "10.60.0.0/16"));
    world.create(&first).await?;
    world.is_made(&first).await?;
    world.delete(&path_of(&first)?).await?;
    world.is_gone(&path_of(&first)?).await?;
    world.rest().await?;
    let tasks = world.tasks().await?;
    // One that fails at first, and is made when it is tried again.
    world.create(&nad("a", "late", r#"{"cniVersion":"1.1.0","name":"x","type":"bridge"}"#)).await?;
    let late = udn("a", "late", &layer2("Secondary", "10.60.0.0/16"));
    world.create(&late).await?;
    let foreign =
        "False/SyncError: foreign NetworkAttachmentDefinition with the desired name already exist [a/late]";
    world.says(&late, "NetworkCreated", foreign).await?;
    world.delete(&nad_path("a", "late")).await?;
    world.is_made(&late).await?;
    world.delete(&path_of(&late)?).await?;
    let comes_and_goes = async |network: &Value| -> anyhow::Result<()> {
        for _ in 0..100 {
            world.create(network).await?;
            world.delete(&path_of(network)?).await?;
            world.is_gone(&path_of(network)?).await?;
        }
        Ok(())
    };
    futures::future::try_join_all(networks.iter().map(comes_and_goes)).await?;
    // The next one is made as the first would have been, and nothing of the others is there.
    let last = udn("a", "last", &layer3("Primary", "10.50.0.0/16", 24));
    world.create(&last).await?;
    world.is_made(&last).await?;
    world.share(&["n1"], "a_last", &["10.50.0.0/24"]).await?;
    let left = || async {
        let nads = world.list("/apis/k8s.cni.cncf.io/v1/network-attachment-definitions").await;
        let nads = nads.map_err(|error| format!("{error:#}"))?;
        let node = world.get(&node_path("n1")).await.map_err(|error| format!("{error:#}"))?;
        let text =
            node.as_ref().and_then(|node| node.pointer("/metadata/annotations/k8s.ovn.org~1node-subnets"));
        let want = r#"{"a_last":["10.50.0.0/24"],"default":["10.128.0.0/24"]}"#;
        if nads.len() == 1 && text == Some(&json!(want)) { Ok(()) } else { Err(format!("{nads:?} {text:?}")) }
    };
    world.until("nothing of the others to be there", left).await?;
    let back = || async {
        match world.tasks().await {
            Ok(now) if now <= tasks => Ok(()),
            now => Err(format!("{now:?}")),
        }
    };
    world.until(&format!("no more tasks than the {tasks} before"), back).await?;
    world.restart_writes_nothing().await
}

/// Takes our finalizer off and deletes, as people do when a manager is away for good.
async fn force(world: &World, path: &str) -> anyhow::Result<()> {
    world.merge(path, &json!({"metadata": {"finalizers": null}})).await?;
    world.delete(path).await
}

async fn away() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_all(&[tenant("a", &[]), tenant("b", &[]), tenant("c", &[]), node("n1", &[])]).await?;
    let routed = udn("a", "net", &layer3("Primary", "10.20.0.0/16", 24));
    let (forced, orderly) = (
        udn("b", "net", &layer2("Primary", "10.30.0.0/16")),
        udn("c", "net", &layer2("Primary", "10.30.0.0/16")),
    );
    world.create_all(&[routed.clone(), forced.clone(), orderly.clone()]).await?;
    for object in [&routed, &forced, &orderly] {
        world.is_made(object).await?;
    }
    world.share(&["n1"], "a_net", &["10.20.0.0/24"]).await?;
    let (left, wide) =
        (&[("team", "x")][..], cudn("wide", ("team", "x"), &layer2("Secondary", "10.40.0.0/16")));
    world.create_all(&[plain("left", left), plain("stays", left), wide.clone()]).await?;
    world
        .says(
            &wide,
            "NetworkCreated",
            "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been \
        created in following namespaces: [left, stays]",
        )
        .await?;
    let keys = |namespace: &str| {
        let path = nad_path(namespace, "net");
        let world = &world;
        async move { world.has(&path, "/metadata/annotations/k8s.ovn.org~1tunnel-keys").await }
    };
    let (of_forced, of_orderly) = (keys("b").await?, keys("c").await?);
    world.stop().await?;
    // One with its definition, one without it, and one that is left to be done.
    force(&world, &path_of(&routed)?).await?;
    force(&world, &nad_path("a", "net")).await?;
    force(&world, &path_of(&forced)?).await?;
    world.delete(&path_of(&orderly)?).await?;
    // And a namespace that is chosen no more.
    world.merge("/api/v1/namespaces/left", &json!({"metadata": {"labels": {"team": null}}})).await?;
    world.go_on().await?;
    world.is_gone(&nad_path("left", "wide")).await?;
    world
        .says(
            &wide,
            "NetworkCreated",
            "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been \
        created in following namespaces: [stays]",
        )
        .await?;
    world.is_gone(&nad_path("b", "net")).await?;
    world.is_gone(&nad_path("c", "net")).await?;
    world.is_gone(&path_of(&orderly)?).await?;
    let clean = || async {
        let node = world.get(&node_path("n1")).await.map_err(|error| format!("{error:#}"))?;
        let text =
            node.as_ref().and_then(|node| node.pointer("/metadata/annotations/k8s.ovn.org~1node-subnets"));
        if text == Some(&json!(r#"{"default":["10.128.0.0/24"]}"#)) {
            Ok(())
        } else {
            Err(format!("{text:?}"))
        }
    };
    world.until("the node to be rid of the network", clean).await?;
    // Their numbers are free, each for one.
    world.create_all(&[forced.clone(), orderly.clone()]).await?;
    for object in [&forced, &orderly] {
        world.is_made(object).await?;
    }
    let new: BTreeSet<String> = [keys("b").await?, keys("c").await?].into();
    ensure!(new.len() == 2, "two networks have the keys {new:?}; before {of_forced} and {of_orderly}");
    world.restart_writes_nothing().await
}

async fn small() -> anyhow::Result<()> {
    let world = World::start().await?;
    let net = cudn("net", ("team", "a"), &layer3("Primary", "10.20.0.0/24", 25));
    let network = "cluster_udn_net";
    world.create_all(&[tenant("a", &[("team", "a")]), tenant("b", &[]), net.clone()]).await?;
    let other = udn("b", "net", &layer3("Primary", "10.30.0.0/16", 24));
    world.create_all(&[node("n1", &[]), node("n2", &[]), other.clone()]).await?;
    world.share(&["n1", "n2"], network, &["10.20.0.0/25", "10.20.0.128/25"]).await?;
    world.create(&node("n3", &[])).await?;
    let told = "False/InternalError: Network allocation failed for at least one node: n3, check UDN events for more info.";
    world.says(&net, "NetworkAllocationSucceeded", told).await?;
    let event = "NetworkAllocationFailed: Error occurred for node n3: error allocating network for node n3, network name \
                 cluster_udn_net: no subnets available";
    world.hears("ClusterUserDefinedNetwork", "net", event).await?;
    let three = ["10.30.0.0/24", "10.30.1.0/24", "10.30.2.0/24"];
    world.share(&["n1", "n2", "n3"], "b_net", &three).await?;
    world.share(&["n1", "n2", "n3"], "default", &["10.128.0.0/24", "10.128.1.0/24", "10.128.2.0/24"]).await?;
    world.says(&other, "NetworkAllocationSucceeded", "True/").await?;

    // A start in this state is a start like any other, and a node that nobody knows yet takes nothing from those who were
    // there: it sorts before them, and its Node is older than what they are annotated with.
    world.restart_writes_nothing().await?;
    world.stop().await?;
    world.create(&node("n0", &[])).await?;
    world.go_on().await?;
    world.share(&["n1", "n2"], network, &["10.20.0.0/25", "10.20.0.128/25"]).await?;
    world.share(&["n0", "n1", "n2", "n3"], "b_net", &[three[0], three[1], three[2], "10.30.3.0/24"]).await?;
    let object = world.get(&path_of(&net)?).await?.context("the network")?;
    ensure!(condition(&object, "NetworkAllocationSucceeded").as_deref() == Some(told), "{object}");

    // What one node gives up, one that waits gets; the network grows, and everybody has something.
    world.delete(&node_path("n1")).await?;
    let served = || async {
        let mut all = BTreeSet::new();
        for node in ["n0", "n2", "n3"] {
            all.insert(world.subnet(node, network).await.map_err(|error| format!("{error:#}"))?);
        }
        if all == BTreeSet::from(["", "10.20.0.0/25", "10.20.0.128/25"].map(str::to_owned)) {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    };
    world.until("one of those who wait to be served", served).await?;
    let more = json!({"spec": {"network": {"layer3": {"subnets": [
        {"cidr": "10.20.0.0/24", "hostSubnet": 25}, {"cidr": "10.21.0.0/24", "hostSubnet": 25}]}}}});
    world.merge(&path_of(&net)?, &more).await?;
    world.says(&net, "NetworkAllocationSucceeded", "True/").await?;
    world.share(&["n0", "n2", "n3"], network, &["10.20.0.0/25", "10.20.0.128/25", "10.21.0.0/25"]).await
}
