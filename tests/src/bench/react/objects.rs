//! What is in the API: labels and annotations of Nodes, the Uplink, the other side's half of a state.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context;
use causeway_api::manager::FieldManager;
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_rig::UplinkAnnotations;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::stage::{DUAL_STACK, Part, Stage};
use super::card::BY_FUNCTION;
use super::{Bench, of, says};
use crate::blue::{BRIDGE, BlueWorld, LABEL, STATE_A, STATE_B, UPLINK};
use crate::states::message;

pub(super) const MEASURES: &[&str] =
    &["react_node_label", "react_node_annotation", "react_uplink_spec", "react_peer_half"];

pub(super) async fn run(bench: &Bench<'_>, stage: &mut Stage) -> anyhow::Result<()> {
    label(bench, &stage.world).await?;
    annotation(bench, &stage.world).await?;
    spec(bench).await?;
    peer_half(bench, stage).await
}

/// The Uplink stops selecting the node: its state goes; and comes back.
async fn label(bench: &Bench<'_>, world: &BlueWorld) -> anyhow::Result<()> {
    let change = async |odd: bool| {
        let start = Instant::now();
        world.node_b.set_label(LABEL, odd.then_some("true")).await?;
        Ok(start)
    };
    bench
        .alternate("react_node_label", change, |seen, odd| {
            if odd {
                says(seen, STATE_B, "Resolved", "True/Resolved")
            } else {
                seen.deleted && seen.is(STATE_B)
            }
        })
        .await
}

/// The default network moves to the Uplink's bridge, which then may not be used.
async fn annotation(bench: &Bench<'_>, world: &BlueWorld) -> anyhow::Result<()> {
    let elsewhere = UplinkAnnotations::default();
    let here = UplinkAnnotations { bridge: BRIDGE.to_owned(), ..elsewhere.clone() };
    let change = async |odd| {
        let annotations = of([&here, &elsewhere], odd).render("node-b");
        let start = Instant::now();
        world.node_b.describe(BTreeMap::new(), annotations).await?;
        Ok(start)
    };
    bench
        .alternate("react_node_annotation", change, |seen, odd| {
            let want = of(["False/DefaultGatewayBridgeUnsupported", "True/Resolved"], odd);
            says(seen, STATE_B, "Resolved", want)
        })
        .await
}

/// The Uplink names another interface for regular nodes.
async fn spec(bench: &Bench<'_>) -> anyhow::Result<()> {
    let api: Api<Uplink> = Api::all(bench.client.clone());
    let uplink = serde_json::to_value(api.get(UPLINK).await?.spec)?;
    let with = |interface: &str| {
        let mut spec = uplink.clone();
        let name = spec.pointer_mut("/nodeConfigs/0/hostInterfaceName").context("the first entry")?;
        *name = Value::from(interface);
        anyhow::Ok(json!({ "spec": spec }))
    };
    let specs = [with("elsewhere")?, with(BRIDGE)?];
    let change = async |odd| {
        let patch = Patch::Merge(of([&specs[0], &specs[1]], odd));
        let start = Instant::now();
        api.patch(UPLINK, &PatchParams::default(), &patch).await?;
        Ok(start)
    };
    bench
        .alternate("react_uplink_spec", change, |seen, odd| {
            says(seen, STATE_B, "Resolved", of(["False/HostInterfaceNotFound", "True/Resolved"], odd))
        })
        .await
}

/// The host publishes another function. Its agent is away meanwhile: the bench plays it.
async fn peer_half(bench: &Bench<'_>, stage: &mut Stage) -> anyhow::Result<()> {
    stage.process(Part::Host)?.kill().await?;
    let api: Api<UplinkState> = Api::all(bench.client.clone());
    let status = api.get(STATE_A).await?.status.context("a state without a status")?;
    let half = |vf: i32| {
        json!({
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState", "metadata": {"name": STATE_A},
            "spec": {"uplinkName": UPLINK, "nodeName": "node-a"},
            "status": {
                "type": status.type_, "hostInterfaceName": status.host_interface_name,
                "macAddress": status.mac_address, "ipAddresses": status.ip_addresses,
                "defaultGateways": status.default_gateways, "hostFunction": {"pfID": 0, "vfID": vf},
            },
        })
    };
    let halves = [half(9), half(16)];
    let manager = PatchParams::apply(FieldManager::DiscoveryDpuHost.as_str()).force();
    let change = async |odd| {
        let patch = Patch::Apply(of([&halves[0], &halves[1]], odd));
        let start = Instant::now();
        api.patch(STATE_A, &manager, &patch).await?;
        Ok(start)
    };
    bench
        .alternate("react_peer_half", change, |seen, odd| {
            seen.is(STATE_A) && message(seen.object.conditions(), "Resolved").contains(BY_FUNCTION) == odd
        })
        .await?;
    stage.start(Part::Host, &DUAL_STACK).await
}
