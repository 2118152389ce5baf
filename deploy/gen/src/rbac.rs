//! Accounts and what they may do: the least that the programs of this version use.
//!
//! In: nothing. Out: `deploy/rbac/*.yaml`. Which fields of which objects may be written is finer than this and stands
//! in `deploy/admission/access-*.yaml`.

use serde_json::{Value, json};

use crate::names::{CARDS, Component, NAMESPACE};
use crate::output::File;

/// Our API group.
const GROUP: &str = "k8s.ovn.org";
/// Where events about objects without a namespace are (Event API: they have to be in this one).
const EVENTS_OF_CLUSTER_OBJECTS: &str = "default";

/// All files.
pub(crate) fn files() -> Vec<File> {
    let mut files = vec![namespaces()];
    files.extend(Component::ALL.map(component));
    files.extend([administrator(), network_administrator()]);
    files
}

fn namespaces() -> File {
    let namespace = |name: &str, level: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}},
        })
    };
    File::new(
        "00-namespaces.yaml",
        "Causeway's programs run in ovn-kubernetes (host network, host paths: hence the level).\n\
         causeway-dpus holds one ServiceAccount per card and no pods: whoever has an account there is a card.",
        [namespace(NAMESPACE, "privileged"), namespace(CARDS, "restricted")],
    )
}

fn component(component: Component) -> File {
    let name = component.name();
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": NAMESPACE},
        // Pods ask for their token themselves.
        "automountServiceAccountToken": false,
    });
    // A card logs in from outside the cluster, by an account of its own.
    let subject = match component {
        Component::DpuAgent => group(&format!("system:serviceaccounts:{CARDS}")),
        Component::ClusterManager | Component::HostAgent | Component::NodeAgent => of_account(&name),
    };
    let mut objects = vec![
        account,
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": cluster_rules(component),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }),
    ];
    if component == Component::ClusterManager {
        let mut lease = rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "patch"]);
        if let Some(fields) = lease.as_object_mut() {
            fields.insert("resourceNames".to_owned(), json!([causeway_runtime::leader::LEASE]));
        }
        // What does not exist yet cannot be named in a role.
        let new_lease = rule("coordination.k8s.io", &["leases"], &["create"]);
        objects.extend(role(&name, NAMESPACE, &[lease, new_lease], &subject));
    } else {
        objects.extend(role(&name, EVENTS_OF_CLUSTER_OBJECTS, &[events()], &subject));
    }
    File::new(format!("{}.yaml", component.program()), about(component), objects)
}

fn about(component: Component) -> &'static str {
    match component {
        Component::ClusterManager => {
            "The cluster manager: conditions and finalizers of Uplinks, collection of UplinkStates, tenant networks,\nmirrored EndpointSlices, its lease."
        }
        Component::HostAgent => {
            "The host agent: the host's half of its node's UplinkStates, their creation and deletion; isolation of pods."
        }
        Component::DpuAgent => {
            "Cards: the card's half of the UplinkStates of the node they serve, networks in OVN. They delete only where no host agent\n\
             does (deploy/admission/access-uplinkstate-cards.yaml). A card has an account of its own in causeway-dpus;\n\
             the account causeway-dpu-agent is that of the pod, in the cluster that the card is a node of, and may\n\
             do nothing."
        }
        Component::NodeAgent => {
            "The agent of a regular node: its node's UplinkStates, isolation of pods, networks in OVN."
        }
    }
}

/// What a component may do with objects that have no namespace.
fn cluster_rules(component: Component) -> Vec<Value> {
    match component {
        Component::ClusterManager => vec![
            rule(GROUP, &["uplinks"], &["get", "list", "watch", "patch"]),
            rule(GROUP, &["uplinks/status"], &["patch"]),
            rule(GROUP, &["uplinkstates"], &["list", "watch", "delete"]),
            rule("", &["nodes"], &["get", "list", "watch"]),
            // Mirrored EndpointSlices.
            rule("discovery.k8s.io", &["endpointslices"], &["list", "watch", "create", "patch", "delete"]),
            // Addresses of pods.
            rule("", &["pods"], &["list", "watch"]),
            rule(
                "k8s.cni.cncf.io",
                &["network-attachment-definitions"],
                &["get", "list", "watch", "create", "patch", "delete"],
            ),
            // Tenant networks.
            rule(
                GROUP,
                &["userdefinednetworks", "clusteruserdefinednetworks"],
                &["get", "list", "watch", "patch"],
            ),
            rule(GROUP, &["userdefinednetworks/status", "clusteruserdefinednetworks/status"], &["patch"]),
            // For blockOwnerDeletion of their NetworkAttachmentDefinitions.
            rule(
                GROUP,
                &["userdefinednetworks/finalizers", "clusteruserdefinednetworks/finalizers"],
                &["update"],
            ),
            // What transports of networks rest on.
            rule(GROUP, &["routeadvertisements"], &["list", "watch"]),
            // Who needs networks on nodes beside pods.
            rule(GROUP, &["egressips", "clusternetworkconnects"], &["list", "watch"]),
            rule(GROUP, &["vteps"], &["list", "watch", "patch"]),
            rule(GROUP, &["vteps/status"], &["patch"]),
            rule("", &["namespaces"], &["list", "watch"]),
            // Ids and subnets, in annotations.
            rule("", &["nodes/status"], &["patch"]),
            // For blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on: a mirror has its source's owner.
            rule("", &["services/finalizers"], &["update"]),
            // Events on objects in tenants' namespaces.
            events(),
        ],
        Component::HostAgent | Component::NodeAgent => {
            let mut rules = uplink_states();
            // Isolation: addresses and open ports of pods, and Events on those whose annotations cannot be used.
            rules.extend([rule("", &["pods"], &["list", "watch"]), events()]);
            rules.push(node_facts());
            if component == Component::NodeAgent {
                rules.extend(networks());
            }
            rules
        }
        Component::DpuAgent => {
            let mut rules = uplink_states();
            rules.extend(networks());
            rules.push(node_facts());
            rules
        }
    }
}

