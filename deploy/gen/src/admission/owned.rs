//! Who writes which annotation of Nodes and pods.
//!
//! The tables are the rule: an annotation has one owner on a node with a card, host or card; the agent of a regular node
//! is both. What agents may write is upstream's list of its node identity webhook (`ovnwebhook/nodeadmission.go`,
//! `podadmission.go`), and its texts where they say more than who asked. More than upstream does: the halves of a node
//! with a card are kept apart, the cluster manager is held to what is its own, and nobody else writes any of it without
//! a right, through no subresource.

use super::{Policy, Validation};
use crate::names::{CARDS, Component, NAMESPACE};
use crate::output::File;

/// Whose an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The cluster manager.
    Manager,
    /// The host's side.
    Host,
    /// The side that holds the bridge.
    Card,
    /// The side that holds the bridge, or the cluster manager, which gives addresses that a whole network shares.
    CardOrManager,
    /// The cluster manager, or whoever else may write there at all.
    ManagerOrOthers,
}

/// Annotations of Nodes.
pub(super) const NODE: [(&str, Owner); 23] = [
    ("k8s.ovn.org/node-subnets", Owner::Manager),
    ("k8s.ovn.org/network-ids", Owner::Manager),
    ("k8s.ovn.org/udn-layer2-node-gateway-router-lrp-tunnel-ids", Owner::Manager),
    ("k8s.ovn.org/node-id", Owner::Manager),
    ("k8s.ovn.org/node-transit-switch-port-ifaddr", Owner::Manager),
    // Only ever removed.
    ("k8s.ovn.org/node-gateway-router-lrp-ifaddrs", Owner::Manager),
    ("k8s.ovn.org/hybrid-overlay-node-subnet", Owner::ManagerOrOthers),
    ("k8s.ovn.org/host-cidrs", Owner::Host),
    ("k8s.ovn.org/primary-dpu-host-addr", Owner::Host),
    ("k8s.ovn.org/node-mgmt-port", Owner::Host),
    ("k8s.ovn.org/node-mgmt-port-mac-addresses", Owner::Host),
    ("k8s.ovn.org/node-masquerade-subnet", Owner::Host),
    ("k8s.ovn.org/node-ingress-snat-exclude-subnets", Owner::Host),
    ("k8s.ovn.org/secondary-host-egress-ips", Owner::Host),
    ("k8s.ovn.org/bridge-egress-ips", Owner::Card),
    ("k8s.ovn.org/l3-gateway-config", Owner::Card),
    ("k8s.ovn.org/node-primary-ifaddr", Owner::Card),
    ("k8s.ovn.org/gateway-mtu-support", Owner::Card),
    ("k8s.ovn.org/node-encap-ips", Owner::Card),
    ("k8s.ovn.org/vteps", Owner::Card),
    (CHASSIS, Owner::Card),
    (ZONE, Owner::Card),
    (TOPOLOGY, Owner::Card),
];

/// Cannot be changed or removed once set.
const CHASSIS: &str = "k8s.ovn.org/node-chassis-id";
/// Can only be the node's name.
const ZONE: &str = "k8s.ovn.org/zone-name";
/// Can be added and removed, not changed.
const TOPOLOGY: &str = "k8s.ovn.org/layer2-topology-version";

/// Annotations of pods.
pub(super) const POD: [(&str, Owner); 3] = [
    (POD_NETWORKS, Owner::CardOrManager),
    ("k8s.ovn.org/dpu.connection-details", Owner::Host),
    ("k8s.ovn.org/dpu.connection-status", Owner::Card),
];

const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";

