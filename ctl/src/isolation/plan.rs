//! What follows from what was observed. Pure.
//!
//! Rules and sets are those of OVN-Kubernetes, `pkg/node/udn_isolation.go`.

use super::ask::Port;
use super::model::{
    DefaultNetwork, Element, Explanation, PodExplained, PodRow, Problem, ProcessRow, Verdict, World,
};
use crate::agent::guard::{ElementView, IsolatedPodView, KubeletView};

/// Role of the default network in a pod with a primary network of its own. Source: OVN-Kubernetes,
/// `pkg/util/pod_annotation.go`.
const LOCKED: &str = "infrastructure-locked";

/// What sets are called, without their family.
const ADDRESSES: &str = "udn-pod-default-ips-";
const ICMP: &str = "udn-open-ports-icmp-";
const PORTS: &str = "udn-open-ports-";

/// Explains.
#[must_use]
pub fn explain(world: &World) -> Explanation {
    let pod = world.pod.as_ref().map(|pod| explain_pod(pod, world.seen()));
    Explanation {
        node: world.node.clone(),
        kubelet: world.kubelet.clone(),
        families: world.isolation.as_ref().map(|isolation| isolation.families.clone()).unwrap_or_default(),
        verdicts: verdicts(world),
        problems: problems(world),
        pod,
    }
}

/// Why isolation has nothing to do with a pod; `None` if it has.
fn exempt(pod: &PodRow) -> Option<String> {
    if pod.host_network {
        return Some("it has the network of its node (hostNetwork)".to_owned());
    }
    if matches!(pod.phase.as_str(), "Succeeded" | "Failed") {
        return Some(format!("it has ended ({}): its addresses are free for others", pod.phase));
    }
    match &pod.default_network {
        DefaultNetwork::Role(role) if role != LOCKED => {
            Some(format!("the default network is its {role} network, not one for probes alone"))
        }
        _ => None,
    }
}

fn explain_pod(pod: &PodRow, seen: Option<&IsolatedPodView>) -> PodExplained {
    let elements = seen.map(|seen| seen.elements.as_slice()).unwrap_or_default();
    let isolated = !elements.is_empty();
    let because = match (isolated, exempt(pod), &pod.default_network) {
        (true, None, _) => {
            "it has a primary network of its own, and the default network for probes alone".to_owned()
        }
        (true, Some(exempt), _) => format!("its elements are about to go: {exempt}"),
        (false, Some(exempt), _) => exempt,
        (false, None, DefaultNetwork::Unknown) => {
            "nothing has given it networks yet (annotation k8s.ovn.org/pod-networks)".to_owned()
        }
        (false, None, DefaultNetwork::Unreadable(error)) => {
            format!("its annotation k8s.ovn.org/pod-networks cannot be read: {error}")
        }
        (false, None, DefaultNetwork::Role(_)) if pod.addresses.is_empty() => {
            "no address of it on the default network is known yet".to_owned()
        }
        (false, None, DefaultNetwork::Role(_)) => "the agent has not seen it yet".to_owned(),
    };
    let elements = elements.iter().map(|element| Element { element: element.clone(), because: why(element) });
    PodExplained { name: pod.name.clone(), isolated, because, elements: elements.collect() }
}

fn why(element: &ElementView) -> &'static str {
    match element.set.as_str() {
        set if set.starts_with(ADDRESSES) => "an address of the pod on the default network",
        set if set.starts_with(ICMP) => "the annotation k8s.ovn.org/open-default-ports opens icmp",
        set if set.starts_with(PORTS) => "the annotation k8s.ovn.org/open-default-ports opens the port",
        _ => "unknown to this causewayctl",
    }
}

fn verdicts(world: &World) -> Vec<Verdict> {
    let (Some(process), Some(pod)) = (&world.process, &world.pod) else { return Vec::new() };
    // Without the agent's word about rules nothing is certain.
    let Some(isolation) = &world.isolation else { return Vec::new() };
    let elements = world.seen().map(|seen| seen.elements.as_slice()).unwrap_or_default();
    let addresses = pod.addresses.iter();
    let verdict = |address: &String| {
        let (passes, because) = decide(address, process, world, elements, &isolation.families);
        Verdict {
            process: process.name.clone(),
            address: address.clone(),
            port: world.port.map(|port| port.to_string()),
            passes,
            because,
        }
    };
    addresses.map(verdict).collect()
}

