//! The store on a real ovsdb-server: restarts, resumption, races, TLS.
//!
//! The server comes from the test tree (`$CAUSEWAY_CACHE/rootfs`). Without the tree the tests show as ignored; where
//! `CAUSEWAY_REQUIRE` contains `switch` or `cluster` they fail instead.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

mod connecting;
mod following;
mod large;
mod rows;
mod server;
mod tls;
mod writing;

use server::Tree;

type Case = (&'static str, fn(Arc<Tree>));

/// Wraps an async case so that it runs on a runtime of its own.
macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((stringify!($name), |tree| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on($module::$name(tree));
        })),*]
    };
}

const CASES: &[Case] = cases![
    connecting::a_missing_socket_is_named_and_its_appearance_noticed,
    connecting::a_socket_that_nobody_serves_is_called_refused,
    connecting::a_missing_database_is_named,
    connecting::a_missing_column_is_named_and_an_optional_one_is_none,
    connecting::databases_and_schemas_can_be_listed,
    following::a_transaction_is_in_the_snapshot_when_its_reply_arrives,
    following::changes_by_others_arrive_as_typed_events,
    following::nothing_is_lost_over_the_restart_of_a_standalone_database,
    following::a_clustered_database_is_resumed_with_only_what_changed,
    following::a_converted_database_is_read_again,
    following::an_upgrade_between_writes_loses_none_and_brings_the_optional_column,
    following::a_server_that_is_stopped_is_noticed_and_followed_when_it_goes_on,
    following::a_server_reached_over_tcp_is_followed,
    large::a_hundred_thousand_rows_are_read_and_followed_within_bounds,
    tls::a_server_is_followed_over_tls,
    tls::a_server_with_a_certificate_of_another_ca_is_refused,
    writing::a_stale_plan_loses_the_race_and_the_next_one_wins,
    writing::two_writers_cannot_insert_the_same_unique_row,
    writing::refused_transactions_say_what_is_wrong,
    writing::foreign_rows_elements_and_keys_survive,
    writing::a_second_pass_is_empty_and_not_sent,
];

#[expect(clippy::disallowed_methods, reason = "a test's requirements come from the environment")]
fn main() {
    let required = std::env::var("CAUSEWAY_REQUIRE")
        .is_ok_and(|levels| levels.split(',').any(|level| matches!(level.trim(), "switch" | "cluster")));
    let tree = Tree::find();
    let trials = CASES.iter().map(|&(name, case)| {
        let tree = tree.clone();
        let ignored = tree.is_err() && !required;
        let run = move || {
            case(Arc::new(tree?));
            Ok(())
        };
        Trial::test(name, run).with_kind("switch").with_ignored_flag(ignored)
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}
