//! The workloads: one Deployment for the cluster, one DaemonSet per kind of node.
//!
//! In: [`Options`]. Out: `deploy/manifests/*.yaml` with the defaults, or any folder with others (`--render`). Each
//! program gets what it uses in this version and nothing more: see [`workload`].

mod workload;

#[cfg(test)]
mod tests;

use clap::Args;
use serde_json::{Value, json};

use self::workload::{CONFIG_FILE, PodSpec};
use crate::names::{Component, NAMESPACE};
use crate::output::File;

/// Label of nodes whose network runs on a card. Source: the Helm charts of ovn-kubernetes.
pub(crate) const DPU_HOST: &str = "k8s.ovn.org/dpu-host";
/// Label of cards that are nodes. Source: as [`DPU_HOST`].
pub(crate) const DPU: &str = "k8s.ovn.org/dpu";

/// What depends on the cluster. The defaults make the committed manifests.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Image with all programs in /usr/bin.
    #[arg(long, default_value = concat!("causeway:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,
    /// Pod subnets of the cluster; they say which IP families there are.
    #[arg(long, default_value = "10.128.0.0/14/23")]
    pub(crate) cluster_subnets: String,
    /// Service subnets of the cluster.
    #[arg(long, default_value = "172.16.1.0/24")]
    pub(crate) service_cidrs: String,
    /// URL of the API server, where the Service `kubernetes` is not reachable from the host network.
    #[arg(long)]
    pub(crate) api_server: Option<String>,
    /// Group id that may open Open vSwitch's database socket, where it is not root's (the group `openvswitch`).
    #[arg(long)]
    pub(crate) ovs_group: Option<i64>,
    /// cgroup of the kubelet below /sys/fs/cgroup, where the agents on hosts shall not look for the running kubelet's.
    #[arg(long)]
    pub(crate) kubelet_cgroup_path: Option<String>,
    /// Show the host's systemd to the agents on hosts, by its private socket: they hear of restarts of the kubelet by it,
    /// besides by the kubelet's cgroup. Hosts without systemd have none.
    #[arg(long)]
    pub(crate) systemd_socket: bool,
}

/// All files.
pub(crate) fn files(options: &Options) -> Vec<File> {
    let mut files = vec![config(options)];
    files.extend(Component::ALL.map(|component| match component {
        Component::ClusterManager => cluster_manager(options),
        Component::HostAgent | Component::DpuAgent | Component::NodeAgent => daemon_set(component, options),
    }));
    files
}

fn config(options: &Options) -> File {
    let settings = format!(
        "[default]\ncluster-subnets={}\n\n[kubernetes]\nservice-cidrs={}\n\n[ovnkubernetesfeature]\n\
         enable-multi-network=true\nenable-network-segmentation=true\nenable-uplink=true\n\n\
         # Room for 4,095 networks; the defaults hold none.\n\
         [gateway]\nv4-masquerade-subnet=169.254.0.0/17\nv6-masquerade-subnet=fd69::/112\n",
        options.cluster_subnets, options.service_cidrs
    );
    File::new(
        "00-config.yaml",
        "Settings of all programs in the cluster, under upstream's names. A program reads them when it starts.",
        [json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "causeway-config", "namespace": NAMESPACE},
            "data": {CONFIG_FILE: settings},
        })],
    )
}

fn cluster_manager(options: &Options) -> File {
    let component = Component::ClusterManager;
    let name = component.name();
    let labels = json!({"app.kubernetes.io/name": name});
    let mut spec = PodSpec::of(component, options).render();
    if let Some(fields) = spec.as_object_mut() {
        let apart = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}},
        }]}});
        fields.insert("affinity".to_owned(), apart);
    }
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            // Both replicas use the host's network and port: a third one next to them may find no node.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    File::new(
        "cluster-manager.yaml",
        "Two replicas, of which one works. On the host's network, since pods' networks need it first; so each\n\
         replica needs a node of its own.",
        [deployment],
    )
}

fn daemon_set(component: Component, options: &Options) -> File {
    let name = component.name();
    let labels = json!({"app.kubernetes.io/name": name});
    let mut spec = PodSpec::of(component, options).render();
    if let Some(fields) = spec.as_object_mut() {
        fields.insert("affinity".to_owned(), json!({"nodeAffinity": placement(component)}));
    }
    let daemon_set = json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    File::new(format!("{}.yaml", component.program()), about(component), [daemon_set])
}

fn about(component: Component) -> &'static str {
    match component {
        Component::ClusterManager => "",
        Component::HostAgent => {
            "On hosts that have a card: nodes with the label k8s.ovn.org/dpu-host, whatever its value."
        }
        Component::DpuAgent => {
            "On cards that are nodes of a cluster: nodes with the label k8s.ovn.org/dpu. It works for the host's cluster and\n\
             logs in there by the files in /etc/causeway/host-cluster of the card (docs/access.md), not by its pod's account.\n\
             A node with both labels is a host."
        }
        Component::NodeAgent => "On regular nodes: those with neither label.",
    }
}

/// Exactly one kind of agent for every mix of labels, whatever their values.
fn placement(component: Component) -> Value {
    let there = |key: &str| json!({"key": key, "operator": "Exists"});
    let absent = |key: &str| json!({"key": key, "operator": "DoesNotExist"});
    let expressions = match component {
        Component::ClusterManager => vec![],
        Component::HostAgent => vec![there(DPU_HOST)],
        Component::DpuAgent => vec![there(DPU), absent(DPU_HOST)],
        Component::NodeAgent => vec![absent(DPU_HOST), absent(DPU)],
    };
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}})
}
