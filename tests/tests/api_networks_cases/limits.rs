//! As many networks as there can be.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use causeway_rig::{Level, Suite};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::objects::{config, cudn, layer2, layer3, nad, nad_path, node, tenant, udn};
use crate::world::{World, condition};
use causeway_tests::control::path_of;

/// Requests on their way at a time.
const WIDTH: usize = 64;
/// Networks of namespaces.
const UDNS: &str = "/apis/k8s.ovn.org/v1/userdefinednetworks";
/// Ids that networks can have beside the default one.
const IDS: usize = 4095;

pub(crate) fn add(suite: Suite) -> Suite {
    suite
        .test(Level::Api, "without_a_free_id_a_network_says_so_and_gets_the_first_that_comes_free", exhausted)
        .test(Level::Api, "a_namespace_with_three_hundred_networks_is_one_like_others", crowd)
}

async fn create_many(world: &World, objects: &[Value]) -> anyhow::Result<()> {
    let work = futures::stream::iter(objects.iter().map(|object| world.create(object)));
    work.buffer_unordered(WIDTH).try_collect().await
}

/// Ids of networks by definition, as annotated.
async fn ids(world: &World) -> anyhow::Result<BTreeMap<String, String>> {
    let nads = world.list("/apis/k8s.cni.cncf.io/v1/network-attachment-definitions").await?;
    let text = |nad: &Value, place: &str| nad.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let of = |nad: &Value| {
        let id = text(nad, "/metadata/annotations/k8s.ovn.org~1network-id")?;
        let (namespace, name) = (text(nad, "/metadata/namespace")?, text(nad, "/metadata/name")?);
        Some((format!("{namespace}/{name}"), id))
    };
    Ok(nads.iter().filter_map(of).collect())
}

async fn exhausted() -> anyhow::Result<()> {
    let mut world = World::prepare(&[]).await?;
    world.create_all(&[tenant("full", &[]), tenant("late", &[("team", "late")]), node("n1", &[])]).await?;
    // As an earlier manager left them: every id is somebody's.
    let taken: Vec<Value> = (1..=IDS)
        .map(|id| {
            let (name, network) = (format!("n{id}"), format!("full_n{id}"));
            let text =
                config(&format!("full/{name}"), &network, &json!({"topology": "localnet", "subnets": null}));
            let mut nad = nad("full", &name, &text);
            if let Some(metadata) = nad.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                let annotations = json!({"k8s.ovn.org/network-name": network, "k8s.ovn.org/tunnel-keys": "[]",
                    "k8s.ovn.org/network-id": id.to_string()});
                metadata.insert("annotations".to_owned(), annotations);
            }
            nad
        })
        .collect();
    create_many(&world, &taken).await?;
    world.manage().await?;
    world.rest().await?;
    let writes = world.lines("causeway_api_writes_total{kind=\"NetworkAttachmentDefinition\"").await?;
    ensure!(writes.is_empty(), "everybody keeps what it has: {writes:?}");

    let late = cudn("net", ("team", "late"), &layer3("Primary", "10.20.0.0/16", 24));
    let told = "failed to allocate network ID: failed to allocate the id for the resource cluster_udn_net: all 4095 ids \
                are in use";
    world.create(&late).await?;
    world
        .says(&late, "NetworkCreated", &format!("False/NetworkAttachmentDefinitionSyncError: {told}"))
        .await?;
    world.create(&nad("late", "hand", &config("late/hand", "by-hand", &json!({})))).await?;
    let told = format!("InvalidConfig: {}", told.replace("cluster_udn_net", "by-hand"));
    world.hears("NetworkAttachmentDefinition", "hand", &told).await?;
    // Somebody with an id goes on, and so does whoever needs none.
    let grown = config("full/n7", "full_n7", &json!({"topology": "localnet", "subnets": null, "mtu": 1300}));
    world.merge(&nad_path("full", "n7"), &json!({"spec": {"config": grown}})).await?;
    world.create(&node("n2", &[])).await?;
    world.share(&["n1", "n2"], "default", &["10.128.0.0/24", "10.128.1.0/24"]).await?;

    for free in ["n77", "n4001"] {
        world.delete(&nad_path("full", free)).await?;
    }
    world.is_made(&late).await?;
    world.has(&nad_path("late", "hand"), "/metadata/annotations/k8s.ovn.org~1network-id").await?;
    let all = ids(&world).await?;
    let late: BTreeSet<&str> =
        ["late/net", "late/hand"].iter().filter_map(|nad| all.get(*nad).map(String::as_str)).collect();
    ensure!(late == BTreeSet::from(["77", "4001"]), "{late:?}");
    let unique: BTreeSet<&String> = all.values().collect();
    ensure!((all.len(), unique.len()) == (IDS, IDS), "{} definitions have {} ids", all.len(), unique.len());
    ensure!(all.get("full/n7").is_some_and(|id| id == "7"), "an edit moved an id");
    Ok(())
}

