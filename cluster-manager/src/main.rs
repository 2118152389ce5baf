//! The cluster manager: controllers that need only the API server.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use causeway_runtime::settings::{IdentityKind, Program};
use causeway_runtime::start::{Flavor, run_main};

const PROGRAM: Program = Program {
    name: "cluster-manager",
    about: "Controllers that need only the API server",
    identity: IdentityKind::ClusterManager,
};

fn main() -> ExitCode {
    run_main(&PROGRAM, Flavor::CurrentThread, causeway_cluster_manager::set_up)
}
