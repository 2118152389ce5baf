//! The arrows between crates, as `ARCHITECTURE.md` draws them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// What each crate may use of ours. A crate that is not here may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("causeway-api", &[]),
    ("causeway-net", &["causeway-api"]),
    ("causeway-runtime", &[]),
    ("causeway-netlink", &[]),
    ("causeway-nft", &[]),
    ("causeway-proto", &[]),
    ("ovsdb", &[]),
    (
        "causeway-agent",
        &["causeway-api", "causeway-net", "causeway-runtime", "causeway-netlink", "causeway-proto"],
    ),
    ("causeway-cluster-manager", &["causeway-api", "causeway-net", "causeway-runtime"]),
    (
        "causeway-host-agent",
        &[
            "causeway-api",
            "causeway-net",
            "causeway-runtime",
            "causeway-agent",
            "causeway-netlink",
            "causeway-nft",
            "causeway-proto",
        ],
    ),
    (
        "causeway-dpu-agent",
        &[
            "causeway-api",
            "causeway-net",
            "causeway-runtime",
            "causeway-agent",
            "causeway-netlink",
            "causeway-proto",
            "ovsdb",
        ],
    ),
    (
        "causeway-node-agent",
        &["causeway-runtime", "causeway-agent", "causeway-host-agent", "causeway-dpu-agent"],
    ),
    ("causewayctl", &["causeway-api", "causeway-net", "causeway-proto", "causeway-runtime", "ovsdb"]),
    ("causeway-gen", &["causeway-api", "causeway-runtime"]),
    ("causeway-rig", &["causeway-api"]),
    ("causeway-tests", &["causeway-api", "causeway-rig", "ovsdb"]),
];

/// Crates without I/O, and what would bring it in.
const PURE: &[&str] = &["causeway-api", "causeway-net"];
const IO: &[&str] = &["tokio", "kube-client", "hyper", "rtnetlink", "nix", "reqwest"];

#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of tests")]
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Dependencies of a package, those of its tests included.
#[allow(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of tests")]
fn dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter().map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn every_arrow_between_crates_is_one_that_the_architecture_draws() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let drawn: BTreeSet<&str> = allowed.keys().copied().collect();
    assert_eq!(ours, drawn, "a crate that ARCHITECTURE.md does not draw, or one that is gone");
    for package in &packages {
        let name = package["name"].as_str().expect("a name");
        for dependency in dependencies(package).iter().filter(|dependency| ours.contains(dependency.as_str()))
        {
            assert!(allowed[name].contains(&dependency.as_str()), "{name} uses {dependency}");
        }
    }
}

#[test]
fn crates_that_decide_bring_no_io_in() {
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        if !PURE.contains(&name) {
            continue;
        }
        for dependency in dependencies(&package) {
            assert!(!IO.contains(&dependency.as_str()), "{name} uses {dependency}");
        }
        let kube = package["dependencies"].as_array().expect("dependencies");
        for dependency in kube.iter().filter(|dependency| dependency["name"] == "kube") {
            let features = dependency["features"].as_array().expect("features");
            assert!(!features.iter().any(|feature| feature == "client"), "{name} uses a client");
        }
    }
}
