//! Which networks a change of a Node concerns, and which of their parts. Pure.

use std::collections::BTreeSet;

use causeway_net::network::name::NetworkName;

use super::super::network::{Network, Shape};
use super::super::node::ZoneNode;
use super::super::plan::Part;
use super::watched::NodeFacts;

/// What a change of a node asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Concern {
    /// Whom it concerns.
    pub(super) networks: Networks,
    /// Whether chassis of other nodes may be others.
    pub(super) chassis: bool,
    /// Whether settings of the own chassis may be others.
    pub(super) settings: bool,
}

/// Networks that a change concerns.
#[derive(Debug, PartialEq)]
pub(super) enum Networks {
    /// All.
    All,
    /// These.
    Some(BTreeSet<NetworkName>),
}

/// What a change of the node of this name concerns; `own` is whether this agent serves it.
pub(super) fn concern(own: bool, old: Option<&NodeFacts>, new: Option<&NodeFacts>) -> Concern {
    let (Some(before), Some(after)) = (old, new) else {
        return Concern { networks: Networks::All, chassis: !own, settings: own };
    };
    let (old, new) = (&before.node, &after.node);
    let all = rest(old) != rest(new)
        || (!own && before.outside != after.outside)
        || old.subnets.is_ok() != new.subnets.is_ok();
    let networks = if all {
        Networks::All
    } else {
        let mut some = if old.subnets == new.subnets { BTreeSet::new() } else { changed(old, new) };
        // Only the default network leads to all addresses of the host, and only its interface has a MAC of its own.
        if own && (old.host_cidrs != new.host_cidrs || old.management_macs != new.management_macs) {
            some.insert(NetworkName::default_network());
        }
        Networks::Some(some)
    };
    Concern {
        networks,
        chassis: !own
            && (&old.chassis, &old.encap_ips, before.outside)
                != (&new.chassis, &new.encap_ips, after.outside),
        settings: own && before.address != after.address,
    }
}

/// What rows of every network rest on.
fn rest(node: &ZoneNode) -> impl PartialEq {
    (node.id.clone(), node.chassis.clone(), node.transit.clone(), node.gateways.clone(), node.gateway_mtu)
}

/// The networks whose subnets are others than before.
fn changed(old: &ZoneNode, new: &ZoneNode) -> BTreeSet<NetworkName> {
    let (Ok(old), Ok(new)) = (&old.subnets, &new.subnets) else { return BTreeSet::new() };
    let differs = |network: &&String| {
        old.value.get(*network) != new.value.get(*network)
            || old
                .bad
                .iter()
                .filter(|bad| bad.entry == **network)
                .ne(new.bad.iter().filter(|bad| bad.entry == **network))
    };
    let bad = old.bad.iter().chain(&new.bad).map(|bad| &bad.entry);
    let all = old.value.keys().chain(new.value.keys()).chain(bad);
    all.filter(differs).map(|network| network.as_str().into()).collect()
}

/// Whether another node is part of a network.
///
/// A node that has told no subnets of a network yet is waited for, with what there is of it in place. Where networks are
/// only on nodes that use them, no entry means that the node is not one of these. Source: ovn-kubernetes
/// `base_network_controller_user_defined.go`, "remote node is not active".
pub(super) fn is_in(network: &Network, node: &NodeFacts, dynamic: bool) -> bool {
    let routed = matches!(network.shape, Shape::Layer3Primary(_) | Shape::Layer3Secondary);
    let absent = || node.node.subnets_of(network.name.as_str()).err().is_some_and(|cause| cause.is_missing());
    let has_left = dynamic && routed && absent();
    !node.outside && !has_left
}

/// The part of a network that another node is.
pub(super) fn part_of(node: &NodeFacts) -> Part {
    Part::Remote(node.node.name.clone())
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::fixture::{cluster, layer2, layer3, node_of};
    use super::*;

    fn facts(changes: &[(&str, &str)]) -> NodeFacts {
        NodeFacts { uid: "u".into(), node: node_of(&cluster(), 2, changes), address: None, outside: false }
    }

    #[test]
    fn a_change_concerns_only_what_rests_on_it() {
        let before = facts(&[]);
        let subnets = r#"{"default":["10.244.1.0/24","fd01:0:0:2::/64"],"cluster_udn_blue":["10.200.9.0/24"],"new":["10.9.0.0/24"]}"#;
        let none = || Networks::Some(BTreeSet::new());
        let blue_and_new = || Networks::Some(["cluster_udn_blue".into(), "new".into()].into());
        for (changes, others, own) in [
            (&[("node-id", "77")][..], Networks::All, Networks::All),
            (&[("node-chassis-id", "c9")], Networks::All, Networks::All),
            (&[("node-subnets", subnets)], blue_and_new(), blue_and_new()),
            (&[("node-subnets", "garbage")], Networks::All, Networks::All),
            (&[("host-cidrs", "[]")], none(), Networks::Some([NetworkName::default_network()].into())),
            (
                &[("node-subnets", subnets), ("host-cidrs", "[]")],
                blue_and_new(),
                Networks::Some(["cluster_udn_blue".into(), "new".into(), "default".into()].into()),
            ),
            (&[("node-encap-ips", r#"["192.0.2.1"]"#)], none(), none()),
        ] {
            let after = facts(changes);
            assert_eq!(concern(false, Some(&before), Some(&after)).networks, others, "{changes:?}");
            assert_eq!(concern(true, Some(&before), Some(&after)).networks, own, "{changes:?}");
        }
        assert_eq!(concern(false, Some(&before), None).networks, Networks::All);
        assert_eq!(concern(false, None, Some(&before)).networks, Networks::All);
    }

    #[test]
    fn chassis_of_others_follow_their_ids_and_tunnel_addresses() {
        let before = facts(&[]);
        for (change, chassis) in
            [(("node-chassis-id", "c9"), true), (("node-encap-ips", "[]"), true), (("node-id", "9"), false)]
        {
            let after = facts(&[change]);
            assert_eq!(concern(false, Some(&before), Some(&after)).chassis, chassis, "{change:?}");
            assert!(!concern(true, Some(&before), Some(&after)).chassis, "the own one is ovn-controller's");
        }
        let moved = NodeFacts { address: Some("192.0.2.1".parse().unwrap()), ..before.clone() };
        assert!(concern(true, Some(&before), Some(&moved)).settings);
        assert!(!concern(false, Some(&before), Some(&moved)).settings);
    }

    #[test]
    fn a_node_without_subnets_is_waited_for_unless_networks_are_only_where_they_are_used() {
        let (routed, flat) = (layer3(&cluster()), layer2(&cluster()));
        let there = facts(&[]);
        let without = facts(&[("node-subnets", r#"{"default":["10.244.1.0/24"]}"#)]);
        let unreadable = facts(&[("node-subnets", "garbage")]);
        let outside = NodeFacts { outside: true, ..there.clone() };
        for (network, node, always, dynamic) in [
            (&routed, &there, true, true),
            (&routed, &without, true, false),
            (&routed, &unreadable, true, true),
            (&routed, &outside, false, false),
            (&flat, &without, true, true),
            (&flat, &outside, false, false),
        ] {
            assert_eq!(
                (is_in(network, node, false), is_in(network, node, true)),
                (always, dynamic),
                "{node:?}"
            );
        }
        // The default network is on every node.
        assert!(is_in(&Network::default_network(&cluster()), &facts(&[("node-subnets", "")]), true));
    }
}
