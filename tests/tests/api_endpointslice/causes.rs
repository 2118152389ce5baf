//! What wakes the mirror controller beside the slices, and what it leaves alone.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::seen::{SLICES, mirrors, object};
use crate::world::World;
use causeway_tests::control::DEADLINE;
use causeway_tests::rest::{OBJECT, send};

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
        "labels": {"k8s.ovn.org/primary-user-defined-network": ""}}})
}

fn attachment(namespace: &str, name: &str, network: &str) -> Value {
    let config = json!({
        "cniVersion": "1.0.0", "name": network, "type": "ovn-k8s-cni-overlay", "topology": "layer3",
        "subnets": "10.20.0.0/16/24", "mtu": 1300, "netAttachDefName": format!("{namespace}/{name}"), "role": "primary",
    });
    json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"namespace": namespace, "name": name}, "spec": {"config": config.to_string()}})
}

fn attachment_path(namespace: &str, name: &str) -> String {
    format!("/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions/{name}")
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": "node-000", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.128.0.5", "podIPs": [{"ip": "10.128.0.5"}]}})
}

fn pod_path(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// The annotation of a pod with an address on the network of an attachment.
fn networks(attachment: &str, address: &str) -> Value {
    let text = json!({
        "default": {"ip_addresses": ["10.128.0.5/24"], "mac_address": "0a:58:0a:80:00:05"},
        attachment: {"ip_addresses": [address], "mac_address": "0a:58:0a:14:00:05", "role": "primary"},
    });
    json!({"metadata": {"annotations": {"k8s.ovn.org/pod-networks": text.to_string()}}})
}

/// A slice of Kubernetes with these pods.
fn slice(namespace: &str, name: &str, pods: &[&str]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            json!({"addresses": ["10.128.0.5"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "node-000", "targetRef": {"kind": "Pod", "namespace": namespace, "name": pod}})
        })
        .collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": namespace, "name": name, "generateName": "web-",
            "labels": {"kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]})
}

fn slice_path(namespace: &str, name: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}")
}

/// A namespace with a network, `<name>_net`, and the pod `p1`, which has no address there yet.
async fn tenant(world: &World, name: &str) -> anyhow::Result<()> {
    world.create(&namespace(name)).await?;
    world.create(&attachment(name, "net", &format!("{name}_net"))).await?;
    world.create(&pod(name, "p1")).await
}

/// Waits until the mirrors of a namespace, in order, are on these networks with these addresses.
async fn shows(world: &World, namespace: &str, want: &[&str]) -> anyhow::Result<()> {
    let look = || async {
        let mirrors = mirrors(&world.admin).await.map_err(|error| format!("{error:#}"))?;
        let here = mirrors.iter().filter(|(key, _)| key.starts_with(&format!("{namespace}/")));
        let have: Vec<String> = here
            .map(|(_, mirror)| {
                let addresses = mirror.endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone());
                format!("{} {}", mirror.network, addresses.collect::<Vec<_>>().join(" "))
            })
            .collect();
        if have == want { Ok(()) } else { Err(format!("{have:?}, wanted {want:?}")) }
    };
    let reached = world.rig.wait_for(&format!("the mirrors of {namespace}"), DEADLINE, look).await;
    reached.map_err(|error| anyhow::anyhow!("{error:#}\n{}", world.rig.log_tails()))
}

