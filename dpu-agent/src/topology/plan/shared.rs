//! What a network has whatever nodes there are: groups of load balancers, port groups and their access rules.

use causeway_net::network::object_id::{ObjectId, acl, port_group};

use super::super::mark::pairs;
use super::super::northbound::Acl;
use super::super::rows::{AclHolder, Rows};
use super::zone::ACL_METER;
use super::{Cx, PlanError, ip_word};

/// Tier of rules that no administrator's policy may overrule. Source: ovn-kubernetes `types.DefaultACLTier`.
const TIER: i64 = 2;

/// Multicast whose groups hosts choose. Source: ovn-kubernetes `base_network_controller_multicast.go`.
const MULTICAST: &str = "(ip4.mcast || mldv1 || mldv2 || (ip6.dst[120..127] == 0xff && ip6.dst[116] == 1))";

/// The three groups of load balancers.
pub(super) fn load_balancer_groups(cx: &Cx<'_>, rows: &mut Rows) {
    let groups = cx.names.load_balancer_groups();
    rows.load_balancer_groups.extend([groups.cluster, groups.switch, groups.router]);
}

/// The groups of a pod switch.
pub(super) fn of_switch(cx: &Cx<'_>) -> [String; 2] {
    let groups = cx.names.load_balancer_groups();
    [groups.cluster, groups.switch]
}

/// The groups of a gateway router.
pub(super) fn of_router(cx: &Cx<'_>, node_ports: bool) -> Vec<String> {
    let groups = cx.names.load_balancer_groups();
    std::iter::once(groups.cluster).chain(node_ports.then_some(groups.router)).collect()
}

fn cluster_group(cx: &Cx<'_>) -> ObjectId {
    port_group::CLUSTER.id(&cx.names.controller(), ["clusterPortGroup"])
}

/// The node's ports in the two port groups of a primary network. The node's own port brings its whole switch under the
/// rules of the first one.
pub(super) fn members(cx: &Cx<'_>, rows: &mut Rows) {
    let node = cx.node.name.as_str();
    let mut member = |id: &ObjectId, port: String| {
        rows.members.entry(id.hashed_name()).or_default().insert(port);
    };
    member(&cluster_group(cx), cx.names.management_port(node));
    if let Some(port) = cx.network.router_port_of_pod_switch(node).filter(|_| cx.cluster.multicast) {
        member(&router_group(cx), port);
    }
}

fn router_group(cx: &Cx<'_>) -> ObjectId {
    port_group::CLUSTER.id(&cx.names.controller(), ["clusterRtrPortGroup"])
}

/// The two port groups of a primary network, and the rules in them.
pub(super) fn port_groups(cx: &Cx<'_>, rows: &mut Rows) -> Result<(), PlanError> {
    let controller = cx.names.controller();
    let cluster = cluster_group(cx);
    let routers = router_group(cx);
    for id in [&cluster, &routers] {
        rows.port_groups.insert(id.hashed_name(), pairs(id.external_ids()));
    }

    let hairpin: Vec<String> = cx
        .cluster
        .shared()?
        .into_iter()
        .map(|(_, shared)| format!("{}.src == {}", ip_word(shared.service_hairpin), shared.service_hairpin))
        .collect();
    let hairpin = match hairpin.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(" || ")),
    };
    let holder = AclHolder::Group(cluster.hashed_name());
    for direction in [Direction::Egress, Direction::Ingress] {
        let id = acl::NETPOL_DEFAULT.id(&controller, ["allow-hairpinning", direction.word()]);
        rows.acls.push((holder.clone(), rule(&id, direction, 1001, hairpin.clone(), "allow-related")));
    }
    if cx.cluster.multicast {
        let routers_holder = AclHolder::Group(routers.hashed_name());
        for direction in [Direction::Egress, Direction::Ingress] {
            // No port in the match: it is for the whole of the switch.
            let id = acl::MULTICAST_CLUSTER.id(&controller, ["DefaultDeny", direction.word()]);
            rows.acls.push((holder.clone(), rule(&id, direction, 1011, MULTICAST.to_owned(), "drop")));
            let id = acl::MULTICAST_CLUSTER.id(&controller, ["AllowInterNode", direction.word()]);
            let condition = format!("{} == @{} && {MULTICAST}", direction.port(), routers.hashed_name());
            rows.acls.push((routers_holder.clone(), rule(&id, direction, 1012, condition, "allow")));
        }
    }
    Ok(())
}

/// Direction of a policy, seen from the pod.
#[derive(Clone, Copy)]
enum Direction {
    Egress,
    Ingress,
}

impl Direction {
    fn word(self) -> &'static str {
        match self {
            Self::Egress => "Egress",
            Self::Ingress => "Ingress",
        }
    }

    /// The port in an expression.
    fn port(self) -> &'static str {
        match self {
            Self::Egress => "inport",
            Self::Ingress => "outport",
        }
    }
}

fn rule(id: &ObjectId, direction: Direction, priority: i64, condition: String, action: &str) -> Acl {
    let (side, options) = match direction {
        // What pods send is looked at after load balancing, when the real destination is known.
        Direction::Egress => ("from-lport", pairs([("apply-after-lb", "true")])),
        Direction::Ingress => ("to-lport", pairs::<&str, &str>([])),
    };
    Acl {
        direction: side.to_owned(),
        priority,
        tier: TIER,
        condition,
        action: action.to_owned(),
        log: false,
        meter: Some(ACL_METER.to_owned()),
        options,
        external_ids: pairs(id.external_ids()),
    }
}

/// The rule that lets a node reach the pods on its own switch, for probes.
pub(super) fn node_rule(cx: &Cx<'_>, rows: &mut Rows, switch: &str, address: std::net::IpAddr) {
    let id = acl::NETPOL_NODE.id(&cx.names.controller(), [switch, &address.to_string()]);
    let condition = format!("{}.src=={address}", ip_word(address));
    let rule = rule(&id, Direction::Ingress, 1001, condition, "allow-related");
    rows.acls.push((AclHolder::Switch(switch.to_owned()), rule));
}
