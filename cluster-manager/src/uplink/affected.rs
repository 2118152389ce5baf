//! Which Uplinks a change concerns. Pure.
//!
//! In: what changed, before and after. Out: the names to look at again, also of Uplinks that do not exist (their
//! states have to go). An Uplink that the change cannot concern is not named: cost follows the change.

use causeway_net::network::name::NodeName;
use causeway_net::selection::Selection;
use causeway_net::state_name::StateName;
use causeway_runtime::watch::Snapshot;

use super::watched::{State, StateKey, Uplink, UplinkName};
use crate::observed::place::Node;

/// Whether a change of a Node is one that selectors see: of its labels, or of its being there. One without a value before
/// and after could not be read, and is gone or back now.
#[must_use]
pub(super) fn is_seen(old: Option<&Node>, new: Option<&Node>) -> bool {
    old.is_none() || old.map(|node| &node.labels) != new.map(|node| &node.labels)
}

/// The Uplinks whose selection of a Node changed with it. Absence is a Node that nothing selects; of one that could not be
/// read nobody knows what selected it.
#[must_use]
pub(super) fn by_node(
    old: Option<&Node>,
    new: Option<&Node>,
    uplinks: &Snapshot<UplinkName, Uplink>,
) -> Vec<UplinkName> {
    if !is_seen(old, new) {
        return Vec::new();
    }
    let changed = |uplink: &Uplink| {
        if old.is_none() && new.is_none() {
            return true;
        }
        let Ok(configs) = &uplink.facts.configs else { return false };
        let select = |node: Option<&Node>| match node {
            Some(node) => configs.select(&node.labels),
            None => Selection::None,
        };
        select(old) != select(new)
    };
    uplinks.iter().filter(|(_, uplink)| changed(uplink)).map(|(name, _)| name.clone()).collect()
}

