//! What conditions of a network say, those of its Uplinks (`uplinks_ready`) and transport (`transport`) aside.

use causeway_api::condition::{ConditionStatus, Wanted};
use causeway_api::network_condition::{AllocationReason, CreatedReason, NetworkCondition, NodesReason};

use crate::network::name::{NadKey, NodeName};

/// What became of the NADs of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created<'c> {
    /// NADs that are there as they should be.
    pub present: Vec<&'c NadKey>,
    /// NADs that are on their way out.
    pub deleting: Vec<&'c NadKey>,
    /// What went wrong, one text for each namespace.
    pub errors: Vec<String>,
}

/// `NetworkCreated` of a UserDefinedNetwork. An error wins over everything, a deletion over what is there.
#[must_use]
pub fn udn_created(created: Created<'_>) -> Wanted {
    if !created.errors.is_empty() {
        return network_created(CreatedReason::SyncError, joined(created.errors));
    }
    if !created.deleting.is_empty() {
        return network_created(
            CreatedReason::Deleted,
            "NetworkAttachmentDefinition is being deleted".to_owned(),
        );
    }
    network_created(CreatedReason::Created, "NetworkAttachmentDefinition has been created".to_owned())
}

/// The same of a ClusterUserDefinedNetwork, which names namespaces and NADs.
#[must_use]
pub fn cudn_created(mut created: Created<'_>) -> Wanted {
    if !created.errors.is_empty() {
        return network_created(CreatedReason::ClusterSyncError, joined(created.errors));
    }
    if !created.deleting.is_empty() {
        created.deleting.sort_unstable();
        let keys: Vec<String> = created.deleting.iter().map(ToString::to_string).collect();
        let message = format!("NetworkAttachmentDefinition are being deleted: [{}]", keys.join(" "));
        return network_created(CreatedReason::Deleted, message);
    }
    let mut namespaces: Vec<&str> = created.present.iter().map(|key| key.namespace().as_str()).collect();
    namespaces.sort_unstable();
    let message = format!(
        "NetworkAttachmentDefinition has been created in following namespaces: [{}]",
        namespaces.join(", ")
    );
    network_created(CreatedReason::Created, message)
}

/// `NetworkCreated` for a reason with its message.
#[must_use]
pub fn network_created(reason: CreatedReason, message: String) -> Wanted {
    let status = match reason {
        CreatedReason::Created => ConditionStatus::True,
        CreatedReason::Deleted
        | CreatedReason::SyncError
        | CreatedReason::ClusterSyncError
        | CreatedReason::VtepNotFound
        | CreatedReason::VtepNotAccepted
        | CreatedReason::EvpnConfigError => ConditionStatus::False,
    };
    Wanted {
        type_: NetworkCondition::NetworkCreated.as_str(),
        status,
        reason: reason.as_str(),
        message,
        observed_generation: None,
    }
}

/// One line for each error. Upstream's order changes from attempt to attempt, and the condition with it.
fn joined(mut errors: Vec<String>) -> String {
    errors.sort_unstable();
    errors.join("\n")
}

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
    fn what_became_of_nads_is_told_in_the_captured_words() {
        let keys = [("a2", "net"), ("a1", "net")].map(|(namespace, name)| NadKey::new(namespace, name));
        let present = Created { present: keys.iter().collect(), ..Created::default() };
        let deleting = Created { deleting: keys.iter().collect(), ..present.clone() };
        let failed = Created { errors: vec!["b".into(), "a".into()], ..deleting.clone() };
        for (wanted, want) in [
            (
                udn_created(present.clone()),
                "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created",
            ),
            (
                udn_created(deleting.clone()),
                "False/NetworkAttachmentDefinitionDeleted: NetworkAttachmentDefinition is being deleted",
            ),
            (udn_created(failed.clone()), "False/SyncError: a\nb"),
            (
                cudn_created(present),
                "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following namespaces: [a1, a2]",
            ),
            (
                cudn_created(Created::default()),
                "True/NetworkAttachmentDefinitionCreated: NetworkAttachmentDefinition has been created in following namespaces: []",
            ),
            (
                cudn_created(deleting),
                "False/NetworkAttachmentDefinitionDeleted: NetworkAttachmentDefinition are being deleted: [a1/net a2/net]",
            ),
            (cudn_created(failed), "False/NetworkAttachmentDefinitionSyncError: a\nb"),
        ] {
            assert_eq!(format!("{}/{}: {}", wanted.status, wanted.reason, wanted.message), want);
        }
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
