//! Reads what an explanation of isolation rests on.

use std::fs;
use std::path::{Path, PathBuf};

use causeway_net::network::name::PodKey;
use causeway_proto::introspect::DescribeRequest;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::ask::{Port, ProcessName};
use super::model::{DefaultNetwork, PodRow, ProcessRow, World};
use crate::agent::{self, AgentView};
use crate::cluster::{failed, list};
use crate::error::CtlError;

/// Source: OVN-Kubernetes, `pkg/util/pod_annotation.go`.
const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The node; none stands for that of the agent that answers.
    pub node: Option<String>,
    /// The agent's socket.
    pub socket: PathBuf,
    /// The pod.
    pub pod: Option<PodKey>,
    /// The process.
    pub process: Option<ProcessName>,
    /// What it wants to reach.
    pub port: Option<Port>,
}

/// Asks the node's agent, the API server about the pod, and the kernel about the process. `client` is needed for a pod only.
///
/// # Errors
/// The agent does not answer or serves another node; there is no such pod or process; the API server's answer.
pub async fn world(client: Option<&Client>, question: &Question) -> Result<World, CtlError> {
    let request =
        DescribeRequest { pod: question.pod.as_ref().map(ToString::to_string), ..Default::default() };
    let view: AgentView = agent::ask_for(&question.socket, request).await?;
    if let Some(node) = question.node.as_ref().filter(|node| **node != view.node) {
        return Err(CtlError::OtherNode {
            wanted: node.clone(),
            socket: question.socket.clone(),
            node: view.node,
        });
    }
    let process =
        question.process.as_ref().map(|process| process_row(Path::new("/proc"), process)).transpose()?;
    let pod = match (&question.pod, client) {
        (Some(name), Some(client)) => Some(pod(client, name).await?),
        _ => None,
    };
    Ok(World {
        node: view.node,
        kubelet: view.kubelet,
        isolation: view.isolation,
        pod,
        process,
        port: question.port,
    })
}

async fn pod(client: &Client, name: &PodKey) -> Result<PodRow, CtlError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), name.namespace().as_str());
    // By a list, which agents' accounts may do too.
    let named = ListParams::default().fields(&format!("metadata.name={}", name.name()));
    let found = list(&api, &named).await.map_err(failed(format!("read pod {name}")))?;
    let found = found.into_iter().next();
    found.map(row).ok_or_else(|| CtlError::NotFound { kind: "Pod", name: name.to_string() })
}

fn row(pod: Pod) -> PodRow {
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let name = [pod.metadata.namespace, pod.metadata.name].map(Option::unwrap_or_default).join("/");
    let mut addresses: Vec<String> = status.pod_ips.into_iter().flatten().map(|ip| ip.ip).collect();
    if addresses.is_empty() {
        addresses.extend(status.pod_ip);
    }
    PodRow {
        name,
        node: spec.node_name,
        host_network: spec.host_network.unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        addresses,
        default_network: default_network(annotations.get(POD_NETWORKS).map(String::as_str)),
    }
}

fn default_network(annotation: Option<&str>) -> DefaultNetwork {
    #[derive(Deserialize)]
    struct Networks {
        default: Option<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        role: String,
    }
    match annotation.map(serde_json::from_str::<Networks>) {
        None | Some(Ok(Networks { default: None })) => DefaultNetwork::Unknown,
        Some(Ok(Networks { default: Some(entry) })) => DefaultNetwork::Role(entry.role),
        Some(Err(error)) => DefaultNetwork::Unreadable(error.to_string()),
    }
}

/// A process of this machine. Source: cgroups(7), `/proc/pid/cgroup`.
fn process_row(proc: &Path, process: &ProcessName) -> Result<ProcessRow, CtlError> {
    match process {
        ProcessName::Cgroup(path) => {
            Ok(ProcessRow { name: format!("a process in cgroup {path}"), cgroup: path.clone() })
        }
        ProcessName::Pid(pid) => {
            let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
            let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
            let path = path.ok_or_else(|| CtlError::NotFound { kind: "process", name: pid.to_string() })?;
            Ok(ProcessRow { name: format!("process {pid}"), cgroup: path.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_of_the_default_network_is_read_from_the_annotation() {
        for (annotation, want) in [
            (None, DefaultNetwork::Unknown),
            (Some("{}"), DefaultNetwork::Unknown),
            (
                Some(r#"{"default":{"role":"infrastructure-locked","ip_addresses":["10.244.0.6/24"]}}"#),
                DefaultNetwork::Role("infrastructure-locked".into()),
            ),
            (Some(r#"{"default":{"mac_address":"0a:58"}}"#), DefaultNetwork::Role(String::new())),
        ] {
            assert_eq!(default_network(annotation), want, "{annotation:?}");
        }
        assert!(matches!(default_network(Some("{")), DefaultNetwork::Unreadable(_)));
    }

    #[test]
    fn a_process_is_found_by_number_or_named_by_its_cgroup() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        fs::write(proc.path().join("7/cgroup"), "1:name=systemd:/x\n0::/user.slice/session-1.scope\n")
            .unwrap();
        let row = |process| process_row(proc.path(), &process).map(|row| row.cgroup);
        assert_eq!(row(ProcessName::Pid(7)).unwrap(), "user.slice/session-1.scope");
        assert_eq!(row(ProcessName::Cgroup("a/b".into())).unwrap(), "a/b");
        assert!(matches!(row(ProcessName::Pid(8)), Err(CtlError::NotFound { kind: "process", .. })));
    }
}
