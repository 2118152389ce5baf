//! Rigs for people: start one that stays, look at it with kubectl, end it.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use causeway_rig::{Level, Rig, RigOptions, Settings, UplinkAnnotations, clean, end_kept, living, require};
use clap::{Args, Parser, Subcommand};

/// What the process that keeps a rig prints when it is up, before the name.
const READY: &str = "ready ";

/// Clusters, nodes and simulated cards made of real parts on one machine.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Start a rig that stays up until `down` or `clean`.
    Up(UpArguments),
    /// Show the rigs of this machine.
    List,
    /// End a rig that `up` started.
    Down {
        /// Its name, as `list` shows it.
        id: String,
    },
    /// End all rigs that `up` started and remove what killed ones left. Rigs of running tests stay.
    Clean,
    /// Keep a rig in the foreground, until SIGTERM.
    Hold(UpArguments),
}

#[derive(Debug, Clone, Copy, Args)]
struct UpArguments {
    /// How many nodes.
    #[arg(long, default_value_t = 0)]
    nodes: u32,
    /// Nodes run containerd and a kubelet; without it they are Node objects and Open vSwitch only.
    #[arg(long)]
    kubelet: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("causeway-rig: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: What) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
    match what {
        What::Up(arguments) => up(arguments, &settings),
        What::Hold(arguments) => runtime.block_on(hold(arguments)),
        What::List => list(&settings),
        What::Down { id } => runtime.block_on(end_kept(&settings.base, &id)),
        What::Clean => {
            for id in runtime.block_on(clean(&settings.base))? {
                println!("removed {id}");
            }
            Ok(())
        }
    }
}

/// Starts `hold` in a session of its own, which outlives the terminal, and waits until it is up.
fn up(arguments: UpArguments, settings: &Settings) -> anyhow::Result<()> {
    let level = if arguments.kubelet { Level::Cluster } else { Level::Switch };
    require(level, settings).context("a rig cannot start here")?;
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new("setsid");
    command.arg(program).arg("hold").arg(format!("--nodes={}", arguments.nodes));
    if arguments.kubelet {
        command.arg("--kubelet");
    }
    // Errors come over the same pipe: a terminal or a pipe of ours would be held open for as long as the rig lives.
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take().context("the output of the rig's process")?;
    let mut said = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading what the rig's process says")?;
        if let Some(id) = line.strip_prefix(READY) {
            let kubeconfig = settings.base.join(id).join("kubeconfig");
            let kubectl = settings.kube().join("kubectl");
            println!("rig {id} is up");
            println!("use it: {} --kubeconfig {} get nodes", kubectl.display(), kubeconfig.display());
            println!("end it: causeway-rig down {id}");
            return Ok(());
        }
        said.push_str(&line);
        said.push('\n');
    }
    bail!("the rig did not start: {}", said.trim_end())
}

async fn hold(arguments: UpArguments) -> anyhow::Result<()> {
    let done = hold_rig(arguments).await;
    if let Err(error) = &done {
        // To `up`, which reads this end of the pipe.
        println!("{error:#}");
    }
    done
}

async fn hold_rig(arguments: UpArguments) -> anyhow::Result<()> {
    let options = if arguments.kubelet { RigOptions::cluster() } else { RigOptions::default() };
    let rig = Rig::start(options).await?;
    let nodes = (1..=arguments.nodes).map(|number| {
        let node = rig.node(format!("node-{number}")).uplink_annotations(&UplinkAnnotations::default());
        async move {
            let node = if arguments.kubelet { node.kubelet() } else { node }.start().await?;
            let ovs = node.ovs().await?;
            anyhow::Ok((node, ovs))
        }
    });
    let _nodes = futures::future::try_join_all(nodes).await?;
    rig.keep(|rig| {
        let mut output = std::io::stdout().lock();
        // Whoever started this may be gone by now: then nobody knows of the rig, and it ends.
        writeln!(output, "{READY}{}", rig.id()).and_then(|()| output.flush()).context("telling that it is up")
    })
    .await
}

fn list(settings: &Settings) -> anyhow::Result<()> {
    for rig in living(&settings.base)? {
        let owner = rig.owner.map_or_else(|| "?".to_owned(), |owner| owner.to_string());
        let state = if rig.is_kept() { "kept" } else { "in use" };
        println!("{}  {state}  process {owner}  {}", rig.id, rig.path.join("kubeconfig").display());
    }
    Ok(())
}
