//! Labels of Nodes and Namespaces, set by administrators, and of objects that Causeway makes.

/// The node's network runs on a card: its own machine is only the host of that. Present or not; the value plays no part.
/// Source: the Helm charts of ovn-kubernetes.
pub const DPU_HOST: &str = "k8s.ovn.org/dpu-host";

/// On a Namespace: primary networks may be made in it. Must be there from the Namespace's beginning; the value plays no
/// part.
pub const PRIMARY_NETWORK: &str = "k8s.ovn.org/primary-user-defined-network";

/// On a NetworkAttachmentDefinition: it belongs to a UserDefinedNetwork or ClusterUserDefinedNetwork.
pub const USER_DEFINED_NETWORK: &str = "k8s.ovn.org/user-defined-network";
