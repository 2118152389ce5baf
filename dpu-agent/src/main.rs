//! The agent of a card.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use causeway_agent::kernel;
use causeway_dpu_agent::discovery::HostSource;
use causeway_runtime::client::connect;
use causeway_runtime::settings::{IdentityKind, NodeMode, Program};
use causeway_runtime::start::{Context, Failure, Flavor, run_main};

const PROGRAM: Program = Program {
    name: "dpu-agent",
    about: "The card's side of a node that has a DPU",
    identity: IdentityKind::Node(NodeMode::Dpu),
};

async fn set_up(context: &mut Context) -> Result<(), Failure> {
    let client = connect(&context.settings.kube).await?;
    let netlink = kernel::open(context)?;
    causeway_dpu_agent::node_facts::start(context, &client, &netlink, None)?;
    causeway_dpu_agent::start(context, &client, &netlink, HostSource::Published, Vec::new())?;
    Ok(())
}

fn main() -> ExitCode {
    run_main(&PROGRAM, Flavor::CurrentThread, set_up)
}
