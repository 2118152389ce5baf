//! `uplink explain`.

use anyhow::{Context, ensure};
use causeway_rig::Node;
use causeway_tests::blue::{self, BlueWorld};
use causeway_tests::states::{state_says, uplink_says};
use kube::Api;
use kube::api::DeleteParams;

use causeway_api::uplink_state::UplinkState;
use serde_json::Value;

use crate::world::{SUPPORTER, ctl};

async fn explain(node: &Node, code: i32, more: &[&str]) -> anyhow::Result<Value> {
    let words = ["uplink", "explain", blue::UPLINK, "-o", "json"];
    let words: Vec<&str> = words.iter().chain(more).copied().collect();
    ctl(node, &words).await?.ended(code)?.json()
}

/// Where it stops, as `step reason node`; with a cause and a remedy.
fn stop(explanation: &Value) -> anyhow::Result<String> {
    let stop = &explanation["stopsAt"];
    for part in ["message", "means", "remedy"] {
        ensure!(stop[part].as_str().is_some_and(|text| !text.is_empty()), "no {part}: {stop:#}");
    }
    let word = |name: &str| stop[name].as_str().unwrap_or("-").to_owned();
    Ok(format!("{} {} {}", word("step"), word("reason"), word("node")))
}

/// A good Uplink is explained by the API server alone, and with the agent's word where there is an agent.
pub(crate) async fn ready(world: &mut BlueWorld) -> anyhow::Result<()> {
    let alone = explain(&world.control, 0, &[]).await?;
    ensure!(alone["stopsAt"].is_null() && alone["resolved"] == 2 && alone["selected"] == 2, "{alone:#}");
    ensure!(alone["entries"][1]["nodes"][0] == "node-a", "{alone:#}");
    ensure!(alone["nodes"][1]["agents"] == serde_json::json!([]), "{alone:#}");
    let written = &alone["nodes"][0]["conditions"][0]["written"][1];
    ensure!(written.as_str().is_some_and(|manager| manager.starts_with("ovnkube-node-uplink")), "{alone:#}");

    let with_agent = explain(&world.node_b, 0, &[]).await?;
    let said = with_agent["nodes"][1]["agents"].to_string();
    ensure!(said.contains("node-agent: discover"), "{said}");

    let text = ctl(&world.node_b, &["uplink", "explain", blue::UPLINK]).await?.ended(0)?.stdout;
    for part in [
        "Ready=True/Ready",
        "selects node-a",
        "2 of 2 selected",
        "bridge br-tenant",
        "Nothing is in the way.",
    ] {
        ensure!(text.contains(part), "no {part:?} in\n{text}");
    }
    // The same by kubectl's way to plugins, and by the account that the agent of the place has.
    let plugin = ["kubectl", "causeway", "--kubeconfig", SUPPORTER, "uplink", "explain", blue::UPLINK];
    let text = world.node_b.exec(plugin).await?;
    ensure!(text.contains("Nothing is in the way."), "{text}");
    for place in [&world.pair.host, &world.pair.card, &world.node_b] {
        explain(place, 0, &["--kubeconfig", causeway_rig::KUBECONFIG]).await?;
    }
    Ok(())
}

/// A break on a node, its state's verdict, and where the explanation must stop.
struct Break {
    place: fn(&BlueWorld) -> &Node,
    hurt: &'static str,
    heal: &'static str,
    state: &'static str,
    says: (&'static str, &'static str),
    stops: &'static str,
}

const BREAKS: &[Break] = &[
    Break {
        place: |world| &world.pair.host,
        hurt: "ip addr del 172.31.0.10/24 dev eth0-16",
        heal: "ip addr add 172.31.0.10/24 dev eth0-16; \
               ip route replace default via 172.31.0.1 dev eth0-16 metric 50000",
        state: blue::STATE_A,
        says: ("HostDataReady", "False/GatewayInfoUnavailable"),
        stops: "host GatewayInfoUnavailable node-a",
    },
    Break {
        place: |world| &world.pair.card,
        hurt: "ovs-vsctl del-port br-tenant p0",
        heal: "ovs-vsctl add-port br-tenant p0",
        state: blue::STATE_A,
        says: ("Resolved", "False/BridgeUplinkNotFound"),
        stops: "bridge BridgeUplinkNotFound node-a",
    },
    Break {
        place: |world| &world.pair.card,
        hurt: "ovs-vsctl del-port br-tenant rep0-16",
        heal: "ovs-vsctl add-port br-tenant rep0-16",
        state: blue::STATE_A,
        says: ("Resolved", "False/BridgeNotFound"),
        stops: "bridge BridgeNotFound node-a",
    },
    Break {
        place: |world| &world.node_b,
        hurt: "ovs-vsctl del-port ovsbr1 eth1",
        heal: "ovs-vsctl add-port ovsbr1 eth1",
        state: blue::STATE_B,
        says: ("Resolved", "False/BridgeUplinkNotFound"),
        stops: "bridge BridgeUplinkNotFound node-b",
    },
];

