//! In which order the writes of all rooms come about one network.
//!
//! Versions of objects are revisions of one store, so those of different kinds have an order (etcd.io, "Data model"; all
//! kinds share the store unless `--etcd-servers-overrides` says otherwise). What is compared is what each write changes, in
//! that order, so a write that changes nothing or comes twice is seen too.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail, ensure};
use causeway_api::cudn::ClusterUserDefinedNetwork;
use causeway_api::nad::NetworkAttachmentDefinition;
use causeway_api::udn::UserDefinedNetwork;
use causeway_api::uplink::Uplink;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::world::{CUDNS, NODES, STATES, UPLINKS, World, cudn, namespace, node, path, state, udn, uplink};
use causeway_tests::control::DEADLINE;

/// One version of one object.
struct Version {
    revision: u64,
    /// `Kind namespace/name`.
    object: String,
    /// None where it is gone.
    content: Option<Value>,
}

/// Versions as they come, by several watches.
struct Versions {
    events: BoxStream<'static, anyhow::Result<Version>>,
    all: BTreeMap<u64, Version>,
    /// What is written after this revision is looked at.
    start: u64,
}

/// What a list shows, its revision, and what comes after it.
type Follow = (Vec<Version>, u64, BoxStream<'static, anyhow::Result<Version>>);

impl Versions {
    async fn follow(client: &Client) -> anyhow::Result<Self> {
        let watches = [
            watch::<UserDefinedNetwork>(client).await?,
            watch::<ClusterUserDefinedNetwork>(client).await?,
            watch::<NetworkAttachmentDefinition>(client).await?,
            watch::<Node>(client).await?,
            watch::<Uplink>(client).await?,
        ];
        let (mut this, mut events) =
            (Self { events: futures::stream::empty().boxed(), all: BTreeMap::new(), start: 0 }, Vec::new());
        for (listed, revision, later) in watches {
            this.start = this.start.max(revision);
            this.all.extend(listed.into_iter().map(|version| (version.revision, version)));
            events.push(later);
        }
        this.events = futures::stream::select_all(events).boxed();
        Ok(this)
    }

    /// From here on what is written later is looked at.
    fn go_on(&mut self) {
        self.start = self.all.keys().next_back().copied().unwrap_or(self.start);
    }

    /// Waits until all of `wanted` were written, and returns in order what all writes changed.
    async fn until(&mut self, network: &str, wanted: &BTreeSet<&str>) -> anyhow::Result<Vec<String>> {
        let reached = timeout(DEADLINE, async {
            loop {
                let changes = self.changes(network);
                if wanted.iter().all(|wanted| changes.iter().any(|change| change == wanted)) {
                    return Ok(changes);
                }
                let version = self.events.next().await.context("the watches ended")??;
                self.all.insert(version.revision, version);
            }
        });
        match reached.await {
            Ok(reached) => reached,
            Err(_elapsed) => bail!("wanted {wanted:?}, found {:?}", self.changes(network)),
        }
    }

    fn changes(&self, network: &str) -> Vec<String> {
        let mut before: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut changes = Vec::new();
        for version in self.all.values() {
            let old = match &version.content {
                Some(content) => before.insert(&version.object, content),
                None => before.remove(version.object.as_str()),
            };
            let what = change(network, old, version.content.as_ref());
            if version.revision <= self.start {
                continue;
            }
            changes.extend(what.into_iter().map(|what| format!("{} {what}", version.object)));
        }
        changes
    }
}

async fn watch<K>(client: &Client) -> anyhow::Result<Follow>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.context("listing what will be watched")?;
    let version = list.metadata.resource_version.context("a list without a version")?;
    let events = api.watch(&WatchParams::default().timeout(290), &version).await.context("watching")?;
    let events = events.map_err(anyhow::Error::from).map(|event| match event? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => entry(&object, false),
        WatchEvent::Deleted(object) => entry(&object, true),
        WatchEvent::Bookmark(_) => bail!("a bookmark that was not asked for"),
        WatchEvent::Error(status) => bail!("the watch failed: {status:?}"),
    });
    let listed = list.items.iter().map(|object| entry(object, false)).collect::<Result<_, _>>()?;
    Ok((listed, version.parse().context("a revision")?, events.boxed()))
}

fn entry<K: Resource<DynamicType = ()> + Serialize>(object: &K, gone: bool) -> anyhow::Result<Version> {
    let meta = object.meta();
    let revision = meta.resource_version.as_deref().context("a version")?.parse().context("a revision")?;
    let place = meta.namespace.iter().chain(&meta.name).map(String::as_str).collect::<Vec<_>>().join("/");
    let content = serde_json::to_value(object).context("an object")?;
    Ok(Version { revision, object: format!("{} {place}", K::kind(&())), content: (!gone).then_some(content) })
}

