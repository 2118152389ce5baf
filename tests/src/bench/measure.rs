//! The form of a result.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;

/// Which figure a goal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stat {
    /// The middle one.
    Median,
    /// The 99th of a hundred.
    P99,
    /// The largest.
    Max,
    /// The middle one by the baseline's.
    Ratio,
}

/// What must hold: a figure does not exceed a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Which figure.
    pub stat: Stat,
    /// The bound, in the measure's unit.
    pub below: f64,
}

/// Where and on what it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// Versions of the parts.
    pub versions: String,
    /// Level of the rig.
    pub level: String,
    /// Load of the machine over the last minute, when the measure began.
    pub load: f64,
    /// Build of the programs.
    pub profile: String,
}

/// A result, as it is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Name.
    pub measure: String,
    /// Unit of all figures.
    pub unit: &'static str,
    /// How many samples.
    pub n: usize,
    /// Smallest.
    pub min: f64,
    /// Middle.
    pub median: f64,
    /// The 99th of a hundred.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Which figure the goal is about.
    pub stat: Stat,
    /// What that figure must not exceed.
    pub goal: f64,
    /// Whether it does.
    pub holds: bool,
    /// Median of the baseline, measured in turn with it.
    pub baseline: f64,
    /// Median by the baseline's.
    pub ratio: f64,
    /// Where and on what.
    pub conditions: Conditions,
}

/// The figures of a set of samples.
struct Figures {
    min: f64,
    median: f64,
    p99: f64,
    max: f64,
}

impl Figures {
    fn of(samples: &[f64]) -> anyhow::Result<Self> {
        ensure!(!samples.is_empty(), "a measure without samples");
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Nearest rank: the smallest sample that at least this share of all is not above.
        let rank = |percent: usize| {
            let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(place).copied().context("a rank beyond the samples")
        };
        Ok(Self { min: rank(1)?.min(rank(0)?), median: rank(50)?, p99: rank(99)?, max: rank(100)? })
    }
}

impl Measure {
    /// The result of times taken in turn with a baseline's.
    ///
    /// # Errors
    /// There are no samples.
    pub fn of(
        measure: &str,
        samples: &[Duration],
        baseline: &[Duration],
        goal: Goal,
        conditions: Conditions,
    ) -> anyhow::Result<Self> {
        let milliseconds = |times: &[Duration]| -> Vec<f64> {
            times.iter().map(|time| time.as_secs_f64() * 1000.0).collect()
        };
        let baseline =
            Figures::of(&milliseconds(baseline)).with_context(|| format!("baseline of {measure}"))?;
        Self::of_values(measure, "ms", &milliseconds(samples), baseline.median, goal, conditions)
    }

    /// The result of values of another unit, beside a figure to compare with.
    ///
    /// # Errors
    /// There are no samples.
    pub fn of_values(
        measure: &str,
        unit: &'static str,
        samples: &[f64],
        baseline: f64,
        goal: Goal,
        conditions: Conditions,
    ) -> anyhow::Result<Self> {
        let figures = Figures::of(samples).with_context(|| format!("measure {measure}"))?;
        let ratio = figures.median / baseline;
        let judged = match goal.stat {
            Stat::Median => figures.median,
            Stat::P99 => figures.p99,
            Stat::Max => figures.max,
            Stat::Ratio => ratio,
        };
        Ok(Self {
            measure: measure.to_owned(),
            unit,
            n: samples.len(),
            min: figures.min,
            median: figures.median,
            p99: figures.p99,
            max: figures.max,
            stat: goal.stat,
            goal: goal.below,
            holds: judged <= goal.below,
            baseline,
            ratio,
            conditions,
        })
    }

    /// Writes `<folder>/<measure>.json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let path = folder.join(format!("{}.json", self.measure));
        let text = serde_json::to_string_pretty(self).context("rendering a measure")?;
        std::fs::write(&path, format!("{text}\n")).with_context(|| format!("writing {}", path.display()))
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{:24} n {:4}  median {:6.1}  p99 {:6.1}  max {:6.1} {}  goal {:?} ≤ {} {}  baseline {:5.1}  ratio {:4.2}",
            self.measure,
            self.n,
            self.median,
            self.p99,
            self.max,
            self.unit,
            self.stat,
            self.goal,
            if self.holds { "holds" } else { "FAILS" },
            self.baseline,
            self.ratio
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(samples: &[u64], goal: Goal) -> Measure {
        let samples: Vec<_> = samples.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let conditions =
            Conditions { versions: "v".into(), level: "cluster".into(), load: 0.0, profile: "debug".into() };
        Measure::of("react_x", &samples, &[Duration::from_millis(10)], goal, conditions).unwrap()
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "whole milliseconds are exact")]
    fn figures_are_nearest_ranks() {
        let all: Vec<u64> = (1..=200).rev().collect();
        let found = measure(&all, Goal { stat: Stat::Median, below: 101.0 });
        assert_eq!((found.min, found.median, found.p99, found.max), (1.0, 100.0, 198.0, 200.0));
        assert!(found.holds);
        assert_eq!(found.ratio, 10.0);
    }

    #[test]
    fn a_goal_is_judged_by_its_own_figure() {
        assert!(!measure(&[1, 1, 500], Goal { stat: Stat::Max, below: 50.0 }).holds);
        assert!(measure(&[1, 1, 500], Goal { stat: Stat::Median, below: 50.0 }).holds);
    }

    #[test]
    fn a_result_has_the_agreed_keys() {
        let value = serde_json::to_value(measure(&[1], Goal { stat: Stat::P99, below: 50.0 })).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let mut want = [
            "measure",
            "unit",
            "n",
            "min",
            "median",
            "p99",
            "max",
            "stat",
            "goal",
            "holds",
            "baseline",
            "ratio",
            "conditions",
        ];
        want.sort_unstable();
        assert_eq!(keys, want);
    }
}
