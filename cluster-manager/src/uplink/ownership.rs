//! Who owns what on an Uplink, read from `metadata.managedFields`.
//!
//! Source: the structured-merge-diff format of managedFields (`f:` field, `k:` key of a list entry, `v:` value of a
//! set).

use causeway_api::manager::FieldManager;
use causeway_api::uplink::{UPLINK_FINALIZER, UplinkCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::{Value, json};

/// Conditions of old versions that nobody writes any more.
const OBSOLETE: [UplinkCondition; 2] = [UplinkCondition::Degraded, UplinkCondition::Referenced];

/// Who put our finalizer on an Uplink, which decides how it can be taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FinalizerOwner {
    /// Our field manager alone: an apply that leaves it out removes it.
    Us,
    /// Someone else as well (a restored backup, a person): an apply of ours would leave it there, so the list is
    /// written without it.
    Others {
        /// The finalizers that stay.
        rest: Vec<String>,
        /// Version of the object that has exactly these: a newer one is not written to.
        resource_version: Option<String>,
    },
}

/// Whether our field manager's status apply still holds an obsolete condition.
pub(super) fn owns_obsolete_condition(meta: &ObjectMeta) -> bool {
    entries(meta).filter(|entry| is_ours(entry) && entry.subresource.as_deref() == Some("status")).any(
        |entry| {
            let conditions = field(entry, &["f:status", "f:conditions"]);
            OBSOLETE.iter().any(|obsolete| {
                let key = format!("k:{}", json!({ "type": obsolete.as_str() }));
                conditions.is_some_and(|conditions| conditions.get(key).is_some())
            })
        },
    )
}

/// Our finalizer and who owns it; none where it is not set.
pub(super) fn finalizer(meta: &ObjectMeta) -> Option<FinalizerOwner> {
    let finalizers = meta.finalizers.as_ref().filter(|all| all.iter().any(|one| one == UPLINK_FINALIZER))?;
    let key = format!("v:{}", Value::from(UPLINK_FINALIZER));
    let mut owners = entries(meta).filter(|entry| {
        field(entry, &["f:metadata", "f:finalizers"]).is_some_and(|finalizers| finalizers.get(&key).is_some())
    });
    match (owners.next(), owners.next()) {
        (Some(only), None) if is_ours(only) => Some(FinalizerOwner::Us),
        _ => Some(FinalizerOwner::Others {
            rest: finalizers.iter().filter(|one| *one != UPLINK_FINALIZER).cloned().collect(),
            resource_version: meta.resource_version.clone(),
        }),
    }
}

fn entries(meta: &ObjectMeta) -> impl Iterator<Item = &ManagedFieldsEntry> {
    meta.managed_fields.iter().flatten()
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FieldManager::ClusterManagerUplink.as_str())
        && entry.operation.as_deref() == Some("Apply")
}

fn field<'e>(entry: &'e ManagedFieldsEntry, path: &[&str]) -> Option<&'e Value> {
    let root = &entry.fields_v1.as_ref()?.0;
    path.iter().try_fold(root, |value, step| value.get(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "clustermanager-uplink-controller";

    /// An object with our finalizer in second place and these managers of it.
    fn with_managers(managers: &[(&str, &str)]) -> ObjectMeta {
        let fields =
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"k8s.ovn.org/uplink-protection\"": {}}}});
        let entries: Vec<Value> = managers
            .iter()
            .map(|(manager, operation)| {
                json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
            })
            .collect();
        serde_json::from_value(json!({
            "resourceVersion": "7",
            "finalizers": ["example.com/other", "k8s.ovn.org/uplink-protection"],
            "managedFields": entries,
        }))
        .unwrap()
    }

    #[test]
    fn a_finalizer_that_only_we_applied_is_ours() {
        assert_eq!(finalizer(&with_managers(&[(OURS, "Apply")])), Some(FinalizerOwner::Us));
    }

    #[test]
    fn a_finalizer_that_someone_else_set_too_needs_more_than_an_apply() {
        let others = Some(FinalizerOwner::Others {
            rest: vec!["example.com/other".into()],
            resource_version: Some("7".into()),
        });
        assert_eq!(finalizer(&with_managers(&[(OURS, "Apply"), ("velero", "Update")])), others);
        assert_eq!(finalizer(&with_managers(&[("kubectl-edit", "Update")])), others);
        assert_eq!(finalizer(&with_managers(&[(OURS, "Update")])), others);
        assert_eq!(finalizer(&with_managers(&[])), others);
    }

    #[test]
    fn other_finalizers_are_none_of_ours() {
        let meta = ObjectMeta { finalizers: Some(vec!["example.com/other".into()]), ..ObjectMeta::default() };
        assert_eq!(finalizer(&meta), None);
    }

    fn with_condition(manager: &str, subresource: Option<&str>, type_: &str) -> ObjectMeta {
        let key = format!("k:{{\"type\":\"{type_}\"}}");
        serde_json::from_value(json!({"managedFields": [{
            "manager": manager, "operation": "Apply", "subresource": subresource, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": {key: {".": {}, "f:status": {}}}}},
        }]}))
        .unwrap()
    }

    #[test]
    fn only_obsolete_conditions_that_our_status_apply_holds_are_to_be_withdrawn() {
        assert!(owns_obsolete_condition(&with_condition(OURS, Some("status"), "Degraded")));
        assert!(owns_obsolete_condition(&with_condition(OURS, Some("status"), "Referenced")));
        assert!(!owns_obsolete_condition(&with_condition(OURS, Some("status"), "Ready")));
        assert!(!owns_obsolete_condition(&with_condition(OURS, None, "Degraded")));
        assert!(!owns_obsolete_condition(&with_condition("kubectl", Some("status"), "Degraded")));
    }
}
