//! What the writer rests on where it merges a Node: the API server's own merge and its short answer.

use anyhow::{Context, ensure};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::world::{NODES, World, node};

const STATUS: &str = "/api/v1/nodes/one/status?fieldManager=test&includeObject=None";
const MERGE: &str = "application/strategic-merge-patch+json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

pub(crate) async fn are_merged() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.create_in(NODES, &node("one")).await?;
    let found = there(&world).await?;
    let at = |object: &Value, pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    let version = |object: &Value| at(object, "/metadata/resourceVersion");
    let (before, uid) = (version(&found), at(&found, "/metadata/uid"));
    let of = |version: &Value, annotations: Value| json!({"metadata": {"uid": uid, "resourceVersion": version, "annotations": annotations}});
    let first = merge(&world.admin, &of(&before, json!({"a": "1", "b": "2"}))).await?;
    ensure!(at(&first, "/kind") == "Table" && !first.to_string().contains("annotations"), "{first}");
    let found = there(&world).await?;
    ensure!(version(&found) == version(&first) && version(&first) != before, "{first}: {found}");

    let stale = merge(&world.admin, &of(&before, json!({"a": "3"}))).await;
    let refused = stale.err().context("a write that rests on an old version was carried out")?.to_string();
    ensure!(refused.contains("the object has been modified"), "{refused}");
    merge(&world.admin, &of(&version(&first), json!({"a": null}))).await?;
    let annotations = at(&there(&world).await?, "/metadata/annotations");
    ensure!(annotations == json!({"b": "2"}), "{annotations}");
    Ok(())
}

async fn there(world: &World) -> anyhow::Result<Value> {
    world.get("/api/v1/nodes/one").await?.context("the Node is gone")
}

async fn merge(client: &Client, patch: &Value) -> anyhow::Result<Value> {
    let request = Request::patch(STATUS).header("content-type", MERGE).header("accept", TABLE);
    Ok(client.request(request.body(serde_json::to_vec(patch)?)?).await?)
}
