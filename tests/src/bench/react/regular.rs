//! A regular node: one process sees both sides.

use std::net::IpAddr;

use super::super::hand::Hand;
use super::super::switch::Switch;
use super::{Bench, METRIC, gateways, of, says, tells};
use crate::blue::{BRIDGE, BlueWorld, STATE_B, WIRE};

pub(super) const MEASURES: &[&str] = &[
    "react_node_address",
    "react_node_route",
    "react_node_link",
    "react_node_mtu",
    "react_node_uplink_port",
];

pub(super) async fn run(bench: &Bench<'_>, world: &BlueWorld) -> anyhow::Result<()> {
    let hand = Hand::in_node(&world.node_b)?;
    let index = hand.index(BRIDGE).await?;
    address(bench, &hand, index).await?;
    route(bench, &hand, index).await?;
    link(bench, &hand, index).await?;
    mtu(bench, &hand).await?;
    let switch = Switch::open(&world.node_b_ovs).await?;
    uplink_port(bench, &switch).await?;
    switch.close().await
}

async fn address(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let address: IpAddr = "172.28.0.2".parse()?;
    let change = async |odd| hand.set_address(index, (address, 16), odd).await;
    bench
        .alternate("react_node_address", change, |seen, odd| {
            says(seen, STATE_B, "Resolved", of(["False/GatewayInfoUnavailable", "True/Resolved"], odd))
        })
        .await?;
    hand.replace_default(index, gateways("172.28.0.")?, METRIC).await.map(drop)
}

async fn route(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let [other, own] = gateways("172.28.0.")?;
    let change = async |odd| hand.replace_default(index, of([[own, other], [other, own]], odd), METRIC).await;
    bench
        .alternate("react_node_route", change, |seen, odd| {
            let want = of([other, own], odd).to_string();
            seen.is(STATE_B) && seen.object.status_or_default().default_gateways.contains(&want)
        })
        .await
}

async fn link(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_up(index, odd).await;
    bench
        .alternate("react_node_link", change, |seen, odd| {
            says(seen, STATE_B, "LinkConsistent", of(["False/LinkDown", "True/LinkConsistent"], odd))
        })
        .await?;
    hand.replace_default(index, gateways("172.28.0.")?, METRIC).await.map(drop)
}

/// The MTU of the wire. The switch lets the bridge's own follow sooner or later, which is told too.
async fn mtu(bench: &Bench<'_>, hand: &Hand) -> anyhow::Result<()> {
    let wire = hand.index(WIRE).await?;
    let change = async |odd| hand.set_mtu(wire, of([1600, 1500], odd)).await;
    bench
        .alternate("react_node_mtu", change, |seen, odd| {
            let (now, before) = of([("1600", "eth1 has MTU 1500"), ("1500", "eth1 has MTU 1600")], odd);
            let told = |text| tells(seen, STATE_B, "LinkConsistent", text);
            told(now) && !told(before)
        })
        .await
}

async fn uplink_port(bench: &Bench<'_>, switch: &Switch) -> anyhow::Result<()> {
    let change = async |odd| {
        if odd { switch.add_port(BRIDGE, WIRE).await } else { switch.remove_port(BRIDGE, WIRE).await }
    };
    bench
        .alternate("react_node_uplink_port", change, |seen, odd| {
            says(seen, STATE_B, "Resolved", of(["False/BridgeUplinkNotFound", "True/Resolved"], odd))
        })
        .await
}
