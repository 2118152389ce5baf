//! Ids and tunnel keys of networks, ids of nodes.

use super::*;

#[test]
fn all_definitions_of_a_network_carry_its_name_its_id_and_no_keys() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "cluster_udn_net", "10.1.0.0/16"));
    world.join("b/net", &layer3("b/net", "cluster_udn_net", "10.1.0.0/16"));
    for nad in ["a/net", "b/net"] {
        assert_eq!(world.of_nad(nad, nad_annotation::NETWORK_NAME), Some("cluster_udn_net"));
        assert_eq!((world.id(nad), world.tunnel_keys(nad)), (Some("1"), Some("[]")));
    }
}

#[test]
fn only_primary_layer2_networks_carry_tunnel_keys_that_follow_from_the_id_and_from_the_pool() {
    let mut world = World::everywhere();
    let secondary = r#","role":"secondary","subnets":"10.9.0.0/16""#;
    world.join("a/one", &layer2_primary("a/one", "one"));
    world.join("a/two", &config("a/two", "two", "layer2", secondary));
    world.join("b/three", &layer2_primary("b/three", "three"));
    world.join("b/four", &config("b/four", "four", "localnet", ""));
    let keys = ["a/one", "a/two", "b/three", "b/four"].map(|nad| world.tunnel_keys(nad).unwrap());
    assert_eq!(keys, ["[16711684,16715779]", "[]", "[16711686,16715780]", "[]"]);
}

#[test]
fn an_id_of_another_network_an_edited_and_an_unreadable_one_are_put_right() {
    for edited in ["1", "77", "0", "-1", "4096", "99999999999", "x", ""] {
        let mut world = World::everywhere();
        world.join("a/one", &layer3("a/one", "one", "10.1.0.0/16"));
        world.join("a/two", &layer2_primary("a/two", "two"));
        let nad = world.nads.get_mut(&key("a/two")).unwrap();
        nad.annotations.insert(nad_annotation::NETWORK_ID.to_owned(), edited.to_owned());
        nad.annotations.insert(nad_annotation::TUNNEL_KEYS.to_owned(), "[1,2]".to_owned());
        world.look("a/two");
        assert_eq!(world.id("a/one"), Some("1"));
        assert_eq!(
            (world.id("a/two"), world.tunnel_keys("a/two")),
            (Some("2"), Some("[16711685,16715779]")),
            "edited to {edited:?}"
        );
    }
}

#[test]
fn of_two_networks_that_claim_one_id_at_start_the_older_keeps_it() {
    for older in ["a/one", "a/two"] {
        let mut world = World::everywhere();
        for nad in ["a/one", "a/two"] {
            world.put(nad, &layer3(nad, nad.split('/').next_back().unwrap(), "10.1.0.0/16"));
            let nad = world.nads.get_mut(&key(nad)).unwrap();
            nad.annotations.insert(nad_annotation::NETWORK_ID.to_owned(), "7".to_owned());
        }
        world.nads.get_mut(&key(older)).unwrap().created = -1;
        world.restart();
        world.pass();
        let younger = if older == "a/one" { "a/two" } else { "a/one" };
        assert_eq!((world.id(older), world.id(younger)), (Some("7"), Some("1")), "{older} is older");
    }
}

#[test]
fn a_definition_with_an_id_comes_before_an_older_one_without() {
    let mut world = World::everywhere();
    world.put("a/old", &layer3("a/old", "old", "10.1.0.0/16"));
    world.put("a/young", &layer3("a/young", "young", "10.1.0.0/16"));
    let young = world.nads.get_mut(&key("a/young")).unwrap();
    young.annotations.insert(nad_annotation::NETWORK_ID.to_owned(), "1".to_owned());
    world.restart();
    world.pass();
    assert_eq!((world.id("a/young"), world.id("a/old")), (Some("1"), Some("2")));
}

