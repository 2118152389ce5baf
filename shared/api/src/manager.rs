//! Field managers: who owns which fields of an object.

use crate::wire::wire_enum;

wire_enum! {
    /// Field managers of server-side apply, named as upstream names them so that a take-over keeps ownership.
    /// Source: ovn-kubernetes `pkg/clustermanager/uplink` and `pkg/node/uplink`.
    pub enum FieldManager {
        /// Discovery on a regular node.
        Discovery = "ovnkube-node-uplink-controller",
        /// Discovery on a card: the `ovsBridge` half.
        DiscoveryDpu = "ovnkube-node-uplink-controller-dpu",
        /// Discovery on a host that has a card: the host half.
        DiscoveryDpuHost = "ovnkube-node-uplink-controller-dpu-host",
        /// The cluster manager's Uplink controller.
        ClusterManagerUplink = "clustermanager-uplink-controller",
        /// The cluster manager's network controller: `NetworkCreated` and `TransportAccepted`.
        UserDefinedNetwork = "user-defined-network-controller",
        /// The cluster manager's allocation of subnets and ids: `NetworkAllocationSucceeded`.
        NetworkCluster = "NetworkClusterController",
        /// The cluster manager's activity of nodes: `NodesSelected`.
        ClusterManager = "ClusterManager",
        /// The cluster manager's network ids and tunnel keys on NetworkAttachmentDefinitions.
        NadController = "[clustermanager-nad-controller NAD controller]",
        /// The cluster manager's VTEP controller.
        Vtep = "clustermanager-vtep-controller",
        /// The cluster manager's RouteAdvertisements controller.
        RouteAdvertisements = "clustermanager-routeadvertisements-controller",
    }
}
