//! Whole processes: exit codes, signals and messages of a program built on `run_main`.
//!
//! The test program starts itself again as the program under test when [`SCENE`] is set.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use causeway_runtime::settings::{IdentityKind, NodeMode, Program};
use causeway_runtime::start::{Context, Failure, Flavor, run_main};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What the child does after its set-up.
const SCENE: &str = "TEST_SCENE";

/// How long a child may take to start or stop, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

const PROGRAM: Program =
    Program { name: "test-agent", about: "Program under test", identity: IdentityKind::Node(NodeMode::Full) };

type Test = fn() -> Result<()>;

async fn set_up(context: &mut Context) -> Result<(), Failure> {
    let stop = context.tasks.stop();
    match std::env::var_os(SCENE).as_deref().and_then(OsStr::to_str) {
        Some("steady") => context.tasks.spawn("steady", stop.cancelled_owned()),
        Some("stubborn") => context.tasks.spawn("stubborn", std::future::pending()),
        Some("lost") => context.tasks.spawn("short", async {}),
        Some("waiting") => {
            writeln!(std::io::stdout(), "up")?;
            std::future::pending::<()>().await;
        }
        Some("connect") => drop(causeway_runtime::client::connect(&context.settings.kube).await?),
        scene => return Err(format!("unknown scene {scene:?}").into()),
    }
    context.readiness.add("never", || Err("this is a test".to_owned()));
    // The parent waits for this line.
    writeln!(std::io::stdout(), "up")?;
    Ok(())
}

