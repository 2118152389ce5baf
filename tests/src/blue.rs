//! The cluster of the main job: Uplink `tenant-blue` on a node with a card and on a regular one.
//!
//! `node-a` is a host with a simulated card: `eth0-16` on the host is `rep0-16` on the card, a port of the card's bridge
//! `br-tenant` beside the wire `p0`. `node-b` is a regular node with a bridge `ovsbr1` and its wire `eth1`. The cluster
//! manager runs in a place of its own. Every program logs in with its own account, under the roles and policies of
//! `deploy/`.

use anyhow::Context;
use causeway_rig::{DpuPair, Node, Ovs, Process, Rig, RigOptions, Side, UplinkAnnotations};
use kube::Client;

use crate::access::{self, Account};
use crate::manifests;

/// Name of the Uplink.
pub const UPLINK: &str = "tenant-blue";
/// Name of the state of the node with a card.
pub const STATE_A: &str = "tenant-blue.node-a";
/// Name of the state of the regular node.
pub const STATE_B: &str = "tenant-blue.node-b";
/// Label of the regular nodes that the Uplink selects.
pub const LABEL: &str = "example.com/tenant-blue-uplink";
/// Label of nodes whose network runs on a card.
pub const DPU_HOST: &str = "k8s.ovn.org/dpu-host";
/// The host's interface that leads to the card.
pub const CARD_INTERFACE: &str = "eth0-16";
/// Address of that interface.
pub const CARD_ADDRESS: &str = "172.31.0.10/24";
/// Next hop of the default route over it.
pub const CARD_GATEWAY: &str = "172.31.0.1";
/// The card's bridge.
pub const CARD_BRIDGE: &str = "br-tenant";
/// The wire of the card's bridge.
pub const CARD_WIRE: &str = "p0";
/// The regular node's bridge and its interface.
pub const BRIDGE: &str = "ovsbr1";
/// The wire of the regular node's bridge.
pub const WIRE: &str = "eth1";
/// The card's account.
pub const CARD: &str = "card-of-node-a";

/// The Uplink as an administrator writes it: regular nodes by label, nodes with a card by what they are.
pub const UPLINK_YAML: &str = "\
apiVersion: k8s.ovn.org/v1alpha1
kind: Uplink
metadata:
  name: tenant-blue
spec:
  nodeConfigs:
  - type: OVSBridge
    nodeSelector:
      matchLabels:
        example.com/tenant-blue-uplink: \"true\"
    hostInterfaceName: ovsbr1
  - type: OVSBridge
    nodeSelector:
      matchExpressions:
      - key: k8s.ovn.org/dpu-host
        operator: Exists
    hostInterfaceName: eth0-16
";

/// What every program of Causeway is started with, upstream's flags.
const COMMON: [&str; 5] = [
    "--enable-multi-network",
    "--enable-network-segmentation",
    "--enable-uplink",
    "--k8s-kubeconfig",
    causeway_rig::KUBECONFIG,
];

/// The cluster and everything of Causeway that runs on it.
pub struct BlueWorld {
    /// The control plane.
    pub rig: Rig,
    /// The host `node-a` and its card.
    pub pair: DpuPair,
    /// Open vSwitch of the card.
    pub card_ovs: Ovs,
    /// The regular node `node-b`.
    pub node_b: Node,
    /// Its Open vSwitch.
    pub node_b_ovs: Ovs,
    /// Where the cluster manager runs.
    pub control: Node,
    /// The programs; absent until started.
    pub agents: Agents,
}

/// Causeway's programs on the cluster.
#[derive(Default)]
pub struct Agents {
    /// The cluster manager.
    pub cluster_manager: Option<Process>,
    /// The host agent of `node-a`.
    pub host: Option<Process>,
    /// The DPU agent on the card.
    pub dpu: Option<Process>,
    /// The agent of `node-b`.
    pub node: Option<Process>,
}

