//! What agents answer on their sockets, and what is said when they do not.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::Node;
use causeway_tests::blue::{self, BlueWorld};
use serde_json::Value;

use crate::world::ctl;

const SOCKET: &str = "/run/causeway/introspect.sock";

/// How long an agent may take to notice that a store went or came.
const NOTICE: Duration = Duration::from_secs(20);

async fn agent(node: &Node, code: i32) -> anyhow::Result<Value> {
    ctl(node, &["agent", "-o", "json"]).await?.ended(code)?.json()
}

fn store<'a>(answer: &'a Value, name: &str) -> anyhow::Result<&'a Value> {
    let stores = answer["stores"].as_array().context("stores")?;
    stores.iter().find(|store| store["name"] == name).with_context(|| format!("no store {name}: {answer:#}"))
}

fn candidate<'a>(answer: &'a Value, kind: &str, name: &str) -> anyhow::Result<&'a Value> {
    let seen = answer["candidates"].as_array().context("candidates")?;
    let found = seen.iter().find(|one| one["kind"] == kind && one["name"] == name);
    found.with_context(|| format!("no {kind} {name}: {answer:#}"))
}

pub(crate) async fn answers(world: &mut BlueWorld) -> anyhow::Result<()> {
    let cases = [
        (&world.pair.host, "host-agent", "dpu-host", "node-a", "HostDataReady", "HostDataDiscovered"),
        (&world.pair.card, "dpu-agent", "dpu", "node-a", "Resolved", "Resolved"),
        (&world.node_b, "node-agent", "full", "node-b", "Resolved", "Resolved"),
    ];
    for (place, program, role, node, condition, reason) in cases {
        let mode = std::fs::metadata(place.path(SOCKET))?.permissions().mode();
        ensure!(mode & 0o777 == 0o600, "mode {mode:o} of the socket of {program}");
        let answer = agent(place, 0).await?;
        for (name, want) in [("program", program), ("role", role), ("node", node)] {
            ensure!(answer[name] == want, "{name} of {program}: {answer:#}");
        }
        ensure!(answer["notes"] == serde_json::json!([]), "{answer:#}");
        for name in ["api/Uplink", "api/UplinkState", "api/Node", "kernel"] {
            ensure!(store(&answer, name)?["ready"] == true, "{answer:#}");
        }
        ensure!(store(&answer, "api/Uplink")?["objects"] == 1, "{answer:#}");
        ensure!(store(&answer, "ovsdb").is_ok() == (role != "dpu-host"), "{answer:#}");
        let uplink = &answer["uplinks"][0];
        ensure!(uplink["name"] == blue::UPLINK && uplink["decision"] == "discover", "{answer:#}");
        let verdict = &uplink["verdict"];
        ensure!(
            verdict["condition"] == condition && verdict["reason"] == reason && verdict["holds"] == true,
            "{answer:#}"
        );
        ensure!(uplink["failure"].is_null(), "{answer:#}");
        ensure!(uplink["passes"].as_u64() > Some(0) && uplink["writes"].as_u64() > Some(0), "{answer:#}");
    }
    let host = agent(&world.pair.host, 0).await?;
    ensure!(host["uplinks"][0]["host"]["addresses"] == blue::CARD_ADDRESS, "{host:#}");
    candidate(&host, "interface", blue::CARD_INTERFACE)?;
    let card = agent(&world.pair.card, 0).await?;
    ensure!(card["uplinks"][0]["bridge"] == blue::CARD_BRIDGE, "{card:#}");
    ensure!(candidate(&card, "representor", "rep0-16")?["facts"]["bridge"] == blue::CARD_BRIDGE, "{card:#}");
    let ports = candidate(&card, "bridge", blue::CARD_BRIDGE)?["facts"]["ports"].to_string();
    ensure!(ports.contains(blue::CARD_WIRE), "{ports}");
    let text = ctl(&world.pair.card, &["agent", "--uplink", blue::UPLINK]).await?.ended(0)?.stdout;
    ensure!(text.contains("Resolved=True/Resolved") && text.contains("api/Uplink"), "{text}");
    Ok(())
}

pub(crate) async fn store_away(world: &mut BlueWorld) -> anyhow::Result<()> {
    world.card_ovs.stop_server().await?;
    let card = &world.pair.card;
    let told = || async {
        let answer = ctl(card, &["agent", "-o", "json"]).await.and_then(|run| run.ended(1)?.json());
        answer.map_err(|error| format!("{error:#}"))
    };
    let answer = world.rig.wait_for("the agent to miss its database", NOTICE, told).await?;
    let ovsdb = store(&answer, "ovsdb")?;
    ensure!(ovsdb["ready"] == false, "{answer:#}");
    ensure!(
        ovsdb["reason"].as_str().is_some_and(|reason| reason.contains("Open vSwitch database")),
        "{ovsdb:#}"
    );
    // What was found before stays told.
    ensure!(answer["uplinks"][0]["verdict"]["holds"] == true, "{answer:#}");
    let text = ctl(card, &["uplink", "explain", blue::UPLINK]).await?.ended(0)?.stdout;
    ensure!(text.contains("dpu-agent: ovsdb is not ready"), "{text}");
    world.card_ovs.start_server().await?;
    let well = || async { agent(card, 0).await.map(drop).map_err(|error| format!("{error:#}")) };
    world.rig.wait_for("the agent to have its database again", NOTICE, well).await
}

pub(crate) async fn dead_agents(world: &mut BlueWorld) -> anyhow::Result<()> {
    let process = world.agents.node.as_ref().context("the agent of node-b")?;
    let node = &world.node_b;
    let explain = ["uplink", "explain", blue::UPLINK];
    let explain_by = ["uplink", "explain", blue::UPLINK, "--socket", SOCKET];

    process.kill().await?;
    let run = ctl(node, &["agent"]).await?.ended(5)?;
    ensure!(run.stderr.contains("no agent answers on /run/causeway/introspect.sock"), "{run:?}");
    ctl(node, &explain_by).await?.ended(5)?;
    // By the API server alone it goes on.
    ctl(node, &explain).await?.ended(0)?;
    let check = ctl(node, &["check"]).await?.ended(1)?;
    ensure!(check.stdout.contains("PROBLEM agent: no agent answers"), "{check:?}");

    // The file that the killed agent left is replaced.
    ensure!(node.path(SOCKET).exists());
    process.restart().await?;
    let well = || async { agent(node, 0).await.map(drop).map_err(|error| format!("{error:#}")) };
    world.rig.wait_for("the agent to answer again", NOTICE, well).await?;

    process.pause().await?;
    let run = ctl(node, &explain_by).await?.ended(5)?;
    ensure!(run.stderr.contains("stopped or stuck"), "{run:?}");
    process.resume()?;
    ctl(node, &explain_by).await?.ended(0).map(drop)
}
