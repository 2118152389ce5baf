//! What becomes of states when Uplinks, Nodes and the states themselves come, change and go.

use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::wait_object;
use causeway_tests::blue;
use causeway_tests::states::{self, DEADLINE};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::agents::Agent;
use crate::facts::{shell, uplink_of};
use crate::history::History;
use crate::world::World;

fn uplinks(world: &World) -> Api<Uplink> {
    Api::all(world.client())
}

async fn uid(world: &World, state: &str) -> anyhow::Result<String> {
    world.state(state).await?.uid().context("the uid of a state")
}

/// Waits until a condition has this verdict and message.
async fn says(
    world: &World,
    state: &str,
    type_: &str,
    verdict: &str,
    message: &str,
) -> anyhow::Result<UplinkState> {
    let accept = |state: Option<&UplinkState>| {
        state.is_some_and(|state| {
            states::verdict(state.conditions(), type_) == verdict
                && states::message(state.conditions(), type_) == message
        })
    };
    let what = format!("{type_}={verdict}: {message}");
    wait_object(world.states(), state, &what, DEADLINE, accept).await?.context("the state is gone")
}

/// A node that is no longer selected loses its state; selected again, it gets a new one.
pub(crate) async fn deselection(world: &mut World) -> anyhow::Result<()> {
    let one = "all 1 selected node(s) are resolved";
    for (node, label, value, state) in [
        (&world.node_b, blue::LABEL, "true", blue::STATE_B),
        (&world.pair.host, blue::DPU_HOST, "", blue::STATE_A),
    ] {
        let before = uid(world, state).await?;
        node.set_label(label, None).await?;
        world.state_is_gone(state).await?;
        world.uplink_says("True/Ready", one).await?;
        node.set_label(label, Some(value)).await?;
        world.is_whole().await?;
        ensure!(uid(world, state).await? != before, "{state} came back with the uid of the deleted one");
    }
    Ok(())
}

/// Two entries for one node: both halves refuse, the Uplink says so, the interface's name stays.
pub(crate) async fn overlap(world: &mut World) -> anyhow::Result<()> {
    let text = |node: &str| format!("multiple Uplink \"tenant-blue\" nodeConfigs select node \"{node}\"");
    let failing = |node: &str| {
        format!("1 of 2 selected node(s) have readiness failures; examples: {node}=NodeSelectorOverlap")
    };
    world.node_b.set_label(blue::DPU_HOST, Some("")).await?;
    let verdict = "False/NodeSelectorOverlap";
    let state = says(world, blue::STATE_B, "Resolved", verdict, &text("node-b")).await?;
    let status = state.status_or_default();
    ensure!(status.host_interface_name.as_deref() == Some(blue::BRIDGE), "{status:?}");
    ensure!(status.mac_address.is_none() && status.ovs_bridge.is_none(), "{status:?}");
    world.uplink_says(verdict, &failing("node-b")).await?;
    world.node_b.set_label(blue::DPU_HOST, None).await?;
    world.is_whole().await?;

    world.pair.host.set_label(blue::LABEL, Some("true")).await?;
    for condition in ["HostDataReady", "Resolved"] {
        says(world, blue::STATE_A, condition, verdict, &text("node-a")).await?;
    }
    world.uplink_says(verdict, &failing("node-a")).await?;
    world.pair.host.set_label(blue::LABEL, None).await
}

/// A selector that cannot be used is named in the states and in the Uplink.
pub(crate) async fn invalid_selector(world: &mut World) -> anyhow::Result<()> {
    let before = [uid(world, blue::STATE_A).await?, uid(world, blue::STATE_B).await?];
    let broken = blue::UPLINK_YAML.replace("operator: Exists", "operator: Near");
    world.rig.apply(&broken).await?;
    let text = "nodeConfig 1 has invalid nodeSelector: \"Near\" is not a valid label selector operator";
    let verdict = "False/GatewayInfoUnavailable";
    for (state, condition) in
        [(blue::STATE_A, "HostDataReady"), (blue::STATE_A, "Resolved"), (blue::STATE_B, "Resolved")]
    {
        says(world, state, condition, verdict, text).await?;
    }
    let refused = format!("Uplink is not ready because its spec is not accepted: {text}");
    world.uplink_says("False/InvalidSpec", &refused).await?;
    world.rig.apply(blue::UPLINK_YAML).await?;
    world.is_whole().await?;
    let after = [uid(world, blue::STATE_A).await?, uid(world, blue::STATE_B).await?];
    ensure!(before == after, "a selector that cannot be read took states away");
    Ok(())
}

/// The Uplink names another interface: no version pairs one interface's name with another's data or bridge verdict.
pub(crate) async fn other_interface(world: &mut World) -> anyhow::Result<()> {
    shell(&world.pair.host, "ip addr add 172.31.1.10/24 dev eth0-1").await?;
    world.card_ovs.add_bridge(&world.pair.card, "br-one").physical("p1").port("rep0-1").create().await?;
    let history = History::of(world, blue::STATE_A).await?;
    let edited = blue::UPLINK_YAML.replace("eth0-16", "eth0-1");
    for yaml in [edited.as_str(), blue::UPLINK_YAML, edited.as_str(), blue::UPLINK_YAML] {
        world.rig.apply(yaml).await?;
        let (name, bridge) = if yaml == edited { ("eth0-1", "br-one") } else { ("eth0-16", "br-tenant") };
        let accept = |state: Option<&UplinkState>| {
            state.is_some_and(|state| {
                let status = state.status_or_default();
                let found = status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.as_deref());
                status.host_interface_name.as_deref() == Some(name)
                    && found == Some(bridge)
                    && states::verdict(&status.conditions, "Resolved") == "True/Resolved"
            })
        };
        let what = format!("{name} on {bridge}");
        wait_object(world.states(), blue::STATE_A, &what, DEADLINE, accept).await?;
    }
    for version in history.until_now(world).await? {
        let status = version.status_or_default();
        let name = status.host_interface_name.as_deref().unwrap_or_default();
        let (mac, address, index) = match name {
            "eth0-1" => ("52:54:00:d9:20:01", "172.31.1.10/24", 1),
            "eth0-16" => ("52:54:00:d9:20:10", "172.31.0.10/24", 16),
            other => anyhow::bail!("a version names interface {other:?}"),
        };
        let own = status.mac_address.as_deref() == Some(mac)
            && status.ip_addresses == [address]
            && status.host_function.and_then(|function| function.vf_id) == Some(index);
        ensure!(own, "interface {name} with the data of another: {status:?}");
    }
    shell(&world.pair.card, "ovs-vsctl --timeout=30 del-br br-one; ip link del p1").await?;
    shell(&world.pair.host, "ip addr del 172.31.1.10/24 dev eth0-1").await
}