/// What a write changes, in words.
fn change(network: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let Some(new) = new else { return vec!["gone".to_owned()] };
    let mut changes = Vec::new();
    if old.is_none() {
        changes.push("made".to_owned());
    }
    let differ = |what: &dyn Fn(Option<&Value>) -> Option<String>| {
        let (before, after) = (what(old), what(Some(new)));
        (before != after).then_some(after)
    };
    if let Some(finalizers) = differ(&|object| ours(object, "/metadata/finalizers")) {
        changes.push(if finalizers.is_some() { "protected" } else { "let go" }.to_owned());
    }
    if let Some(Some(_)) = differ(&|object| text(object?, "/metadata/deletionTimestamp")) {
        changes.push("to go".to_owned());
    }
    for type_ in ["NetworkCreated", "NetworkAllocationSucceeded", "UplinksReady", "Ready"] {
        let before = old.and_then(|old| condition(old, type_));
        if let Some(now) = condition(new, type_).filter(|now| before.as_ref() != Some(now)) {
            changes.push(format!("{type_}={}", now.0));
        }
    }
    if let Some(Some(_)) = differ(&|object| text(object?, "/metadata/annotations/k8s.ovn.org~1network-id")) {
        changes.push("numbered".to_owned());
    }
    let subnets = "/metadata/annotations/k8s.ovn.org~1node-subnets";
    if let Some(given) = differ(&|object| text(object?, subnets).filter(|text| text.contains(network))) {
        changes.push(if given.is_some() { "has a subnet" } else { "has none" }.to_owned());
    }
    if changes.is_empty() {
        changes.push("written without need".to_owned());
    }
    changes
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// Our finalizer in a list.
fn ours(object: Option<&Value>, pointer: &str) -> Option<String> {
    let all = object?.pointer(pointer)?.as_array()?;
    let mut all = all.iter().filter_map(Value::as_str);
    all.find(|finalizer| finalizer.starts_with("k8s.ovn.org/")).map(str::to_owned)
}

/// Status and reason of a condition, and the generation that it is about.
fn condition(object: &Value, type_: &str) -> Option<(String, Option<i64>)> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    let found = all.iter().find(|condition| condition["type"] == type_)?;
    let says = format!("{}/{}", found["status"].as_str()?, found["reason"].as_str()?);
    Some((says, found["observedGeneration"].as_i64()))
}

/// Changes that all have to come, each once, others that may, and pairs of which the first comes first.
struct Wanted<'w> {
    all: &'w [&'w str],
    maybe: &'w [&'w str],
    order: &'w [(&'w str, &'w str)],
}

impl Wanted<'_> {
    fn check(&self, what: &str, found: &[String]) -> anyhow::Result<()> {
        let certain = found.iter().map(String::as_str).filter(|change| !self.maybe.contains(change));
        let mut sorted: Vec<&str> = certain.collect();
        sorted.sort_unstable();
        let mut wanted = self.all.to_vec();
        wanted.sort_unstable();
        ensure!(sorted == wanted, "{what}: {found:#?}\nwanted {wanted:#?}");
        let place = |change: &str| found.iter().position(|found| found == change);
        for (first, then) in self.order {
            ensure!(place(first) < place(then), "{what}: {then:?} came before {first:?}: {found:#?}");
        }
        Ok(())
    }
}

const CUDN: &str = "ClusterUserDefinedNetwork net";
const UDN: &str = "UserDefinedNetwork teal/own";

pub(crate) async fn holds() -> anyhow::Result<()> {
    let world = World::start().await?;
    for (name, team) in [("blue", "a"), ("red", "a"), ("teal", "d")] {
        world.create_in("/api/v1/namespaces", &namespace(name, team)).await?;
    }
    world.create_in(NODES, &node("one")).await?;
    world.create_in(UPLINKS, &uplink("out")).await?;
    world.create_in(STATES, &state("out", "one")).await?;
    let manager = world.manager("manager", &[]).await?;
    // The default network's subnet and the Uplink's condition: what is there without any network.
    let settled = || async {
        let (node, uplink) =
            (world.get("/api/v1/nodes/one").await, world.get(&format!("{UPLINKS}/out")).await);
        let text = format!("{node:?} {uplink:?}");
        let is = text.contains("node-subnets") && text.contains("are resolved");
        if is { Ok(()) } else { Err(text) }
    };
    world.rig.wait_for("the cluster manager to settle", DEADLINE, settled).await?;
    let logs = |error: anyhow::Error| anyhow::anyhow!("{error:#}\n{}", world.rig.log_tails());
    cluster_network(&world).await.map_err(logs)?;
    own_network(&world).await.map_err(logs)?;
    ensure!(manager.is_running(), "it ended");
    Ok(())
}

