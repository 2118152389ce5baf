//! What programs cost when nothing happens, how soon they are ready, and what a restart writes.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_rig::{Mark, Ovs};

use super::audit::Audit;
use super::journal::Journal;
use super::measure::{Goal, Taken};
use super::probe::PATIENCE;
use super::process::{cpu, resident};
use super::session::Session;
use super::stage::{Part, Stage};

/// How long is watched whether anything happens.
const IDLE: Duration = Duration::from_mins(1);
/// After so long without a request nothing more comes of what was before.
const QUIET: Duration = Duration::from_secs(5);
/// How often each program is started.
const STARTS: usize = 20;

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    let wants = |kinds: &[&str]| {
        let names: Vec<String> = kinds.iter().flat_map(|kind| Part::measures(kind)).collect();
        session.wants_any(names.iter().map(String::as_str))
    };
    let idle_kinds = ["idle_cpu", "idle_requests", "memory"];
    let restart_kinds = ["restart_writes", "restart_transactions"];
    let (idles, restarts, starts) = (wants(&idle_kinds), wants(&restart_kinds), wants(&["start"]));
    if !(idles || restarts || starts) {
        return Ok(());
    }
    let mut stage = Stage::set().await?;
    stage.open(&[]).await?;
    stage.rests().await?;
    if idles {
        idle(session, &stage).await?;
    }
    if restarts {
        for (ovs, node) in
            [(&stage.world.card_ovs, &stage.world.pair.card), (&stage.world.node_b_ovs, &stage.world.node_b)]
        {
            counts(ovs, &Journal::of(node)).await?;
        }
        for part in Part::ALL {
            restart(session, &stage, part).await?;
        }
    }
    if starts {
        for part in Part::ALL {
            start(session, &stage, part).await?;
        }
    }
    Ok(())
}

/// What one program does with a minute in which nothing happens.
async fn idle(session: &Session, stage: &Stage) -> anyhow::Result<()> {
    quiet(&stage.audit).await?;
    let mark = stage.audit.mark()?;
    let before: Vec<Duration> =
        Part::ALL.into_iter().map(|part| cpu(stage.process(part)?)).collect::<Result<_, _>>()?;
    tokio::time::sleep(IDLE).await;
    let requests = stage.audit.since(mark)?;
    for (part, before) in Part::ALL.into_iter().zip(before) {
        let process = stage.process(part)?;
        let spent = cpu(process)?.saturating_sub(before);
        let taken = Taken::times(part.measure("idle_cpu"), &[spent]);
        session.tell(taken.goal(Goal::max(50.0)))?;
        let known = stage.audit.since(Mark::START)?;
        ensure!(
            known.iter().any(|request| request.user.contains(part.user())),
            "{part:?} never asked for anything"
        );
        let of_it = requests.iter().filter(|request| request.user.contains(part.user()));
        let strange: Vec<_> = of_it.filter(|request| !request.is_idle()).collect();
        if !strange.is_empty() {
            println!("  idle requests of {}: {strange:?}", part.program());
        }
        let count = f64::from(u32::try_from(strange.len()).context("a number of requests")?);
        let taken = Taken::values(part.measure("idle_requests"), "requests", vec![count]);
        session.tell(taken.goal(Goal::max(0.0)))?;
        let taken = Taken::values(part.measure("memory"), "MB", vec![resident(process)?]);
        let incumbent = if part == Part::ClusterManager { "123" } else { "139" };
        session.tell(taken.goal(Goal::max(16.0)).incumbent(incumbent))?;
    }
    Ok(())
}

/// Waits until what the start has brought about is over: Events are written by and by.
async fn quiet(audit: &Audit) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let mark = audit.mark()?;
        tokio::time::sleep(QUIET).await;
        let strange = audit.since(mark)?.into_iter().find(|request| !request.is_idle());
        let Some(strange) = strange else { return Ok(()) };
        ensure!(begun.elapsed() < PATIENCE, "the programs do not come to rest: {strange:?}");
    }
}

/// Nothing is proven by a journal that shows no transaction: it has to show one that is made for this.
///
/// # Errors
/// It does not show it.
pub(super) async fn counts(ovs: &Ovs, journal: &Journal) -> anyhow::Result<()> {
    let before = journal.transactions()?;
    ovs.vsctl(["set", "Open_vSwitch", ".", "external_ids:bench=counts"]).await?;
    ensure!(journal.transactions()? > before, "the journal of the switch does not show a transaction");
    Ok(())
}

/// What a program writes that is killed and started again in a cluster where all is as it should be.
async fn restart(session: &Session, stage: &Stage, part: Part) -> anyhow::Result<()> {
    let process = stage.process(part)?;
    let journals = [Journal::of(&stage.world.pair.card), Journal::of(&stage.world.node_b)];
    let transactions = || -> anyhow::Result<usize> { journals.iter().map(Journal::transactions).sum() };
    process.kill().await?;
    let (mark, before) = (stage.audit.mark()?, transactions()?);
    process.restart().await?;
    // A pass that ended well has written what it had to write.
    stage.probe(part)?.rests(process, 1.0).await?;
    ensure!(process.is_running(), "{} did not come up again:\n{}", process.name(), process.log_text()?);
    let writes = stage.audit.since(mark)?.into_iter();
    let writes: Vec<_> =
        writes.filter(|request| request.is_write() && request.user.contains(part.user())).collect();
    if !writes.is_empty() {
        println!("  writes of a restarted {}: {writes:?}", part.program());
    }
    let count = f64::from(u32::try_from(writes.len()).context("a number of writes")?);
    let incumbent = if part == Part::ClusterManager { "503 with 500 networks" } else { "5" };
    let taken = Taken::values(part.measure("restart_writes"), "writes", vec![count]);
    session.tell(taken.goal(Goal::max(0.0)).incumbent(incumbent))?;
    let count = transactions()?.checked_sub(before).context("a journal that got shorter")?;
    let count = f64::from(u32::try_from(count).context("a number of transactions")?);
    let taken = Taken::values(part.measure("restart_transactions"), "changes", vec![count]);
    session.tell(taken.goal(Goal::max(0.0)))
}

/// From the start of a program, after it was killed, to its first answer that it is ready.
async fn start(session: &Session, stage: &Stage, part: Part) -> anyhow::Result<()> {
    if !session.wants(&part.measure("start")) {
        return Ok(());
    }
    let (process, probe) = (stage.process(part)?, stage.probe(part)?);
    let mut samples = Vec::with_capacity(STARTS);
    for _ in 0..STARTS.min(session.changes()) {
        process.kill().await?;
        let begun = Instant::now();
        process.restart().await?;
        probe.ready(process).await?;
        samples.push(begun.elapsed());
    }
    let taken = Taken::times(part.measure("start"), &samples);
    let incumbent = if part == Part::ClusterManager { "210 to 340" } else { "1000" };
    session.tell(taken.goal(Goal::median(100.0)).incumbent(incumbent))
}
