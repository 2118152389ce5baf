//! Conditions, reasons and Events of UserDefinedNetworks and ClusterUserDefinedNetworks.
//!
//! Every text is upstream's: `kubectl wait`, alerts and scripts name them. Source: OVN-Kubernetes,
//! go-controller/pkg/clustermanager/userdefinednetwork, .../status_manager and .../uplink.

use crate::wire::wire_enum;

/// Finalizer on a network's object and on its NetworkAttachmentDefinitions: they stay while pods use them.
pub const NETWORK_FINALIZER: &str = "k8s.ovn.org/user-defined-network-protection";

wire_enum! {
    /// Condition types on a network.
    pub enum NetworkCondition {
        /// Its NetworkAttachmentDefinitions are there.
        NetworkCreated = "NetworkCreated",
        /// Its transport can carry packets (only where the spec names a transport).
        TransportAccepted = "TransportAccepted",
        /// All nodes got what the network needs of its subnets and ids.
        NetworkAllocationSucceeded = "NetworkAllocationSucceeded",
        /// On how many nodes it is, where networks are only on nodes that need them.
        NodesSelected = "NodesSelected",
        /// Its Uplinks are ready on every node that it is active on.
        UplinksReady = "UplinksReady",
    }
}

wire_enum! {
    /// Reasons of `NetworkCreated`.
    pub enum CreatedReason {
        /// The condition holds.
        Created = "NetworkAttachmentDefinitionCreated",
        /// NetworkAttachmentDefinitions are being deleted.
        Deleted = "NetworkAttachmentDefinitionDeleted",
        /// A UserDefinedNetwork's could not be made.
        SyncError = "SyncError",
        /// A ClusterUserDefinedNetwork's could not be made.
        ClusterSyncError = "NetworkAttachmentDefinitionSyncError",
        /// The VTEP that EVPN needs does not exist.
        VtepNotFound = "VTEPNotFound",
        /// The VTEP that EVPN needs cannot be used.
        VtepNotAccepted = "VTEPNotAccepted",
        /// EVPN is off, or cannot work in this cluster.
        EvpnConfigError = "EVPNConfigError",
    }
}

wire_enum! {
    /// Reasons of `TransportAccepted`.
    pub enum TransportReason {
        /// The condition holds, without overlay.
        NoOverlayAccepted = "NoOverlayTransportAccepted",
        /// The condition holds, with EVPN.
        EvpnAccepted = "EVPNTransportAccepted",
        /// The VTEP that EVPN needs does not exist.
        VtepNotFound = "VTEPNotFound",
        /// The VTEP that EVPN needs cannot be used.
        VtepNotAccepted = "VTEPNotAccepted",
        /// EVPN is off, or cannot work in this cluster.
        EvpnConfigError = "EVPNConfigError",
        /// The transport needs RouteAdvertisements, which are off.
        RouteAdvertisementsNotEnabled = "RouteAdvertisementsNotEnabled",
        /// No RouteAdvertisements tells the routers of a network without overlay.
        NoOverlayRouteAdvertisementsIsMissing = "NoOverlayRouteAdvertisementsIsMissing",
        /// The RouteAdvertisements of a network without overlay is not accepted.
        NoOverlayRouteAdvertisementsNotAccepted = "NoOverlayRouteAdvertisementsNotAccepted",
        /// No RouteAdvertisements tells the routers of an EVPN network.
        EvpnRouteAdvertisementsIsMissing = "EVPNRouteAdvertisementsIsMissing",
        /// The RouteAdvertisements of an EVPN network is not accepted.
        EvpnRouteAdvertisementsNotAccepted = "EVPNRouteAdvertisementsNotAccepted",
    }
}

wire_enum! {
    /// Reasons of `NetworkAllocationSucceeded`.
    pub enum AllocationReason {
        /// The condition holds.
        Succeeded = "NetworkAllocationSucceeded",
        /// At least one node got nothing.
        InternalError = "InternalError",
    }
}

wire_enum! {
    /// Reasons of `NodesSelected`.
    pub enum NodesReason {
        /// The only one: pods decide.
        DynamicAllocation = "DynamicAllocation",
    }
}

