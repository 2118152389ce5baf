//! What is wrong with an installation, from what was observed. Pure.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::condition;
use causeway_api::uplink::{Uplink, UplinkReason};
use causeway_api::uplink_state::UplinkState;
use causeway_net::selection::{NodeConfigs, Selection};
use causeway_net::state_name::StateName;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;

use super::{Finding, crd};
use crate::cluster::NodeRow;
use crate::remedy;

/// Oldest API server that will do: the first whose field selectors on custom resources are always on. Source:
/// kubernetes.io, feature gate CustomResourceFieldSelectors (stable in 1.32).
const OLDEST_SERVER: (u32, u32) = (1, 32);

/// Label of nodes that have a card. Source: the Helm charts of ovn-kubernetes.
const DPU_HOST: &str = "k8s.ovn.org/dpu-host";

/// Label of cards that are nodes. Source: the Helm charts of ovn-kubernetes.
const DPU: &str = "k8s.ovn.org/dpu";

/// Annotation that says which user is a node's card. Source: deploy/admission.
pub const DPU_IDENTITY: &str = "causeway.internal/dpu-identity";

/// Label by which the pods of deploy/manifests are told.
pub const POD_LABEL: &str = "app.kubernetes.io/name";

/// What was observed; each part, or why it could not be.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Version of the API server: major, minor and its own text.
    pub server: (String, String, String),
    /// This version's definitions and the cluster's.
    pub definitions: Vec<(CustomResourceDefinition, Result<Option<CustomResourceDefinition>, String>)>,
    /// What this program needs, and whether its user may do it.
    pub permissions: Vec<(Need, Result<bool, String>)>,
    /// Nodes.
    pub nodes: Result<Vec<NodeRow>, String>,
    /// Uplinks.
    pub uplinks: Result<Vec<Uplink>, String>,
    /// States.
    pub states: Result<Vec<UplinkState>, String>,
    /// Pods of Causeway.
    pub pods: Result<Vec<PodRow>, String>,
}

/// Something that this program does at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Verb.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource.
    pub resource: &'static str,
}

/// All that it does.
pub const NEEDS: &[Need] = &[
    Need { verb: "list", group: causeway_api::GROUP, resource: "uplinks" },
    Need { verb: "list", group: causeway_api::GROUP, resource: "uplinkstates" },
    Need { verb: "list", group: "", resource: "nodes" },
    Need { verb: "list", group: "", resource: "pods" },
    Need { verb: "list", group: "", resource: "events" },
    Need { verb: "get", group: "apiextensions.k8s.io", resource: "customresourcedefinitions" },
];

/// A pod of Causeway, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Which program: `causeway-node-agent` and the like.
    pub program: String,
    /// The Node that it runs on.
    pub node: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Its phase, and why its container waits.
    pub state: String,
    /// Its image.
    pub image: String,
}

/// Judges all of it.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![server(&facts.server)];
    findings.extend(facts.definitions.iter().map(|(want, have)| definition(want, have)));
    findings.extend(facts.permissions.iter().map(|(need, may)| permission(*need, may)));
    findings.extend(agents(facts));
    findings.extend(cards(facts));
    findings
}

fn server((major, minor, text): &(String, String, String)) -> Finding {
    let digits = |part: &str| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end).and_then(|digits| digits.parse::<u32>().ok())
    };
    let subject = "API server";
    match (digits(major), digits(minor)) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST_SERVER => {
            Finding::good("api", subject, format!("version {text}"))
        }
        (Some(_), Some(_)) => Finding::problem(
            "api",
            subject,
            format!("version {text} is older than {}.{}", OLDEST_SERVER.0, OLDEST_SERVER.1),
            "update the control plane: agents select their node's UplinkStates by field, which older servers refuse",
        ),
        _ => Finding::note("api", subject, format!("version {text} cannot be compared")),
    }
}

fn definition(
    want: &CustomResourceDefinition,
    have: &Result<Option<CustomResourceDefinition>, String>,
) -> Finding {
    const AREA: &str = "definitions";
    let name = want.metadata.name.clone().unwrap_or_default();
    let apply = "apply deploy/crds of the version that runs";
    match have {
        Err(error) => Finding::note(AREA, name, format!("cannot be read: {error}")),
        Ok(None) => Finding::problem(AREA, name, "is not installed", apply),
        Ok(Some(have)) => {
            let differences = crd::differences(want, have);
            if differences.is_empty() {
                Finding::good(AREA, name, "installed, as this version has it")
            } else {
                let found = format!("differs from this version's: {}", differences.join("; "));
                Finding::problem(AREA, name, found, apply)
            }
        }
    }
}

fn permission(need: Need, may: &Result<bool, String>) -> Finding {
    const AREA: &str = "permissions";
    let Need { verb, group, resource } = need;
    let dot = if group.is_empty() { "" } else { "." };
    let subject = format!("{verb} {resource}{dot}{group}");
    match may {
        Ok(true) => Finding::good(AREA, subject, "allowed"),
        Ok(false) => Finding::note(AREA, subject, "not allowed for you: what needs it is left out"),
        Err(error) => Finding::note(AREA, subject, format!("cannot be told: {error}")),
    }
}

