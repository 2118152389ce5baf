use super::*;

const GRACE: SignedDuration = SignedDuration::from_secs(6);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(name: &str) -> NodeName {
    NodeName::from(name)
}

fn key(pod: &str) -> PodKey {
    pod.parse().unwrap()
}

fn pod(on: &str) -> Pod {
    let node = (!on.is_empty()).then(|| node(on));
    Pod { node, life: Life::Running, netns: Netns::Own, attachments: Vec::new() }
}

fn nad(network: &str, kind: Kind) -> Nad {
    Nad { network: network.into(), kind, scope: Scope::OnDemand }
}

/// The cluster manager's view, with the clock of the run.
struct Run {
    state: Activity,
    now: Timestamp,
}

impl Run {
    fn new(mode: Mode, nodes: &[&str]) -> Self {
        let mut state = Activity::new(mode);
        for name in nodes {
            state.add_node(&node(name));
        }
        Self { state, now: at(1000) }
    }

    fn on_demand(nodes: &[&str]) -> Self {
        Self::new(Mode::OnDemand { grace: GRACE }, nodes)
    }

    fn nad(&mut self, nad_key: &str, nad: &Nad) -> Vec<String> {
        texts(&self.state.set_nad(&nad_key.parse().unwrap(), nad, self.now))
    }

    fn pod(&mut self, name: &str, pod: &Pod) -> Vec<String> {
        texts(&self.state.set_pod(&key(name), pod, self.now))
    }

    fn gone(&mut self, name: &str) -> Vec<String> {
        texts(&self.state.remove_pod(&key(name), self.now))
    }

    fn later(&mut self, seconds: i64) -> Vec<String> {
        self.now += SignedDuration::from_secs(seconds);
        texts(&self.state.expire(self.now))
    }

    /// Who needs it, how many the condition tells, who has a subnet.
    #[track_caller]
    fn is(&self, network: &str, rendered: usize, holding: &[&str]) {
        let network = network.into();
        assert_eq!(self.state.rendered(&network), rendered, "rendered");
        let nodes: Vec<NodeName> = holding.iter().map(|name| node(name)).collect();
        assert_eq!(self.state.holding_nodes(&network), nodes, "holding");
    }
}

/// `network@node: from -> to`, with lingering times left out.
fn texts(changes: &[Change]) -> Vec<String> {
    let word = |need| match need {
        Need::Active => "active",
        Need::Lingering { .. } => "lingering",
        Need::Idle => "idle",
    };
    changes.iter().map(|c| format!("{}@{}: {} -> {}", c.network, c.node, word(c.from), word(c.to))).collect()
}

/// The captured run, step by step: the number in `NodesSelected` and the nodes with a subnet.
#[test]
fn the_captured_run_gives_the_captured_numbers_and_subnets() {
    let mut run = Run::on_demand(&["000", "001", "002"]);
    let c1 = nad("cluster_udn_c1", Kind::Primary);
    assert!(run.nad("n1/c1", &c1).is_empty() && run.nad("n1b/c1", &c1).is_empty());
    run.is("cluster_udn_c1", 0, &[]);
    run.nad("n2/u1", &nad("n2_u1", Kind::Primary));
    run.nad("n3/s1", &nad("n3_s1", Kind::Secondary));
    // 4: the first pod.
    assert_eq!(run.pod("n1/p1", &pod("000")), ["cluster_udn_c1@000: idle -> active"]);
    run.is("cluster_udn_c1", 1, &["000"]);
    // 5: one in the other namespace, a second one on the first node.
    assert_eq!(run.pod("n1b/p2", &pod("001")), ["cluster_udn_c1@001: idle -> active"]);
    assert!(run.pod("n1/p3", &pod("000")).is_empty());
    run.is("cluster_udn_c1", 2, &["000", "001"]);
    // 6, 7, 8: another network, a secondary one by annotation, a pod of that namespace without it.
    assert_eq!(run.pod("n2/p4", &pod("002")), ["n2_u1@002: idle -> active"]);
    let attached = Pod { attachments: attachments(&"n3".into(), "s1").unwrap(), ..pod("001") };
    assert_eq!(run.pod("n3/p5", &attached), ["n3_s1@001: idle -> active"]);
    assert!(run.pod("n3/p6", &pod("001")).is_empty());
    // 9, 10: not scheduled, then scheduled.
    assert!(run.pod("n1/p7", &pod("")).is_empty());
    assert_eq!(run.pod("n1/p7", &pod("002")), ["cluster_udn_c1@002: idle -> active"]);
    run.is("cluster_udn_c1", 3, &["000", "001", "002"]);
    // 11: in the host's network.
    let host = Pod { netns: Netns::Hosts, ..pod("002") };
    assert!(run.pod("n1/hostp", &host).is_empty());
    // 12, 13: gone: the number falls at once, the subnet after the grace period.
    assert_eq!(run.gone("n1/p7"), ["cluster_udn_c1@002: active -> lingering"]);
    run.is("cluster_udn_c1", 2, &["000", "001", "002"]);
    assert_eq!(run.later(10), ["cluster_udn_c1@002: lingering -> idle"]);
    run.is("cluster_udn_c1", 2, &["000", "001"]);
    // 14, 15, 16: one of two pods, the other one, a new one within the grace period.
    assert!(run.gone("n1/p1").is_empty());
    run.gone("n1/p3");
    run.is("cluster_udn_c1", 1, &["000", "001"]);
    assert_eq!(run.pod("n1/p8", &pod("000")), ["cluster_udn_c1@000: lingering -> active"]);
    run.is("cluster_udn_c1", 2, &["000", "001"]);
    assert!(run.later(10).is_empty());
    // 17: completed.
    run.pod("n1b/p2", &Pod { life: Life::Finished, ..pod("001") });
    run.is("cluster_udn_c1", 1, &["000", "001"]);
    run.later(10);
    run.is("cluster_udn_c1", 1, &["000"]);
    // 18, 19, 20: a node joins; the node of the one pod goes, which is no change of the number, and is back.
    run.state.add_node(&node("003"));
    assert!(run.state.remove_node(&node("000")).is_empty());
    run.is("cluster_udn_c1", 1, &[]);
    run.state.add_node(&node("000"));
    run.is("cluster_udn_c1", 1, &["000"]);
    assert_eq!(run.state.networks_on(&node("000")), ["cluster_udn_c1".into()]);
    // 25: the only pod of the secondary network.
    run.gone("n3/p5");
    run.is("n3_s1", 0, &["001"]);
    run.later(6);
    run.is("n3_s1", 0, &[]);
    // 29: the network goes while a pod is there.
    for nad in ["n1/c1", "n1b/c1"] {
        run.state.remove_nad(&nad.parse().unwrap(), run.now);
    }
    run.is("cluster_udn_c1", 0, &[]);
    assert_eq!(run.state.next_expiry(), None);
}

