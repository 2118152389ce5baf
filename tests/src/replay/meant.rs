//! Differences that are meant so: the lines of `tests/differences.jsonl`. Each says why, and each has to be needed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, ensure};
use regex::Regex;
use serde::Deserialize;

use super::normal::Difference;

/// A line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    run: String,
    step: Option<u32>,
    /// The first step that it counts for, if not all do.
    #[serde(default)]
    from: u32,
    path: String,
    /// Whether it is there depends on the order in which things that come at once are done.
    #[serde(default)]
    chance: bool,
    /// The replay that it is for, where another one compares the same run by itself.
    replay: Option<String>,
    why: String,
}

#[derive(Clone, Debug)]
struct Matcher {
    /// The line as it stands there.
    line: String,
    step: Option<u32>,
    from: u32,
    path: Regex,
    chance: bool,
}

/// The lines for a run, and which of them were needed.
#[derive(Clone, Debug)]
pub struct Meant {
    lines: Vec<Matcher>,
    used: BTreeSet<usize>,
}

impl Meant {
    /// The lines for a run, as the test of this name replays it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(run: &str, replay: &str) -> anyhow::Result<Self> {
        Self::among(lines()?, run, replay)
    }

    fn among(all: Vec<(String, Allowed)>, run: &str, replay: &str) -> anyhow::Result<Self> {
        let mut lines = Vec::new();
        for (line, allowed) in all {
            let is_here = allowed.replay.as_deref().is_none_or(|only| only == replay);
            if is_here && Regex::new(&allowed.run)?.is_match(run) {
                let (step, from, chance) = (allowed.step, allowed.from, allowed.chance);
                lines.push(Matcher { line, step, from, path: Regex::new(&allowed.path)?, chance });
            }
        }
        Ok(Self { lines, used: BTreeSet::new() })
    }

    /// Takes over that this is all that differs in a step, where each difference has a line and each line of just this step
    /// names one.
    ///
    /// # Errors
    /// What differs without a line, and lines of just this step that name nothing: one text each.
    pub fn judge(&mut self, step: u32, found: &[Difference]) -> Result<(), Vec<String>> {
        let (meant, mut wrong) = self.sorted(step, found);
        let due = self.lines.iter().enumerate();
        let due = due.filter(|(_, line)| line.step == Some(step) && !line.chance);
        wrong.extend(due.filter(|(index, _)| !meant.contains(index)).map(|(_, line)| line.needless()));
        if wrong.is_empty() {
            self.used.extend(meant);
            return Ok(());
        }
        Err(wrong)
    }

    /// Takes over that one thing differs in a step, whatever else does.
    ///
    /// # Errors
    /// It has no line.
    pub fn judge_one(&mut self, step: u32, difference: &Difference) -> anyhow::Result<()> {
        let (meant, _) = self.sorted(step, std::slice::from_ref(difference));
        ensure!(!meant.is_empty(), "{difference}");
        self.used.extend(meant);
        Ok(())
    }

    /// Says what is wrong in the end, in the last step: what differs then without a line, and lines that were never needed.
    ///
    /// # Errors
    /// It says which.
    pub fn finish(&mut self, last: u32, found: &[Difference]) -> anyhow::Result<()> {
        let (meant, mut wrong) = self.sorted(last, found);
        self.used.extend(meant);
        let unused = self.lines.iter().enumerate();
        let unused = unused.filter(|(index, line)| !line.chance && !self.used.contains(index));
        wrong.extend(unused.map(|(_, line)| line.needless()));
        ensure!(wrong.is_empty(), "in the end:\n{}", wrong.join("\n"));
        Ok(())
    }

    /// The lines that say why something differs, and what differs without a line that says why.
    fn sorted(&self, step: u32, found: &[Difference]) -> (BTreeSet<usize>, Vec<String>) {
        let (mut meant, mut wrong) = (BTreeSet::new(), Vec::new());
        for difference in found {
            let lines = self.lines.iter().enumerate().filter(|(_, line)| line.names(step, difference));
            let lines: Vec<usize> = lines.map(|(index, _)| index).collect();
            if lines.is_empty() {
                wrong.push(difference.to_string());
            }
            meant.extend(lines);
        }
        (meant, wrong)
    }
}