/// Whether each node has its agents, by their pods, and has spoken, by its states.
fn agents(facts: &Facts) -> Vec<Finding> {
    const AREA: &str = "agents";
    let nodes = match &facts.nodes {
        Ok(nodes) => nodes,
        Err(error) => return vec![Finding::note(AREA, "nodes", format!("cannot be listed: {error}"))],
    };
    let mut findings = match &facts.pods {
        Err(error) => vec![Finding::note(AREA, "pods", format!("cannot be listed: {error}"))],
        Ok(pods) if pods.is_empty() => {
            let found =
                format!("none with the label {POD_LABEL}=causeway-…: programs run outside of pods, or not");
            vec![Finding::note(AREA, "pods", found)]
        }
        Ok(pods) => by_pods(nodes, pods),
    };
    let (uplinks, states) = match (&facts.uplinks, &facts.states) {
        (Ok(uplinks), Ok(states)) => (uplinks, states),
        (Err(error), _) | (_, Err(error)) => {
            findings.push(Finding::note(AREA, "Uplinks", format!("cannot be listed: {error}")));
            return findings;
        }
    };
    findings.extend(nodes.iter().filter_map(|node| by_states(node, uplinks, states)));
    findings
}

fn by_pods(nodes: &[NodeRow], pods: &[PodRow]) -> Vec<Finding> {
    const AREA: &str = "agents";
    let mut findings = Vec::new();
    let on = |program: &str, node: &str| {
        pods.iter().find(|pod| pod.program == program && pod.node.as_deref() == Some(node))
    };
    for node in nodes {
        let program = match (node.labels.contains_key(DPU_HOST), node.labels.contains_key(DPU)) {
            (true, _) => "causeway-host-agent",
            (false, true) => "causeway-dpu-agent",
            (false, false) => "causeway-node-agent",
        };
        let subject = format!("{program} on {}", node.name);
        findings.push(match on(program, &node.name) {
            Some(pod) if pod.ready => Finding::good(AREA, subject, "ready"),
            Some(pod) => Finding::problem(
                AREA,
                subject,
                format!("pod {} is not ready: {}", pod.name, pod.state),
                format!("kubectl -n {} logs {}", pod.namespace, pod.name),
            ),
            None => Finding::problem(
                AREA,
                subject,
                "no pod",
                format!("see why the DaemonSet {program} has no pod there (kubectl get daemonset,pod -A -l {POD_LABEL}={program} -o wide)"),
            ),
        });
    }
    let managers: Vec<&PodRow> =
        pods.iter().filter(|pod| pod.program == "causeway-cluster-manager").collect();
    let ready = managers.iter().filter(|pod| pod.ready).count();
    let subject = "causeway-cluster-manager";
    findings.push(match ready {
        0 => Finding::problem(
            AREA,
            subject,
            format!("{} pod(s), none ready", managers.len()),
            format!("kubectl get pod -A -l {POD_LABEL}={subject}, then its logs"),
        ),
        _ => Finding::good(AREA, subject, format!("{ready} of {} pod(s) ready", managers.len())),
    });
    findings
}

/// What a node has published for the Uplinks that select it.
fn by_states(node: &NodeRow, uplinks: &[Uplink], states: &[UplinkState]) -> Option<Finding> {
    const AREA: &str = "agents";
    let selecting = |uplink: &&Uplink| {
        uplink.metadata.deletion_timestamp.is_none()
            && NodeConfigs::parse(&uplink.spec)
                .is_ok_and(|configs| !matches!(configs.select(&node.labels), Selection::None))
    };
    let names: Vec<&str> =
        uplinks.iter().filter(selecting).filter_map(|uplink| uplink.metadata.name.as_deref()).collect();
    if names.is_empty() {
        return None;
    }
    let state_of = |uplink: &str| {
        let name = StateName::of(uplink, &node.name);
        states.iter().find(|state| state.metadata.name.as_deref() == Some(name.as_str()))
    };
    let silent: Vec<&str> = names.iter().copied().filter(|uplink| state_of(uplink).is_none()).collect();
    let subject = format!("node {}", node.name);
    if !silent.is_empty() {
        let found = format!("has published nothing about Uplink(s) {}", silent.join(", "));
        let action = remedy::of_uplink(UplinkReason::MissingUplinkState).action;
        return Some(Finding::problem(AREA, subject, found, action));
    }
    let resolved = names.iter().filter(|uplink| {
        state_of(uplink).is_some_and(|state| condition::is_true(state.conditions(), "Resolved"))
    });
    let (resolved, all) = (resolved.count(), names.len());
    let found = format!("{resolved} of {all} Uplink(s) resolved");
    Some(if resolved == all {
        Finding::good(AREA, subject, found)
    } else {
        Finding::problem(
            AREA,
            subject,
            found,
            format!("causewayctl uplink explain NAME --node {}", node.name),
        )
    })
}

/// Which card serves which node.
fn cards(facts: &Facts) -> Vec<Finding> {
    const AREA: &str = "cards";
    let Ok(nodes) = &facts.nodes else { return Vec::new() };
    let mut findings = Vec::new();
    let mut served: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in nodes {
        let has_card = node.labels.contains_key(DPU_HOST);
        let subject = format!("node {}", node.name);
        match (node.annotations.get(DPU_IDENTITY), has_card) {
            (Some(user), true) => {
                served.entry(user).or_default().insert(&node.name);
                findings.push(Finding::good(AREA, subject, format!("its card is user {user}")));
            }
            (Some(user), false) => {
                let found = format!("names user {user} as its card, and has no label {DPU_HOST}");
                findings.push(Finding::note(AREA, subject, found));
            }
            (None, true) => {
                let found = format!(
                    "has a card and no annotation {DPU_IDENTITY}: where deploy/admission is installed, the card cannot publish"
                );
                findings.push(Finding::note(AREA, subject, found));
            }
            (None, false) => {}
        }
    }
    let shared = served.iter().filter(|(_, nodes)| nodes.len() > 1);
    findings.extend(shared.map(|(user, nodes)| {
        let nodes: Vec<&str> = nodes.iter().copied().collect();
        let found = format!("is named as the card of several nodes: {}", nodes.join(", "));
        Finding::note(AREA, format!("user {user}"), found)
    }));
    findings
}

#[cfg(test)]
mod tests;
