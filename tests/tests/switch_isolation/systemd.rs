//! An agent that follows the kubelet's unit over systemd's private socket.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Process, Rig};
use causeway_tests::isolation::kubelet::StandIn;
use causeway_tests::isolation::{DEADLINE, DUAL, Monitor, ON, PodSpec, World};
use zbus::Variant;

const UNIT: &str = "kubelet_2eservice";

const UNTRACKED: &str = "UDNKubeletRestartTrackingUnavailable";

/// What a peer that is no systemd may answer: before anything was said, in the middle of it, and what looks like D-Bus.
const NONSENSE: [&[u8]; 4] =
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"OK\r\n", b"\x00\xff\x00\xffREJECTED\r\n"];

/// The kubelet goes with its cgroup and comes back in a new one: rules that are loaded already do not match it.
async fn starts_in_a_new_cgroup(world: &World, kubelet: &StandIn) -> anyhow::Result<()> {
    kubelet.kill().await?;
    kubelet.remove_cgroup(world).await?;
    kubelet.start().await
}

/// Waits until the agent says by which means it would hear of a restart.
async fn tracks(world: &World, by: &str, works: u64) -> anyhow::Result<()> {
    let label = format!("by=\"{by}\"");
    let look = || async {
        let said = world.metric("causeway_isolation_restart_tracking", &label).await;
        match said {
            Ok(said) if said == works => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.rig().wait_for(&format!("tracking by {by} to be {works}"), DEADLINE, look).await
}

async fn follows(world: &World, kubelet: &StandIn, agent: &Process) -> anyhow::Result<()> {
    world.until_kubelet_is_let_through().await?;
    kubelet.reaches_all().await?;
    ensure!(agent.is_running(), "the agent has ended: {}", agent.log_text()?);
    Ok(())
}

pub(crate) async fn alone(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "unit").await?;
    world.road_to_pods().await?;
    let addresses = ["10.129.13.1".to_owned(), "fd00:10:129:13::1".to_owned()];
    world.make(&PodSpec::locked("one", &addresses.each_ref().map(String::as_str))).await?;
    let kubelet = world.kubelet(&addresses).await?;
    let systemd = world.systemd()?;
    // Directories tell nothing here, so what is noticed is noticed by systemd.
    let agent = world.node.spawn(world.blind(world.program("node-agent", &[&ON, &DUAL]))?).await?;
    let link = systemd.accept().await?;
    world.ready().await?;
    tracks(&world, "systemd", 1).await?;
    tracks(&world, "directory", 0).await?;
    follows(&world, &kubelet, &agent).await?;
    ensure!(world.told_of_node(UNTRACKED).await?.is_empty(), "restarts are tracked by systemd");

    for _ in 0..2 {
        starts_in_a_new_cgroup(&world, &kubelet).await?;
        link.tells(UNIT, "activating").await?;
        link.tells(UNIT, "active").await?;
        follows(&world, &kubelet, &agent).await.context("after systemd told")?;
    }

    // As `systemctl daemon-reexec` does, with something else in its place for a while.
    link.close().await?;
    for nonsense in NONSENSE {
        systemd.babble(nonsense).await?;
        ensure!(agent.is_running(), "the agent has ended: {}", agent.log_text()?);
    }
    let note = world.until_told_of_node(UNTRACKED).await?;
    let begin = format!("Kubelet restarts are not tracked on node {}: ", world.node.name());
    let end = ". Kubelet probes to primary UDN pods will stop working if kubelet is restarted.";
    let both = "; and its cgroup cannot be watched: ";
    ensure!(note.starts_with(&begin) && note.ends_with(end) && note.contains(both), "{note}");
    tracks(&world, "systemd", 0).await?;
    let prober = world.probe(&addresses).await?;
    starts_in_a_new_cgroup(&world, &kubelet).await?;

    // Whoever is back is looked at anew: what it told meanwhile was not heard.
    let link = systemd.accept().await?;
    tracks(&world, "systemd", 1).await?;
    follows(&world, &kubelet, &agent).await.context("after systemd was away")?;
    starts_in_a_new_cgroup(&world, &kubelet).await?;
    link.tells(UNIT, "active").await?;
    follows(&world, &kubelet, &agent).await.context("over the new connection")?;
    prober.found_no_hole(&world).await?;
    world.until_told_of_node(UNTRACKED).await.map(drop)
}

pub(crate) async fn signals(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::alone(rig, "signals").await?;
    world.make(&PodSpec::locked("one", &["10.129.14.1"])).await?;
    let _kubelet = world.kubelet(&[]).await?;
    let systemd = world.systemd()?;
    let _agent = world.agent(&DUAL).await?;
    let link = systemd.accept().await?;
    tracks(&world, "systemd", 1).await?;
    tracks(&world, "directory", 1).await?;
    world.until_kubelet_is_let_through().await?;
    world.converged().await?;
    let monitor = Monitor::start(&world).await?;
    // The order of signals is kept, so what the last one causes comes after what others would have caused.
    link.tells("crio_2eservice", "active").await?;
    link.tells("kubelet_2eservices", "active").await?;
    link.tells(UNIT, "inactive").await?;
    link.tells(UNIT, "activating").await?;
    let active = || HashMap::from([("ActiveState", Variant::from("active"))]);
    link.sends("/org/freedesktop/systemd1/job/kubelet_2eservice", &active()).await?;
    link.sends("/org/freedesktop/systemd1/unit", &active()).await?;
    let odd = HashMap::from([("ActiveState", Variant::from(42_u32))]);
    link.sends(&format!("/org/freedesktop/systemd1/unit/{UNIT}"), &odd).await?;
    let generations = async || world.metric("causeway_isolation_cgroup_generations", "").await;
    let transactions =
        async || world.metric("causeway_isolation_transactions_total", "changes=\"rules\"").await;
    let (before, transactions_before) = (generations().await?, transactions().await?);
    link.tells(UNIT, "active").await?;
    let look = || async {
        match generations().await {
            Ok(now) if now > before => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.rig().wait_for("the rules to be loaded again", DEADLINE, look).await?;
    let look = || async {
        match transactions().await {
            Ok(now) if now > transactions_before => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.rig().wait_for("another transaction with rules", DEADLINE, look).await?;
    world.until_kubelet_is_let_through().await?;
    ensure!(generations().await? == before + 1, "signals that say nothing of the kubelet's start counted");
    let seen = monitor.seen().await?;
    ensure!(seen.len() == 1, "one start, several transactions: {seen:?}");
    // A kernel that takes the match keeps nothing of the question, and there is nothing to tell.
    let chains = world.nft(&["list", "chains", "inet"]).await?;
    ensure!(!chains.contains("udn-isolation-socket-probe"), "the chain of the check is left: {chains}");
    for reason in [UNTRACKED, "UDNKubeletProbesNotSupported"] {
        let told = world.told_of_node(reason).await?;
        ensure!(told.is_empty(), "{reason}: {told:?}");
    }
    Ok(())
}
