//! Changes that only a kernel with switchdev, VLANs, bonds and VRFs has: how long an agent takes from the change to its
//! decision, by its own metric.
//!
//! The agents run in a User Mode Linux kernel, the API server outside it. What follows the decision, a request, takes much
//! longer there than anywhere else, so it is not part of this. [`guest`] is the side inside.

pub mod guest;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use causeway_api::manager::FieldManager;
use causeway_rig::{Level, Rig, RigOptions, Settings, UplinkAnnotations, require};

use super::measure::{Goal, Taken};
use super::react::INCUMBENT;
use super::session::Session;
use crate::manifests;
use crate::states::state_says;

/// Sets up devices, switch and agents inside the kernel.
const SCRIPT: &str = include_str!("kernel/guest.sh");
/// How long everything inside may take, at least.
const PATIENCE: Duration = Duration::from_mins(5);
/// Goal of each decision, in ms.
const DECIDED: f64 = 15.0;
/// Name of the file that lets the side inside begin.
const BEGIN: &str = "begin";

/// Takes every measure of this kind that is wanted.
///
/// # Errors
/// One could not be taken.
pub async fn run(session: &Session) -> anyhow::Result<()> {
    if !session.wants_any(guest::Kind::ALL.map(guest::Kind::measure)) {
        return Ok(());
    }
    require(Level::Kernel, &Settings::from_env()?).context("the test kernel")?;
    let rig = Rig::start(RigOptions::bare()).await?;
    objects(&rig).await?;
    let work = rig.folder().join("bench");
    std::fs::create_dir(&work)?;
    std::fs::write(work.join("guest.sh"), SCRIPT)?;
    let changes = session.changes().div_ceil(5).max(2);
    let command = ["bash", "/causeway/work/guest.sh", &changes.to_string()].map(str::to_owned);
    let kernel = rig.uml("bench").work(&work).command(command).boot().await?;
    let out = kernel.out();
    let output = tokio::select! {
        begun = begin(&rig, &out) => {
            begun?;
            kernel.finish(PATIENCE).await?
        }
        ended = kernel.finish(PATIENCE) => {
            let output = ended?;
            bail!("the kernel's side ended early, status {}:\n{}", output.status, output.console)
        }
    };
    ensure!(output.status == 0, "status {}:\n{}", output.status, output.console);
    for kind in guest::Kind::ALL {
        let path = out.join(kind.measure());
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let samples: Vec<f64> = serde_json::from_str(&text).context("samples")?;
        let taken = Taken::values(kind.measure(), "ms", samples).incumbent(INCUMBENT);
        session.tell(taken.goal(Goal::median(DECIDED)).goal(Goal::p99(DECIDED)))?;
    }
    Ok(())
}

/// Nodes and an Uplink for each thing that changes.
async fn objects(rig: &Rig) -> anyhow::Result<()> {
    rig.apply(&manifests::folder("crds")?).await?;
    for node in ["card", "host", "regular"] {
        let annotations = serde_json::to_string(&UplinkAnnotations::default().render(node))?;
        let metadata = format!("{{name: {node}, labels: {{role: {node}}}, annotations: {annotations}}}");
        rig.apply(&format!("{{apiVersion: v1, kind: Node, metadata: {metadata}}}")).await?;
    }
    let uplinks = [
        ("switchdev", "card", "ens1f0v1"),
        ("vrf", "host", "up0"),
        ("vlan", "host", "up0.100"),
        ("bond", "regular", "br-bond"),
    ];
    for (name, node, interface) in uplinks {
        rig.apply(&format!(
            "apiVersion: k8s.ovn.org/v1alpha1\nkind: Uplink\nmetadata: {{name: {name}}}\nspec:\n  nodeConfigs:\n  \
             - type: OVSBridge\n    nodeSelector: {{matchLabels: {{role: {node}}}}}\n    \
             hostInterfaceName: {interface}\n"
        ))
        .await?;
    }
    Ok(())
}

/// Plays the host of the card, waits until everything is found, and lets the side inside begin.
async fn begin(rig: &Rig, out: &Path) -> anyhow::Result<()> {
    let client = rig.client();
    state_says(&client, "switchdev.card", "Resolved", "False/WaitingForDPUHost").await?;
    let half = "apiVersion: k8s.ovn.org/v1alpha1\nkind: UplinkState\nmetadata: {name: switchdev.card}\n\
                spec: {uplinkName: switchdev, nodeName: card}\nstatus:\n  type: OVSBridge\n  \
                hostInterfaceName: ens1f0v1\n  macAddress: 02:00:00:00:01:01\n  ipAddresses: [192.0.2.10/24]\n  \
                hostFunction: {pfID: 0, vfID: 1}\n";
    rig.apply_as(FieldManager::DiscoveryDpuHost.as_str(), half).await?;
    for (state, condition, want) in [
        ("switchdev.card", "Resolved", "True/Resolved"),
        ("bond.regular", "Resolved", "True/Resolved"),
        ("vrf.host", "HostDataReady", "True/HostDataDiscovered"),
        ("vlan.host", "HostDataReady", "True/HostDataDiscovered"),
    ] {
        state_says(&client, state, condition, want).await?;
    }
    std::fs::write(out.join(BEGIN), "").context("letting the side inside begin")?;
    // The side inside goes on by itself.
    Ok(())
}
