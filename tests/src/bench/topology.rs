//! What networks cost the agent that writes them to OVN, on one node of three, with 10, 100 and 1,000 Layer3 primary
//! networks: how soon their rows are committed, in how many transactions, with how much CPU time and memory; what the next
//! network costs among a thousand, a restart, and a row that a hand changed.
//!
//! northd and ovn-controller are stopped: they would take the machine for themselves while the agent works. How long northd
//! takes for the same rows is a measure of its own, since whoever waits for a network waits for it too.

use std::time::{Duration, Instant};

use anyhow::Context;
use causeway_dpu_agent::topology::northbound::{LogicalRouter, LogicalSwitch};
use causeway_rig::Process;
use futures::{StreamExt, TryStreamExt, stream};
use ovsdb::{Client, Condition, Datum, Operation, Options, Remote, Snapshot, Store, Transaction};

use self::beside::Beside;
use super::measure::{Goal, Taken};
use super::process::{cpu, resident};
use super::session::Session;
use crate::topology::world::{Kind, NetworkSpec, World};

mod beside;

/// From the first of some networks on the API server to the rows of all.
const ROWS: &str = "topology_rows";
/// CPU time of the agent for them.
const CPU: &str = "topology_cpu";
/// Transactions for each of them.
const TRANSACTIONS: &str = "topology_transactions";
/// Bytes that the Northbound database was sent for each of them.
const BYTES: &str = "topology_bytes";
/// Memory of the agent with so many.
const MEMORY: &str = "memory_topology";
/// northd's time for the rows of a hundred networks.
const NORTHD: &str = "topology_northd_100";
/// One more network among a thousand.
const ONE: &str = "topology_one_1000";
/// Transactions for it.
const ONE_TRANSACTIONS: &str = "topology_one_1000_transactions";
/// Bytes for it.
const ONE_BYTES: &str = "topology_one_1000_bytes";
/// Start with a thousand networks that are there.
const RESTART: &str = "topology_restart_1000";
/// Memory of the agent after it.
const RESTART_MEMORY: &str = "memory_topology_restart_1000";
/// Transactions of that.
const RESTART_TRANSACTIONS: &str = "topology_restart_1000_transactions";
/// A row that a hand changed is as it was.
const RESTORED: &str = "topology_restored";

/// Requests to the API server at a time, while networks are made.
const AT_A_TIME: usize = 16;
/// Longer than a thousand networks take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);
/// Routers that a network has on a node, and that the default network has.
const ROUTERS: usize = 2;

/// The most bytes that a network may take, whatever others there are.
const MOST_BYTES: f64 = 20_000.0;

/// Id of a network that comes and goes before anything is measured.
const FIRST: u32 = 4000;

/// How many networks there are, and the most that the rows (ms), the CPU time (ms) and the memory (MB) may be.
const STAGES: [(u32, [f64; 3], [&str; 3]); 3] = [
    (10, [500.0, 100.0, 30.0], ["", "", ""]),
    (100, [1000.0, 500.0, 30.0], ["11 to 100: 11.9 s", "11 to 100: 4.7 s", "266 to 285"]),
    (1000, [20_000.0, 10_000.0, 120.0], ["", "", ""]),
];

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    let single =
        [NORTHD, ONE, ONE_TRANSACTIONS, ONE_BYTES, RESTART, RESTART_MEMORY, RESTART_TRANSACTIONS, RESTORED];
    let staged: Vec<String> = STAGES
        .iter()
        .flat_map(|(many, ..)| [ROWS, CPU, TRANSACTIONS, BYTES, MEMORY].map(|name| format!("{name}_{many}")))
        .collect();
    if !session.wants_any(single) && !session.wants_any(staged.iter().map(String::as_str)) {
        return Ok(());
    }
    let mut world = World::start().await?;
    world.join(2).await?;
    world.join(3).await?;
    let agent = world.agent().await?;
    world.ready().await?;
    let [_, _, northd, controller] = world.zone.daemons();
    northd.kill().await?;
    controller.kill().await?;
    // The API server's first object of a kind takes it two seconds.
    let first = spec(FIRST);
    world.add(std::slice::from_ref(&first)).await?;
    until(&world.store, 1).await?;
    world.remove(&[&first.name]).await?;
    until(&world.store, 0).await?;
    let mut there = 0;
    for (many, goals, incumbent) in STAGES {
        let specs: Vec<NetworkSpec> = (there + 1..=many).map(spec).collect();
        stage(session, &mut world, &agent, &specs, (many, goals, incumbent)).await?;
        there = many;
        if many == 100 && session.wants(NORTHD) {
            by_northd(session, &world).await?;
        }
    }
    one_more(session, &mut world, there).await?;
    restored(session, &world).await?;
    restart(session, &world, &agent).await
}

