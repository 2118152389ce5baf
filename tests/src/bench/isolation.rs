//! Isolation with five thousand pods on the cluster, five hundred of them on the node: from a pod's annotation to its sets,
//! from the start of the agent to complete sets, and what a change, a restart and the pods themselves cost.
//!
//! The kernel says when it took a transaction: a listener in the node prints the time of each, by the machine's clock, so
//! that no start of `nft` and no look at a log is in a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use causeway_rig::{Mark, Process, Program, Rig, RigOptions, whole_lines};
use futures::{StreamExt, TryStreamExt, stream};

use super::measure::{Goal, Taken};
use super::process::resident;
use super::session::Session;
use crate::isolation::{DEADLINE, ON, PodSpec, V4, World};

/// From a pod's annotation to the transaction of its elements.
const POD: &str = "isolation_pod_to_sets";
/// Transactions for one such change.
const CHANGE: &str = "isolation_pod_transactions";
/// From the start of the agent, on a node without rules, to complete sets.
const START: &str = "isolation_start_5000_pods";
/// Transactions with elements for that.
const START_TRANSACTIONS: &str = "isolation_start_transactions";
/// Transactions of a restart with nothing to do.
const RESTART: &str = "isolation_restart_transactions";
/// Memory of the host agent.
const MEMORY: &str = "memory_isolation_5000_pods";

/// Pods on the cluster, and those of them on the node.
const PODS: u32 = 5000;
const HERE: u32 = 500;
/// Requests to the API server at a time, while pods are made.
const AT_A_TIME: usize = 16;

/// Prints the time of every transaction: `NFNLGRP_NFTABLES` is group 7, `NFT_MSG_NEWGEN` message 15 of subsystem 10.
const LISTENER: &str = "\
import socket, struct, time
s = socket.socket(16, socket.SOCK_RAW, 12)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
s.bind((0, 1 << 6))
print('listens', flush=True)
while True:
    try:
        data = s.recv(1 << 17)
    except OSError:
        continue
    now, at = time.time_ns(), 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from('IH', data, at)
        if kind == (10 << 8) + 15:
            print('at', now, flush=True)
        at += max(16, (length + 3) & ~3)
";

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any([POD, CHANGE, START, START_TRANSACTIONS, RESTART, MEMORY]) {
        return Ok(());
    }
    let rig = Arc::new(Rig::start(RigOptions::bare()).await?);
    let world = World::start(rig, "isolated").await?;
    let pods = stream::iter(0..PODS).map(|number| make(&world, number));
    pods.buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
    let program = Program::new("python3").named("listener").args(["-c", LISTENER]);
    let listener = world.node.spawn(program).await?;
    listener.says(Mark::START, "listens\n", DEADLINE).await?;

    let begun = now()?;
    let on_the_host = ["--ovnkube-node-mode", "dpu-host"];
    let agent = world.node.spawn(world.program("host-agent", &[&ON, &V4, &on_the_host])).await?;
    world.ready().await?;
    world.converged().await?;
    let last = times(&listener)?.last().copied().context("no transaction at the start")?;
    session.tell(Taken::times(START, &[Duration::from_nanos(last - begun)]).goal(Goal::median(500.0)))?;
    let transactions = world.metric("causeway_isolation_transactions_total", "elements").await?;
    session.tell(
        Taken::values(START_TRANSACTIONS, "transactions", vec![count(transactions)?]).goal(Goal::max(1.0)),
    )?;
    session.tell(Taken::values(MEMORY, "MB", vec![resident(&agent)?]).goal(Goal::max(24.0)))?;

    let (mut reactions, mut writes) = (Vec::new(), Vec::new());
    for change in 0..session.changes() {
        let (reaction, transactions) = one_pod(&world, &listener, change).await?;
        reactions.push(reaction);
        writes.push(count(transactions)?);
    }
    session.tell(Taken::times(POD, &reactions).goal(Goal::median(20.0)))?;
    session.tell(Taken::values(CHANGE, "transactions", writes).goal(Goal::max(1.0)))?;

    let before = times(&listener)?.len();
    agent.kill().await?;
    agent.restart().await?;
    world.ready().await?;
    // Word of transactions comes in their order: this one is the last.
    world.nft_run("add table ip last\n").await?;
    let after = until(&listener, before + 1).await?.len();
    let restart = count(u64::try_from(after - before - 1)?)?;
    session.tell(Taken::values(RESTART, "transactions", vec![restart]).goal(Goal::max(0.0)))
}

async fn make(world: &World, number: u32) -> anyhow::Result<()> {
    let address = format!("10.128.{}.{}", number / 250, 1 + number % 250);
    let pod = PodSpec::locked(&format!("pod-{number}"), &[&address]).open("- {protocol: tcp, port: 80}");
    let pod = if number < HERE { pod } else { pod.on("elsewhere") };
    world.make(&pod).await
}

/// A pod's port opens or closes: how long until the kernel has it, and how many transactions that took.
async fn one_pod(world: &World, listener: &Process, change: usize) -> anyhow::Result<(Duration, u64)> {
    let before = times(listener)?.len();
    let pod = format!("pod-{}", change % 250);
    let open = if (change / 250).is_multiple_of(2) {
        "- {protocol: tcp, port: 81}"
    } else {
        "- {protocol: tcp, port: 82}"
    };
    let begun = now()?;
    world.open(&pod, Some(open)).await?;
    let all = until(listener, before + 1).await?;
    let first = all.get(before).copied().context("a transaction")?;
    Ok((Duration::from_nanos(first.saturating_sub(begun)), u64::try_from(all.len() - before)?))
}

/// The times of all transactions, once there are so many.
async fn until(listener: &Process, many: usize) -> anyhow::Result<Vec<u64>> {
    let look = || async move {
        let all = times(listener).map_err(|error| format!("{error:#}"))?;
        if all.len() >= many { Ok(all) } else { Err(format!("{} transactions", all.len())) }
    };
    causeway_rig::wait_for("a transaction", DEADLINE, look).await
}

fn times(listener: &Process) -> anyhow::Result<Vec<u64>> {
    ensure!(listener.is_running(), "the listener has ended");
    let text = listener.log_text()?;
    whole_lines(&text).filter_map(|line| line.strip_prefix("at ")).map(|time| Ok(time.parse()?)).collect()
}

/// The machine's clock in nanoseconds, as the listener reads it.
fn now() -> anyhow::Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

fn count(number: u64) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(number)?))
}
