use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn network(name: &str) -> NetworkName {
    NetworkName::from(name)
}

fn node(name: &str) -> NodeName {
    NodeName::from(name)
}

fn id(id: u32) -> NetworkId {
    NetworkId::try_from(id).unwrap()
}

#[test]
fn two_nads_of_one_network_share_its_id() {
    let mut ids = NetworkIds::new();
    let first = ids.choose(&network("cluster_udn_a"), None).unwrap();
    let second = ids.choose(&network("cluster_udn_a"), None).unwrap();
    assert_eq!((first.id, second.id, second.replaced), (id(1), id(1), None));
}

#[test]
fn an_annotated_id_of_another_network_is_replaced_and_says_whose_it_is() {
    let mut ids = NetworkIds::new();
    ids.choose(&network("a"), Some(id(7))).unwrap();
    let chosen = ids.choose(&network("b"), Some(id(7))).unwrap();
    assert_eq!(chosen.id, id(1));
    assert_eq!(chosen.replaced.unwrap().to_string(), "id 7 is in use by a");
    assert_eq!(ids.owner(id(7)), Some(&network("a")));
}

#[test]
fn an_id_edited_by_hand_is_put_back_to_the_networks_own() {
    let mut ids = NetworkIds::new();
    ids.choose(&network("a"), Some(id(3))).unwrap();
    let chosen = ids.choose(&network("a"), Some(id(9))).unwrap();
    assert_eq!(chosen, Chosen { id: id(3), replaced: Some(Refused::HasAnother { id: 9, has: 3 }) });
    // The number that somebody wrote stays free for others.
    assert_eq!(ids.choose(&network("b"), Some(id(9))).unwrap().id, id(9));
}

#[test]
fn zero_is_the_default_networks_and_nobody_elses() {
    let mut ids = NetworkIds::new();
    let default = NetworkName::default_network();
    assert_eq!(ids.choose(&default, None).unwrap(), Chosen { id: NetworkId::DEFAULT, replaced: None });
    assert!(ids.choose(&default, Some(id(4))).unwrap().replaced.is_some());
    assert_eq!(ids.get(&default), Some(NetworkId::DEFAULT));
    let chosen = ids.choose(&network("a"), Some(NetworkId::DEFAULT)).unwrap();
    assert_eq!(chosen.id, id(1));
    assert!(matches!(chosen.replaced, Some(Refused::OutOfRange { id: 0, .. })));
}

#[test]
fn the_4096th_user_network_is_told_that_all_ids_are_in_use() {
    let mut ids = NetworkIds::new();
    for at in 1..=4095 {
        assert_eq!(ids.choose(&network(&format!("n{at}")), None).unwrap().id, id(at));
    }
    assert_eq!(
        ids.choose(&network("n4096"), None).unwrap_err().to_string(),
        "failed to allocate network ID: failed to allocate the id for the resource n4096: all 4095 ids are in use"
    );
    assert_eq!(ids.release(&network("n77")), Some(id(77)));
    assert_eq!(ids.choose(&network("n4096"), None).unwrap().id, id(77));
    assert_eq!(ids.len(), 4095);
}

#[test]
fn ids_are_handed_out_round_robin_until_a_restart_which_begins_at_the_lowest_free_one() {
    let mut ids = NetworkIds::new();
    for name in ["u1", "c1", "s1", "c2"] {
        ids.choose(&network(name), None).unwrap();
    }
    ids.release(&network("u1"));
    assert_eq!(ids.choose(&network("c3"), None).unwrap().id, id(5), "not the one that was just released");
    // As captured: after a restart a new network gets the id that was released before it.
    let mut rebuilt = NetworkIds::new();
    for (name, has) in [("c1", 2), ("s1", 3), ("c2", 4), ("c3", 5)] {
        assert_eq!(rebuilt.choose(&network(name), Some(id(has))).unwrap().replaced, None);
    }
    assert_eq!(rebuilt.choose(&network("c4"), None).unwrap().id, id(1));
}