wire_enum! {
    /// Reasons of `UplinksReady`.
    pub enum UplinksReason {
        /// The condition holds.
        UplinksReady = "UplinksReady",
        /// Several things are missing, or a node's gateway is not there yet.
        UplinksNotReady = "UplinksNotReady",
        /// Uplinks need shared gateway mode.
        UplinkUnsupportedGatewayMode = "UplinkUnsupportedGatewayMode",
        /// The network's transport cannot use an Uplink.
        UplinkUnsupportedTransport = "UplinkUnsupportedTransport",
        /// There is no such Uplink.
        UplinkNotFound = "UplinkNotFound",
        /// Two entries of the Uplink select a node.
        UplinkOverlapOnNode = "UplinkOverlapOnNode",
        /// No entry of the Uplink selects a node.
        UplinkNotFoundForNode = "UplinkNotFoundForNode",
        /// A node has not found interface and bridge.
        UplinkNotResolvedForNode = "UplinkNotResolvedForNode",
        /// The Uplink is being deleted.
        UplinkTerminating = "UplinkTerminating",
        /// A node is still configuring its gateway.
        GatewayConfigurationPending = "GatewayConfigurationPending",
        /// A node could not attach the interface to the network's VRF.
        UplinkVrfAttachmentFailed = "UplinkVRFAttachmentFailed",
        /// A node could not map the bridge.
        UplinkBridgeMappingFailed = "UplinkBridgeMappingFailed",
        /// A node could not program the gateway.
        UplinkGatewayProgrammingFailed = "UplinkGatewayProgrammingFailed",
        /// Two networks ask for what an Uplink can give only one.
        UplinkConfigurationConflict = "UplinkConfigurationConflict",
    }
}

wire_enum! {
    /// Reasons of Events about networks.
    pub enum NetworkEvent {
        /// On a network: a node got nothing.
        NetworkAllocationFailed = "NetworkAllocationFailed",
        /// On a NetworkAttachmentDefinition: its config cannot be read.
        InvalidConfig = "InvalidConfig",
        /// On a network: some of what it asks for has no effect, as a feature is off. Our own.
        FieldsIgnored = "FieldsIgnored",
        /// On a pod: it got no address.
        ErrorAllocatingPod = "ErrorAllocatingPod",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_published_ones() {
        fn texts<T: Copy>(all: &[T], text: impl Fn(T) -> &'static str) -> String {
            all.iter().map(|one| text(*one)).collect::<Vec<_>>().join(" ")
        }
        let rows = [
            (
                texts(NetworkCondition::ALL, NetworkCondition::as_str),
                "NetworkCreated TransportAccepted NetworkAllocationSucceeded NodesSelected UplinksReady",
            ),
            (
                texts(CreatedReason::ALL, CreatedReason::as_str),
                "NetworkAttachmentDefinitionCreated NetworkAttachmentDefinitionDeleted SyncError \
                 NetworkAttachmentDefinitionSyncError VTEPNotFound VTEPNotAccepted EVPNConfigError",
            ),
            (
                texts(TransportReason::ALL, TransportReason::as_str),
                "NoOverlayTransportAccepted EVPNTransportAccepted VTEPNotFound VTEPNotAccepted EVPNConfigError \
                 RouteAdvertisementsNotEnabled NoOverlayRouteAdvertisementsIsMissing \
                 NoOverlayRouteAdvertisementsNotAccepted EVPNRouteAdvertisementsIsMissing \
                 EVPNRouteAdvertisementsNotAccepted",
            ),
            (
                texts(AllocationReason::ALL, AllocationReason::as_str),
                "NetworkAllocationSucceeded InternalError",
            ),
            (texts(NodesReason::ALL, NodesReason::as_str), "DynamicAllocation"),
            (
                texts(UplinksReason::ALL, UplinksReason::as_str),
                "UplinksReady UplinksNotReady UplinkUnsupportedGatewayMode UplinkUnsupportedTransport UplinkNotFound \
                 UplinkOverlapOnNode UplinkNotFoundForNode UplinkNotResolvedForNode UplinkTerminating \
                 GatewayConfigurationPending UplinkVRFAttachmentFailed UplinkBridgeMappingFailed \
                 UplinkGatewayProgrammingFailed UplinkConfigurationConflict",
            ),
            (
                texts(NetworkEvent::ALL, NetworkEvent::as_str),
                "NetworkAllocationFailed InvalidConfig FieldsIgnored ErrorAllocatingPod",
            ),
        ];
        for (texts, want) in rows {
            assert_eq!(texts, want);
        }
    }
}
