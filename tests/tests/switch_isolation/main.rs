//! Isolation of pods on a real kernel's nftables, with pods that exist on the API server alone.

mod listing;
mod pods;
mod roles;
mod table;
mod traffic;

use std::process::ExitCode;

use causeway_rig::{Level, RigOptions, SharedRig, Suite};

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    let level = Level::Switch;
    Suite::new()
        .test_in(&rig, level, "chain_sets_and_rules_are_those_of_the_captured_run", listing::captured)
        .test_in(&rig, level, "each_family_of_the_cluster_has_its_rules", listing::families)
        .test_in(&rig, level, "sets_follow_the_pods_of_the_whole_cluster", pods::follow)
        .test_in(&rig, level, "one_bad_pod_at_the_start_does_not_keep_the_others_out", pods::bad_pod)
        .test_in(&rig, level, "a_bad_list_of_ports_closes_them_and_the_pod_is_told", pods::bad_ports)
        .test_in(&rig, level, "completed_pods_leave_at_once_and_shared_addresses_stay", pods::completed)
        .test_in(&rig, level, "what_somebody_changes_by_hand_is_put_right", table::by_hand)
        .test_in(&rig, level, "one_pod_changes_by_one_transaction_with_its_elements", table::one_pod)
        .test_in(&rig, level, "rules_outlive_the_agent_and_a_restart_writes_nothing", table::restart)
        .test_in(&rig, level, "what_is_left_goes_where_networks_are_off", table::clean_up)
        .test_in(&rig, level, "an_agent_without_nft_says_so_and_goes_on_when_it_comes", roles::without_nft)
        .test_in(&rig, level, "a_host_with_a_card_isolates_and_its_card_never_calls_nft", roles::split)
        .test_in(&rig, level, "host_processes_reach_what_is_open_and_nothing_else", traffic::reach)
        .run()
}
