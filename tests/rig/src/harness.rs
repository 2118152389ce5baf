//! A test harness for tests that need real parts: levels, requirements, async tests, a rig shared by the tests of one
//! binary, and counts per level.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::require::{Level, require};
use crate::rig::{Rig, RigOptions};
use crate::settings::Settings;

/// A test that takes longer is stuck.
const TEST_DEADLINE: Duration = Duration::from_mins(3);

type Body = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>> + Send>;

/// The tests of one binary (`harness = false`).
#[derive(Default)]
pub struct Suite {
    tests: Vec<(Level, String, Body)>,
    shared: Vec<SharedRig>,
}

impl Suite {
    /// A suite without tests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a test. Its name is a sentence of behaviour in `snake_case`.
    #[must_use]
    pub fn test<F>(mut self, level: Level, name: &str, body: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        self.tests.push((level, name.to_owned(), Box::new(move || Box::pin(body()))));
        self
    }

    /// Adds a test that gets the rig that it shares with other tests, and makes its own objects in it.
    #[must_use]
    pub fn test_in<F>(
        mut self,
        rig: &SharedRig,
        level: Level,
        name: &str,
        body: impl FnOnce(Arc<Rig>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        if !self.shared.iter().any(|known| Arc::ptr_eq(&known.0, &rig.0)) {
            self.shared.push(rig.clone());
        }
        let rig = rig.clone();
        self.test(level, name, move || async move { body(rig.get().await?).await })
    }

    /// Runs the tests that the command line asks for, as `cargo test` does. A test whose requirements are missing is
    /// ignored with the reason, or fails where `CAUSEWAY_REQUIRE` lists its level.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.run_checked() {
            Ok(code) => code,
            Err(error) => {
                eprintln!("the tests could not run: {error:#}");
                ExitCode::FAILURE
            }
        }
    }

    fn run_checked(self) -> anyhow::Result<ExitCode> {
        let arguments = Arguments::from_args();
        let settings = Settings::from_env()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
        let tally = Arc::new(Tally::default());
        let trials = self.tests.into_iter().map(|(level, name, body)| {
            let missing = require(level, &settings).err().map(|missing| missing.to_string());
            let (must, tally, handle) =
                (settings.required.contains(&level), tally.clone(), runtime.handle().clone());
            let body = move || run_one(&handle, missing, must, body);
            Trial::ignorable_test(name, move || tally.count(level, body)).with_kind(level.name())
        });
        let conclusion = libtest_mimic::run(&arguments, trials.collect());
        // Statics are never dropped and the closures are gone: this is the end of the shared rigs.
        for shared in self.shared {
            shared.end();
        }
        if !arguments.list {
            tally.report(settings.tally.as_deref())?;
        }
        Ok(conclusion.exit_code())
    }
}

fn run_one(handle: &Handle, missing: Option<String>, must: bool, body: Body) -> Result<Completion, Failed> {
    match missing {
        Some(missing) if must => Err(Failed::from(format!("required by CAUSEWAY_REQUIRE, but {missing}"))),
        Some(missing) => Ok(Completion::ignored_with(missing)),
        None => {
            let done = handle.block_on(async { tokio::time::timeout(TEST_DEADLINE, body()).await });
            match done {
                Ok(Ok(())) => Ok(Completion::Completed),
                Ok(Err(error)) => Err(Failed::from(format!("{error:#}"))),
                Err(_) => Err(Failed::from(format!("still running after {TEST_DEADLINE:?}"))),
            }
        }
    }
}

/// A rig that is started by the first test that wants it and ends with the suite.
#[derive(Clone)]
pub struct SharedRig(Arc<SharedState>);

struct SharedState {
    options: RigOptions,
    /// Behind a lock that [`SharedRig::end`] takes to let go.
    rig: RwLock<Option<Arc<OnceCell<Arc<Rig>>>>>,
}

