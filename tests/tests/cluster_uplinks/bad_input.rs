//! Programs that are started wrongly, and objects that are not ours.

use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_tests::blue;
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;
use kube::api::DeleteParams;

use crate::agents::{Agent, is_ready};
use crate::facts::uplink_of;
use crate::world::World;

/// How long a program that cannot start may take to say so.
const REFUSAL: Duration = Duration::from_secs(10);

/// A run of an agent with other flags, in the place of the usual one, to its end: exit code and what it printed.
async fn refused(world: &World, agent: Agent, more: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    // Its log goes on where the usual run's ends.
    let before = agent.process(world)?.mark()?;
    let process = agent.spawn(world, more).await?;
    let status = process.wait_exit(REFUSAL).await?;
    Ok((status.code(), before.read(process.log())?))
}

/// Programs that cannot start end with a code for the cause and one sentence.
pub(crate) async fn start(world: &mut World) -> anyhow::Result<()> {
    for agent in Agent::ALL {
        agent.process(world)?.kill().await?;
        let (code, text) = refused(world, agent, &["--no-such-flag"]).await?;
        ensure!(code == Some(2) && text.contains("--no-such-flag"), "{agent:?}: {code:?}, {text}");

        let missing = "/etc/causeway/no-such-kubeconfig";
        let (code, text) = refused(world, agent, &["--k8s-kubeconfig", missing]).await?;
        ensure!(code == Some(1), "{agent:?}: {code:?}, {text}");
        is_told_once(&text, missing).with_context(|| format!("{agent:?}: {text}"))?;

        let broken = "/etc/causeway/broken-kubeconfig";
        agent.place(world).write(broken, "clusters: 7\n")?;
        let (code, text) = refused(world, agent, &["--k8s-kubeconfig", broken]).await?;
        ensure!(code == Some(1), "{agent:?}: {code:?}, {text}");
        is_told_once(&text, broken).with_context(|| format!("{agent:?}: {text}"))?;

        agent.process(world)?.restart().await?;
    }
    Ok(())
}

/// One error line names the file.
fn is_told_once(log: &str, path: &str) -> anyhow::Result<()> {
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    ensure!(errors.len() == 1 && errors.iter().all(|line| line.contains(path)), "errors: {errors:?}");
    Ok(())
}

/// An agent of a Node that does not exist says so, and works as soon as the Node is there.
pub(crate) async fn unknown_node(world: &mut World) -> anyhow::Result<()> {
    const NAME: &str = "node-late";
    const ALL_RIGHTS: &str = "/etc/causeway/all-rights";
    Agent::Node.process(world)?.kill().await?;
    // The account of `node-b` may have no more rights than its own node's agent needs.
    let all_rights = std::fs::read(world.rig.folder().join("control-plane/kubeconfig"))?;
    world.node_b.write(ALL_RIGHTS, all_rights)?;
    let late = Agent::Node.spawn(world, &["--init-node", NAME, "--k8s-kubeconfig", ALL_RIGHTS]).await?;
    let named = |text: &str| text.contains("api: ") && text.contains("there is no Node named node-late");
    Agent::Node.until_readiness(world, "that there is no such Node", named).await?;
    make_node(world, NAME).await?;
    let text = Agent::Node.until_readiness(world, "that it is ready", is_ready).await?;
    ensure!(late.is_running(), "{text}");
    let client = world.client();
    let state = format!("{}.{NAME}", blue::UPLINK);
    causeway_tests::states::state_says(&client, &state, "Resolved", "True/Resolved").await?;
    // The Node goes, and its state with it.
    Api::<NodeObject>::all(client).delete(NAME, &DeleteParams::default()).await?;
    world.state_is_gone(&state).await?;
    late.kill().await?;
    Agent::Node.process(world)?.restart().await
}

async fn make_node(world: &World, name: &str) -> anyhow::Result<()> {
    let annotations = causeway_rig::UplinkAnnotations::default().render(name);
    let node = serde_json::json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {blue::LABEL: "true"}, "annotations": annotations},
    });
    world.rig.apply(&node.to_string()).await.map(drop)
}

/// A state of another pair under the name of ours is left alone and reported; ours is made when it goes.
pub(crate) async fn foreign_uplink(world: &mut World) -> anyhow::Result<()> {
    // The other pair has to be wanted: the cluster manager deletes states that nobody wants.
    let other = uplink_of("other", "node-b", blue::BRIDGE);
    world.rig.apply(&other).await?;
    world.says("other.node-b", &world.whole_regular()).await?;
    let message = "1 of 2 selected node(s) have readiness failures; examples: \
                   node-b=UplinkStateIdentityError: uplinkName=\"other\"";
    is_left_alone(world, "other", "node-b", "False/UplinkStateIdentityError", message).await?;
    world.states().delete(blue::STATE_B, &DeleteParams::default()).await?;
    world.is_whole().await?;
    world.rig.delete(&other).await?;
    world.state_is_gone("other.node-b").await
}

/// The same with the name of another node, whose objects the agent does not watch.
pub(crate) async fn foreign_node(world: &mut World) -> anyhow::Result<()> {
    make_node(world, "node-z").await?;
    let message = "2 of 3 selected node(s) have readiness failures; examples: \
                   node-b=UplinkStateIdentityError: nodeName=\"node-z\", node-z=MissingUplinkState";
    is_left_alone(world, blue::UPLINK, "node-z", "False/MissingUplinkState", message).await?;
    world.states().delete(blue::STATE_B, &DeleteParams::default()).await?;
    Api::<NodeObject>::all(world.client()).delete("node-z", &DeleteParams::default()).await?;
    // Nothing tells the agent that an object of another node went; it looks again after a minute, or at an event.
    world.node_b.set_label("example.com/poked", Some("true")).await?;
    world.is_whole().await?;
    world.node_b.set_label("example.com/poked", None).await
}

async fn is_left_alone(
    world: &World,
    uplink: &str,
    node: &str,
    verdict: &str,
    message: &str,
) -> anyhow::Result<()> {
    let agent = Agent::Node.process(world)?;
    let mark = agent.mark()?;
    agent.pause().await?;
    world.states().delete(blue::STATE_B, &DeleteParams::default()).await?;
    let foreign = serde_json::json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState",
        "metadata": {"name": blue::STATE_B}, "spec": {"uplinkName": uplink, "nodeName": node},
    });
    world.rig.apply(&foreign.to_string()).await?;
    let before = world.state(blue::STATE_B).await?;
    agent.resume()?;
    let said = format!("reports uplinkName \"{uplink}\" and nodeName \"{node}\"");
    agent.says(mark, &said, causeway_tests::states::DEADLINE).await?;
    world.uplink_says(verdict, message).await?;
    let after = world.state(blue::STATE_B).await?;
    ensure!(before.metadata == after.metadata && before.status == after.status, "somebody wrote: {after:?}");
    Ok(())
}
