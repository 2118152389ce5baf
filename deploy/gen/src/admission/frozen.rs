//! What may not change once an object was made.
//!
//! Names, texts and verdicts are upstream's (policies of the same names in its Helm charts), but for two: a changed
//! value of the label counts as a change, and a write of a status or of another part is looked at too, since it can
//! carry metadata.

use super::{Policy, Validation};
use crate::output::File;

/// Makes a namespace one whose pods have a primary network of their own.
const PRIMARY: &str = "k8s.ovn.org/primary-user-defined-network";
/// Asks for another default network, read when a pod is made.
const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";

pub(super) fn namespace_label() -> File {
    let policy = Policy {
        name: "user-defined-networks-namespace-label",
        resources: &["namespaces", "namespaces/status", "namespaces/finalize"],
        operations: &["UPDATE"],
        conditions: Vec::new(),
        variables: [("before", "oldObject"), ("after", "object")]
            .map(|(name, object)| (name, format!("{object}.metadata.?labels[?'{PRIMARY}']")))
            .into(),
        validations: vec![
            Validation::text(
                "variables.before.hasValue() == variables.after.hasValue()",
                "The 'k8s.ovn.org/primary-user-defined-network' label cannot be added/removed after the namespace was created",
            ),
            Validation::text(
                "variables.before.hasValue() != variables.after.hasValue() || variables.before == variables.after",
                "The 'k8s.ovn.org/primary-user-defined-network' label cannot be changed after the namespace was created",
            ),
        ],
    };
    File::new(
        "user-defined-networks-namespace-label.yaml",
        "Whether a namespace has a primary network of its own is said when it is made, and stays. Enforced, for everybody:\n\
         pods that run would otherwise be on another network than the namespace says.",
        policy.objects("user-defined-networks-namespace-label-binding"),
    )
}

pub(super) fn default_network() -> File {
    let policy = Policy {
        name: "default-network-annotation",
        resources: &["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"],
        operations: &["UPDATE"],
        conditions: Vec::new(),
        variables: Vec::new(),
        validations: vec![Validation::text(
            format!(
                "object.metadata.?annotations[?'{DEFAULT_NETWORK}']\n  == oldObject.metadata.?annotations[?'{DEFAULT_NETWORK}']"
            ),
            "The 'v1.multus-cni.io/default-network' annotation cannot be changed after the pod was created",
        )],
    };
    File::new(
        "default-network-annotation.yaml",
        "A pod's addresses are asked for when it is made (--enable-preconfigured-udn-addresses). Enforced, for everybody.",
        policy.objects("default-network-annotation-binding"),
    )
}
