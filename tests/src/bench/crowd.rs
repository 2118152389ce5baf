//! A control plane with the cluster manager and many Nodes, Uplinks and states of which no machine knows.

use std::time::Duration;

use anyhow::Context;
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::{KUBECONFIG, Node, Process, Rig, RigOptions, Side};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::audit::Audit;
use super::probe::Probe;
use super::stage::{FEATURES, NUMBERS, Part};
use crate::access::{self, Account};
use crate::manifests;
use crate::states::verdict;

/// Requests of the bench that run at a time.
pub const WIDTH: usize = 64;
/// How long the cluster manager may take to say what is to be seen.
const PATIENCE: Duration = Duration::from_mins(2);

/// The control plane.
pub struct Crowd {
    /// What its API server notes.
    pub audit: Audit,
    /// The rig.
    pub rig: Rig,
    /// The cluster manager, under its own account.
    pub manager: Process,
    /// Its numbers.
    pub probe: Probe,
    /// Names of the Nodes.
    pub nodes: Vec<String>,
    /// Names of the Uplinks.
    pub uplinks: Vec<String>,
    _place: Node,
}

impl Crowd {
    /// Starts the control plane and the cluster manager and makes Nodes, Uplinks that select all of them, and a state of
    /// each pair that has not found its bridge. Returns when the cluster manager has said so of each Uplink.
    ///
    /// # Errors
    /// A part does not start, or the cluster manager says something else.
    pub async fn gather(nodes: usize, uplinks: usize) -> anyhow::Result<Self> {
        Self::gather_on(Audit::new(RigOptions::bare())?, nodes, uplinks).await
    }

    /// The same, with a log of one's choice.
    ///
    /// # Errors
    /// As [`Crowd::gather`].
    pub async fn gather_on(
        (audit, options): (Audit, RigOptions),
        nodes: usize,
        uplinks: usize,
    ) -> anyhow::Result<Self> {
        let (rig, token) = control_plane(options).await?;
        let place = rig.node("control").unregistered().start().await?;
        place.write(KUBECONFIG, rig.kubeconfig_of(&token, Side::Inside)?)?;
        let part = Part::ClusterManager;
        let arguments = FEATURES.into_iter().chain(["--metrics-bind-address", NUMBERS]);
        let manager = place.spawn_built(part.program(), arguments.chain(part.role().iter().copied())).await?;
        let probe = Probe::new(&place, NUMBERS)?;
        probe.ready(&manager).await?;
        let nodes = (0..nodes).map(|number| format!("n{number}")).collect();
        let uplinks = (0..uplinks).map(|number| format!("u{number}")).collect();
        let this = Self { audit, rig, manager, probe, nodes, uplinks, _place: place };
        this.populate().await?;
        Ok(this)
    }

    async fn populate(&self) -> anyhow::Result<()> {
        let client = self.rig.client();
        all(self.nodes.iter().map(|name| make_node(&client, name))).await?;
        all(self.uplinks.iter().map(|name| make_uplink(&client, name, "way"))).await?;
        let states = self.pairs().map(|(uplink, node)| make_state(&client, uplink, node, false));
        all(states).await?;
        self.all_say("False/UplinkStateNotResolved").await
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let nodes = || self.nodes.iter().map(String::as_str);
        self.uplinks.iter().flat_map(move |uplink| nodes().map(move |node| (uplink.as_str(), node)))
    }

    /// Lets every state find its bridge, as many at a time as the API server takes, and waits until all Uplinks are ready.
    ///
    /// # Errors
    /// They do not get ready.
    pub async fn resolve_all(&self) -> anyhow::Result<()> {
        let client = self.rig.client();
        all(self.pairs().map(|(uplink, node)| resolve(&client, uplink, node))).await?;
        self.all_say("True/Ready").await
    }

    async fn all_say(&self, want: &str) -> anyhow::Result<()> {
        let client = self.rig.client();
        let each = self.uplinks.iter().map(|name| uplink_says(&client, name, want));
        all(each).await
    }
}

/// A control plane that knows everything of Causeway, in which nobody is at work; the cluster manager's token.
///
/// # Errors
/// A part does not start.
pub async fn control_plane(options: RigOptions) -> anyhow::Result<(Rig, String)> {
    let rig = Rig::start(options).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    access::install(&rig).await?;
    let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
    access::wait_roles(&rig, &token).await?;
    Ok((rig, token))
}

/// Waits for an Uplink's verdict.
async fn uplink_says(client: &Client, name: &str, want: &str) -> anyhow::Result<()> {
    let says =
        |uplink: Option<&Uplink>| uplink.is_some_and(|uplink| verdict(uplink.conditions(), "Ready") == want);
    causeway_rig::wait_object(Api::all(client.clone()), name, want, PATIENCE, says).await.map(drop)
}

/// Does all of this, as much at a time as the API server takes.
///
/// # Errors
/// The first that failed.
pub async fn all(work: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>) -> anyhow::Result<()> {
    stream::iter(work).buffer_unordered(WIDTH).try_collect::<Vec<()>>().await.map(drop)
}

/// Makes an object without a namespace.
///
/// # Errors
/// The API server refuses.
pub async fn create<K>(client: &Client, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + serde::Serialize,
{
    let object: K = serde_json::from_value(object).context("an object")?;
    Api::<K>::all(client.clone()).create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Makes a Node that Uplinks of `make_uplink` with label `way` select.
///
/// # Errors
/// The API server refuses.
pub async fn make_node(client: &Client, name: &str) -> anyhow::Result<()> {
    create::<NodeObject>(client, json!({"metadata": {"name": name, "labels": {"way": "out"}}})).await
}

/// Makes an Uplink for the Nodes with a label.
///
/// # Errors
/// The API server refuses.
pub async fn make_uplink(client: &Client, name: &str, label: &str) -> anyhow::Result<()> {
    create::<Uplink>(client, json!({"metadata": {"name": name}, "spec": uplink_spec(label)})).await
}

/// The spec of an Uplink for the Nodes with a label.
#[must_use]
pub fn uplink_spec(label: &str) -> Value {
    json!({"nodeConfigs": [{
        "type": "OVSBridge", "nodeSelector": {"matchLabels": {label: "out"}}, "hostInterfaceName": "br",
    }]})
}

/// The status of a state that resolved its interface, or did not.
#[must_use]
pub fn state_status(resolved: bool) -> Value {
    let (status, reason) = if resolved { ("True", "Resolved") } else { ("False", "BridgeNotFound") };
    json!({"type": "OVSBridge", "hostInterfaceName": "br", "conditions": [{
        "type": "Resolved", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]})
}

/// Makes the state of a pair.
///
/// # Errors
/// The API server refuses.
pub async fn make_state(client: &Client, uplink: &str, node: &str, resolved: bool) -> anyhow::Result<()> {
    let state = json!({
        "metadata": {"name": format!("{uplink}.{node}")},
        "spec": {"uplinkName": uplink, "nodeName": node},
        "status": state_status(resolved),
    });
    create::<UplinkState>(client, state).await
}

/// Lets a state have found its bridge.
///
/// # Errors
/// The API server refuses.
pub async fn resolve(client: &Client, uplink: &str, node: &str) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({ "status": state_status(true) }));
    let api: Api<UplinkState> = Api::all(client.clone());
    api.patch(&format!("{uplink}.{node}"), &PatchParams::default(), &patch).await?;
    Ok(())
}
