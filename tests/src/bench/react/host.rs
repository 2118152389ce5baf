//! The host of a card: what its kernel can tell of an interface.

use std::net::IpAddr;

use super::super::hand::Hand;
use super::{Bench, METRIC, gateways, of, says, tells};
use crate::blue::{BlueWorld, CARD_INTERFACE, STATE_A};

pub(super) const MEASURES: &[&str] = &[
    "react_host_mac",
    "react_host_address",
    "react_host_address6",
    "react_host_route",
    "react_host_route6",
    "react_host_link",
    "react_host_rename",
    "react_host_mtu",
];

/// MAC address of the interface, and another one.
const OWN_MAC: [u8; 6] = [0x52, 0x54, 0x00, 0xd9, 0x20, 0x10];
const OTHER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];

pub(super) async fn run(bench: &Bench<'_>, world: &BlueWorld) -> anyhow::Result<()> {
    let hand = Hand::in_node(&world.pair.host)?;
    let index = hand.index(CARD_INTERFACE).await?;
    mac(bench, &hand, index).await?;
    let (v4, v6): (IpAddr, IpAddr) = ("172.31.0.10".parse()?, "fd00:31::10".parse()?);
    address(bench, "react_host_address", &hand, index, (v4, 24)).await?;
    address(bench, "react_host_address6", &hand, index, (v6, 64)).await?;
    route(bench, "react_host_route", &hand, index, "172.31.0.").await?;
    route(bench, "react_host_route6", &hand, index, "fd00:31::").await?;
    link(bench, &hand, index).await?;
    rename(bench, &hand, index).await?;
    mtu(bench, &hand, index).await
}

async fn mac(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_mac(index, of([OTHER_MAC, OWN_MAC], odd)).await;
    bench
        .alternate("react_host_mac", change, |seen, odd| {
            let want = of(["02:00:00:00:00:99", "52:54:00:d9:20:10"], odd);
            seen.is(STATE_A) && seen.object.status_or_default().mac_address.as_deref() == Some(want)
        })
        .await
}

/// The only address of a family goes and comes back. With the last one of IPv4 the kernel takes the routes away.
async fn address(
    bench: &Bench<'_>,
    measure: &str,
    hand: &Hand,
    index: u32,
    address: (IpAddr, u8),
) -> anyhow::Result<()> {
    let change = async |odd| hand.set_address(index, address, odd).await;
    bench
        .alternate(measure, change, |seen, odd| {
            let want = of(["False/GatewayInfoUnavailable", "True/HostDataDiscovered"], odd);
            says(seen, STATE_A, "HostDataReady", want)
        })
        .await?;
    restore_routes(hand, index).await
}

async fn restore_routes(hand: &Hand, index: u32) -> anyhow::Result<()> {
    for net in ["172.31.0.", "fd00:31::"] {
        hand.replace_default(index, gateways(net)?, METRIC).await?;
    }
    Ok(())
}

async fn route(bench: &Bench<'_>, measure: &str, hand: &Hand, index: u32, net: &str) -> anyhow::Result<()> {
    let [other, own] = gateways(net)?;
    let change = async |odd| hand.replace_default(index, of([[own, other], [other, own]], odd), METRIC).await;
    bench
        .alternate(measure, change, |seen, odd| {
            let (want, unwanted) = of([(other, own), (own, other)], odd);
            let found = &seen.object.status_or_default().default_gateways;
            seen.is(STATE_A) && found.contains(&want.to_string()) && !found.contains(&unwanted.to_string())
        })
        .await
}

async fn link(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_up(index, odd).await;
    bench
        .alternate("react_host_link", change, |seen, odd| {
            says(seen, STATE_A, "HostLinkConsistent", of(["False/LinkDown", "True/LinkConsistent"], odd))
        })
        .await?;
    restore_routes(hand, index).await
}

/// An interface of that name goes and comes.
async fn rename(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.rename(index, of(["elsewhere", CARD_INTERFACE], odd)).await;
    bench
        .alternate("react_host_rename", change, |seen, odd| {
            let want = of(["False/HostInterfaceNotFound", "True/HostDataDiscovered"], odd);
            says(seen, STATE_A, "HostDataReady", want)
        })
        .await
}

async fn mtu(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_mtu(index, of([1400, 1500], odd)).await;
    bench
        .alternate("react_host_mtu", change, |seen, odd| {
            tells(seen, STATE_A, "HostLinkConsistent", of(["mtu=1400", "mtu=1500"], odd))
        })
        .await
}
