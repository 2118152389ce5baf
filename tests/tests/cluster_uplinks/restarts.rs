//! Agents are killed and come back: what they said stays, and they write what changed and nothing else.

use anyhow::{Context, ensure};
use causeway_tests::blue;
use causeway_tests::states;
use serde_json::{Value, json};

use crate::agents::Agent;
use crate::changes::{keep_secondaries, with};
use crate::facts::shell;
use crate::world::{World, said};

/// Starts a killed agent again and returns how often it wrote until it had seen everything.
async fn writes_after_restart(world: &World, agent: Agent) -> anyhow::Result<u64> {
    agent.process(world)?.restart().await?;
    agent.settle(world).await?;
    agent.writes(world).await
}

/// Every agent of a converged cluster is killed and comes back without a single write.
pub(crate) async fn converged(world: &mut World) -> anyhow::Result<()> {
    for agent in Agent::ALL {
        let before = world.versions().await?;
        agent.process(world)?.kill().await?;
        let writes = writes_after_restart(world, agent).await?;
        ensure!(writes == 0, "{agent:?} wrote {writes} times after a restart that changed nothing");
        let after = world.versions().await?;
        ensure!(before == after, "versions before and after the restart of {agent:?}: {before:?}, {after:?}");
    }
    Ok(())
}

/// While the card's agent is dead its half stays, the host's goes on; back, it publishes what changed on the card.
pub(crate) async fn of_the_card(world: &mut World) -> anyhow::Result<()> {
    world.card_ovs.add_bridge(&world.pair.card, "br-two").physical("p1").create().await?;
    let half = |status: &Value| (status.get("ovsBridge").cloned(), status.pointer("/conditions/1").cloned());
    let last = said(&world.state(blue::STATE_A).await?);
    ensure!(last == World::whole_card(), "{last:#}");
    let times = transition(world, "Resolved").await?;

    Agent::Dpu.process(world)?.kill().await?;
    let other = "ip addr add 172.31.0.11/24 dev eth0-16; ip addr del 172.31.0.10/24 dev eth0-16";
    shell(&world.pair.host, &format!("{}\n{other}", keep_secondaries("eth0-16"))).await?;
    let moved = with(World::whole_card(), "ipAddresses", Some(json!(["172.31.0.11/24"])));
    let state = world.says(blue::STATE_A, &moved).await?;
    ensure!(
        half(&said(&state)) == half(&last),
        "the card's half while its agent is dead: {:#}",
        said(&state)
    );
    ensure!(transition(world, "Resolved").await? == times, "the card's condition got another time");
    let writes = writes_after_restart(world, Agent::Dpu).await?;
    ensure!(writes == 0, "{writes} writes though nothing changed on the card");

    Agent::Dpu.process(world)?.kill().await?;
    shell(&world.pair.card, "ovs-vsctl del-port br-tenant rep0-16 -- add-port br-two rep0-16").await?;
    let writes = writes_after_restart(world, Agent::Dpu).await?;
    ensure!(writes == 1, "{writes} writes for one change on the card");
    let moved = with(moved, "ovsBridge", Some(json!({"name": "br-two"})));
    world.says(blue::STATE_A, &moved).await?;

    shell(&world.pair.card, "ovs-vsctl del-port br-two rep0-16 -- add-port br-tenant rep0-16").await?;
    let back = "ip addr add 172.31.0.10/24 dev eth0-16; ip addr del 172.31.0.11/24 dev eth0-16";
    shell(&world.pair.host, back).await?;
    world.is_whole().await?;
    shell(&world.pair.card, "ovs-vsctl --timeout=30 del-br br-two; ip link del p1").await
}

async fn transition(world: &World, type_: &str) -> anyhow::Result<String> {
    let state = world.state(blue::STATE_A).await?;
    let condition = causeway_api::condition::find(state.conditions(), type_).context("the condition")?;
    Ok(condition.last_transition_time.0.to_string())
}

/// While the host's agent is dead its half stays, the card's goes on; back, it publishes what changed on the host.
pub(crate) async fn of_the_host(world: &mut World) -> anyhow::Result<()> {
    Agent::Host.process(world)?.kill().await?;
    shell(&world.pair.card, "ovs-vsctl del-port br-tenant p0").await?;
    let client = world.client();
    let state = states::state_says(&client, blue::STATE_A, "Resolved", "False/BridgeUplinkNotFound").await?;
    let (status, whole) = (said(&state), World::whole_card());
    for field in ["hostInterfaceName", "macAddress", "ipAddresses", "defaultGateways", "hostFunction"] {
        ensure!(status.get(field) == whole.get(field), "{field} while the host's agent is dead: {status:#}");
    }
    ensure!(status.pointer("/conditions/0") == whole.pointer("/conditions/0"), "{status:#}");
    shell(&world.pair.card, "ovs-vsctl add-port br-tenant p0").await?;
    world.is_whole().await?;

    shell(&world.pair.host, "ip route del default via 172.31.0.1 dev eth0-16").await?;
    let writes = writes_after_restart(world, Agent::Host).await?;
    ensure!(writes == 1, "{writes} writes for one change on the host");
    let without = with(World::whole_card(), "defaultGateways", None);
    world.says(blue::STATE_A, &without).await?;
    shell(&world.pair.host, "ip route add default via 172.31.0.1 dev eth0-16 metric 50000").await
}

/// A stopped agent misses many changes; going on, it publishes the last.
pub(crate) async fn paused(world: &mut World) -> anyhow::Result<()> {
    for (agent, interface, address, state) in [
        (Agent::Host, blue::CARD_INTERFACE, "172.31.0.", blue::STATE_A),
        (Agent::Node, blue::BRIDGE, "172.28.0.", blue::STATE_B),
    ] {
        let node = agent.place(world);
        agent.process(world)?.pause().await?;
        let script = format!(
            "for i in $(seq 20 220); do ip addr add {address}$i/24 dev {interface}; done\n\
             ip addr flush dev {interface} scope global\n\
             ip addr add {address}99/24 dev {interface}"
        );
        shell(node, &script).await?;
        agent.process(world)?.resume()?;
        let whole = if agent == Agent::Host { World::whole_card() } else { world.whole_regular() };
        let last = with(
            with(whole, "ipAddresses", Some(json!([format!("{address}99/24")]))),
            "defaultGateways",
            None,
        );
        world.says(state, &last).await?;
        let (first, gateway) = match agent {
            Agent::Host => (blue::CARD_ADDRESS, blue::CARD_GATEWAY),
            _ => ("172.28.0.2/16", "172.28.0.1"),
        };
        let back = format!(
            "ip addr flush dev {interface} scope global; ip addr add {first} dev {interface}\n\
             ip route add default via {gateway} dev {interface} metric 50000"
        );
        shell(node, &back).await?;
        world.is_whole().await?;
    }
    Ok(())
}
