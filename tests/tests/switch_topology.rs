//! The topology's writer on a real Northbound database, with northd and ovn-controller at work on it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::networks;
use causeway_dpu_agent::topology::northbound::{
    Acl, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort, LogicalSwitch,
    LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup, RouterPolicy, StaticMacBinding, StaticRoute,
    declare,
};
use causeway_dpu_agent::topology::plan::Part;
use causeway_dpu_agent::topology::write::{Outcome, Parts};
use causeway_rig::{Level, Node, OvnZone, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::topology::CapturedRun;
use ovsdb::{Client, Options, Remote, Row, Snapshot, Store, Uuid};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longer than anything here takes on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

const DATABASE: &str = "OVN_Northbound";

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    let level = Level::Switch;
    Suite::new()
        .test_in(&shared, level, "taking_over_upstreams_databases_changes_no_row", take_over)
        .test_in(&shared, level, "an_empty_database_takes_one_transaction_for_each_network", from_nothing)
        .test_in(&shared, level, "what_others_altered_comes_back_and_what_is_theirs_stays", restored)
        .test_in(&shared, level, "networks_that_are_gone_leave_the_database_as_it_was_before_them", removed)
        .run()
}

/// A zone with a store that follows its Northbound database.
struct World {
    zone: OvnZone,
    store: Store,
    remote: Remote,
    /// Kept for their processes.
    _node: Node,
    _driver: DropGuard,
}

impl World {
    async fn start(rig: &Rig, name: &str) -> anyhow::Result<Self> {
        let node = rig.node(name).unregistered().start().await?;
        let ovs = node.ovs().await?;
        let zone = node.ovn_zone(&ovs).await?;
        let remote = Remote::Unix(zone.northbound_socket().to_owned());
        let (store, driver) = declare(Store::builder(remote.clone(), DATABASE)).build();
        let stop = CancellationToken::new();
        tokio::spawn(driver.run(stop.clone()));
        store.synced(DEADLINE).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        Ok(Self { zone, store, remote, _node: node, _driver: stop.drop_guard() })
    }

    async fn fill(&self, run: &CapturedRun) -> anyhow::Result<()> {
        let mut client = Client::connect(&self.remote, Options::default()).await?;
        let schema = client.schema(DATABASE).await?;
        client.transact(DATABASE, &run.fill(&schema)?).await?;
        let switches = run.names("Logical_Switch").len();
        self.until(|have| have.len::<LogicalSwitch>() == switches).await?;
        Ok(())
    }

