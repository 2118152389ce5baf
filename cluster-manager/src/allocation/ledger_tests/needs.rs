//! Networks that are only on nodes that need them.

use super::*;

const CUDN: Option<(&str, &str)> = Some(("ClusterUserDefinedNetwork", "net"));

/// A network of this object in namespace `a`, with subnets for as many nodes as the range holds.
fn with_network(subnets: &str) -> World {
    let mut world = World::on_demand();
    let rest = format!(r#","role":"primary","subnets":"{subnets}""#);
    world.put_owned("a/net", &config("a/net", "cluster_udn_net", "layer3", &rest), CUDN);
    world.look("a/net");
    world
}

impl World {
    fn pod(&mut self, pod: &str, node: Option<&str>) -> super::super::ledger::Stir {
        let key = NamespacedName { namespace: "a".to_owned(), name: pod.to_owned() };
        let pod = node.map(|node| pod_on(node, Vec::new()));
        match &pod {
            Some(pod) => drop(self.pods.insert(key.clone(), pod.clone())),
            None => drop(self.pods.remove(&key)),
        }
        self.ledger.pod(&key, pod.as_ref(), self.now)
    }

    fn time_passes(&mut self, by: SignedDuration) -> super::super::ledger::Stir {
        self.now += by;
        self.ledger.expire(self.now)
    }

    fn net_on(&self, node: &str) -> String {
        self.subnet(node, "cluster_udn_net")
    }
}

#[test]
fn a_node_gets_a_subnet_with_its_first_pod_and_keeps_it_for_a_grace_period() {
    let mut world = with_network("10.1.0.0/16/24");
    let net = name("cluster_udn_net");
    world.join_node("n1");
    world.join_node("n2");
    assert_eq!((world.net_on("n1").as_str(), world.ledger.rendered(&net)), ("", Some(0)));
    assert_eq!(world.ledger.needed_on(&net), Some(BTreeSet::new()));

    let stir = world.pod("p", Some("n1"));
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]));
    assert_eq!(stir.networks, BTreeSet::from([net.clone()]));
    world.look_node("n1", Write::Works);
    assert_eq!((world.net_on("n1").as_str(), world.ledger.rendered(&net)), ("10.1.0.0/24", Some(1)));
    assert_eq!(world.ledger.needed_on(&net), Some(BTreeSet::from(["n1".into()])));

    world.pod("p", None);
    assert_eq!(world.ledger.needed_on(&net), Some(BTreeSet::new()), "nobody needs it");
    assert_eq!(world.ledger.next_expiry(), Some(world.now + GRACE));
    assert!(!world.pass(), "and it is kept");
    world.time_passes(GRACE - SignedDuration::from_secs(1));
    assert!(!world.pass());
    let stir = world.time_passes(SignedDuration::from_secs(1));
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]));
    world.look_node("n1", Write::Works);
    assert_eq!((world.net_on("n1").as_str(), world.id("a/net")), ("", Some("1")), "the id is kept");
    assert_eq!(world.ledger.next_expiry(), None);
}

#[test]
fn a_pod_that_comes_back_within_the_grace_period_finds_everything() {
    let mut world = with_network("10.1.0.0/16/24");
    world.join_node("n1");
    world.pod("p", Some("n1"));
    world.converge();
    world.pod("p", None);
    world.time_passes(GRACE - SignedDuration::from_secs(1));
    world.pod("p2", Some("n1"));
    world.time_passes(GRACE * 10);
    assert!(!world.pass());
}

#[test]
fn a_subnet_that_a_node_no_longer_needs_goes_to_one_that_waits() {
    let mut world = with_network("10.1.0.0/24/24");
    world.join_node("n1");
    world.join_node("n2");
    assert_eq!(world.fares("cluster_udn_net"), None, "too few subnets are no failure before they are needed");
    world.pod("p1", Some("n1"));
    world.pod("p2", Some("n2"));
    world.converge();
    assert_eq!((world.net_on("n2").as_str(), world.fares("cluster_udn_net").as_deref()), ("", Some("n2")));
    world.pod("p1", None);
    world.time_passes(GRACE);
    let verdict = world.look_node("n1", Write::Works);
    assert_eq!(verdict.woken, BTreeSet::from(["n2".into()]));
    world.look_node("n2", Write::Works);
    assert_eq!((world.net_on("n2").as_str(), world.fares("cluster_udn_net")), ("10.1.0.0/24", None));
}

