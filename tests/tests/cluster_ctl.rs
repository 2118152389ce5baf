//! `causewayctl` on real parts: what it says about a good cluster, about broken ones, and by which exit code.
//!
//! The tests share one scenario and leave it whole; it is broken and healed by the hands of a person on its nodes.

#![allow(clippy::indexing_slicing, reason = "an absent member of a JSON value is null")]

#[path = "cluster_ctl/explain.rs"]
mod explain;
#[path = "cluster_ctl/installation.rs"]
mod installation;
#[path = "cluster_ctl/sockets.rs"]
mod sockets;
#[path = "cluster_ctl/world.rs"]
mod world;

use std::process::ExitCode;

use causeway_rig::{Level, Suite};
use causeway_tests::blue::BlueWorld;

use crate::world::SharedWorld;

fn with<F>(suite: Suite, world: &SharedWorld, name: &str, test: F) -> Suite
where
    F: AsyncFnOnce(&mut BlueWorld) -> anyhow::Result<()> + Send + 'static,
{
    let world = world.clone();
    suite.test(Level::Cluster, name, move || async move { world.run(test).await })
}

fn main() -> ExitCode {
    let world = SharedWorld::default();
    let mut suite = Suite::new();
    suite = with(suite, &world, "a_ready_uplink_is_explained_and_stops_nowhere", explain::ready);
    suite = with(suite, &world, "broken_nodes_are_explained_with_cause_and_remedy", explain::broken_nodes);
    suite = with(suite, &world, "broken_specs_are_explained_with_cause_and_remedy", explain::broken_specs);
    suite = with(suite, &world, "what_cannot_be_asked_has_an_exit_code_of_its_own", explain::refused);
    suite = with(suite, &world, "each_agent_tells_what_it_sees_on_its_socket", sockets::answers);
    suite = with(suite, &world, "an_agent_tells_which_store_is_away", sockets::store_away);
    suite = with(suite, &world, "a_killed_or_stopped_agent_is_told_by_the_exit_code", sockets::dead_agents);
    suite = with(
        suite,
        &world,
        "check_is_clean_on_a_good_cluster_and_names_what_is_wrong_on_a_node",
        installation::check,
    );
    suite = with(suite, &world, "a_dump_holds_what_a_supporter_needs_and_no_credential", installation::dump);
    suite = suite.test(
        Level::Cluster,
        "check_names_definitions_that_are_not_installed",
        installation::check_without_definitions,
    );
    suite.run()
}
