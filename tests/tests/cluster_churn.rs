//! Random trouble on real parts: whatever happened, the cluster ends up where a fresh run would begin.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long things happen, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (60) at most, each
//! with last changes and a verdict of its own.
//! `CAUSEWAY_SEED` repeats the first round of a run that printed it.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_rig::Level;
use causeway_tests::churn::{Churn, verdict};
use causeway_tests::rounds::{self, Round, Usual};
use tokio::sync::Mutex;

/// Rounds of one cluster.
const USUAL: Usual = Usual { seconds: 60, longest: 60 };

/// One cluster for all rounds; a round that fails takes it along.
type Shared = Arc<Mutex<Option<Churn>>>;

async fn round(shared: Shared, round: Round) -> anyhow::Result<()> {
    let mut slot = shared.lock().await;
    let churn = match slot.take() {
        Some(churn) => churn,
        None => Box::pin(Churn::start()).await.context("starting the cluster")?,
    };
    let trouble = async {
        churn.shake(round.seed, round.time).await?;
        verdict::check(&churn.world, &churn.journal).await?;
        churn.journal.is_mostly_done()
    };
    if let Err(error) = round.happens(trouble).await {
        let more = format!("\n{}\n{}", churn.journal.text(), churn.world.rig.log_tails());
        return Err(round.failed(&error, &more));
    }
    println!("{}", churn.journal.summary());
    *slot = Some(churn);
    Ok(())
}

fn main() -> ExitCode {
    let shared = Shared::default();
    rounds::run(USUAL.suite(|suite, this| {
        let shared = shared.clone();
        let name = this.name("trouble_ends_where_a_fresh_run_begins");
        suite.test(Level::Cluster, &name, move || round(shared, this))
    }))
}
