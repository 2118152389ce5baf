//! The form of a result, and how it is judged.

use std::fmt;
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
    /// The bound: in the measure's unit, a ratio in none.
    pub below: f64,
}

impl Goal {
    /// The middle sample does not exceed this.
    #[must_use]
    pub fn median(below: f64) -> Self {
        Self { stat: Stat::Median, below }
    }

    /// Of a hundred samples, 99 do not exceed this.
    #[must_use]
    pub fn p99(below: f64) -> Self {
        Self { stat: Stat::P99, below }
    }

    /// No sample exceeds this.
    #[must_use]
    pub fn max(below: f64) -> Self {
        Self { stat: Stat::Max, below }
    }

    /// The middle sample does not exceed the baseline's middle one more than so many times.
    #[must_use]
    pub fn ratio(below: f64) -> Self {
        Self { stat: Stat::Ratio, below }
    }
}

/// Where and on what it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// Versions of the parts.
    pub versions: String,
    /// Level of the rig.
    pub level: String,
    /// Load of the machine over the last minute, when the measure ended.
    pub load: f64,
    /// Build of the programs.
    pub profile: String,
}

/// What was measured, before it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Name.
    pub measure: String,
    /// Unit of all figures.
    pub unit: &'static str,
    /// What was measured.
    pub samples: Vec<f64>,
    /// The same work done by a plain client, in turn with it; empty where nothing can do it.
    pub beside: Vec<f64>,
    /// What must hold.
    pub goals: Vec<Goal>,
    /// What the incumbent takes for it, in words; empty where nobody measured that.
    pub incumbent: &'static str,
}

impl Taken {
    /// Values of any unit.
    #[must_use]
    pub fn values(measure: impl Into<String>, unit: &'static str, samples: Vec<f64>) -> Self {
        let (beside, goals, incumbent) = (Vec::new(), Vec::new(), "");
        Self { measure: measure.into(), unit, samples, beside, goals, incumbent }
    }

    /// Times.
    #[must_use]
    pub fn times(measure: impl Into<String>, samples: &[Duration]) -> Self {
        Self::values(measure, "ms", milliseconds(samples))
    }

    /// Times of the plain client.
    #[must_use]
    pub fn beside(self, samples: &[Duration]) -> Self {
        Self { beside: milliseconds(samples), ..self }
    }

    /// One more thing that must hold.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goals.push(goal);
        self
    }

    /// The incumbent's figure. Source: the project's measurements of ovn-kubernetes 8871cd9c on a machine of this kind.
    #[must_use]
    pub fn incumbent(self, incumbent: &'static str) -> Self {
        Self { incumbent, ..self }
    }
}

fn milliseconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|time| time.as_secs_f64() * 1000.0).collect()
}

/// A goal and whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Which figure.
    pub stat: Stat,
    /// What it must not exceed.
    pub goal: f64,
    /// Whether it does not.
    pub holds: bool,
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
    /// Which figure the first goal is about.
    pub stat: Stat,
    /// What that figure must not exceed.
    pub goal: f64,
    /// Every goal.
    pub goals: Vec<Judged>,
    /// Whether all of them hold.
    pub holds: bool,
    /// Median of the baseline, measured in turn with it.
    pub baseline: Option<f64>,
    /// The 99th of a hundred of the baseline: what a busy machine does to anybody's slowest.
    pub baseline_p99: Option<f64>,
    /// Median by the baseline's.
    pub ratio: Option<f64>,
    /// What the incumbent takes.
    pub incumbent: &'static str,
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
        ensure!(samples.iter().all(|sample| sample.is_finite()), "a sample that is no number");
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Nearest rank: the smallest sample that at least this share of all is not above.
        let rank = |percent: usize| {
            let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(place).copied().context("a rank beyond the samples")
        };
        Ok(Self { min: rank(0)?, median: rank(50)?, p99: rank(99)?, max: rank(100)? })
    }
}

