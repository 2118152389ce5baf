//! Facts that change without breaking anything are published, and the conditions stay as they are.

use anyhow::ensure;
use causeway_tests::blue;
use causeway_tests::states;
use serde_json::{Value, json};

use crate::facts::shell;
use crate::history::History;
use crate::world::{CARD_MAC, World};

/// One state with its own condition, and the node whose interface it tells of.
struct Side {
    state: &'static str,
    condition: &'static str,
    interface: &'static str,
    gateway: &'static str,
    other_gateway: &'static str,
    address: &'static str,
    other_address: &'static str,
}

const CARD: Side = Side {
    state: blue::STATE_A,
    condition: "HostDataReady",
    interface: blue::CARD_INTERFACE,
    gateway: blue::CARD_GATEWAY,
    other_gateway: "172.31.0.254",
    address: blue::CARD_ADDRESS,
    other_address: "172.31.0.11/24",
};

const REGULAR: Side = Side {
    state: blue::STATE_B,
    condition: "Resolved",
    interface: blue::BRIDGE,
    gateway: "172.28.0.1",
    other_gateway: "172.28.0.254",
    address: "172.28.0.2/16",
    other_address: "172.28.0.3/16",
};

/// What a state says with another field, or without one.
pub(crate) fn with(mut status: Value, field: &str, value: Option<Value>) -> Value {
    if let Some(fields) = status.as_object_mut() {
        match value {
            Some(value) => drop(fields.insert(field.to_owned(), value)),
            None => drop(fields.remove(field)),
        }
    }
    status
}

/// Routes and addresses of the host of a card.
pub(crate) async fn of_a_card(world: &mut World) -> anyhow::Result<()> {
    routes_and_addresses(world, &CARD, &World::whole_card(), &world.pair.host).await
}

/// Routes and addresses of a regular node.
pub(crate) async fn of_a_regular_node(world: &mut World) -> anyhow::Result<()> {
    routes_and_addresses(world, &REGULAR, &world.whole_regular(), &world.node_b).await
}

async fn routes_and_addresses(
    world: &World,
    side: &Side,
    whole: &Value,
    node: &causeway_rig::Node,
) -> anyhow::Result<()> {
    let Side { state, interface, gateway, other_gateway, address, other_address, .. } = *side;
    let history = History::of(world, state).await?;
    let default = |hop: &str, metric: u32| format!("default via {hop} dev {interface} metric {metric}");
    let steps = [
        (format!("ip route del {}", default(gateway, 50_000)), "defaultGateways", None),
        (format!("ip route add {}", default(gateway, 50_000)), "defaultGateways", Some(json!([gateway]))),
        (
            format!("ip route add {}", default(other_gateway, 100)),
            "defaultGateways",
            Some(json!([other_gateway])),
        ),
        // The same next hop with a worse metric: the first route is the best again.
        (
            format!(
                "ip route add {}; ip route del {}",
                default(other_gateway, 60_000),
                default(other_gateway, 100)
            ),
            "defaultGateways",
            Some(json!([gateway])),
        ),
        (
            format!("ip route del {}", default(other_gateway, 60_000)),
            "defaultGateways",
            Some(json!([gateway])),
        ),
    ];
    for (script, field, value) in steps {
        shell(node, &script).await?;
        world.says(state, &with(whole.clone(), field, value)).await?;
    }
    // The new address first, so that there always is one; the route stays, its next hop is on the new one's link too.
    shell(
        node,
        &format!(
            "{}\nip addr add {other_address} dev {interface}; ip addr del {address} dev {interface}",
            keep_secondaries(interface)
        ),
    )
    .await?;
    let moved = with(whole.clone(), "ipAddresses", Some(json!([other_address])));
    world.says(state, &moved).await?;
    let back = format!("ip addr add {address} dev {interface}; ip addr del {other_address} dev {interface}");
    shell(node, &back).await?;
    world.says(state, whole).await?;
    let versions = history.until_now(world).await?;
    ensure!(versions.len() >= 5, "{} versions for five changes of the data", versions.len());
    for version in versions {
        let verdict = states::verdict(version.conditions(), side.condition);
        ensure!(verdict.starts_with("True/"), "{} of {state} was {verdict} meanwhile", side.condition);
    }
    Ok(())
}

/// Makes an address outlive the one that came before it in the same subnet, as on most distributions.
pub(crate) fn keep_secondaries(interface: &str) -> String {
    format!("echo 1 > /proc/sys/net/ipv4/conf/{interface}/promote_secondaries")
}

