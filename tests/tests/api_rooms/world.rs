//! An API server that notes who asks for what, and a cluster manager with its own account.

use std::time::Duration;

use anyhow::ensure;
use causeway_rig::{Node, Process, Program, Rig, RigOptions, Side};
use causeway_tests::access::{self, Account};
use causeway_tests::bench::audit::Audit;
use causeway_tests::manifests;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::rest::{MERGE_PATCH, OBJECT, send};

/// How long a busy machine may take for what usually takes milliseconds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const KUBECONFIG: &str = "/etc/causeway/manager";

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
    pub(crate) rig: Rig,
    pub(crate) admin: Client,
    pub(crate) audit: Audit,
    node: Node,
}

impl World {
    /// # Errors
    /// It cannot be made.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let (audit, options) = Audit::new(RigOptions::bare())?;
        let rig = Rig::start(options).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        access::install(&rig).await?;
        let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(&rig, &token).await?;
        let node = rig.node("control").unregistered().start().await?;
        node.write(KUBECONFIG, rig.kubeconfig_of(&token, Side::Inside)?)?;
        Ok(Self { admin: rig.client(), rig, audit, node })
    }

    /// A cluster manager with all features but those that need one of these flags.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) async fn manager(&self, name: &str, without: &[&str]) -> anyhow::Result<Process> {
        let flags = FLAGS.into_iter().filter(|flag| !without.contains(flag));
        let program = Program::built("cluster-manager").named(name).args(flags);
        self.node.spawn(program.args(["--leader-elect=false", "--k8s-kubeconfig", KUBECONFIG])).await
    }

    /// Creates an object; its status, if it has one, after that.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::POST, collection, OBJECT, Some(object)).await?;
        ensure!(
            answer.is_accepted(),
            "{collection}: {} {:?} for {object}",
            answer.message(),
            answer.warnings
        );
        Ok(())
    }

    /// Changes an object.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn merge(&self, path: &str, change: &Value) -> anyhow::Result<()> {
        let answer = send(&self.admin, Method::PATCH, path, MERGE_PATCH, Some(change)).await?;
        ensure!(answer.is_accepted(), "{path} {change}: {}", answer.message());
        Ok(())
    }

    /// Deletes an object at once.
    ///
    /// # Errors
    /// It is refused.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let path = format!("{path}?gracePeriodSeconds=0");
        let answer = send(&self.admin, Method::DELETE, &path, OBJECT, None).await?;
        ensure!(answer.is_accepted(), "{path}: {}", answer.message());
        Ok(())
    }

    /// What stands there; none if nothing does.
    ///
    /// # Errors
    /// There was no answer.
    pub(crate) async fn read(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let answer = send(&self.admin, Method::GET, path, OBJECT, None).await?;
        ensure!(answer.is_accepted() || answer.code == 404, "{path}: {}", answer.message());
        Ok((answer.code != 404).then_some(answer.body))
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
