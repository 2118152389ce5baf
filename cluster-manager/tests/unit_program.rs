//! The program as a process: what it says and how it ends where there is no API server to talk to.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: clippy knows only the tests themselves"
)]

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

/// Far more than any step of these tests takes.
const DEADLINE: Duration = Duration::from_secs(20);

const UPLINKS: [&str; 3] = ["--enable-multi-network", "--enable-network-segmentation", "--enable-uplink"];

/// A running cluster manager; killed when dropped.
struct Program {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cluster-manager"))
            .args(["--init-cluster-manager", "cm0"])
            .args(arguments)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, log, seen: Vec::new() }
    }

    /// Waits for a log line that contains `text`; each line counts once, whichever comes first.
    async fn says(&mut self, text: &str) -> String {
        if let Some(known) = self.seen.iter().position(|line| line.contains(text)) {
            return self.seen.remove(known);
        }
        loop {
            let line = timeout(DEADLINE, self.log.next_line()).await;
            let line = line.ok().and_then(Result::ok).flatten();
            let line = line.unwrap_or_else(|| panic!("never said {text:?}:\n{}", self.seen.join("\n")));
            if line.contains(text) {
                return line;
            }
            self.seen.push(line);
        }
    }

    fn terminate(&self) {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    }

    /// Waits for the end; the status and what was said since.
    async fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        timeout(DEADLINE, self.log.get_mut().read_to_string(&mut rest)).await.unwrap().unwrap();
        (timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap(), rest)
    }
}

#[tokio::test]
async fn without_the_feature_it_says_that_there_is_nothing_to_do_and_waits_to_be_stopped() {
    let mut program = Program::start(&[]);
    let line = program.says("User-defined networks are switched off").await;
    assert!(line.contains("--enable-multi-network and --enable-network-segmentation"), "{line}");
    program.terminate();
    let (status, rest) = program.end().await;
    assert_eq!(status.code(), Some(0), "{rest}");
}

#[tokio::test]
async fn networks_do_not_need_uplinks_and_it_says_that_these_are_off() {
    let networks = ["--enable-multi-network", "--enable-network-segmentation"];
    let mut program = Program::start(&[networks[0], networks[1], "--k8s-apiserver", "http://127.0.0.1:1"]);
    let line = program.says("Uplinks are switched off").await;
    assert!(line.contains("--enable-uplink"), "{line}");
    program.says("Network controllers started").await;
    program.says("Mirror controller of EndpointSlices started").await;
    program.terminate();
    let (status, rest) = program.end().await;
    assert_eq!(status.code(), Some(0), "{rest}");
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for() {
    let mut arguments = UPLINKS.to_vec();
    arguments.extend(["--k8s-apiserver", "http://127.0.0.1:1"]);
    let mut program = Program::start(&arguments);
    for _ in 0..4 {
        program.says("Watch interrupted").await;
    }
    program.terminate();
    let (status, rest) = program.end().await;
    assert_eq!(status.code(), Some(0), "{rest}");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_read_ends_the_start_with_its_name() {
    let mut arguments = UPLINKS.to_vec();
    arguments.extend(["--k8s-kubeconfig", "/nowhere/kubeconfig"]);
    let (status, said) = Program::start(&arguments).end().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("cannot use the kubeconfig /nowhere/kubeconfig"), "{said}");
}

#[tokio::test]
async fn uplinks_without_what_they_need_are_refused_by_name() {
    for (line, missing) in [
        ("--enable-multi-network", "Network Segmentation"),
        ("--enable-network-segmentation", "Multi Network: give --enable-multi-network"),
    ] {
        let (status, said) = Program::start(&[line, "--enable-uplink"]).end().await;
        assert_eq!(status.code(), Some(2), "{said}");
        let sentence = format!("the Uplink feature cannot be enabled without also enabling {missing}");
        assert!(said.contains(&sentence), "{said}");
    }
}