impl SharedRig {
    /// Not started yet.
    #[must_use]
    pub fn new(options: RigOptions) -> Self {
        Self(Arc::new(SharedState { options, rig: RwLock::new(Some(Arc::default())) }))
    }

    /// The running rig.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn get(&self) -> anyhow::Result<Arc<Rig>> {
        let cell = self.0.rig.read().unwrap_or_else(PoisonError::into_inner).clone();
        let cell = cell.context("the shared rig has ended")?;
        let start = || async { Rig::start(self.0.options.clone()).await.map(Arc::new) };
        cell.get_or_try_init(start).await.cloned()
    }

    fn end(&self) {
        *self.0.rig.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Outcomes per level.
#[derive(Default)]
struct Tally([Counts; Level::ALL.len()]);

#[derive(Default)]
struct Counts {
    passed: AtomicU32,
    failed: AtomicU32,
    ignored: AtomicU32,
}

impl Tally {
    fn count(
        &self,
        level: Level,
        body: impl FnOnce() -> Result<Completion, Failed>,
    ) -> Result<Completion, Failed> {
        let Some(counts) = self.0.get(level as usize) else { return body() };
        // Counted first and taken back, so that a panic is a failure too.
        counts.failed.fetch_add(1, Ordering::Relaxed);
        let outcome = body();
        let counter = match &outcome {
            Ok(Completion::Completed) => &counts.passed,
            Ok(Completion::Ignored { .. }) => &counts.ignored,
            Err(_) => return outcome,
        };
        counts.failed.fetch_sub(1, Ordering::Relaxed);
        counter.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    /// One line per level that had tests, to stdout and to the tally file: `level=api passed=3 failed=0 ignored=0`.
    fn report(&self, file: Option<&std::path::Path>) -> anyhow::Result<()> {
        let mut text = String::new();
        for (level, counts) in Level::ALL.into_iter().zip(&self.0) {
            let [passed, failed, ignored] = [&counts.passed, &counts.failed, &counts.ignored]
                .map(|counter| counter.load(Ordering::Relaxed));
            if passed + failed + ignored > 0 {
                writeln!(text, "level={level} passed={passed} failed={failed} ignored={ignored}").ok();
            }
        }
        print!("{text}");
        let Some(path) = file else { return Ok(()) };
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing the counts to {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(missing: Option<&str>, must: bool, body: Body) -> Result<Completion, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        run_one(runtime.handle(), missing.map(str::to_owned), must, body)
    }

    fn body(result: anyhow::Result<()>) -> Body {
        Box::new(move || Box::pin(std::future::ready(result)))
    }

    #[test]
    fn a_missing_requirement_is_ignored_with_its_reason() {
        let Ok(Completion::Ignored { reason }) = outcome(Some("no etcd"), false, body(Ok(()))) else {
            panic!("it ran")
        };
        assert_eq!(reason.as_deref(), Some("no etcd"));
    }

    #[test]
    fn a_missing_requirement_fails_where_the_level_is_required() {
        let failed = outcome(Some("no etcd"), true, body(Ok(()))).err().unwrap();
        assert!(failed.message().unwrap().contains("no etcd"));
    }

    #[test]
    fn an_error_carries_its_causes() {
        let error = anyhow::anyhow!("no route").context("pinging");
        let failed = outcome(None, true, body(Err(error))).err().unwrap();
        assert_eq!(failed.message(), Some("pinging: no route"));
    }

    #[test]
    fn passes_failures_and_panics_are_counted_by_level() {
        let tally = Tally::default();
        assert!(tally.count(Level::Api, || Ok(Completion::Completed)).is_ok());
        assert!(tally.count(Level::Api, || Err(Failed::without_message())).is_err());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tally.count(Level::Switch, || panic!("a test that panics"))
        }));
        assert!(panicked.is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        tally.report(Some(file.path())).unwrap();
        let lines = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            lines,
            "level=api passed=1 failed=1 ignored=0\nlevel=switch passed=0 failed=1 ignored=0\n"
        );
    }
}
