//! `make bench`: every measure, into `target/bench/`.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use causeway_rig::{Level, Settings, require};
use causeway_tests::bench::session::{Only, Session};
use causeway_tests::bench::{
    burst, footprint, isolation, kernel, management, networks, react, rest, topology, uplink,
};
use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

/// Measures Causeway on real parts. Exits with 0 if everything could be measured and every goal holds.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of the results.
    #[arg(long, default_value_os_t = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench"))]
    out: PathBuf,
    /// Only measures whose name begins with one of these, comma separated.
    #[arg(long, default_value = "")]
    only: Only,
    /// How often a fact is changed.
    #[arg(long, default_value_t = 500)]
    changes: usize,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What the bench starts of itself.
#[derive(Debug, Subcommand)]
enum Role {
    /// The client that `uplink_*` is compared with.
    PlainClient,
    /// The client that networks made at once are compared with.
    SameWrites {
        /// File with the writes.
        writes: PathBuf,
        /// The kubeconfig of whoever sent them first.
        login: PathBuf,
    },
    /// The client that networks made one after the other are compared with.
    OneNetwork {
        /// File with the writes for the next network.
        writes: PathBuf,
        /// The kubeconfig of whoever sent them first.
        login: PathBuf,
    },
    /// The side of `react_kernel_*` that is inside the test kernel.
    InKernel {
        /// How often each thing changes.
        #[arg(long)]
        changes: usize,
    },
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
    let single = || Builder::new_current_thread().enable_all().build().context("a runtime");
    match &arguments.role {
        Some(Role::PlainClient) => single()?.block_on(uplink::plain::run()).map(|()| true),
        Some(Role::SameWrites { writes, login }) => {
            single()?.block_on(networks::rerun::run(writes, login)).map(|()| true)
        }
        Some(Role::OneNetwork { writes, login }) => {
            single()?.block_on(networks::beside::run(writes, login)).map(|()| true)
        }
        Some(Role::InKernel { changes }) => single()?.block_on(kernel::guest::run(*changes)).map(|()| true),
        None => {
            require(Level::Switch, &Settings::from_env()?).context("the benches cannot run here")?;
            Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("a runtime")?
                .block_on(measure(arguments))
        }
    }
}

async fn measure(arguments: &Arguments) -> anyhow::Result<bool> {
    let session = Session::begin(arguments.only.clone(), arguments.out.clone(), arguments.changes).await?;
    session.note("sizes", footprint::binaries(&session));
    session.note("reactions", react::run(&session).await);
    session.note("reactions in the test kernel", kernel::run(&session).await);
    session.note("Uplinks", uplink::run(&session).await);
    session.note("networks", networks::run(&session).await);
    session.note("burst", burst::run(&session).await);
    session.note("large cluster", footprint::large_cluster(&session).await);
    session.note("large machine", footprint::large_machine(&session).await);
    session.note("isolation", isolation::run(&session).await);
    session.note("topology", topology::run(&session).await);
    session.note("management ports", management::run(&session).await);
    session.note("rest", rest::run(&session).await);
    session.finish()
}
