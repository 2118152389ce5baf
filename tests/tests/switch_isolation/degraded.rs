//! Nodes on which something is missing: what still works does, and people are told.

use std::sync::Arc;

use anyhow::ensure;
use causeway_rig::{Node, Rig};
use causeway_tests::isolation::{DEADLINE, DUAL, ON, PodSpec, World};

/// A folder with an `nft` of the test's own, before all others.
const PATH: &str = "/refuses:/usr/sbin:/usr/bin:/sbin:/bin";

const UNSUPPORTED: &str = "UDNKubeletProbesNotSupported";

/// What a kernel says that lacks a part of nftables.
const NO_SUCH: &str = "Could not process rule: No such file or directory";

/// Puts an `nft` in place that takes no change in which a text occurs.
async fn refuse(node: &Node, text: &str) -> anyhow::Result<()> {
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in\n*\" -f \"*)\n    input=$(mktemp)\n    cat >$input\n    if grep -q '{text}' $input; then\n\
         \x20       echo 'Error: {NO_SUCH}' >&2\n        exit 1\n    fi\n    exec /usr/sbin/nft \"$@\" <$input;;\n*)\n    exec /usr/sbin/nft \"$@\";;\nesac\n"
    );
    node.write("/refuses/nft", script)?;
    node.exec(["chmod", "+x", "/refuses/nft"]).await.map(drop)
}

/// Waits until the numbers tell of this mode.
async fn is_in_mode(world: &World, mode: &str) -> anyhow::Result<()> {
    let label = format!("mode=\"{mode}\"");
    let look = || async {
        match world.metric("causeway_isolation_mode", &label).await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.rig().wait_for(&format!("the mode {mode}"), DEADLINE, look).await
}

pub(crate) async fn no_match(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "no-match").await?;
    world.road_to_pods().await?;
    let addresses = ["10.129.15.1".to_owned(), "fd00:10:129:15::1".to_owned()];
    let pod = PodSpec::locked("one", &addresses.each_ref().map(String::as_str));
    world.make(&pod.open("- {protocol: tcp, port: 80}")).await?;
    refuse(&world.node, "cgroupv2 level").await?;
    let _kubelet = world.kubelet(&[]).await?;
    let program = world.program("node-agent", &[&ON, &DUAL]).env("PATH", PATH);
    let agent = world.node.spawn(program).await?;
    world.ready().await?;
    world.converged().await?;
    is_in_mode(&world, "closed").await?;
    let note = world.until_told_of_node(UNSUPPORTED).await?;
    let why = format!(
        "no-match: the kernel does not support the nftables socket cgroupv2 match: {NO_SUCH}. Use the "
    );
    ensure!(note.contains(&why), "{note}");
    let rules = world.rules().await?;
    ensure!(rules.len() == 6 && !rules.iter().any(|rule| rule.contains("cgroup")), "{rules:?}");
    let table = world.nft(&["list", "table", "inet", "ovn-kubernetes"]).await?;
    ensure!(!table.contains("udn-isolation-socket-probe"), "the chain of the check is left: {table}");
    let prober = world.probe(&addresses).await?;
    // Others go on: what an owner opens is open.
    world.open("one", Some("- {protocol: udp, port: 53}")).await?;
    world.converged().await?;
    prober.found_no_hole(&world).await?;
    let status = agent.stop(DEADLINE).await?;
    ensure!(status.success(), "{status}: {}", agent.log_text()?);
    Ok(())
}

pub(crate) async fn no_set_up(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "no-set-up").await?;
    refuse(&world.node, "udn-isolation").await?;
    let program = world.program("node-agent", &[&ON, &DUAL]).env("PATH", PATH);
    let agent = world.node.spawn(program).await?;
    let cause = format!(
        "failed to setup UDN host isolation: could not setup nftables rules for UDN from host isolation: nft \
         failed while changing the table: Error: {NO_SUCH}"
    );
    world.until_readiness("why isolation cannot be set up", |text| text.contains(&cause)).await?;
    let status = agent.stop(DEADLINE).await?;
    let log = agent.log_text()?;
    ensure!(status.success(), "{status}: {log}");
    ensure!(!log.contains("panicked"), "{log}");
    ensure!(log.contains(&cause), "the cause is not in the log: {log}");
    Ok(())
}

pub(crate) async fn vanished(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "vanished").await?;
    world.road_to_pods().await?;
    let addresses = ["10.129.16.1".to_owned(), "fd00:10:129:16::1".to_owned()];
    world.make(&PodSpec::locked("one", &addresses.each_ref().map(String::as_str))).await?;
    let kubelet = world.kubelet(&addresses).await?;
    let agent = world.agent(&DUAL).await?;
    world.until_kubelet_is_let_through().await?;
    let prober = world.probe(&addresses).await?;
    kubelet.kill().await?;
    kubelet.remove_cgroup(&world).await?;
    // It may be back in a moment, so it is looked for before it is given up; its rule lets nobody through meanwhile.
    is_in_mode(&world, "looking").await?;
    kubelet.start().await?;
    world.until_kubelet_is_let_through().await?;
    kubelet.reaches_all().await?;
    prober.found_no_hole(&world).await?;
    ensure!(agent.is_running(), "the agent has ended: {}", agent.log_text()?);
    Ok(())
}
