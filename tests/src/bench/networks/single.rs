//! One network after the other, among few, each beside the same one made by a plain client.
//!
//! Most of the time is the API server's: three writes that wait for each other, and as many watches. The plain client says
//! how much of it, on this machine and in this hour.

use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Mark, RigOptions};

use super::super::audit::Audit;
use super::super::measure::{Goal, Taken};
use super::super::session::Session;
use super::beside::Beside;
use super::field::{Field, Round, figure, make_namespaces, names, told};

/// From the creation of a network to `NetworkCreated=True`.
const CREATED: &str = "networks_created";
/// From the creation of a network to its subnets on all Nodes.
const SUBNETS: &str = "networks_subnets";
/// CPU time of the cluster manager for each network.
const CPU: &str = "networks_cpu";
/// Writes for each network with one namespace and three Nodes.
const WRITES: &str = "networks_writes";
/// Nodes of the cluster.
pub(super) const NODES: usize = 3;
/// Networks that are there before the first is measured.
const FEW: usize = 10;

/// Takes every measure of this kind that is wanted.
pub(super) async fn run(session: &Session) -> anyhow::Result<()> {
    if !session
        .wants_any([CREATED, SUBNETS, CPU, WRITES].map(|name| named(name, "few")).iter().map(String::as_str))
    {
        return Ok(());
    }
    let mut field = Field::open(Audit::with_writes(RigOptions::bare())?, NODES).await?;
    let few = names("few", FEW);
    make_namespaces(&field.client, &few).await?;
    field.grow(&few, FEW).await?;
    field.quiet().await?;
    let few = Among {
        name: "few",
        present: &few,
        budget: Duration::from_millis(3),
        incumbent: ["p50 27, p99 44", "p50 49, p99 82", "25"],
    };
    one_after_the_other(session, &mut field, few).await.map(drop)
}

/// Which networks are there already, and what is expected among them.
pub(super) struct Among<'a> {
    /// What the measures are called after.
    pub(super) name: &'static str,
    /// Their names.
    pub(super) present: &'a [String],
    /// CPU time for each new network.
    pub(super) budget: Duration,
    /// What the incumbent takes: until it is created, until its subnets are there, CPU time.
    pub(super) incumbent: [&'static str; 3],
}

fn named(measure: &str, among: &str) -> String {
    format!("{measure}_{among}")
}

/// Makes one network after the other, as each is everywhere, among those that are there, and beside each the same one with a
/// plain client. Their names.
pub(super) async fn one_after_the_other(
    session: &Session,
    field: &mut Field,
    Among { name: among, present, budget, incumbent: [created_there, subnets_there, cpu_there] }: Among<'_>,
) -> anyhow::Result<Vec<String>> {
    let rounds = session.changes().div_ceil(5);
    let singles = names("one", rounds);
    make_namespaces(&field.client, &singles).await?;
    field.quiet().await?;
    let so_far = field.crowd.audit.writes_since(Mark::START)?;
    let mut plain = Beside::open(NODES, present, so_far).await?;
    plain.make_namespaces(&singles).await?;
    let (mark, before, before_plain) = (field.crowd.audit.mark()?, field.spent()?, plain.spent()?);
    let (mut ours, mut theirs) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    let mut repeated = 0;
    for name in &singles {
        let begun = field.crowd.audit.mark()?;
        ours.push(field.one(name).await?);
        let writes = field.written_for(name, begun).await?;
        repeated += writes.len();
        theirs.push(plain.one(name, writes).await?);
    }
    field.quiet().await?;
    let spent = field.spent()?.saturating_sub(before);
    let spent_plain = plain.spent()?.saturating_sub(before_plain);
    let carried_out = field.crowd.audit.writes_since(mark)?.len();
    ensure!(repeated == carried_out, "the plain client repeated {repeated} of {carried_out} writes");
    let writes = field.writes(mark)?;
    let created = |rounds: &[Round]| rounds.iter().map(|(created, _)| *created).collect::<Vec<_>>();
    let subnets = |rounds: &[Round]| rounds.iter().map(|(_, subnets)| *subnets).collect::<Vec<_>>();
    let taken = Taken::times(named(CREATED, among), &created(&ours)).beside(&created(&theirs));
    let taken = taken.goal(Goal::median(15.0)).goal(Goal::p99(40.0)).goal(Goal::ratio(1.3));
    session.tell(taken.incumbent(created_there))?;
    let taken = Taken::times(named(SUBNETS, among), &subnets(&ours)).beside(&subnets(&theirs));
    session.tell(taken.incumbent(subnets_there).goal(Goal::median(25.0)).goal(Goal::ratio(1.3)))?;
    let count = u32::try_from(rounds).context("a number of rounds")?;
    let taken = Taken::times(named(CPU, among), &[spent / count]).beside(&[spent_plain / count]);
    let taken = taken.incumbent(cpu_there);
    session.tell(taken.goal(Goal::max(budget.as_secs_f64() * 1000.0)))?;
    let each = figure(writes.len())? / figure(rounds)?;
    if each > 7.0 {
        println!("  writes for {rounds} networks: {}", told(&writes));
    }
    let taken = Taken::values(named(WRITES, among), "writes", vec![each]).incumbent("11");
    session.tell(taken.goal(Goal::max(7.0)))?;
    Ok(singles)
}
