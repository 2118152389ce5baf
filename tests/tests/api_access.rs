//! Who may do what: the roles and the enforcing admission policies on a real API server, with real tokens.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value of another shape than expected ends the test, as it should"
)]

#[path = "api_access/attempt.rs"]
mod attempt;
#[path = "api_access/cards.rs"]
mod cards;
#[path = "api_access/halves.rs"]
mod halves;
#[path = "api_access/nodeless.rs"]
mod nodeless;
#[path = "api_access/nodes.rs"]
mod nodes;
#[path = "api_access/others.rs"]
mod others;
#[path = "api_access/world.rs"]
mod world;

use std::process::ExitCode;

use causeway_rig::{Level, RigOptions, SharedRig, Suite};

fn main() -> ExitCode {
    let options = RigOptions {
        // Off by default; with it, blockOwnerDeletion needs a right on the owner.
        api_flags: vec!["--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned()],
        ..RigOptions::default()
    };
    let rig = SharedRig::new(options);
    let nodeless = SharedRig::new(RigOptions::default());
    Suite::new()
        .test_in(&rig, Level::Api, "each_side_writes_its_own_fields_of_a_state_and_no_other", halves::fields)
        .test_in(&rig, Level::Api, "each_side_writes_its_own_conditions_and_no_other", halves::conditions)
        .test_in(&rig, Level::Api, "both_sides_create_a_state_with_their_own_half", halves::creations)
        .test_in(
            &rig,
            Level::Api,
            "names_owners_and_metadata_of_states_are_what_they_should_be",
            halves::metadata,
        )
        .test_in(&rig, Level::Api, "an_agent_writes_states_of_its_own_node_only", halves::other_nodes)
        .test_in(
            &rig,
            Level::Api,
            "the_host_side_deletes_and_a_card_only_where_there_is_none",
            halves::deletions,
        )
        .test_in(&rig, Level::Api, "a_card_is_who_the_node_says_with_a_token_for_that_node", cards::identity)
        .test_in(&rig, Level::Api, "a_card_that_is_struck_off_the_node_writes_no_more", cards::struck_off)
        .test_in(&rig, Level::Api, "a_card_writes_its_half_among_a_thousand_nodes", cards::many_nodes)
        .test_in(
            &nodeless,
            Level::Api,
            "without_any_node_states_are_written_by_who_may_and_by_no_card",
            nodeless::no_nodes,
        )
        .test_in(&rig, Level::Api, "only_administrators_say_which_card_a_node_has", nodes::roles)
        .test_in(
            &rig,
            Level::Api,
            "the_cluster_manager_writes_conditions_and_its_finalizer_only",
            others::manager,
        )
        .test_in(&rig, Level::Api, "agents_write_nothing_but_states_and_events", others::agents)
        .test_in(
            &rig,
            Level::Api,
            "tenants_roles_reach_no_uplink_state_or_attachment_definition",
            others::tenants,
        )
        .run()
}
