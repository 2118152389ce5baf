//! Uplinks on real parts: found, broken, healed, restarted.
//!
//! A host with a simulated card and a regular node, with the four programs as cargo built them (`cargo build --workspace
//! --bins` before running). Two such worlds run side by side: in one nothing of Causeway is ever restarted, in the other
//! it is. Each test leaves its world whole, and that is checked.

mod agents;
mod bad_input;
mod changes;
mod facts;
mod families;
mod history;
mod lifecycle;
mod main_job;
mod many;
mod names;
mod outages;
mod restarts;
mod wire;
mod world;

use std::process::ExitCode;

use causeway_rig::{Level, Suite};

use crate::world::{SharedWorld, World};

/// A test in a world, not started yet.
type Planned = (&'static str, Box<dyn FnOnce(Suite) -> Suite>);

fn planned<F>(world: &SharedWorld, name: &'static str, test: F) -> Planned
where
    F: AsyncFnOnce(&mut World) -> anyhow::Result<()> + Send + 'static,
{
    let world = world.clone();
    let body = move || async move { world.run(test).await };
    (name, Box::new(move |suite: Suite| suite.test(Level::Cluster, name, body)))
}

/// Tests under which nothing of Causeway is restarted.
fn steady(world: &SharedWorld) -> Vec<Planned> {
    let mut tests = vec![
        planned(world, "both_halves_of_each_state_are_found_and_the_uplink_is_ready", main_job::halves),
        planned(world, "each_writer_owns_its_half_and_no_more", main_job::ownership),
    ];
    for case in facts::card::CASES.iter().chain(facts::regular::CASES) {
        tests.push(planned(world, case.name, async |world: &mut World| case.run(world).await));
    }
    for case in wire::CASES {
        tests.push(planned(world, case.name, async |world: &mut World| case.run(world).await));
    }
    tests.extend([
        planned(world, "routes_and_addresses_of_a_host_change_without_a_break", changes::of_a_card),
        planned(
            world,
            "routes_and_addresses_of_a_regular_node_change_without_a_break",
            changes::of_a_regular_node,
        ),
        planned(world, "another_mac_address_of_a_bridge_is_published_in_lower_case", changes::mac),
        planned(world, "a_representor_that_moves_to_another_bridge_is_followed", changes::bridge),
        planned(
            world,
            "a_card_goes_by_the_mac_address_until_the_function_is_found",
            changes::address_instead_of_function,
        ),
        planned(world, "a_deleted_pair_of_links_is_missed_and_found_again", changes::pair_of_links),
        planned(world, "a_node_that_is_deselected_and_selected_gets_a_new_state", lifecycle::deselection),
        planned(world, "two_entries_for_one_node_are_refused_by_all_sides", lifecycle::overlap),
        planned(world, "an_invalid_selector_is_named_everywhere", lifecycle::invalid_selector),
        planned(
            world,
            "no_version_pairs_a_new_interface_with_the_data_of_the_old",
            lifecycle::other_interface,
        ),
        planned(world, "a_state_deleted_by_hand_comes_back", lifecycle::deletion_by_hand),
        planned(
            world,
            "states_go_with_their_uplink_and_a_new_one_gets_new_states",
            lifecycle::deletion_of_the_uplink,
        ),
        planned(world, "a_terminating_uplink_gets_no_state_again", lifecycle::terminating),
        planned(
            world,
            "an_interface_that_a_host_lacks_is_written_of_once_by_each_side",
            lifecycle::missing_interface,
        ),
        planned(world, "a_state_with_a_hashed_name_comes_back_each_time_it_is_deleted", names::hashed),
        planned(world, "a_state_of_ours_under_another_name_is_left_alone", names::impostors),
        planned(world, "two_uplinks_share_an_interface", many::two),
        planned(world, "of_ten_uplinks_only_the_broken_ones_are_written", many::ten),
    ]);
    tests
}

/// Tests that kill, stop and restart agents and servers.
fn shaken(world: &SharedWorld) -> Vec<Planned> {
    vec![
        planned(world, "agents_of_a_converged_cluster_restart_without_a_write", restarts::converged),
        planned(
            world,
            "the_half_of_a_dead_dpu_agent_stays_and_its_return_is_one_write",
            restarts::of_the_card,
        ),
        planned(
            world,
            "the_half_of_a_dead_host_agent_stays_and_its_return_is_one_write",
            restarts::of_the_host,
        ),
        planned(world, "a_stopped_agent_catches_up_with_many_changes", restarts::paused),
        planned(world, "agents_outlive_the_api_server_and_catch_up", outages::api_restarts),
        planned(world, "agents_catch_up_after_an_api_server_that_hung", outages::api_hangs),
        planned(world, "agents_started_without_an_api_server_wait_for_it", outages::api_away_at_start),
        planned(world, "a_restart_of_the_database_flips_nothing", outages::ovsdb_restarts),
        planned(
            world,
            "what_changes_while_the_database_is_away_is_published",
            outages::ovsdb_changes_while_away,
        ),
        planned(
            world,
            "trouble_of_the_host_is_told_while_the_database_is_away",
            outages::host_trouble_while_ovsdb_is_away,
        ),
        planned(
            world,
            "a_missing_database_is_named_and_the_state_says_what_it_waits_for",
            outages::ovsdb_missing_at_start,
        ),
        planned(world, "an_impostor_on_the_databases_socket_is_told", outages::ovsdb_answers_garbage),
        planned(world, "agents_end_in_order_within_two_seconds", outages::termination),
        planned(
            world,
            "each_family_of_the_cluster_has_an_address_and_a_gateway_that_may_come_later",
            families::dual_stack,
        ),
        planned(world, "programs_that_cannot_start_say_why_once", bad_input::start),
        planned(world, "an_agent_of_an_unknown_node_waits_for_it", bad_input::unknown_node),
        planned(world, "a_state_of_another_uplink_under_our_name_is_left_alone", bad_input::foreign_uplink),
        planned(world, "a_state_of_another_node_under_our_name_is_left_alone", bad_input::foreign_node),
    ]
}

fn main() -> ExitCode {
    let (one, two) = (SharedWorld::default(), SharedWorld::default());
    let (mut steady, mut shaken) = (steady(&one).into_iter(), shaken(&two).into_iter());
    drop((one, two));
    let mut suite = Suite::new().test(
        Level::Unit,
        "every_reason_of_discovery_and_of_the_wire_has_a_case_on_real_parts",
        || async {
            facts::all_reasons_are_cases()?;
            wire::all_reasons_are_cases()
        },
    );
    // Taken in turns, so that two threads are busy with two worlds.
    loop {
        let next = [steady.next(), steady.next(), shaken.next()];
        if next.iter().all(Option::is_none) {
            return suite.run();
        }
        for (_, add) in next.into_iter().flatten() {
            suite = add(suite);
        }
    }
}