impl BlueWorld {
    /// Starts control plane and nodes, makes the bridges and addresses, and installs Causeway's resources. No program of
    /// Causeway runs yet.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start() -> anyhow::Result<Self> {
        Self::on(Rig::start(RigOptions::bare()).await?).await
    }

    /// As [`Self::start`], on a rig that is there.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn on(rig: Rig) -> anyhow::Result<Self> {
        let annotations = UplinkAnnotations::default();
        let pair =
            rig.dpu_pair("node-a").host(|host| host.label(DPU_HOST, "").uplink_annotations(&annotations));
        let node_b = rig.node("node-b").label(LABEL, "true").uplink_annotations(&annotations);
        let (pair, node_b, control, ()) = tokio::try_join!(
            pair.start(),
            node_b.start(),
            rig.node("control").unregistered().start(),
            async {
                rig.apply(&manifests::folder("crds")?).await?;
                access::install(&rig).await
            }
        )?;
        let (card_ovs, node_b_ovs) = tokio::try_join!(pair.card.ovs(), node_b.ovs())?;
        let host_network = format!(
            "addr add {CARD_ADDRESS} dev {CARD_INTERFACE}\n\
             route add default via {CARD_GATEWAY} dev {CARD_INTERFACE} metric 50000\n"
        );
        tokio::try_join!(
            card_ovs.add_bridge(&pair.card, CARD_BRIDGE).port(CARD_WIRE).port("rep0-16").create(),
            node_b_ovs.add_bridge(&node_b, BRIDGE).physical(WIRE).address("172.28.0.2/16").create(),
            pair.host.ip_batch(&host_network),
        )?;
        node_b.ip_batch(&format!("route add default via 172.28.0.1 dev {BRIDGE} metric 50000\n")).await?;
        let world = Self { rig, pair, card_ovs, node_b, node_b_ovs, control, agents: Agents::default() };
        world.give_accounts().await.context("giving every program its account")?;
        Ok(world)
    }

    /// Puts the account of the program that runs in a place where the rig had put an administrator's.
    async fn give_accounts(&self) -> anyhow::Result<()> {
        let rig = &self.rig;
        let (manager, host, card, node) = tokio::try_join!(
            access::token(rig, access::NAMESPACE, Account::ClusterManager.name(), None),
            access::pod_token(rig, Account::HostAgent, self.pair.host.name()),
            access::enrol_card(rig, CARD, self.pair.host.name()),
            access::pod_token(rig, Account::NodeAgent, self.node_b.name()),
        )?;
        let places = [
            (&self.control, &manager),
            (&self.pair.host, &host),
            (&self.pair.card, &card),
            (&self.node_b, &node),
        ];
        for (place, token) in places {
            place.write(causeway_rig::KUBECONFIG, rig.kubeconfig_of(token, Side::Inside)?)?;
        }
        futures::future::try_join_all(places.map(|(_, token)| access::wait_roles(rig, token))).await?;
        Ok(())
    }

    /// A client with all rights.
    #[must_use]
    pub fn client(&self) -> Client {
        self.rig.client()
    }

    /// Starts all programs.
    ///
    /// # Errors
    /// One was not built or cannot be started.
    pub async fn start_causeway(&mut self) -> anyhow::Result<()> {
        self.agents.cluster_manager = Some(self.spawn_cluster_manager().await?);
        self.agents.host = Some(self.spawn_host_agent().await?);
        self.agents.dpu = Some(self.spawn_dpu_agent().await?);
        self.agents.node = Some(self.spawn_node_agent().await?);
        Ok(())
    }

    /// Starts the cluster manager.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn spawn_cluster_manager(&self) -> anyhow::Result<Process> {
        // Uplinks lead out of networks in shared gateway mode alone.
        let own = ["--init-cluster-manager", "control", "--gateway-mode", "shared"];
        let arguments = COMMON.into_iter().chain(own);
        self.control.spawn_built("cluster-manager", arguments).await
    }

    /// Starts the host agent of `node-a`.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn spawn_host_agent(&self) -> anyhow::Result<Process> {
        let role = ["--init-node", "node-a", "--ovnkube-node-mode", "dpu-host", "--simulate-dpu"];
        self.pair.host.spawn_built("host-agent", COMMON.into_iter().chain(role)).await
    }

    /// Starts the DPU agent of `node-a`, on the card.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn spawn_dpu_agent(&self) -> anyhow::Result<Process> {
        let role = ["--init-node", "node-a", "--ovnkube-node-mode", "dpu", "--simulate-dpu"];
        self.pair.card.spawn_built("dpu-agent", COMMON.into_iter().chain(role)).await
    }

    /// Starts the agent of `node-b`.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn spawn_node_agent(&self) -> anyhow::Result<Process> {
        let role = ["--init-node", "node-b"];
        self.node_b.spawn_built("node-agent", COMMON.into_iter().chain(role)).await
    }
}
