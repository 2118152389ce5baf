//! Nodes without a kubelet: Open vSwitch and programs in them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{FABRIC_V4, Level, Program, Rig, RigOptions, SharedRig, Suite, UplinkAnnotations};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::Api;

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(
            &shared,
            Level::Switch,
            "a_bridge_of_a_node_reaches_the_fabric_through_its_physical_port",
            bridge,
        )
        .test_in(
            &shared,
            Level::Switch,
            "a_node_without_a_kubelet_has_the_object_that_discovery_reads",
            object,
        )
        .test_in(&shared, Level::Switch, "a_program_in_a_node_is_killed_paused_and_restarted", program)
        .test_in(
            &shared,
            Level::Switch,
            "the_api_server_keeps_its_link_address_when_nodes_come_and_go",
            neighbours,
        )
        .run()
}

/// A bridge without an address of its own takes the lowest of its ports': who knew the old one would wait a minute.
async fn neighbours(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("stays").unregistered().start().await?;
    let api = causeway_rig::API_V4.to_string();
    let address = async || {
        node.exec(["ping", "-c1", "-W5", &api]).await?;
        let known = node.ip(["-br", "neigh", "show", &api]).await?;
        let address = known.split_whitespace().nth(2).map(str::to_owned);
        node.ip(["neigh", "flush", "dev", "eth0"]).await?;
        address.with_context(|| format!("known of {api}: {known}"))
    };
    let before = address().await?;
    // Locally administered and not random: no port can have made it.
    ensure!(before.starts_with("02:0a:14:"), "the bridge's address is a port's: {before}");
    let other = rig.node("comes").unregistered().start().await?;
    let with_other = address().await?;
    drop(other);
    ensure!(before == with_other && before == address().await?, "from {before} to {with_other}");
    Ok(())
}

async fn bridge(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("bridge-a").unregistered().start().await?;
    let ovs = node.ovs().await?;
    let bridge =
        ovs.add_bridge(&node, "ovsbr1").physical("eth1").internal_port("gw0").address("192.0.2.9/24");
    bridge.create().await?;
    let ports = ovs.vsctl(["list-ports", "ovsbr1"]).await?;
    ensure!(ports.split_whitespace().eq(["eth1", "gw0"]), "ports: {ports}");
    node.exec(["ping", "-c1", "-W5", &FABRIC_V4.to_string()]).await?;
    ovs.stop_server().await?;
    ensure!(!ovs.socket().exists(), "the socket of a stopped server is still there");
    ovs.start_server().await?;
    let ports = ovs.vsctl(["list-ports", "ovsbr1"]).await?;
    ensure!(ports.split_whitespace().eq(["eth1", "gw0"]), "ports after a restart: {ports}");
    Ok(())
}

async fn object(rig: Arc<Rig>) -> anyhow::Result<()> {
    let annotations = UplinkAnnotations { bridge: "breth7".to_owned(), ..UplinkAnnotations::default() };
    let node = rig.node("object-a").label("rack", "7").uplink_annotations(&annotations).start().await?;
    let object = Api::<NodeObject>::all(rig.client()).get(node.name()).await?;
    let labels = object.metadata.labels.context("labels")?;
    ensure!(labels.get("rack").map(String::as_str) == Some("7"), "labels: {labels:?}");
    let annotations = object.metadata.annotations.context("annotations")?;
    let config = annotations.get("k8s.ovn.org/l3-gateway-config").context("the gateway annotation")?;
    ensure!(config.contains("breth7_object-a"), "gateway annotation: {config}");
    // What a program inside uses to reach the API server.
    let seen = node.exec(["kubectl", "get", "node", "object-a", "-o", "name"]).await?;
    ensure!(seen.trim() == "node/object-a", "kubectl in the node printed: {seen}");
    Ok(())
}

async fn program(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("program-a").unregistered().start().await?;
    let script =
        "echo started in $(hostname); trap 'echo asked to stop; exit 7' TERM; while :; do sleep 0.05; done";
    let process = node.spawn(Program::new("bash").named("agent").args(["-c", script])).await?;
    let started = |times: usize| {
        let process = &process;
        rig.wait_for("the program to report itself", Duration::from_secs(10), move || async move {
            let text = process.log_text().map_err(|error| error.to_string())?;
            let seen = text.matches("started in program-a").count();
            if seen == times { Ok(()) } else { Err(format!("{seen} starts in {text:?}")) }
        })
    };
    started(1).await?;
    let cgroup = std::fs::read_to_string(format!("/proc/{}/cgroup", process.pid()))?;
    ensure!(cgroup.contains("system.slice/agent.service"), "cgroup of the program: {cgroup}");
    process.pause().await?;
    let state = std::fs::read_to_string(format!("/proc/{}/stat", process.pid()))?;
    ensure!(state.contains(") T "), "state of a paused program: {state}");
    process.resume()?;
    process.restart().await?;
    started(2).await?;
    let status = process.stop(Duration::from_secs(10)).await?;
    ensure!(status.code() == Some(7), "exit status: {status}");
    ensure!(
        !process.is_running() && process.pause().await.is_err(),
        "a program that has exited can be paused"
    );
    Ok(())
}
