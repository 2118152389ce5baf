//! containerd and kubelet of a node, and the CNI plugin for pods of no particular network.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node as NodeObject;
use serde_json::json;

use crate::node::{Families, KUBECONFIG, Node};
use crate::observe::wait_object;
use crate::ovs::wait_socket;
use crate::process::Program;

const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";
/// How long a kubelet may take to report its node Ready on a busy machine.
const READY_DEADLINE: Duration = Duration::from_secs(90);

/// The limits of containers are not enforced: the machine may lack the controllers, and `runc-nores` takes them out.
const CONTAINERD: &str = r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
    "io.containerd.internal.v1.opt",
    "io.containerd.nri.v1.nri",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
    "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "rig/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
disable_hugetlb_controller = true
tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "/causeway/tools/runc-nores"
"#;

/// Loads the image archives. The kubelet's names are the long ones: a name without a registry means docker.io.
const LOAD_IMAGES: &str = r#"
set -euo pipefail
for image in pause busybox; do
    ctr -n k8s.io images import --local=true /causeway/images/$image.tar
    ctr -n k8s.io images tag --force "rig/$image:1" "docker.io/rig/$image:1"
done
"#;

/// Where kubelets run, as systemd has it where it runs them.
pub const KUBELET_CGROUP: &str = "kubelet.slice/kubelet.service";

/// A CNI plugin: a veth into the bridge `pods0` and the next addresses of the node. `/etc/cni/rig` sets `v4` and `v6`,
/// the parts that all addresses of the node begin with, and `families`, those that pods get (`4`, `6` or `46`).
const PLUGIN: &str = r#"#!/bin/bash
set -euo pipefail
cat >/dev/null
. /etc/cni/rig
port=pod${CNI_CONTAINERID:0:11}
case $CNI_COMMAND in
VERSION)
    echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}'
    ;;
ADD)
    mkdir -p /run/rig-cni
    exec 9>/run/rig-cni/lock
    flock 9
    number=$(($(cat /run/rig-cni/last 2>/dev/null || echo 1) + 1))
    echo $number >/run/rig-cni/last
    if [[ ! -e /sys/class/net/pods0 ]]; then
        ip -batch - <<LINKS
link add pods0 address 02:0a:f4:00:00:01 type bridge forward_delay 0 mcast_snooping 0
addr add $v4.1/24 dev pods0
addr add $v6::1/64 dev pods0 nodad
link set pods0 up
LINKS
    fi
    flock -u 9
    hex=$(printf %x $number)
    ip link add $port type veth peer name $CNI_IFNAME netns $CNI_NETNS
    ip link set $port master pods0 up
    ip() { nsenter --net=$CNI_NETNS ip "$@"; }
    ip link set $CNI_IFNAME up
    ips=
    if [[ $families == *4* ]]; then
        ip addr add $v4.$number/24 dev $CNI_IFNAME
        ip route add default via $v4.1
        ips+=,$(printf '{"address":"%s/24","gateway":"%s","interface":0}' $v4.$number $v4.1)
    fi
    if [[ $families == *6* ]]; then
        ip addr add $v6::$hex/64 dev $CNI_IFNAME nodad
        ip route add default via $v6::1
        ips+=,$(printf '{"address":"%s/64","gateway":"%s","interface":0}' $v6::$hex $v6::1)
    fi
    printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%s","sandbox":"%s"}],' $CNI_IFNAME $CNI_NETNS
    printf '"ips":[%s],"dns":{}}\n' "${ips#,}"
    ;;
DEL)
    ip link del $port || true
    ;;
esac
"#;

/// containerd asks for this plugin by name before it asks for the network.
const LOOPBACK: &str = r#"#!/bin/bash
set -euo pipefail
cat >/dev/null
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' ;;
ADD)
    nsenter --net=$CNI_NETNS ip link set lo up
    echo '{"cniVersion":"1.0.0","ips":[{"address":"127.0.0.1/8"}]}'
    ;;
esac
"#;

