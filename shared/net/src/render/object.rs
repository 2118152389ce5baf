//! The NAD around the config: what of it is a network's, and what stays as others wrote it.

use std::collections::BTreeMap;

use causeway_api::annotation::network::PREFIX;
use causeway_api::{GROUP, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The object that a NAD belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'o> {
    /// A UserDefinedNetwork of the NAD's namespace.
    Udn {
        /// Its name.
        name: &'o str,
        /// Its uid.
        uid: &'o str,
    },
    /// A ClusterUserDefinedNetwork.
    Cudn {
        /// Its name.
        name: &'o str,
        /// Its uid.
        uid: &'o str,
    },
}

/// The labels of a NAD: all of its owner's, and the mark that it belongs to one. The owner's win.
#[must_use]
pub fn labels(owners: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mark = (label::USER_DEFINED_NETWORK.to_owned(), String::new());
    std::iter::once(mark).chain(owners.clone()).collect()
}

/// The annotations of a new NAD: those of its owner that are not Causeway's own. Empty means that it has none.
#[must_use]
pub fn annotations(owners: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    owners.iter().filter(|(key, _)| !is_ours(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The annotations of a NAD that is there: its owner's, and those of its own that are Causeway's, since they hold the
/// network's identity. Whatever else somebody put there goes.
#[must_use]
pub fn merged_annotations(
    owners: &BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let ours = present.iter().filter(|(key, _)| is_ours(key));
    annotations(owners).into_iter().chain(ours.map(|(key, value)| (key.clone(), value.clone()))).collect()
}

/// The owner reference of a NAD.
#[must_use]
pub fn owner_reference(owner: Owner<'_>) -> OwnerReference {
    let (kind, name, uid) = match owner {
        Owner::Udn { name, uid } => ("UserDefinedNetwork", name, uid),
        Owner::Cudn { name, uid } => ("ClusterUserDefinedNetwork", name, uid),
    };
    OwnerReference {
        api_version: format!("{GROUP}/v1"),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn is_ours(key: &str) -> bool {
    key.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn labels_are_the_owners_and_the_mark_and_the_owners_win() {
        assert_eq!(labels(&map(&[("a", "b")])), map(&[("a", "b"), ("k8s.ovn.org/user-defined-network", "")]));
        let own = map(&[("k8s.ovn.org/user-defined-network", "foo")]);
        assert_eq!(labels(&own), own);
    }

    #[test]
    fn annotations_are_the_owners_but_for_our_own_keys_which_stay_on_the_nad() {
        let owners = map(&[("a", "b"), ("k8s.ovn.org/x", "y")]);
        assert_eq!(annotations(&owners), map(&[("a", "b")]));
        assert!(annotations(&map(&[("k8s.ovn.org/x", "y")])).is_empty());
        let present =
            map(&[("k8s.ovn.org/network-id", "7"), ("k8s.ovn.org.example/z", "1"), ("users", "edit")]);
        assert_eq!(
            merged_annotations(&owners, &present),
            map(&[("a", "b"), ("k8s.ovn.org/network-id", "7"), ("k8s.ovn.org.example/z", "1")])
        );
    }

    #[test]
    fn the_owner_controls_its_nad_and_waits_for_its_deletion() {
        let reference = owner_reference(Owner::Cudn { name: "prod", uid: "u" });
        let text = serde_json::to_value(&reference).unwrap();
        assert_eq!(
            text,
            serde_json::json!({
                "apiVersion": "k8s.ovn.org/v1", "kind": "ClusterUserDefinedNetwork", "name": "prod", "uid": "u",
                "controller": true, "blockOwnerDeletion": true,
            })
        );
        assert_eq!(owner_reference(Owner::Udn { name: "n", uid: "u" }).kind, "UserDefinedNetwork");
    }
}
