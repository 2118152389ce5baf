//! Networks that cannot share what they share.
//!
//! In: for each network, what it needs for itself on which node ([`Claim`]). Out: who else needs the same, and whom a
//! change of a network concerns. A network needs its Uplink, and the bridge behind it, for itself where it has a routing
//! domain of its own: the kernel has an interface in one VRF at a time. In the default domain any number may share.
//! Source: ovn-kubernetes, `pkg/node/gateway_udn.go` and `pkg/node/vrfmanager`, where the node refuses the second one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_api::network::Transport;
use causeway_net::network::name::NodeName;
use causeway_net::routing_domain::{self, Overlay};
use causeway_net::state_name::StateName;
use causeway_net::transport::Advertiser;
use causeway_net::uplinks_ready::{ActiveNodes, Found, View};
use causeway_runtime::watch::{Change, Store};

use crate::groups::Groups;
use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};

/// RouteAdvertisements; none where their feature is off.
pub(super) type Advertisers = Option<Store<Arc<str>, Advertiser>>;

/// Something on a node that one network needs for itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Claim {
    node: NodeName,
    what: What,
}

/// Two Uplinks may lead to one bridge, and an Uplink's bridge may not be known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Uplink(String),
    Bridge(String),
}

/// What each network needs for itself. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals(Arc<Mutex<Claims>>);

#[derive(Debug, Default)]
struct Claims {
    of: HashMap<CrKey, BTreeSet<Claim>>,
    claimants: Groups<Claim, CrKey>,
    /// Whether those of every network are here: before that, nobody can be told to be alone.
    complete: bool,
}

impl Rivals {
    /// Takes over what a network needs for itself now; returns the others that needed or need the same and are told of it
    /// anew.
    pub(super) fn set(&self, key: &CrKey, claims: BTreeSet<Claim>) -> BTreeSet<CrKey> {
        let mut all = self.lock();
        let before = all.of.remove(key).unwrap_or_default();
        let mut concerned = BTreeSet::new();
        for claim in before.symmetric_difference(&claims) {
            concerned.extend(all.claimants.in_group(claim).filter(|other| *other != key).cloned());
        }
        for claim in before.difference(&claims) {
            all.claimants.remove(claim, key);
        }
        for claim in claims.difference(&before) {
            all.claimants.insert(claim.clone(), key.clone());
        }
        if !claims.is_empty() {
            all.of.insert(key.clone(), claims);
        }
        concerned
    }

    /// Who else needs an Uplink, or the bridge that it leads to, on a node, if this network needs it for itself.
    pub(super) fn of(&self, key: &CrKey, uplink: &str, bridge: Option<&str>, node: &NodeName) -> Vec<CrKey> {
        let all = self.lock();
        let Some(own) = all.of.get(key) else { return Vec::new() };
        let claims = things(uplink, bridge).map(|what| Claim { node: node.clone(), what });
        let shared: BTreeSet<CrKey> = claims
            .filter(|claim| own.contains(claim))
            .flat_map(|claim| all.claimants.of(&claim))
            .filter(|other| other != key)
            .collect();
        shared.into_iter().collect()
    }

    /// Whether a network needs anything for itself: most do not.
    pub(super) fn needs_anything(&self, key: &CrKey) -> bool {
        self.lock().of.contains_key(key)
    }

    /// Whether what every network needs is known.
    pub(super) fn are_complete(&self) -> bool {
        self.lock().complete
    }

    /// From now on it is.
    pub(super) fn complete(&self) {
        self.lock().complete = true;
    }

    /// Nothing is known.
    pub(super) fn forget_all(&self) {
        *self.lock() = Claims::default();
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn things(uplink: &str, bridge: Option<&str>) -> impl Iterator<Item = What> {
    let bridge = bridge.map(|bridge| What::Bridge(bridge.to_owned()));
    [What::Uplink(uplink.to_owned())].into_iter().chain(bridge)
}

/// What a network needs for itself on the nodes where it is needed; none where it cannot be told, because one of the
/// RouteAdvertisements that name it is not accepted as it is: then it is as it was.
pub(super) fn claims(
    cr: &Cr,
    active: &ActiveNodes<'_>,
    advertisers: &Advertisers,
    view: &impl View,
) -> Option<BTreeSet<Claim>> {
    if cr.network.transport == Some(Transport::Evpn) {
        // It cannot use an Uplink at all, and is told so.
        return Some(BTreeSet::new());
    }
    let snapshot = advertisers.as_ref().map(Store::snapshot);
    let naming: Vec<_> = snapshot
        .iter()
        .flat_map(|all| all.iter().map(|(_, advertiser)| advertiser))
        .filter(|advertiser| advertiser.advertises(&cr.labels))
        .collect();
    let nodes = active.iter().map(|(node, labels)| (node, *labels));
    let advertised = routing_domain::advertised(naming.iter().map(|one| Some(one.facts())), nodes)?;
    let overlay = Overlay::of(cr.network.transport.as_ref());
    let apart = active.keys().filter(|node| routing_domain::is_apart(overlay, &advertised, node));
    let of_node = |node: &NodeName| -> Vec<Claim> {
        let of_uplink = |uplink: &String| {
            let bridge = bridge(view, uplink, node);
            things(uplink, bridge).map(|what| Claim { node: node.clone(), what }).collect::<Vec<_>>()
        };
        cr.uplinks.iter().flat_map(of_uplink).collect()
    };
    Some(apart.flat_map(of_node).collect())
}

/// The bridge that an Uplink leads to on a node, if the node has found one.
pub(super) fn bridge<'v>(view: &'v impl View, uplink: &str, node: &NodeName) -> Option<&'v str> {
    match view.state(&StateName::of(uplink, node.as_str())) {
        Found::Present(state) if state.uplink == uplink && state.node == node.as_str() => {
            state.bridge.as_deref()
        }
        Found::Present(_) | Found::Absent | Found::Unreadable(_) => None,
    }
}

