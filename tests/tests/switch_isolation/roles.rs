//! Which program of a node calls nft.

use std::sync::Arc;

use anyhow::ensure;
use causeway_rig::{Node, Rig};
use causeway_tests::isolation::{DEADLINE, DUAL, ON, PodSpec, World};

/// A folder with an `nft` of the test's own, before all others.
const PATH: &str = "/counted:/usr/sbin:/usr/bin:/sbin:/bin";

/// Puts an `nft` in place that counts its calls in a file.
async fn count_calls(node: &Node) -> anyhow::Result<()> {
    node.write("/counted/nft", "#!/bin/sh\necho called >>/counted/calls\nexec /usr/sbin/nft \"$@\"\n")?;
    node.write("/counted/calls", "")?;
    node.exec(["chmod", "+x", "/counted/nft"]).await.map(drop)
}

async fn calls(node: &Node) -> anyhow::Result<usize> {
    Ok(node.exec(["cat", "/counted/calls"]).await?.lines().count())
}

pub(crate) async fn without_nft(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "without-nft").await?;
    world.make(&PodSpec::locked("one", &["10.129.9.1"])).await?;
    let program = world.program("node-agent", &[&ON, &DUAL]).env("PATH", "/counted:/usr/bin:/bin");
    let agent = world.node.spawn(program).await?;
    let says =
        |text: &str| text.contains("the program \"nft\" is not installed; nftables 1.0.1 or newer is needed");
    world.until_readiness("that nft is missing", says).await?;
    ensure!(agent.is_running(), "{}", agent.log_text()?);
    count_calls(&world.node).await?;
    world.ready().await?;
    world.converged().await?;
    Ok(())
}

pub(crate) async fn split(rig: Arc<Rig>) -> anyhow::Result<()> {
    // On the host's side everything is as on a regular node.
    let host = World::start(rig, "split").await?;
    host.make(&PodSpec::locked("one", &["10.129.10.1"])).await?;
    count_calls(&host.node).await?;
    let on_the_host: [&str; 2] = ["--ovnkube-node-mode", "dpu-host"];
    let program = host.program("host-agent", &[&ON, &DUAL, &on_the_host]).env("PATH", PATH);
    let host_agent = host.node.spawn(program).await?;
    host.ready().await?;
    host.converged().await?;
    ensure!(calls(&host.node).await? > 0, "the counter does not count");
    drop(host_agent);
    // On the card nothing is called, with isolation on and off, and nothing is missed where there is no nft.
    let card = host.another("card").await?;
    count_calls(&card.node).await?;
    let on_the_card = ["--ovnkube-node-mode", "dpu", "--enable-uplink"];
    let off: [&str; 0] = [];
    for switches in [ON.as_slice(), &off] {
        let mode = if switches.is_empty() { &on_the_card[..2] } else { &on_the_card[..] };
        let program = card.program("dpu-agent", &[switches, &DUAL, mode]).env("PATH", PATH);
        let agent = card.node.spawn(program).await?;
        // The kernel's interfaces are known: everything that this program ever starts has been started.
        let look = || async {
            let text = card.ask("/readyz").await.map_err(|error| format!("{error:#}"))?;
            if text.contains("kernel") || text.contains("isolation") { Err(text) } else { Ok(()) }
        };
        card.rig().wait_for("the card's agent to know its interfaces", DEADLINE, look).await?;
        ensure!(
            card.ask("/metrics").await?.matches("causeway_isolation").count() == 0,
            "isolation runs on a card"
        );
        agent.stop(DEADLINE).await?;
        ensure!(calls(&card.node).await? == 0, "the card's agent called nft");
    }
    ensure!(card.nft(&["list", "ruleset"]).await?.trim().is_empty(), "a card has rules");
    Ok(())
}
