//! Databases that refuse, are old, or go away.

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::northbound::LogicalSwitch;
use causeway_rig::Process;
use causeway_tests::topology::world::{DEADLINE, Kind, NetworkSpec, World, rows};

use crate::life::one_of_each;

const FILE: &str = "/var/lib/ovn/ovnnb_db.db";

pub(crate) async fn read_only() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.add(&[NetworkSpec::new("ns_blue", 1, Kind::Layer3)]).await?;
    // A server that stands by for another one takes no writes, also while the other one cannot be reached.
    let stand_by = async |command: &[&str]| {
        let server = ["ovs-appctl", "-t", "/run/ovn/ovnnb_db.ctl"];
        world.machine.exec(server.iter().chain(command)).await.context("standing by")
    };
    stand_by(&["ovsdb-server/set-active-ovsdb-server", "unix:/run/ovn/nowhere.sock"]).await?;
    stand_by(&["ovsdb-server/connect-active-ovsdb-server"]).await?;
    let _agent = world.agent().await?;
    world.until_event("Node", "node1", "ErrorReconcilingNode", "the OVN database refuses changes").await?;
    world
        .until_readiness("what is refused", |text| text.contains("ns_blue") || text.contains("refuses"))
        .await?;
    ensure!(world.store.current()?.len::<LogicalSwitch>() == 0);
    // Allowed again: nobody has to tell the agent.
    stand_by(&["ovsdb-server/disconnect-active-ovsdb-server"]).await?;
    world.converged().await?;
    world.until_readiness("that it is ready", |text| text == "ok").await
}

/// Where the full disk is, in the node.
const DISK: &str = "/mnt/disk";

/// Moves the Northbound database to a small disk of its own, while its server is away.
async fn move_to_small_disk(world: &World) -> anyhow::Result<()> {
    let moved = format!("{DISK}/nb.db");
    for command in [
        &["mkdir", "-p", DISK][..],
        &["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", DISK],
        &["mv", FILE, &moved],
        &["ln", "-s", &moved, FILE],
    ] {
        world.machine.exec(command).await.with_context(|| format!("{command:?}"))?;
    }
    Ok(())
}

pub(crate) async fn full() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    northbound(&world).kill().await?;
    move_to_small_disk(&world).await?;
    northbound(&world).restart().await?;
    world.add(&[NetworkSpec::new("ns_blue", 1, Kind::Layer3)]).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    let before = rows(&world.converged().await?);
    // The last transaction's page has room for a small one yet, not for a network.
    let fill = format!("dd if=/dev/zero of={DISK}/filler bs=4096 2>&1 || true");
    let said = world.machine.exec(["sh", "-c", &fill]).await?;
    ensure!(said.contains("No space left"), "{said}");

    world.add(&[NetworkSpec::new("ns_red", 2, Kind::Layer3)]).await?;
    let why = "the OVN database cannot store changes: ";
    world.until_event("Node", "node1", "ErrorReconcilingNode", why).await?;
    let told = |text: &str| {
        text.contains("all of")
            && text.contains("rows: the OVN database cannot store")
            && text.contains("No space left on device")
    };
    world.until_readiness("the full disk", |text| told(text) && text.contains("network ns_red")).await?;
    ensure!(world.metric("causeway_topology_write_failures_total").await? > 0);
    // Nothing of it is there, and nothing else went.
    ensure!(rows(&world.store.current()?) == before);
    // Another database goes on. What this node brings to networks may have room yet or not.
    world.join(2).await?;
    let look = || async {
        let found = world.zone.sbctl(["--bare", "--columns=name", "list", "Chassis"]).await;
        let found = found.map_err(|error| format!("{error:#}"))?;
        if found.contains("chassis-2") { Ok(()) } else { Err(found) }
    };
    world.rig.wait_for("the other node's chassis", DEADLINE, look).await?;
    // One that starts meanwhile finds the same.
    agent.kill().await?;
    agent.restart().await?;
    world.until_readiness("the full disk", told).await?;
    ensure!(agent.is_running());

    // Room again: nobody has to tell the agent.
    world.machine.exec(["rm", &format!("{DISK}/filler")]).await?;
    let after = rows(&world.converged().await?);
    ensure!(before.keys().all(|key| after.contains_key(key)), "a row went");
    world.until_readiness("that it is ready", |text| text == "ok").await?;
    ensure!(agent.log_text()?.contains("Problem of the topology is over"));
    // What the server wrote down is what it held.
    northbound(&world).kill().await?;
    world.until_readiness("the lost connection", |text| text.contains("Northbound database lost")).await?;
    northbound(&world).restart().await?;
    world.ready().await?;
    ensure!(rows(&world.converged().await?) == after);
    Ok(())
}

