//! What recordings of upstream show and what is done better here.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};
use http::Method;
use serde_json::{Value, json};

use crate::objects::{cudn, layer2, layer3, nad, nad_path, node, node_path, plain, pod, tenant, udn};
use crate::world::{DYNAMIC, World};
use causeway_tests::access;
use causeway_tests::control::{collection_of, path_of};
use causeway_tests::rest::{MERGE_PATCH, send};

pub(crate) fn add(suite: Suite) -> Suite {
    suite
        .test(Level::Api, "a_definition_that_a_user_deletes_comes_back_with_its_numbers", comes_back)
        .test(Level::Api, "a_network_that_waits_goes_on_when_the_obstacle_is_gone_and_not_before", obstacles)
        .test(Level::Api, "no_condition_of_a_network_or_an_uplink_has_two_owners", owners)
        .test(Level::Api, "a_node_that_returns_has_its_subnets_and_a_refused_write_costs_none", subnets)
}

/// uid, network id and tunnel keys of a definition.
async fn identity(world: &World, path: &str) -> anyhow::Result<Option<(String, String, String)>> {
    let Some(nad) = world.get(path).await? else { return Ok(None) };
    let text = |place: &str| nad.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
    let numbers =
        ["network-id", "tunnel-keys"].map(|key| text(&format!("/metadata/annotations/k8s.ovn.org~1{key}")));
    let [id, keys] = numbers;
    Ok(Some((text("/metadata/uid"), id, keys)))
}

async fn comes_back() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_all(&[tenant("a", &[]), tenant("b", &[]), node("n1", &[]), node("n2", &[])]).await?;
    let (routed, switched) = (
        udn("a", "net", &layer3("Primary", "10.20.0.0/16", 24)),
        udn("b", "net", &layer2("Primary", "10.30.0.0/16")),
    );
    world.create_all(&[routed.clone(), switched.clone()]).await?;
    world.share(&["n1", "n2"], "a_net", &["10.20.0.0/24", "10.20.1.0/24"]).await?;
    let on_n1 = world.subnet("n1", "a_net").await?;
    for (object, namespace) in [(&routed, "a"), (&switched, "b")] {
        world.is_made(object).await?;
        let path = nad_path(namespace, "net");
        let before = identity(&world, &path).await?.context("the definition")?;
        ensure!(!before.1.is_empty() && !before.2.is_empty(), "{before:?}");
        for stripped in [false, true] {
            let old = identity(&world, &path).await?.context("the definition")?;
            if stripped {
                world.merge(&path, &json!({"metadata": {"finalizers": null}})).await?;
            }
            world.delete(&path).await?;
            let made_again = || async {
                match identity(&world, &path).await.map_err(|error| format!("{error:#}"))? {
                    Some(new) if new.0 != old.0 => Ok(new),
                    seen => Err(format!("{seen:?}")),
                }
            };
            let new = world.until("another definition", made_again).await?;
            ensure!((&new.1, &new.2) == (&before.1, &before.2), "{new:?}, and before {before:?}");
            world.is_made(object).await?;
        }
    }
    ensure!(world.subnet("n1", "a_net").await? == on_n1, "its nodes have other subnets");

    // One whose owner was taken off is still the network's.
    let before = identity(&world, &nad_path("a", "net")).await?;
    world.merge(&nad_path("a", "net"), &json!({"metadata": {"ownerReferences": null}})).await?;
    world.has(&nad_path("a", "net"), "/metadata/ownerReferences/0/uid").await?;
    ensure!(identity(&world, &nad_path("a", "net")).await? == before, "it is another definition");

    // While a pod uses it, a definition that was deleted stays, and says so.
    world.create(&pod("a", "p", "n1", &["default", "a/net"])).await?;
    world.delete(&nad_path("a", "net")).await?;
    world.says(&routed, "NetworkCreated", "False/NetworkAttachmentDefinitionDeleted: ").await?;
    world.delete("/api/v1/namespaces/a/pods/p").await?;
    world.is_made(&routed).await?;
    world.restart_writes_nothing().await
}

