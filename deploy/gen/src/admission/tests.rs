use std::collections::BTreeSet;

use super::owned::{NODE, Owner, POD};
use super::*;

#[test]
fn each_annotation_has_one_owner() {
    let keys: BTreeSet<&str> = NODE.iter().chain(&POD).map(|(key, _)| *key).collect();
    assert_eq!(keys.len(), NODE.len() + POD.len());
}

/// Source: `ovnwebhook/nodeadmission.go` of upstream, all that a node's identity may write there.
#[test]
fn agents_may_write_what_upstreams_may_and_nothing_of_the_managers() {
    let upstream: BTreeSet<String> = [
        "bridge-egress-ips",
        "host-cidrs",
        "secondary-host-egress-ips",
        "l3-gateway-config",
        "node-mgmt-port-mac-addresses",
        "node-primary-ifaddr",
        "node-masquerade-subnet",
        "gateway-mtu-support",
        "node-mgmt-port",
        "node-ingress-snat-exclude-subnets",
        "primary-dpu-host-addr",
        "node-chassis-id",
        "zone-name",
        "node-encap-ips",
        "vteps",
        "layer2-topology-version",
    ]
    .map(|key| format!("k8s.ovn.org/{key}"))
    .into();
    let ours: BTreeSet<String> = NODE
        .iter()
        .filter(|(_, owner)| matches!(owner, Owner::Host | Owner::Card))
        .map(|(key, _)| (*key).to_owned())
        .collect();
    assert_eq!(ours, upstream);
}

#[test]
fn every_policy_fails_closed_and_its_binding_denies() {
    let objects: Vec<Value> = files().into_iter().flat_map(|file| file.objects).collect();
    let of_kind = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    let (policies, bindings) =
        (of_kind("ValidatingAdmissionPolicy"), of_kind("ValidatingAdmissionPolicyBinding"));
    assert_eq!((policies.len(), bindings.len()), (7, 7));
    assert!(policies.iter().all(|policy| policy["spec"]["failurePolicy"] == "Fail"));
    for binding in bindings {
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
        assert!(policies.iter().any(|policy| policy["metadata"]["name"] == binding["spec"]["policyName"]));
    }
}

/// Source: `apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`.
#[test]
fn no_request_is_asked_about_by_two_conditions_of_a_policy_as_both_are_evaluated() {
    for object in files().into_iter().flat_map(|file| file.objects) {
        let conditions = object["spec"]["matchConditions"].as_array().map_or(0, Vec::len);
        assert!(conditions <= 1, "{}: {conditions}", object["metadata"]["name"]);
    }
}

/// What is said about a Node is evaluated for each network on each Node, refused or not.
#[test]
fn the_cluster_managers_writes_of_nodes_make_one_message_at_most() {
    let objects: Vec<Value> = files().into_iter().flat_map(|file| file.objects).collect();
    let of_manager = objects.iter().filter(|object| {
        object["kind"] == "ValidatingAdmissionPolicy"
            && object["metadata"]["name"] == "node-annotations-manager.access.causeway.internal"
    });
    let validations: Vec<&Value> =
        of_manager.flat_map(|policy| policy["spec"]["validations"].as_array().expect("a list")).collect();
    let computed = validations.iter().filter(|validation| validation.get("messageExpression").is_some());
    assert_eq!((validations.len(), computed.count()), (3, 1));
}