#[test]
fn objects_tell_what_they_are() {
    use crate::render::{Owner, owner_reference};
    for (phase, life) in [
        (None, Life::Running),
        (Some("Pending"), Life::Running),
        (Some("Running"), Life::Running),
        (Some("Unknown"), Life::Running),
        (Some("Succeeded"), Life::Finished),
        (Some("Failed"), Life::Finished),
    ] {
        assert_eq!(Life::of(phase), life, "{phase:?}");
    }
    let ours = owner_reference(Owner::Cudn { name: "c", uid: "u" });
    let udn = owner_reference(Owner::Udn { name: "c", uid: "u" });
    let not_in_charge = OwnerReference { controller: None, ..ours.clone() };
    let other = OwnerReference { kind: "Tenant".into(), ..ours.clone() };
    for (owners, scope) in [
        (vec![], Scope::Everywhere),
        (vec![not_in_charge], Scope::Everywhere),
        (vec![other.clone()], Scope::Everywhere),
        (vec![other, ours], Scope::OnDemand),
        (vec![udn], Scope::OnDemand),
    ] {
        assert_eq!(Scope::of(&owners), scope, "{owners:?}");
    }
    let primary = Config { role: Some(causeway_api::network::Role::Primary), ..Config::default() };
    assert_eq!((Kind::of(&primary), Kind::of(&Config::default())), (Kind::Primary, Kind::Secondary));
}

#[test]
fn a_restart_does_not_count_pods_in_the_hosts_network() {
    // Upstream counts them in its first pass, and the node gets a subnet that nobody uses.
    let mut run = Run::on_demand(&["002"]);
    let host = Pod { netns: Netns::Hosts, ..pod("002") };
    run.pod("n1/hostp", &host);
    assert!(run.nad("n1/c1", &nad("cluster_udn_c1", Kind::Primary)).is_empty());
    run.is("cluster_udn_c1", 0, &[]);
    let named = Pod { attachments: vec!["n1/c1".parse().unwrap()], ..host };
    assert_eq!(run.pod("n1/hostp", &named), ["cluster_udn_c1@002: idle -> active"]);
}

#[test]
fn pods_before_their_nad_count_once_it_is_there() {
    let mut run = Run::on_demand(&["a", "b"]);
    run.pod("n/p", &pod("a"));
    run.pod("n/q", &Pod { attachments: vec!["n/s".parse().unwrap()], ..pod("b") });
    let changes = run.nad("n/c", &nad("net", Kind::Primary));
    assert_eq!(changes, ["net@a: idle -> active", "net@b: idle -> active"]);
    assert_eq!(run.nad("n/s", &nad("sec", Kind::Secondary)), ["sec@b: idle -> active"]);
}

