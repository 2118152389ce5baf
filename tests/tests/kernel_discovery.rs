//! Discovery where only a real kernel has it: switchdev representors, VRFs, bonds and VLANs. The API server is outside.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use causeway_api::uplink_state::{UplinkState, UplinkStateStatus};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite, UplinkAnnotations, wait_object};
use causeway_tests::manifests;
use causeway_tests::states::{message, verdict};
use kube::Api;

/// How long the kernel's work may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(90);

/// The kernel's side of the story. It waits for files that the test outside makes.
const GUEST: &str = include_str!("kernel_discovery/guest.sh");

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(
            &shared,
            Level::Kernel,
            "representors_vrfs_bonds_and_vlans_are_found_on_a_real_kernel",
            story,
        )
        .run()
}

async fn story(rig: Arc<Rig>) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    for node in ["card", "host", "regular"] {
        rig.apply(&node_yaml(node)?).await?;
    }
    let uplinks = [
        ("switchdev", "card", "ens1f0v1"),
        ("vrf", "host", "up0"),
        ("bonded", "regular", "br-bond"),
        ("tagged", "regular", "br-vlan"),
        ("bonded-tagged", "regular", "br-bond-vlan"),
        ("vlan-host", "host", "up0.100"),
    ];
    for (name, node, interface) in uplinks {
        rig.apply(&uplink_yaml(name, node, interface)).await?;
    }
    let work = rig.folder().join("discovery");
    std::fs::create_dir(&work)?;
    std::fs::write(work.join("guest.sh"), GUEST)?;
    let kernel = rig.uml("discovery").work(&work).command(["bash", "/causeway/work/guest.sh"]).boot().await?;
    let out = kernel.out();
    let told = tokio::select! {
        told = chapters(&rig, &out) => told,
        ended = kernel.finish(DEADLINE) => {
            let output = ended?;
            bail!("the kernel's side ended early, status {}:\n{}", output.status, output.console)
        }
    };
    step(&out, "end")?;
    let output = kernel.finish(DEADLINE).await?;
    told.with_context(|| output.console.clone())?;
    ensure!(output.status == 0, "status {}:\n{}", output.status, output.console);
    Ok(())
}

async fn chapters(rig: &Rig, out: &Path) -> anyhow::Result<()> {
    // The host of the card is played by the test: netdevsim has no side of the virtual functions.
    state(rig, "switchdev.card", "waiting for the host", |state| {
        verdict(state.conditions(), "Resolved") == "False/WaitingForDPUHost"
    })
    .await?;
    play_host(rig, 1).await?;
    let found = resolved(rig, "switchdev.card").await?;
    ensure!(bridge(&found) == Some("br-tenant"), "{found:?}");
    let text = message(found.conditions(), "Resolved");
    ensure!(text == "Uplink DPU bridge discovery succeeded via host function", "{text}");

    play_host(rig, 9).await?;
    let lost = state(rig, "switchdev.card", "a function without a representor", |state| {
        verdict(state.conditions(), "Resolved") == "False/BridgeNotFound"
    })
    .await?;
    let text = message(lost.conditions(), "Resolved");
    ensure!(
        text.contains("failed to find representor for host function pf0vf9: found pf0vf0, pf0vf1"),
        "{text}"
    );

    // Bonds and VLANs of the kernel are ordinary links to Open vSwitch.
    for (name, interface) in [
        ("bonded.regular", "br-bond"),
        ("tagged.regular", "br-vlan"),
        ("bonded-tagged.regular", "br-bond-vlan"),
    ] {
        let found = resolved(rig, name).await?;
        ensure!(bridge(&found) == Some(interface), "{found:?}");
    }
    let tagged = host_data(rig, "vlan-host.host", "a VLAN interface's data", |status| {
        status.ip_addresses == ["198.51.101.2/24"]
    })
    .await?;
    ensure!(tagged.default_gateways.is_empty(), "{tagged:?}");

    // In the main table, in the VRF's table, and nowhere.
    let gateway =
        |want: &'static [&'static str]| move |status: &UplinkStateStatus| status.default_gateways == want;
    host_data(rig, "vrf.host", "the gateway of the main table", gateway(&["198.51.100.1"])).await?;
    step(out, "enslave")?;
    host_data(rig, "vrf.host", "no gateway in the VRF yet", gateway(&[])).await?;
    step(out, "vrf-default")?;
    let moved =
        host_data(rig, "vrf.host", "the gateway of the VRF's table", gateway(&["198.51.100.254"])).await?;
    ensure!(moved.ip_addresses == ["198.51.100.2/24"], "{moved:?}");
    let state: UplinkState = Api::all(rig.client()).get("vrf.host").await?;
    ensure!(verdict(state.conditions(), "HostDataReady") == "True/HostDataDiscovered", "{state:?}");
    Ok(())
}

fn node_yaml(name: &str) -> anyhow::Result<String> {
    let annotations = serde_json::to_string(&UplinkAnnotations::default().render(name))?;
    Ok(format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{role: {name}}}, annotations: {annotations}}}}}"
    ))
}

fn uplink_yaml(name: &str, node: &str, interface: &str) -> String {
    manifests::uplink(name, &[(&format!("{{matchLabels: {{role: {node}}}}}"), interface)])
}

/// Publishes the host's half for a virtual function, as its host agent would.
async fn play_host(rig: &Rig, vf: i32) -> anyhow::Result<()> {
    let yaml = format!(
        "apiVersion: k8s.ovn.org/v1alpha1\nkind: UplinkState\nmetadata: {{name: switchdev.card}}\n\
         spec: {{uplinkName: switchdev, nodeName: card}}\nstatus:\n  type: OVSBridge\n  hostInterfaceName: ens1f0v1\n  \
         macAddress: 02:00:00:00:01:0{vf}\n  ipAddresses: [192.0.2.10/24]\n  hostFunction: {{pfID: 0, vfID: {vf}}}\n"
    );
    rig.apply_as("ovnkube-node-uplink-controller-dpu-host", &yaml).await?;
    Ok(())
}

fn step(out: &Path, name: &str) -> anyhow::Result<()> {
    std::fs::write(out.join(format!("step-{name}")), "").with_context(|| format!("step {name}"))
}

async fn state(
    rig: &Rig,
    name: &str,
    what: &str,
    accept: impl Fn(&UplinkState) -> bool,
) -> anyhow::Result<UplinkState> {
    let accept = |state: Option<&UplinkState>| state.is_some_and(&accept);
    let found = wait_object(Api::all(rig.client()), name, what, DEADLINE, accept).await?;
    found.with_context(|| format!("there is no UplinkState {name}"))
}

async fn resolved(rig: &Rig, name: &str) -> anyhow::Result<UplinkState> {
    state(rig, name, "Resolved", |state| verdict(state.conditions(), "Resolved") == "True/Resolved").await
}

async fn host_data(
    rig: &Rig,
    name: &str,
    what: &str,
    accept: impl Fn(&UplinkStateStatus) -> bool,
) -> anyhow::Result<UplinkStateStatus> {
    let is_ready = |state: &UplinkState| verdict(state.conditions(), "HostDataReady").starts_with("True");
    let found = state(rig, name, what, |state| is_ready(state) && accept(&state.status_or_default())).await?;
    Ok(found.status_or_default().into_owned())
}

fn bridge(state: &UplinkState) -> Option<&str> {
    state.status.as_ref()?.ovs_bridge.as_ref()?.name.as_deref()
}
