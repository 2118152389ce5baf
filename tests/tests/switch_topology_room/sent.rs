//! How much the agent sends to the Northbound database.

use anyhow::ensure;
use causeway_tests::topology::world::{Kind, NetworkSpec, World, rows};

pub(crate) async fn bytes() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    world.converged().await?;

    let (before, transactions) = (world.sent_bytes().await?, world.transactions().await?);
    world.add(&[NetworkSpec::new("cluster_udn_blue", 1, Kind::Layer3)]).await?;
    let have = world.converged().await?;
    world.until_transactions(transactions + 1).await?;
    let network = world.sent_bytes().await? - before;
    // Every row of the network says whose it is, in what was sent too.
    let name = "cluster_udn_blue";
    let marked = rows(&have).values().filter(|row| row.contains(name)).count();
    let least = u64::try_from(marked * name.len())?;
    ensure!(marked > 0 && network > least, "{network} bytes for {marked} rows with the network's name");

    // A node that joins costs its own part of the networks, not all that they have.
    let (before, transactions) = (world.sent_bytes().await?, world.transactions().await?);
    world.join(3).await?;
    world.converged().await?;
    world.until_transactions(transactions + 1).await?;
    let node = world.sent_bytes().await? - before;
    ensure!(node > 0 && node < network, "a node: {node} bytes, a network: {network}");
    Ok(())
}