/// What a node's side tells about the node: annotations. Which of them are whose: `access-node-annotations.yaml`.
fn node_facts() -> Value {
    rule("", &["nodes/status"], &["patch"])
}

/// What both sides of a node do with UplinkStates.
fn uplink_states() -> Vec<Value> {
    vec![
        rule(GROUP, &["uplinks"], &["list", "watch"]),
        // For blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on.
        rule(GROUP, &["uplinks/finalizers"], &["update"]),
        rule(GROUP, &["uplinkstates"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("", &["nodes"], &["list", "watch"]),
    ]
}

/// What the side with the bridge reads of networks: their definitions, and the Services that they reach unless
/// `--udn-allowed-default-services` says others.
fn networks() -> [Value; 2] {
    let mut services = rule("", &["services"], &["list", "watch"]);
    if let Some(fields) = services.as_object_mut() {
        fields.insert("resourceNames".to_owned(), json!(["kubernetes", "kube-dns"]));
    }
    [rule("k8s.cni.cncf.io", &["network-attachment-definitions"], &["list", "watch"]), services]
}

/// The right that `deploy/admission/access-node-roles.yaml` asks for.
fn administrator() -> File {
    File::new(
        "dpu-administrator.yaml",
        "For whoever says which node has which card and is not cluster-admin anyway (who has this right):\n\
         bind it to them. No aggregation: tenants' roles never get it.",
        [json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "causeway-dpu-administrator"},
            "rules": [
                rule("causeway.internal", &["dpuidentities"], &["assign"]),
                rule("", &["nodes"], &["get", "list", "patch"]),
            ],
        })],
    )
}

/// The rights that `deploy/admission/access-node-annotations.yaml` and `access-pod-annotations.yaml` ask for.
fn network_administrator() -> File {
    File::new(
        "network-administrator.yaml",
        "For whoever writes by hand what agents and the cluster manager publish on Nodes and pods, and is not cluster-admin\n\
         anyway (who has this right): bind it to them, and to the programs of OVN-Kubernetes while they still run. It says\n\
         only which annotations may be written where the Node or pod may be. No aggregation: tenants' roles never get it.",
        [json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "causeway-network-administrator"},
            "rules": [rule("causeway.internal", &["nodeannotations", "podannotations"], &["write"])],
        })],
    )
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn events() -> Value {
    rule("events.k8s.io", &["events"], &["create", "patch"])
}

fn of_account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE})
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// A role in one namespace and who has it.
fn role(name: &str, namespace: &str, rules: &[Value], subject: &Value) -> [Value; 2] {
    let metadata = json!({"name": name, "namespace": namespace});
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [subject],
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles() -> Vec<Value> {
        let objects = files().into_iter().flat_map(|file| file.objects);
        objects.filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role").collect()
    }

    #[test]
    fn no_role_is_aggregated_into_tenants_roles() {
        for role in roles() {
            assert!(role["metadata"].get("labels").is_none(), "{role}");
            assert!(role.get("aggregationRule").is_none(), "{role}");
        }
    }

    #[test]
    fn no_role_has_a_wildcard_or_reaches_secrets_and_tokens() {
        for role in roles() {
            let text = role["rules"].to_string();
            for word in ["\"*\"", "secrets", "token", "impersonate", "escalate", "bind"] {
                assert!(!text.contains(word), "{word} in {role}");
            }
        }
    }

    #[test]
    fn the_policies_speak_of_the_accounts_that_the_roles_are_for() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../admission");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a policy");
        let account =
            |component: Component| format!("'system:serviceaccount:{NAMESPACE}:{}'", component.name());
        let agents = read("access-uplinkstate-agents.yaml");
        for component in [Component::HostAgent, Component::NodeAgent] {
            assert!(agents.contains(&account(component)), "{component:?}");
        }
        let cards = format!("'system:serviceaccounts:{CARDS}'");
        assert!(agents.contains(&cards) && read("access-uplinkstate-cards.yaml").contains(&cards));
        assert!(read("access-uplink-manager.yaml").contains(&account(Component::ClusterManager)));
    }
}
