//! A host and its simulated card.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::ensure;
use causeway_rig::{CardSide, FABRIC_V4, Level, Rig, RigOptions, SharedRig, Suite, simulated_mac};

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::bare());
    Suite::new()
        .test_in(&shared, Level::Switch, "traffic_of_the_host_leaves_through_the_bridge_of_its_card", traffic)
        .test_in(&shared, Level::Switch, "an_ovn_zone_binds_a_port_of_its_node", zone)
        .run()
}

async fn traffic(rig: Arc<Rig>) -> anyhow::Result<()> {
    let pair = rig.dpu_pair("node-a").start().await?;
    let ovs = pair.card.ovs().await?;
    ovs.add_bridge(&pair.card, "br-host").port("p0").port("rep0-16").create().await?;
    pair.host.ip(["addr", "add", "192.0.2.16/24", "dev", "eth0-16"]).await?;
    pair.host.exec(["ping", "-c1", "-W5", "-I", "eth0-16", &FABRIC_V4.to_string()]).await?;
    let want = simulated_mac("node-a", CardSide::Host, 16)?;
    let link = pair.host.ip(["-br", "link", "show", "eth0-16"]).await?;
    ensure!(link.contains(&want), "want {want}, have {link}");
    // Each side sees its own ends only, and both reach the API server.
    ensure!(pair.card.ip(["link", "show", "eth0-16"]).await.is_err(), "the card has the host's end");
    for side in [&pair.host, &pair.card] {
        let seen = side.exec(["kubectl", "get", "node", "node-a", "-o", "name"]).await?;
        ensure!(seen.trim() == "node/node-a", "{} sees {seen}", side.name());
    }
    Ok(())
}

async fn zone(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("zone-a").unregistered().start().await?;
    let ovs = node.ovs().await?;
    let zone = node.ovn_zone(&ovs).await?;
    zone.nbctl([
        "ls-add",
        "blue",
        "--",
        "lsp-add",
        "blue",
        "pod",
        "--",
        "lsp-set-addresses",
        "pod",
        "dynamic",
    ])
    .await?;
    ovs.vsctl(["--may-exist", "add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"])
        .await?;
    let port = ["add-port", "br-int", "pod", "--", "set", "Interface", "pod", "type=internal"];
    ovs.vsctl(port.into_iter().chain(["external_ids:iface-id=pod"])).await?;
    zone.nbctl(["--timeout=30", "--wait=hv", "sync"]).await?;
    zone.nbctl(["--timeout=30", "wait-until", "Logical_Switch_Port", "pod", "up=true"]).await?;
    Ok(())
}
