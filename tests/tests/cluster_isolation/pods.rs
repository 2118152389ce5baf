//! Pods with a primary network of their own, as far as a node's isolation can tell.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{Families, KUBECONFIG, Node, Process, Rig, wait_for, wait_object};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

/// Long enough for a busy machine; only a failure waits for it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(70);

/// The port that probes use and nobody opens.
pub(crate) const PROBED: u16 = 8080;

/// The port that owners may open.
pub(crate) const OPEN: u16 = 8081;

/// What there is to get in every container: the kubelet puts it there.
const FILE: &str = "/hosts";

/// Exit status of curl when nobody answers in time; a refusal is 7. Source: curl(1).
const TIMED_OUT: i32 = 28;

/// Starts the agent of a regular node, without Uplinks.
pub(crate) async fn agent(node: &Node, families: Families, more: &[&str]) -> anyhow::Result<Process> {
    let subnets = match families {
        Families::V4 => "10.244.0.0/16",
        Families::V6 => "fd00:10:244::/48",
        Families::Both => "10.244.0.0/16,fd00:10:244::/48",
    };
    let name = node.name();
    let arguments = ["--init-node", name, "--enable-multi-network", "--enable-network-segmentation"];
    let rest = ["--cluster-subnets", subnets, "--k8s-kubeconfig", KUBECONFIG];
    node.spawn_built("node-agent", arguments.iter().chain(&rest).chain(more)).await
}

/// Waits until the listing of the table says something.
pub(crate) async fn table_says(node: &Node, what: &str, accept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let look = || async {
        let listed = node.exec(["nft", "list", "table", "inet", "ovn-kubernetes"]).await;
        let listed = listed.map_err(|error| format!("{error:#}"))?;
        if accept(&listed) { Ok(()) } else { Err(listed) }
    };
    wait_for(what, DEADLINE, look).await
}

fn serve(port: &str) -> [&str; 6] {
    ["httpd", "-f", "-p", port, "-h", "/etc"]
}

/// A pod that is Ready as soon as probes by http, tcp and exec succeed, each once.
fn manifest(node: &str, name: &str, open: Option<&str>) -> Value {
    let networks = json!({
        "default": {"role": "infrastructure-locked"},
        "blue/blue": {"ip_addresses": ["10.100.0.5/16"], "role": "primary"},
    });
    let mut annotations = json!({"k8s.ovn.org/pod-networks": networks.to_string()});
    if let Some(open) = open {
        annotations["k8s.ovn.org/open-default-ports"] = open.into();
    }
    let container = |name: &str, command: &[&str], probe: Value| {
        let mut probe = probe;
        probe["periodSeconds"] = 1.into();
        probe["timeoutSeconds"] = 5.into();
        probe["failureThreshold"] = 1.into();
        json!({"name": name, "image": "rig/busybox:1", "command": command, "readinessProbe": probe})
    };
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                container("http", &serve("8080"), json!({"httpGet": {"path": FILE, "port": PROBED}})),
                container("tcp", &serve("8081"), json!({"tcpSocket": {"port": PROBED}})),
                container("exec", &["sleep", "3600"], json!({"exec": {"command": ["true"]}})),
            ],
        },
    })
}

/// Makes a pod on a node and waits until its probes have succeeded; returns its addresses.
pub(crate) async fn ready(
    rig: &Arc<Rig>,
    node: &Node,
    name: &str,
    open: Option<&str>,
) -> anyhow::Result<Vec<String>> {
    let pods: Api<Pod> = Api::default_namespaced(rig.client());
    let pod: Pod = serde_json::from_value(manifest(node.name(), name, open))?;
    let parameters = PostParams::default();
    // The account of a namespace is made by the controller manager, a moment after the namespace.
    rig.wait_for("the pod to be accepted", DEADLINE, || pods.create(&parameters, &pod)).await?;
    is_ready(rig, name).await
}

/// Waits until a pod is Ready; returns its addresses.
pub(crate) async fn is_ready(rig: &Arc<Rig>, name: &str) -> anyhow::Result<Vec<String>> {
    let pods: Api<Pod> = Api::default_namespaced(rig.client());
    let ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    };
    let pod = wait_object(pods, name, "condition Ready", DEADLINE, ready).await;
    let pod = pod.with_context(|| rig.log_tails())?.context("the pod")?;
    let addresses = pod.status.and_then(|status| status.pod_ips).unwrap_or_default();
    Ok(addresses.into_iter().map(|address| address.ip).collect())
}

/// curl from the node to a pod, from a shell; with a cgroup, from a process in it.
async fn curl(node: &Node, address: &str, port: u16, cgroup: Option<&str>) -> anyhow::Result<i32> {
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let enter =
        cgroup.map_or_else(String::new, |cgroup| format!("echo 0 >/sys/fs/cgroup/{cgroup}/cgroup.procs && "));
    let command = format!("{enter}exec curl -s -o /dev/null --connect-timeout 2 http://{host}:{port}{FILE}");
    node.output(["sh", "-c", &command]).await?.status.code().context("curl was killed")
}

/// Fails unless curl gets an answer.
pub(crate) async fn passes(
    node: &Node,
    address: &str,
    port: u16,
    cgroup: Option<&str>,
) -> anyhow::Result<()> {
    let look = || async {
        match curl(node, address, port, cgroup).await {
            Ok(0) => Ok(()),
            Ok(code) => Err(format!("curl ended with {code}")),
            Err(error) => Err(format!("{error:#}")),
        }
    };
    wait_for(&format!("an answer of {address} port {port}"), DEADLINE, look).await
}

/// Fails unless curl's packets are dropped: no answer, and no refusal either.
pub(crate) async fn is_dropped(node: &Node, address: &str, port: u16) -> anyhow::Result<()> {
    let code = curl(node, address, port, None).await?;
    ensure!(code == TIMED_OUT, "curl from the host to {address} port {port} ended with {code}");
    Ok(())
}

/// Whether a ping from the node is answered.
pub(crate) async fn pings(node: &Node, address: &str) -> anyhow::Result<bool> {
    Ok(node.output(["busybox", "ping", "-c1", "-W5", address]).await?.status.success())
}
