//! Random trouble on real parts: whatever happened, the cluster ends up where a fresh run would begin.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (60) at most, each
//! with last changes and a verdict of its own.
//! `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_rig::{Level, Suite};
use causeway_tests::churn::{Churn, verdict};
use tokio::sync::Mutex;

/// How long things happen if nobody says anything else.
const SECONDS: u64 = 60;
/// The longest round: what went wrong in it has to be found among what happened in it.
const ROUND: u64 = 60;
/// Before the harness gives a test up without telling what happened.
const DEADLINE: Duration = Duration::from_secs(170);

/// One cluster for all rounds; a round that fails takes it along.
type Shared = Arc<Mutex<Option<Churn>>>;

#[expect(clippy::disallowed_methods, reason = "a test's settings come from the environment")]
fn number(name: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).with_context(|| format!("{name}={text:?} is no number")),
        Err(_) => Ok(None),
    }
}

async fn round(shared: Shared, seed: u64, time: Duration) -> anyhow::Result<()> {
    println!("CAUSEWAY_SEED={seed}");
    let mut slot = shared.lock().await;
    let churn = match slot.take() {
        Some(churn) => churn,
        None => Box::pin(Churn::start()).await.context("starting the cluster")?,
    };
    let outcome = async {
        churn.shake(seed, time).await?;
        verdict::check(&churn.world, &churn.journal).await?;
        churn.journal.is_mostly_done()
    };
    let outcome = tokio::time::timeout(DEADLINE, outcome).await;
    let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("still at it after {DEADLINE:?}")));
    if let Err(error) = outcome {
        let (journal, logs) = (churn.journal.text(), churn.world.rig.log_tails());
        return Err(anyhow!(
            "CAUSEWAY_SEED={seed} CAUSEWAY_CHURN_SECONDS={}\n{error:#}\n\n{journal}\n{logs}",
            time.as_secs()
        ));
    }
    println!("{}", churn.journal.summary());
    *slot = Some(churn);
    Ok(())
}

fn suite() -> anyhow::Result<Suite> {
    let seconds = number("CAUSEWAY_CHURN_SECONDS")?.unwrap_or(SECONDS);
    let seed = number("CAUSEWAY_SEED")?.unwrap_or_else(|| fastrand::u64(..));
    let longest = number("CAUSEWAY_CHURN_ROUND")?.unwrap_or(ROUND).max(1);
    let rounds = seconds.div_ceil(longest).max(1);
    let time = Duration::from_secs(seconds / rounds);
    let shared = Shared::default();
    Ok((0..rounds).fold(Suite::new(), |suite, number| {
        let (name, shared) =
            (format!("trouble_ends_where_a_fresh_run_begins_{}", number + 1), shared.clone());
        suite.test(Level::Cluster, &name, move || round(shared, seed.wrapping_add(number), time))
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
