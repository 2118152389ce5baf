//! The store against a real kernel, each test in a network namespace of its own.
//!
//! Needs root. Without it the tests are ignored, or fail where `CAUSEWAY_REQUIRE` names level `switch` or `cluster`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this target is tests; without the standard harness clippy cannot tell"
)]

#[path = "switch_kernel/addresses.rs"]
mod addresses;
#[path = "switch_kernel/links.rs"]
mod links;
#[path = "switch_kernel/namespace.rs"]
mod namespace;
#[path = "switch_kernel/routes.rs"]
mod routes;
#[path = "switch_kernel/store.rs"]
mod store;
#[path = "switch_kernel/writes.rs"]
mod writes;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Whether the tests can run: `Err` says why not.
fn available() -> Result<(), String> {
    if nix::unistd::geteuid().is_root() {
        Ok(())
    } else {
        Err("needs root to make network namespaces".into())
    }
}

#[expect(clippy::disallowed_methods, reason = "the requirement gate of the tests is an environment variable")]
fn is_required() -> bool {
    let levels = std::env::var("CAUSEWAY_REQUIRE").unwrap_or_default();
    levels.split(',').any(|level| matches!(level.trim(), "switch" | "cluster"))
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = available().err();
    let trials = [links::all(), addresses::all(), routes::all(), store::all(), writes::all()].concat();
    let trials = trials.into_iter().map(|(name, test)| match &missing {
        Some(why) if is_required() => {
            let why = why.clone();
            Trial::test(name, move || Err(Failed::from(why)))
        }
        Some(_) => Trial::test(name, || Ok(())).with_ignored_flag(true),
        None => Trial::test(name, move || {
            test();
            Ok(())
        }),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
