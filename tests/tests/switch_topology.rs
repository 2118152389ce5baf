//! The topology's writer on a real Northbound database, with northd and ovn-controller at work on it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::chassis_settings::{ChassisSettings, Exporter, Settings};
use causeway_dpu_agent::topology::networks;
use causeway_dpu_agent::topology::northbound::{
    Acl, AddressSet, Copp, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, Nat, PortGroup, RouterPolicy, StaticMacBinding,
    StaticRoute, declare,
};
use causeway_dpu_agent::topology::plan::{ChassisRow, Part, Plan, remote_chassis};
use causeway_dpu_agent::topology::southbound::{self, Chassis, ChassisConflict, Encap, write_chassis};
use causeway_dpu_agent::topology::write::{Outcome, Parts, Zone};
use causeway_net::network::name::NetworkName;
use causeway_rig::{Level, Node, OVS_SOCKET, OvnZone, Ovs, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::topology::CapturedRun;
use ovsdb::{
    Arity, Client, Condition, Datum, Operation, Options, Remote, Row, Snapshot, Store, Transaction, Uuid,
};
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
        .test_in(&shared, level, "every_column_of_every_row_comes_back_one_by_one", every_column)
        .test_in(&shared, level, "both_families_are_written_once_and_taken_by_northd", both_families)
        .test_in(&shared, level, "chassis_of_other_zones_come_and_go_and_the_own_one_stays", chassis)
        .test_in(&shared, level, "the_own_chassis_takes_its_settings_and_keeps_those_of_others", settings)
        .run()
}

/// A zone with a store that follows its Northbound database.
struct World {
    zone: OvnZone,
    store: Store,
    remote: Remote,
    ovs: Ovs,
    /// Kept for their processes.
    node: Node,
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
        Ok(Self { zone, store, remote, ovs, node, _driver: stop.drop_guard() })
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
        self.write_plans(&Plans::of(run)?).await
    }

    async fn write_plans(&self, plans: &Plans) -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = vec![plans.zone.write(&self.store).await?];
        for (network, plan) in &plans.networks {
            outcomes.push(plans.zone.write_network(&self.store, network, plan, &Parts::all()).await?);
        }
        outcomes.push(Zone::write_services(&self.store, &plans.services, true).await?);
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
        add::<AddressSet>(&mut rows, &have);
        Ok(rows)
    }
}

/// What is wanted of a zone.
struct Plans {
    zone: Zone,
    networks: Vec<(NetworkName, Plan)>,
    /// Sets of addresses of Services.
    services: causeway_dpu_agent::topology::rows::Rows,
}

impl Plans {
    fn of(run: &CapturedRun) -> anyhow::Result<Self> {
        let networks: Vec<_> =
            run.networks.iter().map(|network| (network.name.clone(), run.plan(network))).collect();
        for (network, plan) in &networks {
            ensure!(plan.problems.is_empty(), "{network}: {:?}", plan.problems);
        }
        Ok(Self { zone: run.zone(), networks, services: run.service_addresses() })
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
    // The zone itself, three networks, and the addresses of Services.
    ensure!(world.store.statistics().transactions - sent == 5, "not one transaction each");
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
    world.zone.nbctl(["clear", "Address_Set", "a3613486944346402462", "addresses"]).await?;
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
    Zone::write_services(&world.store, &run.service_addresses(), true).await?;
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

async fn both_families(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "both-families").await?;
    let run = CapturedRun::dual_stack()?;
    for outcome in world.write(&run).await? {
        ensure!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    }
    for outcome in world.write(&run).await? {
        ensure!(outcome == Outcome::Unchanged, "{outcome:?}");
    }
    // An expression that OVN cannot read is a warning of northd's or ovn-controller's.
    world.zone.nbctl(["--timeout=60", "--wait=sb", "sync"]).await?;
    let [_, _, northd, controller] = world.zone.daemons();
    for daemon in [northd, controller] {
        let log = daemon.log_text()?;
        let bad = ["error parsing", "bad ", "invalid", "Invalid", "syntax"];
        let wrong: Vec<&str> =
            log.lines().filter(|line| bad.iter().any(|text| line.contains(text))).collect();
        ensure!(wrong.is_empty(), "{}: {wrong:#?}", daemon.name());
    }
    let routes = world.zone.nbctl(["lr-route-list", "layer2_transit_router"]).await?;
    for want in ["fd99::3", "100.65.0.3", "fd21::/64", "fd00:10:96::a"] {
        ensure!(routes.contains(want), "no {want}: {routes}");
    }
    Ok(())
}

async fn chassis(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "chassis").await?;
    let remote = Remote::Unix(world.zone.southbound_socket().to_owned());
    let (store, driver) = southbound::declare(Store::builder(remote, "OVN_Southbound")).build();
    let stop = CancellationToken::new();
    tokio::spawn(driver.run(stop.clone()));
    let _stop = stop.drop_guard();
    let own = |have: &Snapshot| have.rows::<Chassis>().next().map(|(uuid, row)| (uuid, row.clone()));
    // ovn-controller makes the zone's own one.
    let own = store.wait_for(DEADLINE, own).await.map_err(|error| anyhow::anyhow!("{error}"))?;

