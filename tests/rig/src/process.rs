//! A program under test: started inside namespaces, killed, paused, restarted.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::sync::{oneshot, watch};

use crate::inside::Inside;
use crate::lines::Mark;
use crate::node::PROGRAMS;
use crate::wait::{tail, wait_for};

/// How long a killed process may take to be gone.
const REAP_DEADLINE: Duration = Duration::from_secs(10);

/// What to start: program, arguments, environment and the cgroup to start it in.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cgroup: Option<String>,
}

impl Program {
    /// A program by path, or by name if it lies on the search path inside. Its last path element names its log file
    /// and its cgroup.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_owned();
        let name = Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
        Self { name, argv: vec![program], env: Vec::new(), cgroup: None }
    }

    /// A program that cargo built, by its file name, where nodes show it.
    #[must_use]
    pub fn built(name: &str) -> Self {
        Self::new(Path::new(PROGRAMS).join(name))
    }

    /// Another name for log file and cgroup, where one program runs twice.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Started by another program, whose arguments these are: it becomes this one. Name and cgroup stay.
    #[must_use]
    pub fn through<A: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.argv = words.chain(self.argv).collect();
        self
    }

    /// One environment variable. Programs start with a small fixed environment, never with the test's own.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The cgroup inside the node, as `kubelet.slice/kubelet.service`. Without it: `system.slice/<name>.service`.
    #[must_use]
    pub fn in_cgroup(mut self, cgroup: impl Into<String>) -> Self {
        self.cgroup = Some(cgroup.into());
        self
    }
}

/// One run of a program, from start to exit.
#[derive(Debug)]
struct Run {
    pid: u32,
    /// True from the moment the process id may belong to somebody else. Signals are sent under this lock.
    reaped: Arc<Mutex<bool>>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

impl Run {
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let reaped = lock(&self.reaped);
        if *reaped {
            bail!("it has exited");
        }
        // The group: what the program started goes the same way.
        killpg(group(self.pid), signal).with_context(|| format!("sending {signal}"))
    }
}

/// A started program. Dropping it kills the program and all in its process group.
#[derive(Debug)]
pub struct Process {
    inside: Inside,
    program: Program,
    log: PathBuf,
    run: Mutex<Arc<Run>>,
}

impl Process {
    pub(crate) async fn start(inside: Inside, program: Program) -> anyhow::Result<Self> {
        let log = inside.log_file(&program.name);
        let run = start(&inside, &program, &log).await?;
        Ok(Self { inside, program, log, run: Mutex::new(Arc::new(run)) })
    }

