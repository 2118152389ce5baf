//! Random trouble for the topology: whatever was killed while networks and nodes came and went, the Northbound database is
//! what the planners say, rows that nobody touched are the same ones, and a restart writes nothing.
//!
//! `CAUSEWAY_CHURN_SECONDS` (40) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (20) at most, each
//! in a zone of its own. `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_rig::{Level, Suite};
use causeway_tests::topology::churn::Churn;

/// How long things happen if nobody says anything else.
const SECONDS: u64 = 40;
/// The longest round: what went wrong in it has to be found among what happened in it.
const ROUND: u64 = 20;

#[expect(clippy::disallowed_methods, reason = "a test's settings come from the environment")]
fn number(name: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).with_context(|| format!("{name}={text:?} is no number")),
        Err(_) => Ok(None),
    }
}

async fn round(seed: u64, time: Duration) -> anyhow::Result<()> {
    println!("CAUSEWAY_SEED={seed}");
    let mut churn = Churn::start().await.context("starting the zone")?;
    let outcome = async {
        churn.shake(seed, time).await?;
        churn.settles().await
    };
    let outcome = outcome.await;
    println!("{}", churn.summary());
    outcome.map_err(|error| {
        let logs = churn.world.rig.log_tails();
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
        let name = format!("the_topology_is_whole_after_any_trouble_{}", number + 1);
        suite.test(Level::Switch, &name, move || round(seed.wrapping_add(number), time))
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