#[test]
fn nodes_get_their_ids_as_captured() {
    let (mut ids, refused) = NodeIds::rebuild([]);
    assert!(refused.is_empty());
    let ids_of = |ids: &mut NodeIds, names: &[&str]| -> Vec<u16> {
        names.iter().map(|name| ids.allocate(&node(name)).unwrap().get()).collect()
    };
    assert_eq!(ids_of(&mut ids, &["node-000", "node-001", "node-002"]), [2, 3, 4]);
    ids.release(&node("node-001"));
    assert_eq!(ids_of(&mut ids, &["node-003", "node-001", "node-000"]), [5, 6, 2]);
}

#[test]
fn of_two_nodes_with_one_id_the_first_keeps_it() {
    let annotated =
        [("a", 5), ("b", 5), ("c", 2)].map(|(name, id)| (node(name), NodeId::try_from(id).unwrap()));
    let (mut ids, refused) = NodeIds::rebuild(annotated.iter().map(|(name, id)| (name, *id)));
    let taken = Refused::Taken { id: 5, by: node("a") };
    assert_eq!(refused, [(node("b"), taken)]);
    assert_eq!(ids.get(&node("b")), None);
    assert_eq!(ids.allocate(&node("b")).unwrap().get(), 3);
    assert_eq!(ids.get(&node("a")).unwrap().get(), 5);
}

#[test]
fn second_tunnel_keys_are_taken_from_their_annotation_or_handed_out_in_order() {
    let mut keys = SecondKeys::new();
    assert_eq!(keys.choose(&network("a"), None).unwrap().get(), 16_715_779);
    let annotated = TunnelKey::second(16_715_790);
    assert_eq!(keys.choose(&network("b"), annotated).unwrap().get(), 16_715_790);
    assert_eq!(keys.choose(&network("c"), annotated).unwrap().get(), 16_715_780);
    assert_eq!(keys.choose(&network("a"), annotated).unwrap().get(), 16_715_779);
    assert_eq!(keys.release(&network("a")), TunnelKey::second(16_715_779));
    assert_eq!(keys.choose(&network("d"), None).unwrap().get(), 16_715_781);
}

proptest! {
    #[test]
    fn no_id_is_given_twice_none_leaks_and_a_rebuild_gives_everybody_the_same(
        steps in prop::collection::vec((0_u8..3, 0_u8..12, 0_u32..14), 0..150),
    ) {
        let mut ids: Ids<String> = Ids::new(2..=11);
        let mut model: BTreeMap<String, u32> = BTreeMap::new();
        for (what, key, number) in steps {
            let key = format!("k{key}");
            match what {
                0 => if let Ok(id) = ids.allocate(&key) {
                    prop_assert!((2..=11).contains(&id));
                    prop_assert_eq!(*model.entry(key).or_insert(id), id);
                } else {
                    prop_assert_eq!(model.len(), 10);
                },
                1 => prop_assert_eq!(ids.release(&key), model.remove(&key)),
                _ => {
                    let free = !model.values().any(|id| *id == number);
                    let may = match model.get(&key) {
                        Some(has) => *has == number,
                        None => (2..=11).contains(&number) && free,
                    };
                    prop_assert_eq!(ids.claim(&key, number).is_ok(), may);
                    if may {
                        model.insert(key, number);
                    }
                }
            }
            prop_assert_eq!(ids.len(), model.len());
            let mut seen: Vec<u32> = model.values().copied().collect();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), model.len());
        }
        let mut rebuilt: Ids<String> = Ids::new(2..=11);
        for (key, id) in model.iter().rev() {
            prop_assert_eq!(rebuilt.claim(key, *id), Ok(()));
        }
        for (key, id) in &model {
            prop_assert_eq!(rebuilt.allocate(key), Ok(*id));
        }
    }
}
