//! Pods come and go at random while agent and kubelet are killed at random.
//!
//! `CAUSEWAY_CHURN_SECONDS` (60) is how long, in rounds of `CAUSEWAY_CHURN_ROUND` seconds (100) at most; `CAUSEWAY_SEED` repeats
//! the first round of a run that printed it.

use std::process::ExitCode;
use std::sync::Arc;

use causeway_rig::{Level, Rig, RigOptions, SharedRig};
use causeway_tests::churn::isolation::churn;
use causeway_tests::rounds::{self, Usual};

/// Rounds with a world of their own each, on one rig.
const USUAL: Usual = Usual { seconds: 60, longest: 100 };

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    rounds::run(USUAL.suite(|suite, this| {
        let body = move |rig: Arc<Rig>| async move {
            let name = format!("churn-{}", this.number);
            this.happens(churn(rig, &name, this.seed, this.time)).await
        };
        suite.test_in(
            &rig,
            Level::Switch,
            &this.name("sets_follow_a_thousand_pods_and_nothing_gets_through"),
            body,
        )
    }))
}