pub(crate) async fn older() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.add(&one_of_each()).await?;
    let [northbound, _, _, _] = world.zone.daemons();
    // A schema without a column that is written.
    let schema = world.machine.exec(["cat", "/usr/share/ovn/ovn-nb.ovsschema"]).await?;
    let mut schema: serde_json::Value = serde_json::from_str(&schema)?;
    schema.as_object_mut().context("a schema")?.remove("cksum");
    let columns = schema.pointer_mut("/tables/ACL/columns").and_then(serde_json::Value::as_object_mut);
    ensure!(columns.context("columns of ACL")?.remove("tier").is_some());
    *schema.pointer_mut("/version").context("a version")? = "5.0.0".into();
    world.machine.write("/tmp/old.ovsschema", schema.to_string())?;
    world.machine.exec(["ovsdb-tool", "create", "/tmp/old.db", "/tmp/old.ovsschema"]).await?;
    northbound.kill().await?;
    world.machine.exec(["cp", "/tmp/old.db", FILE]).await?;
    northbound.restart().await?;
    let told = ["--nb-address", "unix:/run/ovn/ovnnb_db.sock"];
    let on: Vec<&str> = causeway_tests::topology::world::ON.iter().copied().chain(told).collect();
    let agent = world.machine.spawn(world.program("node-agent", &on)).await?;
    let mismatch =
        |text: &str| text.contains("schema of OVN_Northbound 5.0.0 does not fit") && text.contains("ACL");
    world.until_readiness("the missing column", mismatch).await?;
    ensure!(agent.is_running());
    let converted =
        ["ovsdb-client", "convert", "unix:/run/ovn/ovnnb_db.sock", "/usr/share/ovn/ovn-nb.ovsschema"];
    world.machine.exec(converted).await.context("converting")?;
    world.converged().await?;
    world.ready().await
}

fn northbound(world: &World) -> &Process {
    let [northbound, _, _, _] = world.zone.daemons();
    northbound
}

pub(crate) async fn restarted() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.add(&one_of_each()).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    let before = rows(&world.converged().await?);
    let transactions = world.transactions().await?;

    // The same database: nothing has to be written.
    northbound(&world).kill().await?;
    let gone = |text: &str| text.contains("OVN Northbound database lost");
    world.until_readiness("the lost connection", gone).await?;
    northbound(&world).restart().await?;
    world.ready().await?;
    ensure!(rows(&world.converged().await?) == before);
    ensure!(world.transactions().await? == transactions, "something was written");

    // What happens while it is away is made up for.
    northbound(&world).kill().await?;
    world.until_readiness("the lost connection", gone).await?;
    world.remove(&["cluster_udn_blue"]).await?;
    world.add(&[NetworkSpec::new("ns_late", 6, Kind::Layer2)]).await?;
    world.leave(2).await?;
    northbound(&world).restart().await?;
    world.ready().await?;
    world.converged().await?;

    // An empty one is filled.
    northbound(&world).kill().await?;
    let create = format!("rm {FILE} && ovsdb-tool create {FILE} /usr/share/ovn/ovn-nb.ovsschema");
    world.machine.exec(["sh", "-c", &create]).await?;
    northbound(&world).restart().await?;
    // As whoever sets up a zone does, once the server listens.
    let init = || async {
        world.zone.nbctl(["--no-leader-only", "init"]).await.map_err(|error| format!("{error:#}"))
    };
    world.rig.wait_for("the empty database", DEADLINE, init).await?;
    world.converged().await?;
    world.ready().await
}
