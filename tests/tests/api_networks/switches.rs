//! What switches of the cluster manager change, on a real API server.

use std::time::Duration;

use anyhow::ensure;
use causeway_rig::{Rig, RigOptions};
use causeway_tests::{access, manifests};

use crate::{Manager, ORDERLY};

/// How long a busy machine may take for what usually takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(30);

const NETWORK: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: "", team: blue}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: blue}
spec:
  namespaceSelector: {matchLabels: {team: blue}}
  uplinks: [ext]
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16, hostSubnet: 24}]}
"#;

const NODES: &str = r"
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/os: linux}}
---
apiVersion: v1
kind: Node
metadata: {name: w1, labels: {kubernetes.io/os: windows}}
";

async fn world() -> anyhow::Result<Rig> {
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    access::install(&rig).await?;
    Ok(rig)
}

fn flags(more: &[&str]) -> Vec<String> {
    let networks = [
        "--init-cluster-manager",
        "cm0",
        "--gateway-mode",
        "shared",
        "--enable-multi-network",
        "--enable-network-segmentation",
    ];
    networks.iter().chain(more).map(|flag| (*flag).to_owned()).collect()
}

/// Waits until what kubectl prints is as wanted.
async fn becomes(
    rig: &Rig,
    what: &[&str],
    wanted: impl Fn(&str) -> bool + Send + Sync,
) -> anyhow::Result<()> {
    let look = || async {
        let text = rig.kubectl(what).await.map_err(|error| format!("{error:#}"))?;
        if wanted(text.trim()) { Ok(()) } else { Err(text) }
    };
    rig.wait_for(&format!("{what:?}"), DEADLINE, look).await
}

/// The finalizer of Uplinks and what networks say of them.
pub(crate) async fn uplinks_off() -> anyhow::Result<()> {
    let rig = world().await?;
    rig.apply(&manifests::uplink("ext", &[("{}", "br-ext")])).await?;
    rig.apply(NETWORK).await?;
    let on = Manager::start_on(&rig, "on", &flags(&["--enable-uplink"])).await?;
    let finalizers = ["get", "uplink", "ext", "-o", "jsonpath={.metadata.finalizers}"];
    let ready =
        ["get", "cudn", "blue", "-o", r#"jsonpath={.status.conditions[?(@.type=="UplinksReady")].reason}"#];
    becomes(&rig, &finalizers, |text| text.contains("k8s.ovn.org/uplink-protection")).await?;
    becomes(&rig, &ready, |text| !text.is_empty()).await?;
    on.process.stop(ORDERLY).await?;

    let _off = Manager::start_on(&rig, "off", &flags(&[])).await?;
    becomes(&rig, &finalizers, str::is_empty).await?;
    becomes(&rig, &ready, str::is_empty).await?;
    let created = r#"jsonpath={.status.conditions[?(@.type=="NetworkCreated")].message}"#;
    let ignored = "spec.uplinks is set but the Uplink feature is disabled, ignoring this CUDN";
    becomes(&rig, &["get", "cudn", "blue", "-o", created], |text| text == ignored).await?;
    // Nothing keeps it any more.
    rig.kubectl(["delete", "uplink", "ext", "--timeout=20s"]).await?;
    Ok(())
}

/// Nodes without subnets, and metrics with a series for each network.
pub(crate) async fn nodes() -> anyhow::Result<()> {
    let rig = world().await?;
    let network = NETWORK.replace("  uplinks: [ext]\n", "");
    rig.apply(&network).await?;
    rig.apply(NODES).await?;
    let more = ["--no-hostsubnet-nodes", "kubernetes.io/os=windows", "--metrics-enable-scale"];
    let manager = Manager::start(&rig, &flags(&more)).await?;
    let subnets =
        |node| ["get", "node", node, "-o", r"jsonpath={.metadata.annotations.k8s\.ovn\.org/node-subnets}"];
    let id = |node| ["get", "node", node, "-o", r"jsonpath={.metadata.annotations.k8s\.ovn\.org/node-id}"];
    becomes(&rig, &subnets("n1"), |text| text.contains("cluster_udn_blue") && text.contains("default"))
        .await?;
    becomes(&rig, &id("w1"), |text| !text.is_empty()).await?;
    let windows = rig.kubectl(subnets("w1")).await?;
    ensure!(windows.trim().is_empty(), "{windows}");
    for metric in ["udn_nad_sync_duration_seconds_count", "udn_update_node_annotation_duration_seconds_count"]
    {
        let series = format!("ovnkube_clustermanager_{metric}{{name=\"cluster_udn_blue\"}}");
        manager.serves(&rig, &series, |passes| passes > 0).await?;
    }
    rig.kubectl(["label", "node", "w1", "kubernetes.io/os=linux", "--overwrite"]).await?;
    becomes(&rig, &subnets("w1"), |text| text.contains("cluster_udn_blue")).await
}
