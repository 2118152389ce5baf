//! How a binary is put together: settings, logs, runtime, signals, tasks, health, exit code.
//!
//! A thin main is one call of [`run_main`] with a set-up function that builds stores and rooms and spawns them:
//!
//! ```no_run
//! use causeway_runtime::settings::{IdentityKind, Program};
//! use causeway_runtime::start::{Context, Failure, Flavor, run_main};
//!
//! const PROGRAM: Program = Program {
//!     name: "cluster-manager",
//!     about: "Controllers that need only the API server",
//!     identity: IdentityKind::ClusterManager,
//! };
//!
//! async fn set_up(context: &mut Context) -> Result<(), Failure> {
//!     let client = causeway_runtime::client::connect(&context.settings.kube).await?;
//!     let stop = context.tasks.stop();
//!     context.tasks.spawn("example", async move {
//!         let _client = client;
//!         stop.cancelled().await;
//!     });
//!     Ok(())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     run_main(&PROGRAM, Flavor::CurrentThread, set_up)
//! }
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::credentials::{self, Credentials, Teller};
use crate::health::{Readiness, Server};
use crate::settings::{IdentityKind, Input, Program, Settings, SettingsError};
use crate::shutdown::{self, Tasks, stop_on_signals};
use crate::telemetry::{self, chain};

/// Exit code of a process that cannot start or lost a task.
const FAILED: u8 = 1;

/// Exit code of a wrong command line, environment or file.
const USAGE: u8 = 2;

/// From the signal to the end of the process, less what it takes to tear the runtime down.
const STOP_DEADLINE: Duration = Duration::from_millis(1900);

/// How long blocking work may hold up the end after that.
const TEAR_DOWN: Duration = Duration::from_millis(50);

/// Anything that ends a process.
pub type Failure = Box<dyn Error + Send + Sync>;

/// How many threads run tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// One: the least memory, for agents.
    CurrentThread,
    /// One per core.
    MultiThread,
}

/// What a set-up function gets.
pub struct Context {
    /// The checked settings.
    pub settings: Settings,
    /// Supervised tasks, with the token that stops them.
    pub tasks: Tasks,
    /// Metrics; served from the end of the set-up on.
    pub registry: Registry,
    /// Metrics that OVN-Kubernetes has too, under its names; served with the others.
    pub upstream: Registry,
    /// Readiness checks; more may be added later through clones.
    pub readiness: Readiness,
}

/// Runs a whole process: reads settings, starts `set_up`, serves health, waits for a signal or a lost task and
/// stops within two seconds.
///
/// Returns 0 after a clean stop, 1 if something failed, 2 if the settings are wrong. What is wrong is one sentence
/// on stderr (settings) or one error line in the log.
pub fn run_main<S>(program: &Program, flavor: Flavor, set_up: S) -> ExitCode
where
    S: AsyncFnOnce(&mut Context) -> Result<(), Failure>,
{
    let settings = match Settings::load(program, &Input::of_process()) {
        Ok(settings) => settings,
        Err(SettingsError::Shown(text)) => {
            // Nobody is left to tell if stdout is closed.
            drop(io::stdout().write_all(text.as_bytes()));
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(program, &error),
    };
    if let Err(error) = telemetry::init(&settings.log) {
        return refuse(program, &error);
    }
    let name = program.name;
    info!(program = name, version = env!("CARGO_PKG_VERSION"), "Starting");
    settings.log_effective();
    let result = runtime(flavor).map_err(Failure::from).and_then(|runtime| {
        let result = runtime.block_on(run(program, settings, set_up));
        runtime.shutdown_timeout(TEAR_DOWN);
        result
    });
    match result {
        Ok(()) => {
            info!(program = name, "Stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            error!(program = name, error = %chain(error.as_ref()), "Failed");
            ExitCode::from(FAILED)
        }
    }
}

fn refuse(program: &Program, error: &(dyn Error + 'static)) -> ExitCode {
    // Nobody is left to tell if stderr is closed.
    drop(writeln!(io::stderr(), "{}: {}", program.name, chain(error)));
    ExitCode::from(USAGE)
}

fn runtime(flavor: Flavor) -> io::Result<Runtime> {
    match flavor {
        Flavor::CurrentThread => Builder::new_current_thread(),
        Flavor::MultiThread => Builder::new_multi_thread(),
    }
    .enable_all()
    .build()
}

async fn run<S>(program: &Program, settings: Settings, set_up: S) -> Result<(), Failure>
where
    S: AsyncFnOnce(&mut Context) -> Result<(), Failure>,
{
    let tasks = Tasks::new(CancellationToken::new());
    stop_on_signals(tasks.stop())?;
    let mut registry = telemetry::registry();
    let build = Info::new([("program", program.name), ("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The running program", build);
    shutdown::register(&mut registry);
    let upstream = telemetry::upstream_registry();
    let mut context = Context { settings, tasks, registry, upstream, readiness: Readiness::default() };
    let health = match context.settings.metrics_address {
        Some(address) => Some(Server::bind(address).await?),
        None => None,
    };
    follow_credentials(program, &mut context);
    let stop = context.tasks.stop();
    // A signal during a set-up that waits for something ends the wait.
    let outcome = stop.run_until_cancelled(set_up(&mut context)).await.unwrap_or(Ok(()));
    let Context { tasks, registry, upstream, readiness, .. } = context;
    if outcome.is_err() {
        stop.cancel();
    }
    if let Some(server) = health {
        tasks.spawn("health", server.run(vec![registry, upstream], readiness, stop));
    }
    let finished = tasks.finish(STOP_DEADLINE).await;
    outcome?;
    Ok(finished?)
}

/// Tells when what the process logs in with comes to its end.
fn follow_credentials(program: &Program, context: &mut Context) {
    let access = &context.settings.kube;
    let credentials = Credentials::of(access);
    credentials::register(&credentials, &mut context.registry);
    let teller = match program.identity {
        IdentityKind::Node(_) => Some(Teller {
            access: access.clone(),
            node: context.settings.identity.clone(),
            program: program.name,
            tasks: context.tasks.clone(),
        }),
        IdentityKind::ClusterManager => None,
    };
    context.tasks.spawn("credentials", credentials::watch(credentials, teller, context.tasks.stop()));
}
