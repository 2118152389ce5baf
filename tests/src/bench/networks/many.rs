//! A thousand networks: all made at once, one more among them, a restart, all deleted at once.

use std::time::{Duration, Instant};

use anyhow::ensure;
use causeway_rig::RigOptions;

use super::super::audit::{Audit, Write};
use super::super::measure::{Goal, Taken};
use super::super::process::{cpu, resident};
use super::super::session::Session;
use super::field::{Field, figure, make_namespaces, names, told};
use super::rerun::{self, Empty, Lane};
use super::single::{Among, NODES, one_after_the_other};

/// From the first creation until all networks are created and on all Nodes.
const TIME: &str = "networks_1000_time";
/// CPU time of the cluster manager for that.
const CPU: &str = "networks_1000_cpu";
/// Its memory afterwards.
const MEMORY: &str = "networks_1000_memory";
/// Its writes for each network.
const WRITES: &str = "networks_1000_writes";
/// From the first deletion until nothing is left.
const DELETED_TIME: &str = "networks_1000_deleted_time";
/// CPU time of the cluster manager for that.
const DELETED_CPU: &str = "networks_1000_deleted_cpu";
/// From the start of a cluster manager that was killed to its first answer that it is ready.
const RESTART_READY: &str = "networks_restart_ready";
/// Its writes from then on.
const RESTART_WRITES: &str = "networks_restart_writes";
/// Its CPU time until it has looked at everything.
const RESTART_CPU: &str = "networks_restart_cpu";
/// What is measured of one network among the thousand.
const AMONG: &str = "1000";
/// Networks.
const MANY: usize = 1000;

/// Takes every measure of this kind that is wanted.
pub(super) async fn run(session: &Session) -> anyhow::Result<()> {
    let at_once = [TIME, CPU, MEMORY, WRITES, DELETED_TIME, DELETED_CPU];
    let restarts = [RESTART_READY, RESTART_WRITES, RESTART_CPU];
    let singles = ["created", "subnets", "cpu", "writes"].map(|what| format!("networks_{what}_{AMONG}"));
    let single = session.wants_any(singles.iter().map(String::as_str));
    if !single && !session.wants_any(at_once.into_iter().chain(restarts)) {
        return Ok(());
    }
    let many = names("net", MANY);
    let (mut field, grown) = Whole::grow(&many).await?;
    let memory = resident(&field.crowd.manager)?;
    if single {
        let among = Among {
            name: AMONG,
            present: &many,
            budget: Duration::from_millis(6),
            incumbent: ["p50 41, max 65 at 500", "p50 221, max 385 at 500", "820 at 500"],
        };
        let ones = one_after_the_other(session, &mut field, among).await?;
        field.shrink(&ones, MANY).await?;
        field.quiet().await?;
    }
    if session.wants_any(restarts) {
        restart(session, &field).await?;
    }
    if !session.wants_any(at_once) {
        return Ok(());
    }
    let shrunk = Whole::shrink(&mut field, &many).await?;
    drop(field);
    let creations = rerun::lanes(many.iter().map(|name| rerun::creation(name)), grown.writes);
    let deletions = rerun::lanes(many.iter().map(|name| rerun::deletion(name)), shrunk.writes);
    let [grown_before, shrunk_before] = beside(&many, &creations, &deletions).await?;
    let (mut field, grown) = Whole::grow(&many).await?;
    let shrunk = Whole::shrink(&mut field, &many).await?;
    drop(field);
    let [grown_after, shrunk_after] = beside(&many, &creations, &deletions).await?;

    let taken = Taken::times(TIME, &[grown.took]).beside(&[(grown_before + grown_after) / 2]);
    session.tell(taken.goal(Goal::ratio(1.3)).incumbent("100 to 500: 75 s"))?;
    session.tell(Taken::times(CPU, &[grown.spent]).goal(Goal::max(6000.0)).incumbent("100 to 500: 67 s"))?;
    session
        .tell(Taken::values(MEMORY, "MB", vec![memory]).goal(Goal::max(60.0)).incumbent("308 with 500"))?;
    let each = figure(grown.writes.len())? / figure(MANY)?;
    session.tell(Taken::values(WRITES, "writes", vec![each]).goal(Goal::max(7.0)).incumbent("11"))?;
    let taken = Taken::times(DELETED_TIME, &[shrunk.took]).beside(&[(shrunk_before + shrunk_after) / 2]);
    session.tell(taken.goal(Goal::ratio(1.3)).incumbent("500: 134 s"))?;
    session.tell(Taken::times(DELETED_CPU, &[shrunk.spent]).goal(Goal::max(6000.0)).incumbent("500: 74 s"))
}

/// What doing something to all networks at once took.
struct Whole {
    took: Duration,
    spent: Duration,
    writes: Vec<Write>,
}

impl Whole {
    async fn grow(many: &[String]) -> anyhow::Result<(Field, Self)> {
        let mut field = Field::open(Audit::with_writes(RigOptions::bare())?, NODES).await?;
        make_namespaces(&field.client, many).await?;
        field.quiet().await?;
        let (mark, before) = (field.crowd.audit.mark()?, field.spent()?);
        let took = field.grow(many, many.len()).await?;
        field.quiet().await?;
        let spent = field.spent()?.saturating_sub(before);
        println!("  writes for {} networks at once: {}", many.len(), told(&field.writes(mark)?));
        let writes = field.crowd.audit.writes_since(mark)?;
        Ok((field, Self { took, spent, writes }))
    }

    async fn shrink(field: &mut Field, many: &[String]) -> anyhow::Result<Self> {
        let (mark, before) = (field.crowd.audit.mark()?, field.spent()?);
        let took = field.shrink(many, 0).await?;
        field.quiet().await?;
        let spent = field.spent()?.saturating_sub(before);
        println!("  writes for the end of {} networks: {}", many.len(), told(&field.writes(mark)?));
        let writes = field.crowd.audit.writes_since(mark)?;
        Ok(Self { took, spent, writes })
    }
}

/// What the plain client takes for both phases.
async fn beside(
    namespaces: &[String],
    creations: &[Lane],
    deletions: &[Lane],
) -> anyhow::Result<[Duration; 2]> {
    let empty = Empty::open(NODES, namespaces).await?;
    Ok([empty.time(creations).await?, empty.time(deletions).await?])
}

/// Kills the cluster manager and starts it again, with nothing to do.
async fn restart(session: &Session, field: &Field) -> anyhow::Result<()> {
    let (process, probe) = (&field.crowd.manager, &field.crowd.probe);
    process.kill().await?;
    let (mark, begun) = (field.crowd.audit.mark()?, Instant::now());
    process.restart().await?;
    probe.ready(process).await?;
    let ready = begun.elapsed();
    // Each network is looked at by three rooms, and each Node by one.
    let passes = figure(3 * MANY + NODES)?;
    probe.rests(process, passes).await?;
    field.quiet().await?;
    let (spent, writes) = (cpu(process)?, field.writes(mark)?);
    ensure!(process.is_running(), "it did not come up again:\n{}", process.log_text()?);
    if !writes.is_empty() {
        println!("  writes after a restart: {}", told(&writes));
    }
    session
        .tell(Taken::times(RESTART_READY, &[ready]).goal(Goal::max(2000.0)).incumbent("9.7 s with 500"))?;
    let taken = Taken::values(RESTART_WRITES, "writes", vec![figure(writes.len())?]);
    session.tell(taken.goal(Goal::max(0.0)).incumbent("503 with 500"))?;
    session.tell(Taken::times(RESTART_CPU, &[spent]).goal(Goal::max(1000.0)).incumbent("3.9 s with 500"))
}