fn spec(id: u32) -> NetworkSpec {
    NetworkSpec::new(&format!("bench_n{id}"), id, Kind::Layer3)
}

fn routers(have: &Snapshot) -> usize {
    have.len::<LogicalRouter>()
}

async fn until(store: &Store, networks: usize) -> anyhow::Result<()> {
    let want = ROUTERS * (networks + 1);
    let found = store.wait_for(PATIENCE, |have| (routers(have) == want).then_some(())).await;
    found.map_err(|error| anyhow::anyhow!("{} routers instead of {want}", routers(&error.last)))
}

async fn stage(
    session: &Session,
    world: &mut World,
    agent: &Process,
    specs: &[NetworkSpec],
    (many, [rows, work, memory], [rows_there, work_there, memory_there]): (u32, [f64; 3], [&'static str; 3]),
) -> anyhow::Result<()> {
    world.announce(specs).await?;
    let (transactions, bytes, before) = (world.transactions().await?, world.sent_bytes().await?, cpu(agent)?);
    let begun = Instant::now();
    let made = stream::iter(specs).map(|spec| world.create(spec)).buffer_unordered(AT_A_TIME);
    made.try_collect::<Vec<()>>().await?;
    until(&world.store, usize::try_from(many)?).await?;
    let took = begun.elapsed();
    // The agent has counted what it wrote, and looked at its own changes.
    let written = world.until_transactions(transactions + u64::try_from(specs.len())?).await? - transactions;
    let bytes = world.sent_bytes().await? - bytes;
    at_rest(world, many).await?;
    let spent = cpu(agent)?.saturating_sub(before);
    let taken = Taken::times(format!("{ROWS}_{many}"), &[took]).incumbent(rows_there);
    session.tell(taken.goal(Goal::max(rows)))?;
    let taken = Taken::times(format!("{CPU}_{many}"), &[spent]).incumbent(work_there);
    session.tell(taken.goal(Goal::max(work)))?;
    let each = figure(written)? / figure(u64::try_from(specs.len())?)?;
    session.tell(
        Taken::values(format!("{TRANSACTIONS}_{many}"), "transactions", vec![each]).goal(Goal::max(1.0)),
    )?;
    let each = figure(bytes)? / figure(u64::try_from(specs.len())?)?;
    session
        .tell(Taken::values(format!("{BYTES}_{many}"), "bytes", vec![each]).goal(Goal::max(MOST_BYTES)))?;
    let taken =
        Taken::values(format!("{MEMORY}_{many}"), "MB", vec![resident(agent)?]).incumbent(memory_there);
    session.tell(taken.goal(Goal::max(memory)))
}

async fn by_northd(session: &Session, world: &World) -> anyhow::Result<()> {
    let [_, _, northd, _] = world.zone.daemons();
    let begun = Instant::now();
    northd.restart().await?;
    world.zone.nbctl(["--timeout=300", "--wait=sb", "sync"]).await.context("northd")?;
    let took = begun.elapsed();
    northd.kill().await?;
    session.tell(Taken::times(NORTHD, &[took]).goal(Goal::max(60_000.0)))
}

async fn one_more(session: &Session, world: &mut World, there: u32) -> anyhow::Result<()> {
    let rounds = u32::try_from(session.changes().div_ceil(10))?.clamp(1, 50);
    let specs: Vec<NetworkSpec> = (there + 1..=there + rounds).map(spec).collect();
    world.announce(&specs).await?;
    at_rest(world, there).await?;
    let mut plain = Beside::open(world).await?;
    let mut many = usize::try_from(there)?;
    let (mut times, mut beside, mut transactions, mut bytes) = (vec![], vec![], vec![], vec![]);
    for spec in &specs {
        let (before, sent) = (world.transactions().await?, world.sent_bytes().await?);
        let begun = Instant::now();
        world.create(spec).await?;
        many += 1;
        until(&world.store, many).await?;
        times.push(begun.elapsed());
        transactions.push(figure(world.until_transactions(before + 1).await? - before)?);
        bytes.push(figure(world.sent_bytes().await? - sent)?);
        beside.push(plain.one(world, spec, many).await?);
    }
    let taken = Taken::times(ONE, &times).beside(&beside);
    session.tell(taken.goal(Goal::median(20.0)).goal(Goal::ratio(1.3)))?;
    session.tell(Taken::values(ONE_TRANSACTIONS, "transactions", transactions).goal(Goal::max(1.0)))?;
    session.tell(Taken::values(ONE_BYTES, "bytes", bytes).goal(Goal::max(MOST_BYTES)))
}

async fn restored(session: &Session, world: &World) -> anyhow::Result<()> {
    let mut hand = hand(world).await?;
    let mut times = Vec::new();
    for round in 0..session.changes() {
        times.push(altered(world, &mut hand, u32::try_from(round % 1000)? + 1).await?);
    }
    session.tell(Taken::times(RESTORED, &times).goal(Goal::median(50.0)))
}

async fn hand(world: &World) -> anyhow::Result<Client> {
    let remote = Remote::Unix(world.zone.northbound_socket().to_owned());
    Ok(Client::connect(&remote, Options::default()).await?)
}

/// A hand takes the subnet of a network's switch away: how long until it is back.
async fn altered(world: &World, hand: &mut Client, id: u32) -> anyhow::Result<Duration> {
    let name = format!("{}_node1", spec(id).name);
    let have = world.store.current()?;
    let (uuid, row) = have.find_one(LogicalSwitch::by_name(), name.as_str()).context("a switch")?;
    let want = row.other_config.clone();
    let mut change = Transaction::default();
    change.push(Operation::Update {
        table: "Logical_Switch".to_owned(),
        conditions: vec![Condition::row(uuid)],
        row: [("other_config".to_owned(), Datum::Map(std::collections::BTreeMap::new()))].into(),
    });
    let generation = have.generation();
    let begun = Instant::now();
    hand.transact("OVN_Northbound", &change).await?;
    // Two updates: the hand's and the repair.
    let is_right = |have: &Snapshot| {
        let row = have.row::<LogicalSwitch>(uuid);
        let right = row.is_some_and(|row| row.other_config == want);
        (have.generation() >= generation + 2 && right).then_some(())
    };
    let found = world.store.wait_for(PATIENCE, is_right).await;
    found.map_err(|error| anyhow::anyhow!("{name} stays altered: {}", error.status))?;
    Ok(begun.elapsed())
}

/// Waits until the agent has nothing to do: it looks at its own changes too, and at this one after them.
async fn at_rest(world: &World, id: u32) -> anyhow::Result<()> {
    altered(world, &mut hand(world).await?, id).await.map(drop)
}

async fn restart(session: &Session, world: &World, agent: &Process) -> anyhow::Result<()> {
    agent.kill().await?;
    let begun = Instant::now();
    agent.restart().await?;
    world.ready().await?;
    let took = begun.elapsed();
    let taken = Taken::times(RESTART, &[took]).incumbent("with 100: 11.7 s");
    session.tell(taken.goal(Goal::max(3000.0)))?;
    let taken = Taken::values(RESTART_MEMORY, "MB", vec![resident(agent)?]);
    session.tell(taken.goal(Goal::max(120.0)))?;
    let sent = figure(world.transactions().await?)?;
    session.tell(Taken::values(RESTART_TRANSACTIONS, "transactions", vec![sent]).goal(Goal::max(0.0)))
}

fn figure(number: u64) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(number)?))
}