    async fn until(&self, found: impl Fn(&Snapshot) -> bool) -> anyhow::Result<Snapshot> {
        let snapshot = self.store.wait_for(DEADLINE, |have| found(have).then(|| have.clone())).await;
        snapshot.map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Writes the zone and all networks of a run; what each came to.
    async fn write(&self, run: &CapturedRun) -> anyhow::Result<Vec<Outcome>> {
        let zone = run.zone();
        let mut outcomes = vec![zone.write(&self.store).await?];
        for network in &run.networks {
            let plan = run.plan(network);
            ensure!(plan.problems.is_empty(), "{:?}", plan.problems);
            outcomes.push(zone.write_network(&self.store, &network.name, &plan, &Parts::all()).await?);
        }
        Ok(outcomes)
    }

    fn rows(&self) -> anyhow::Result<Rows> {
        let have = self.store.current()?;
        let mut rows = Rows::new();
        add::<Copp>(&mut rows, &have);
        add::<Meter>(&mut rows, &have);
        add::<MeterBand>(&mut rows, &have);
        add::<LoadBalancerGroup>(&mut rows, &have);
        add::<LogicalSwitch>(&mut rows, &have);
        add::<LogicalSwitchPort>(&mut rows, &have);
        add::<LogicalRouter>(&mut rows, &have);
        add::<LogicalRouterPort>(&mut rows, &have);
        add::<GatewayChassis>(&mut rows, &have);
        add::<StaticRoute>(&mut rows, &have);
        add::<RouterPolicy>(&mut rows, &have);
        add::<Nat>(&mut rows, &have);
        add::<Acl>(&mut rows, &have);
        add::<PortGroup>(&mut rows, &have);
        add::<StaticMacBinding>(&mut rows, &have);
        Ok(rows)
    }
}

/// Rows as text, with their identity.
type Rows = BTreeMap<(&'static str, Uuid), String>;

fn add<T: Row>(rows: &mut Rows, have: &Snapshot) {
    rows.extend(have.rows::<T>().map(|(uuid, row)| ((T::TABLE, uuid), format!("{row:?}"))));
}

async fn take_over(rig: Arc<Rig>) -> anyhow::Result<()> {
    for (at, name) in ["02-default-v4-3zones", "06-secondary", "14-before"].into_iter().enumerate() {
        let world = World::start(&rig, &format!("take-over-{at}")).await?;
        let run = CapturedRun::load(name)?;
        world.fill(&run).await?;
        let before = world.rows()?;
        ensure!(before.len() > 50, "{name}: {} rows", before.len());
        let sent = world.store.statistics().transactions;
        for outcome in world.write(&run).await? {
            ensure!(outcome == Outcome::Unchanged, "{name}: {outcome:?}");
        }
        ensure!(world.store.statistics().transactions == sent, "{name}: something was sent");
        ensure!(world.rows()? == before, "{name}: rows are not what they were");
    }
    Ok(())
}

async fn from_nothing(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "from-nothing").await?;
    let run = CapturedRun::load("14-before")?;
    let sent = world.store.statistics().transactions;
    for outcome in world.write(&run).await? {
        ensure!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    }
    // The zone itself and three networks.
    ensure!(world.store.statistics().transactions - sent == 4, "not one transaction each");
    let have = world.store.current()?;
    let switches: BTreeSet<String> = have.rows::<LogicalSwitch>().map(|(_, row)| row.name.clone()).collect();
    let routers: BTreeSet<String> = have.rows::<LogicalRouter>().map(|(_, row)| row.name.clone()).collect();
    let captured = |table| run.names(table).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    ensure!(switches == captured("Logical_Switch") && routers == captured("Logical_Router"));

    let (before, sent) = (world.rows()?, world.store.statistics().transactions);
    for outcome in world.write(&run).await? {
        ensure!(outcome == Outcome::Unchanged, "the second run: {outcome:?}");
    }
    ensure!(world.store.statistics().transactions == sent && world.rows()? == before);

    // northd takes the rows, and gives ports between zones the keys that all zones agree on.
    world.zone.nbctl(["--timeout=60", "--wait=sb", "sync"]).await?;
    for (port, key) in [
        ("trtor-GR_cluster_udn_green_node2", "13"),
        ("trtos-cluster_udn_green_ovn_layer2_switch", "1"),
        ("cluster_udn_blue_tstor-node3", "4"),
    ] {
        let find = ["--bare", "--columns=tunnel_key", "find", "Port_Binding"].map(str::to_owned);
        let found = world.zone.sbctl(find.into_iter().chain([format!("logical_port={port}")])).await?;
        ensure!(found.trim() == key, "{port}: {found:?}");
    }
    for (datapath, key) in [
        ("cluster_udn_green_ovn_layer2_switch", "16711685"),
        ("cluster_udn_green_transit_router", "16715779"),
        ("cluster_udn_blue_transit_switch", "16711684"),
        ("transit_switch", "16711683"),
    ] {
        let find = ["--bare", "--columns=tunnel_key", "find", "Datapath_Binding"].map(str::to_owned);
        let found =
            world.zone.sbctl(find.into_iter().chain([format!("external_ids:name={datapath}")])).await?;
        ensure!(found.trim() == key, "{datapath}: {found:?}");
    }
    Ok(())
}

async fn restored(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "restored").await?;
    let run = CapturedRun::load("14-before")?;
    world.write(&run).await?;
    let ours = world.rows()?;

    // What belongs to somebody else, in rows and beside rows of ours.
    world.zone.nbctl(["ls-add", "foreign", "--", "lr-add", "foreign-router"]).await?;
    world.zone.nbctl(["lr-route-add", "GR_node1", "192.0.2.0/24", "172.30.0.9"]).await?;
    world
        .zone
        .nbctl(["lr-route-add", "cluster_udn_blue_ovn_cluster_router", "192.0.2.0/24", "100.65.0.2"])
        .await?;
    world.zone.nbctl(["lr-nat-add", "GR_node1", "snat", "172.30.0.9", "10.128.0.77"]).await?;
    world.zone.nbctl(["lsp-add", "node1", "ns_pod"]).await?;
    world.zone.nbctl(["acl-add", "node1", "to-lport", "900", "ip4", "drop"]).await?;
    world.zone.nbctl(["lr-policy-add", "ovn_cluster_router", "1004", "ip4.src == 192.0.2.1", "drop"]).await?;
    world.zone.nbctl(["set", "Logical_Switch", "node1", "external_ids:note=mine"]).await?;
    world.zone.nbctl(["--wait=sb", "sync"]).await?;
    let noted = |have: &Snapshot| {
        let switch = have.find_one(LogicalSwitch::by_name(), "node1");
        switch.is_some_and(|(_, row)| row.external_ids.contains_key("note"))
    };
    world.until(noted).await?;
    let with_foreign = world.rows()?;
    for outcome in world.write(&run).await? {
        ensure!(outcome == Outcome::Unchanged, "rows of others: {outcome:?}");
    }
    ensure!(world.rows()? == with_foreign);

