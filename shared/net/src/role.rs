//! The part of a node's work that a process does.

use causeway_api::manager::FieldManager;
use causeway_api::uplink_state::StateCondition;

/// Which side of a node this process is. Decided once, where the process starts; all else follows as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A regular node: host and bridge are on the same machine.
    Full,
    /// The host of a card: sees the interface, never the bridge.
    DpuHost,
    /// The card: sees the bridge, reads about the interface in the state.
    Dpu,
}

impl Role {
    /// Field manager of this role's discovery. Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`.
    #[must_use]
    pub fn discovery_manager(self) -> FieldManager {
        match self {
            Self::Full => FieldManager::Discovery,
            Self::DpuHost => FieldManager::DiscoveryDpuHost,
            Self::Dpu => FieldManager::DiscoveryDpu,
        }
    }

    /// The discovery condition that this role owns. Source: OVN-Kubernetes, `pkg/node/uplink/controller.go`.
    #[must_use]
    pub fn discovery_condition(self) -> StateCondition {
        match self {
            Self::Full | Self::Dpu => StateCondition::Resolved,
            Self::DpuHost => StateCondition::HostDataReady,
        }
    }

    /// Whether this role writes what is known of the host's interface.
    #[must_use]
    pub fn writes_host_data(self) -> bool {
        !matches!(self, Self::Dpu)
    }

    /// Whether this role writes which bridge was found.
    #[must_use]
    pub fn writes_bridge(self) -> bool {
        !matches!(self, Self::DpuHost)
    }

    /// Whether this role publishes the PCI function: only a card on the other side needs it.
    #[must_use]
    pub fn writes_host_function(self) -> bool {
        matches!(self, Self::DpuHost)
    }
}
