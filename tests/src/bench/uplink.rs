//! From a new Uplink, and from the last state that finds its bridge, to the Uplink's condition; and what that costs.
//!
//! In turn with each round, the same is done with copies of both kinds in a group of their own, where a plain client
//! ([`plain`]) watches and applies once. Both run in places of their own in the rig, reach the API server the same way,
//! and have accounts with the same rights under the same policies: what those cost is no difference between the two.

pub mod plain;

use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use causeway_rig::{KUBECONFIG, Rig, Side};
use futures::{Stream, StreamExt};
use kube::api::{
    ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

use self::plain::GROUP;
use super::crowd::{Crowd, make_node, state_status, uplink_spec};
use super::measure::{Goal, Taken};
use super::process::cpu;
use super::session::Session;
use crate::access::{self, Account};
use crate::manifests;

/// From the creation of an Uplink to its first condition.
const CREATED: &str = "uplink_created_ready_false";
/// From the last of three states to the condition that all is well.
const READY: &str = "last_state_ready_true";
/// CPU time of the cluster manager for each Uplink with three states.
const CPU: &str = "uplink_cpu";
/// Writes of the cluster manager for each Uplink with three states.
const WRITES: &str = "uplink_writes";
/// Nodes that each Uplink selects.
const NODES: [&str; 3] = ["m0", "m1", plain::LAST];
/// Label of these Nodes.
const LABEL: &str = "way";
/// The plain client's account.
const PLAIN: &str = "bench-plain-client";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([CREATED, READY, CPU, WRITES]) {
        return Ok(());
    }
    let crowd = Crowd::gather(0, 0).await?;
    let client = crowd.rig.client();
    for node in NODES {
        make_node(&client, node).await?;
    }
    let login = copy(&crowd.rig).await?;
    let place = crowd.rig.node("plain").unregistered().start().await?;
    place.write(KUBECONFIG, crowd.rig.kubeconfig_of(&login, Side::Inside)?)?;
    let _plain = place.spawn_built("causeway-bench", ["plain-client"]).await?;
    let mut ours = Lane::open(&client, causeway_api::GROUP).await?;
    let mut theirs = Lane::open(&client, GROUP).await?;
    // The first round of each also waits until whoever it concerns is up.
    theirs.round("first").await?;
    ours.round("first").await?;

    let rounds = session.changes().div_ceil(5);
    let (mark, before) = (crowd.audit.mark()?, cpu(&crowd.manager)?);
    let (mut found, mut beside) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for round in 0..rounds {
        let name = format!("v{round}");
        found.push(ours.round(&name).await?);
        beside.push(theirs.round(&name).await?);
    }
    let spent = cpu(&crowd.manager)?.saturating_sub(before);
    let requests = crowd.audit.since(mark)?;

    let column = |rounds: &[Round], of: fn(&Round) -> Duration| rounds.iter().map(of).collect::<Vec<_>>();
    let created = |rounds: &[Round]| column(rounds, |round| round.created);
    let ready = |rounds: &[Round]| column(rounds, |round| round.ready);
    let taken = Taken::times(CREATED, &created(&found)).beside(&created(&beside));
    session.tell(taken.goal(Goal::ratio(1.3)).incumbent("p50 7.2, p99 10.7"))?;
    let taken = Taken::times(READY, &ready(&found)).beside(&ready(&beside));
    session.tell(taken.goal(Goal::ratio(1.3)).incumbent("p50 9.8, p99 21.8"))?;
    let each = spent / u32::try_from(rounds).context("a number of rounds")?;
    session.tell(Taken::times(CPU, &[each]).goal(Goal::max(3.0)).incumbent("16"))?;
    let writes = (0..rounds).map(|round| {
        let name = format!("v{round}");
        let ours = requests.iter().filter(|request| request.user.contains(Account::ClusterManager.name()));
        let of_it = ours.filter(|request| request.is_write() && request.name == name);
        f64::from(u32::try_from(of_it.count()).unwrap_or(u32::MAX))
    });
    let taken = Taken::values(WRITES, "writes", writes.collect());
    session.tell(taken.goal(Goal::max(3.0)).incumbent("6.6"))
}

