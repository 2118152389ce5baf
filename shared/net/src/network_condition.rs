//! What conditions about a network's nodes say.

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::network_condition::{AllocationReason, NetworkCondition, NodesReason};

use crate::network::name::NodeName;

/// `NodesSelected` of a network that is on so many nodes.
#[must_use]
pub fn nodes_selected(rendered: usize) -> Wanted {
    let (status, message) = match rendered {
        0 => (ConditionStatus::False, "no nodes currently rendered with network".to_owned()),
        some => (ConditionStatus::True, format!("{some} node(s) rendered with network")),
    };
    Wanted {
        type_: NetworkCondition::NodesSelected.as_str(),
        status,
        reason: NodesReason::DynamicAllocation.as_str(),
        message,
        observed_generation: None,
    }
}

/// `NetworkAllocationSucceeded` of a network, given the first of the nodes that it has nothing for.
#[must_use]
pub fn allocation_succeeded(failing: Option<&NodeName>) -> Wanted {
    let (status, reason, message) = match failing {
        None => (
            ConditionStatus::True,
            AllocationReason::Succeeded,
            "Network allocation succeeded for all synced nodes.".to_owned(),
        ),
        Some(node) => (
            ConditionStatus::False,
            AllocationReason::InternalError,
            format!(
                "Network allocation failed for at least one node: {node}, check UDN events for more info."
            ),
        ),
    };
    Wanted {
        type_: NetworkCondition::NetworkAllocationSucceeded.as_str(),
        status,
        reason: reason.as_str(),
        message,
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(wanted: &Wanted) -> String {
        format!("{}={}/{}: {}", wanted.type_, wanted.status, wanted.reason, wanted.message)
    }

    #[test]
    fn texts_equal_the_captured_ones() {
        let node = NodeName::from("node-004");
        for (wanted, want) in [
            (
                nodes_selected(0),
                "NodesSelected=False/DynamicAllocation: no nodes currently rendered with network",
            ),
            (nodes_selected(6), "NodesSelected=True/DynamicAllocation: 6 node(s) rendered with network"),
            (
                allocation_succeeded(None),
                "NetworkAllocationSucceeded=True/NetworkAllocationSucceeded: Network allocation succeeded for all synced nodes.",
            ),
            (
                allocation_succeeded(Some(&node)),
                "NetworkAllocationSucceeded=False/InternalError: Network allocation failed for at least one node: node-004, check UDN events for more info.",
            ),
        ] {
            assert_eq!(text(&wanted), want);
        }
    }
}