#[test]
fn a_nad_that_changes_moves_only_what_it_changes() {
    let mut run = Run::on_demand(&["a"]);
    run.pod("n/p", &pod("a"));
    run.nad("n/c", &nad("net", Kind::Primary));
    assert!(run.nad("n/c", &nad("net", Kind::Primary)).is_empty());
    let changes = run.nad("n/c", &nad("other", Kind::Primary));
    assert_eq!(changes, ["net@a: active -> idle", "other@a: idle -> active"]);
    assert_eq!(run.nad("n/c", &nad("other", Kind::Secondary)), ["other@a: active -> lingering"]);
}

#[test]
fn networks_of_hand_written_nads_and_all_networks_without_the_feature_are_on_every_node() {
    let mut run = Run::on_demand(&["a", "b"]);
    let by_hand = Nad { scope: Scope::Everywhere, ..nad("tenant", Kind::Secondary) };
    assert_eq!(run.nad("n/t", &by_hand), ["tenant@a: idle -> active", "tenant@b: idle -> active"]);
    run.is("tenant", 2, &["a", "b"]);
    run.state.add_node(&node("c"));
    assert_eq!(run.state.networks_on(&node("c")), ["tenant".into()]);
    run.state.remove_nad(&"n/t".parse().unwrap(), run.now);
    run.is("tenant", 0, &[]);

    let mut run = Run::new(Mode::Everywhere, &["a", "b"]);
    run.nad("n1/c1", &nad("cluster_udn_c1", Kind::Primary));
    run.is("cluster_udn_c1", 2, &["a", "b"]);
    assert!(run.pod("n1/p", &pod("a")).is_empty());
    assert!(run.gone("n1/p").is_empty());
    run.is("cluster_udn_c1", 2, &["a", "b"]);
    assert_eq!(run.state.next_expiry(), None);
}

