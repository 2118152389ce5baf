//! Random trouble for the topology: whatever was killed while networks and nodes came and went, the Northbound database is
//! what the planners say, rows that nobody touched are the same ones, and a restart writes nothing.
//!
//! `CAUSEWAY_CHURN_SECONDS` (40) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (20) at most, each
//! in a zone of its own. `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;

use anyhow::Context;
use causeway_rig::Level;
use causeway_tests::rounds::{self, Round, Usual};
use causeway_tests::topology::churn::Churn;

/// Rounds of a zone of their own each.
const USUAL: Usual = Usual { seconds: 40, longest: 20 };

async fn round(round: Round) -> anyhow::Result<()> {
    let mut churn = Churn::start().await.context("starting the zone")?;
    let trouble = async {
        churn.shake(round.seed, round.time).await?;
        churn.settles().await
    };
    let outcome = round.happens(trouble).await;
    println!("{}", churn.summary());
    outcome.map_err(|error| round.failed(&error, &churn.world.rig.log_tails()))
}

fn main() -> ExitCode {
    rounds::run(USUAL.suite(|suite, this| {
        suite.test(Level::Switch, &this.name("the_topology_is_whole_after_any_trouble"), move || round(this))
    }))
}
