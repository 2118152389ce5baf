//! What `nft list` shows.

use std::sync::Arc;

use anyhow::ensure;
use causeway_rig::Rig;
use causeway_tests::isolation::{DUAL, PodSpec, V4, V6, World};

/// Chain and sets as OVN-Kubernetes (8871cd9c) has them on a node with cgroup v1, captured; elements sorted.
const CAPTURED: &str = include_str!("captured.nft");

/// The parts of a listing that are isolation's, in the order of their names, with sorted elements on one line.
fn parts(listing: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part: Option<String> = None;
    for line in listing.lines().map(str::trim) {
        let begins = |word: &str| line.starts_with(word) && line.contains(" udn-") && line.ends_with('{');
        match &mut part {
            None if begins("set") || begins("chain") => part = Some(format!("{line}\n")),
            None => {}
            Some(text) => {
                let goes_on = text.ends_with(",\n");
                if goes_on {
                    text.pop();
                    text.push(' ');
                }
                text.push_str(line);
                text.push('\n');
                if line == "}" {
                    parts.push(sorted(text));
                    part = None;
                }
            }
        }
    }
    parts.sort();
    parts
}

/// The text with the elements of its set in order: nft lists them as they lie in the kernel.
fn sorted(part: &str) -> String {
    let line = |line: &str| match line.strip_prefix("elements = { ").and_then(|rest| rest.strip_suffix(" }"))
    {
        Some(elements) => {
            let mut elements: Vec<&str> = elements.split(',').map(str::trim).collect();
            elements.sort_unstable();
            format!("elements = {{ {} }}\n", elements.join(", "))
        }
        None => format!("{line}\n"),
    };
    part.lines().map(line).collect()
}

/// In a rig of its own: sets hold the pods of the whole cluster.
pub(crate) async fn captured(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "captured").await?;
    let _agent = world.agent(&V4).await?;
    world.make(&PodSpec::default_network("pod-a", &["10.128.0.3"])).await?;
    world.make(&PodSpec::locked("pod-blue", &["10.128.0.4"])).await?;
    world.make(&PodSpec::locked("pod-green", &["10.128.0.5"])).await?;
    let open = "- protocol: tcp\n  port: 80\n- protocol: udp\n  port: 53\n- protocol: icmp\n";
    world.make(&PodSpec::locked("pod-open", &["10.128.0.7"]).open(open)).await?;
    let open = r#"[{"protocol": "tcp", "port": 443}]"#;
    world.make(&PodSpec::locked("pod-open2", &["10.128.0.8"]).open(open)).await?;
    world.make(&PodSpec::locked("pod-green-remote", &["10.128.1.7"]).on("elsewhere")).await?;
    world.make(&PodSpec::locked("pod-blue-remote", &["10.128.1.8"]).on("elsewhere")).await?;
    world.converged().await?;
    let listing = world.nft(&["list", "table", "inet", "ovn-kubernetes"]).await?;
    let (found, want) = (parts(&listing), parts(CAPTURED));
    ensure!(want.len() == 7, "{} parts were captured", want.len());
    ensure!(found == want, "found:\n{}\nwanted:\n{}", found.concat(), want.concat());
    Ok(())
}

pub(crate) async fn families(rig: Arc<Rig>) -> anyhow::Result<()> {
    let world = World::start(rig, "families").await?;
    let v4 = [
        "ip daddr . meta l4proto . th dport @udn-open-ports-v4 accept",
        "ip daddr @udn-open-ports-icmp-v4 meta l4proto icmp accept",
        "ip daddr @udn-pod-default-ips-v4 drop",
    ];
    let v6 = [
        "ip6 daddr . meta l4proto . th dport @udn-open-ports-v6 accept",
        "ip6 daddr @udn-open-ports-icmp-v6 meta l4proto ipv6-icmp accept",
        "ip6 daddr @udn-pod-default-ips-v6 drop",
    ];
    let both: Vec<&str> = v4.into_iter().chain(v6).collect();
    // One after the other: a cluster that gets or loses a family has its rules made anew, and all sets in each case.
    for (families, want) in [(V4, v4.to_vec()), (DUAL, both), (V6, v6.to_vec())] {
        let agent = world.agent(&families).await?;
        ensure!(world.rules().await? == want, "{families:?}: {:?}", world.rules().await?);
        world.converged().await?;
        agent.kill().await?;
    }
    Ok(())
}