pub(super) fn nodes() -> File {
    let agents = Policy {
        name: "node-annotations.access.causeway.internal",
        resources: &["nodes", "nodes/status"],
        operations: &["CREATE", "UPDATE", "DELETE"],
        conditions: vec![("programs", programs(&AGENTS))],
        variables: who()
            .into_iter()
            .chain(annotations())
            .chain([
                ("own", own_of_agents(&NODE)),
                ("foreign", foreign("variables.own")),
                ("chassis", changed_value(CHASSIS)),
                ("zone", changed_value(ZONE)),
                ("topology", changed_value(TOPOLOGY)),
            ])
            .collect(),
        validations: vec![
            Validation::text("request.operation == 'UPDATE'", NEITHER_CREATED_NOR_DELETED),
            Validation::computed(
                "variables.tokenNode == request.name",
                r#"'%s on node: "%s" is not allowed to modify nodes "%s" annotations'
  .format([request.userInfo.username, variables.tokenNode, request.name])"#,
            ),
            Validation::computed(
                "!variables.isCard || request.operation != 'UPDATE'\n  || oldObject.metadata.?annotations[?'causeway.internal/dpu-identity'].orValue('') == request.userInfo.username",
                r#"'%s is not the card of node "%s": annotation causeway.internal/dpu-identity of the Node is "%s"'
  .format([request.userInfo.username, request.name,
    oldObject.metadata.?annotations[?'causeway.internal/dpu-identity'].orValue('')])"#,
            ),
            Validation::text("!variables.isCard || !variables.inPod", CARD_IN_POD),
            Validation::computed("variables.foreign.size() == 0", refused("node")),
            // Who repairs a Node by hand is not held to the following.
            Validation::computed(
                format!("!variables.chassis || !('{CHASSIS}' in variables.before)"),
                format!(
                    r#"'user: "%s" is not allowed to set {CHASSIS} on node "%s": {CHASSIS} cannot be %s'
  .format([request.userInfo.username, request.name,
    '{CHASSIS}' in variables.after ? 'changed once set' : 'removed'])"#
                ),
            ),
            Validation::computed(
                format!("!variables.zone || variables.after[?'{ZONE}'].orValue('') == request.name"),
                format!(
                    r#"'user: "%s" is not allowed to set {ZONE} on node "%s": {ZONE} can only be set to %s, it cannot be removed'
  .format([request.userInfo.username, request.name, request.name])"#
                ),
            ),
            Validation::computed(
                format!(
                    "!variables.topology || ('{TOPOLOGY}' in variables.after) != ('{TOPOLOGY}' in variables.before)"
                ),
                format!(
                    r#"'user: "%s" is not allowed to set {TOPOLOGY} on node "%s": {TOPOLOGY} cannot be changed once set'
  .format([request.userInfo.username, request.name])"#
                ),
            ),
            Validation::computed(NOTHING_ELSE, only_annotations("nodes")),
        ],
    };
    // Apart, as it is asked about every Node with every network: no expression that speaks of agents, and no message that
    // does not need one.
    let manager = Policy {
        name: "node-annotations-manager.access.causeway.internal",
        resources: &["nodes", "nodes/status"],
        operations: &["CREATE", "UPDATE", "DELETE"],
        conditions: vec![("manager", is(Component::ClusterManager))],
        variables: annotations().into_iter().chain([("foreign", foreign(&own_of_manager(&NODE)))]).collect(),
        validations: vec![
            Validation::text("request.operation == 'UPDATE'", NEITHER_CREATED_NOR_DELETED),
            Validation::computed("variables.foreign.size() == 0", refused("node")),
            Validation::forbids(
                NOTHING_ELSE,
                format!(
                    "{} is not allowed to modify anything other than annotations of nodes",
                    user(Component::ClusterManager)
                ),
            ),
        ],
    };
    let others = others("node-annotations-others.access.causeway.internal", &NODE, "node");
    let name = "access-node-annotations.yaml";
    File::new(
        name,
        "Who writes which annotation of a Node. Enforced.\n\
         \n\
         A node's agents write their own Node only, which their token names, and of it the annotations of their side; the\n\
         cluster manager those that it hands out. Nothing else of a Node is theirs. Others write none of these: a kubelet, which\n\
         may write its own Node, could otherwise speak for the card. Who may \"write\" \"nodeannotations\" of group\n\
         causeway.internal is excepted (cluster-admin may; others by ClusterRole causeway-network-administrator).\n\
         What a Node is for Causeway: access-node-roles.yaml.",
        bound([agents, manager, others]),
    )
}