#[test]
fn without_grace_a_network_ends_with_its_last_pod() {
    let mut run = Run::new(Mode::OnDemand { grace: SignedDuration::ZERO }, &["a"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    run.pod("n/p", &pod("a"));
    assert_eq!(run.gone("n/p"), ["net@a: active -> idle"]);
    assert_eq!(run.state.next_expiry(), None);
}

#[test]
fn a_deleted_node_keeps_nothing_for_a_while() {
    let mut run = Run::on_demand(&["a"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    run.pod("n/p", &pod("a"));
    run.gone("n/p");
    assert_eq!(texts(&run.state.remove_node(&node("a"))), ["net@a: lingering -> idle"]);
    run.pod("n/p", &pod("a"));
    assert_eq!(run.gone("n/p"), ["net@a: active -> idle"], "there is no node to keep anything");
}

#[test]
fn the_next_look_is_due_when_the_first_grace_period_ends() {
    let mut run = Run::on_demand(&["a", "b"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    run.pod("n/p", &pod("a"));
    run.pod("n/q", &pod("b"));
    run.gone("n/p");
    run.later(2);
    run.gone("n/q");
    assert_eq!(run.state.next_expiry(), Some(at(1006)));
    assert!(run.later(3).is_empty());
    assert_eq!(run.later(1), ["net@a: lingering -> idle"]);
    assert_eq!(run.state.next_expiry(), Some(at(1008)));
    assert_eq!(run.later(2), ["net@b: lingering -> idle"]);
}

#[test]
fn what_a_node_is_found_with_at_start_stays_for_a_grace_period() {
    let mut run = Run::on_demand(&["a", "b"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    run.pod("n/p", &pod("b"));
    let net = "net".into();
    assert_eq!(texts(&run.state.found(&net, &node("a"), run.now)), ["net@a: idle -> lingering"]);
    assert!(run.state.found(&net, &node("a"), at(2000)).is_empty(), "the first look counts");
    assert!(run.state.found(&net, &node("b"), run.now).is_empty());
    assert!(run.state.found(&"unknown".into(), &node("a"), run.now).is_empty());
    assert_eq!(run.state.need(&net, &node("a")), Need::Lingering { until: at(1006) });
    assert_eq!(run.later(6), ["net@a: lingering -> idle"]);
}

#[test]
fn a_pod_that_moves_or_names_other_networks_is_one_change() {
    let mut run = Run::on_demand(&["a", "b"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    run.nad("n/s", &nad("sec", Kind::Secondary));
    run.pod("n/p", &pod("a"));
    let named = Pod { attachments: vec!["n/s".parse().unwrap(), "n/c".parse().unwrap()], ..pod("a") };
    assert_eq!(run.pod("n/p", &named), ["sec@a: idle -> active"]);
    assert!(run.pod("n/p", &named).is_empty());
    let moved = run.pod("n/p", &pod("b"));
    assert_eq!(moved, ["net@a: active -> lingering", "net@b: idle -> active", "sec@a: active -> lingering"]);
}

#[test]
fn an_egress_ip_makes_its_nodes_need_the_primary_networks_of_its_namespaces() {
    let mut run = Run::on_demand(&["a", "b"]);
    run.nad("n/c", &nad("net", Kind::Primary));
    let (nodes, namespaces) = ([node("a")].into(), ["n".into(), "m".into()].into());
    let changes = run.state.set_egress_ip("e", &nodes, &namespaces, run.now);
    assert_eq!(texts(&changes), ["net@a: idle -> active"]);
    let moved = run.state.set_egress_ip("e", &[node("b")].into(), &namespaces, run.now);
    assert_eq!(texts(&moved), ["net@a: active -> lingering", "net@b: idle -> active"]);
    // Upstream keeps a namespace that the selector does not match any more.
    let left = run.state.set_egress_ip("e", &[node("b")].into(), &["m".into()].into(), run.now);
    assert_eq!(texts(&left), ["net@b: active -> lingering"]);
    assert!(run.state.remove_egress_ip("e", run.now).is_empty());
}

#[test]
fn networks_that_are_connected_are_needed_where_one_of_them_is_and_no_further() {
    let mut run = Run::on_demand(&["n1", "n2"]);
    for (key, network) in [("a/net", "a"), ("b/net", "b"), ("c/net", "c")] {
        run.nad(key, &nad(network, Kind::Primary));
    }
    let connect = |run: &mut Run, name: &str, members: &[&str]| {
        let members = members.iter().map(|name| NetworkName::from(*name)).collect();
        texts(&run.state.connect(name, &members, run.now))
    };
    assert_eq!(connect(&mut run, "ab", &["a", "b"]), [""; 0], "nobody needs any");
    assert_eq!(connect(&mut run, "bc", &["b", "c"]), [""; 0]);
    let active = |run: &Run, network: &str| run.state.active_nodes(&network.into());
    run.pod("a/p", &pod("n1"));
    assert_eq!((active(&run, "a"), active(&run, "b")), (vec![node("n1")], vec![node("n1")]));
    assert_eq!(active(&run, "c"), [], "one step and no more");
    run.pod("b/p", &pod("n2"));
    assert_eq!(active(&run, "a"), [node("n1"), node("n2")]);
    assert_eq!(active(&run, "c"), [node("n2")]);

    // A reason that goes is one less; the last one begins the grace period.
    run.pod("b/q", &pod("n1"));
    assert_eq!(run.gone("a/p"), [""; 0], "its own pod is gone, and b's is there");
    connect(&mut run, "ab", &[]);
    assert_eq!(active(&run, "a"), []);
    assert_eq!(run.state.holding_nodes(&"a".into()), [node("n1"), node("n2")]);
    assert_eq!(connect(&mut run, "ab", &["b", "a"]).len(), 2, "connected again");
    run.later(10);
    assert_eq!(active(&run, "a"), [node("n1"), node("n2")]);
}

#[test]
fn a_network_that_comes_after_its_connection_is_needed_at_once() {
    let mut run = Run::on_demand(&["n1"]);
    let both = ["a", "b"].map(NetworkName::from).into();
    run.nad("a/net", &nad("a", Kind::Primary));
    run.state.connect("ab", &both, run.now);
    run.pod("a/p", &pod("n1"));
    assert_eq!(run.state.active_nodes(&"b".into()), [], "there is no such network");
    run.nad("b/net", &nad("b", Kind::Primary));
    assert_eq!(run.state.active_nodes(&"b".into()), [node("n1")]);
    // And again after it was gone.
    texts(&run.state.remove_nad(&"b/net".parse().unwrap(), run.now));
    assert_eq!(run.state.holding_nodes(&"b".into()), []);
    run.nad("b/net", &nad("b", Kind::Primary));
    assert_eq!(run.state.active_nodes(&"b".into()), [node("n1")]);
}

#[test]
fn two_connections_of_the_same_networks_end_with_the_second() {
    let mut run = Run::on_demand(&["n1"]);
    for (key, network) in [("a/net", "a"), ("b/net", "b")] {
        run.nad(key, &nad(network, Kind::Primary));
    }
    let both = ["a", "b"].map(NetworkName::from).into();
    run.pod("a/p", &pod("n1"));
    for name in ["one", "two"] {
        run.state.connect(name, &both, run.now);
    }
    assert!(run.state.connect("one", &BTreeSet::new(), run.now).is_empty());
    assert_eq!(run.state.active_nodes(&"b".into()), [node("n1")]);
    run.state.connect("two", &BTreeSet::new(), run.now);
    assert_eq!(run.state.active_nodes(&"b".into()), []);
}