#[test]
fn a_node_that_needed_what_it_did_not_get_and_needs_it_no_more_is_not_told_of() {
    let mut world = with_network("10.1.0.0/24/24");
    world.join_node("n1");
    world.join_node("n2");
    world.pod("p1", Some("n1"));
    world.pod("p2", Some("n2"));
    world.converge();
    world.pod("p2", None);
    world.time_passes(GRACE);
    let verdict = world.look_node("n2", Write::Works);
    assert_eq!(verdict.told, BTreeSet::from([name("cluster_udn_net")]));
    assert_eq!(world.fares("cluster_udn_net"), None);
}

#[test]
fn pods_that_were_there_before_the_network_make_their_nodes_active_with_it() {
    let mut world = World::on_demand();
    world.join_node("n1");
    world.pod("p", Some("n1"));
    let rest = r#","role":"primary","subnets":"10.1.0.0/16/24""#;
    world.put_owned("a/net", &config("a/net", "cluster_udn_net", "layer3", rest), CUDN);
    let nad = world.nads[&key("a/net")].clone();
    let (_, stir) = world.ledger.join(&key("a/net"), &nad, nad.config().unwrap(), None, world.now);
    assert_eq!(
        stir.networks,
        BTreeSet::from([name("cluster_udn_net")]),
        "whoever asks for its nodes hears of it"
    );
    world.converge();
    assert_eq!(world.net_on("n1"), "10.1.0.0/24");
}

