//! `check` and `dump`.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Rig, RigOptions};
use causeway_tests::blue::{self, BlueWorld};
use serde_json::Value;

use crate::world::{SUPPORTER, ctl};

/// Level and subject of everything in an area.
fn findings(report: &Value, area: &str) -> anyhow::Result<Vec<String>> {
    let all = report["findings"].as_array().context("findings")?;
    let of_area = all.iter().filter(|finding| finding["area"] == area);
    Ok(of_area
        .map(|finding| {
            format!(
                "{} {}",
                finding["level"].as_str().unwrap_or_default(),
                finding["subject"].as_str().unwrap_or_default()
            )
        })
        .collect())
}

/// What an installation defines.
const DEFINITIONS: [&str; 6] = [
    "uplinks.k8s.ovn.org",
    "uplinkstates.k8s.ovn.org",
    "userdefinednetworks.k8s.ovn.org",
    "clusteruserdefinednetworks.k8s.ovn.org",
    "routeadvertisements.k8s.ovn.org",
    "vteps.k8s.ovn.org",
];

pub(crate) async fn check(world: &mut BlueWorld) -> anyhow::Result<()> {
    for place in [&world.control, &world.node_b, &world.pair.host, &world.pair.card] {
        let report = ctl(place, &["check", "-o", "json"]).await?.ended(0)?.json()?;
        ensure!(report["problems"] == 0, "on {}: {report:#}", place.name());
        ensure!(
            findings(&report, "definitions")? == DEFINITIONS.map(|name| format!("good {name}")),
            "{report:#}"
        );
        ensure!(findings(&report, "api")? == ["good API server"], "{report:#}");
        let permissions = findings(&report, "permissions")?;
        ensure!(permissions.iter().all(|one| one.starts_with("good ")), "{report:#}");
        // Where no agent and no switch are, the machine is not looked at.
        ensure!(findings(&report, "local")?.is_empty() == (place.name() == "control"), "{report:#}");
    }
    let local = ctl(&world.node_b, &["check", "--local", "never", "-o", "json"]).await?.ended(0)?.json()?;
    ensure!(findings(&local, "local")?.is_empty(), "{local:#}");
    let local = ctl(&world.node_b, &["check", "-o", "json"]).await?.ended(0)?.json()?;
    let local = findings(&local, "local")?;
    for want in ["good agent", "good node-agent: ovsdb", "good Open vSwitch database"] {
        ensure!(local.iter().any(|found| found == want), "no {want:?}: {local:?}");
    }
    ensure!(local.iter().any(|found| found.ends_with(" eswitch")), "{local:?}");

    world.node_b_ovs.stop_server().await?;
    let broken = ctl(&world.node_b, &["check"]).await?.ended(1)?.stdout;
    ensure!(broken.contains("PROBLEM Open vSwitch database"), "{broken}");
    ensure!(broken.contains("do: start Open vSwitch"), "{broken}");
    world.node_b_ovs.start_server().await
}

pub(crate) async fn check_without_definitions() -> anyhow::Result<()> {
    let rig = Rig::start(RigOptions::bare()).await?;
    let node = rig.node("control").unregistered().start().await?;
    // The place's own kubeconfig is an administrator's here.
    let words = ["check", "-o", "json", "--kubeconfig", KUBECONFIG];
    let report = ctl(&node, &words).await?.ended(1)?.json()?;
    ensure!(
        findings(&report, "definitions")? == DEFINITIONS.map(|name| format!("problem {name}")),
        "{report:#}"
    );
    let all = report["findings"].as_array().context("findings")?;
    let missing = all.iter().filter(|finding| finding["found"] == "is not installed");
    ensure!(missing.clone().count() == DEFINITIONS.len(), "{report:#}");
    ensure!(missing.into_iter().all(|finding| finding["remedy"] != ""), "{report:#}");
    Ok(())
}

/// The made-up credentials that the cluster holds before the dump, beside the real ones.
const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06Zm9vIn0.c2lnbmF0dXJl";
const PASSWORD: &str = "hunter2hunter2";