pub(super) fn pods() -> File {
    let agents = Policy {
        name: "pod-annotations.access.causeway.internal",
        resources: &["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"],
        operations: &["UPDATE"],
        conditions: vec![("programs", programs(&PROGRAMS))],
        variables: who()
            .into_iter()
            .chain(annotations())
            .chain([
                ("isManager", is(Component::ClusterManager)),
                (
                    "own",
                    format!("variables.isManager ? {}\n  : {}", own_of_manager(&POD), own_of_agents(&POD)),
                ),
                ("foreign", foreign("variables.own")),
            ])
            .collect(),
        validations: vec![
            Validation::computed(
                "variables.isManager\n  || (oldObject.spec.?nodeName.orValue('') == variables.tokenNode && variables.tokenNode != '')",
                r#"'%s on node: "%s" is not allowed to modify annotations on pod "%s"'
  .format([request.userInfo.username, variables.tokenNode, request.name])"#,
            ),
            Validation::text("!variables.isCard || !variables.inPod", CARD_IN_POD),
            Validation::computed("variables.foreign.size() == 0", refused("pod")),
            Validation::computed(
                format!(
                    "variables.after[?'{POD_NETWORKS}'] == variables.before[?'{POD_NETWORKS}']\n  || !object.spec.?hostNetwork.orValue(false)"
                ),
                format!(
                    r#"'user: "%s" is not allowed to set {POD_NETWORKS} on pod "%s": the annotation is not allowed on host networked pods'
  .format([request.userInfo.username, request.name])"#
                ),
            ),
            Validation::computed(NOTHING_ELSE, only_annotations("pods")),
        ],
    };
    let name = "access-pod-annotations.yaml";
    File::new(
        name,
        "Who writes which annotation of a pod. Enforced.\n\
         \n\
         Agents write for pods of their own node, which their token names; the cluster manager gives addresses of networks\n\
         that have no subnet per node. Nothing else of a pod is theirs. Others change none of these: who may change a pod\n\
         could otherwise take another's address. Who may \"write\" \"podannotations\" of group causeway.internal is excepted\n\
         (cluster-admin may; others by ClusterRole causeway-network-administrator). A new pod may come with them, as from\n\
         a backup.\n\
         \n\
         Whether an address is one of the Node's subnets is not asked: a policy cannot look a Node up, and one that has all\n\
         Nodes as parameters would be asked by each of them about each write of each kubelet.",
        bound([agents, others("pod-annotations-others.access.causeway.internal", &POD, "pod")]),
    )
}

/// Refuses whoever is none of our programs and has no right to write these annotations.
fn others(name: &'static str, table: &[(&str, Owner)], kind: &str) -> Policy {
    let guarded = table.iter().filter(|(_, owner)| *owner != Owner::ManagerOrOthers);
    let keys: Vec<&str> = guarded.map(|(key, _)| *key).collect();
    let list = list(&keys);
    let differs = "object.metadata.?annotations[?k]\n  != (oldObject == null ? optional.none() : oldObject.metadata.?annotations[?k])";
    let (resources, operations): (&[_], &[_]) = match kind {
        "node" => (&["nodes", "nodes/status"], &["CREATE", "UPDATE"]),
        _ => (&["pods", "pods/status", "pods/ephemeralcontainers", "pods/resize"], &["UPDATE"]),
    };
    Policy {
        name,
        resources,
        operations,
        // One condition, as the API server evaluates each of several, whatever the first says: a program's write ends at the
        // first part of it, a heartbeat at the second. Source: `apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`.
        conditions: vec![(
            "others-change-annotations",
            format!(
                "!({})\n  && (oldObject == null || object.metadata.?annotations != oldObject.metadata.?annotations)\n  && \
                 {list}.exists(k, {differs})",
                programs(&PROGRAMS)
            ),
        )],
        variables: vec![("changed", format!("{list}.filter(k, {differs})"))],
        validations: vec![Validation::computed(
            format!(
                "authorizer.group('causeway.internal').resource('{kind}annotations').name(object.metadata.name).check('write').allowed()"
            ),
            format!(
                r#"'user "%s" is not allowed to set the following annotations on {kind}: "%s": [%s]; ClusterRole causeway-network-administrator gives this right'
  .format([request.userInfo.username, object.metadata.name, variables.changed.join(' ')])"#
            ),
        )],
    }
}

const NEITHER_CREATED_NOR_DELETED: &str = "Causeway's programs neither create nor delete Nodes.";

const CARD_IN_POD: &str = "A card's token is bound to the Node that the card serves, never to a pod: a host can get tokens of pods that run on it.";

/// Labels, owners, finalizers, spec and status are as they were.
const NOTHING_ELSE: &str = "request.operation != 'UPDATE'
  || (object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({})
  && object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([])
  && object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])
  && object.?spec == oldObject.?spec
  && object.?status == oldObject.?status)";

