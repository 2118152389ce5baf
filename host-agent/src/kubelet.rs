//! The kubelet of this node, as far as isolation has to know it.

/// Which cgroup the node's kubelet runs in: its probes may reach pods that no other process of the host may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kubelet {
    /// Still looking.
    Unknown,
    /// Found, and the kernel can match it.
    Cgroup {
        /// Its path below the cgroup root, without a slash at either end.
        path: String,
        /// Grows whenever the rules must be loaded again: the kernel keeps the number that the cgroup had then.
        generation: u64,
    },
    /// Its probes cannot be told from other traffic on this node.
    Unsupported {
        /// Why, for people.
        reason: String,
    },
}
