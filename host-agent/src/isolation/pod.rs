//! Pods, cut down to what isolation reads of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway_runtime::watch;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use serde::Deserialize;

use super::ports::{self, OPEN_DEFAULT_PORTS, OpenPort};

/// Key of the annotation with the networks that a pod got. Source: OVN-Kubernetes, `pkg/util/pod_annotation.go`.
pub const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

/// Role of the default network in a pod that has a primary network of its own: there for probes alone.
const INFRASTRUCTURE_LOCKED: &str = "infrastructure-locked";

/// Pods per page of the list. There are thousands, and rules are complete only with the last page: fewer turns between the API
/// server and the agent outweigh the larger page, of which nothing stays.
const PAGE_SIZE: u32 = 250;

/// What is watched: pods of the whole cluster that have not ended, since a host can reach those of other nodes too.
///
/// Differs from upstream, which keeps completed pods in its sets: their addresses are free for others.
#[must_use]
pub fn config() -> watcher::Config {
    watch::config().fields("status.phase!=Succeeded,status.phase!=Failed").page_size(PAGE_SIZE)
}

/// The watched part of a Pod.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
pub struct WatchedPod {
    #[serde(default, deserialize_with = "causeway_runtime::watch::slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodIp {
    #[serde(default)]
    ip: String,
}

/// A pod that is isolated, or of which that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Its uid.
    pub uid: Box<str>,
    /// Whether it runs on this node: one agent of the cluster tells about it, not all.
    pub here: bool,
    /// What is known of its default network.
    pub network: DefaultNetwork,
}

/// What is known of a pod's default network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultNetwork {
    /// For probes alone.
    Locked {
        /// Its addresses there, in order; at least one.
        addresses: Box<[IpAddr]>,
        /// What its owner opened; nothing, and why, if that cannot be read.
        ports: Result<Box<[OpenPort]>, Box<str>>,
    },
    /// Nothing yet: the annotation or the addresses are missing.
    Unknown,
    /// The annotation cannot be read, for this reason.
    Unreadable(Box<str>),
}

/// The entry of the default network in [`POD_NETWORKS`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    role: String,
    ip_addresses: Vec<String>,
}

#[derive(Deserialize)]
struct Networks {
    default: Option<Entry>,
}

impl PodFacts {
    /// What isolation on node `node` has to know of a pod. Nothing, if it is in no set: a pod with the host's network, one
    /// that has ended, one on the default network.
    #[must_use]
    pub fn of(pod: WatchedPod, node: &str) -> Option<Self> {
        let WatchedPod { metadata, spec, status } = pod;
        // Those that the selector leaves out, by an API server that knows none.
        let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if spec.host_network || ended {
            return None;
        }
        let annotations = metadata.annotations.unwrap_or_default();
        let network = match annotations.get(POD_NETWORKS).map(|text| serde_json::from_str::<Networks>(text)) {
            None | Some(Ok(Networks { default: None })) => DefaultNetwork::Unknown,
            Some(Err(error)) => DefaultNetwork::Unreadable(error.to_string().into()),
            Some(Ok(Networks { default: Some(entry) })) if entry.role == INFRASTRUCTURE_LOCKED => {
                locked(&entry, &status, &annotations)
            }
            Some(Ok(Networks { default: Some(_) })) => return None,
        };
        let here = spec.node_name.as_deref() == Some(node);
        Some(Self { uid: metadata.uid.unwrap_or_default().into(), here, network })
    }
}

fn locked(entry: &Entry, status: &Status, annotations: &BTreeMap<String, String>) -> DefaultNetwork {
    let addresses = addresses(entry, status);
    if addresses.is_empty() {
        return DefaultNetwork::Unknown;
    }
    let ports = annotations.get(OPEN_DEFAULT_PORTS).map_or_else(
        || Ok(Box::default()),
        |text| ports::parse(text).map(Into::into).map_err(|error| error.to_string().into()),
    );
    DefaultNetwork::Locked { addresses: addresses.into(), ports }
}

/// The addresses from the first source that has some. What is no address is passed over, as upstream does it.
fn addresses(entry: &Entry, status: &Status) -> Vec<IpAddr> {
    let from_status = status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect();
    let from_annotation = || {
        let address = |text: &String| text.split('/').next()?.parse().ok();
        entry.ip_addresses.iter().filter_map(address).collect()
    };
    let the_first = || status.pod_ip.iter().filter_map(|ip| ip.parse().ok()).collect();
    [from_status, from_annotation(), the_first()]
        .into_iter()
        .find(|found: &Vec<_>| !found.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