#[test]
fn a_network_without_an_annotated_id_has_the_one_that_an_old_version_left_on_nodes() {
    let mut world = World::everywhere();
    world.put_node("n1", &[(node_annotation::NETWORK_IDS, r#"{"default":"0","one":"33","two":"9999"}"#)]);
    world.put_node("n2", &[(node_annotation::NETWORK_IDS, r#"{"one":"34"}"#)]);
    world.put_node("n3", &[(node_annotation::NETWORK_IDS, "garbage")]);
    world.put("a/one", &layer3("a/one", "one", "10.1.0.0/16"));
    world.put("a/two", &layer3("a/two", "two", "10.1.0.0/16"));
    world.restart();
    world.pass();
    assert_eq!((world.id("a/one"), world.id("a/two")), (Some("33"), Some("1")));
}

#[test]
fn ids_are_handed_out_round_robin_and_come_free_with_the_last_definition() {
    let mut world = World::everywhere();
    world.join("a/one", &layer3("a/one", "one", "10.1.0.0/16"));
    world.join("b/one", &layer3("b/one", "one", "10.1.0.0/16"));
    world.leave("a/one", false);
    world.join("a/two", &layer3("a/two", "two", "10.1.0.0/16"));
    assert_eq!((world.id("b/one"), world.id("a/two")), (Some("1"), Some("2")), "b/one still holds the first");
    world.leave("b/one", false);
    world.join("a/three", &layer3("a/three", "three", "10.1.0.0/16"));
    assert_eq!(world.id("a/three"), Some("3"), "what came free is not used again at once");
    world.restart();
    world.join("a/four", &layer3("a/four", "four", "10.1.0.0/16"));
    assert_eq!(world.id("a/four"), Some("1"), "the cursor is not kept over a restart");
}

#[test]
fn the_4096th_network_is_refused_in_upstreams_words_and_gets_the_first_id_that_comes_free() {
    let mut world = World::everywhere();
    let localnet = |nad: &str| config(nad, &nad.replace('/', "_"), "localnet", "");
    for number in 1..=4095 {
        let nad = format!("a/n{number}");
        world.join(&nad, &localnet(&nad));
    }
    let text = "failed to allocate network ID: failed to allocate the id for the resource a_late: all 4095 ids are in use";
    assert_eq!(world.refused("a/late", &localnet("a/late")), text);
    let udn = name("blue_net");
    let config = Arc::clone(world.nads[&key("a/n1")].config().unwrap());
    let error = world.ledger.identify(&udn, &config).unwrap_err();
    assert_eq!(error, text.replace("a_late", "blue_net"));
    assert_eq!(world.ledger.relieved(), BTreeSet::new(), "nothing is free yet");

    world.leave("a/n77", false);
    let relieved = [Starved::Nad(key("a/late")), Starved::Network(udn)];
    assert_eq!(world.ledger.relieved(), BTreeSet::from(relieved));
    assert_eq!(world.ledger.relieved(), BTreeSet::new(), "they are told once");
    world.look("a/late");
    assert_eq!(world.id("a/late"), Some("77"));
}

#[test]
fn the_ids_of_a_network_that_is_about_to_be_made_are_those_that_it_has_then() {
    let mut world = World::everywhere();
    world.put("blue/net", &layer2_primary("blue/net", "blue_net"));
    let config = Arc::clone(world.nads[&key("blue/net")].config().unwrap());
    let promised = world.ledger.identify(&name("blue_net"), &config).unwrap();
    world.join("a/other", &layer2_primary("a/other", "other"));
    assert_eq!(
        world.ledger.identify(&name("blue_net"), &config),
        Ok(promised),
        "asking again changes nothing"
    );
    world.look("blue/net");
    assert_eq!((world.id("blue/net"), world.id("a/other")), (Some("1"), Some("2")));
    // One whose creation failed for good has nothing left.
    world.ledger.identify(&name("never"), &config).unwrap();
    world.ledger.disown(&name("never"), world.now);
    world.restart();
    world.join("c/third", &layer3("c/third", "third", "10.1.0.0/16"));
    assert_eq!(world.id("c/third"), Some("3"));
}

#[test]
fn one_definition_of_a_namespace_is_primary_and_the_next_one_is_when_that_is_over() {
    let mut world = World::everywhere();
    world.join("a/x", &layer2_primary("a/x", "one"));
    let text = "NAD a/x is primary for the namespace, NAD a/y can't be primary";
    assert_eq!(world.refused("a/y", &layer2_primary("a/y", "two")), text);
    world.join("b/y", &layer2_primary("b/y", "two"));
    assert_eq!(world.id("b/y"), Some("2"), "another namespace is free");
    // Edited into a secondary one, it is in nobody's way.
    world.join("a/x", &config("a/x", "one", "layer2", r#","role":"secondary","subnets":"10.9.0.0/16""#));
    world.look("a/y");
    assert_eq!(world.id("a/y"), Some("2"));
    assert_eq!(
        world.refused("a/x", &layer2_primary("a/x", "one")),
        text.replace("a/x", "a/z").replace("a/y", "a/x").replace("a/z", "a/y")
    );
    world.leave("a/y", false);
    world.look("a/x");
    assert_eq!(world.id("a/x"), Some("1"));
}

#[test]
fn a_definition_that_says_something_else_about_a_network_is_refused_with_the_keys() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    let other = config("b/net", "net", "layer3", r#","role":"primary","subnets":"10.1.0.0/16","mtu":1300"#);
    assert_eq!(
        world.refused("b/net", &other),
        "NAD b/net CNI config does not match that of network net: mtu, role"
    );
    assert_eq!(world.id("b/net"), None);
    world.leave("a/net", false);
    world.look("b/net");
    assert_eq!(world.id("b/net"), Some("2"), "alone it says what the network is");
}

#[test]
fn a_network_that_all_its_definitions_change_is_the_new_one_whichever_is_changed_first() {
    let with_mtu = |nad: &str, mtu: &str| {
        config(nad, "net", "layer3", &format!(r#","role":"secondary","subnets":"10.1.0.0/16","mtu":{mtu}"#))
    };
    for order in [["a/net", "b/net", "c/net"], ["c/net", "a/net", "b/net"]] {
        let mut world = World::everywhere();
        world.join_node("n1");
        for nad in order {
            world.join(nad, &with_mtu(nad, "1300"));
        }
        world.look_node("n1", Write::Works);
        let (subnet, [first, second, last]) = (world.subnet("n1", "net"), order);
        assert_eq!(world.join(first, &with_mtu(first, "1400")), Joined::Pending);
        assert_eq!(world.join(second, &with_mtu(second, "1400")), Joined::Pending);
        assert!(matches!(world.join(last, &with_mtu(last, "1400")), Joined::Of { .. }));
        assert!(matches!(world.look(first), Joined::Of { .. }));
        assert!(matches!(world.look(second), Joined::Of { .. }));
        assert!(world.refused("d/net", &with_mtu("d/net", "1300")).ends_with("network net: mtu"));
        world.nads.remove(&key("d/net"));
        world.converge();
        assert_eq!((world.id(first), world.subnet("n1", "net")), (Some("1"), subnet));
        world.restart();
        assert!(!world.pass());
    }
}

#[test]
fn one_definition_that_is_edited_and_put_right_again_changes_nothing() {
    let mut world = World::everywhere();
    world.join_node("n1");
    for nad in ["a/net", "b/net"] {
        world.join(nad, &layer3(nad, "net", "10.1.0.0/16"));
    }
    world.converge();
    let edited = config("a/net", "net", "layer3", r#","role":"secondary","subnets":"10.1.0.0/16","mtu":900"#);
    assert_eq!(world.join("a/net", &edited), Joined::Pending);
    assert!(!world.pass());
    world.put("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    assert!(!world.pass());
    assert_eq!(world.refused("c/net", &edited.replace("a/net", "c/net")).split(": ").nth(1), Some("mtu"));
}

#[test]
fn a_definition_that_changes_its_network_leaves_the_former_one() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "one", "10.1.0.0/16"));
    world.look_node("n1", Write::Works);
    world.put("a/net", &config("a/net", "two", "localnet", ""));
    let nad = world.nads[&key("a/net")].clone();
    let (_, stir) = world.ledger.join(&key("a/net"), &nad, nad.config().unwrap(), None, world.now);
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]), "what it had of the former network goes");
    assert_eq!(stir.networks, BTreeSet::from([name("one")]));
    world.look_node("n1", Write::Works);
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"]}"#));
    assert_eq!(world.ledger.network_names(), [name("two")]);
}

#[test]
fn a_network_whose_last_definition_comes_back_keeps_its_numbers_and_subnets() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("blue/net", &layer2_primary("blue/net", "blue_net"));
    world.join("a/l3", &layer3("a/l3", "a_l3", "10.1.0.0/16"));
    world.join("a/other", &layer3("a/other", "other", "10.1.0.0/16"));
    world.converge();
    let before = (world.node_subnets("n1").map(str::to_owned), world.id("a/l3").map(str::to_owned));
    let keys = world.tunnel_keys("blue/net").map(str::to_owned);
    world.leave("blue/net", true);
    world.leave("a/l3", true);
    assert!(!world.pass(), "nobody loses anything meanwhile");
    world.join("a/new", &layer3("a/new", "new", "10.1.0.0/16"));
    assert_eq!(world.id("a/new"), Some("4"));
    world.join("blue/net", &layer2_primary("blue/net", "blue_net"));
    world.join("a/l3", &layer3("a/l3", "a_l3", "10.1.0.0/16"));
    assert_eq!(world.id("a/l3"), before.1.as_deref());
    assert_eq!((world.id("blue/net"), world.tunnel_keys("blue/net")), (Some("1"), keys.as_deref()));
    world.leave("a/new", false);
    world.converge();
    assert_eq!(world.node_subnets("n1"), before.0.as_deref());
}

#[test]
fn what_was_to_come_back_and_does_not_leaves_nothing() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join("b/net", &layer3("b/net", "net", "10.1.0.0/16"));
    world.converge();
    world.leave("a/net", true);
    world.leave("b/net", false);
    assert!(!world.pass(), "a/net is still to come back");
    world.ledger.expect_only(&name("net"), &BTreeSet::new(), world.now);
    let stir = world.ledger.disown(&name("net"), world.now);
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]));
    world.look_node("n1", Write::Works);
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"]}"#));
    assert_eq!(world.ledger.network_names(), []);
}

#[test]
fn a_definition_that_comes_back_to_another_network_is_not_waited_for() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "one", "10.1.0.0/16"));
    world.converge();
    world.leave("a/net", true);
    world.join("a/net", &layer3("a/net", "two", "10.2.0.0/16"));
    world.converge();
    assert_eq!(world.ledger.network_names(), [name("two")]);
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"],"two":["10.2.0.0/24"]}"#));
}

