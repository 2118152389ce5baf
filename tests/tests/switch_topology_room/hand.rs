//! What others do to the Northbound database.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_dpu_agent::topology::northbound::LogicalSwitch;
use causeway_tests::topology::world::{World, rows};

use crate::life::one_of_each;

/// Rows of somebody else, in rows of ours and beside them.
const FOREIGN: [&[&str]; 8] = [
    &["ls-add", "foreign", "--", "lsp-add", "foreign", "foreign-port"],
    &["lr-add", "foreign-router"],
    &["lr-route-add", "GR_node1", "192.0.2.0/24", "172.30.0.9"],
    &["lr-route-add", "cluster_udn_blue_ovn_cluster_router", "192.0.2.0/24", "100.65.0.2"],
    &["lr-nat-add", "GR_node1", "snat", "172.30.0.9", "10.128.0.77"],
    &["lsp-add", "cluster_udn_blue_node1", "ns_pod"],
    &["acl-add", "node1", "to-lport", "900", "ip4", "drop"],
    &["lr-policy-add", "ovn_cluster_router", "1004", "ip4.src == 192.0.2.1", "drop"],
];

/// What hands do to rows of ours.
const HANDS: [&[&str]; 13] = [
    &["lsp-set-addresses", "tstor-node2", "unknown"],
    &["lsp-del", "cluster_udn_blue_tstor-node2"],
    &["lr-route-del", "cluster_udn_green_transit_router", "100.65.0.3"],
    &["lr-nat-del", "GR_cluster_udn_blue_node1", "snat", "10.200.0.0/16"],
    &["lrp-del", "rtoj-GR_cluster_udn_blue_node1"],
    &["lrp-del-gateway-chassis", "rtos-cluster_udn_blue_node1", "chassis-1"],
    &["remove", "Logical_Switch", "node1", "other_config", "subnet"],
    &["clear", "Logical_Switch", "ns_flat_ovn_layer2_switch", "external_ids"],
    &["clear", "Logical_Router", "GR_node1", "copp"],
    &["clear", "Logical_Switch", "cluster_udn_green_ovn_layer2_switch", "load_balancer_group"],
    &["lr-policy-del", "cluster_udn_blue_ovn_cluster_router", "1004"],
    &["lr-del", "cluster_udn_green_transit_router"],
    &["ls-del", "cluster_udn_blue_join"],
];

/// What hands do to rows that are in no other row.
const LOOSE: [&[&str]; 5] = [
    &["set", "NB_Global", ".", "options:name=another"],
    &["--all", "destroy", "Copp"],
    &["set", "Meter", "arp-rate-limiter", "unit=kbps"],
    &["--all", "destroy", "Static_MAC_Binding"],
    &["--all", "destroy", "Port_Group"],
];

pub(crate) async fn restored() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.join(2).await?;
    world.add(&one_of_each()).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    world.converged().await?;
    let ours = rows(&world.store.current()?);
    for command in FOREIGN {
        world.zone.nbctl(command).await?;
    }
    let note = ["set", "Logical_Switch", "node1", "external_ids:note=mine"];
    world.zone.nbctl(note).await?;
    let noted = |have: &ovsdb::Snapshot| {
        have.find_one(LogicalSwitch::by_name(), "node1")
            .is_some_and(|(_, row)| row.external_ids.contains_key("note"))
    };
    let with_foreign = rows(&world.until("the note", noted).await?);
    let foreign: BTreeSet<_> = with_foreign.keys().filter(|key| !ours.contains_key(key)).collect();
    ensure!(foreign.len() == 9, "{foreign:?}");

    for command in HANDS.iter().chain(&LOOSE) {
        let before = world.store.last_known();
        world.zone.nbctl(*command).await.with_context(|| format!("{command:?}"))?;
        // The store has seen the hand's change before it can see what follows from it.
        world.until("the hand", |have| have.generation() > before.generation()).await?;
        world.converged().await.with_context(|| format!("after {command:?}"))?;
    }
    let after = rows(&world.converged().await?);
    for key in foreign {
        // The switch and router that a foreign row is in may have been made anew; the row itself is the same.
        let same = after.get(key) == with_foreign.get(key);
        ensure!(same, "{key:?}: {:?} instead of {:?}", after.get(key), with_foreign.get(key));
    }
    ensure!(after.len() == with_foreign.len(), "{} rows instead of {}", after.len(), with_foreign.len());
    let have = world.store.current()?;
    ensure!(noted(&have), "the note is gone");
    Ok(())
}

pub(crate) async fn foreign() -> anyhow::Result<()> {
    let mut world = World::start().await?;
    world.add(&one_of_each()).await?;
    let _agent = world.agent().await?;
    world.ready().await?;
    world.converged().await?;
    let heard = async || world.metric("causeway_topology_database_changes_total").await;
    // Whatever came before a change that was put right has been heard; of its own repair the agent may hear later.
    for _ in 0..2 {
        by_hand(&world).await?;
    }
    let (before, transactions) = (heard().await?, world.transactions().await?);
    for command in FOREIGN {
        world.zone.nbctl(command).await?;
    }
    by_hand(&world).await?;
    let (after, sent) = (heard().await?, world.transactions().await? - transactions);
    ensure!(after - before <= 3, "rows of others were looked at: {before}, then {after}");
    ensure!(sent == 1, "{sent} transactions");
    Ok(())
}

async fn by_hand(world: &World) -> anyhow::Result<()> {
    let before = world.store.last_known();
    world.zone.nbctl(["remove", "Logical_Switch", "node1", "other_config", "subnet"]).await?;
    world.until("the hand", |have| have.generation() > before.generation()).await?;
    world.converged().await.map(drop)
}