/// The rules in their order.
fn decide(
    address: &str,
    process: &ProcessRow,
    world: &World,
    elements: &[ElementView],
    families: &[&str],
) -> (bool, String) {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    if !families.contains(&family) {
        return (true, format!("there are no rules for {family} on this node"));
    }
    let has = |set: &str, element: &str| {
        let in_set = |one: &&ElementView| one.set.trim_end_matches(['4', '6']) == format!("{set}v");
        elements.iter().filter(in_set).any(|one| one.element == element)
    };
    let open = match world.port {
        Some(Port::Icmp) => has(ICMP, address),
        Some(Port::Of(protocol, port)) => has(PORTS, &format!("{address} . {protocol} . {port}")),
        None => false,
    };
    if open {
        return (true, "the pod's owner opened it".to_owned());
    }
    if !has(ADDRESSES, address) {
        return (true, "the address is not isolated".to_owned());
    }
    match kubelets(world.kubelet.as_ref(), &process.cgroup) {
        Ok(because) => (true, because),
        Err(because) => (false, because),
    }
}

/// Whether a cgroup is the kubelet's or below it: the match compares the ancestor at the kubelet's level.
fn kubelets(kubelet: Option<&KubeletView>, cgroup: &str) -> Result<String, String> {
    let Some(own) = kubelet.and_then(|kubelet| kubelet.cgroup.as_ref()) else {
        return Err("no process is told apart, and the port is not open".to_owned());
    };
    let below = cgroup.strip_prefix(own.as_str());
    if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        Ok(format!("the process is in the kubelet's cgroup {own}"))
    } else {
        Err(format!(
            "the process is in cgroup /{cgroup}, not in the kubelet's ({own}), and the port is not open"
        ))
    }
}

fn problems(world: &World) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |found: String, remedy| problems.push(Problem { found, remedy });
    match &world.kubelet {
        None => problem(
            format!("the agent of node {} does not isolate pods", world.node),
            "start it with --enable-multi-network and --enable-network-segmentation; on a card, ask the agent of its host",
        ),
        Some(kubelet) if kubelet.mode == "closed" => problem(
            format!("the kubelet's probes to pods of primary networks are dropped: {}", kubelet.reason),
            "give the agent --kubelet-cgroup-path, or let pods open their probe ports by the annotation k8s.ovn.org/open-default-ports; exec probes work",
        ),
        Some(kubelet) if kubelet.mode == "looking" => problem(
            "the kubelet's cgroup is gone and not back yet: its probes are dropped".to_owned(),
            "see that the kubelet runs",
        ),
        Some(kubelet) if !kubelet.tracking.is_empty() && kubelet.tracking.iter().all(|means| !means.works) => problem(
            "nothing would tell that the kubelet starts again, and its probes would be dropped from then on".to_owned(),
            "raise fs.inotify.max_user_watches and max_user_instances, or give the agent systemd's private socket",
        ),
        Some(_) => {}
    }
    if let Some(pod) = &world.pod {
        match &pod.default_network {
            DefaultNetwork::Unreadable(error) => problem(
                format!("the annotation k8s.ovn.org/pod-networks of {} cannot be read: {error}", pod.name),
                "see who writes it; it is not the owner's to write",
            ),
            DefaultNetwork::Role(role)
                if role == LOCKED
                    && exempt(pod).is_none()
                    && !pod.addresses.is_empty()
                    && world.isolation.is_some()
                    && world.seen().is_none_or(|seen| seen.elements.is_empty()) =>
            {
                problem(
                    format!("{} should be isolated and has nothing in the sets", pod.name),
                    "look at the agent's stores and log (causewayctl agent)",
                );
            }
            _ => {}
        }
    }
    if let Some(seen) = world.seen().filter(|seen| !seen.ports_error.is_empty()) {
        problem(
            format!(
                "the annotation k8s.ovn.org/open-default-ports of {} opens nothing: {}",
                seen.name, seen.ports_error
            ),
            "correct the annotation: a list of protocol (tcp, udp, sctp, icmp) and port",
        );
    }
    problems
}

#[cfg(test)]
mod tests;
