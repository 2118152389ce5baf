//! The pod of one program: arguments, mounts, rights.
//!
//! Reading links, addresses, routes and devlink ports over netlink and reading sysfs is free for all: the cluster manager
//! and the agent of a card need no capability. The card's agent is root nevertheless, because Open vSwitch's database
//! socket is root's. Agents on hosts isolate pods with nftables, and let the kubelet through by its cgroup, which the
//! kernel looks for in the cgroup namespace of whoever loads the rule: on cgroup v2, container runtimes leave the host's
//! to privileged containers alone (containerd, `internal/cri/server/container_create_linux.go`). The running kubelet is
//! found in the host's pid namespace. `tests/tests/api_deploy.rs` runs the programs with just these rights.

use serde_json::{Map, Value, json};

use super::Options;
use crate::names::Component;

/// Key of the ConfigMap, and name of the file, with the settings. Source of the name: upstream's default file.
pub(super) const CONFIG_FILE: &str = "ovn_k8s.conf";
/// Where the ConfigMap is seen.
const CONFIG: &str = "/etc/causeway/config";
/// Where a card keeps its credentials and settings for its host's cluster, on the card and in the pod.
const HOST_CLUSTER: &str = "/etc/causeway/host-cluster";
/// Folder of Open vSwitch's database socket.
const OPEN_VSWITCH: &str = "/run/openvswitch";
/// Folder of the sockets of OVN's databases, on the machine and by the name that programs look under. Source: ovn-ctl(8).
const OVN: &str = "/run/ovn";
/// As upstream's option `nb-run-dir` has it.
const OVN_INSIDE: &str = "/var/run/ovn";
/// Folder of the socket on which an agent tells what it sees, for `causewayctl` in the same pod. Source: shared/runtime,
/// option `introspect-socket`.
const INTROSPECTION: &str = "/run/causeway";
/// Folder of systemd's sockets.
const SYSTEMD: &str = "/run/systemd";
/// Files of the pod's account. Source: kubernetes.io, "Accessing the Kubernetes API from a Pod".
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Whoever is not root and owns nothing.
const NOBODY: i64 = 65_532;

/// The pod of one component.
pub(super) struct PodSpec<'o> {
    component: Component,
    options: &'o Options,
}

impl<'o> PodSpec<'o> {
    pub(super) fn of(component: Component, options: &'o Options) -> Self {
        Self { component, options }
    }

    fn is_agent(&self) -> bool {
        self.component != Component::ClusterManager
    }

    /// Whether it works on a host (with kubelet and containers), not on a card.
    fn is_on_host(&self) -> bool {
        matches!(self.component, Component::HostAgent | Component::NodeAgent)
    }

    fn holds_bridge(&self) -> bool {
        matches!(self.component, Component::DpuAgent | Component::NodeAgent)
    }

    /// Port of metrics and health on the host. Source: upstream's ports of node and cluster manager.
    fn port(&self) -> u16 {
        if self.is_agent() { 9410 } else { 9411 }
    }

