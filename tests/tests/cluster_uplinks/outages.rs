//! The API server or Open vSwitch is away, at the start of an agent and in the middle of its work.

use std::time::Duration;

use anyhow::ensure;
use causeway_rig::{OVS_SOCKET, Program};
use causeway_tests::blue;
use causeway_tests::states;
use kube::api::DeleteParams;

use crate::agents::{Agent, is_ready};
use crate::changes::with;
use crate::facts::shell;
use crate::world::World;

const NODE_AGENTS: [Agent; 3] = [Agent::Host, Agent::Dpu, Agent::Node];

async fn no_default_route(world: &World) -> anyhow::Result<()> {
    shell(&world.pair.host, "ip route del default via 172.31.0.1 dev eth0-16").await?;
    shell(&world.node_b, "ip route del default via 172.28.0.1 dev ovsbr1").await
}

async fn default_route(world: &World) -> anyhow::Result<()> {
    shell(&world.pair.host, "ip route add default via 172.31.0.1 dev eth0-16 metric 50000").await?;
    shell(&world.node_b, "ip route add default via 172.28.0.1 dev ovsbr1 metric 50000").await
}

/// Waits until both states have no default gateway, and nothing else differs from a whole world.
async fn without_gateways(world: &World) -> anyhow::Result<()> {
    for (state, whole) in [(blue::STATE_A, World::whole_card()), (blue::STATE_B, world.whole_regular())] {
        world.says(state, &with(whole, "defaultGateways", None)).await?;
    }
    Ok(())
}

/// The API server crashes and comes back: no agent exits, and what changed meanwhile is published.
pub(crate) async fn api_restarts(world: &mut World) -> anyhow::Result<()> {
    let pids = |world: &World| -> anyhow::Result<Vec<u32>> {
        Agent::ALL.iter().map(|agent| Ok(agent.process(world)?.pid())).collect()
    };
    let before = pids(world)?;
    world.rig.stop_api().await?;
    no_default_route(world).await?;
    for agent in NODE_AGENTS {
        let what = "that the API server is away";
        agent.until_readiness(world, what, |text| text.contains("api: ")).await?;
    }
    world.rig.start_api().await?;
    without_gateways(world).await?;
    for agent in NODE_AGENTS {
        agent.until_readiness(world, "that it is ready", is_ready).await?;
    }
    default_route(world).await?;
    world.is_whole().await?;
    ensure!(pids(world)? == before, "an agent was replaced");
    Ok(())
}

/// The API server hangs with its connections open; what changed meanwhile is published when it goes on.
pub(crate) async fn api_hangs(world: &mut World) -> anyhow::Result<()> {
    world.rig.pause_api().await?;
    no_default_route(world).await?;
    // Something that the agents have to notice for themselves: their requests stand, or time out, until it goes on.
    shell(&world.pair.card, "ovs-vsctl del-port br-tenant p0 -- add-port br-tenant p0").await?;
    world.rig.resume_api()?;
    without_gateways(world).await?;
    default_route(world).await
}

/// Agents that start while the API server is away say so, stay, and do their work when it is there.
pub(crate) async fn api_away_at_start(world: &mut World) -> anyhow::Result<()> {
    for agent in NODE_AGENTS {
        agent.process(world)?.kill().await?;
    }
    world.rig.stop_api().await?;
    for agent in NODE_AGENTS {
        agent.process(world)?.restart().await?;
    }
    for agent in NODE_AGENTS {
        let what = "that the API server is away";
        agent.until_readiness(world, what, |text| text.contains("api: ")).await?;
        ensure!(agent.process(world)?.is_running(), "{agent:?} has exited");
    }
    no_default_route(world).await?;
    world.rig.start_api().await?;
    without_gateways(world).await?;
    default_route(world).await
}

/// The database restarts under agents that rest on it: nothing flips, nothing is written.
pub(crate) async fn ovsdb_restarts(world: &mut World) -> anyhow::Result<()> {
    let before = world.versions().await?;
    for (agent, ovs) in [(Agent::Dpu, &world.card_ovs), (Agent::Node, &world.node_b_ovs)] {
        let written = agent.writes(world).await?;
        ovs.stop_server().await?;
        let away = |text: &str| text.contains("ovsdb: Open vSwitch database lost: ");
        agent.until_readiness(world, "that the database is away", away).await?;
        ovs.start_server().await?;
        agent.settle(world).await?;
        ensure!(agent.writes(world).await? == written, "{agent:?} wrote after a restart of the database");
    }
    let after = world.versions().await?;
    ensure!(before == after, "versions before and after: {before:?}, {after:?}");
    Ok(())
}