fn only_annotations(kinds: &str) -> String {
    format!(
        "'%s is not allowed to modify anything other than annotations of {kinds}'.format([request.userInfo.username])"
    )
}

/// What is said about annotations that are not the writer's.
fn refused(kind: &str) -> String {
    format!(
        r#"'%s is not allowed to set the following annotations on {kind}: "%s": [%s]'
  .format([request.userInfo.username, request.name, variables.foreign.join(' ')])"#
    )
}

/// Who a component is to the API server.
fn user(component: Component) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{}", component.name())
}

fn account(component: Component) -> String {
    format!("'{}'", user(component))
}

/// Whether a component asks.
fn is(component: Component) -> String {
    format!("request.userInfo.username == {}", account(component))
}

/// Those that have one account in the whole cluster. A card has one of its own.
const PROGRAMS: [Component; 3] = [Component::ClusterManager, Component::HostAgent, Component::NodeAgent];
/// Of those the ones that belong to a node.
const AGENTS: [Component; 2] = [Component::HostAgent, Component::NodeAgent];

/// Whether one of these programs asks, or a card's.
fn programs(accounts: &[Component]) -> String {
    let accounts: Vec<String> = accounts.iter().copied().map(account).collect();
    format!(
        "request.userInfo.username in [\n  {}]\n  || 'system:serviceaccounts:{CARDS}' in request.userInfo.?groups.orValue([])",
        accounts.join(",\n  ")
    )
}

/// Who asks.
fn who() -> [(&'static str, String); 5] {
    let claims = "request.userInfo.?extra.orValue({})";
    [
        ("isHost", is(Component::HostAgent)),
        ("isCard", format!("'system:serviceaccounts:{CARDS}' in request.userInfo.?groups.orValue([])")),
        ("claims", claims.to_owned()),
        (
            "tokenNode",
            "variables.claims[?'authentication.kubernetes.io/node-name'][?0].orValue('')".to_owned(),
        ),
        ("inPod", "'authentication.kubernetes.io/pod-name' in variables.claims".to_owned()),
    ]
}

/// The annotations before and after.
fn annotations() -> [(&'static str, String); 2] {
    let of = |object: &str| format!("{object} == null ? {{}} : {object}.metadata.?annotations.orValue({{}})");
    [("before", of("oldObject")), ("after", of("object"))]
}

/// Keys of all that the request changes and that are not in the list `own`. What is the writer's is not compared: it may be
/// long.
fn foreign(own: &str) -> String {
    format!(
        "variables.after.filter(k, !(k in {own}) && variables.after[?k] != variables.before[?k])
  + variables.before.filter(k, !(k in {own}) && !(k in variables.after))"
    )
}

/// Whether an update changes one annotation.
fn changed_value(key: &str) -> String {
    format!("request.operation == 'UPDATE' && variables.after[?'{key}'] != variables.before[?'{key}']")
}

/// Keys that are the cluster manager's.
fn own_of_manager(table: &[(&str, Owner)]) -> String {
    owned_by(table, |owner| matches!(owner, Owner::Manager | Owner::CardOrManager | Owner::ManagerOrOthers))
}

/// Keys that are the writer's, which is an agent.
fn own_of_agents(table: &[(&str, Owner)]) -> String {
    format!(
        "variables.isHost ? {}\n  : variables.isCard ? {}\n  : {}",
        owned_by(table, |owner| owner == Owner::Host),
        owned_by(table, |owner| matches!(owner, Owner::Card | Owner::CardOrManager)),
        owned_by(table, |owner| matches!(owner, Owner::Host | Owner::Card | Owner::CardOrManager)),
    )
}

fn owned_by(table: &[(&str, Owner)], owns: fn(Owner) -> bool) -> String {
    let keys: Vec<&str> = table.iter().filter(|(_, owner)| owns(*owner)).map(|(key, _)| *key).collect();
    list(&keys)
}

fn list(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("'{key}'")).collect();
    format!("[\n    {}]", keys.join(",\n    "))
}

fn bound<const N: usize>(policies: [Policy; N]) -> Vec<serde_json::Value> {
    policies.into_iter().flat_map(|policy| policy.objects(policy.name)).collect()
}
