//! A node with a kubelet: who reaches a pod, before and after the kubelet was away.

use std::sync::Arc;

use anyhow::{Context, ensure};
use causeway_rig::{Families, KUBECONFIG, KUBELET_CGROUP, Node, PROGRAMS, Rig, wait_for};
use futures::future::try_join_all;
use serde_json::Value;

use crate::pods::{self, DEADLINE, OPEN, PROBED};

const OPENED: &str = "- protocol: tcp\n  port: 8081\n- protocol: icmp\n";

/// The whole story of one node.
pub(crate) async fn pass_and_others_do_not(rig: Arc<Rig>, families: Families) -> anyhow::Result<()> {
    let name = match families {
        Families::V4 => "four",
        Families::V6 => "six",
        Families::Both => "both",
    };
    let node = rig.node(name).kubelet().pods(families).start().await?;
    let _agent = pods::agent(&node, families, &[]).await?;
    rules_name_the_cgroup(&node).await?;
    let names = [format!("{name}-open"), format!("{name}-closed")];
    let (open, closed) = futures::try_join!(
        pods::ready(&rig, &node, &names[0], Some(OPENED)),
        pods::ready(&rig, &node, &names[1], None),
    )?;
    let want = if families == Families::Both { 2 } else { 1 };
    ensure!(open.len() == want && closed.len() == want, "addresses of pods: {open:?}, {closed:?}");
    host_is_kept_out(&node, &open, &closed).await.context("with a kubelet that was never away")?;
    is_explained(&node, &format!("{name}-open"), &open).await?;

    let kubelet = node.service("kubelet").context("the kubelet")?;
    kubelet.restart().await?;
    pods::ready(&rig, &node, &format!("{name}-restarted"), None)
        .await
        .context("after a restart of the kubelet")?;
    for name in &names {
        pods::is_ready(&rig, name).await.context("a pod from before the kubelet's restart")?;
    }

    kubelet.kill().await?;
    let folder = format!("/sys/fs/cgroup/{KUBELET_CGROUP}");
    wait_for("the kubelet's cgroup to be empty", DEADLINE, || node.exec(["rmdir", &folder])).await?;
    kubelet.restart().await?;
    rules_name_the_cgroup(&node).await.context("after the cgroup was made again")?;
    pods::ready(&rig, &node, &format!("{name}-remade"), None)
        .await
        .context("after the cgroup was made again")?;
    pods::is_ready(&rig, &format!("{name}-closed")).await.context("a pod from before")?;
    host_is_kept_out(&node, &open, &closed).await.context("after the cgroup was made again")
}

/// A rule whose cgroup is another one by now is listed with a number.
async fn rules_name_the_cgroup(node: &Node) -> anyhow::Result<()> {
    let rule = format!("socket cgroupv2 level 2 \"{KUBELET_CGROUP}\"");
    pods::table_says(node, "a rule for the kubelet's cgroup", |listed| listed.contains(&rule)).await
}

async fn host_is_kept_out(node: &Node, open: &[String], closed: &[String]) -> anyhow::Result<()> {
    let open = open.iter().map(|address| async move {
        pods::table_says(node, "the pod's address in a set", |listed| listed.contains(address)).await?;
        futures::try_join!(
            pods::is_dropped(node, address, PROBED),
            pods::passes(node, address, OPEN, None),
            pods::passes(node, address, PROBED, Some(KUBELET_CGROUP)),
        )?;
        ensure!(pods::pings(node, address).await?, "icmp of {address} is open");
        Ok(())
    });
    let closed = closed.iter().map(|address| async move {
        futures::try_join!(pods::is_dropped(node, address, PROBED), pods::is_dropped(node, address, OPEN))?;
        ensure!(!pods::pings(node, address).await?, "icmp of {address} is not open");
        Ok(())
    });
    futures::try_join!(try_join_all(open), try_join_all(closed)).map(drop)
}

/// `causewayctl` says what was seen to happen.
async fn is_explained(node: &Node, pod: &str, addresses: &[String]) -> anyhow::Result<()> {
    let pod = format!("default/{pod}");
    for (process, port, want) in [
        (KUBELET_CGROUP, "tcp/8080", true),
        ("user.slice", "tcp/8080", false),
        ("user.slice", "tcp/8081", true),
        ("user.slice", "icmp", true),
    ] {
        let program = format!("{PROGRAMS}/causewayctl");
        let question = ["isolation", "explain", "--node", node.name(), "--pod", &pod];
        let of = ["--process", process, "--port", port, "-o", "json", "--kubeconfig", KUBECONFIG];
        let said = node.exec([program.as_str()].iter().chain(&question).chain(&of)).await?;
        let said: Value = serde_json::from_str(&said)?;
        ensure!(
            said["kubelet"]["mode"] == "kubelet" && said["kubelet"]["cgroup"] == KUBELET_CGROUP,
            "{said:#}"
        );
        ensure!(said["pod"]["isolated"] == true, "{said:#}");
        let verdicts = said["verdicts"].as_array().context("verdicts")?;
        ensure!(verdicts.len() == addresses.len(), "{said:#}");
        ensure!(verdicts.iter().all(|verdict| verdict["passes"] == want), "{process} {port}: {said:#}");
    }
    Ok(())
}
