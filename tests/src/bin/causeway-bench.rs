//! `make bench`: every measure, into `target/bench/`.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use causeway_rig::{Level, Settings, require};
use causeway_tests::bench::measure::Measure;
use causeway_tests::bench::{footprint, react};
use clap::Parser;

/// Measures Causeway on real parts.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of the results.
    #[arg(long, default_value_os_t = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench"))]
    out: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("causeway-bench: not every goal holds");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("causeway-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let settings = Settings::from_env()?;
    require(Level::Switch, &settings).context("the benches cannot run here")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
    runtime.block_on(async {
        let conditions = react::conditions().await?;
        // Each kind is told as soon as it was measured: the next one takes minutes.
        let reactions = tell(&react::all(&conditions).await?, &arguments.out)?;
        let footprint = tell(&footprint::all(&conditions).await?, &arguments.out)?;
        Ok(reactions && footprint)
    })
}

/// Prints and writes measures; whether every goal holds.
fn tell(measures: &[Measure], out: &Path) -> anyhow::Result<bool> {
    for measure in measures {
        println!("{}", measure.line());
        measure.write(out)?;
    }
    Ok(measures.iter().all(|measure| measure.holds))
}