#[test]
fn a_network_that_has_definitions_cannot_be_disowned_and_the_default_one_never() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.converge();
    world.ledger.disown(&name("net"), world.now);
    world.ledger.disown(&NetworkName::default_network(), world.now);
    assert!(!world.pass());
    assert_eq!(world.subnet("n1", "default"), "10.128.0.0/24");
}

#[test]
fn numbers_are_the_same_in_whatever_order_a_start_finds_them() {
    let mut world = World::everywhere();
    for nad in ["c/one", "a/two", "b/three"] {
        world.join(nad, &layer2_primary(nad, &nad.replace('/', "_")));
    }
    let annotated =
        |world: &World| -> Vec<_> { world.nads.values().map(|nad| nad.annotations.clone()).collect() };
    let before = annotated(&world);
    let mut nads: Vec<_> = world.nads.iter().map(|(key, nad)| (key.clone(), Arc::new(nad.clone()))).collect();
    for _ in 0..nads.len() {
        nads.rotate_left(1);
        let plan = world.ledger.plan().clone();
        world.ledger = Ledger::rebuild(plan, nads.clone(), [], [], [], [], world.now);
        for nad in ["a/two", "b/three", "c/one"] {
            world.look(nad);
        }
        assert_eq!(annotated(&world), before);
    }
}