/// Copies both kinds, the cluster manager's rights and all policies into the plain client's group; its token.
async fn copy(rig: &Rig) -> anyhow::Result<String> {
    let manager = Account::ClusterManager.name();
    for folder in ["crds", "rbac", "admission"] {
        let text = manifests::folder(folder)?.replace(causeway_api::GROUP, GROUP).replace(manager, PLAIN);
        rig.apply(&text.replace("access.causeway", "access.bench.causeway")).await?;
    }
    let token = access::token(rig, access::NAMESPACE, PLAIN, None).await?;
    let uplinks = api(&access::client_of(rig, &token).await?, GROUP, "Uplink");
    let listed = || async { uplinks.list(&ListParams::default()).await };
    rig.wait_for("the plain client's roles to be heeded", PATIENCE, listed).await?;
    Ok(token)
}

/// What one Uplink took.
struct Round {
    created: Duration,
    ready: Duration,
}

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>;

/// Uplinks and states of one group, and a watch of the Uplinks.
struct Lane {
    group: &'static str,
    uplinks: Api<DynamicObject>,
    states: Api<DynamicObject>,
    events: Events,
}

impl Lane {
    async fn open(client: &Client, group: &'static str) -> anyhow::Result<Self> {
        let uplinks = api(client, group, "Uplink");
        let states = api(client, group, "UplinkState");
        let list = uplinks.list_metadata(&ListParams::default()).await.context("listing Uplinks")?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let events =
            uplinks.watch(&WatchParams::default().timeout(290), &version).await.context("watching")?;
        Ok(Self { group, uplinks, states, events: Box::pin(events) })
    }

    /// One Uplink, from nothing to ready: as agents do it, three states are made at once, and all have found their bridge
    /// a moment later, one after the other.
    async fn round(&mut self, name: &str) -> anyhow::Result<Round> {
        let uplink = self.object("Uplink", name, json!({"spec": uplink_spec(LABEL)}))?;
        let start = Instant::now();
        self.uplinks.create(&PostParams::default(), &uplink).await?;
        let created = self.until(name, "False").await?.saturating_duration_since(start);
        for node in NODES {
            let spec = json!({"uplinkName": name, "nodeName": node});
            let state = json!({"spec": spec, "status": state_status(false)});
            let state = self.object("UplinkState", &format!("{name}.{node}"), state)?;
            self.states.create(&PostParams::default(), &state).await?;
        }
        let patch = Patch::Merge(json!({"status": state_status(true)}));
        let mut start = Instant::now();
        for node in NODES {
            start = Instant::now();
            self.states.patch(&format!("{name}.{node}"), &PatchParams::default(), &patch).await?;
        }
        let ready = self.until(name, "True").await?.saturating_duration_since(start);
        Ok(Round { created, ready })
    }

    fn object(&self, kind: &str, name: &str, rest: Value) -> anyhow::Result<DynamicObject> {
        let mut object = json!({
            "apiVersion": format!("{}/{}", self.group, causeway_api::V1ALPHA1), "kind": kind, "metadata": {"name": name},
        });
        if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
            object.extend(rest);
        }
        serde_json::from_value(object).context("an object")
    }

    /// When the watch delivered an Uplink whose `Ready` has this status.
    async fn until(&mut self, name: &str, status: &str) -> anyhow::Result<Instant> {
        let search = async {
            loop {
                match self.events.next().await.context("the watch ended")?? {
                    WatchEvent::Added(uplink) | WatchEvent::Modified(uplink) => {
                        let at = Instant::now();
                        if uplink.name_any() == name && ready(&uplink) == Some(status) {
                            return Ok(at);
                        }
                    }
                    WatchEvent::Error(error) => bail!("the watch failed: {error:?}"),
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                }
            }
        };
        let waited = timeout(PATIENCE, search).await;
        waited
            .with_context(|| format!("waited {PATIENCE:?} for Ready={status} of {name} in {}", self.group))?
    }
}

/// A kind of a group.
fn api(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, causeway_api::V1ALPHA1, kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Status of an Uplink's `Ready`.
fn ready(uplink: &DynamicObject) -> Option<&str> {
    let conditions = uplink.data.pointer("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    ready["status"].as_str()
}
