//! One run of the bench: which measures are wanted, and what became of them.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use causeway_rig::{Rig, RigOptions};

use super::measure::{Conditions, HEADING, Measure, Taken};

/// Which measures are wanted: those whose name begins with one of these words; without a word, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Only(Vec<String>);

impl FromStr for Only {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        Ok(Self(words.map(str::to_owned).collect()))
    }
}

impl Only {
    /// Whether a measure is wanted.
    #[must_use]
    pub fn wants(&self, measure: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|word| measure.starts_with(word.as_str()))
    }
}

/// One run.
pub struct Session {
    only: Only,
    out: PathBuf,
    changes: usize,
    conditions: Conditions,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    measures: Vec<Measure>,
    failures: Vec<String>,
}

impl Session {
    /// Begins a run: asks the parts for their versions and prints a heading. `changes` is how often what is repeated is
    /// repeated.
    ///
    /// # Errors
    /// A part does not answer.
    pub async fn begin(only: Only, out: PathBuf, changes: usize) -> anyhow::Result<Self> {
        let conditions = conditions().await?;
        let cores = std::thread::available_parallelism().context("the number of cores")?;
        println!(
            "{}; {} build; {cores} cores, load {:.2} over the last minute",
            conditions.versions, conditions.profile, conditions.load
        );
        println!("{HEADING}");
        Ok(Self { only, out, changes, conditions, done: Mutex::default() })
    }

    /// Whether a measure is wanted.
    #[must_use]
    pub fn wants(&self, measure: &str) -> bool {
        self.only.wants(measure)
    }

    /// Whether one of these measures is wanted.
    #[must_use]
    pub fn wants_any<'m>(&self, measures: impl IntoIterator<Item = &'m str>) -> bool {
        measures.into_iter().any(|measure| self.wants(measure))
    }

    /// How often what is repeated is repeated.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Judges, prints and writes what was taken, unless it is not wanted: some things are measured together.
    ///
    /// # Errors
    /// It cannot be judged or written.
    pub fn tell(&self, taken: Taken) -> anyhow::Result<()> {
        if !self.wants(&taken.measure) {
            return Ok(());
        }
        let measure = Measure::of(taken, Conditions { load: load()?, ..self.conditions.clone() })?;
        println!("{measure}");
        measure.write(&self.out)?;
        self.done().measures.push(measure);
        Ok(())
    }

    /// Notes how a group of measures ended. One that could not be taken is a failure of the run, and does not keep the
    /// others from being taken.
    pub fn note(&self, group: &str, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            println!("  FAILED   {group}: {error:#}");
            self.done().failures.push(format!("{group}: {error:#}"));
        }
    }

    /// Writes all results into one file and says whether everything could be measured and every goal holds.
    ///
    /// # Errors
    /// No measure has such a name, or the file cannot be written.
    pub fn finish(self) -> anyhow::Result<bool> {
        let Done { measures, failures } = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            !measures.is_empty() || !failures.is_empty(),
            "no measure is called like this: {:?}",
            self.only.0
        );
        let path = self.out.join("summary.json");
        std::fs::create_dir_all(&self.out).with_context(|| format!("making {}", self.out.display()))?;
        let all = serde_json::json!({"measures": measures, "failures": failures});
        std::fs::write(&path, format!("{all:#}\n")).with_context(|| format!("writing {}", path.display()))?;
        let missed = measures.iter().filter(|measure| !measure.holds).count();
        println!(
            "{} measures, {missed} with a missed goal, {} groups failed; written to {}",
            measures.len(),
            failures.len(),
            self.out.display()
        );
        Ok(missed == 0 && failures.is_empty())
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of the parts, taken from a rig, and the load of the machine before it.
async fn conditions() -> anyhow::Result<Conditions> {
    let load = load()?;
    let rig = Rig::start(RigOptions::bare()).await?;
    let server = rig.client().apiserver_version().await?.git_version;
    let node = rig.node("versions").unregistered().start().await?;
    let ovs = node.exec(["ovs-vsctl", "--version"]).await?;
    let ovs = ovs.lines().next().unwrap_or_default();
    let programs = std::env::current_exe().context("the folder of the programs")?;
    let profile =
        programs.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    Ok(Conditions {
        versions: format!("kube-apiserver {server}, {ovs}"),
        level: "cluster".to_owned(),
        load,
        profile: profile.to_owned(),
    })
}

/// Load of the machine over the last minute.
fn load() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").context("reading the load")?;
    let first = text.split(' ').next().unwrap_or_default();
    let load = first.parse().with_context(|| format!("the load {first:?}"))?;
    ensure!(f64::is_finite(load), "the load {load}");
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_chosen_by_the_beginning_of_names() {
        let wants = |only: &str, measure: &str| only.parse::<Only>().unwrap().wants(measure);
        assert!(wants("", "react_host_mac"));
        assert!(wants("react_", "react_host_mac"));
        assert!(!wants("react_", "idle_cpu_host_agent"));
        assert!(!wants("mac", "react_host_mac"), "not any part of the name");
        assert!(wants("idle_, react_host", "react_host_mac"));
        assert!(wants("idle_,react_host", "idle_cpu_host_agent"));
        assert!(!wants("idle_,react_card", "react_host_mac"));
    }
}
