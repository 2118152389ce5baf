//! Size of the programs, and their memory on large clusters and machines.

use std::fmt::Write;

use anyhow::Context;
use causeway_rig::{Node, Rig, RigOptions, built_programs};

use super::crowd::Crowd;
use super::measure::{Goal, Taken};
use super::probe::Probe;
use super::process::{megabytes, resident};
use super::session::Session;
use super::stage::{FEATURES, Part};
use crate::manifests;

/// Uplinks of the large cluster.
const UPLINKS: usize = 100;
/// Its nodes: each Uplink has a state on each.
const NODES: usize = 10;
/// Links of the large machine, beside those of the rig.
const LINKS: usize = 2_000;
/// Its routes, beside those that addresses bring.
const ROUTES: usize = 20_000;
/// Name of the measure of the cluster manager.
const MANAGER: &str = "memory_cluster_manager_1000_states";
/// Names of the agents' measures begin with this.
const AGENTS: &str = "memory_20000_routes";

/// Size of each program's file.
///
/// # Errors
/// One was not built.
pub fn binaries(session: &Session) -> anyhow::Result<()> {
    let folder = built_programs()?;
    for part in Part::ALL {
        let path = folder.join(part.program());
        let metadata = std::fs::metadata(&path).with_context(|| format!("the size of {}", path.display()))?;
        let taken = Taken::values(part.measure("binary"), "MB", vec![megabytes(metadata.len())?]);
        session.tell(taken.goal(Goal::max(20.0)).incumbent("84.3"))?;
    }
    Ok(())
}

/// Memory of the cluster manager with many Uplinks and states.
///
/// # Errors
/// It could not be measured.
pub async fn large_cluster(session: &Session) -> anyhow::Result<()> {
    if !session.wants(MANAGER) {
        return Ok(());
    }
    let crowd = Crowd::gather(NODES, UPLINKS).await?;
    crowd.resolve_all().await?;
    let taken = Taken::values(MANAGER, "MB", vec![resident(&crowd.manager)?]);
    session.tell(taken.goal(Goal::max(24.0)).incumbent("123 with none, 308 with 500 networks"))
}

/// Memory of each agent on a machine with many links and routes.
///
/// # Errors
/// It could not be measured.
pub async fn large_machine(session: &Session) -> anyhow::Result<()> {
    let agents = [Part::Host, Part::Dpu, Part::Node];
    let names = agents.map(|part| part.measure(AGENTS));
    if !session.wants_any(names.iter().map(String::as_str)) {
        return Ok(());
    }
    let rig = Rig::start(RigOptions::bare()).await?;
    rig.apply(&manifests::folder("crds")?).await?;
    let node = rig.node("large").start().await?;
    let _ovs = node.ovs().await?;
    fill(&node).await?;
    for (number, (part, name)) in agents.into_iter().zip(names).enumerate() {
        let address = format!("127.0.0.1:{}", 9411 + number);
        let role = part.role().iter().map(|word| if word.starts_with("node-") { "large" } else { word });
        let arguments = FEATURES.into_iter().chain(["--metrics-bind-address", &address]).chain(role);
        let process = node.spawn_built(part.program(), arguments).await?;
        Probe::new(&node, &address)?.ready(&process).await?;
        let taken = Taken::values(name, "MB", vec![resident(&process)?]);
        session.tell(taken.goal(Goal::max(40.0)).incumbent("139 on an empty machine"))?;
        process.kill().await?;
    }
    Ok(())
}

/// Half of the links are the other ends of the rest.
async fn fill(node: &Node) -> anyhow::Result<()> {
    let mut links = String::new();
    for pair in 0..LINKS / 2 {
        writeln!(links, "link add v{pair} type veth peer name w{pair}")?;
    }
    node.ip_batch(&links).await.context("making links")?;
    let mut routes = String::from("link set v0 up\nlink set w0 up\naddr add 100.64.0.1/24 dev v0\n");
    for route in 0..ROUTES {
        writeln!(routes, "route add 11.{}.{}.0/24 via 100.64.0.2 dev v0", route / 256, route % 256)?;
    }
    node.ip_batch(&routes).await.context("making routes")
}
