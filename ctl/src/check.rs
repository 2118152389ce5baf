//! `check`: whether an installation is as this version needs it, and what to do where it is not.
//!
//! In: the API server; on a node also the kernel, Open vSwitch and the agent ([`crate::local`]). Out: a [`Report`].
//! [`observe`] looks, [`plan`] judges, [`crd`] compares definitions.

pub mod crd;
pub mod observe;
pub mod plan;
mod render;

use serde::Serialize;

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Somebody has to do something.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Group of things: `api`, `definitions`, `permissions`, `agents`, `cards`, `local`.
    pub area: &'static str,
    /// The thing.
    pub subject: String,
    /// How it is to be taken.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do; empty if nothing.
    pub remedy: String,
}

/// Everything that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of this program.
    pub version: &'static str,
    /// How many findings are problems.
    pub problems: usize,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// A report of findings.
    #[must_use]
    pub fn of(findings: Vec<Finding>) -> Self {
        let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
        Self { version: env!("CARGO_PKG_VERSION"), problems, findings }
    }
}

impl Finding {
    pub(crate) fn good(area: &'static str, subject: impl Into<String>, found: impl Into<String>) -> Self {
        let (subject, found) = (subject.into(), found.into());
        Self { area, subject, level: Level::Good, found, remedy: String::new() }
    }

    pub(crate) fn note(area: &'static str, subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::good(area, subject, found) }
    }

    pub(crate) fn problem(
        area: &'static str,
        subject: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { level: Level::Problem, remedy: remedy.into(), ..Self::good(area, subject, found) }
    }
}
