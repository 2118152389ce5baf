//! Exit codes. They are a contract with scripts: docs/causewayctl.md lists them.

use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// What was looked at is as it should be.
    Good,
    /// The command worked, and what it looked at has a problem.
    Problem,
    /// The command line cannot be understood. (clap ends with the same code by itself.)
    Usage,
    /// There is no object of that name.
    NotFound,
    /// The API server cannot be reached or refuses.
    Cluster,
    /// An agent that was asked for does not answer.
    Agent,
    /// The result cannot be written.
    Output,
    /// The Northbound database cannot be read.
    Database,
}

impl Exit {
    /// Every code, with what it means.
    pub const ALL: &'static [(Self, &'static str)] = &[
        (Self::Good, "what was looked at is as it should be"),
        (Self::Problem, "the command worked, and what it looked at has a problem"),
        (Self::Usage, "the command line cannot be understood"),
        (Self::NotFound, "there is no object of that name"),
        (Self::Cluster, "the API server cannot be reached, or refuses"),
        (Self::Agent, "an agent that was asked for by `--socket` does not answer"),
        (Self::Output, "the result cannot be written"),
        (Self::Database, "the Northbound database cannot be reached, or the server there has another one"),
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Problem => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Cluster => 4,
            Self::Agent => 5,
            Self::Output => 6,
            Self::Database => 7,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
