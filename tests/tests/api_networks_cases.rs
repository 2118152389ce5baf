//! Tenant networks on a real API server, where a recording of upstream's cluster manager says nothing or less than it
//! should: bad input that must not harm others, obstacles that go away, edits by hand, reports from the field.

#[path = "api_networks_cases/bad_input.rs"]
mod bad_input;
#[path = "api_networks_cases/better.rs"]
mod better;
#[path = "api_networks_cases/connections.rs"]
mod connections;
#[path = "api_networks_cases/field.rs"]
mod field;
#[path = "api_networks_cases/limits.rs"]
mod limits;
#[path = "api_networks_cases/objects.rs"]
mod objects;
#[path = "api_networks_cases/uplinks.rs"]
mod uplinks;
#[path = "api_networks_cases/world.rs"]
mod world;

use std::process::ExitCode;

use causeway_rig::Suite;

fn main() -> ExitCode {
    let suite = bad_input::add(Suite::new());
    let suite = limits::add(suite);
    let suite = better::add(suite);
    let suite = field::add(suite);
    let suite = uplinks::add(suite);
    connections::add(suite).run()
}
