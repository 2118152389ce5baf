//! What has to meet across zones, and what must not.

use anyhow::{Context, ensure};

use super::pods::{Family, Side};
use super::trace::Target;
use super::world::World;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Networks with a subnet for each node.
    Routed,
    /// The same without a way out.
    RoutedSecondary,
    /// One subnet over all nodes, with the transit router.
    Flat,
    /// The way from a pod over the transit router to another node's gateway router.
    TransitRouter,
    /// One subnet over all nodes, without a router.
    FlatSecondary,
    /// One subnet in the underlay.
    Localnet,
    /// Tenants with the same addresses.
    Overlap,
    /// What is kept of a pair that does not meet.
    Traces,
}

impl Case {
    /// All, with what each shows.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Routed, "pods_of_primary_layer3_networks_meet_across_zones_by_two_routers"),
        (Self::RoutedSecondary, "pods_of_a_secondary_layer3_network_meet_across_zones_by_two_routers"),
        (Self::Flat, "pods_of_a_primary_layer2_network_are_in_one_broadcast_domain_over_both_zones"),
        (Self::TransitRouter, "the_transit_router_leads_to_the_gateway_router_of_the_other_zone"),
        (
            Self::FlatSecondary,
            "pods_of_a_secondary_layer2_network_are_in_one_broadcast_domain_over_both_zones",
        ),
        (Self::Localnet, "pods_of_a_localnet_network_meet_through_the_physical_network"),
        (Self::Overlap, "tenants_with_the_same_subnets_do_not_meet"),
        (Self::Traces, "a_pair_that_does_not_meet_leaves_traces_of_its_packets"),
    ];

    /// Runs it.
    ///
    /// # Errors
    /// What does not hold.
    pub async fn run(self, world: &World) -> anyhow::Result<()> {
        match self {
            // The cluster's own network is one, too.
            Self::Routed => {
                routed(world, "default").await?;
                routed(world, "blue").await
            }
            Self::RoutedSecondary => routed(world, "second").await,
            Self::Flat => flat(world, "green", "10.201.255.255").await,
            Self::TransitRouter => transit_router(world).await,
            Self::FlatSecondary => flat(world, "flat", "10.210.255.255").await,
            Self::Localnet => {
                flat(world, "local", "10.212.0.255").await?;
                flat(world, "tagged", "10.212.0.255").await
            }
            Self::Overlap => {
                for (one, other) in [("blue", "red"), ("green", "mint"), ("local", "tagged")] {
                    apart(world, one, other).await.with_context(|| format!("{one} and {other}"))?;
                }
                Ok(())
            }
            Self::Traces => traces(world).await,
        }
    }
}

/// Pods of both zones meet in both directions and families, by the distributed router of each zone.
async fn routed(world: &World, network: &str) -> anyhow::Result<()> {
    for from in Side::ALL {
        for family in Family::ALL {
            let reply =
                world.meet(world.pod(network, from)?, world.pod(network, from.other())?, family, 1).await?;
            ensure!(reply.ttl == 62, "{network}: {reply:?}");
        }
    }
    Ok(())
}

/// Pods of both zones meet without a router between them, and hear each other's broadcasts.
async fn flat(world: &World, network: &str, broadcast: &str) -> anyhow::Result<()> {
    let (west, east) = (world.pod(network, Side::West)?, world.pod(network, Side::East)?);
    for (from, to) in [(west, east), (east, west)] {
        for family in Family::ALL {
            let reply = world.meet(from, to, family, 1).await?;
            ensure!(reply.ttl == 64, "{network}: {reply:?}");
        }
    }
    for (from, to) in [(west, east), (east, west)] {
        let before = world.heard(to, Family::V4).await?;
        // Nobody need answer: in switches with stateful rules an answer to a broadcast belongs to no connection.
        world.call(from, broadcast).await?;
        // What was sent before has arrived before; the other family is counted apart.
        world.meet(from, to, Family::V6, 1).await?;
        let after = world.heard(to, Family::V4).await?;
        ensure!(after == before + 3, "{network}: {} broadcasts", after - before);
    }
    Ok(())
}

/// From a pod to the join address of the other zone's gateway router, which no switch leads to.
async fn transit_router(world: &World) -> anyhow::Result<()> {
    // Node ids are the nodes' numbers plus one. Source: ovn-kubernetes, the default join subnets of networks of users.
    for (zone, id) in [(Side::West, 3), (Side::East, 2)] {
        for address in [format!("100.65.0.{id}"), format!("fd99::{id}")] {
            let to = Target { name: "join".to_owned(), address: address.parse()?, mac: None };
            let reply = world.answered(world.pod("green", zone)?, &to).await?;
            ensure!(reply.from == address, "{reply:?}");
        }
    }
    Ok(())
}

/// Two tenants with the same addresses in both zones.
async fn apart(world: &World, one: &str, other: &str) -> anyhow::Result<()> {
    let only = world.only_pod(other)?;
    for family in Family::ALL {
        // Who asks for an address that both have gets to the own pod, and the other one hears nothing.
        for (tenant, stranger) in [(one, other), (other, one)] {
            let (from, to) = (world.pod(tenant, Side::West)?, world.pod(tenant, Side::East)?);
            let twin = world.pod(stranger, Side::East)?;
            ensure!(to.address(family) == twin.address(family), "they do not overlap");
            let before = (world.heard(to, family).await?, world.heard(twin, family).await?);
            world.meet(from, to, family, 3).await?;
            let after = (world.heard(to, family).await?, world.heard(twin, family).await?);
            ensure!(after.0 >= before.0 + 3 && after.1 == before.1, "{tenant}: from {before:?} to {after:?}");
        }
        // An address that only the other has is one for it alone.
        let (stranger, owner) = (world.pod(one, Side::West)?, world.pod(other, Side::West)?);
        world.meet(owner, only, family, 1).await?;
        let before = world.heard(only, family).await?;
        world.silent(stranger, only, family).await?;
        // What was sent before has arrived before.
        world.meet(stranger, world.pod(one, Side::East)?, family, 1).await?;
        ensure!(world.heard(only, family).await? == before, "{} hears {one}", only.port());
    }
    Ok(())
}

async fn traces(world: &World) -> anyhow::Result<()> {
    let (from, to) = (world.pod("blue", Side::West)?, world.only_pod("red")?);
    let error = world.meet_within(from, to, Family::V4, 1, 1).await.err().context("they meet")?.to_string();
    let name = format!("{}-to-{}-v4", from.port(), to.port());
    ensure!(error.contains(&name), "{error}");
    let folder = error.split_once("traces are in ").and_then(|(_, rest)| rest.lines().next());
    let folder = std::path::Path::new(folder.context("a folder")?);
    for (file, holds) in [
        // As far as the sender's zone goes: into the tunnel to the other.
        ("sender-ovn-trace.txt", "blue_transit_switch"),
        ("sender-ofproto-trace.txt", "Datapath actions"),
        ("sender-bridges.txt", "br-int"),
        ("other-flows.txt", "table="),
        ("other-ports.txt", "switch "),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).context(file)?;
        ensure!(text.contains(holds), "{file} has no {holds}: {text}");
    }
    Ok(())
}