    let run = CapturedRun::load("14-before")?;
    let mut rows: Vec<ChassisRow> =
        run.remotes.iter().map(|node| remote_chassis(&run.cluster, node)).collect::<Result<_, _>>()?;
    let none = BTreeSet::new();
    let (outcome, refused) = write_chassis(&store, &rows, &none).await?;
    ensure!(matches!(outcome, Outcome::Changed { .. }) && refused.is_empty(), "{outcome:?} {refused:?}");
    ensure!(write_chassis(&store, &rows, &none).await? == (Outcome::Unchanged, Vec::new()));
    ensure!(store.current()?.len::<Chassis>() == 3 && store.current()?.len::<Encap>() == 3);

    // northd binds the ports of other nodes to them.
    world.write(&run).await?;
    world.zone.nbctl(["--timeout=60", "--wait=sb", "sync"]).await?;
    let find =
        ["--bare", "--columns=type", "find", "Port_Binding", "logical_port=trtor-GR_cluster_udn_green_node2"];
    let kind = world.zone.sbctl(find).await?;
    ensure!(kind.trim() == "remote", "{kind:?}");

    // A new id takes the address along; a node that goes takes its chassis along; a stolen name is refused.
    let first = rows.first_mut().context("a node")?;
    first.name = String::from("another");
    let stolen = ChassisRow { name: own.1.name.clone(), node: "thief".into(), ..first.clone() };
    rows.truncate(1);
    rows.push(ChassisRow { addresses: vec!["192.0.2.9".parse()?], ..stolen });
    let (outcome, refused) = write_chassis(&store, &rows, &none).await?;
    ensure!(matches!(outcome, Outcome::Changed { .. }), "{outcome:?}");
    ensure!(refused == [("thief".into(), ChassisConflict::Name)], "{refused:?}");
    let have = store.current()?;
    let names: BTreeSet<&str> = have.rows::<Chassis>().map(|(_, row)| row.name.as_str()).collect();
    ensure!(names == [own.1.name.as_str(), "another"].into(), "{names:?}");
    ensure!(
        have.row::<Chassis>(own.0).is_some_and(|row| row.encaps == own.1.encaps),
        "the own chassis changed"
    );
    ensure!(have.len::<Encap>() == 2);
    Ok(())
}

async fn settings(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "settings").await?;
    world
        .ovs
        .vsctl(["--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"])
        .await?;
    let export = ["--", "--id=@n", "create", "NetFlow", r#"targets="127.0.0.1:2055""#];
    let set = ["set", "Bridge", "br-int", "netflow=@n"];
    world.ovs.vsctl(set.into_iter().chain(export)).await?;
    let remote = Remote::Unix(world.node.path(OVS_SOCKET));
    let builder = Store::builder(remote, "Open_vSwitch").table::<Settings>().table::<Exporter>();
    let (store, driver) = builder.build();
    let stop = CancellationToken::new();
    tokio::spawn(driver.run(stop.clone()));
    let _stop = stop.drop_guard();
    store.synced(DEADLINE).await.map_err(|error| anyhow::anyhow!("{error}"))?;
    let before = world.ovs.vsctl(["get", "Open_vSwitch", ".", "external_ids:ovn-remote"]).await?;
    let wanted = ChassisSettings::new(vec![world.node.v4().into()], Some("settings".to_owned()));
    store.transact(&wanted.change(&store.current()?)?).await?;
    ensure!(wanted.change(&store.current()?)?.is_empty());
    let after = world.ovs.vsctl(["get", "Open_vSwitch", ".", "external_ids:ovn-remote"]).await?;
    ensure!(before == after, "{before} {after}");
    let exports = world.ovs.vsctl(["get", "Bridge", "br-int", "netflow"]).await?;
    ensure!(exports.trim() == "[]", "{exports}");
    Ok(())
}

