//! The card: its links, and its switch.

use super::super::hand::Hand;
use super::super::switch::Switch;
use super::{Bench, of, says, tells};
use crate::blue::{BlueWorld, CARD_BRIDGE, CARD_WIRE, STATE_A};
use crate::states::message;

pub(super) const MEASURES: &[&str] = &[
    "react_card_link",
    "react_card_wire",
    "react_card_mtu",
    "react_card_mtu_on_host",
    "react_card_representor",
    "react_card_uplink",
    "react_card_port",
    "react_card_uplink_port",
    "react_card_vlan",
];

/// The representor of the host's interface.
const REPRESENTOR: &str = "rep0-16";
/// Text of the state whose bridge was found by the function that the host published.
pub(super) const BY_FUNCTION: &str = "via host function";

pub(super) async fn run(bench: &Bench<'_>, world: &BlueWorld) -> anyhow::Result<()> {
    let hand = Hand::in_node(&world.pair.card)?;
    let index = hand.index(REPRESENTOR).await?;
    link(bench, "react_card_link", &hand, index).await?;
    link(bench, "react_card_wire", &hand, hand.index(CARD_WIRE).await?).await?;
    mtu(bench, &hand, index).await?;
    representor(bench, &hand, index).await?;
    let switch = Switch::open(&world.card_ovs).await?;
    name_of_uplink(bench, &switch).await?;
    port(bench, &switch).await?;
    uplink_port(bench, &switch).await?;
    vlan(bench, &switch).await?;
    switch.close().await
}

/// A link of the way out goes down and up.
async fn link(bench: &Bench<'_>, measure: &str, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_up(index, odd).await;
    bench
        .alternate(measure, change, |seen, odd| {
            says(seen, STATE_A, "LinkConsistent", of(["False/LinkDown", "True/LinkConsistent"], odd))
        })
        .await
}

/// Told by the card, and by the host, which hears of it from the card's half.
async fn mtu(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.set_mtu(index, of([1400, 1500], odd)).await;
    bench
        .alternate("react_card_mtu", change, |seen, odd| {
            tells(seen, STATE_A, "LinkConsistent", of(["rep0-16: mtu=1400", "rep0-16: mtu=1500"], odd))
        })
        .await?;
    let change = async |odd| hand.set_mtu(index, of([1400, 1500], odd)).await;
    bench
        .alternate("react_card_mtu_on_host", change, |seen, odd| {
            says(seen, STATE_A, "HostLinkConsistent", of(["False/MTUMismatch", "True/LinkConsistent"], odd))
        })
        .await
}

/// The device that stands for the host's function goes and comes: without it the bridge is found another way.
async fn representor(bench: &Bench<'_>, hand: &Hand, index: u32) -> anyhow::Result<()> {
    let change = async |odd| hand.rename(index, of(["elsewhere", REPRESENTOR], odd)).await;
    bench
        .alternate("react_card_representor", change, |seen, odd| {
            seen.is(STATE_A) && message(seen.object.conditions(), "Resolved").contains(BY_FUNCTION) == odd
        })
        .await
}

/// Of two wires, the name in the bridge's `external_ids` decides.
async fn name_of_uplink(bench: &Bench<'_>, switch: &Switch) -> anyhow::Result<()> {
    let change = async |odd: bool| switch.name_uplink(CARD_BRIDGE, odd.then_some(CARD_WIRE)).await;
    bench
        .alternate("react_card_uplink", change, |seen, odd| {
            says(seen, STATE_A, "Resolved", of(["False/BridgeUplinkNotFound", "True/Resolved"], odd))
        })
        .await
}

/// The representor's port is taken off the bridge and put back.
async fn port(bench: &Bench<'_>, switch: &Switch) -> anyhow::Result<()> {
    let change = async |odd| {
        if odd {
            switch.add_port(CARD_BRIDGE, REPRESENTOR).await
        } else {
            switch.remove_port(CARD_BRIDGE, REPRESENTOR).await
        }
    };
    bench
        .alternate("react_card_port", change, |seen, odd| {
            says(seen, STATE_A, "Resolved", of(["False/BridgeNotFound", "True/Resolved"], odd))
        })
        .await
}

/// The only wire is taken off the bridge and put back.
async fn uplink_port(bench: &Bench<'_>, switch: &Switch) -> anyhow::Result<()> {
    switch.remove_port(CARD_BRIDGE, "p1").await?;
    switch.name_uplink(CARD_BRIDGE, None).await?;
    let change = async |odd| {
        if odd {
            switch.add_port(CARD_BRIDGE, CARD_WIRE).await
        } else {
            switch.remove_port(CARD_BRIDGE, CARD_WIRE).await
        }
    };
    bench
        .alternate("react_card_uplink_port", change, |seen, odd| {
            says(seen, STATE_A, "Resolved", of(["False/BridgeUplinkNotFound", "True/Resolved"], odd))
        })
        .await?;
    switch.name_uplink(CARD_BRIDGE, Some(CARD_WIRE)).await?;
    switch.add_port(CARD_BRIDGE, "p1").await.map(drop)
}

/// The representor's port leaves the wire's VLAN and comes back.
async fn vlan(bench: &Bench<'_>, switch: &Switch) -> anyhow::Result<()> {
    for port in [REPRESENTOR, CARD_WIRE] {
        switch.set_tag(port, Some(100)).await?;
    }
    let change = async |odd| switch.set_tag(REPRESENTOR, Some(of([200, 100], odd))).await;
    bench
        .alternate("react_card_vlan", change, |seen, odd| {
            says(seen, STATE_A, "LinkConsistent", of(["False/VLANMismatch", "True/LinkConsistent"], odd))
        })
        .await?;
    for port in [REPRESENTOR, CARD_WIRE] {
        switch.set_tag(port, None).await?;
    }
    Ok(())
}