async fn crowd() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_all(&[node("n1", &[]), node("n2", &[]), tenant("full", &[]), tenant("other", &[])]).await?;
    let crowd: Vec<Value> = (0..300)
        .map(|number| match number % 2 {
            0 => udn("full", &format!("n{number}"), &layer3("Secondary", "10.20.0.0/16", 24)),
            _ => udn("full", &format!("n{number}"), &layer2("Secondary", "10.30.0.0/16")),
        })
        .collect();
    let (primary, second, neighbour) = (
        udn("full", "primary", &layer3("Primary", "10.40.0.0/16", 24)),
        udn("full", "second", &layer2("Primary", "10.50.0.0/16")),
        udn("other", "net", &layer3("Primary", "10.40.0.0/16", 24)),
    );
    world.create(&primary).await?;
    world.is_made(&primary).await?;
    create_many(&world, &crowd).await?;
    world.create_all(&[second.clone(), neighbour.clone()]).await?;
    world.is_made(&neighbour).await?;
    let told = "False/SyncError: primary network already exist in namespace \"full\": \"primary\"";
    world.says(&second, "NetworkCreated", told).await?;
    let made = || async {
        let all = world.list(UDNS).await.map_err(|error| format!("{error:#}"))?;
        let is = |object: &&Value, type_: &str| {
            condition(object, type_).is_some_and(|text| text.starts_with("True/"))
        };
        let made = all
            .iter()
            .filter(|object| is(object, "NetworkCreated") && is(object, "NetworkAllocationSucceeded"));
        // All but the second primary one.
        match (made.count(), all.len()) {
            (302, 303) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    };
    world.until("all of them to be made", made).await?;
    let all = ids(&world).await?;
    let unique: BTreeSet<&String> = all.values().collect();
    ensure!((all.len(), unique.len()) == (302, 302), "{} definitions have {} ids", all.len(), unique.len());
    // The default network, 150 of the crowd, the primary one and the neighbour's.
    let mut subnets: Vec<BTreeMap<String, Vec<String>>> = Vec::new();
    for name in ["n1", "n2"] {
        let place = "/metadata/annotations/k8s.ovn.org~1node-subnets";
        let text = world.has(&format!("/api/v1/nodes/{name}"), place).await?;
        let of: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).context("node-subnets")?;
        ensure!(of.len() == 153, "{name} has subnets of {} networks", of.len());
        subnets.push(of);
    }
    let [one, two] = subnets.as_slice() else { anyhow::bail!("two nodes") };
    let twice: Vec<&String> =
        one.iter().filter(|(of, subnet)| two.get(*of) == Some(*subnet)).map(|(of, _)| of).collect();
    ensure!(twice.is_empty(), "both nodes have the same subnet of {twice:?}");
    world.restart_writes_nothing().await?;

    world.delete(&path_of(&primary)?).await?;
    world.is_made(&second).await?;
    let paths: Vec<String> = crowd.iter().map(path_of).collect::<anyhow::Result<_>>()?;
    let work = futures::stream::iter(paths.iter().map(|path| world.delete(path)));
    work.buffer_unordered(WIDTH).try_collect::<()>().await?;
    let gone = || async {
        match world.list(UDNS).await.map(|left| left.len()) {
            Ok(2) => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    };
    world.until("all of them to go", gone).await?;
    let left = || async {
        let left: Vec<String> =
            ids(&world).await.map_err(|error| format!("{error:#}"))?.into_keys().collect();
        if left == ["full/second", "other/net"] { Ok(()) } else { Err(format!("{left:?}")) }
    };
    world.until("only two networks to be left", left).await?;
    let rest = || async {
        let node = world.get("/api/v1/nodes/n1").await.map_err(|error| format!("{error:#}"))?;
        let text =
            node.as_ref().and_then(|node| node.pointer("/metadata/annotations/k8s.ovn.org~1node-subnets"));
        let text = text.and_then(Value::as_str).unwrap_or_default();
        match serde_json::from_str::<BTreeMap<String, Value>>(text) {
            Ok(of) if of.keys().eq(["default", "other_net"]) => Ok(()),
            _ => Err(text.to_owned()),
        }
    };
    world.until("the nodes to be rid of them", rest).await
}
