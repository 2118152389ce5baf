//! Random trouble for tenant networks on a real API server: whatever happened, everybody has what is theirs, nobody has what
//! another one has, nothing is left of what went, and a restart writes nothing.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (30) at most, each
//! on a control plane of its own and with a verdict of its own.
//! `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;

use anyhow::Context;
use causeway_rig::Level;
use causeway_tests::chaos::Chaos;
use causeway_tests::rounds::{self, Round, Usual};

/// Rounds of a control plane of their own each.
const USUAL: Usual = Usual { seconds: 60, longest: 30 };

async fn round(round: Round) -> anyhow::Result<()> {
    let mut chaos = Chaos::start().await.context("starting the control plane")?;
    let trouble = async {
        chaos.shake(round.seed, round.time).await?;
        chaos.settles().await
    };
    let outcome = round.happens(trouble).await;
    println!("{}", chaos.summary());
    outcome.map_err(|error| round.failed(&error, &chaos.rig().log_tails()))
}

fn main() -> ExitCode {
    rounds::run(USUAL.suite(|suite, this| {
        suite.test(Level::Api, &this.name("networks_are_whole_after_any_trouble"), move || round(this))
    }))
}
