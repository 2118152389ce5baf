//! Living beside other versions: states that OVN-Kubernetes wrote, fields of a newer API, nodes that change their role.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use causeway_api::uplink_state::UplinkState;
use causeway_rig::{Level, Suite, wait_object};
use causeway_tests::blue::{BlueWorld, STATE_A, STATE_B, UPLINK, UPLINK_YAML};
use causeway_tests::states::{DEADLINE, state_says, uplink_says};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

fn main() -> ExitCode {
    Suite::new()
        .test(Level::Cluster, "states_of_upstreams_agents_are_taken_over_without_a_gap", taken_over)
        .test(Level::Cluster, "fields_of_a_newer_api_are_kept", newer_fields)
        .run()
}

/// A state as upstream makes it: a plain create, then an apply of a discovery manager.
async fn written_by_upstream(
    client: &Client,
    node: &str,
    manager: &str,
    status: Value,
) -> anyhow::Result<()> {
    let api: Api<UplinkState> = Api::all(client.clone());
    let uplink: kube::api::DynamicObject = {
        let kind = kube::api::ApiResource::erase::<causeway_api::uplink::Uplink>(&());
        Api::all_with(client.clone(), &kind).get(UPLINK).await?
    };
    let name = format!("{UPLINK}.{node}");
    let created = serde_json::from_value(json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "name": UPLINK,
            "uid": uplink.uid(), "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"uplinkName": UPLINK, "nodeName": node},
        "status": {"type": "OVSBridge"},
    }))?;
    let parameters = PostParams { field_manager: Some("ovnkube".to_owned()), ..PostParams::default() };
    api.create(&parameters, &created).await?;
    let body = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState", "metadata": {"name": name}, "status": status,
    });
    api.patch(&name, &PatchParams::apply(manager).force(), &Patch::Apply(body)).await?;
    Ok(())
}

fn condition(type_: &str, reason: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": "said by upstream",
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn managers(state: &UplinkState) -> BTreeSet<&str> {
    state.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect()
}

async fn taken_over() -> anyhow::Result<()> {
    let mut world = BlueWorld::start().await?;
    let client = world.client();
    world.rig.apply(UPLINK_YAML).await?;
    // node-a was a regular node before it got its card; node-b had a card before it lost it.
    let regular = json!({"type": "OVSBridge", "hostInterfaceName": "ovsbr1", "macAddress": "02:00:00:00:00:01",
        "ipAddresses": ["192.0.2.7/24"], "ovsBridge": {"name": "ovsbr1"},
        "conditions": [condition("Resolved", "Resolved")]});
    written_by_upstream(&client, "node-a", "ovnkube-node-uplink-controller", regular).await?;
    let host = json!({"type": "OVSBridge", "hostInterfaceName": "eth0-16", "macAddress": "02:00:00:00:00:02",
        "ipAddresses": ["192.0.2.8/24"], "hostFunction": {"pfID": 0, "vfID": 16},
        "conditions": [condition("HostDataReady", "HostDataDiscovered")]});
    written_by_upstream(&client, "node-b", "ovnkube-node-uplink-controller-dpu-host", host).await?;
    let before: UplinkState = Api::all(client.clone()).get(STATE_A).await?;

    world.start_causeway().await?;
    uplink_says(&client, UPLINK, "True/Ready").await?;
    let gone = |manager: &'static str| {
        move |state: Option<&UplinkState>| state.is_some_and(|state| !managers(state).contains(manager))
    };
    let full = "ovnkube-node-uplink-controller";
    let host_side = "ovnkube-node-uplink-controller-dpu-host";
    let find = |name, manager| {
        wait_object(
            Api::<UplinkState>::all(client.clone()),
            name,
            "the old role's end",
            DEADLINE,
            gone(manager),
        )
    };
    let a = find(STATE_A, full).await?.context("no state of node-a")?;
    let b = find(STATE_B, host_side).await?.context("no state of node-b")?;

    ensure!(a.uid() == before.uid(), "the state was made again");
    let status = a.status_or_default();
    ensure!(status.mac_address.as_deref() == Some("52:54:00:d9:20:10"), "{status:?}");
    ensure!(
        status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.as_deref()) == Some("br-tenant"),
        "{status:?}"
    );
    let status = b.status_or_default();
    ensure!(status.host_function.is_none(), "a regular node publishes no function: {status:?}");
    let types: BTreeSet<&str> = status.conditions.iter().map(|found| found.type_.as_str()).collect();
    ensure!(!types.contains("HostDataReady"), "what the old host side said is still there: {types:?}");
    Ok(())
}

async fn newer_fields() -> anyhow::Result<()> {
    let mut world = BlueWorld::start().await?;
    let client = world.client();
    let extend = json!([{
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/fromTheFuture",
        "value": {"type": "string"},
    }]);
    world
        .rig
        .kubectl(["patch", "crd", "uplinkstates.k8s.ovn.org", "--type=json", "-p", &extend.to_string()])
        .await?;
    world.start_causeway().await?;
    world.rig.apply(UPLINK_YAML).await?;
    state_says(&client, STATE_B, "Resolved", "True/Resolved").await?;
    let future = json!({
        "apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState", "metadata": {"name": STATE_B},
        "status": {"fromTheFuture": "kept", "conditions": [condition("FromTheFuture", "Known")]},
    });
    let kind = kube::api::ApiResource::erase::<UplinkState>(&());
    let api: Api<kube::api::DynamicObject> = Api::all_with(client.clone(), &kind);
    let served = async || -> anyhow::Result<()> {
        let parameters = PatchParams::apply("newer-agent").force();
        let written = api.patch(STATE_B, &parameters, &Patch::Apply(&future)).await?;
        ensure!(
            written.data.pointer("/status/fromTheFuture") == Some(&json!("kept")),
            "the new schema is not served yet"
        );
        Ok(())
    };
    causeway_rig::wait_for("the new schema", DEADLINE, &served).await?;

    // A change of our half, and back, with the other version's fields in place.
    world.node_b_ovs.vsctl(["del-port", "ovsbr1", "eth1"]).await?;
    state_says(&client, STATE_B, "Resolved", "False/BridgeUplinkNotFound").await?;
    world.node_b_ovs.vsctl(["add-port", "ovsbr1", "eth1"]).await?;
    state_says(&client, STATE_B, "Resolved", "True/Resolved").await?;
    let state = api.get(STATE_B).await?;
    ensure!(state.data.pointer("/status/fromTheFuture") == Some(&json!("kept")), "{:?}", state.data);
    let conditions =
        state.data.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    ensure!(
        conditions.iter().any(|found| found.get("type") == Some(&json!("FromTheFuture"))),
        "{conditions:?}"
    );
    Ok(())
}
