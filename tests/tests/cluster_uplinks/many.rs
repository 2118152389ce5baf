//! Several Uplinks on one node.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::UplinkState;
use causeway_tests::blue;
use causeway_tests::states;
use kube::ResourceExt;
use kube::api::ListParams;

use crate::facts::{shell, uplink_of};
use crate::world::World;

/// Two Uplinks may share an interface: each has a state of its own that says the same.
pub(crate) async fn two(world: &mut World) -> anyhow::Result<()> {
    let second = [("node-a", blue::CARD_INTERFACE), ("node-b", blue::BRIDGE)];
    let yaml = second.map(|(node, interface)| uplink_of(&format!("second-{node}"), node, interface));
    for yaml in &yaml {
        world.rig.apply(yaml).await?;
    }
    world.says("second-node-a.node-a", &World::whole_card()).await?;
    world.says("second-node-b.node-b", &world.whole_regular()).await?;
    for yaml in &yaml {
        world.rig.delete(yaml).await?;
    }
    world.state_is_gone("second-node-a.node-a").await?;
    world.state_is_gone("second-node-b.node-b").await
}

/// Ten Uplinks on ten bridges: each is found, and what breaks one is written to one state only.
pub(crate) async fn ten(world: &mut World) -> anyhow::Result<()> {
    let (mut links, mut bridges, mut uplinks) =
        (String::new(), String::from("ovs-vsctl --timeout=60"), String::new());
    let mut clean = String::from("ovs-vsctl --timeout=60");
    let (mut addresses, mut removed) = (String::new(), String::new());
    for index in 0..10 {
        writeln!(links, "link add w{index} type veth peer name v{index}")?;
        write!(
            bridges,
            " -- add-br m{index} -- set Bridge m{index} datapath_type=netdev -- add-port m{index} w{index}"
        )?;
        writeln!(addresses, "addr add 10.77.{index}.2/24 dev m{index}")?;
        write!(clean, " -- del-br m{index}")?;
        writeln!(removed, "link del w{index}")?;
        uplinks.push_str("---\n");
        uplinks.push_str(&uplink_of(&format!("many-{index}"), "node-b", &format!("m{index}")));
    }
    let node = &world.node_b;
    node.ip_batch(&links).await?;
    shell(node, &bridges).await?;
    node.ip_batch(&addresses).await?;
    world.rig.apply(&uplinks).await?;
    for index in 0..10 {
        let name = format!("many-{index}.node-b");
        let state = states::state_says(&world.client(), &name, "Resolved", "True/Resolved").await?;
        let status = state.status_or_default();
        ensure!(status.ip_addresses == [format!("10.77.{index}.2/24")], "{status:?}");
        let bridge = status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.as_deref());
        ensure!(bridge == Some(&*format!("m{index}")), "{bridge:?}");
    }
    let before = versions(world).await?;
    shell(node, "ovs-vsctl --timeout=30 del-port m7 w7; ip addr del 10.77.3.2/24 dev m3").await?;
    let client = world.client();
    states::state_says(&client, "many-7.node-b", "Resolved", "False/BridgeUplinkNotFound").await?;
    states::state_says(&client, "many-3.node-b", "Resolved", "False/GatewayInfoUnavailable").await?;
    crate::agents::Agent::Node.settle(world).await?;
    let after = versions(world).await?;
    let changed: Vec<&str> = after
        .iter()
        .filter(|(name, version)| before.get(*name) != Some(version))
        .map(|(name, _)| &**name)
        .collect();
    ensure!(changed == ["many-3.node-b", "many-7.node-b"], "written: {changed:?}");
    world.rig.delete(&uplinks).await?;
    for index in 0..10 {
        world.state_is_gone(&format!("many-{index}.node-b")).await?;
    }
    shell(node, &clean).await?;
    node.ip_batch(&removed).await
}

async fn versions(world: &World) -> anyhow::Result<BTreeMap<String, String>> {
    let list = world.states().list(&ListParams::default()).await.context("listing states")?;
    let version = |state: UplinkState| Some((state.name_any(), state.resource_version()?));
    Ok(list.items.into_iter().filter_map(version).collect())
}
