//! The main job: both halves of each state are found and meet, and the Uplink is ready.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use causeway_api::uplink::Uplink;
use causeway_api::uplink_state::UplinkState;
use causeway_tests::blue;
use kube::Api;
use serde_json::{Value, json};

use crate::world::World;

/// The halves meet: what the states say is compared whole when the world starts; here it is who they belong to.
pub(crate) async fn halves(world: &mut World) -> anyhow::Result<()> {
    world.is_whole().await?;
    let uplinks: Api<Uplink> = Api::all(world.client());
    let uplink = uplinks.get(blue::UPLINK).await?;
    let uid = uplink.metadata.uid.context("the uid of the Uplink")?;
    for (name, node) in [(blue::STATE_A, "node-a"), (blue::STATE_B, "node-b")] {
        let state = world.state(name).await?;
        let spec = serde_json::to_value(&state.spec)?;
        ensure!(spec == json!({"uplinkName": blue::UPLINK, "nodeName": node}), "spec of {name}: {spec}");
        let owners = serde_json::to_value(&state.metadata.owner_references)?;
        let want = json!([{
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "name": blue::UPLINK, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        ensure!(owners == want, "owners of {name}: {owners}");
        ensure!(
            state.metadata.labels.is_none() && state.metadata.annotations.is_none(),
            "{:?}",
            state.metadata
        );
    }
    Ok(())
}

/// Each writer owns its half and nothing of the other's.
pub(crate) async fn ownership(world: &mut World) -> anyhow::Result<()> {
    let host = [
        "conditions/HostDataReady",
        "conditions/HostLinkConsistent",
        "defaultGateways",
        "hostFunction",
        "hostInterfaceName",
        "ipAddresses",
        "macAddress",
        "type",
    ];
    let card = ["conditions/LinkConsistent", "conditions/Resolved", "ovsBridge", "type"];
    let regular = [
        "conditions/LinkConsistent",
        "conditions/Resolved",
        "defaultGateways",
        "hostInterfaceName",
        "ipAddresses",
        "macAddress",
        "ovsBridge",
        "type",
    ];
    let a = owned(&world.state(blue::STATE_A).await?);
    let want = [
        ("ovnkube-node-uplink-controller-dpu", card.as_slice()),
        ("ovnkube-node-uplink-controller-dpu-host", host.as_slice()),
    ];
    ensure!(a == wanted(&want), "owned on the node with a card: {a:#?}");
    let b = owned(&world.state(blue::STATE_B).await?);
    let want = [("ovnkube-node-uplink-controller", regular.as_slice())];
    ensure!(b == wanted(&want), "owned on the regular node: {b:#?}");
    Ok(())
}

type Owned = BTreeSet<(String, Vec<String>)>;

fn wanted(want: &[(&str, &[&str])]) -> Owned {
    let texts = |fields: &[&str]| fields.iter().map(|field| (*field).to_owned()).collect();
    want.iter().map(|(manager, fields)| ((*manager).to_owned(), texts(fields))).collect()
}

/// Each manager with the fields of `status` that it owns, a condition by its type.
fn owned(state: &UplinkState) -> Owned {
    let entries = state.metadata.managed_fields.iter().flatten();
    entries
        .map(|entry| {
            let fields = entry.fields_v1.as_ref().map(|fields| fields.0.clone()).unwrap_or_default();
            let status = fields.get("f:status").and_then(Value::as_object).cloned().unwrap_or_default();
            let names = status.iter().flat_map(|(key, below)| names_of(key, below));
            let mut names: Vec<String> = names.collect();
            names.sort();
            (entry.manager.clone().unwrap_or_default(), names)
        })
        .collect()
}

fn names_of(key: &str, below: &Value) -> Vec<String> {
    let name = key.trim_start_matches("f:");
    if name != "conditions" {
        return vec![name.to_owned()];
    }
    let keys = below.as_object().into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("k:"));
    let types = keys.map(|key| serde_json::from_str::<Value>(key).unwrap_or_default());
    types
        .map(|key| format!("conditions/{}", key.get("type").and_then(Value::as_str).unwrap_or("?")))
        .collect()
}
