//! Pods come and go at random while agent and kubelet are killed at random.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long; `CAUSEWAY_SEED` repeats a run that printed it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite};
use causeway_tests::churn::isolation::churn;

/// How long things happen if nobody says anything else.
const SECONDS: u64 = 60;
/// Before the harness gives a test up.
const LONGEST: u64 = 100;

#[expect(clippy::disallowed_methods, reason = "a test's settings come from the environment")]
fn number(name: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).with_context(|| format!("{name}={text:?} is no number")),
        Err(_) => Ok(None),
    }
}

fn suite() -> anyhow::Result<Suite> {
    let seconds = number("CAUSEWAY_CHURN_SECONDS")?.unwrap_or(SECONDS).max(1);
    let seed = number("CAUSEWAY_SEED")?.unwrap_or_else(|| fastrand::u64(..));
    let rounds = seconds.div_ceil(LONGEST);
    let time = Duration::from_secs(seconds.div_ceil(rounds));
    let rig = SharedRig::new(RigOptions::bare());
    Ok((0..rounds).fold(Suite::new(), |suite, round| {
        let name = format!("sets_follow_a_thousand_pods_and_nothing_gets_through_{}", round + 1);
        let seed = seed.wrapping_add(round);
        let body = move |rig: Arc<Rig>| async move {
            println!("CAUSEWAY_SEED={seed}");
            churn(rig, &format!("churn-{}", round + 1), seed, time).await
        };
        suite.test_in(&rig, Level::Switch, &name, body)
    }))
}

fn main() -> ExitCode {
    match suite() {
        Ok(suite) => suite.run(),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
