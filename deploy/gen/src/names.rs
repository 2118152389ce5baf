//! Names that manifests, accounts and admission policies share.

/// Namespace of everything that runs. Source: the Helm charts of ovn-kubernetes.
pub(crate) const NAMESPACE: &str = "ovn-kubernetes";

/// Namespace of the cards' accounts: every account in it is a card, and nothing runs there.
pub(crate) const CARDS: &str = "causeway-dpus";

/// One of the programs that run in pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Component {
    /// Controllers of the cluster.
    ClusterManager,
    /// The host's side of a node with a card.
    HostAgent,
    /// The card's side.
    DpuAgent,
    /// Both sides of a regular node.
    NodeAgent,
}

impl Component {
    /// All of them, in the order in which they are explained.
    pub(crate) const ALL: [Self; 4] =
        [Self::ClusterManager, Self::HostAgent, Self::DpuAgent, Self::NodeAgent];

    /// File name of the program, and of its manifest.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::ClusterManager => "cluster-manager",
            Self::HostAgent => "host-agent",
            Self::DpuAgent => "dpu-agent",
            Self::NodeAgent => "node-agent",
        }
    }

    /// Name of its workload, account and roles: others may run in the same namespace.
    pub(crate) fn name(self) -> String {
        format!("causeway-{}", self.program())
    }
}
