//! Subnets of nodes: of the default network and of Layer3 networks.

use super::*;

/// Looks at node `n` of a cluster with these pod ranges; `before` is what it is annotated with for the default network.
fn after(ranges: &[&str], before: &[&str], others: &[(&str, &str)]) -> Result<String, String> {
    let mut world = World::new(plan(Mode::Everywhere, ranges));
    for (node, subnet) in others {
        let text = format!(r#"{{"default":["{subnet}"]}}"#);
        world.put_node(node, &[(node_annotation::NODE_SUBNETS, &text)]);
    }
    let text = format!(r#"{{"default":{}}}"#, serde_json::to_string(before).unwrap());
    world.put_node("n", &[(node_annotation::NODE_SUBNETS, &text)]);
    world.restart();
    for (node, subnet) in others {
        world.look_node(node, Write::Works);
        assert!(world.subnets(node, "default").contains(&subnet.parse().unwrap()), "{node} keeps its own");
    }
    let verdict = world.look_node("n", Write::Works);
    match verdict.failures.first() {
        Some((_, error)) => Err(error.clone()),
        None => Ok(world.subnet("n", "default")),
    }
}

#[test]
fn a_node_keeps_the_first_annotated_subnet_of_each_family_and_gets_what_is_missing() {
    let both = &["172.16.0.0/16/24", "2000::/12/24"][..];
    let four = ["172.16.0.0/24", "172.16.1.0/24", "2001:db2:1:2::/64", "2001:db2:1:3::/64"];
    let wide = &["172.16.0.0/16/24", "2001:db2:1::/56/64"][..];
    for (ranges, before, others, want) in [
        (&["172.16.0.0/16/24"][..], &[][..], &[][..], "172.16.0.0/24"),
        (&["2001:db2::/56/64"], &[], &[], "2001:db2::/64"),
        (&["172.16.0.0/16/24"], &["172.16.8.0/24"], &[], "172.16.8.0/24"),
        (both, &[], &[], "172.16.0.0/24 2000::/24"),
        (both, &["172.16.5.0/24"], &[], "172.16.5.0/24 2000::/24"),
        (&["172.16.0.0/16/24", "2000::/16/32"], &["2000:1::/32"], &[], "2000:1::/32 172.16.0.0/24"),
        (&["172.16.0.0/16/24"], &["172.16.5.0/24", "2000:2::/24"], &[], "172.16.5.0/24"),
        // Outside, and cut otherwise: the second one upstream takes by its address alone.
        (&["172.16.0.0/16/24"], &["10.1.0.0/24"], &[], "172.16.0.0/24"),
        (&["172.16.0.0/16/24"], &["172.16.0.0/23"], &[], "172.16.0.0/24"),
        (&["172.16.0.0/16/24"], &["172.16.5.0/24"], &[("m", "172.16.5.0/24")], "172.16.0.0/24"),
        (wide, &four, &[], "172.16.0.0/24 2001:db2:1:2::/64"),
        (wide, &four, &[("m", "172.16.1.0/24")], "172.16.0.0/24 2001:db2:1:2::/64"),
    ] {
        assert_eq!(after(ranges, before, others).as_deref(), Ok(want), "{ranges:?} {before:?} {others:?}");
    }
}

#[test]
fn a_node_that_does_not_get_a_family_is_told_so_in_upstreams_words() {
    let taken = [("m", "10.0.0.0/31")];
    assert_eq!(
        after(&["10.0.0.0/31/31"], &[], &taken),
        Err("error allocating network for node n, network name default: no subnets available".to_owned())
    );
    assert_eq!(after(&["10.0.0.0/31/31"], &["10.0.0.0/31"], &[]).as_deref(), Ok("10.0.0.0/31"));
}

#[test]
fn a_pool_follows_the_network_object_and_not_an_edit_of_a_definition() {
    let net = |subnets: &str| {
        config("a/net", "a_net", "layer3", &format!(r#","role":"primary","subnets":"{subnets}""#))
    };
    let owner = Some(("UserDefinedNetwork", "net"));
    let (one, two) = ("10.10.0.0/16/16", "10.10.0.0/16/16,10.20.0.0/16/16");
    let meant = |text: &str| text.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
    let mut world = World::everywhere();
    for node in ["n1", "n2"] {
        world.join_node(node);
    }
    world.meant.insert(key("a/net"), meant(one));
    world.put_owned("a/net", &net(one), owner);
    world.look("a/net");
    world.converge();
    let of = |world: &World| ["n1", "n2"].map(|node| world.subnet(node, "a_net"));
    assert_eq!(of(&world), ["10.10.0.0/16", ""]);

    world.put_owned("a/net", &net(two), owner);
    world.look("a/net");
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/16", ""], "somebody appended to the definition alone");

    // The edit is older than the process: nobody knows yet that it is one.
    world.restart();
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/16", "10.20.0.0/16"]);
    world.put_owned("a/net", &net(one), owner);
    world.look("a/net");
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/16", ""], "it was put right");

    world.meant.insert(key("a/net"), meant(two));
    world.look("a/net");
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/16", ""], "the definition does not say so yet");
    world.put_owned("a/net", &net(two), owner);
    world.look("a/net");
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/16", "10.20.0.0/16"], "the object has grown");
}

#[test]
fn a_definition_of_many_that_lags_behind_takes_nothing_away() {
    let net = |nad: &str, subnets: &str| {
        config(nad, "cluster_udn_net", "layer3", &format!(r#","role":"primary","subnets":"{subnets}""#))
    };
    let owner = Some(("ClusterUserDefinedNetwork", "net"));
    let (one, two) = ("10.10.0.0/16/16", "10.10.0.0/16/16,10.20.0.0/16/16");
    let mut world = World::everywhere();
    for node in ["n1", "n2"] {
        world.join_node(node);
    }
    for nad in ["a/net", "b/net"] {
        world.meant.insert(key(nad), two.split(',').map(str::to_owned).collect());
        world.put_owned(nad, &net(nad, one), owner);
        world.look(nad);
    }
    world.put_owned("a/net", &net("a/net", two), owner);
    world.look("a/net");
    world.look("b/net");
    world.converge();
    assert_eq!(world.subnet("n2", "cluster_udn_net"), "10.20.0.0/16");
}

#[test]
fn figures_say_what_there_is_and_what_nodes_have() {
    let mut world = World::new(plan(Mode::OnDemand { grace: GRACE }, &["10.128.0.0/22/24", "fd00::/62/64"]));
    world.join_node("n1");
    world.join("a/hand", &layer3("a/hand", "hand", "10.1.0.0/23/24"));
    world.join("a/flat", &layer2_primary("a/flat", "flat"));
    world.converge();
    let figures: BTreeMap<String, _> = world
        .ledger
        .figures()
        .into_iter()
        .map(|(name, figures)| (name.as_str().to_owned(), figures))
        .collect();
    assert_eq!(figures["default"].subnets, Some([(4, 1), (4, 1)]));
    assert_eq!(figures["hand"].subnets, Some([(2, 1), (0, 0)]));
    assert_eq!((figures["flat"].subnets, figures["flat"].rendered), (None, Some(1)));
    let everywhere = World::everywhere().ledger.figures();
    assert!(everywhere.iter().all(|(_, figures)| figures.rendered.is_none()));
}

#[test]
fn a_pool_that_is_too_small_serves_the_first_and_the_others_once_it_grows() {
    let mut world = World::everywhere();
    for node in ["n1", "n2", "n3", "n4"] {
        world.join_node(node);
    }
    let net = |subnets: &str| {
        config("a/net", "net", "layer3", &format!(r#","role":"primary","subnets":"{subnets}""#))
    };
    world.join("a/net", &net("10.10.0.0/16/17"));
    world.converge();
    let of = |world: &World| ["n1", "n2", "n3", "n4"].map(|node| world.subnet(node, "net"));
    assert_eq!(of(&world), ["10.10.0.0/17", "10.10.128.0/17", "", ""]);
    assert_eq!(world.fares("net").as_deref(), Some("n3"), "one failing node is named");

    world.put("a/net", &net("10.10.0.0/16/17,10.20.0.0/16/17"));
    let nad = world.nads[&key("a/net")].clone();
    let (_, stir) = world.ledger.join(&key("a/net"), &nad, nad.config().unwrap(), None, world.now);
    assert_eq!(stir.nodes.len(), 4, "all nodes are looked at again");
    world.converge();
    assert_eq!(of(&world), ["10.10.0.0/17", "10.10.128.0/17", "10.20.0.0/17", "10.20.128.0/17"]);
    assert_eq!(world.fares("net"), None);
    world.restart();
    assert!(!world.pass());
}

#[test]
fn the_node_that_people_are_told_of_stays_until_it_recovers() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/24/24"));
    for node in ["n2", "n5", "n1"] {
        world.join_node(node);
    }
    assert_eq!(world.fares("net").as_deref(), Some("n1"));
    world.join_node("n0");
    assert_eq!(world.fares("net").as_deref(), Some("n1"), "not the first of all");
    world.node_leaves("n1");
    assert_eq!(world.fares("net").as_deref(), Some("n0"));
    world.node_leaves("n0");
    world.node_leaves("n5");
    assert_eq!(world.fares("net"), None);
}

#[test]
fn a_failure_is_an_event_once_for_each_node_and_text() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/24/24"));
    world.join_node("n1");
    let text = "error allocating network for node n2, network name net: no subnets available";
    let verdict = world.join_node("n2");
    assert_eq!(verdict.failures, [(name("net"), text.to_owned())]);
    assert_eq!(verdict.told, BTreeSet::from([name("net")]));
    let again = world.look_node("n2", Write::Works);
    assert_eq!((again.failures.len(), again.told.len()), (0, 0));
}

#[test]
fn a_node_that_leaves_makes_room_for_one_that_waits() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/24/24"));
    world.join_node("n1");
    world.join_node("n2");
    world.nodes.remove("n1");
    let stir = world.ledger.node_left(&"n1".into());
    assert_eq!(stir.nodes, BTreeSet::from(["n2".into()]));
    let verdict = world.look_node("n2", Write::Works);
    assert_eq!(
        (world.subnet("n2", "net").as_str(), verdict.told),
        ("10.1.0.0/24", BTreeSet::from([name("net")]))
    );
    assert_eq!(world.fares("net"), None);
}

#[test]
fn a_node_that_gives_up_a_subnet_makes_room_for_one_that_waits() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/25/26"));
    for node in ["n1", "n2", "n3"] {
        world.join_node(node);
    }
    assert_eq!(world.subnet("n3", "net"), "");
    // n1 is given what it has by hand, n2 is taken off: nothing changes but by a look at n1.
    let text = world.node_subnets("n1").unwrap().replace("10.1.0.0/26", "10.1.0.64/26");
    world.edit("n1", node_annotation::NODE_SUBNETS, Some(&text));
    let verdict = world.look_node("n1", Write::Works);
    assert_eq!(world.subnet("n1", "net"), "10.1.0.0/26", "another node's subnet is not for the taking");
    assert_eq!(verdict.woken, BTreeSet::new());
}

#[test]
fn a_node_that_comes_back_has_its_subnets_again_unless_somebody_else_got_them() {
    let mut world = World::everywhere();
    for node in ["n1", "n2"] {
        world.join_node(node);
    }
    world.node_leaves("n1");
    world.join_node("n1");
    assert_eq!(world.subnet("n1", "default"), "10.128.0.0/24");
    // What it brings of another node's is replaced.
    world.node_leaves("n1");
    world.put_node("n1", &[(node_annotation::NODE_SUBNETS, r#"{"default":["10.128.1.0/24"]}"#)]);
    world.look_node("n1", Write::Works);
    assert_eq!(world.subnet("n1", "default"), "10.128.0.0/24");
}

#[test]
fn a_write_that_fails_costs_nothing() {
    let mut world = World::everywhere();
    world.put_node("n1", &[]);
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    let wanted = world.look_node("n1", Write::Fails).changes;
    for _ in 0..5 {
        assert_eq!(world.look_node("n1", Write::Fails).changes, wanted, "the same is offered again");
    }
    world.join_node("n2");
    assert_eq!(world.subnet("n2", "default"), "10.128.1.0/24", "and nobody else gets it");
    world.look_node("n1", Write::Works);
    assert_eq!(
        (world.subnet("n1", "default"), world.subnet("n1", "net")),
        ("10.128.0.0/24".into(), "10.1.0.0/24".into())
    );
    assert!(!world.pass());
}

#[test]
fn changes_of_many_networks_are_one_annotation() {
    let mut world = World::everywhere();
    world.join_node("n1");
    for number in 0..100 {
        let nad = format!("a/n{number}");
        world.join(&nad, &layer3(&nad, &format!("n{number}"), "10.1.0.0/16"));
    }
    let verdict = world.look_node("n1", Write::Works);
    assert_eq!(verdict.changes.keys().collect::<Vec<_>>(), [&node_annotation::NODE_SUBNETS]);
    let text = world.node_subnets("n1").unwrap();
    assert_eq!(node_annotation::read_node_subnets(text).unwrap().value.len(), 101);
}

#[test]
fn annotations_that_were_removed_by_hand_come_back_as_they_were() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join_node("n1");
    world.join_node("n2");
    let before = world.node_subnets("n2").unwrap().to_owned();
    world.edit("n2", node_annotation::NODE_SUBNETS, None);
    world.look_node("n2", Write::Works);
    assert_eq!(world.node_subnets("n2"), Some(before.as_str()));
    world.edit("n2", node_annotation::NODE_SUBNETS, Some(r#"{"default":["10.128.1.0/24"]}"#));
    world.look_node("n2", Write::Works);
    assert_eq!(world.node_subnets("n2"), Some(before.as_str()), "one network's entry");
}

#[test]
fn the_entry_of_a_network_that_is_gone_goes_and_others_stay() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join("a/other", &layer3("a/other", "other", "10.2.0.0/16"));
    world.put_node(
        "n1",
        &[(node_annotation::NODE_SUBNETS, r#"{"long-gone":["10.7.0.0/24"],"other":"10.2.9.0/24"}"#)],
    );
    world.look_node("n1", Write::Works);
    let with = r#"{"default":["10.128.0.0/24"],"net":["10.1.0.0/24"],"other":["10.2.9.0/24"]}"#;
    assert_eq!(world.node_subnets("n1"), Some(with));
    world.leave("a/net", false);
    world.look_node("n1", Write::Works);
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"],"other":["10.2.9.0/24"]}"#));
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.look_node("n1", Write::Works);
    assert_eq!(world.node_subnets("n1"), Some(with), "a pool of its own begins anew");
}

#[test]
fn the_annotation_goes_with_the_last_network_of_a_node() {
    let mut world = World::new(plan(Mode::Everywhere, &["10.128.0.0/24/24"]));
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join_node("n1");
    world.join_node("n2");
    assert_eq!(world.node_subnets("n2"), Some(r#"{"net":["10.1.1.0/24"]}"#), "there was one default subnet");
    world.leave("a/net", false);
    world.look_node("n2", Write::Works);
    assert_eq!(world.node_subnets("n2"), None);
}

#[test]
fn text_that_is_not_json_is_left_alone_every_network_fails_and_all_heals_with_it() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join_node("n1");
    let before = world.node_subnets("n1").unwrap().to_owned();
    world.edit("n1", node_annotation::NODE_SUBNETS, Some("garbage"));
    let verdict = world.look_node("n1", Write::Works);
    assert!(!verdict.changes.contains_key(node_annotation::NODE_SUBNETS), "{:?}", verdict.changes);
    assert_eq!(verdict.failures.len(), 2, "{:?}", verdict.failures);
    for (_, error) in &verdict.failures {
        assert!(error.starts_with("failed to update node n1 annotation: "), "{error}");
    }
    assert_eq!(world.fares("net").as_deref(), Some("n1"));
    for _ in 0..3 {
        assert_eq!(world.look_node("n1", Write::Works).failures, [], "told once");
    }
    world.join_node("n2");
    assert_eq!(world.subnet("n2", "net"), "10.1.1.0/24", "no subnet was used up meanwhile");
    for healed in [None, Some(before.as_str()), Some("{}")] {
        world.edit("n1", node_annotation::NODE_SUBNETS, Some("garbage"));
        world.look_node("n1", Write::Works);
        world.edit("n1", node_annotation::NODE_SUBNETS, healed);
        world.look_node("n1", Write::Works);
        assert_eq!(world.node_subnets("n1"), Some(before.as_str()));
        assert_eq!(world.fares("net"), None);
    }
}

#[test]
fn a_network_whose_ranges_do_not_fit_is_told_why_and_works_once_they_do() {
    let mut world = World::everywhere();
    world.join_node("n1");
    let refused: [(&str, &str); 2] = [("10.1.0.0/24/24,10.1.0.0/16/24", "overlap"), ("10.1.0.0/16/99", "99")];
    for (subnets, part) in refused {
        world.put("a/bad", &layer3("a/bad", "bad", "10.1.0.0/16"));
        // Past the reader, as an older version may have let it through.
        let nad = world.nads.get_mut(&key("a/bad")).unwrap();
        let mut config = nad.config().unwrap().as_ref().clone();
        config.subnets = subnets.split(',').map(str::to_owned).collect();
        nad.content = Ok(Arc::new(config));
        world.look("a/bad");
        let why = world.fares("bad").unwrap();
        assert!(why.contains(part), "{why}");
        world.look_node("n1", Write::Works);
        assert_eq!(world.subnet("n1", "bad"), "");
        world.join("a/bad", &layer3("a/bad", "bad", "10.3.0.0/16"));
        world.look_node("n1", Write::Works);
        assert_eq!((world.fares("bad"), world.subnet("n1", "bad").as_str()), (None, "10.3.0.0/24"));
        world.leave("a/bad", false);
        world.look_node("n1", Write::Works);
    }
}

#[test]
fn a_definition_that_is_not_updated_yet_takes_no_range_away() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/24/24,10.2.0.0/24/24"));
    world.join("b/net", &layer3("b/net", "net", "10.1.0.0/24/24"));
    world.join_node("n1");
    world.join_node("n2");
    assert_eq!(world.subnet("n2", "net"), "10.2.0.0/24");
    assert!(!world.pass());
    world.restart();
    assert!(!world.pass());
}

#[test]
fn a_network_that_is_written_by_hand_and_gets_other_ranges_is_as_a_restart_would_see_it() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "net", "10.2.0.0/16"));
    world.converge();
    assert_eq!(world.subnet("n1", "net"), "10.2.0.0/24");
    world.restart();
    assert!(!world.pass());
}

#[test]
fn a_network_object_whose_definition_somebody_edits_keeps_its_ranges() {
    let mut world = World::everywhere();
    let owner = Some(("UserDefinedNetwork", "net"));
    world.put_owned("a/net", &layer3("a/net", "a_net", "10.1.0.0/16"), owner);
    world.look("a/net");
    world.join_node("n1");
    world.put_owned("a/net", &layer3("a/net", "a_net", "10.2.0.0/16"), owner);
    assert!(!world.pass());
    world.put_owned("a/net", &layer3("a/net", "a_net", "10.1.0.0/16"), owner);
    assert!(!world.pass());
}

#[test]
fn a_layer3_network_that_becomes_another_kind_has_no_subnets_any_more() {
    let mut world = World::everywhere();
    world.join_node("n1");
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    world.look_node("n1", Write::Works);
    world.join("a/net", &config("a/net", "net", "layer2", ""));
    world.look_node("n1", Write::Works);
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"]}"#));
    assert_eq!(world.id("a/net"), Some("1"));
}

#[test]
fn a_dual_stack_cluster_gives_nodes_both_families_of_everything() {
    let mut world = World::new(plan(Mode::Everywhere, &["10.128.0.0/14/23", "fd00:10:244::/48/64"]));
    world.join("a/v6", &layer3("a/v6", "v6", "fd01::/48/64"));
    world.join_node("n1");
    assert_eq!(world.subnet("n1", "default"), "10.128.0.0/23 fd00:10:244:1::/64");
    assert_eq!(world.subnet("n1", "v6"), "fd01:0:0:1::/64");
    let transit = world.of_node("n1", node_annotation::TRANSIT_SWITCH_PORT);
    assert_eq!(transit, Some(r#"{"ipv4":"100.88.0.2/16","ipv6":"fd97::2/64"}"#));
    let mut world = World::new(plan(Mode::Everywhere, &["fd00:10:244::/48/64"]));
    world.join_node("n1");
    let transit = world.of_node("n1", node_annotation::TRANSIT_SWITCH_PORT);
    assert_eq!(transit, Some(r#"{"ipv6":"fd97::2/64"}"#));
}

fn without_windows() -> World {
    let plan = plan(Mode::Everywhere, &["10.128.0.0/22/24"]);
    World::new(ClusterPlan { without_subnets: Some("kubernetes.io/os=windows".parse().unwrap()), ..plan })
}

#[test]
fn nodes_of_another_network_stack_get_no_subnets_and_lose_them_at_once() {
    let mut world = without_windows();
    world.put_node("n1", &[]);
    world.put_node("w1", &[]);
    world.label("w1", "kubernetes.io/os", "windows");
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16/24"));
    world.converge();
    assert_eq!(
        (world.subnet("n1", "default"), world.subnet("n1", "net")),
        ("10.128.0.0/24".into(), "10.1.0.0/24".into())
    );
    assert_eq!(world.node_subnets("w1"), None);
    assert!(world.of_node("w1", node_annotation::NODE_ID).is_some(), "it has its id all the same");
    assert_eq!(world.fares("net"), None, "nothing is missing");

    world.label("w1", "kubernetes.io/os", "linux");
    world.converge();
    assert_eq!(
        (world.subnet("w1", "default"), world.subnet("w1", "net")),
        ("10.128.1.0/24".into(), "10.1.1.0/24".into())
    );
    world.label("w1", "kubernetes.io/os", "windows");
    world.converge();
    assert_eq!(world.node_subnets("w1"), None);
    world.restart();
    assert!(!world.pass(), "a restart writes nothing");
}

#[test]
fn what_another_network_stack_gave_a_node_of_the_clusters_addresses_nobody_else_gets() {
    let mut world = without_windows();
    world.put_node("n1", &[]);
    world.put_node("w1", &[(node_annotation::HYBRID_OVERLAY_SUBNET, "10.128.0.0/23")]);
    world.label("w1", "kubernetes.io/os", "windows");
    world.restart();
    world.converge();
    assert_eq!(world.subnet("n1", "default"), "10.128.2.0/24");
    world.join_node("n2");
    let verdict = world.join_node("n3");
    assert_eq!(verdict.failures.len(), 1, "two of four are taken away");
    world.nodes.remove("w1");
    let stir = world.ledger.node_left(&"w1".into());
    assert!(stir.nodes.contains("n3"), "{stir:?}");
    world.converge();
    assert_eq!(world.subnet("n3", "default"), "10.128.0.0/24");
    // Without the label the annotation means nothing.
    world.put_node("l1", &[(node_annotation::HYBRID_OVERLAY_SUBNET, "10.128.1.0/24")]);
    world.converge();
    assert_eq!(world.subnet("l1", "default"), "10.128.1.0/24");
}

#[test]
fn ids_that_old_versions_annotated_are_put_right_and_never_added() {
    let mut world = World::everywhere();
    let text = r#"{"default":"0","gone":"7","net":"9","other":"1x"}"#;
    world.put_node("n1", &[(node_annotation::NETWORK_IDS, text)]);
    world.put_node("n2", &[]);
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16/24"));
    world.converge();
    assert_eq!(world.of_node("n1", node_annotation::NETWORK_IDS), Some(r#"{"default":"0","net":"1"}"#));
    assert_eq!(world.of_node("n2", node_annotation::NETWORK_IDS), None);
    world.leave("a/net", false);
    world.converge();
    assert_eq!(world.of_node("n1", node_annotation::NETWORK_IDS), Some(r#"{"default":"0"}"#));
}
