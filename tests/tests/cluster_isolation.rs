//! Isolation of pods from their node, with a real kubelet in a cgroup of its own: its probes pass, whatever becomes of it,
//! and nobody else's packets do.
//!
//! Pods get their network as the rig gives it, and by hand what OVN-Kubernetes would write about it.

#![allow(clippy::indexing_slicing, reason = "an absent member of a JSON value is null")]

#[path = "cluster_isolation/closed.rs"]
mod closed;
#[path = "cluster_isolation/pods.rs"]
mod pods;
#[path = "cluster_isolation/probes.rs"]
mod probes;

use std::process::ExitCode;

use causeway_rig::{Families, Level, RigOptions, SharedRig, Suite};

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::cluster());
    let mut suite = Suite::new();
    for (name, families) in [
        ("the_kubelet_alone_reaches_ports_that_are_not_open_over_ipv4", Families::V4),
        ("the_kubelet_alone_reaches_ports_that_are_not_open_over_ipv6", Families::V6),
        ("the_kubelet_alone_reaches_ports_that_are_not_open_over_both_families", Families::Both),
    ] {
        suite = suite
            .test_in(&shared, Level::Cluster, name, move |rig| probes::pass_and_others_do_not(rig, families));
    }
    suite
        .test_in(
            &shared,
            Level::Cluster,
            "a_node_without_a_usable_cgroup_says_so_and_stays_closed_until_there_is_one",
            closed::until_there_is_one,
        )
        .run()
}
