//! A cluster with both families of addresses.

use anyhow::ensure;
use causeway_tests::blue;
use causeway_tests::states::{message, verdict};
use serde_json::json;

use crate::agents::Agent;
use crate::changes::with;
use crate::facts::shell;
use crate::history::History;
use crate::world::World;

/// The regular node's agent runs for a cluster of both families: it misses the second one's address, publishes it when
/// it comes, and the gateway of each family when that comes, without a break in between.
pub(crate) async fn dual_stack(world: &mut World) -> anyhow::Result<()> {
    Agent::Node.process(world)?.kill().await?;
    let both = ["--cluster-subnets", "10.128.0.0/14/23,fd01::/48/64"];
    let agent = Agent::Node.spawn(world, &both).await?;
    let client = world.client();
    let verdict_without = "False/GatewayInfoUnavailable";
    let state =
        causeway_tests::states::state_says(&client, blue::STATE_B, "Resolved", verdict_without).await?;
    let text = message(state.conditions(), "Resolved");
    let want = "failed to read IP addresses from ovsbr1: failed to find IPv6 address on interface ovsbr1";
    ensure!(text == want, "{text}");

    // An address that a router made temporary, or that is on its way out, does not count.
    shell(&world.node_b, "ip addr add fd00:28::77/64 dev ovsbr1 nodad preferred_lft 0").await?;
    shell(&world.node_b, "ip addr add fd00:28::2/64 dev ovsbr1 nodad").await?;
    let addresses = Some(json!(["172.28.0.2/16", "fd00:28::2/64"]));
    let whole = with(world.whole_regular(), "ipAddresses", addresses);
    world.says(blue::STATE_B, &whole).await?;

    let history = History::of(world, blue::STATE_B).await?;
    let gateways = |list: &[&str]| with(whole.clone(), "defaultGateways", Some(json!(list)));
    for (script, want) in [
        // As a router's advertisement that comes late.
        (
            "ip -6 route add default via fe80::28 dev ovsbr1 metric 1025 proto ra",
            gateways(&["172.28.0.1", "fe80::28"]),
        ),
        // A better one, and one that is equally good: still one of each family.
        (
            "ip -6 route add default via fd00:28::1 dev ovsbr1 metric 512",
            gateways(&["172.28.0.1", "fd00:28::1"]),
        ),
        (
            "ip -6 route del default via fd00:28::1 dev ovsbr1 metric 512",
            gateways(&["172.28.0.1", "fe80::28"]),
        ),
        ("ip -6 route del default via fe80::28 dev ovsbr1 metric 1025", gateways(&["172.28.0.1"])),
        (
            "ip -4 route replace default dev ovsbr1 metric 50000 nexthop via inet6 fe80::29 dev ovsbr1 \
             nexthop via 172.28.0.1 dev ovsbr1",
            gateways(&["fe80::29"]),
        ),
        ("ip -4 route replace default via 172.28.0.1 dev ovsbr1 metric 50000", gateways(&["172.28.0.1"])),
    ] {
        shell(&world.node_b, script).await?;
        world.says(blue::STATE_B, &want).await?;
    }
    for version in history.until_now(world).await? {
        let resolved = verdict(version.conditions(), "Resolved");
        ensure!(resolved == "True/Resolved", "Resolved was {resolved} meanwhile");
    }
    let clean = "ip addr del fd00:28::2/64 dev ovsbr1; ip addr del fd00:28::77/64 dev ovsbr1";
    shell(&world.node_b, clean).await?;
    agent.kill().await?;
    Agent::Node.process(world)?.restart().await
}
