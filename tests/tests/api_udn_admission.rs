//! What the admission policies about networks refuse, with their exact words, on a real API server with real tokens:
//! what may not change once an object was made, and who writes which annotation of Nodes and pods.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value of another shape than expected ends the test, as it should"
)]

#[path = "api_udn_admission/frozen.rs"]
mod frozen;
#[path = "api_udn_admission/nodes.rs"]
mod nodes;
#[path = "api_udn_admission/pods.rs"]
mod pods;
#[path = "api_udn_admission/world.rs"]
mod world;

use std::process::ExitCode;

use causeway_rig::{Level, RigOptions, SharedRig, Suite};

fn main() -> ExitCode {
    let rig = SharedRig::new(RigOptions::default());
    Suite::new()
        .test_in(
            &rig,
            Level::Api,
            "a_namespace_keeps_what_it_says_about_its_primary_network",
            frozen::namespaces,
        )
        .test_in(&rig, Level::Api, "a_pod_keeps_its_choice_of_default_network", frozen::pods)
        .test_in(&rig, Level::Api, "each_annotation_of_a_node_is_written_by_its_owner_alone", nodes::owners)
        .test_in(&rig, Level::Api, "some_annotations_of_a_node_take_some_values_only", nodes::values)
        .test_in(
            &rig,
            Level::Api,
            "programs_write_annotations_of_their_own_node_and_nothing_else",
            nodes::rest,
        )
        .test_in(&rig, Level::Api, "each_annotation_of_a_pod_is_written_by_its_owner_alone", pods::owners)
        .test_in(
            &rig,
            Level::Api,
            "a_pod_on_the_hosts_network_has_no_addresses_on_others",
            pods::host_networked,
        )
        .test_in(&rig, Level::Api, "programs_write_annotations_of_pods_of_their_own_node_only", pods::rest)
        .test_in(
            &rig,
            Level::Api,
            "annotations_of_thousands_of_networks_are_judged_within_the_budget",
            nodes::large,
        )
        .run()
}