impl Measure {
    /// Judges what was taken.
    ///
    /// # Errors
    /// There are no samples or no goal, or a ratio is asked for without a baseline.
    pub fn of(taken: Taken, conditions: Conditions) -> anyhow::Result<Self> {
        let Taken { measure, unit, samples, beside, goals, incumbent } = taken;
        let what = || format!("measure {measure}");
        let figures = Figures::of(&samples).with_context(what)?;
        let baseline = if beside.is_empty() {
            None
        } else {
            Some(Figures::of(&beside).with_context(|| format!("baseline of {measure}"))?)
        };
        let (baseline, baseline_p99) =
            (baseline.as_ref().map(|found| found.median), baseline.as_ref().map(|found| found.p99));
        let ratio = baseline.filter(|baseline| *baseline > 0.0).map(|baseline| figures.median / baseline);
        let judge = |goal: &Goal| {
            let value = match goal.stat {
                Stat::Median => figures.median,
                Stat::P99 => figures.p99,
                Stat::Max => figures.max,
                Stat::Ratio => ratio.context("a ratio without a baseline")?,
            };
            anyhow::Ok(Judged { stat: goal.stat, goal: goal.below, holds: value <= goal.below })
        };
        let goals: Vec<Judged> = goals.iter().map(judge).collect::<Result<_, _>>().with_context(what)?;
        let first = *goals.first().context("a measure without a goal").with_context(what)?;
        Ok(Self {
            n: samples.len(),
            min: figures.min,
            median: figures.median,
            p99: figures.p99,
            max: figures.max,
            stat: first.stat,
            goal: first.goal,
            holds: goals.iter().all(|goal| goal.holds),
            goals,
            baseline,
            baseline_p99,
            ratio,
            incumbent,
            conditions,
            measure,
            unit,
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
}

/// The heading of the lines of [`Measure`].
pub const HEADING: &str = "  goals    measure                                 n   median      p99      max unit      \
                           must not exceed         beside    (p99)  ratio  incumbent";

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<String> = self.goals.iter().map(ToString::to_string).collect();
        let number = |value: Option<f64>, digits| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        write!(
            f,
            "  {:7}  {:37} {:>4} {:8.1} {:8.1} {:8.1} {:8}  {:22} {:>7} {:>8} {:>6}  {}",
            if self.holds { "hold" } else { "MISSED" },
            self.measure,
            self.n,
            self.median,
            self.p99,
            self.max,
            self.unit,
            goals.join(", "),
            number(self.baseline, 1),
            number(self.baseline_p99, 1),
            number(self.ratio, 2),
            if self.incumbent.is_empty() { "-" } else { self.incumbent },
        )
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stat = match self.stat {
            Stat::Median => "median",
            Stat::P99 => "p99",
            Stat::Max => "max",
            Stat::Ratio => "ratio",
        };
        write!(f, "{stat} {}", self.goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions() -> Conditions {
        Conditions { versions: "v".into(), level: "cluster".into(), load: 0.0, profile: "debug".into() }
    }

    fn taken(samples: &[u64]) -> Taken {
        let samples: Vec<_> = samples.iter().map(|ms| Duration::from_millis(*ms)).collect();
        Taken::times("react_x", &samples)
    }

    fn measure(samples: &[u64], goal: Goal) -> Measure {
        let taken = taken(samples).beside(&[Duration::from_millis(10)]).goal(goal);
        Measure::of(taken, conditions()).unwrap()
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "whole milliseconds are exact")]
    fn figures_are_nearest_ranks() {
        let all: Vec<u64> = (1..=200).rev().collect();
        let found = measure(&all, Goal::median(101.0));
        assert_eq!((found.min, found.median, found.p99, found.max), (1.0, 100.0, 198.0, 200.0));
        assert!(found.holds);
        assert_eq!((found.baseline, found.baseline_p99, found.ratio), (Some(10.0), Some(10.0), Some(10.0)));
        let one = measure(&[7], Goal::median(7.0));
        assert_eq!((one.min, one.median, one.p99, one.max), (7.0, 7.0, 7.0, 7.0));
        assert!(one.holds, "a bound may be reached");
    }

    #[test]
    fn a_goal_is_judged_by_its_own_figure_and_all_have_to_hold() {
        let rows = [
            (vec![Goal::max(50.0)], false),
            (vec![Goal::median(50.0)], true),
            (vec![Goal::median(50.0), Goal::p99(499.0)], false),
            (vec![Goal::median(50.0), Goal::p99(500.0)], true),
            (vec![Goal::ratio(0.1)], true),
            (vec![Goal::ratio(0.09)], false),
        ];
        for (goals, holds) in rows {
            let taken = Taken { goals: goals.clone(), ..taken(&[1, 1, 500]) };
            let found = Measure::of(taken.beside(&[Duration::from_millis(10)]), conditions()).unwrap();
            assert_eq!(found.holds, holds, "{goals:?}");
            assert_eq!((found.stat, found.goals.len()), (goals[0].stat, goals.len()));
        }
    }

    #[test]
    fn what_cannot_be_judged_is_an_error() {
        let refused = |taken: Taken| Measure::of(taken, conditions()).unwrap_err().to_string();
        assert!(refused(taken(&[]).goal(Goal::max(1.0))).contains("react_x"));
        assert!(refused(taken(&[1])).contains("react_x"), "without a goal");
        assert!(refused(taken(&[1]).goal(Goal::ratio(1.3))).contains("react_x"), "without a baseline");
        let odd = Taken::values("odd", "MB", vec![f64::NAN]).goal(Goal::max(1.0));
        assert!(refused(odd).contains("odd"));
    }

    #[test]
    fn a_result_has_the_agreed_keys() {
        let value = serde_json::to_value(measure(&[1], Goal::p99(50.0))).unwrap();
        for key in [
            "measure",
            "unit",
            "n",
            "min",
            "median",
            "p99",
            "max",
            "stat",
            "goal",
            "goals",
            "holds",
            "baseline",
            "ratio",
            "incumbent",
            "conditions",
        ] {
            assert!(value.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(value["goals"], serde_json::json!([{"stat": "p99", "goal": 50.0, "holds": true}]));
        for key in ["versions", "level", "load", "profile"] {
            assert!(value["conditions"].get(key).is_some(), "{key} is missing");
        }
    }

    #[test]
    fn a_line_shows_the_goal_and_the_incumbent_beside_the_figures() {
        let taken = taken(&[1, 500]).goal(Goal::median(50.0)).goal(Goal::p99(150.0)).incumbent("up to 30 s");
        let line = Measure::of(taken, conditions()).unwrap().to_string();
        for word in ["MISSED", "react_x", "median 50, p99 150", "500.0 ms", "up to 30 s"] {
            assert!(line.contains(word), "{word} is not in {line}");
        }
    }
}