pub(crate) async fn dump(world: &mut BlueWorld) -> anyhow::Result<()> {
    plant(world).await?;
    let node = &world.node_b;
    let kubeconfig = [KUBECONFIG, SUPPORTER].map(|path| std::fs::read_to_string(node.path(path)));
    let [agents, supporters] = kubeconfig;
    let kubeconfig = format!("{}\n{}", agents?, supporters?);
    let secrets: Vec<&str> = kubeconfig
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, _)| name.ends_with("token") || name.ends_with("-data"))
        .map(|(_, value)| value.trim_matches('"'))
        .chain([JWT, PASSWORD])
        .collect();
    ensure!(secrets.len() > 3, "the kubeconfig holds no credential to look for");

    let manifest = ctl(node, &["dump", "/root/case", "-o", "json"]).await?.ended(0)?.json()?;
    ensure!(manifest["missing"] == serde_json::json!({}), "{manifest:#}");
    ensure!(manifest["removed"].as_u64() >= Some(3), "{manifest:#}");
    let files = manifest["files"].as_object().context("files")?;
    for want in [
        "versions.json",
        "check.json",
        "nodes.json",
        "pods.json",
        "events.json",
        "uplinks/tenant-blue.json",
        "uplinkstates/tenant-blue.node-a.json",
        "uplinkstates/tenant-blue.node-b.json",
        "explain/tenant-blue.txt",
        "agents/0-node-agent-node-b.json",
    ] {
        ensure!(files.contains_key(want), "no {want}: {manifest:#}");
    }
    let mut all = String::new();
    read_all(&node.path("/root/case"), &mut all)?;
    ensure!(all.contains("k8s.ovn.org/l3-gateway-config"), "the Nodes lack what discovery reads");
    ensure!(!all.contains("example.com/foreign"), "a foreign annotation of a Node is there");
    for secret in &secrets {
        ensure!(!all.contains(secret), "the dump holds a credential: {secret}");
    }

    ctl(node, &["dump", "/root/case.tar"]).await?.ended(0)?;
    let mut tar = Vec::new();
    std::fs::File::open(node.path("/root/case.tar"))?.read_to_end(&mut tar)?;
    let tar = String::from_utf8_lossy(&tar);
    ensure!(tar.contains("case/uplinks/tenant-blue.json") && tar.contains("case/manifest.json"));
    for secret in &secrets {
        ensure!(!tar.contains(secret), "the tar file holds a credential: {secret}");
    }
    // Nothing is overwritten.
    ctl(node, &["dump", "/root/case.tar"]).await?.ended(6)?;
    uproot(world).await
}

/// Credentials in places where careless people leave them.
async fn plant(world: &BlueWorld) -> anyhow::Result<()> {
    let annotate = ["annotate", "--overwrite", "uplink", blue::UPLINK];
    let careless =
        [format!("example.com/login-token={PASSWORD}"), format!("example.com/note=log in with {JWT}")];
    world.rig.kubectl(annotate.into_iter().chain(careless.iter().map(String::as_str))).await?;
    let foreign = format!("example.com/foreign={PASSWORD}");
    world.rig.kubectl(["annotate", "--overwrite", "node", "node-b", &foreign]).await?;
    let mut event = String::from(
        "apiVersion: v1\nkind: Event\nmetadata: {name: careless, namespace: default}\nreason: Careless\ntype: Normal\n\
         involvedObject: {apiVersion: k8s.ovn.org/v1alpha1, kind: Uplink, name: tenant-blue}\n",
    );
    writeln!(event, "message: \"curl -H 'Authorization: Bearer {JWT}'\"")?;
    world.rig.apply(&event).await.map(drop)
}

async fn uproot(world: &BlueWorld) -> anyhow::Result<()> {
    let gone = ["annotate", "uplink", blue::UPLINK, "example.com/login-token-", "example.com/note-"];
    world.rig.kubectl(gone).await.map(drop)
}

fn read_all(folder: &Path, into: &mut String) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, into)?;
        } else {
            into.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
