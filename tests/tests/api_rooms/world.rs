//! An API server that notes who asks for what, and a cluster manager with its own account.

use std::ops::Deref;

use causeway_rig::{Process, RigOptions};
use causeway_tests::access::{self, Account};
use causeway_tests::bench::audit::Audit;
use causeway_tests::control::Control;
use serde_json::{Value, json};

pub(crate) const SEGMENTATION: &str = "--enable-network-segmentation";
pub(crate) const UPLINK: &str = "--enable-uplink";
pub(crate) const FLAGS: [&str; 8] = [
    "--init-cluster-manager=cm0",
    "--gateway-mode=shared",
    "--ovn-config-namespace=ovn-kubernetes",
    "--cluster-subnets=10.128.0.0/14/24",
    "--k8s-service-cidrs=10.96.0.0/16",
    "--enable-multi-network",
    SEGMENTATION,
    UPLINK,
];

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const UPLINKS: &str = "/apis/k8s.ovn.org/v1alpha1/uplinks";
pub(crate) const STATES: &str = "/apis/k8s.ovn.org/v1alpha1/uplinkstates";
pub(crate) const CUDNS: &str = "/apis/k8s.ovn.org/v1/clusteruserdefinednetworks";

/// Of objects in a namespace.
pub(crate) fn path(kind: &str, namespace: &str) -> String {
    let root = match kind {
        "pods" => "/api/v1",
        "endpointslices" => "/apis/discovery.k8s.io/v1",
        "userdefinednetworks" => "/apis/k8s.ovn.org/v1",
        _ => "/apis/k8s.cni.cncf.io/v1",
    };
    format!("{root}/namespaces/{namespace}/{kind}")
}

pub(crate) fn nads(namespace: &str) -> String {
    path("network-attachment-definitions", namespace)
}

pub(crate) struct World {
    control: Control,
    pub(crate) audit: Audit,
}

/// What people do and see there.
impl Deref for World {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl World {
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let (audit, options) = Audit::new(RigOptions::bare())?;
        Ok(Self { control: Control::start(options).await?, audit })
    }

    /// A cluster manager with all features but those that need one of these flags.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) async fn manager(&self, name: &str, without: &[&str]) -> anyhow::Result<Process> {
        let flags = FLAGS.into_iter().filter(|flag| !without.contains(flag)).chain(["--leader-elect=false"]);
        self.control.manager(name, &flags.collect::<Vec<_>>()).await
    }

    /// User name of the cluster manager's account.
    pub(crate) fn account() -> String {
        format!("system:serviceaccount:{}:{}", access::NAMESPACE, Account::ClusterManager.name())
    }
}

/// A Namespace for primary networks.
pub(crate) fn namespace(name: &str, team: &str) -> Value {
    json!({"metadata": {"name": name,
        "labels": {"k8s.ovn.org/primary-user-defined-network": "", "team": team}}})
}

pub(crate) fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"way": "out"}}})
}

/// A network for the namespaces of team `a`.
pub(crate) fn cudn(name: &str, uplinks: &[&str]) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "metadata": {"name": name},
        "spec": {"namespaceSelector": {"matchLabels": {"team": "a"}}, "uplinks": uplinks, "network": primary("10.20.0.0/16")}})
}

/// A network of one namespace.
pub(crate) fn udn(name: &str) -> Value {
    let spec = primary("10.30.0.0/16");
    json!({"apiVersion": "k8s.ovn.org/v1", "kind": "UserDefinedNetwork", "metadata": {"name": name}, "spec": spec})
}

fn primary(cidr: &str) -> Value {
    json!({"topology": "Layer3", "layer3": {"role": "Primary", "subnets": [{"cidr": cidr, "hostSubnet": 24}]}})
}

/// An Uplink on the nodes of the way out.
pub(crate) fn uplink(name: &str) -> Value {
    json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "Uplink", "metadata": {"name": name},
        "spec": {"nodeConfigs": [{"type": "OVSBridge", "hostInterfaceName": "br",
            "nodeSelector": {"matchLabels": {"way": "out"}}}]}})
}

/// A state in which everything is found.
pub(crate) fn state(uplink: &str, node: &str) -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({"apiVersion": "k8s.ovn.org/v1alpha1", "kind": "UplinkState",
        "metadata": {"name": format!("{uplink}.{node}")}, "spec": {"uplinkName": uplink, "nodeName": node},
        "status": {"type": "OVSBridge", "hostInterfaceName": "br", "conditions": [condition("Resolved")]}})
}