/// Takes one column of one row after the other away. Names are left: a row with another name is another row.
async fn every_column(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(&rig, "every-column").await?;
    let run = CapturedRun::load("14-before")?;
    // Only the database is needed, and the others would follow every single change.
    let [_, _, northd, controller] = world.zone.daemons();
    northd.kill().await?;
    controller.kill().await?;
    let plans = Plans::of(&run)?;
    world.write_plans(&plans).await?;
    world.zone.nbctl(["ls-add", "foreign", "--", "lsp-add", "foreign", "theirs"]).await?;
    world.until(|have| have.find_one(LogicalSwitchPort::by_name(), "theirs").is_some()).await?;
    let mut altered = 0;
    altered += alter::<LogicalSwitch>(&world, &plans).await?;
    altered += alter::<LogicalSwitchPort>(&world, &plans).await?;
    altered += alter::<LogicalRouter>(&world, &plans).await?;
    altered += alter::<LogicalRouterPort>(&world, &plans).await?;
    altered += alter::<GatewayChassis>(&world, &plans).await?;
    altered += alter::<StaticRoute>(&world, &plans).await?;
    altered += alter::<RouterPolicy>(&world, &plans).await?;
    altered += alter::<Nat>(&world, &plans).await?;
    altered += alter::<Acl>(&world, &plans).await?;
    altered += alter::<PortGroup>(&world, &plans).await?;
    altered += alter::<StaticMacBinding>(&world, &plans).await?;
    altered += alter::<Copp>(&world, &plans).await?;
    altered += alter::<Meter>(&world, &plans).await?;
    altered += alter::<AddressSet>(&world, &plans).await?;
    ensure!(altered > 200, "{altered}");
    Ok(())
}

const FOREIGN: [&str; 2] = ["foreign", "theirs"];

/// Rows in an order that does not depend on their identity.
fn sorted<T: Row>(have: &Snapshot) -> Vec<(String, Uuid, Arc<T>)> {
    let text = |row: &T| row.datum("name").map_or_else(|| format!("{row:?}"), |name| name.to_string());
    let rows = have.rows::<T>().map(|(uuid, row)| (text(row), uuid, row.clone()));
    let mut rows: Vec<_> =
        rows.filter(|(text, ..)| !FOREIGN.iter().any(|foreign| text.contains(foreign))).collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows
}

/// Whether a row that carries no mark is told by this column alone: without it, it could be anybody's, so it would stay.
fn is_identity<T: Row>(row: &T, column: &str) -> bool {
    let unmarked = row.datum("external_ids").is_some_and(|ids| ids.is_empty());
    let identity = match T::TABLE {
        "Logical_Router_Static_Route" => &["ip_prefix", "policy", "output_port"][..],
        "Logical_Router_Policy" => &["match", "priority"],
        "NAT" => &["type", "logical_ip"],
        // Marked or not: the pair is the row.
        "Static_MAC_Binding" => return ["logical_port", "ip"].contains(&column),
        _ => &[],
    };
    unmarked && identity.contains(&column)
}

/// Takes away each column of each row of a table, and writes everything after each; how many there were.
async fn alter<T: Row>(world: &World, plans: &Plans) -> anyhow::Result<usize> {
    let before = counts(&world.store.current()?);
    let mut altered = 0;
    let many = sorted::<T>(&world.store.current()?).len();
    for column in T::columns().iter().filter(|column| column.name != "name") {
        let empty = match (column.shape.arity, column.shape.elements.value) {
            (Arity::One, _) => Datum::scalar(column.shape.elements.key.default_atom()),
            (_, Some(_)) => Datum::Map(BTreeMap::new()),
            (_, None) => Datum::Set(BTreeSet::new()),
        };
        for at in 0..many {
            let rows = sorted::<T>(&world.store.current()?);
            let (name, uuid, row) = rows.get(at).with_context(|| format!("row {at} of {}", T::TABLE))?;
            if row.datum(column.name).as_ref() == Some(&empty) || is_identity(row.as_ref(), column.name) {
                continue;
            }
            let mut change = Transaction::default();
            change.push(Operation::Update {
                table: T::TABLE.to_owned(),
                conditions: vec![Condition::row(*uuid)],
                row: [(column.name.to_owned(), empty.clone())].into(),
            });
            if world.store.transact(&change).await.is_err() {
                continue; // the schema does not let the column be empty
            }
            altered += 1;
            let what = || format!("{} {name}: {}", T::TABLE, column.name);
            let outcomes = world.write_plans(plans).await.with_context(what)?;
            let changed = outcomes.iter().filter(|outcome| **outcome != Outcome::Unchanged).count();
            ensure!(changed >= 1, "{} did not come back", what());
            let again = world.write_plans(plans).await.with_context(what)?;
            ensure!(again.iter().all(|outcome| *outcome == Outcome::Unchanged), "{}: {again:?}", what());
            let after = counts(&world.store.current()?);
            ensure!(after == before, "{}: {after:?} instead of {before:?}", what());
        }
    }
    Ok(altered)
}

/// How many rows there are of each table.
fn counts(have: &Snapshot) -> [usize; 12] {
    [
        have.len::<LoadBalancerGroup>(),
        have.len::<LogicalSwitch>(),
        have.len::<LogicalSwitchPort>(),
        have.len::<LogicalRouter>(),
        have.len::<LogicalRouterPort>(),
        have.len::<StaticRoute>(),
        have.len::<RouterPolicy>(),
        have.len::<Nat>(),
        have.len::<Acl>(),
        have.len::<PortGroup>(),
        have.len::<StaticMacBinding>(),
        have.len::<AddressSet>(),
    ]
}