/// The Uplinks that a changed state concerns: those that its identity names or named, and those that look for their
/// own state under the object's name.
///
/// Looking for the latter walks every Uplink and Node, so it is done only where the name does not follow from the
/// identity, or where the identity cannot be read.
#[must_use]
pub(super) fn by_state(
    key: &StateKey,
    old: Option<&State>,
    new: Option<&State>,
    uplinks: &Snapshot<UplinkName, Uplink>,
    nodes: &Snapshot<NodeName, Node>,
) -> Vec<UplinkName> {
    let known = || old.into_iter().chain(new);
    let mut names: Vec<UplinkName> = known().map(|state| state.uplink.clone()).collect();
    let regular =
        known().next().is_some() && known().all(|state| state.derived_name().as_str() == key.as_str());
    if !regular {
        names.extend(looking_for(key, uplinks, nodes));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// The Uplinks for which some Node's state has this name. Names are computed forward: they cannot be parsed.
fn looking_for(
    key: &StateKey,
    uplinks: &Snapshot<UplinkName, Uplink>,
    nodes: &Snapshot<NodeName, Node>,
) -> impl Iterator<Item = UplinkName> {
    uplinks
        .iter()
        .filter(|(uplink, _)| {
            nodes
                .iter()
                .any(|(node, _)| StateName::of(uplink.as_str(), node.as_str()).as_str() == key.as_str())
        })
        .map(|(uplink, _)| uplink.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uplink::fixtures::{self, node, uplink};

    #[track_caller]
    fn check_node(old: &[(&str, &str)], new: &[(&str, &str)], want: &[&str]) {
        let uplinks = fixtures::uplinks(&[
            uplink("blue", &[("br-blue", "role=blue")]),
            uplink("every", &[("br-every", "")]),
            uplink("unusable", &[("br-bad", "role=a b")]),
            uplink("zoned", &[("br-a", "zone=a"), ("br-b", "zone=b")]),
        ]);
        let found = by_node(Some(&node(old)), Some(&node(new)), &uplinks);
        assert_eq!(found.iter().map(UplinkName::as_str).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_label_that_no_selector_reads_concerns_no_uplink() {
        check_node(&[("poke", "0")], &[("poke", "1")], &[]);
    }

    #[test]
    fn a_label_change_concerns_only_the_uplinks_that_choose_differently_because_of_it() {
        check_node(&[("role", "blue")], &[("role", "red")], &["blue"]);
        check_node(&[("zone", "a")], &[("zone", "b")], &["zoned"]);
        check_node(&[], &[("zone", "a"), ("role", "blue")], &["blue", "zoned"]);
    }

    #[test]
    fn a_new_or_a_lost_node_concerns_the_uplinks_that_select_it() {
        let uplinks =
            fixtures::uplinks(&[uplink("blue", &[("br", "role=blue")]), uplink("every", &[("br", "")])]);
        let labelled = node(&[("role", "red")]);
        assert_eq!(by_node(None, Some(&labelled), &uplinks), [UplinkName::from("every")]);
        assert_eq!(by_node(Some(&labelled), None, &uplinks), [UplinkName::from("every")]);
    }

    #[test]
    fn a_node_that_could_not_be_read_and_is_gone_concerns_every_uplink() {
        let uplinks = fixtures::uplinks(&[uplink("blue", &[("br", "role=blue")])]);
        assert!(is_seen(None, None));
        assert_eq!(by_node(None, None, &uplinks), [UplinkName::from("blue")]);
    }

    #[test]
    fn a_heartbeat_and_what_others_annotate_are_seen_by_no_selector() {
        let before = node(&[("role", "blue")]);
        let annotations = [("k8s.ovn.org/node-id".to_owned(), "2".to_owned())].into();
        let after = Node { version: Some("8".to_owned()), annotations, ..before.clone() };
        assert!(!is_seen(Some(&before), Some(&after)));
    }

    /// Uplinks `a`, `a.b` and one with a long name, nodes `c`, `b.c` and one with a long name.
    #[track_caller]
    fn check_state(key: &str, old: Option<(&str, &str)>, new: Option<(&str, &str)>, want: &[&str]) {
        let (long_uplink, long_node) = ("u".repeat(200), "n".repeat(60));
        let every = |name: &str| uplink(name, &[("br", "")]);
        let uplinks = fixtures::uplinks(&[every("a"), every("a.b"), every(&long_uplink)]);
        let nodes = fixtures::nodes(&[("c", &[]), ("b.c", &[]), (&long_node, &[])]);
        let state = |identity: Option<(&str, &str)>| identity.map(|(u, n)| fixtures::state(u, n));
        let (old, new) = (state(old), state(new));
        let found = by_state(&StateKey::from(key), old.as_ref(), new.as_ref(), &uplinks, &nodes);
        let want: Vec<&str> =
            want.iter().map(|&w| if w == "long" { long_uplink.as_str() } else { w }).collect();
        assert_eq!(found.iter().map(UplinkName::as_str).collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_state_concerns_the_uplink_that_it_names() {
        // Cases of 6: state deleted, identity remembered; state of an Uplink that does not exist.
        check_state("a.c", Some(("a", "c")), None, &["a"]);
        check_state("ghost.c", None, Some(("ghost", "c")), &["ghost"]);
    }

    #[test]
    fn a_state_under_a_name_that_others_look_for_concerns_them_too() {
        // Case of 6: state `ident.node-000` created with `uplinkName: up1`; here `ident` hears of it.
        check_state("a.c", None, Some(("other", "c")), &["a", "other"]);
        check_state("free-name", None, Some(("a", "c")), &["a"]);
    }

    #[test]
    fn a_hashed_name_is_traced_to_exactly_its_uplink() {
        // Case of 2: delete event for a hashed name.
        check_state("uplinkstate-a10957393278523658921", None, None, &["long"]);
    }

    #[test]
    fn a_name_that_two_pairs_share_concerns_both_uplinks_when_its_identity_is_unknown() {
        check_state("a.b.c", None, None, &["a", "a.b"]);
    }

    #[test]
    fn an_unknown_name_concerns_nobody() {
        check_state("nothing.like-it", None, None, &[]);
    }
}
