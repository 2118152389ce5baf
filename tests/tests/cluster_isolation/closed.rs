//! A node whose kubelet cannot be told apart.

use std::sync::Arc;

use causeway_rig::{Families, Rig};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use crate::pods::{self, DEADLINE};

const CGROUP: &str = "podruntime/kubelet";

const NOTE: &str = "Kubelet probes to primary UDN pods are not supported on node closed: configured kubelet cgroup path \
                    \"podruntime/kubelet\" is not present under /sys/fs/cgroup: No such file or directory (os error 2). Use the \
                    k8s.ovn.org/open-default-ports pod annotation to allow the probe ports from the host.";

/// The rules without the kubelet's come at once, with an Event; the kubelet's when its cgroup does.
pub(crate) async fn until_there_is_one(rig: Arc<Rig>) -> anyhow::Result<()> {
    let node = rig.node("closed").start().await?;
    let agent = pods::agent(&node, Families::Both, &["--kubelet-cgroup-path", CGROUP]).await?;
    pods::table_says(&node, "rules without the kubelet's", |listed| {
        listed.contains("ip daddr @udn-pod-default-ips-v4 drop")
            && listed.contains("ip6 daddr @udn-pod-default-ips-v6 drop")
            && !listed.contains("cgroupv2")
    })
    .await?;
    told(&rig).await?;

    let folder = format!("/sys/fs/cgroup/{CGROUP}");
    let rule = format!("socket cgroupv2 level 2 \"{CGROUP}\"");
    let lets_through = |listed: &str| listed.matches(&rule).count() == 2;
    node.exec(["mkdir", "-p", &folder]).await?;
    pods::table_says(&node, "rules with the kubelet's, one for each family", lets_through).await?;
    for _ in 0..2 {
        // The old rule stays until then, and is listed with the number of a cgroup that is gone.
        node.exec(["sh", "-c", &format!("rmdir {folder} && mkdir {folder}")]).await?;
        pods::table_says(&node, "rules with the new cgroup", lets_through).await?;
    }
    pods::table_says(&node, "no chain of the check", |listed| !listed.contains("udn-isolation-socket-probe"))
        .await?;
    anyhow::ensure!(agent.is_running(), "the agent has ended");
    told(&rig).await
}

/// The Event is there, and there is one.
async fn told(rig: &Arc<Rig>) -> anyhow::Result<()> {
    let events: Api<Event> = Api::default_namespaced(rig.client());
    let look = || async {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let told: Vec<String> = all
            .items
            .into_iter()
            .filter(|event| event.regarding.as_ref().and_then(|node| node.name.as_deref()) == Some("closed"))
            .filter(|event| event.reason.as_deref() == Some("UDNKubeletProbesNotSupported"))
            .filter_map(|event| event.note)
            .collect();
        if told == [NOTE] { Ok(()) } else { Err(format!("{told:?}")) }
    };
    rig.wait_for("the Event on the node", DEADLINE, look).await
}
