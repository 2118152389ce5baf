//! Isolation of pods on a real kernel's nftables, with pods that exist on the API server alone.

mod degraded;
mod listing;
mod pods;
mod roles;
mod systemd;
mod table;
mod traffic;

use std::process::ExitCode;

use causeway_rig::{Level, RigOptions, SharedRig, Suite};

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::bare());
    let cluster_of_its_own = SharedRig::new(RigOptions::bare());
    let level = Level::Switch;
    Suite::new()
        .test_in(
            &cluster_of_its_own,
            level,
            "chain_sets_and_rules_are_those_of_the_captured_run",
            listing::captured,
        )
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
        .test_in(
            &rig,
            level,
            "a_kernel_without_the_match_costs_the_kubelets_rule_and_nothing_else",
            degraded::no_match,
        )
        .test_in(
            &rig,
            level,
            "a_set_up_that_fails_is_told_by_its_first_cause_and_the_agent_ends_cleanly",
            degraded::no_set_up,
        )
        .test_in(
            &rig,
            level,
            "a_kubelets_cgroup_that_vanishes_while_the_agent_runs_opens_nothing_and_is_found_again",
            degraded::vanished,
        )
        .test_in(
            &rig,
            level,
            "rules_follow_the_kubelets_unit_and_systemd_may_go_or_talk_nonsense",
            systemd::alone,
        )
        .test_in(
            &rig,
            level,
            "of_what_systemd_says_only_the_kubelets_start_writes_and_once",
            systemd::signals,
        )
        .test_in(&rig, level, "host_processes_reach_what_is_open_and_nothing_else", traffic::reach)
        .test_in(
            &rig,
            level,
            "a_pod_reaches_nothing_of_its_host_over_the_default_network",
            traffic::from_the_pod,
        )
        .test_in(
            &rig,
            level,
            "a_pod_of_another_node_is_reached_over_what_it_opened_and_over_nothing_else",
            traffic::elsewhere,
        )
        .run()
}