impl Matcher {
    fn names(&self, step: u32, difference: &Difference) -> bool {
        self.step.is_none_or(|only| only == step) && self.from <= step && self.path.is_match(&difference.path)
    }

    fn needless(&self) -> String {
        format!("nothing differs that this names: {}", self.line)
    }
}

/// Each line, as it stands there and read.
fn lines() -> anyhow::Result<Vec<(String, Allowed)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("differences.jsonl");
    read(&std::fs::read_to_string(&path).context("reading differences.jsonl")?)
}

fn read(text: &str) -> anyhow::Result<Vec<(String, Allowed)>> {
    let read = |line: &str| {
        let allowed: Allowed = serde_json::from_str(line).with_context(|| format!("difference {line}"))?;
        ensure!(!allowed.why.is_empty(), "a difference without a reason: {line}");
        Ok((line.to_owned(), allowed))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::RUNS;
    use super::*;

    const LINES: &str = r#"
        {"run": "^a$", "step": 2, "path": "^x$", "why": "w"}
        {"run": "^a$", "step": null, "from": 3, "path": "^y", "why": "w"}
        {"run": "^a$", "step": null, "path": "^c", "chance": true, "why": "w"}
        {"run": "^a$", "step": null, "path": "^z$", "replay": "other", "why": "w"}
        {"run": "^b$", "step": 1, "path": "^w$", "why": "w"}
    "#;

    fn meant() -> Meant {
        Meant::among(read(LINES).unwrap(), "a", "here").unwrap()
    }

    fn found(paths: &[&str]) -> Vec<Difference> {
        paths.iter().map(|path| Difference::new(path, &json!(1), &json!(2))).collect()
    }

    #[test]
    fn a_difference_needs_a_line_of_its_run_its_step_and_its_replay() {
        let rows: [(u32, &[&str], bool); 9] = [
            (1, &[], true),
            (1, &["c1"], true),
            (1, &["x"], false),
            (2, &["x"], true),
            (2, &["x", "y"], false),
            (3, &["y", "y2"], true),
            (3, &["y", "z"], false),
            (3, &["w"], false),
            // The line of just this step names nothing.
            (2, &[], false),
        ];
        for (step, paths, fine) in rows {
            assert_eq!(meant().judge(step, &found(paths)).is_ok(), fine, "step {step}: {paths:?}");
        }
    }

    #[test]
    fn every_line_has_to_be_needed_but_those_of_chance() {
        let mut meant = meant();
        meant.judge(2, &found(&["x"])).unwrap();
        let told = meant.clone().finish(4, &[]).unwrap_err().to_string();
        assert!(told.contains(r#""path": "^y""#) && told.lines().count() == 2, "{told}");
        meant.clone().finish(4, &found(&["y"])).unwrap();
        meant.clone().finish(4, &found(&["y", "q"])).unwrap_err();
        meant.judge_one(5, &found(&["q"])[0]).unwrap_err();
        meant.judge_one(5, &found(&["y"])[0]).unwrap();
        meant.finish(5, &[]).unwrap();
    }

    #[test]
    fn a_line_says_why_and_has_no_field_that_nobody_knows() {
        read(r#"{"run": "a", "step": 1, "path": "b", "why": ""}"#).unwrap_err();
        read(r#"{"run": "a", "step": 1, "path": "b", "why": "w", "fom": 3}"#).unwrap_err();
    }

    #[test]
    fn each_difference_that_is_meant_so_is_of_a_run_that_is_replayed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(RUNS);
        let runs = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let runs: Vec<String> = runs.map(|name| name.into_string().unwrap()).collect();
        assert!(runs.len() > 5, "{runs:?}");
        for (line, allowed) in lines().unwrap() {
            let of_it = Regex::new(&allowed.run).unwrap();
            assert!(runs.iter().any(|run| of_it.is_match(run)), "of no run: {line}");
        }
    }
}