/// The networks with Uplinks whose routing domain may be another after this change.
pub(super) fn concerned(change: &Change<'_, Arc<str>, Advertiser>, stores: &Stores) -> Vec<CrKey> {
    let facts = |one: &Option<Arc<Advertiser>>| one.as_ref().map(|one| one.facts().clone());
    let both = [change.old.as_deref(), change.new.as_deref()];
    let named = |cr: &Cr| both.map(|one| one.is_some_and(|one| one.advertises(&cr.labels)));
    let same_facts = facts(&change.old) == facts(&change.new);
    let cudns = stores.cudns();
    let concerned = cudns.iter().filter(|(_, cr)| {
        let [before, after] = named(cr);
        !cr.uplinks.is_empty() && (before != after || (after && !same_facts))
    });
    concerned.map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> CrKey {
        CrKey::Cudn(name.into())
    }

    fn claims(uplink: &str, bridge: Option<&str>, nodes: &[&str]) -> BTreeSet<Claim> {
        let of_node = |node: &&str| {
            let node = NodeName::from(*node);
            things(uplink, bridge).map(move |what| Claim { node: node.clone(), what })
        };
        nodes.iter().flat_map(of_node).collect()
    }

    fn names(keys: impl IntoIterator<Item = CrKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name().to_owned()).collect()
    }

    #[test]
    fn networks_are_rivals_on_nodes_where_both_need_the_same_for_themselves() {
        let rivals = Rivals::default();
        assert_eq!(names(rivals.set(&key("red"), claims("up", Some("br"), &["a", "b"]))), [""; 0]);
        assert_eq!(names(rivals.set(&key("blue"), claims("up", Some("br"), &["b", "c"]))), ["red"]);
        let of = |network: &str, uplink: &str, bridge: Option<&str>, node: &str| {
            names(rivals.of(&key(network), uplink, bridge, &node.into()))
        };
        assert_eq!(of("red", "up", Some("br"), "a"), [""; 0]);
        assert_eq!(of("red", "up", Some("br"), "b"), ["blue"]);
        assert_eq!(of("blue", "up", Some("br"), "b"), ["red"]);
        // One that needs nothing for itself is nobody's rival.
        assert_eq!(of("default", "up", Some("br"), "b"), [""; 0]);
        // By way of another Uplink.
        assert_eq!(names(rivals.set(&key("green"), claims("other", Some("br"), &["c"]))), ["blue"]);
        assert_eq!(of("green", "other", Some("br"), "c"), ["blue"]);
        assert_eq!(of("green", "other", None, "c"), [""; 0]);
    }

    #[test]
    fn a_change_concerns_those_who_share_or_shared_what_changed_and_nobody_else() {
        let rivals = Rivals::default();
        for (network, nodes) in [("red", &["a"][..]), ("blue", &["a", "b"]), ("green", &["b"])] {
            rivals.set(&key(network), claims("up", Some("br"), nodes));
        }
        assert_eq!(names(rivals.set(&key("blue"), claims("up", Some("br"), &["a", "b"]))), [""; 0]);
        assert_eq!(names(rivals.set(&key("blue"), claims("up", Some("br"), &["a"]))), ["green"]);
        assert_eq!(names(rivals.set(&key("blue"), claims("up", Some("new"), &["a"]))), ["red"]);
        assert_eq!(names(rivals.of(&key("blue"), "up", Some("new"), &"a".into())), ["red"]);
        assert_eq!(names(rivals.set(&key("blue"), BTreeSet::new())), ["red"]);
        assert_eq!(names(rivals.of(&key("red"), "up", Some("br"), &"a".into())), [""; 0]);
        assert!(rivals.lock().of.len() == 2);
    }

    #[test]
    fn a_new_term_begins_with_nothing() {
        let rivals = Rivals::default();
        rivals.set(&key("red"), claims("up", None, &["a"]));
        rivals.complete();
        assert!(rivals.are_complete());
        rivals.forget_all();
        assert!(!rivals.are_complete());
        assert_eq!(names(rivals.set(&key("blue"), claims("up", None, &["a"]))), [""; 0]);
    }
}