/// A state that somebody deletes comes back, with all it said.
pub(crate) async fn deletion_by_hand(world: &mut World) -> anyhow::Result<()> {
    for state in [blue::STATE_A, blue::STATE_B] {
        let before = uid(world, state).await?;
        world.states().delete(state, &DeleteParams::default()).await?;
        let recreated =
            |state: Option<&UplinkState>| state.is_some_and(|state| state.uid().as_ref() != Some(&before));
        wait_object(world.states(), state, "another uid", DEADLINE, recreated).await?;
        world.is_whole().await?;
    }
    Ok(())
}

/// States go with their Uplink; another Uplink of the name gets states of its own, also if they come at once.
pub(crate) async fn deletion_of_the_uplink(world: &mut World) -> anyhow::Result<()> {
    for wait in [true, false] {
        world.rig.delete(blue::UPLINK_YAML).await?;
        if wait {
            world.state_is_gone(blue::STATE_A).await?;
            world.state_is_gone(blue::STATE_B).await?;
        }
        world.rig.apply(blue::UPLINK_YAML).await?;
        let uplink = uplinks(world).get(blue::UPLINK).await?.uid().context("the uid of the Uplink")?;
        let owned = |state: Option<&UplinkState>| {
            state.is_some_and(|state| {
                matches!(state.owner_references(), [only] if only.uid == uplink && only.controller == Some(true))
            })
        };
        for state in [blue::STATE_A, blue::STATE_B] {
            wait_object(world.states(), state, "the new owner", DEADLINE, owned).await?;
        }
        world.is_whole().await?;
    }
    Ok(())
}

/// An Uplink that is going and only held by somebody else's finalizer gets no state again.
pub(crate) async fn terminating(world: &mut World) -> anyhow::Result<()> {
    let hold = |finalizers: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let parameters = PatchParams::default();
    uplinks(world).patch(blue::UPLINK, &parameters, &hold(&["example.com/hold"])).await?;
    world.rig.delete(blue::UPLINK_YAML).await?;
    let message = "Uplink is terminating and cannot accept new CUDN references";
    world.uplink_says("False/UplinkTerminating", message).await?;
    world.state_is_gone(blue::STATE_A).await?;
    world.state_is_gone(blue::STATE_B).await?;
    // A change of the Node makes every agent look at the Uplink again.
    for agent in [Agent::Host, Agent::Dpu, Agent::Node] {
        agent.settle(world).await?;
    }
    for state in [blue::STATE_A, blue::STATE_B] {
        ensure!(world.states().get_opt(state).await?.is_none(), "{state} was made for a terminating Uplink");
    }
    uplinks(world).patch(blue::UPLINK, &parameters, &hold(&[])).await?;
    wait_object(uplinks(world), blue::UPLINK, "absence", DEADLINE, |uplink| uplink.is_none()).await?;
    world.rig.apply(blue::UPLINK_YAML).await.map(drop)
}

/// The Uplink names an interface that the host does not have: each side says so in its own condition, once, and the
/// Uplink tells the host's reason.
pub(crate) async fn missing_interface(world: &mut World) -> anyhow::Result<()> {
    let (uplink, state) = ("missing", "missing.node-a");
    let yaml = uplink_of(uplink, "node-a", "missing0");
    world.rig.apply(&yaml).await?;
    for (condition, verdict, text) in [
        (
            "HostDataReady",
            "False/HostInterfaceNotFound",
            "host interface missing0 was not found: Link not found",
        ),
        (
            "Resolved",
            "False/WaitingForDPUHost",
            "waiting for DPU-host MAC address for interface missing0: address : invalid MAC address",
        ),
    ] {
        says(world, state, condition, verdict, text).await?;
    }
    let ready = states::uplink_says(&world.client(), uplink, "False/UplinkStateNotResolved").await?;
    let text = states::message(ready.conditions(), "Ready");
    ensure!(text.ends_with("examples: node-a=HostInterfaceNotFound"), "{text}");
    let before = world.state(state).await?;
    ensure!(before.status_or_default().host_interface_name.as_deref() == Some("missing0"), "{before:?}");
    let epoch =
        before.conditions().iter().find(|condition| condition.last_transition_time.0.as_second() <= 0);
    ensure!(epoch.is_none(), "a condition without a time: {epoch:?}");
    for agent in [Agent::Host, Agent::Dpu, Agent::Host] {
        agent.settle(world).await?;
    }
    let after = world.state(state).await?;
    ensure!(after.resource_version() == before.resource_version(), "written again: {after:?}");
    world.rig.delete(&yaml).await?;
    world.state_is_gone(state).await
}