async fn obstacles() -> anyhow::Result<()> {
    let world = World::start().await?;
    // The label could not be added with it.
    access::thaw_namespaces(&world.rig).await?;
    let team = &[("team", "a")][..];
    world
        .create_all(&[tenant("first", &[]), tenant("foreign", &[]), plain("bare", &[]), tenant("used", team)])
        .await?;
    let primary = |namespace: &str, name: &str| udn(namespace, name, &layer3("Primary", "10.20.0.0/16", 24));
    let (one, two) = (primary("first", "one"), primary("first", "two"));
    let (taken, bare) = (primary("foreign", "net"), primary("bare", "net"));
    let wide = cudn("wide", ("team", "a"), &layer2("Secondary", "10.30.0.0/16"));
    world.create(&nad("foreign", "net", r#"{"cniVersion":"1.1.0","name":"x","type":"bridge"}"#)).await?;
    world.create_all(&[one.clone(), taken.clone(), bare.clone(), wide.clone()]).await?;
    world.create(&node("n1", &[])).await?;
    world.is_made(&one).await?;
    world.is_made(&wide).await?;
    world.create_all(&[two.clone(), pod("used", "p", "n1", &["used/wide"])]).await?;
    world.merge("/api/v1/namespaces/used", &json!({"metadata": {"labels": {"team": "b"}}})).await?;
    for (object, told) in [
        (&two, "False/SyncError: primary network already exist in namespace \"first\": \"one\""),
        (
            &taken,
            "False/SyncError: foreign NetworkAttachmentDefinition with the desired name already exist [foreign/net]",
        ),
        (&bare, "False/SyncError: invalid primary network state for namespace \"bare\": "),
        (
            &wide,
            "False/NetworkAttachmentDefinitionSyncError: failed to delete NetworkAttachmentDefinition [used/wide]: \
             network in use by the following pods: [used/p]",
        ),
    ] {
        world.says(object, "NetworkCreated", told).await?;
    }
    // Who waits is not looked at: upstream asks a hundred thousand times an hour, or gives up.
    world.restart_writes_nothing().await?;
    let looks = || world.sum("causeway_reconcile_passes_total{room=\"network\"");
    let before = looks().await?;
    world.create(&node("n2", &[])).await?;
    world.share(&["n1", "n2"], "default", &["10.128.0.0/24", "10.128.1.0/24"]).await?;
    ensure!(looks().await? == before, "somebody who waits is looked at again and again");

    world.delete(&path_of(&one)?).await?;
    world.is_made(&two).await?;
    world.delete(&nad_path("foreign", "net")).await?;
    world.is_made(&taken).await?;
    let label = json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": ""}}});
    world.merge("/api/v1/namespaces/bare", &label).await?;
    world.is_made(&bare).await?;
    // The label off and on again, as it could be without the policy: the definition stays.
    let before = identity(&world, &nad_path("bare", "net")).await?;
    let off = json!({"metadata": {"labels": {"k8s.ovn.org/primary-user-defined-network": null}}});
    world.merge("/api/v1/namespaces/bare", &off).await?;
    world
        .says(
            &bare,
            "NetworkCreated",
            "False/SyncError: invalid primary network state for namespace \"bare\": ",
        )
        .await?;
    world.merge("/api/v1/namespaces/bare", &label).await?;
    world.is_made(&bare).await?;
    ensure!(identity(&world, &nad_path("bare", "net")).await? == before, "the definition did not outlive it");
    // A pod that has ended uses nothing any more.
    let ended = json!({"status": {"phase": "Succeeded"}});
    let answer =
        send(&world.admin, Method::PATCH, "/api/v1/namespaces/used/pods/p/status", MERGE_PATCH, Some(&ended))
            .await?;
    ensure!(answer.is_accepted(), "{}", answer.message());
    world.is_made(&wide).await?;
    world.is_gone(&nad_path("used", "wide")).await?;
    for namespace in ["first", "foreign", "bare"] {
        world
            .share(
                &["n1", "n2"],
                &format!("{namespace}_{}", if namespace == "first" { "two" } else { "net" }),
                &["10.20.0.0/24", "10.20.1.0/24"],
            )
            .await?;
    }
    Ok(())
}

/// The field managers that own a part of each condition of an object.
fn owners_of(object: &Value) -> BTreeMap<String, Vec<String>> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten() {
        let manager = entry.get("manager").and_then(Value::as_str).unwrap_or_default();
        let fields = entry.pointer("/fieldsV1/f:status/f:conditions").and_then(Value::as_object);
        for key in fields.into_iter().flat_map(|fields| fields.keys()) {
            if let Some(type_) = key.strip_prefix("k:{\"type\":\"").and_then(|rest| rest.strip_suffix("\"}"))
            {
                owners.entry(type_.to_owned()).or_default().push(manager.to_owned());
            }
        }
    }
    owners
}

async fn owners() -> anyhow::Result<()> {
    let world = World::start_with(&[DYNAMIC]).await?;
    world
        .create_all(&[tenant("a", &[("team", "a")]), tenant("b", &[]), node("n1", &[("rack", "r1")])])
        .await?;
    let uplink = json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "metadata": {"name": "out"},
        "spec": {"nodeConfigs": [{"type": "OVSBridge", "hostInterfaceName": "br-out",
            "nodeSelector": {"matchLabels": {"rack": "r1"}}}]}});
    let mut wide = cudn("wide", ("team", "a"), &layer3("Primary", "10.20.0.0/16", 24));
    let network = json!({"topology": "Layer3", "transport": "NoOverlay", "layer3": {"role": "Primary",
        "subnets": [{"cidr": "10.20.0.0/16"}]}, "noOverlay": {"outboundSNAT": "Enabled", "routing": "Managed"}});
    if let Some(spec) = wide.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("uplinks".to_owned(), json!(["out"]));
        spec.insert("network".to_owned(), network);
    }
    let narrow = udn("b", "net", &layer3("Primary", "10.30.0.0/16", 24));
    world.create_all(&[uplink.clone(), wide.clone(), narrow.clone()]).await?;
    // Every writer has written, and has something else to say a second time.
    world.create(&pod("a", "p", "n1", &[])).await?;
    for object in [&wide, &narrow] {
        world.is_made(object).await?;
        world.says(object, "NetworkAllocationSucceeded", "True/").await?;
    }
    world.says(&wide, "NodesSelected", "True/DynamicAllocation: 1 node(s) rendered with network").await?;
    world.says(&narrow, "NodesSelected", "False/DynamicAllocation: ").await?;
    world.says(&wide, "UplinksReady", "False/UplinkNotResolvedForNode").await?;
    world.merge("/api/v1/namespaces/a", &json!({"metadata": {"labels": {"team": "none"}}})).await?;
    world
        .says(
            &wide,
            "NetworkCreated",
            "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been \
        created in following namespaces: []",
        )
        .await?;
    // It is nowhere any more, and says so.
    world.says(&wide, "NodesSelected", "False/DynamicAllocation: ").await?;
    world.says(&wide, "NetworkAllocationSucceeded", "True/").await?;
    world.rest().await?;

    let network = "user-defined-network-controller";
    let allocation = "NetworkClusterController";
    let (activity, uplinks) = ("ClusterManager", "clustermanager-uplink-controller");
    let of_narrow = [
        ("NetworkAllocationSucceeded", allocation),
        ("NetworkCreated", network),
        ("NodesSelected", activity),
    ];
    let of_wide =
        [of_narrow[0], of_narrow[1], of_narrow[2], ("TransportAccepted", network), ("UplinksReady", uplinks)];
    for (object, want) in [(&wide, &of_wide[..]), (&narrow, &of_narrow[..]), (&uplink, &[("Ready", uplinks)])]
    {
        let object = world.get(&path_of(object)?).await?.context("the object")?;
        let want: BTreeMap<String, Vec<String>> =
            want.iter().map(|(type_, manager)| ((*type_).to_owned(), vec![(*manager).to_owned()])).collect();
        ensure!(owners_of(&object) == want, "{:?}, wanted {want:?}", owners_of(&object));
        // And each says about which version of the spec it speaks.
        let conditions =
            object.pointer("/status/conditions").and_then(Value::as_array).context("conditions")?;
        let generation = object.pointer("/metadata/generation");
        let current = conditions.iter().all(|condition| condition.get("observedGeneration") == generation);
        ensure!(current, "{conditions:?} of generation {generation:?}");
    }
    Ok(())
}

