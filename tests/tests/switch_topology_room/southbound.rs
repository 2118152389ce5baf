//! The Southbound database and what ovn-controller is told.

use std::collections::BTreeSet;

use anyhow::ensure;
use causeway_dpu_agent::topology::southbound::{self, Chassis};
use causeway_tests::topology::world::{DEADLINE, ON, World};
use ovsdb::{Remote, Snapshot, Store};
use tokio_util::sync::{CancellationToken, DropGuard};

fn southbound(world: &World) -> (Store, DropGuard) {
    let remote = Remote::Unix(world.zone.southbound_socket().to_owned());
    let (store, driver) = southbound::declare(Store::builder(remote, "OVN_Southbound")).build();
    let stop = CancellationToken::new();
    tokio::spawn(driver.run(stop.clone()));
    (store, stop.drop_guard())
}

async fn names_are(store: &Store, want: &[&str]) -> anyhow::Result<()> {
    let want: BTreeSet<&str> = want.iter().copied().collect();
    let names =
        |have: &Snapshot| have.rows::<Chassis>().map(|(_, row)| row.name.clone()).collect::<BTreeSet<_>>();
    let found = store.wait_for(DEADLINE, |have| {
        let names = names(have);
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        (names == want).then_some(())
    });
    found.await.map_err(|error| anyhow::anyhow!("{:?} instead of {want:?}", names(&error.last)))
}

/// What one key of the Open_vSwitch row says.
async fn setting(world: &World, key: &str) -> anyhow::Result<String> {
    let text =
        world.ovs.vsctl(["--if-exists", "get", "Open_vSwitch", ".", &format!("external_ids:{key}")]).await?;
    Ok(text.trim().trim_matches('"').to_owned())
}

async fn until_setting(world: &World, key: &str, want: &str) -> anyhow::Result<()> {
    let look = || async {
        let found = setting(world, key).await.map_err(|error| format!("{error:#}"))?;
        if found == want { Ok(()) } else { Err(found) }
    };
    world.rig.wait_for(&format!("{key} to be {want}"), DEADLINE, look).await
}

pub(crate) async fn chassis() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    let own = setting(&world, "system-id").await?;
    let remote = setting(&world, "ovn-remote").await?;
    let (store, _stop) = southbound(&world);
    names_are(&store, &[&own]).await?;
    let _agent = world.agent().await?;
    names_are(&store, &[&own, "chassis-2"]).await?;
    world.join(3).await?;
    names_are(&store, &[&own, "chassis-2", "chassis-3"]).await?;
    world.leave(2).await?;
    names_are(&store, &[&own, "chassis-3"]).await?;
    // By hand: gone and altered.
    world.zone.sbctl(["chassis-del", "chassis-3"]).await?;
    names_are(&store, &[&own, "chassis-3"]).await?;
    world.zone.sbctl(["set", "Chassis", "chassis-3", "hostname=another"]).await?;
    let named = |have: &Snapshot| {
        let row = have.find_one(Chassis::by_name(), "chassis-3");
        row.is_some_and(|(_, row)| row.hostname == "node3").then_some(())
    };
    store.wait_for(DEADLINE, named).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    // A node that says it is this node's chassis is told so, and gets none.
    world.join(4).await?;
    world.annotate("node4", &[("k8s.ovn.org/node-chassis-id", Some(&own))]).await?;
    let text = "no tunnel to this node: its chassis id is that of another chassis";
    world.until_event("Node", "node4", "ErrorReconcilingNode", text).await?;
    names_are(&store, &[&own, "chassis-3"]).await?;

    let address = world.machine.v4().to_string();
    for (key, want) in [
        ("ovn-encap-type", "geneve"),
        ("ovn-encap-ip", &*address),
        ("ovn-is-interconn", "true"),
        ("ovn-set-local-ip", "true"),
        ("ovn-monitor-all", "true"),
        ("ovn-remote-probe-interval", "100000"),
        ("hostname", "node1"),
    ] {
        until_setting(&world, key, want).await?;
        world.ovs.vsctl(["set", "Open_vSwitch", ".", &format!("external_ids:{key}=other")]).await?;
        until_setting(&world, key, want).await?;
        world.ovs.vsctl(["remove", "Open_vSwitch", ".", "external_ids", key]).await?;
        until_setting(&world, key, want).await?;
    }
    ensure!(setting(&world, "system-id").await? == own && setting(&world, "ovn-remote").await? == remote);
    Ok(())
}

pub(crate) async fn card() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.ovs.vsctl(["set", "Open_vSwitch", ".", "external_ids:hostname=bluefield"]).await?;
    world.ovs.vsctl(["remove", "Open_vSwitch", ".", "external_ids", "ovn-encap-ip"]).await?;
    let agent = world.machine.spawn(world.program("dpu-agent", ON)).await?;
    world
        .until_event(
            "Node",
            "node1",
            "ErrorReconcilingNode",
            "it is not known where tunnels to this node end",
        )
        .await?;
    // Whoever sets up the card says where; the rest follows.
    world.ovs.vsctl(["set", "Open_vSwitch", ".", "external_ids:ovn-encap-ip=192.0.2.7"]).await?;
    until_setting(&world, "ovn-set-local-ip", "true").await?;
    ensure!(setting(&world, "hostname").await? == "bluefield");
    ensure!(setting(&world, "ovn-encap-ip").await? == "192.0.2.7");
    world.ready().await?;
    world.converged().await?;

    // An address that the machine does not have is refused, and taken once it has it.
    agent.kill().await?;
    let told: Vec<&str> = ON.iter().copied().chain(["--encap-ip=192.0.2.8"]).collect();
    let _agent = world.machine.spawn(world.program("dpu-agent", &told).named("dpu-agent-told")).await?;
    let text = "encapsulation address 192.0.2.8 is not an address of this node";
    world.until_event("Node", "node1", "ErrorReconcilingNode", text).await?;
    ensure!(setting(&world, "ovn-encap-ip").await? == "192.0.2.7");
    world.machine.ip(["address", "add", "192.0.2.8/32", "dev", "lo"]).await?;
    until_setting(&world, "ovn-encap-ip", "192.0.2.8").await
}
