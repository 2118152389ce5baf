//! Rounds of random trouble: how many, how long, and how to repeat one that went wrong.
//!
//! In: `CAUSEWAY_CHURN_SECONDS`, how long things happen; `CAUSEWAY_CHURN_ROUND`, the longest round; `CAUSEWAY_SEED`, which
//! repeats the first round of a run that printed it. Out: a [`Round`] for each test. Never decides what happens in it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use causeway_rig::Suite;

/// Before the harness gives a test up without telling what happened.
const DEADLINE: Duration = Duration::from_secs(170);

/// What holds if nobody says anything else.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// How long things happen, in seconds.
    pub seconds: u64,
    /// The longest round in seconds: what went wrong in it has to be found among what happened in it.
    pub longest: u64,
}

/// One round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Its number, from 1.
    pub number: u64,
    /// What its chance comes from.
    pub seed: u64,
    /// How long things happen in it.
    pub time: Duration,
}

impl Usual {
    /// A suite with a test for each round, which `test` adds.
    ///
    /// # Errors
    /// The environment holds something else than numbers.
    pub fn suite(self, test: impl FnMut(Suite, Round) -> Suite) -> anyhow::Result<Suite> {
        let seconds = number("CAUSEWAY_CHURN_SECONDS")?.unwrap_or(self.seconds);
        let longest = number("CAUSEWAY_CHURN_ROUND")?.unwrap_or(self.longest);
        let seed = number("CAUSEWAY_SEED")?.unwrap_or_else(|| fastrand::u64(..));
        Ok(rounds(seconds, longest, seed).fold(Suite::new(), test))
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's settings come from the environment")]
fn number(name: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).with_context(|| format!("{name}={text:?} is no number")),
        Err(_) => Ok(None),
    }
}

/// Rounds of the same length, none longer than `longest` seconds.
fn rounds(seconds: u64, longest: u64, seed: u64) -> impl Iterator<Item = Round> {
    let count = seconds.div_ceil(longest.max(1)).max(1);
    let time = Duration::from_secs(seconds.div_ceil(count));
    (0..count).map(move |number| Round { number: number + 1, seed: seed.wrapping_add(number), time })
}

impl Round {
    /// The name of its test.
    #[must_use]
    pub fn name(&self, what: &str) -> String {
        format!("{what}_{}", self.number)
    }

    /// Prints how to repeat it, and lets it happen, as long as the harness waits.
    ///
    /// # Errors
    /// Those of what happens; it is not done in time.
    pub async fn happens<T>(&self, what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        println!("CAUSEWAY_SEED={}", self.seed);
        let outcome = tokio::time::timeout(DEADLINE, what).await;
        outcome.unwrap_or_else(|_| Err(anyhow!("still at it after {DEADLINE:?}")))
    }

    /// What went wrong, with how to repeat it and what else there is to read.
    #[must_use]
    pub fn failed(&self, error: &anyhow::Error, more: &str) -> anyhow::Error {
        let (seed, seconds) = (self.seed, self.time.as_secs());
        anyhow!("CAUSEWAY_SEED={seed} CAUSEWAY_CHURN_SECONDS={seconds}\n{error:#}\n{more}")
    }
}

/// Runs a suite, or says why there is none.
#[must_use]
pub fn run(suite: anyhow::Result<Suite>) -> ExitCode {
    match suite {
        Ok(suite) => suite.run(),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_as_long_as_they_may_be_and_each_has_a_seed_of_its_own() {
        let rows: [(u64, u64, &[u64]); 6] = [
            (60, 30, &[30, 30]),
            (60, 60, &[60]),
            (61, 30, &[21, 21, 21]),
            (10, 30, &[10]),
            (0, 30, &[0]),
            (2, 0, &[1, 1]),
        ];
        for (seconds, longest, want) in rows {
            let found: Vec<Round> = rounds(seconds, longest, u64::MAX).collect();
            let times: Vec<u64> = found.iter().map(|round| round.time.as_secs()).collect();
            assert_eq!(times, want, "{seconds} s in rounds of {longest} s");
            for (number, round) in (0..).zip(found) {
                assert_eq!((round.number, round.seed), (number + 1, u64::MAX.wrapping_add(number)));
            }
        }
    }

    #[test]
    fn the_first_round_of_a_run_with_what_a_failure_says_is_the_one_that_failed() {
        let failed = rounds(61, 30, 7).nth(1).unwrap();
        let told = failed.failed(&anyhow!("cause").context("what"), "logs").to_string();
        assert_eq!(told, "CAUSEWAY_SEED=8 CAUSEWAY_CHURN_SECONDS=21\nwhat: cause\nlogs");
        let again = rounds(21, 30, 8).next().unwrap();
        assert_eq!(again, Round { number: 1, ..failed });
    }
}
