//! One network after the other, among few.

use std::time::Duration;

use anyhow::Context;
use causeway_rig::RigOptions;

use super::super::audit::Audit;
use super::super::measure::{Goal, Taken};
use super::super::session::Session;
use super::field::{Field, figure, make_namespaces, names, told};

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
    let mut field = Field::open(Audit::new(RigOptions::bare())?, NODES).await?;
    let few = names("few", FEW);
    make_namespaces(&field.client, &few).await?;
    field.grow(&few, FEW).await?;
    let budget = Duration::from_millis(3);
    one_after_the_other(session, &mut field, "few", budget, ["p50 27, p99 44", "p50 49, p99 82", "25"])
        .await?;
    Ok(())
}

fn named(measure: &str, among: &str) -> String {
    format!("{measure}_{among}")
}

/// Makes one network after the other, as each is everywhere, among those that are there. Their names.
pub(super) async fn one_after_the_other(
    session: &Session,
    field: &mut Field,
    among: &str,
    budget: Duration,
    [created_there, subnets_there, cpu_there]: [&'static str; 3],
) -> anyhow::Result<Vec<String>> {
    let rounds = session.changes().div_ceil(5);
    let singles = names("one", rounds);
    make_namespaces(&field.client, &singles).await?;
    field.quiet().await?;
    let (mark, before) = (field.crowd.audit.mark()?, field.spent()?);
    let (mut created, mut subnets) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for name in &singles {
        let (until_created, until_subnets) = field.one(name).await?;
        created.push(until_created);
        subnets.push(until_subnets);
    }
    field.quiet().await?;
    let spent = field.spent()?.saturating_sub(before);
    let writes = field.writes(mark)?;
    let taken = Taken::times(named(CREATED, among), &created).incumbent(created_there);
    session.tell(taken.goal(Goal::median(15.0)).goal(Goal::p99(40.0)))?;
    let taken = Taken::times(named(SUBNETS, among), &subnets).incumbent(subnets_there);
    session.tell(taken.goal(Goal::median(25.0)))?;
    let each = spent / u32::try_from(rounds).context("a number of rounds")?;
    let taken = Taken::times(named(CPU, among), &[each]).incumbent(cpu_there);
    session.tell(taken.goal(Goal::max(budget.as_secs_f64() * 1000.0)))?;
    let each = figure(writes.len())? / figure(rounds)?;
    if each > 7.0 {
        println!("  writes for {rounds} networks: {}", told(&writes));
    }
    let taken = Taken::values(named(WRITES, among), "writes", vec![each]).incumbent("11");
    session.tell(taken.goal(Goal::max(7.0)))?;
    Ok(singles)
}
