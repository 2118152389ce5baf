//! The agent that writes the topology: real API server, real Northbound and Southbound databases, northd and ovn-controller
//! at work on them.

#[path = "switch_topology_room/bad.rs"]
mod bad;
#[path = "switch_topology_room/database.rs"]
mod database;
#[path = "switch_topology_room/hand.rs"]
mod hand;
#[path = "switch_topology_room/life.rs"]
mod life;
#[path = "switch_topology_room/rights.rs"]
mod rights;
#[path = "switch_topology_room/sent.rs"]
mod sent;
#[path = "switch_topology_room/services.rs"]
mod services;
#[path = "switch_topology_room/southbound.rs"]
mod southbound;

use std::process::ExitCode;

use causeway_rig::{Level, Suite};

fn main() -> ExitCode {
    let level = Level::Switch;
    Suite::new()
        .test(level, "networks_and_nodes_that_come_and_go_change_their_own_rows_alone", life::come_and_go)
        .test(level, "a_restart_of_the_agent_writes_nothing", life::restart)
        .test(level, "networks_deleted_while_the_agent_was_down_leave_nothing", life::away)
        .test(level, "what_a_node_has_not_told_yet_is_waited_for_in_silence", life::early)
        .test(level, "an_agent_on_upstreams_database_changes_no_row_that_is_right", life::take_over)
        .test(level, "a_machine_without_ovn_is_ready_and_says_so", life::without_ovn)
        .test(level, "rows_changed_by_hand_come_back_and_rows_of_others_stay", hand::restored)
        .test(level, "rows_of_others_wake_nothing", hand::foreign)
        .test(level, "bytes_sent_to_the_database_follow_the_change", sent::bytes)
        .test(level, "routes_to_services_follow_them_and_a_restart_writes_nothing", services::follow)
        .test(level, "a_pods_packet_to_a_service_leaves_by_the_nodes_own_port", services::packet)
        .test(level, "services_that_nobody_allows_or_that_went_meanwhile_leave_no_route", services::gone)
        .test(level, "networks_with_the_same_names_take_turns_and_the_lower_id_is_first", bad::prefixes)
        .test(level, "what_cannot_be_used_is_told_and_the_others_go_on", bad::inputs)
        .test(level, "a_masquerade_subnet_without_room_for_networks_ends_the_start", bad::masquerade)
        .test(level, "a_database_that_refuses_writes_is_told_and_tried_again", database::read_only)
        .test(level, "a_full_database_is_told_and_filled_once_there_is_room", database::full)
        .test(
            level,
            "a_database_of_an_older_schema_is_told_and_followed_once_it_is_converted",
            database::older,
        )
        .test(level, "a_database_that_restarts_or_is_lost_is_filled_with_what_it_lacks", database::restarted)
        .test(level, "chassis_follow_nodes_and_settings_of_the_own_one_come_back", southbound::chassis)
        .test(level, "a_card_keeps_its_name_and_where_its_tunnels_end", southbound::card)
        .test(
            level,
            "an_agent_with_its_own_account_writes_networks_and_leaves_by_uplinks",
            rights::node_agent,
        )
        .test(level, "a_card_with_its_own_account_writes_networks_and_tells_what_it_cannot", rights::card)
        .test(level, "a_service_that_may_not_be_watched_is_told_and_networks_are_written", rights::service)
        .run()
}
