//! Random trouble for tenant networks on a real API server: whatever happened, everybody has what is theirs, nobody has what
//! another one has, nothing is left of what went, and a restart writes nothing.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (30) at most, each
//! on a control plane of its own and with a verdict of its own.
//! `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_rig::{Level, Suite};
use causeway_tests::chaos::Chaos;

/// How long things happen if nobody says anything else.
const SECONDS: u64 = 60;
/// The longest round: what went wrong in it has to be found among what happened in it.
const ROUND: u64 = 30;
/// Before the harness gives a test up without telling what happened.
const DEADLINE: Duration = Duration::from_secs(170);

#[expect(clippy::disallowed_methods, reason = "a test's settings come from the environment")]
fn number(name: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).with_context(|| format!("{name}={text:?} is no number")),
        Err(_) => Ok(None),
    }
}

async fn round(seed: u64, time: Duration) -> anyhow::Result<()> {
    println!("CAUSEWAY_SEED={seed}");
    let mut chaos = Chaos::start().await.context("starting the control plane")?;
    let outcome = async {
        chaos.shake(seed, time).await?;
        chaos.settles().await
    };
    let outcome = tokio::time::timeout(DEADLINE, outcome).await;
    let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("still at it after {DEADLINE:?}")));
    println!("{}", chaos.summary());
    outcome.map_err(|error| {
        let logs = chaos.rig().log_tails();
        anyhow!("CAUSEWAY_SEED={seed} CAUSEWAY_CHURN_SECONDS={}\n{error:#}\n{logs}", time.as_secs())
    })
}

fn suite() -> anyhow::Result<Suite> {
    let seconds = number("CAUSEWAY_CHURN_SECONDS")?.unwrap_or(SECONDS);
    let seed = number("CAUSEWAY_SEED")?.unwrap_or_else(|| fastrand::u64(..));
    let longest = number("CAUSEWAY_CHURN_ROUND")?.unwrap_or(ROUND).max(1);
    let rounds = seconds.div_ceil(longest).max(1);
    let time = Duration::from_secs(seconds / rounds);
    Ok((0..rounds).fold(Suite::new(), |suite, number| {
        let name = format!("networks_are_whole_after_any_trouble_{}", number + 1);
        suite.test(Level::Api, &name, move || round(seed.wrapping_add(number), time))
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