#[test]
fn networks_written_by_hand_and_the_default_one_are_everywhere() {
    let mut world = World::on_demand();
    world.join("a/net", &layer3("a/net", "hand", "10.1.0.0/16"));
    world.join_node("n1");
    assert_eq!(world.node_subnets("n1"), Some(r#"{"default":["10.128.0.0/24"],"hand":["10.1.0.0/24"]}"#));
    assert_eq!(world.ledger.rendered(&name("hand")), Some(1));
}

#[test]
fn a_restart_keeps_what_pods_need_and_gives_a_grace_period_to_what_they_do_not() {
    let mut world = with_network("10.1.0.0/16/24");
    world.join_node("n1");
    world.join_node("n2");
    world.pod("p1", Some("n1"));
    world.pod("p2", Some("n2"));
    world.converge();
    world.pod("p2", None);
    world.time_passes(SignedDuration::from_secs(60));
    world.restart();
    assert!(!world.pass());
    assert_eq!(world.ledger.next_expiry(), Some(world.now + GRACE), "nobody knows since when it lingers");
    world.time_passes(GRACE);
    world.converge();
    assert_eq!((world.net_on("n1").as_str(), world.net_on("n2").as_str()), ("10.1.0.0/24", ""));
}

#[test]
fn a_node_that_leaves_loses_what_lingers_and_finds_what_its_pods_need_when_it_is_back() {
    let mut world = with_network("10.1.0.0/16/24");
    world.join_node("n1");
    world.pod("p", Some("n1"));
    world.converge();
    world.node_leaves("n1");
    assert_eq!(world.ledger.needed_on(&name("cluster_udn_net")), Some(BTreeSet::new()));
    world.join_node("n1");
    world.converge();
    assert_eq!(world.net_on("n1"), "10.1.0.0/24");
    world.pod("p", None);
    world.node_leaves("n1");
    assert_eq!(world.ledger.next_expiry(), None);
}

#[test]
fn a_definition_that_is_made_again_keeps_its_nodes_and_one_that_is_not_gives_them_up() {
    let mut world = with_network("10.1.0.0/16/24");
    world.join_node("n1");
    world.join_node("n2");
    let rest = r#","role":"primary","subnets":"10.1.0.0/16/24""#;
    world.put_owned("b/net", &config("b/net", "cluster_udn_net", "layer3", rest), CUDN);
    world.look("b/net");
    world.pod("p", Some("n1"));
    world.converge();
    world.leave("a/net", true);
    assert!(!world.pass(), "it comes back");
    let stir = world.ledger.expect_only(&name("cluster_udn_net"), &BTreeSet::from([key("b/net")]), world.now);
    assert_eq!(stir.nodes, BTreeSet::from(["n1".into()]), "it does not");
    world.time_passes(GRACE);
    world.converge();
    assert_eq!(world.net_on("n1"), "");
}

#[test]
fn where_networks_are_everywhere_nobody_counts_nodes() {
    let mut world = World::everywhere();
    world.join("a/net", &layer3("a/net", "net", "10.1.0.0/16"));
    assert_eq!((world.ledger.rendered(&name("net")), world.ledger.needed_on(&name("net"))), (None, None));
    assert_eq!(World::on_demand().ledger.rendered(&name("unknown")), None);
}

#[test]
fn an_egress_ip_keeps_the_networks_of_its_namespaces_on_its_nodes() {
    let mut world = World::on_demand();
    for node in ["n1", "n2"] {
        world.join_node(node);
    }
    let net = |nad: &str, network: &str| {
        config(nad, network, "layer3", r#","role":"primary","subnets":"10.1.0.0/16/24""#)
    };
    for (nad, network) in [("a/net", "a_net"), ("b/net", "b_net")] {
        world.put_owned(nad, &net(nad, network), Some(("UserDefinedNetwork", "net")));
        world.look(nad);
    }
    let needs = |node: &str, namespaces: &[&str]| Needs {
        nodes: BTreeSet::from([node.into()]),
        namespaces: namespaces.iter().map(|&namespace| namespace.into()).collect(),
    };
    let name = EgressIpName::from("out");
    let stir = world.ledger.egress_ip(&name, &needs("n1", &["a", "none"]), world.now);
    assert_eq!((stir.nodes.len(), stir.networks.len()), (1, 1));
    world.converge();
    let where_is = |world: &World, network: &str| ["n1", "n2"].map(|node| world.subnet(node, network));
    assert_eq!(where_is(&world, "a_net"), ["10.1.0.0/24", ""]);
    assert_eq!(where_is(&world, "b_net"), ["", ""]);

    // Assigned to another node: the first one keeps what it has for a while.
    world.egress_ips.insert(name.clone(), needs("n2", &["a"]));
    world.ledger.egress_ip(&name, &needs("n2", &["a"]), world.now);
    world.converge();
    assert_eq!(where_is(&world, "a_net"), ["10.1.0.0/24", "10.1.1.0/24"]);
    world.now += GRACE;
    world.ledger.expire(world.now);
    world.converge();
    assert_eq!(where_is(&world, "a_net"), ["", "10.1.1.0/24"]);
    world.restart();
    assert!(!world.pass(), "a restart writes nothing");
    world.ledger.egress_ip(&name, &Needs::default(), world.now);
    world.now += GRACE;
    world.ledger.expire(world.now);
    world.converge();
    assert_eq!(where_is(&world, "a_net"), ["", ""]);
}

#[test]
fn a_connection_puts_a_network_on_the_nodes_of_the_other_and_survives_a_restart() {
    let mut world = World::on_demand();
    for node in ["n1", "n2"] {
        world.join_node(node);
    }
    let net = |nad: &str, network: &str| {
        config(nad, network, "layer3", r#","role":"primary","subnets":"10.1.0.0/16/24""#)
    };
    for (nad, network) in [("a/net", "a_net"), ("b/net", "b_net")] {
        world.put_owned(nad, &net(nad, network), Some(("UserDefinedNetwork", "net")));
        world.look(nad);
    }
    let out = EgressIpName::from("out");
    let needs = Needs { nodes: BTreeSet::from(["n1".into()]), namespaces: BTreeSet::from(["a".into()]) };
    world.egress_ips.insert(out.clone(), needs.clone());
    world.ledger.egress_ip(&out, &needs, world.now);
    world.converge();
    let where_is = |world: &World, network: &str| ["n1", "n2"].map(|node| world.subnet(node, network));
    assert_eq!(where_is(&world, "a_net"), ["10.1.0.0/24", ""]);
    assert_eq!(where_is(&world, "b_net"), ["", ""]);

    let connect = ConnectName::from("ab");
    let both = BTreeSet::from([name("a_net"), name("b_net")]);
    world.connected.insert(connect.clone(), both.clone());
    let stir = world.ledger.connect(&connect, &both, world.now);
    assert_eq!((stir.nodes.len(), stir.networks.len()), (1, 1));
    world.converge();
    assert_eq!(where_is(&world, "b_net"), ["10.1.0.0/24", ""]);
    world.restart();
    assert!(!world.pass(), "a restart writes nothing");

    // It goes: the node keeps what it has for a while.
    world.connected.clear();
    world.ledger.connect(&connect, &BTreeSet::new(), world.now);
    world.converge();
    assert_eq!(where_is(&world, "b_net"), ["10.1.0.0/24", ""]);
    world.now += GRACE;
    world.ledger.expire(world.now);
    world.converge();
    assert_eq!(where_is(&world, "a_net"), ["10.1.0.0/24", ""]);
    assert_eq!(where_is(&world, "b_net"), ["", ""]);
}