    /// The name of its log and cgroup.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Process id as the test process sees it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.current().pid
    }

    /// File with all it printed, over all its runs.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// All it printed so far.
    ///
    /// # Errors
    /// If the log file cannot be read.
    pub fn log_text(&self) -> anyhow::Result<String> {
        Mark::START.read(&self.log)
    }

    /// The end of the last whole line that it printed so far.
    ///
    /// # Errors
    /// If the log file cannot be read.
    pub fn mark(&self) -> anyhow::Result<Mark> {
        Mark::of(&self.log)
    }

    /// Waits until the log, from this place on, holds a text.
    ///
    /// # Errors
    /// After `deadline`, with what the log holds instead.
    pub async fn says(&self, from: Mark, text: &str, deadline: Duration) -> anyhow::Result<()> {
        let look = || async move {
            let new = from.read(&self.log).map_err(|error| format!("{error:#}"))?;
            if new.contains(text) { Ok(()) } else { Err(new) }
        };
        wait_for(&format!("the log to say {text:?}"), deadline, look).await
    }

    /// Whether the present run has not exited.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.current().exit.borrow().is_none()
    }

    /// Sends a signal to the program's process group.
    ///
    /// # Errors
    /// If it has exited.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        self.current()
            .signal(signal)
            .with_context(|| format!("{} in {}", self.program.name, self.inside.name()))
    }

    /// SIGSTOP, and waits until it has stopped: the program keeps its sockets and does nothing.
    ///
    /// # Errors
    /// If it has exited.
    pub async fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let status = format!("/proc/{}/status", self.pid());
        let stopped = || async {
            let text = std::fs::read_to_string(&status).map_err(|error| error.to_string())?;
            if text.contains("State:\tT") { Ok(()) } else { Err("it has not stopped") }.map_err(str::to_owned)
        };
        wait_for(&format!("{} to stop", self.program.name), REAP_DEADLINE, stopped).await
    }

    /// SIGCONT after [`Self::pause`].
    ///
    /// # Errors
    /// If it has exited.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// SIGKILL, as a crash, and waits until the process is gone. A program that is gone already is fine.
    ///
    /// # Errors
    /// If it does not go.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let run = self.current();
        match run.signal(Signal::SIGKILL) {
            Ok(()) => {}
            Err(_) if *lock(&run.reaped) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.exit_of(run, REAP_DEADLINE).await.map(drop)
    }

    /// SIGTERM, as an orderly stop, and waits for the exit status.
    ///
    /// # Errors
    /// If it has exited before, or does not exit within `deadline`.
    pub async fn stop(&self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait_exit(deadline).await
    }

    /// Starts the same program again, after killing the present run if it is still there.
    ///
    /// # Errors
    /// If the old run does not go or the new one cannot be started.
    pub async fn restart(&self) -> anyhow::Result<()> {
        self.kill().await?;
        let run = start(&self.inside, &self.program, &self.log).await?;
        *lock(&self.run) = Arc::new(run);
        Ok(())
    }

    /// Waits for the program to exit by itself.
    ///
    /// # Errors
    /// If it is still running after `deadline`; the end of its log is in the text.
    pub async fn wait_exit(&self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.exit_of(self.current(), deadline).await
    }

    async fn exit_of(&self, run: Arc<Run>, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let mut exit = run.exit.clone();
        let status = match tokio::time::timeout(deadline, exit.wait_for(Option::is_some)).await {
            Ok(Ok(status)) => *status,
            Ok(Err(_)) => None,
            Err(_) => {
                let tail = tail(&self.log);
                bail!("{} is still running after {deadline:?}; its log ends with:\n{tail}", self.program.name)
            }
        };
        status.ok_or_else(|| anyhow!("the watcher of {} is gone", self.program.name))
    }

    fn current(&self) -> Arc<Run> {
        Arc::clone(&lock(&self.run))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it is gone already.
        self.current().signal(Signal::SIGKILL).ok();
    }
}

/// Starts the program on a thread that enters the namespaces first and stays to reap the process: a pid namespace
/// ends only when all its processes are reaped, also those whose parent is out here, so this must not depend on an
/// async runtime that may be gone by then.
async fn start(inside: &Inside, program: &Program, log: &Path) -> anyhow::Result<Run> {
    let output = OpenOptions::new().create(true).append(true).open(log);
    let output = output.with_context(|| format!("opening {}", log.display()))?;
    let errors = output.try_clone().context("sharing the log file")?;
    let mut command = inside.command(program)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let (started, start) = oneshot::channel();
    let (exited, exit) = watch::channel(None);
    let reaped = Arc::new(Mutex::new(false));
    let (namespaces, reaped_there) = (inside.namespaces(), Arc::clone(&reaped));
    std::thread::Builder::new()
        .name(format!("run {}", program.name))
        .spawn(move || match namespaces.enter().and_then(|()| spawn(command)) {
            Err(error) => drop(started.send(Err(error))),
            Ok(mut child) => {
                started.send(Ok(child.id())).ok();
                let status = reap(&mut child, &reaped_there);
                exited.send_replace(Some(status));
            }
        })
        .context("starting a thread")?;
    let what = || format!("starting {} in {}", program.name, inside.name());
    let pid = start.await.context("the starting thread is gone").and_then(|pid| pid).with_context(what)?;
    Ok(Run { pid, reaped, exit })
}

fn spawn(mut command: Command) -> anyhow::Result<Child> {
    // A group of its own: Ctrl-C in a terminal reaches the test, not the parts of the rig.
    command.process_group(0);
    let child = command.spawn();
    child.with_context(|| format!("running {}", command.get_program().to_string_lossy()))
}

fn reap(child: &mut Child, reaped: &Mutex<bool>) -> ExitStatus {
    let pid = Pid::from_raw(child.id().cast_signed());
    // Waits without taking the process id away, so that nobody signals a stranger.
    let waited = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    let mut reaped = lock(reaped);
    *reaped = true;
    match (waited, child.wait()) {
        (_, Ok(status)) => status,
        // Nobody else reaps our children; a status is needed all the same.
        (_, Err(_)) => ExitStatus::from_raw(Signal::SIGKILL as i32),
    }
}

fn group(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
