//! The host agent of a node that has a card.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use causeway_agent::kernel;
use causeway_runtime::client::connect;
use causeway_runtime::settings::{IdentityKind, NodeMode, Program};
use causeway_runtime::start::{Context, Failure, Flavor, run_main};

const PROGRAM: Program = Program {
    name: "host-agent",
    about: "The host's side of a node that has a DPU",
    identity: IdentityKind::Node(NodeMode::DpuHost),
};

async fn set_up(context: &mut Context) -> Result<(), Failure> {
    let client = connect(&context.settings.kube).await?;
    let netlink = kernel::open(context)?;
    causeway_host_agent::start(context, &client, &netlink)
}

fn main() -> ExitCode {
    run_main(&PROGRAM, Flavor::CurrentThread, set_up)
}