/// A network of two namespaces over an Uplink comes and goes.
async fn cluster_network(world: &World) -> anyhow::Result<()> {
    let mut versions = Versions::follow(&world.admin).await?;
    world.create_in(CUDNS, &cudn("net", &["out"])).await?;
    let (blue, red) = ("NetworkAttachmentDefinition blue/net", "NetworkAttachmentDefinition red/net");
    let of = |object: &str, change: &str| format!("{object} {change}");
    let made = [of(CUDN, "made"), of(CUDN, "protected")];
    let nads = [blue, red].map(|nad| ["made", "protected", "numbered"].map(|change| of(nad, change)));
    let told = [
        of(CUDN, "NetworkCreated=True/NetworkAttachmentDefinitionCreated"),
        of(CUDN, "NetworkAllocationSucceeded=True/NetworkAllocationSucceeded"),
        of(CUDN, "UplinksReady=False/UplinksNotReady"),
        of("Node one", "has a subnet"),
        of("Uplink out", "protected"),
    ];
    let all: Vec<&str> = made.iter().chain(nads.iter().flatten()).chain(&told).map(String::as_str).collect();
    let found = versions.until("cluster_udn_net", &all.iter().copied().collect()).await?;
    let [created, allocated, _, node, _] = &told;
    // Its finalizer and its definitions come at the same time, and it is told of when both are there. How it fares is told when
    // Nodes have what they get.
    let mut order: Vec<(&str, &str)> = vec![(&made[0], &made[1]), (&made[1], created), (node, allocated)];
    for nad in &nads {
        // A number is there with the object itself, so that nobody sees one without.
        order.extend([(made[0].as_str(), nad[0].as_str()), (&nad[0], &nad[2]), (&nad[2], created)]);
    }
    let first = found.iter().find(|found| found.ends_with("net numbered")).context("a number")?.clone();
    order.extend([(first.as_str(), allocated.as_str()), (&first, node)]);
    let wanted = Wanted { all: &all, maybe: &[], order: &order };
    wanted.check("a ClusterUserDefinedNetwork comes", &found)?;

    versions.go_on();
    world.delete(&format!("{CUDNS}/net")).await?;
    let gone = [of(CUDN, "to go"), of(CUDN, "gone")];
    let nads = [blue, red].map(|nad| ["let go", "gone"].map(|change| of(nad, change)));
    let told_of_uplinks = of(CUDN, "UplinksReady=False/UplinksNotReady");
    let told = [of("Node one", "has none"), of("Uplink out", "let go")];
    let all: Vec<&str> = gone.iter().chain(nads.iter().flatten()).chain(&told).map(String::as_str).collect();
    let found = versions.until("cluster_udn_net", &all.iter().copied().collect()).await?;
    let mut order: Vec<(&str, &str)> = Vec::new();
    for nad in &nads {
        order.extend([(gone[0].as_str(), nad[0].as_str()), (&nad[0], &nad[1]), (&nad[1], &gone[1])]);
        // A subnet is free when nothing of the network is left.
        order.push((&nad[1], &told[0]));
    }
    order.push((&gone[1], &told[1]));
    // Its generation grew when it was to go, which one room tells if the object is there long enough.
    let maybe = [told_of_uplinks.as_str()];
    let wanted = Wanted { all: &all, maybe: &maybe, order: &order };
    wanted.check("a ClusterUserDefinedNetwork goes", &found)
}

/// A network of one namespace comes and goes.
async fn own_network(world: &World) -> anyhow::Result<()> {
    let mut versions = Versions::follow(&world.admin).await?;
    let collection = path("userdefinednetworks", "teal");
    world.create_in(&collection, &udn("own")).await?;
    let nad = "NetworkAttachmentDefinition teal/own";
    let of = |object: &str, change: &str| format!("{object} {change}");
    let made = [of(UDN, "made"), of(UDN, "protected")];
    let nads = ["made", "protected", "numbered"].map(|change| of(nad, change));
    let told = [
        of(UDN, "NetworkCreated=True/NetworkAttachmentDefinitionCreated"),
        of(UDN, "NetworkAllocationSucceeded=True/NetworkAllocationSucceeded"),
        of("Node one", "has a subnet"),
    ];
    let all: Vec<&str> = made.iter().chain(&nads).chain(&told).map(String::as_str).collect();
    let found = versions.until("teal_own", &all.iter().copied().collect()).await?;
    let order: Vec<(&str, &str)> = vec![
        (&made[0], &nads[0]),
        (&made[1], &told[0]),
        (&nads[2], &told[0]),
        (&nads[2], &told[1]),
        (&nads[2], &told[2]),
        (&told[2], &told[1]),
    ];
    Wanted { all: &all, maybe: &[], order: &order }.check("a UserDefinedNetwork comes", &found)?;

    versions.go_on();
    world.delete(&format!("{collection}/own")).await?;
    let gone = [of(UDN, "to go"), of(UDN, "gone")];
    let nads = ["let go", "gone"].map(|change| of(nad, change));
    let freed = of("Node one", "has none");
    let all: Vec<&str> = gone.iter().chain(&nads).chain([&freed]).map(String::as_str).collect();
    let found = versions.until("teal_own", &all.iter().copied().collect()).await?;
    let order: Vec<(&str, &str)> =
        vec![(&gone[0], &nads[0]), (&nads[0], &nads[1]), (&nads[1], &gone[1]), (&nads[1], &freed)];
    Wanted { all: &all, maybe: &[], order: &order }.check("a UserDefinedNetwork goes", &found)
}
