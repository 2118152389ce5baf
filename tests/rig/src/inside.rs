//! Running programs inside a set of namespaces.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::oneshot;

use crate::logs::Logs;
use crate::ns::Namespaces;
use crate::process::{Process, Program};

/// How long a command that is waited for may take.
const EXEC_DEADLINE: Duration = Duration::from_mins(1);

/// Moves itself into the cgroup `$0`, then becomes the program: what the program starts is born in that cgroup.
const INTO_CGROUP: &str = r#"mkdir -p "$0" && echo 0 > "$0/cgroup.procs" && exec "$@""#;

/// A set of namespaces with the environment that programs get in there. Clones mean the same place.
#[derive(Debug, Clone)]
pub(crate) struct Inside(Arc<Place>);

#[derive(Debug)]
pub(crate) struct Place {
    /// For messages.
    pub(crate) name: String,
    pub(crate) namespaces: Arc<Namespaces>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Folder of the log files, outside.
    pub(crate) log_dir: PathBuf,
    pub(crate) logs: Arc<Logs>,
    /// Folder, seen from inside, below which the programs' cgroups are made.
    pub(crate) cgroups: PathBuf,
}

impl Inside {
    pub(crate) fn new(place: Place) -> Self {
        Self(Arc::new(place))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn namespaces(&self) -> Arc<Namespaces> {
        Arc::clone(&self.0.namespaces)
    }

    /// The log file of a program, known to [`Logs`] from now on.
    pub(crate) fn log_file(&self, program: &str) -> PathBuf {
        let path = self.0.log_dir.join(format!("{program}.log"));
        self.0.logs.add(format!("{}: {program}", self.0.name), path.clone());
        path
    }

    /// The command of a program that runs in its cgroup.
    pub(crate) fn command(&self, program: &Program) -> anyhow::Result<Command> {
        let Some(first) = program.argv.first() else { bail!("a program without a name") };
        let cgroup = match &program.cgroup {
            Some(cgroup) => self.0.cgroups.join(cgroup),
            None => self.0.cgroups.join(format!("system.slice/{}.service", program.name)),
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", INTO_CGROUP]).arg(cgroup).arg(first).args(program.argv.iter().skip(1));
        self.prepare(&mut command);
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn prepare(&self, command: &mut Command) {
        command.env_clear().current_dir("/");
        command.envs(self.0.env.iter().map(|(name, value)| (name, value)));
    }

    pub(crate) async fn spawn(&self, program: Program) -> anyhow::Result<Process> {
        Process::start(self.clone(), program).await
    }

    /// Runs a command to its end and returns what it printed.
    pub(crate) async fn exec<A: AsRef<OsStr>>(
        &self,
        argv: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        self.exec_with_input(argv, Vec::new()).await
    }

    /// Like [`Self::exec`] with something to read on standard input.
    pub(crate) async fn exec_with_input<A: AsRef<OsStr>>(
        &self,
        argv: impl IntoIterator<Item = A>,
        input: Vec<u8>,
    ) -> anyhow::Result<String> {
        let argv: Vec<OsString> = argv.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let text = argv.join(OsStr::new(" ")).to_string_lossy().into_owned();
        let output = self.output(argv, input).await?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!(
                "\"{text}\" in {} ended with {}: {}{printed}",
                self.0.name,
                output.status,
                errors.trim_end()
            );
        }
        Ok(printed)
    }

    /// Runs a command to its end, whatever its exit status.
    ///
    /// # Cancellation
    /// The command is killed when the future is dropped.
    pub(crate) async fn output(&self, argv: Vec<OsString>, input: Vec<u8>) -> anyhow::Result<Output> {
        let text = argv.join(OsStr::new(" ")).to_string_lossy().into_owned();
        let Some((program, arguments)) = argv.split_first() else { bail!("an empty command") };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.prepare(&mut command);
        let namespaces = self.namespaces();
        let (started, start) = oneshot::channel();
        let (finished, finish) = oneshot::channel();
        std::thread::Builder::new()
            .name("exec".to_owned())
            .spawn(move || {
                let result = namespaces.enter().and_then(|()| {
                    let mut child = command.spawn().context("starting it")?;
                    started.send(child.id()).ok();
                    if let Some(mut stdin) = child.stdin.take() {
                        // A command that does not read its input closes the pipe; its exit status tells the rest.
                        stdin.write_all(&input).ok();
                    }
                    child.wait_with_output().context("waiting for it")
                });
                finished.send(result).ok();
            })
            .context("starting a thread")?;
        // The thread is gone before it started anything: `finish` has the reason.
        let mut guard = KillOnDrop(start.await.ok());
        let result = tokio::time::timeout(EXEC_DEADLINE, finish).await;
        if result.is_ok() {
            guard.0 = None;
        }
        let what = || format!("\"{text}\" in {}", self.0.name);
        match result {
            Ok(Ok(output)) => output.with_context(what),
            Ok(Err(_)) => bail!("the thread of {} is gone", what()),
            Err(_) => bail!("{} did not end within {EXEC_DEADLINE:?}", what()),
        }
    }
}

/// Ends a command that nobody waits for any more. Its thread reaps it.
struct KillOnDrop(Option<u32>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // An error means that it ended just now.
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).ok();
        }
    }
}