fn main() -> ExitCode {
    if std::env::var_os(SCENE).is_some() {
        return run_main(&PROGRAM, Flavor::CurrentThread, set_up);
    }
    let trials: [(&str, Test); 8] = [
        ("sigterm_ends_a_steady_process_with_0", sigterm_ends_a_steady_process_with_0),
        ("sigint_during_set_up_ends_with_0", sigint_during_set_up_ends_with_0),
        ("a_task_that_hangs_does_not_outlast_two_seconds", a_task_that_hangs_does_not_outlast_two_seconds),
        ("a_lost_task_ends_the_process_with_1", a_lost_task_ends_the_process_with_1),
        ("wrong_settings_end_with_2_and_one_sentence_each", wrong_settings_end_with_2_and_one_sentence_each),
        ("an_unreadable_kubeconfig_ends_with_1", an_unreadable_kubeconfig_ends_with_1),
        ("health_is_served_and_a_taken_port_ends_with_1", health_is_served_and_a_taken_port_ends_with_1),
        ("effective_settings_are_logged_without_secrets", effective_settings_are_logged_without_secrets),
    ];
    let trials = trials.into_iter().map(|(name, test)| {
        Trial::test(name, move || test().map_err(|error| Failed::from(format!("{error:#}"))))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// A running child, killed when the test is over.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself; either way nothing is left.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn command(scene: &str, args: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args).env_clear().env(SCENE, scene);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Runs a child that ends by itself.
fn run(scene: &str, args: &[&str]) -> Result<Output> {
    Running(Some(command(scene, args)?.spawn()?)).output()
}

/// Starts a child and waits until its set-up is done.
fn start(scene: &str, args: &[&str]) -> Result<Running> {
    let mut child = command(scene, args)?.spawn()?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let running = Running(Some(child));
    let (sender, up) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = [0; 3];
        sender.send(stdout.read_exact(&mut line).map(|()| line))
    });
    ensure!(up.recv_timeout(PATIENCE).context("no set-up in time")?.context("ended in set-up")? == *b"up\n");
    Ok(running)
}

impl Running {
    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.0.as_ref().context("it runs")?.id();
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }

    fn output(mut self) -> Result<Output> {
        let child = self.0.take().context("it runs")?;
        let id = Pid::from_raw(child.id().try_into()?);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        match ended.recv_timeout(PATIENCE) {
            Ok(output) => Ok(output?),
            Err(error) => {
                kill(id, Signal::SIGKILL)?;
                Err(error).context("the process did not end")
            }
        }
    }

    /// Sends `signal`; the output until the end.
    fn stop(self, signal: Signal) -> Result<Output> {
        self.signal(signal)?;
        self.output()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn expect(output: &Output, code: i32, texts: &[&str]) -> Result<()> {
    let stderr = stderr(output);
    ensure!(output.status.code() == Some(code), "{}: {stderr}", output.status);
    for text in texts {
        ensure!(stderr.contains(text), "no {text:?} in: {stderr}");
    }
    Ok(())
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

fn sigterm_ends_a_steady_process_with_0() -> Result<()> {
    let output = start("steady", &["--init-node", "n"])?.stop(Signal::SIGTERM)?;
    expect(&output, 0, &["Stopping", "SIGTERM", "Stopped"])
}

fn sigint_during_set_up_ends_with_0() -> Result<()> {
    let output = start("waiting", &["--init-node", "n"])?.stop(Signal::SIGINT)?;
    expect(&output, 0, &["Stopping", "SIGINT"])
}

fn a_task_that_hangs_does_not_outlast_two_seconds() -> Result<()> {
    let output = start("stubborn", &["--init-node", "n"])?.stop(Signal::SIGTERM)?;
    expect(&output, 1, &["still running 1.9s after being told to stop: stubborn"])
}

fn a_lost_task_ends_the_process_with_1() -> Result<()> {
    expect(&run("lost", &["--init-node", "n"])?, 1, &["task short ended unexpectedly"])
}

fn wrong_settings_end_with_2_and_one_sentence_each() -> Result<()> {
    for (args, want) in [
        (&["--mtu", "x", "--init-node", "n"][..], "test-agent: --mtu must be a whole number, not \"x\"\n"),
        (&["--wrong"], "test-agent: unexpected argument '--wrong' found\n"),
        (
            &["--init-node", "n", "--log-filter", "a=loud"],
            "test-agent: --log-filter must be LEVEL or MODULE=LEVEL, comma separated, not \"a=loud\"",
        ),
        (
            &["--init-node", "n", "--config-file", "/nowhere/x"],
            "test-agent: cannot read the settings file /nowhere/x: No such file or directory (os error 2)\n",
        ),
    ] {
        let output = run("steady", args)?;
        expect(&output, 2, &[want])?;
        ensure!(stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
    let help = run("steady", &["--help"])?;
    ensure!(String::from_utf8_lossy(&help.stdout).contains("--enable-uplink"));
    expect(&help, 0, &[])
}

fn an_unreadable_kubeconfig_ends_with_1() -> Result<()> {
    let output = run("connect", &["--init-node", "n", "--k8s-kubeconfig", "/nowhere/kubeconfig"])?;
    expect(&output, 1, &["cannot use the kubeconfig /nowhere/kubeconfig", "No such file or directory"])
}

fn health_is_served_and_a_taken_port_ends_with_1() -> Result<()> {
    let address = free_address()?.to_string();
    let args = ["--init-node", "n", "--metrics-bind-address", &address];
    let running = start("steady", &args)?;
    let ask = |path: &str| -> Result<String> {
        let mut stream = TcpStream::connect(&address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ensure!(ask("/healthz")?.starts_with("HTTP/1.1 200 "));
    let ready = ask("/readyz")?;
    ensure!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("never: this is a test\n"), "{ready}");
    let metrics = ask("/metrics")?;
    ensure!(metrics.contains("causeway_build_info{program=\"test-agent\",version="), "{metrics}");
    expect(&run("steady", &args)?, 1, &["cannot serve metrics and health on", "Address already in use"])?;
    expect(&running.stop(Signal::SIGTERM)?, 0, &[])
}

fn effective_settings_are_logged_without_secrets() -> Result<()> {
    let args =
        ["--init-node", "n", "--k8s-apiserver", "https://127.0.0.1:1", "--k8s-token", "geheim", "--mtu=1300"];
    let output = start("steady", &args)?.stop(Signal::SIGTERM)?;
    expect(&output, 0, &["Effective settings", "mtu=1300 (flag)", "k8s-token=(hidden) (flag)"])?;
    ensure!(!stderr(&output).contains("geheim"), "{}", stderr(&output));
    ensure!(stderr(&output).matches("Effective settings").count() == 1);
    Ok(())
}