/// The example of upstream's documentation: a network made by hand, whose name is in the mirror's.
pub(crate) async fn example() -> anyhow::Result<()> {
    let world = World::start().await?;
    let (here, service) = ("nad-l3", "sample-deployment");
    world.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": here}})).await?;
    // As it stands there, blanks and line breaks included.
    let config = "\n{\n\"cniVersion\": \"1.0.0\",\n\"name\": \"l3-network\",\n\"type\": \"ovn-k8s-cni-overlay\",\n\
                  \"topology\":\"layer3\",\n\"subnets\": \"10.128.0.0/16/24\",\n\"mtu\": 1300,\n\
                  \"netAttachDefName\": \"nad-l3/l3-network\",\n\"role\": \"primary\"\n}\n";
    world
        .create(&json!({"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
            "metadata": {"namespace": here, "name": "l3-network"}, "spec": {"config": config}}))
        .await?;
    world.create(&pod(here, "p1")).await?;
    world.merge(&pod_path(here, "p1"), &networks("nad-l3/l3-network", "10.128.1.3/24")).await?;
    let mut source = slice(here, "sample-deployment-rkk4n", &["p1"]);
    source["metadata"]["generateName"] = json!("sample-deployment-");
    source["metadata"]["labels"]["kubernetes.io/service-name"] = json!(service);
    world.create(&source).await?;
    shows(&world, here, &["l3-network 10.128.1.3"]).await?;
    let mirrors = mirrors(&world.admin).await?;
    let mirror = mirrors.get("nad-l3/sample-deployment-rkk4n").context("the mirror")?;
    let name = mirror.name.as_deref().unwrap_or_default();
    let suffix = name.strip_prefix("l3-network-sample-deployment-").context("the network in the name")?;
    ensure!(suffix.len() == 5, "{name}");
    ensure!(mirror.generate_name.as_deref() == Some("l3-network-sample-deployment-"), "{mirror:?}");
    let labels = mirror.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let wanted = [
        ("endpointslice.kubernetes.io/managed-by", "endpointslice-mirror-controller.k8s.ovn.org"),
        ("k8s.ovn.org/service-name", service),
    ];
    ensure!(labels.eq(wanted), "{mirror:?}");
    Ok(())
}

pub(crate) async fn wakes() -> anyhow::Result<()> {
    let world = World::start().await?;
    let here = "awake";
    tenant(&world, here).await?;
    world.create(&pod(here, "p2")).await?;
    world.merge(&pod_path(here, "p2"), &networks("awake/net", "10.20.0.6/24")).await?;
    world.create(&slice(here, "web-a", &["p1", "p2"])).await?;
    // The pod that has an address is there, though another one has none.
    shows(&world, here, &["awake_net 10.20.0.6"]).await?;
    world.merge(&pod_path(here, "p1"), &networks("awake/net", "10.20.0.5/24")).await?;
    shows(&world, here, &["awake_net 10.20.0.5 10.20.0.6"]).await?;
    // The source does not change from here on.
    world.merge(&pod_path(here, "p1"), &networks("awake/net", "10.20.0.7/24")).await?;
    shows(&world, here, &["awake_net 10.20.0.7 10.20.0.6"]).await?;
    world.delete(&pod_path(here, "p2")).await?;
    shows(&world, here, &["awake_net 10.20.0.7"]).await?;

    world.delete(&attachment_path(here, "net")).await?;
    shows(&world, here, &[]).await?;
    // Another network under the same name, and one whose name can be in those of mirrors.
    world.create(&attachment(here, "net", "other")).await?;
    shows(&world, here, &["other 10.20.0.7"]).await?;
    let config = attachment(here, "net", "third")["spec"].clone();
    world.merge(&attachment_path(here, "net"), &json!({"spec": config})).await?;
    shows(&world, here, &["third 10.20.0.7"]).await?;
    let mirror = mirrors(&world.admin).await?.remove("awake/web-a").context("the mirror")?;
    ensure!(mirror.generate_name.as_deref() == Some("third-web-"), "{mirror:?}");

    // What somebody writes into a mirror, or takes away.
    let name = mirror.name.context("a name")?;
    world.merge(&slice_path(here, &name), &json!({"endpoints": [], "ports": []})).await?;
    shows(&world, here, &["third 10.20.0.7"]).await?;
    world.delete(&slice_path(here, &name)).await?;
    shows(&world, here, &["third 10.20.0.7"]).await?;
    // The source last.
    world.delete(&slice_path(here, "web-a")).await?;
    shows(&world, here, &[]).await
}

