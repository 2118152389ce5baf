//! A client that does the least that a cluster manager can do: it watches, and applies once.
//!
//! It takes for granted what a cluster manager has to find out: that a new Uplink is not ready, and which state is the
//! last to find its bridge.

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::api;

/// Group of the copies of Uplinks and UplinkStates.
pub const GROUP: &str = "bench.causeway.internal";
/// The Node whose state is the last.
pub const LAST: &str = "m2";

/// Watches and applies until it is killed.
///
/// # Errors
/// A watch ends, or the API server refuses a write.
pub async fn run() -> anyhow::Result<()> {
    let client = Client::try_default().await.context("a client")?;
    let (uplinks, states) = (api(&client, GROUP, "Uplink"), api(&client, GROUP, "UplinkState"));
    tokio::try_join!(
        follow(&uplinks, async |uplink| {
            let is_new = uplink.data.pointer("/status/conditions").is_none();
            if is_new { say(&uplinks, &uplink.name_any(), "False").await } else { Ok(()) }
        }),
        follow(&states, async |state| {
            let name = state.name_any();
            let found =
                state.data.pointer("/status/conditions/0/status").is_some_and(|status| status == "True");
            match name.rsplit_once('.') {
                Some((uplink, LAST)) if found => say(&uplinks, uplink, "True").await,
                _ => Ok(()),
            }
        }),
    )?;
    Ok(())
}

/// Hands over every object that there is and every version that comes.
async fn follow(
    api: &Api<DynamicObject>,
    mut take: impl AsyncFnMut(DynamicObject) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let list = api.list(&ListParams::default()).await.context("listing")?;
    for object in list.items {
        take(object).await?;
    }
    let version = list.metadata.resource_version.context("a list without a version")?;
    let mut events =
        api.watch(&WatchParams::default().timeout(290), &version).await.context("watching")?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => take(object).await?,
            WatchEvent::Error(error) => bail!("the watch failed: {error:?}"),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    bail!("a watch ended")
}

async fn say(uplinks: &Api<DynamicObject>, name: &str, status: &str) -> anyhow::Result<()> {
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Bench", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let body = json!({
        "apiVersion": format!("{GROUP}/{}", causeway_api::V1ALPHA1), "kind": "Uplink", "metadata": {"name": name},
        "status": {"conditions": [condition]},
    });
    uplinks.patch_status(name, &PatchParams::apply("bench").force(), &Patch::Apply(body)).await?;
    Ok(())
}