/// What changes in Open vSwitch while the connection is lost is published afterwards.
pub(crate) async fn ovsdb_changes_while_away(world: &mut World) -> anyhow::Result<()> {
    Agent::Dpu.process(world)?.pause().await?;
    shell(&world.pair.card, "ovs-vsctl del-port br-tenant p0").await?;
    world.card_ovs.stop_server().await?;
    world.card_ovs.start_server().await?;
    Agent::Dpu.process(world)?.resume()?;
    states::state_says(&world.client(), blue::STATE_A, "Resolved", "False/BridgeUplinkNotFound").await?;
    shell(&world.pair.card, "ovs-vsctl add-port br-tenant p0").await
}

/// On a regular node the host's trouble is told even while the database is away.
pub(crate) async fn host_trouble_while_ovsdb_is_away(world: &mut World) -> anyhow::Result<()> {
    world.node_b_ovs.stop_server().await?;
    Agent::Node.until_readiness(world, "that the database is away", |text| text.contains("ovsdb: ")).await?;
    shell(&world.node_b, "ip addr del 172.28.0.2/16 dev ovsbr1").await?;
    states::state_says(&world.client(), blue::STATE_B, "Resolved", "False/GatewayInfoUnavailable").await?;
    world.node_b_ovs.start_server().await?;
    let back =
        "ip addr add 172.28.0.2/16 dev ovsbr1; ip route add default via 172.28.0.1 dev ovsbr1 metric 50000";
    shell(&world.node_b, back).await
}

/// Without a database at start the state is made all the same and says why it is not resolved.
pub(crate) async fn ovsdb_missing_at_start(world: &mut World) -> anyhow::Result<()> {
    Agent::Node.process(world)?.kill().await?;
    world.states().delete(blue::STATE_B, &DeleteParams::default()).await?;
    world.node_b_ovs.stop_server().await?;
    Agent::Node.process(world)?.restart().await?;
    let named = |text: &str| {
        text.starts_with("not ready\n") && text.contains("ovsdb: ") && text.contains("/openvswitch/db.sock")
    };
    Agent::Node.until_readiness(world, "which socket is missing", named).await?;
    let state =
        states::state_says(&world.client(), blue::STATE_B, "Resolved", "False/BridgeNotFound").await?;
    let message = states::message(state.conditions(), "Resolved");
    ensure!(message.starts_with("failed to list OVS bridges: Open vSwitch database "), "{message}");
    world.node_b_ovs.start_server().await?;
    world.is_whole().await?;
    Agent::Node.until_readiness(world, "that it is ready", is_ready).await.map(drop)
}

/// Who listens where the database should be and answers nonsense.
const GARBAGE: &str = "\
import os, socket, sys
path = sys.argv[1]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
while True:
    peer, _ = listener.accept()
    peer.sendall(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n')
    peer.close()
";

/// Something else answers on the database's socket: readiness and log say so, and all heals with the right server.
pub(crate) async fn ovsdb_answers_garbage(world: &mut World) -> anyhow::Result<()> {
    let before = world.versions().await?;
    world.card_ovs.stop_server().await?;
    let impostor = Program::new("python3").named("impostor").args(["-c", GARBAGE, OVS_SOCKET]);
    let impostor = world.pair.card.spawn(impostor).await?;
    let named = |text: &str| {
        text.contains("ovsdb: Open vSwitch database lost: ") && text.contains("sent no JSON-RPC")
    };
    let text = Agent::Dpu.until_readiness(world, "that the answer is no JSON-RPC", named).await?;
    let log = Agent::Dpu.process(world)?.log_text()?;
    ensure!(log.contains("sent no JSON-RPC"), "the log does not say what readiness says: {text}");
    impostor.kill().await?;
    shell(&world.pair.card, &format!("rm {OVS_SOCKET}")).await?;
    world.card_ovs.start_server().await?;
    Agent::Dpu.settle(world).await?;
    let after = world.versions().await?;
    ensure!(before == after, "versions before and after: {before:?}, {after:?}");
    Ok(())
}

/// A termination ends every agent at once and in good order, whether its servers are there or not.
pub(crate) async fn termination(world: &mut World) -> anyhow::Result<()> {
    for agent in Agent::ALL {
        let status = agent.process(world)?.stop(Duration::from_secs(2)).await?;
        ensure!(status.code() == Some(0), "{agent:?} ended with {status}");
    }
    world.rig.stop_api().await?;
    world.card_ovs.stop_server().await?;
    for agent in NODE_AGENTS {
        agent.process(world)?.restart().await?;
        agent.until_readiness(world, "that the API server is away", |text| text.contains("api: ")).await?;
        let status = agent.process(world)?.stop(Duration::from_secs(2)).await?;
        ensure!(status.code() == Some(0), "{agent:?} without its servers ended with {status}");
    }
    world.card_ovs.start_server().await?;
    world.rig.start_api().await?;
    for agent in Agent::ALL {
        agent.process(world)?.restart().await?;
        agent.until_readiness(world, "that it is ready", is_ready).await?;
    }
    Ok(())
}