impl Node {
    pub(super) async fn start_kubelet(&mut self) -> anyhow::Result<()> {
        self.write("/etc/containerd/config.toml", CONTAINERD)?;
        self.write("/etc/kubernetes/kubelet.yaml", kubelet_config()?)?;
        std::fs::create_dir_all(self.path("/etc/kubernetes/manifests"))
            .context("the folder of static pods")?;
        self.write_network()?;
        self.route_pods().await?;
        let containerd = Program::new("containerd")
            .args(["--config", "/etc/containerd/config.toml"])
            .in_cgroup("system.slice/containerd.service");
        let containerd = self.spawn(containerd).await?;
        wait_socket(&self.path(CONTAINERD_SOCKET), &containerd).await?;
        self.services.push(containerd);
        let images = self.exec(["bash", "-c", LOAD_IMAGES]);
        let kubelet = Program::new("/causeway/kube/kubelet")
            .args(["--config", "/etc/kubernetes/kubelet.yaml", "--kubeconfig", KUBECONFIG])
            .args(["--hostname-override", self.name()])
            .arg(format!("--node-ip={}", self.node_addresses()))
            .arg("--v=2")
            .in_cgroup(KUBELET_CGROUP);
        let kubelet = async { self.spawn(kubelet).await };
        let (images, kubelet) = futures::join!(images, kubelet);
        images.context("loading the images")?;
        self.services.push(kubelet?);
        self.wait_ready().await
    }

    /// The node's addresses of the families that its pods have: kubelets put pods' addresses in this order.
    fn node_addresses(&self) -> String {
        match self.pods {
            Families::V4 => self.v4().to_string(),
            Families::V6 => self.v6().to_string(),
            Families::Both => format!("{},{}", self.v4(), self.v6()),
        }
    }

    /// Waits until the node's kubelet reports it Ready.
    ///
    /// # Errors
    /// If it does not, with the Node object and the logs of the rig.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let ready = |node: Option<&NodeObject>| {
            let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
        };
        let found = wait_object(self.objects(), self.name(), "condition Ready", READY_DEADLINE, ready).await;
        found.map(drop).map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.shared.ground.logs.tails()))
    }

    fn write_network(&self) -> anyhow::Result<()> {
        let number = self.number;
        let families = match self.pods {
            Families::V4 => "4",
            Families::V6 => "6",
            Families::Both => "46",
        };
        let prefixes = format!("v4=10.244.{number}\nv6=fd00:10:244:{number:x}\nfamilies={families}\n");
        self.write("/etc/cni/rig", prefixes)?;
        let list = json!({"cniVersion": "1.0.0", "name": "rig", "plugins": [{"type": "rig"}]});
        self.write("/etc/cni/net.d/90-rig.conflist", list.to_string())?;
        for (name, plugin) in [("rig", PLUGIN), ("loopback", LOOPBACK)] {
            let path = format!("/opt/cni/bin/{name}");
            self.write(&path, plugin)?;
            std::fs::set_permissions(self.path(&path), PermissionsExt::from_mode(0o755))
                .context("making a CNI plugin executable")?;
        }
        Ok(())
    }

    /// Pods of other nodes are reached by way of the rig's bridge, which is every node's default route.
    async fn route_pods(&self) -> anyhow::Result<()> {
        let (number, v4, v6) = (self.number, self.v4(), self.v6());
        let routes = format!(
            "route replace 10.244.{number}.0/24 via {v4}\nroute replace fd00:10:244:{number:x}::/64 via {v6}\n"
        );
        self.shared.ground.network.exec_with_input(["ip", "-batch", "-"], routes.into()).await.map(drop)
    }
}

fn kubelet_config() -> anyhow::Result<String> {
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // Works over either version of cgroups, without a tree of limits that the machine may not offer.
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": false,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "staticPodPath": "/etc/kubernetes/manifests",
        "resolvConf": "",
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        // Tests wait for what these report.
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",
        "fileCheckFrequency": "1s",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "1Mi"},
    });
    serde_yaml_ng::to_string(&config).context("writing the kubelet's configuration")
}
