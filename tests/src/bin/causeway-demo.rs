//! `make demo`: the main job on real parts, told as a story.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use causeway_rig::{Level, Settings, end_kept, living, require};
use causeway_tests::demo::{story, telling::Telling};
use clap::{Parser, Subcommand};

/// What the process that keeps the cluster prints when the story is over, before the rig's name.
const KEPT: &str = "\u{1}kept ";

/// The main job of Causeway on a real cluster.
#[derive(Debug, Parser)]
struct Arguments {
    /// Leave the cluster up afterwards.
    #[arg(long, env = "CAUSEWAY_KEEP", value_parser = clap::builder::FalseyValueParser::new(),
          action = clap::ArgAction::Set, default_value_t = false, num_args = 0..=1, default_missing_value = "1")]
    keep: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// End what `KEEP=1` left up.
    Down,
    /// Tell the story, then keep the cluster until SIGTERM.
    Hold,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("causeway-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::from_env()?;
    require(Level::Switch, &settings).context("the demo cannot run here")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
    match &arguments.what {
        Some(What::Down) => runtime.block_on(down(&settings)),
        Some(What::Hold) => runtime.block_on(hold()),
        None if arguments.keep => keep(&settings),
        None => runtime.block_on(async {
            let mut telling = Telling::new();
            let told = tokio::select! {
                told = story::tell(&mut telling) => told.map(drop),
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.context("catching SIGINT")?;
                    Err(anyhow::anyhow!("interrupted; everything that was started ends now"))
                }
            };
            told.inspect(|()| telling.end())
        }),
    }
}

/// Runs `hold` in a session of its own, passes on what it says, and returns when the story is over.
fn keep(settings: &Settings) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new("setsid");
    command.arg(program).arg("hold").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("starting the process that keeps the cluster")?;
    let output = child.stdout.take().context("the output of the process that keeps the cluster")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("reading the story")?;
        let Some(id) = line.strip_prefix(KEPT) else {
            println!("{line}");
            continue;
        };
        let kubeconfig = settings.base.join(id).join("kubeconfig");
        println!("\nThe cluster stays up. Use it:");
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  {} get uplinks,uplinkstates -o wide", settings.kube().join("kubectl").display());
        println!("End it:");
        println!("  make demo-down");
        return Ok(());
    }
    bail!("the story did not come to its end; what went wrong stands above")
}

async fn hold() -> anyhow::Result<()> {
    let told = async {
        let mut telling = Telling::new();
        let world = story::tell(&mut telling).await?;
        telling.end();
        anyhow::Ok(world)
    };
    let world = told.await.inspect_err(|error| println!("causeway-demo: {error:#}"))?;
    let causeway_tests::blue::BlueWorld { rig, pair, card_ovs, node_b, node_b_ovs, control, agents } = world;
    let _parts = (pair, card_ovs, node_b, node_b_ovs, control, agents);
    rig.keep(|rig| {
        let mut output = std::io::stdout().lock();
        writeln!(output, "{KEPT}{}", rig.id()).and_then(|()| output.flush()).context("telling that it is up")
    })
    .await
}

async fn down(settings: &Settings) -> anyhow::Result<()> {
    let kept: Vec<_> = living(&settings.base)?.into_iter().filter(causeway_rig::Living::is_kept).collect();
    if kept.is_empty() {
        println!("nothing was left up");
    }
    for rig in kept {
        end_kept(&settings.base, &rig.id).await?;
        println!("ended {}", rig.id);
    }
    Ok(())
}