/// The bridge of a regular node gets another MAC address.
pub(crate) async fn mac(world: &mut World) -> anyhow::Result<()> {
    let history = History::of(world, blue::STATE_B).await?;
    // The switch takes the interface down to change its address, and the kernel the route with it.
    let route = "ip route replace default via 172.28.0.1 dev ovsbr1 metric 50000";
    let other = "cat /sys/class/net/ovsbr1/address > /run/ovsbr1-mac\n\
                 ovs-vsctl --timeout=30 set Bridge ovsbr1 other_config:hwaddr=02:AB:00:00:00:01";
    shell(&world.node_b, &format!("{other}\n{route}")).await?;
    let changed = with(world.whole_regular(), "macAddress", Some(json!("02:ab:00:00:00:01")));
    world.says(blue::STATE_B, &changed).await?;
    let back = "ovs-vsctl --timeout=30 set Bridge ovsbr1 other_config:hwaddr=$(cat /run/ovsbr1-mac)";
    shell(&world.node_b, &format!("{back}\n{route}")).await?;
    world.says(blue::STATE_B, &world.whole_regular()).await?;
    stays_resolved(history, world).await
}

async fn stays_resolved(history: History, world: &World) -> anyhow::Result<()> {
    for version in history.until_now(world).await? {
        let verdict = states::verdict(version.conditions(), "Resolved");
        ensure!(verdict == "True/Resolved", "Resolved was {verdict} meanwhile");
    }
    Ok(())
}

/// The representor moves to another bridge with a wire of its own.
pub(crate) async fn bridge(world: &mut World) -> anyhow::Result<()> {
    world.card_ovs.add_bridge(&world.pair.card, "br-two").physical("p1").create().await?;
    let history = History::of(world, blue::STATE_A).await?;
    let to_two = "ovs-vsctl del-port br-tenant rep0-16 -- add-port br-two rep0-16";
    shell(&world.pair.card, to_two).await?;
    let moved = with(World::whole_card(), "ovsBridge", Some(json!({"name": "br-two"})));
    world.says(blue::STATE_A, &moved).await?;
    shell(&world.pair.card, "ovs-vsctl del-port br-two rep0-16 -- add-port br-tenant rep0-16").await?;
    world.says(blue::STATE_A, &World::whole_card()).await?;
    stays_resolved(history, world).await?;
    shell(&world.pair.card, "ovs-vsctl --timeout=30 del-br br-two; ip link del p1").await
}

/// A card that cannot tell the function goes by the address, and comes back to the function wherever it appears.
pub(crate) async fn address_instead_of_function(world: &mut World) -> anyhow::Result<()> {
    let card = &world.pair.card;
    let via_mac = |bridge: &str| {
        let mut status = with(World::whole_card(), "ovsBridge", Some(json!({"name": bridge})));
        if let Some(message) = status.pointer_mut("/conditions/1/message") {
            *message = json!("Uplink DPU bridge discovery succeeded via host MAC");
        }
        status
    };
    // A second representor of the same host function, known by its alias, on a bridge that sorts after the first.
    world.card_ovs.add_bridge(card, "br-two").physical("p1").create().await?;
    let twin = "ip link add twin type veth peer name twin-peer; ip link set twin alias rep0-16\n\
                ovs-vsctl --timeout=30 del-port br-tenant rep0-16 -- add-port br-two twin";
    shell(card, twin).await?;
    world.says(blue::STATE_A, &via_mac("br-two")).await?;
    // The representor itself comes back to a bridge that the answer so far did not rest on.
    shell(card, "ovs-vsctl --timeout=30 add-port br-tenant rep0-16").await?;
    world.says(blue::STATE_A, &World::whole_card()).await?;
    let clean = "ovs-vsctl --timeout=30 del-br br-two; ip link del twin; ip link del p1";
    shell(card, clean).await
}

/// The interface and its representor are deleted, and made again.
pub(crate) async fn pair_of_links(world: &mut World) -> anyhow::Result<()> {
    shell(&world.pair.host, "ip link del eth0-16").await?;
    let gone = json!({
        "type": "OVSBridge",
        "hostInterfaceName": blue::CARD_INTERFACE,
        "conditions": [
            {
                "type": "HostDataReady", "status": "False", "reason": "HostInterfaceNotFound",
                "message": "host interface eth0-16 was not found: Link not found",
            },
            {
                "type": "Resolved", "status": "False", "reason": "WaitingForDPUHost",
                "message": "waiting for DPU-host MAC address for interface eth0-16: address : invalid MAC address",
            },
        ],
    });
    world.says(blue::STATE_A, &gone).await?;
    world.pair.connect(16).await?;
    let network = "ip addr add 172.31.0.10/24 dev eth0-16\n\
                   ip route add default via 172.31.0.1 dev eth0-16 metric 50000";
    shell(&world.pair.host, network).await?;
    let state = world.says(blue::STATE_A, &World::whole_card()).await?;
    let mac = state.status_or_default().mac_address.clone();
    ensure!(mac.as_deref() == Some(CARD_MAC), "{mac:?}");
    Ok(())
}