    // What is ours, altered and removed by hand.
    world.zone.nbctl(["lsp-set-addresses", "tstor-node2", "unknown"]).await?;
    world.zone.nbctl(["lr-route-del", "cluster_udn_green_transit_router", "100.65.0.3"]).await?;
    world.zone.nbctl(["lr-nat-del", "GR_cluster_udn_blue_node1", "snat", "10.200.0.0/16"]).await?;
    world.zone.nbctl(["lrp-del", "rtoj-GR_cluster_udn_blue_node1"]).await?;
    world.zone.nbctl(["remove", "Logical_Switch", "node1", "other_config", "subnet"]).await?;
    world.zone.nbctl(["clear", "Logical_Router", "GR_node1", "copp"]).await?;
    world.zone.nbctl(["lr-del", "cluster_udn_green_transit_router"]).await?;
    world.zone.nbctl(["ls-del", "cluster_udn_blue_join"]).await?;
    let gone = |have: &Snapshot| have.find_one(LogicalSwitch::by_name(), "cluster_udn_blue_join").is_none();
    world.until(gone).await?;
    for outcome in world.write(&run).await?.into_iter().skip(1) {
        ensure!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    }
    for outcome in world.write(&run).await? {
        ensure!(outcome == Outcome::Unchanged, "after the repair: {outcome:?}");
    }
    let after = world.rows()?;
    // Rows that nobody touched are the same rows still.
    let kept = ours.keys().filter(|key| after.contains_key(key)).count();
    ensure!(after.len() == with_foreign.len() && kept < ours.len(), "{} rows", after.len());
    for (command, theirs) in [
        (&["ls-list"][..], "foreign"),
        (&["lr-list"], "foreign-router"),
        (&["lr-route-list", "GR_node1"], "192.0.2.0/24"),
        (&["lr-route-list", "cluster_udn_blue_ovn_cluster_router"], "192.0.2.0/24"),
        (&["lr-nat-list", "GR_node1"], "10.128.0.77"),
        (&["lsp-list", "node1"], "ns_pod"),
        (&["acl-list", "node1"], "900"),
        (&["lr-policy-list", "ovn_cluster_router"], "192.0.2.1"),
        (&["get", "Logical_Switch", "node1", "external_ids:note"], "mine"),
    ] {
        let found = world.zone.nbctl(command).await?;
        ensure!(found.contains(theirs), "{command:?} has no {theirs}: {found}");
    }
    Ok(())
}

async fn removed(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "removed").await?;
    let run = CapturedRun::load("14-before")?;
    let zone = run.zone();
    let default = run.networks.first().context("the default network")?;
    zone.write_network(&world.store, &default.name, &run.plan(default), &Parts::all()).await?;
    zone.write(&world.store).await?;
    let before = world.rows()?;
    world.write(&run).await?;
    ensure!(world.rows()?.len() > before.len());

    // One part alone, then everything that the database itself says is there: nobody has to remember it.
    let green = run.networks.last().context("a network")?;
    let mut plan = run.plan(green);
    let node3 = Part::Remote("node3".into());
    ensure!(plan.parts.remove(&node3).is_some());
    let parts = Parts::Only([node3].into());
    let outcome = zone.write_network(&world.store, &green.name, &plan, &parts).await?;
    ensure!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    let have = world.store.current()?;
    let port = |name: &str| have.find_one(LogicalRouterPort::by_name(), name).is_some();
    ensure!(port("trtor-GR_cluster_udn_green_node2") && !port("trtor-GR_cluster_udn_green_node3"));

    for network in networks(&world.store.current()?) {
        let sent = world.store.statistics().transactions;
        let outcome = zone.remove_network(&world.store, &network).await?;
        ensure!(matches!(outcome, Outcome::Changed { .. }), "{network}: {outcome:?}");
        ensure!(world.store.statistics().transactions - sent == 1, "{network}");
        ensure!(zone.remove_network(&world.store, &network).await? == Outcome::Unchanged, "{network}");
    }
    ensure!(world.rows()? == before, "something stayed, or went with the networks");
    Ok(())
}