#[test]
fn the_definition_of_the_default_network_is_of_no_network_of_ours() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.converge();
    let text = r#"{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","mtu":1300}"#;
    world.put("ovn-kubernetes/default", text);
    world.restart();
    world.nads.clear();
    assert!(!world.pass());
    world.join_node("n2");
    assert_eq!(world.subnet("n2", "default"), "10.128.1.0/24");
    assert_eq!(world.ledger.network_names(), []);
}

#[test]
fn localnet_networks_without_subnets_have_an_id_and_nothing_is_given_out_for_them() {
    let mut world = World::everywhere();
    world.join("a/net", &config("a/net", "net", "localnet", ""));
    assert_eq!(world.id("a/net"), Some("1"));
    assert_eq!(world.fares("net").as_deref(), Some("not managed"));
    world.join("a/with", &config("a/with", "with", "localnet", r#","subnets":"10.1.0.0/16""#));
    world.join("a/l2", &config("a/l2", "l2", "layer2", ""));
    assert_eq!((world.fares("with"), world.fares("l2")), (None, None));
    assert_eq!(world.fares("unknown").as_deref(), Some("not managed"));
}

#[test]
fn a_node_carries_its_id_and_the_address_that_follows_from_it() {
    let mut world = World::everywhere();
    let verdict = world.join_node("n1");
    let transit = (node_annotation::TRANSIT_SWITCH_PORT, Some(r#"{"ipv4":"100.88.0.2/16"}"#.to_owned()));
    assert_eq!(verdict.changes.get(node_annotation::NODE_ID), Some(&Some("2".to_owned())));
    assert_eq!(verdict.changes.get(transit.0), Some(&transit.1));
    world.join_node("n2");
    assert_eq!(world.of_node("n2", node_annotation::NODE_ID), Some("3"));
    world.node_leaves("n1");
    world.join_node("n1");
    assert_eq!(world.of_node("n1", node_annotation::NODE_ID), Some("4"), "round robin, as upstream");
}

#[test]
fn ids_of_nodes_that_were_removed_or_edited_by_hand_are_put_right() {
    for edited in [None, Some("3"), Some("77"), Some("x")] {
        let mut world = World::everywhere();
        world.join_node("n1");
        world.join_node("n2");
        world.edit("n1", node_annotation::NODE_ID, edited);
        world.edit("n1", node_annotation::TRANSIT_SWITCH_PORT, edited);
        world.look_node("n1", Write::Works);
        assert_eq!(world.of_node("n1", node_annotation::NODE_ID), Some("2"), "edited to {edited:?}");
        let transit = world.of_node("n1", node_annotation::TRANSIT_SWITCH_PORT);
        assert_eq!(transit, Some(r#"{"ipv4":"100.88.0.2/16"}"#));
    }
}

#[test]
fn an_id_that_a_joining_node_brings_plays_no_part_and_of_two_at_start_the_older_keeps_it() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.put_node("n2", &[(node_annotation::NODE_ID, "99")]);
    world.look_node("n2", Write::Works);
    assert_eq!(world.of_node("n2", node_annotation::NODE_ID), Some("3"));

    world.edit("n2", node_annotation::NODE_ID, Some("2"));
    world.nodes.get_mut("n2").unwrap().created = -1;
    world.restart();
    world.pass();
    let ids = ["n1", "n2"].map(|node| world.of_node(node, node_annotation::NODE_ID).unwrap());
    assert_eq!(ids, ["3", "2"]);
}

#[test]
fn a_node_without_an_id_is_looked_at_again_when_another_one_leaves() {
    let mut world = World::everywhere();
    for number in 2..=5000 {
        world.ledger.node(&format!("n{number}").into(), &BTreeMap::new());
    }
    let verdict = world.join_node("late");
    let text = "node late: all node ids are in use".to_owned();
    assert!(verdict.failures.contains(&(NetworkName::default_network(), text)), "{:?}", verdict.failures);
    let stir = world.ledger.node_left(&"n7".into());
    assert!(stir.nodes.contains("late"), "{:?}", stir.nodes);
    world.look_node("late", Write::Works);
    assert_eq!(world.of_node("late", node_annotation::NODE_ID), Some("7"));
}

#[test]
fn an_annotation_that_no_version_writes_any_more_is_taken_off_and_others_stay() {
    let mut world = World::everywhere();
    let others = [("k8s.ovn.org/host-cidrs", "[]"), ("k8s.ovn.org/zone-name", "n1")];
    world.put_node("n1", &[(node_annotation::GATEWAY_ROUTER_PORT, "{}"), others[0], others[1]]);
    let verdict = world.look_node("n1", Write::Works);
    assert_eq!(verdict.changes.get(node_annotation::GATEWAY_ROUTER_PORT), Some(&None));
    for (key, value) in others {
        assert!(!verdict.changes.contains_key(key));
        assert_eq!(world.of_node("n1", key), Some(value));
    }
}