/// Refuses every write to a Node, as a webhook or a policy of a cluster can.
fn no_writes_to(node: &str) -> [Value; 2] {
    let name = "no-writes.test.example";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["nodes", "nodes/status"]}]},
            "validations": [{"expression": format!("request.name != '{node}'"), "reason": "Forbidden",
                "message": "not today"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    [policy, binding]
}

async fn subnets() -> anyhow::Result<()> {
    let world = World::start().await?;
    let net = cudn("net", ("team", "a"), &layer3("Primary", "10.20.0.0/16", 24));
    let network = "cluster_udn_net";
    world
        .create_all(&[tenant("a", &[("team", "a")]), node("n1", &[]), node("n2", &[]), node("n3", &[])])
        .await?;
    let defaults = ["10.128.0.0/24", "10.128.1.0/24", "10.128.2.0/24"];
    world.share(&["n1", "n2", "n3"], "default", &defaults).await?;

    let [policy, binding] = no_writes_to("n2");
    world.create_all(&[policy, binding.clone()]).await?;
    let heeded = || async {
        let change = json!({"metadata": {"annotations": {"x": "y"}}});
        let path = format!("{}?dryRun=All", node_path("n2"));
        let answer = send(&world.admin, Method::PATCH, &path, MERGE_PATCH, Some(&change)).await;
        match answer {
            Ok(answer) if answer.code == 403 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    };
    world.until("the policy to be heeded", heeded).await?;
    world.create(&net).await?;
    let refused = || async {
        let lines = "causeway_api_writes_total{kind=\"Node\",verb=\"merge_status\",result=\"forbidden\"";
        match world.sum(lines).await {
            Ok(times) if times >= 3 => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    };
    world.until("n2's subnet to be refused three times", refused).await?;
    for other in ["n1", "n3"] {
        let served = || async {
            match world.subnet(other, network).await {
                Ok(subnet) if !subnet.is_empty() => Ok(()),
                seen => Err(format!("{seen:?}")),
            }
        };
        world.until("others not to wait for n2", served).await?;
    }
    ensure!(world.subnet("n2", network).await?.is_empty(), "the write was not refused");
    let name = path_of(&binding)?;
    world.delete(&name).await?;
    // Three nodes, three subnets in a row.
    world.share(&["n1", "n2", "n3"], network, &["10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24"]).await?;
    world.says(&net, "NetworkAllocationSucceeded", "True/").await?;

    let before = (world.subnet("n2", "default").await?, world.subnet("n2", network).await?);
    world.seen_to("node", world.delete(&node_path("n2"))).await?;
    world.create(&node("n2", &[])).await?;
    world.share(&["n2"], "default", &[before.0.as_str()]).await?;
    world.share(&["n2"], network, &[before.1.as_str()]).await?;
    // What somebody else got meanwhile is that one's.
    world.seen_to("node", world.delete(&node_path("n2"))).await?;
    let stolen = json!({"default": [before.0], network: [before.1]}).to_string();
    let mut thief = node("n4", &[]);
    if let Some(metadata) = thief.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), json!({"k8s.ovn.org/node-subnets": stolen}));
    }
    ensure!(collection_of(&thief)? == "/api/v1/nodes");
    world.create(&thief).await?;
    world.has(&node_path("n4"), "/metadata/annotations/k8s.ovn.org~1node-id").await?;
    world.create(&node("n2", &[])).await?;
    world
        .share(
            &["n1", "n2", "n3", "n4"],
            network,
            &["10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24", "10.20.3.0/24"],
        )
        .await?;
    ensure!(world.subnet("n4", network).await? == before.1, "n4 lost what it had first");
    world.restart_writes_nothing().await
}