pub(crate) async fn neighbours() -> anyhow::Result<()> {
    let world = World::start().await?;
    let here = "shared";
    tenant(&world, here).await?;
    world.merge(&pod_path(here, "p1"), &networks("shared/net", "10.20.0.5/24")).await?;
    let mut custom = slice(here, "custom", &["p1"]);
    custom["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("my-controller");
    let mut unlabelled = slice(here, "unlabelled", &["p1"]);
    unlabelled["metadata"]["labels"] = json!({"kubernetes.io/service-name": "web"});
    let mut headless = slice(here, "headless", &["p1"]);
    headless["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    // Marked as a mirror, but it does not say of what.
    let mut stray = slice(here, "stray", &["p1"]);
    stray["metadata"]["labels"] =
        json!({"endpointslice.kubernetes.io/managed-by": "endpointslice-mirror-controller.k8s.ovn.org"});
    let others = [custom, unlabelled, headless, stray];
    let mut before = Vec::new();
    for other in &others {
        world.create(other).await?;
        let name = other["metadata"]["name"].as_str().context("a name")?;
        before.push(object(&world.admin, &slice_path(here, name)).await?);
    }
    world.create(&slice(here, "web-a", &["p1"])).await?;
    shows(&world, here, &["shared_net 10.20.0.5"]).await?;
    world.delete(&attachment_path(here, "net")).await?;
    shows(&world, here, &[]).await?;
    for before in before {
        let name = before["metadata"]["name"].as_str().context("a name")?;
        let after = object(&world.admin, &slice_path(here, name)).await?;
        ensure!(after == before, "{before}\nbecame\n{after}");
    }
    let all = object(&world.admin, SLICES).await?;
    let names = all["items"].as_array().context("items")?.iter();
    let names: BTreeSet<&str> = names.filter_map(|slice| slice["metadata"]["name"].as_str()).collect();
    ensure!(names == ["custom", "headless", "stray", "unlabelled", "web-a"].into(), "{names:?}");
    Ok(())
}

pub(crate) async fn machines() -> anyhow::Result<()> {
    let world = World::start().await?;
    let here = "moving";
    tenant(&world, here).await?;
    let machine = json!({"metadata": {"labels": {"kubevirt.io": "virt-launcher"},
        "annotations": {"kubevirt.io/domain": "vm"}}});
    world.merge(&pod_path(here, "p1"), &machine).await?;
    world.merge(&pod_path(here, "p1"), &networks("moving/net", "10.20.0.5/24")).await?;
    let mut source = slice(here, "web-a", &["p1"]);
    source["endpoints"][0]["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
    world.create(&source).await?;
    let conditions = |want: &'static str| {
        let world = &world;
        async move {
            let look = || async {
                let mirrors = mirrors(&world.admin).await.map_err(|error| format!("{error:#}"))?;
                let mirror = mirrors.get("moving/web-a").ok_or_else(|| "no mirror".to_owned())?;
                let conditions = mirror.endpoints.first().and_then(|endpoint| endpoint.conditions.clone());
                let conditions = conditions.unwrap_or_default();
                let have =
                    [conditions.ready, conditions.serving, conditions.terminating].map(|is| match is {
                        Some(true) => 'y',
                        Some(false) => 'n',
                        None => '-',
                    });
                let have: String = have.iter().collect();
                if have == want { Ok(()) } else { Err(format!("{have}, wanted {want}")) }
            };
            world.rig.wait_for("the conditions", DEADLINE, look).await
        }
    };
    // Alone, it says what it is.
    conditions("nyy").await?;
    // The pod that it moves to need not be an endpoint to make a difference.
    let mut target = pod(here, "p2");
    target["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
    target["metadata"]["annotations"] = json!({"kubevirt.io/domain": "vm"});
    world.create(&target).await?;
    conditions("yyn").await?;
    world.merge(&format!("{}/status", pod_path(here, "p2")), &json!({"status": {"phase": "Failed"}})).await?;
    // p1 and p2 can be of one second; then the name decides which is the target, and p2 is the later one.
    conditions("nyy").await
}

pub(crate) async fn killed() -> anyhow::Result<()> {
    const SLICES: usize = 60;
    let world = World::start_without_election().await?;
    let here = "many";
    world.create(&namespace(here)).await?;
    world.create(&pod(here, "p1")).await?;
    world.merge(&pod_path(here, "p1"), &networks("many/net", "10.20.0.5/24")).await?;
    for number in 0..SLICES {
        world.create(&slice(here, &format!("web-{number}"), &["p1"])).await?;
    }
    // The network comes last, so that all mirrors are made in one moment, in which the manager is killed.
    world.create(&attachment(here, "net", "many_net")).await?;
    let begun = || async {
        let there = mirrors(&world.admin).await.map_err(|error| format!("{error:#}"))?.len();
        if there > 0 { Ok(there) } else { Err("no mirror yet".to_owned()) }
    };
    world.rig.wait_for("the first mirror", DEADLINE, begun).await?;
    world.manager.kill().await?;
    world.manager.restart().await?;
    shows(&world, here, &["many_net 10.20.0.5"; SLICES]).await?;
    // The other way round, and killed again.
    world.delete(&attachment_path(here, "net")).await?;
    let ending = || async {
        let there = mirrors(&world.admin).await.map_err(|error| format!("{error:#}"))?.len();
        if there < SLICES { Ok(there) } else { Err(format!("{there} mirrors")) }
    };
    world.rig.wait_for("the first mirror to go", DEADLINE, ending).await?;
    world.manager.kill().await?;
    world.manager.restart().await?;
    shows(&world, here, &[]).await
}

pub(crate) async fn told() -> anyhow::Result<()> {
    let world = World::start().await?;
    let here = "told";
    tenant(&world, here).await?;
    world.merge(&pod_path(here, "p1"), &networks("told/net", "fd00:20::5/64")).await?;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": here, "name": "web"},
        "spec": {"ports": [{"name": "http", "port": 80}]}});
    world.create(&service).await?;
    let uid = object(&world.admin, "/api/v1/namespaces/told/services/web").await?["metadata"]["uid"].clone();
    let mut source = slice(here, "web-a", &["p1", "p1"]);
    source["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid,
        "controller": true, "blockOwnerDeletion": true}]);
    source["endpoints"][1].as_object_mut().context("an endpoint")?.remove("targetRef");
    world.create(&source).await?;
    let events = "/apis/events.k8s.io/v1/namespaces/told/events";
    let look = || async {
        let answer = send(&world.admin, http::Method::GET, events, OBJECT, None).await;
        let answer = answer.map_err(|error| format!("{error:#}"))?;
        let items = answer.body["items"].as_array().cloned().unwrap_or_default();
        items
            .into_iter()
            .find(|event| event["reason"] == "EndpointsNotMirrored")
            .ok_or_else(|| "no such Event".to_owned())
    };
    let event = world.rig.wait_for("an Event on the Service", DEADLINE, look).await?;
    ensure!(event["regarding"]["kind"] == "Service" && event["regarding"]["uid"] == uid, "{event}");
    let note = "2 of 2 endpoints of EndpointSlice web-a cannot be reached on network told_net: pod p1 has no IPv4 \
                address, endpoint 1 is no pod";
    ensure!(event["note"] == note && event["type"] == "Warning", "{event}");
    shows(&world, here, &[]).await
}

pub(crate) async fn switched_off() -> anyhow::Result<()> {
    let world = World::start_without_networks().await?;
    world.says("User-defined networks are switched off: nothing to do").await?;
    tenant(&world, "off").await?;
    world.merge(&pod_path("off", "p1"), &networks("off/net", "10.20.0.5/24")).await?;
    world.create(&slice("off", "web-a", &["p1"])).await?;
    let exit = world.manager.stop(DEADLINE).await?;
    ensure!(exit.code() == Some(0), "told to end, it ended with {exit}");
    let there = mirrors(&world.admin).await?;
    ensure!(there.is_empty(), "{there:?}");
    Ok(())
}