    pub(super) fn render(&self) -> Value {
        let account = self.component.name();
        // A card's agent logs in elsewhere, by files.
        let logs_in_by_account = self.component != Component::DpuAgent;
        json!({
            "serviceAccountName": account,
            "automountServiceAccountToken": logs_in_by_account,
            "enableServiceLinks": false,
            "hostNetwork": true,
            "hostPID": self.is_on_host(),
            // The host's own: the cluster's may need what these programs make.
            "dnsPolicy": "Default",
            "priorityClassName": if self.is_agent() { "system-node-critical" } else { "system-cluster-critical" },
            "terminationGracePeriodSeconds": 5,
            "tolerations": self.tolerations(),
            "securityContext": self.pod_rights(),
            "containers": [{
                "name": self.component.program(),
                "image": self.options.image,
                "command": [format!("/usr/bin/{}", self.component.program())],
                "args": self.arguments(),
                "env": self.environment(),
                "ports": [{"name": "metrics", "containerPort": self.port(), "protocol": "TCP"}],
                "livenessProbe": {
                    "httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 10, "timeoutSeconds": 5,
                },
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": "metrics"}, "periodSeconds": 5, "timeoutSeconds": 5,
                },
                "resources": {
                    "requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"},
                },
                "securityContext": self.container_rights(),
                "volumeMounts": self.mounts().iter().map(Mount::mount).collect::<Vec<_>>(),
            }],
            "volumes": self.mounts().iter().map(Mount::volume).collect::<Vec<_>>(),
        })
    }

    fn tolerations(&self) -> Value {
        if self.is_agent() {
            return json!([{"operator": "Exists"}]);
        }
        // Until pods' networks work, nodes are tainted.
        let keys = [
            "node-role.kubernetes.io/control-plane",
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/network-unavailable",
        ];
        keys.map(|key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"})).into()
    }

    fn container_rights(&self) -> Value {
        if self.is_on_host() {
            return json!({"privileged": true, "readOnlyRootFilesystem": true});
        }
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    }

    fn pod_rights(&self) -> Value {
        let mut rights = Map::new();
        let user = if self.is_agent() { 0 } else { NOBODY };
        rights.insert("runAsUser".to_owned(), user.into());
        rights.insert("runAsGroup".to_owned(), user.into());
        if user != 0 {
            rights.insert("runAsNonRoot".to_owned(), true.into());
        }
        if let Some(group) = self.options.ovs_group.filter(|_| self.holds_bridge()) {
            rights.insert("supplementalGroups".to_owned(), json!([group]));
        }
        rights.insert("seccompProfile".to_owned(), json!({"type": "RuntimeDefault"}));
        rights.into()
    }

    fn arguments(&self) -> Vec<String> {
        let metrics = format!("--metrics-bind-address=0.0.0.0:{}", self.port());
        let own = match self.component {
            Component::ClusterManager => vec!["--init-cluster-manager=$(POD_NAME)".to_owned()],
            Component::HostAgent | Component::NodeAgent => vec!["--init-node=$(K8S_NODE)".to_owned()],
            // Its file names the node that it serves.
            Component::DpuAgent => vec![format!("--k8s-kubeconfig={HOST_CLUSTER}/kubeconfig")],
        };
        let folder = if self.component == Component::DpuAgent { HOST_CLUSTER } else { CONFIG };
        let mut arguments = vec![format!("--config-file={folder}/{CONFIG_FILE}"), metrics];
        arguments.extend(own);
        if let Some(path) = self.options.kubelet_cgroup_path.as_ref().filter(|_| self.is_on_host()) {
            arguments.push(format!("--kubelet-cgroup-path={path}"));
        }
        arguments
    }

    fn environment(&self) -> Value {
        let field =
            |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut variables = match self.component {
            Component::ClusterManager => vec![field("POD_NAME", "metadata.name")],
            Component::HostAgent | Component::NodeAgent => vec![field("K8S_NODE", "spec.nodeName")],
            Component::DpuAgent => vec![],
        };
        if let Some(url) = self.options.api_server.as_ref().filter(|_| self.component != Component::DpuAgent)
        {
            variables.extend([
                json!({"name": "K8S_APISERVER", "value": url}),
                json!({"name": "K8S_TOKEN_FILE", "value": format!("{ACCOUNT}/token")}),
                json!({"name": "K8S_CACERT", "value": format!("{ACCOUNT}/ca.crt")}),
            ]);
        }
        variables.into()
    }

    fn mounts(&self) -> Vec<Mount> {
        let mut mounts = Vec::new();
        if self.component == Component::DpuAgent {
            // The folder, not its files: a token that is replaced by renaming is seen.
            mounts.push(Mount::of_host("host-cluster", HOST_CLUSTER));
        } else {
            mounts.push(Mount {
                name: "config",
                at: CONFIG.to_owned(),
                source: Source::Config,
                sub_path: None,
            });
        }
        if self.is_agent() {
            mounts.push(Mount::of_host("sys", "/sys"));
            mounts.push(Mount {
                name: "introspection",
                at: INTROSPECTION.to_owned(),
                source: Source::Memory,
                sub_path: None,
            });
        }
        if self.holds_bridge() {
            mounts.push(Mount::of_host("openvswitch", OPEN_VSWITCH));
            // A machine without OVN gets an empty one.
            mounts.push(Mount {
                name: "ovn",
                at: OVN_INSIDE.to_owned(),
                source: Source::HostOrEmpty(OVN),
                sub_path: None,
            });
        }
        if self.options.systemd_socket && self.is_on_host() {
            let private = "private";
            mounts.push(Mount {
                at: format!("{SYSTEMD}/{private}"),
                sub_path: Some(private),
                ..Mount::of_host("systemd", SYSTEMD)
            });
        }
        mounts
    }
}

/// Something that a container sees. What is the host's is read-only: connecting to a socket is possible nevertheless.
struct Mount {
    name: &'static str,
    at: String,
    source: Source,
    sub_path: Option<&'static str>,
}

enum Source {
    /// The ConfigMap with the settings.
    Config,
    /// A folder of the host that has to be there.
    Host(&'static str),
    /// A folder of the host that is made where it is not there.
    HostOrEmpty(&'static str),
    /// An empty folder of the pod, the only thing that it may write.
    Memory,
}

impl Mount {
    fn of_host(name: &'static str, path: &'static str) -> Self {
        Self { name, at: path.to_owned(), source: Source::Host(path), sub_path: None }
    }

    fn mount(&self) -> Value {
        let read_only = !matches!(self.source, Source::Memory);
        let mut mount = json!({"name": self.name, "mountPath": self.at, "readOnly": read_only});
        if let (Some(path), Some(fields)) = (self.sub_path, mount.as_object_mut()) {
            fields.insert("subPath".to_owned(), path.into());
        }
        mount
    }

    fn volume(&self) -> Value {
        match self.source {
            Source::Config => json!({"name": self.name, "configMap": {"name": "causeway-config"}}),
            Source::Host(path) => json!({"name": self.name, "hostPath": {"path": path, "type": "Directory"}}),
            Source::HostOrEmpty(path) => {
                json!({"name": self.name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
            }
            Source::Memory => {
                json!({"name": self.name, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})
            }
        }
    }
}
