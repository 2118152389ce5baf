//! Labels of Nodes, set by administrators.

/// The node's network runs on a card: its own machine is only the host of that. Present or not; the value plays no part.
/// Source: reference/isolation-and-pods.md 5.4.
pub const DPU_HOST: &str = "k8s.ovn.org/dpu-host";
