//! The agent of a regular node: both roles in one process, on the same stores.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use causeway_agent::kernel;
use causeway_dpu_agent::discovery::HostSource;
use causeway_dpu_agent::node_facts::Local;
use causeway_host_agent::discovery::listen;
use causeway_host_agent::node_facts::HostFacts;
use causeway_runtime::client::connect;
use causeway_runtime::settings::{IdentityKind, NodeMode, Program};
use causeway_runtime::start::{Context, Failure, Flavor, run_main};

const PROGRAM: Program = Program {
    name: "node-agent",
    about: "Both sides of a regular node in one process",
    identity: IdentityKind::Node(NodeMode::Full),
};

async fn set_up(context: &mut Context) -> Result<(), Failure> {
    let client = connect(&context.settings.kube).await?;
    let told = causeway_host_agent::isolate(context, &client);
    let netlink = kernel::open(context)?;
    let local = Local {
        eyes: Box::new(causeway_host_agent::eyes(&context.settings, netlink.clone())),
        facts: Box::new(HostFacts::new(&context.settings, netlink.clone())),
    };
    if let Some(ovs) = causeway_dpu_agent::node_facts::start(context, &client, &netlink, Some(local))? {
        causeway_dpu_agent::management::start(context, &client, &netlink, ovs)?;
    }
    let host = Box::new(causeway_host_agent::eyes(&context.settings, netlink.clone()));
    let looker = causeway_dpu_agent::start(context, &client, &netlink, HostSource::Local(host), told)?;
    if let Some(looker) = looker {
        let listener = listen::listen(netlink, looker, context.tasks.stop());
        context.tasks.spawn("host-listener", listener);
    }
    Ok(())
}

fn main() -> ExitCode {
    run_main(&PROGRAM, Flavor::CurrentThread, set_up)
}