pub(crate) async fn broken_nodes(world: &mut BlueWorld) -> anyhow::Result<()> {
    let client = world.client();
    for case in BREAKS {
        let what = || format!("after {}", case.hurt);
        let place = (case.place)(world);
        place.exec(["sh", "-ec", case.hurt]).await?;
        state_says(&client, case.state, case.says.0, case.says.1).await.with_context(what)?;
        let found = stop(&explain(&world.control, 1, &[]).await?).with_context(what)?;
        ensure!(found == case.stops, "{}: {found}, not {}", what(), case.stops);
        // The other node is not to blame.
        let other = if case.state == blue::STATE_A { "node-b" } else { "node-a" };
        let well = explain(&world.control, 0, &["--node", other]).await.with_context(what)?;
        ensure!(well["stopsAt"].is_null(), "{well:#}");
        place.exec(["sh", "-ec", case.heal]).await?;
        uplink_says(&client, blue::UPLINK, "True/Ready").await.with_context(what)?;
    }
    silent_node(world).await
}

/// A node whose agent is gone and whose state was deleted.
async fn silent_node(world: &mut BlueWorld) -> anyhow::Result<()> {
    let agent = world.agents.node.as_ref().context("the agent of node-b")?;
    agent.kill().await?;
    let client = world.client();
    Api::<UplinkState>::all(client.clone()).delete(blue::STATE_B, &DeleteParams::default()).await?;
    uplink_says(&client, blue::UPLINK, "False/MissingUplinkState").await?;
    let found = stop(&explain(&world.control, 1, &[]).await?)?;
    ensure!(found == "state MissingUplinkState node-b", "{found}");
    agent.restart().await?;
    uplink_says(&client, blue::UPLINK, "True/Ready").await.map(drop)
}

pub(crate) async fn broken_specs(world: &mut BlueWorld) -> anyhow::Result<()> {
    let client = world.client();
    let entry = |selector: &str| {
        format!(
            "{}  - type: OVSBridge\n    nodeSelector: {selector}\n    hostInterfaceName: br-x\n",
            blue::UPLINK_YAML
        )
    };
    let overlap = entry("{matchLabels: {example.com/tenant-blue-uplink: \"true\"}}");
    let invalid = entry("{matchExpressions: [{key: rack, operator: Foo}]}");
    for (yaml, verdict, want) in [
        (overlap, "False/NodeSelectorOverlap", "selection NodeSelectorOverlap node-b"),
        (invalid, "False/InvalidSpec", "spec InvalidSpec -"),
    ] {
        world.rig.apply(&yaml).await?;
        uplink_says(&client, blue::UPLINK, verdict).await?;
        let explanation = explain(&world.control, 1, &[]).await?;
        ensure!(stop(&explanation)? == want, "{explanation:#}");
        if verdict.contains("Invalid") {
            let cause = explanation["entries"][2]["invalid"].to_string();
            ensure!(cause.contains("not a valid label selector operator"), "{cause}");
        }
    }
    world.rig.apply(blue::UPLINK_YAML).await?;
    uplink_says(&client, blue::UPLINK, "True/Ready").await.map(drop)
}

pub(crate) async fn refused(world: &mut BlueWorld) -> anyhow::Result<()> {
    let node = &world.control;
    let missing = ctl(node, &["uplink", "explain", "nosuch"]).await?.ended(3)?;
    ensure!(missing.stderr.contains("there is no Uplink named nosuch"), "{missing:?}");
    let missing = ctl(node, &["uplink", "explain", blue::UPLINK, "--node", "nosuch"]).await?.ended(3)?;
    ensure!(missing.stderr.contains("there is no Node named nosuch"), "{missing:?}");
    ctl(node, &["uplink", "explain"]).await?.ended(2)?;
    ctl(node, &["uplink", "explain", blue::UPLINK, "--kubeconfig", "/nowhere"]).await?.ended(4)?;
    // Nothing listens on port 1.
    let away = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                contexts: [{name: c, context: {cluster: c, user: u}}]\n\
                clusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: u, user: {}}]\n";
    node.write("/root/away", away)?;
    for command in [&["uplink", "explain", blue::UPLINK] as &[&str], &["check"], &["dump", "/root/none"]] {
        let words: Vec<&str> = command.iter().chain(&["--kubeconfig", "/root/away"]).copied().collect();
        let run = ctl(node, &words).await?.ended(4)?;
        ensure!(run.stdout.is_empty() && !run.stderr.is_empty(), "{run:?}");
    }
    ensure!(!node.path("/root/none").exists(), "a dump of nothing was written");
    Ok(())
}
