//! What the rooms of the cluster manager have in common, on a real API server with the rights of production: each kind is
//! watched once, each change reaches every room that has to react, and what one room writes comes before what rests on it.

#[path = "api_rooms/nodes.rs"]
mod nodes;
#[path = "api_rooms/order.rs"]
mod order;
#[path = "api_rooms/watches.rs"]
mod watches;
#[path = "api_rooms/wiring.rs"]
mod wiring;
#[path = "api_rooms/world.rs"]
mod world;

use std::process::ExitCode;

use causeway_rig::{Level, Suite};

fn main() -> ExitCode {
    Suite::new()
        .test(Level::Api, "each_kind_is_watched_once_and_only_if_a_room_needs_it", watches::once)
        .test(Level::Api, "each_change_reaches_every_room_that_has_to_react", wiring::reaches)
        .test(Level::Api, "what_rests_on_a_write_comes_after_it_and_nothing_is_written_twice", order::holds)
        .test(
            Level::Api,
            "a_node_is_merged_in_the_version_that_is_named_and_answered_with_the_next",
            nodes::are_merged,
        )
        .run()
}
