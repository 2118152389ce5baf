//! Nodes with real kubelets.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Level, Rig, RigOptions, SharedRig, Suite, wait_object};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

fn main() -> ExitCode {
    let shared = SharedRig::new(RigOptions::cluster());
    Suite::new()
        .test_in(&shared, Level::Cluster, "pods_of_two_nodes_with_kubelets_reach_each_other", two_nodes)
        .run()
}

async fn two_nodes(rig: Arc<Rig>) -> anyhow::Result<()> {
    let (left, right) = futures::try_join!(
        rig.node("kube-a").kubelet().label("side", "left").start(),
        rig.node("kube-b").kubelet().label("side", "right").start(),
    )?;
    let (server, client) = futures::try_join!(run_pod(&rig, "left"), run_pod(&rig, "right"))?;
    let [server_address, client_address] = [&server, &client].map(pod_address);
    ensure!(server_address != client_address, "both pods have {server_address:?}");
    let address = server_address.context("the address of a pod")?;
    rig.kubectl(["exec", "right", "--", "ping", "-c1", "-W5", &address]).await?;
    // Switch and pods stand side by side in a node.
    let ovs = left.ovs().await?;
    ovs.add_bridge(&left, "ovsbr1").internal_port("gw0").create().await?;
    ensure!(left.ip(["-br", "link", "show", "gw0"]).await?.contains("gw0"));
    ensure!(right.service("kubelet").is_some_and(causeway_rig::Process::is_running));
    Ok(())
}

/// A pod on the node with the label `side`, once it runs.
async fn run_pod(rig: &Rig, side: &str) -> anyhow::Result<Pod> {
    let pods: Api<Pod> = Api::default_namespaced(rig.client());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": side},
        "spec": {
            "nodeSelector": {"side": side},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "one", "image": "rig/busybox:1", "command": ["sleep", "3600"]}],
        },
    }))?;
    // The account of a namespace is made by the controller manager, a moment after the namespace.
    let parameters = PostParams::default();
    rig.wait_for("the pod to be accepted", Duration::from_secs(20), || pods.create(&parameters, &pod))
        .await?;
    let running = |pod: Option<&Pod>| {
        pod.and_then(|pod| pod.status.as_ref())
            .is_some_and(|status| status.phase.as_deref() == Some("Running"))
    };
    let found = wait_object(pods.clone(), side, "phase Running", Duration::from_mins(1), running).await;
    found.with_context(|| rig.log_tails())?.context("the pod")
}

fn pod_address(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.pod_ip.clone()
}
