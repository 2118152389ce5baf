//! What another role left in a state: when a regular node gets a card, or loses it, the old role's field manager still owns
//! what it wrote, and nobody else would ever withdraw it.

use std::str::FromStr;

use causeway_api::label::DPU_HOST;
use causeway_api::manager::FieldManager;
use causeway_api::uplink_state::UplinkState;

use crate::facts::NodeFacts;
use crate::role::Role;

/// The operation of a managed-fields entry that server-side apply makes.
const APPLY: &str = "Apply";

/// Field managers whose fields this role gives up for them, since their role no longer runs on this node.
///
/// The Node's label decides, not the running processes: where both kinds of agent ran by mistake, neither would undo the
/// other's work for ever.
#[must_use]
pub fn left_behind(role: Role, node: &NodeFacts, state: &UplinkState) -> Vec<FieldManager> {
    let has_card = node.labels.contains_key(DPU_HOST);
    let gone: &[FieldManager] = match (role, has_card) {
        (Role::Full, false) => &[FieldManager::DiscoveryDpu, FieldManager::DiscoveryDpuHost],
        (Role::DpuHost | Role::Dpu, true) => &[FieldManager::Discovery],
        // The label and the role do not fit together: whoever put either there has to decide.
        (Role::Full, true) | (Role::DpuHost | Role::Dpu, false) => &[],
    };
    let entries = state.metadata.managed_fields.iter().flatten();
    let mut found: Vec<FieldManager> = entries
        .filter(|entry| entry.operation.as_deref() == Some(APPLY))
        .filter_map(|entry| FieldManager::from_str(entry.manager.as_deref()?).ok())
        .filter(|manager| gone.contains(manager))
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use causeway_api::uplink_state::UplinkStateSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

    use super::*;

    const FULL: &str = "ovnkube-node-uplink-controller";
    const DPU: &str = "ovnkube-node-uplink-controller-dpu";
    const DPU_HOST_SIDE: &str = "ovnkube-node-uplink-controller-dpu-host";
    const GATEWAY: &str = "ovnkube-node-uplink-gateway-controller";

    fn check(role: Role, has_card: bool, managers: &[(&str, &str)], want: &[FieldManager]) {
        let labels =
            if has_card { BTreeMap::from([(DPU_HOST.to_owned(), String::new())]) } else { BTreeMap::new() };
        let node = NodeFacts::of("node-a", labels, &BTreeMap::new());
        let spec = UplinkStateSpec { uplink_name: "blue".into(), node_name: "node-a".into() };
        let mut state = UplinkState::new("blue.node-a", spec);
        let entry = |(manager, operation): &(&str, &str)| ManagedFieldsEntry {
            manager: Some((*manager).into()),
            operation: Some((*operation).into()),
            ..ManagedFieldsEntry::default()
        };
        state.metadata.managed_fields = Some(managers.iter().map(entry).collect());
        assert_eq!(left_behind(role, &node, &state), want, "{role:?} {has_card} {managers:?}");
    }

    #[test]
    fn a_node_that_lost_its_card_takes_over_from_both_halves() {
        let all = [(FULL, "Apply"), (DPU, "Apply"), (DPU_HOST_SIDE, "Apply"), (GATEWAY, "Apply")];
        check(Role::Full, false, &all, &[FieldManager::DiscoveryDpu, FieldManager::DiscoveryDpuHost]);
    }

    #[test]
    fn a_node_that_got_a_card_takes_over_from_the_regular_agent() {
        for role in [Role::DpuHost, Role::Dpu] {
            check(role, true, &[(FULL, "Apply"), (DPU, "Apply")], &[FieldManager::Discovery]);
        }
    }

    #[test]
    fn the_other_half_and_other_controllers_are_never_touched() {
        check(Role::DpuHost, true, &[(DPU, "Apply"), (DPU_HOST_SIDE, "Apply"), (GATEWAY, "Apply")], &[]);
        check(Role::Full, false, &[(FULL, "Apply"), ("kubectl", "Apply"), (DPU, "Update")], &[]);
    }

    #[test]
    fn a_label_that_does_not_fit_the_role_leaves_everything_as_it_is() {
        check(Role::Full, true, &[(DPU, "Apply")], &[]);
        check(Role::Dpu, false, &[(FULL, "Apply")], &[]);
    }
}
