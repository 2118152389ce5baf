use std::fmt::Write;

use causeway_runtime::watch::Store;
use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForZone};

use super::*;
use crate::endpointslice::fixtures::{
    NAMESPACE, conditions, content, endpoint, host_pod, machine_pod, mirror, network, pod, source, web, world,
};
use crate::observed::fixtures::pod_on;
use crate::observed::pod::{Attachment, Machine, Pod};

/// A plan, a line for each step and for each endpoint that is left out.
fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    let what = |wanted: &Wanted| {
        let Wanted { service, source_version, network, content } = wanted;
        let endpoints = content.endpoints.iter().map(|endpoint| {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let words = [
                ("ready", conditions.ready),
                ("serving", conditions.serving),
                ("terminating", conditions.terminating),
            ];
            let words = words.into_iter().filter(|(_, is)| *is == Some(true)).map(|(word, _)| word);
            format!("{} {}", endpoint.addresses.join(","), words.collect::<Vec<_>>().join("+"))
        });
        let endpoints = endpoints.collect::<Vec<_>>().join("; ");
        format!("{service}@{source_version} on {network}, {}: [{endpoints}]", content.address_type)
    };
    for step in &plan.steps {
        match step {
            Step::Delete { mirror, uid, because } => writeln!(text, "delete {mirror} {uid}: {because}"),
            Step::Create { prefix, owners, wanted } => {
                let owners: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
                writeln!(text, "create {prefix} of {}: {}", owners.join(","), what(wanted))
            }
            Step::Update { mirror, uid, version, wanted } => {
                writeln!(text, "update {mirror} {uid}@{version}: {}", what(wanted))
            }
        }
        .unwrap();
    }
    for omitted in &plan.omitted {
        writeln!(text, "omitted: {omitted}").unwrap();
    }
    text
}

#[track_caller]
fn check(world: &World, want: &Expect) {
    want.assert_eq(&shown(&mirrors(&web(), world)));
}

/// The world after a plan was carried out, as the API server answers.
pub(super) fn carried_out(world: &World, plan: &Plan) -> World {
    let mut world = world.clone();
    for step in &plan.steps {
        let (mirror, wanted) = match step {
            Step::Delete { uid, .. } => {
                world.mirrors.retain(|mirror| mirror.uid != *uid);
                continue;
            }
            Step::Create { wanted, .. } => (Mirror { uid: "uid-new".to_owned(), ..mirror(&[]) }, wanted),
            Step::Update { uid, wanted, .. } => {
                let index = world.mirrors.iter().position(|mirror| mirror.uid == *uid).unwrap();
                ((*world.mirrors.remove(index)).clone(), wanted)
            }
        };
        world.mirrors.push(Arc::new(Mirror {
            source_version: Some(wanted.source_version.clone()),
            network: Some(wanted.network.clone()),
            service: Some(wanted.service.clone()),
            content: wanted.content.clone(),
            ..mirror
        }));
    }
    world
}

/// Plans, and proves that there is nothing more to do when that is done.
#[track_caller]
fn check_settles(world: &World, want: &Expect) {
    check(world, want);
    let after = carried_out(world, &mirrors(&web(), world));
    assert_eq!(mirrors(&web(), &after).steps, [], "a second pass has nothing to do");
}

fn two() -> Vec<Endpoint> {
    vec![endpoint("p1"), endpoint("p2")]
}

fn pods() -> [(&'static str, Pod); 2] {
    [("p1", pod(&["10.20.0.5", "fd00:20::5"])), ("p2", pod(&["10.20.0.6"]))]
}

/// The mirror of `two()`.
fn both() -> Mirror {
    mirror(&[("p1", "10.20.0.5"), ("p2", "10.20.0.6")])
}

// ---- Cases of mirrors that are there or not ----

#[test]
fn a_slice_without_mirror_gets_one() {
    check_settles(
        &world(Some(source(two())), Vec::new(), &pods()),
        &expect![[r"
            create web- of uid-web: web@7 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
        "]],
    );
}

#[test]
fn a_mirror_that_is_as_it_should_be_is_left_alone() {
    check(&world(Some(source(two())), vec![both()], &pods()), &expect![""]);
}

#[test]
fn a_mirror_whose_source_is_gone_goes() {
    check_settles(
        &world(None, vec![both()], &pods()),
        &expect![[r"
            delete blue/mirror uid-mirror: no_source
        "]],
    );
}

#[test]
fn a_namespace_without_primary_network_has_no_mirrors() {
    let without = |mirrors| World { network: None, ..world(Some(source(two())), mirrors, &pods()) };
    check(&without(Vec::new()), &expect![""]);
    // Differs from upstream, where they stay until the Service goes.
    check_settles(
        &without(vec![both()]),
        &expect![[r"
            delete blue/mirror uid-mirror: no_network
        "]],
    );
}

#[test]
fn names_of_hosts_are_not_mirrored_and_their_old_mirror_goes() {
    let fqdn = Source { content: content("FQDN", two()), ..source(Vec::new()) };
    check(&world(Some(fqdn.clone()), Vec::new(), &pods()), &expect![""]);
    check_settles(
        &world(Some(fqdn), vec![both()], &pods()),
        &expect![[r"
            delete blue/mirror uid-mirror: no_addresses
        "]],
    );
}

#[test]
fn of_two_mirrors_the_older_that_goes_with_the_service_stays() {
    let younger =
        Mirror { key: SliceKey::new(NAMESPACE, "a-dup"), uid: "uid-dup".to_owned(), created: 101, ..both() };
    check_settles(
        &world(Some(source(two())), vec![younger.clone(), both()], &pods()),
        &expect![[r"
            delete blue/a-dup uid-dup: duplicate
        "]],
    );
    // Also where it is the one that has to be changed.
    check_settles(
        &world(Some(source(two())), vec![younger.clone(), mirror(&[])], &pods()),
        &expect![[r"
            delete blue/a-dup uid-dup: duplicate
            update blue/mirror uid-mirror@9: web@7 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
        "]],
    );
    let by_hand = Mirror { created: 99, owners: Vec::new(), ..younger.clone() };
    check_settles(
        &world(Some(source(two())), vec![by_hand, both()], &pods()),
        &expect![[r"
            delete blue/a-dup uid-dup: duplicate
        "]],
    );
    let same_second = Mirror { created: 100, ..younger };
    check(
        &world(Some(source(two())), vec![both(), same_second], &pods()),
        &expect![[r"
            delete blue/mirror uid-mirror: duplicate
        "]],
    );
}

#[test]
fn a_mirror_of_another_network_or_family_is_replaced() {
    let other_network = Mirror { network: Some("other".to_owned()), ..both() };
    let other_family = Mirror { content: content("IPv6", Vec::new()), ..both() };
    for mirror in [other_network, other_family] {
        check_settles(
            &world(Some(source(two())), vec![mirror], &pods()),
            &expect![[r"
                delete blue/mirror uid-mirror: other_network
                create web- of uid-web: web@7 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
            "]],
        );
    }
}

// ---- Cases of content ----

#[test]
fn an_endpoint_more_comes_in_the_same_place() {
    let three = vec![endpoint("p2"), endpoint("p3"), endpoint("p1")];
    let mut pods = pods().to_vec();
    pods.push(("p3", pod(&["10.20.0.7"])));
    let newer = Source { version: "8".to_owned(), ..source(three) };
    check_settles(
        &world(Some(newer), vec![both()], &pods),
        &expect![[r"
            update blue/mirror uid-mirror@9: web@8 on blue_net, IPv4: [10.20.0.6 ready+serving; 10.20.0.7 ready+serving; 10.20.0.5 ready+serving]
        "]],
    );
}

#[test]
fn an_empty_slice_gets_no_mirror_and_empties_the_one_it_has() {
    check(&world(Some(source(Vec::new())), Vec::new(), &pods()), &expect![""]);
    check_settles(
        &world(Some(source(Vec::new())), vec![both()], &pods()),
        &expect![[r"
            update blue/mirror uid-mirror@9: web@7 on blue_net, IPv4: []
        "]],
    );
}

#[test]
fn a_newer_version_of_the_source_is_noted_though_nothing_else_changed() {
    // As recorded of upstream, step 25 of the run: readers compare it.
    let touched = Source { version: "8".to_owned(), ..source(two()) };
    check_settles(
        &world(Some(touched), vec![both()], &pods()),
        &expect![[r"
            update blue/mirror uid-mirror@9: web@8 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
        "]],
    );
}

#[test]
fn another_service_name_is_taken_over() {
    let renamed = Source { service: "renamed".to_owned(), version: "8".to_owned(), ..source(two()) };
    check_settles(
        &world(Some(renamed), vec![both()], &pods()),
        &expect![[r"
            update blue/mirror uid-mirror@9: renamed@8 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
        "]],
    );
}

type Edit = fn(&mut Mirror);

#[test]
fn what_somebody_changed_in_a_mirror_is_put_right() {
    // Differs from upstream, which looks at the version alone.
    let edits: [(&str, Edit); 6] = [
        ("an endpoint gone", |mirror| drop(mirror.content.endpoints.pop())),
        ("another address", |mirror| mirror.content.endpoints[0].addresses = vec!["10.20.0.9".to_owned()]),
        ("no ports", |mirror| mirror.content.ports.clear()),
        ("another Service", |mirror| mirror.service = Some("other".to_owned())),
        ("no version", |mirror| mirror.source_version = None),
        ("no network", |mirror| mirror.network = None),
    ];
    for (what, edit) in edits {
        let mut edited = both();
        edit(&mut edited);
        let plan = mirrors(&web(), &world(Some(source(two())), vec![edited], &pods()));
        let [Step::Update { wanted, .. }] = plan.steps.as_slice() else { panic!("{what}: {plan:?}") };
        assert!(is_as_wanted(&both(), wanted), "{what}: {wanted:?}");
    }
}

#[test]
fn whatever_else_an_endpoint_holds_is_copied() {
    let zones = EndpointHints { for_zones: Some(vec![ForZone { name: "z".to_owned() }]), for_nodes: None };
    let rich =
        Endpoint { hints: Some(zones), conditions: Some(conditions(false, true, true)), ..endpoint("p1") };
    let plan = mirrors(&web(), &world(Some(source(vec![rich.clone()])), Vec::new(), &pods()));
    let [Step::Create { wanted, .. }] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(wanted.content.endpoints, [Endpoint { addresses: vec!["10.20.0.5".to_owned()], ..rich }]);
    assert_eq!(wanted.content.ports, source(Vec::new()).content.ports);
}

// ---- Cases of addresses ----

#[test]
fn each_family_has_its_own_mirror() {
    let v6 = Source { content: content("IPv6", vec![endpoint("p1")]), ..source(Vec::new()) };
    check_settles(
        &world(Some(v6), Vec::new(), &pods()),
        &expect![[r"
            create web- of uid-web: web@7 on blue_net, IPv6: [fd00:20::5 ready+serving]
        "]],
    );
}

#[test]
fn a_pod_on_the_hosts_network_is_reached_at_its_node() {
    let pods = [("p1", host_pod(&["192.0.2.1", "2001:db8::1"])), ("p2", pod(&["10.20.0.6", "fd00:20::6"]))];
    check(
        &world(Some(source(two())), Vec::new(), &pods),
        &expect![[r"
            create web- of uid-web: web@7 on blue_net, IPv4: [192.0.2.1 ready+serving; 10.20.0.6 ready+serving]
        "]],
    );
    let v6 = Source { content: content("IPv6", two()), ..source(Vec::new()) };
    check(
        &world(Some(v6), Vec::new(), &pods),
        &expect![[r"
            create web- of uid-web: web@7 on blue_net, IPv6: [2001:db8::1 ready+serving; fd00:20::6 ready+serving]
        "]],
    );
}

#[test]
fn an_endpoint_without_an_address_is_left_out_and_the_others_are_mirrored() {
    // Differs from upstream, which fails on the whole slice, and sends what the API server refuses where there is no pod.
    let pointless = Endpoint { target_ref: None, ..endpoint("x") };
    let node = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some("n".to_owned()),
        ..ObjectReference::default()
    };
    let of_node = Endpoint { target_ref: Some(node), ..endpoint("x") };
    let endpoints = vec![
        pointless,
        endpoint("p1"),
        of_node,
        endpoint("gone"),
        endpoint("late"),
        endpoint("v6"),
        endpoint("bad"),
        endpoint("worse"),
        endpoint("p2"),
    ];
    let mut pods = pods().to_vec();
    let reach = |attached| Pod { attached, ..pod_on("node-000", Vec::new()) };
    let cause = "\"x\" is no address".to_owned();
    let worse = Attachment { nad: "blue/net".parse().unwrap(), addresses: Err(cause) };
    pods.extend([
        ("late", reach(Ok(Vec::new()))),
        ("v6", pod(&["fd00:20::7"])),
        ("bad", reach(Err("EOF while parsing".to_owned()))),
        ("worse", reach(Ok(vec![worse]))),
    ]);
    check_settles(
        &world(Some(source(endpoints)), Vec::new(), &pods),
        &expect![[r#"
            create web- of uid-web: web@7 on blue_net, IPv4: [10.20.0.5 ready+serving; 10.20.0.6 ready+serving]
            omitted: endpoint 0 is no pod
            omitted: endpoint 2 is no pod
            omitted: pod gone has no address yet
            omitted: pod late has no address yet
            omitted: pod v6 has no IPv4 address
            omitted: pod bad has addresses that cannot be read (EOF while parsing)
            omitted: pod worse has addresses that cannot be read ("x" is no address)
        "#]],
    );
}

#[test]
fn a_slice_none_of_whose_endpoints_has_an_address_gets_no_mirror() {
    check(
        &world(Some(source(two())), Vec::new(), &[]),
        &expect![[r"
            omitted: pod p1 has no address yet
            omitted: pod p2 has no address yet
        "]],
    );
}

#[test]
fn a_pod_that_cannot_be_read_is_not_one_without_an_address() {
    let mut world = world(Some(source(vec![endpoint("p1")])), Vec::new(), &[]);
    let key = web().pod("p1");
    world.pods = Store::fixed_unreadable("Pod", [], [(key, "bad type")]).snapshot();
    check(
        &world,
        &expect![[r"
            omitted: pod p1 has addresses that cannot be read (bad type)
        "]],
    );
}

#[test]
fn an_address_of_another_network_is_none() {
    let attachment =
        Attachment { nad: "blue/other".parse().unwrap(), addresses: Ok(vec!["10.9.0.5".parse().unwrap()]) };
    let other = Pod { attached: Ok(vec![attachment]), ..pod_on("node-000", Vec::new()) };
    check(
        &world(Some(source(vec![endpoint("p1")])), Vec::new(), &[("p1", other)]),
        &expect![[r"
            omitted: pod p1 has no address yet
        "]],
    );
}

// ---- Cases of names ----

#[test]
fn names_begin_with_the_network_where_they_can() {
    let long = "n".repeat(250);
    let rows = [
        ("l3-network", "sample-deployment-", "l3-network-sample-deployment-"),
        ("l3.network", "web-", "l3.network-web-"),
        ("cluster_udn_blue", "sample-deployment-", "sample-deployment-"),
        ("blue_net", "multi-1", "multi-1"),
        ("UPPER", "web-", "web-"),
        ("-dash", "web-", "web-"),
        ("dot.", "web-", "web-"),
        // A name with 253 characters and a long network name.
        ("l3-network", &long, &long),
        // Just as long as can be: the network, a dash and the rest are 253 characters.
        ("ab", &long, &format!("ab-{long}")),
        ("abc", &long, &long),
    ];
    for (of_network, generated_from, want) in rows {
        let source = Source { prefix: generated_from.to_owned(), ..source(Vec::new()) };
        assert_eq!(prefix(&source, &network(of_network)), want, "{of_network} {generated_from}");
    }
}

// ---- Cases of virtual machines ----

/// Endpoints `p1` and `p2`, both with these conditions.
fn moving(ready: bool, serving: bool, terminating: bool) -> Vec<Endpoint> {
    let with = |pod| Endpoint { conditions: Some(conditions(ready, serving, terminating)), ..endpoint(pod) };
    vec![with("p1"), with("p2")]
}

#[test]
fn a_virtual_machine_that_moves_stays_ready() {
    let rows: [(&str, [Pod; 2], [bool; 3], &Expect); 7] = [
        (
            "both not ready",
            [machine_pod("10.20.0.5", 1, false, false), machine_pod("10.20.0.5", 2, false, false)],
            [false, false, false],
            &expect!["10.20.0.5 ready+serving; 10.20.0.5 ready+serving"],
        ),
        (
            "not ready, serving, terminating",
            [machine_pod("10.20.0.5", 1, false, false), machine_pod("10.20.0.5", 2, false, true)],
            [false, true, true],
            &expect!["10.20.0.5 ready+serving; 10.20.0.5 ready+serving"],
        ),
        (
            "the move failed",
            [machine_pod("10.20.0.5", 1, false, false), machine_pod("10.20.0.5", 2, true, false)],
            [false, true, false],
            &expect!["10.20.0.5 serving; 10.20.0.5 serving"],
        ),
        (
            "the source is gone, the target is ready",
            [machine_pod("10.20.0.5", 1, true, false), machine_pod("10.20.0.5", 2, false, true)],
            [false, false, false],
            &expect!["10.20.0.5 ready+serving; 10.20.0.5 ready+serving"],
        ),
        (
            "no machines",
            [pod(&["10.20.0.5"]), pod(&["10.20.0.6"])],
            [false, false, false],
            &expect!["10.20.0.5 ; 10.20.0.6 "],
        ),
        (
            "two machines",
            [
                machine_pod("10.20.0.5", 1, false, false),
                Pod {
                    machine: machine_pod("10.20.0.6", 2, false, false)
                        .machine
                        .map(|machine| Box::new(Machine { domain: Some("other".to_owned()), ..*machine })),
                    ..pod(&["10.20.0.6"])
                },
            ],
            [false, false, false],
            &expect!["10.20.0.5 ; 10.20.0.6 "],
        ),
        (
            "ready anyway",
            [machine_pod("10.20.0.5", 1, false, false), machine_pod("10.20.0.5", 2, false, false)],
            [true, false, true],
            &expect!["10.20.0.5 ready+terminating; 10.20.0.5 ready+terminating"],
        ),
    ];
    for (what, [one, two], [ready, serving, terminating], want) in rows {
        for address_type in ["IPv4", "IPv6"] {
            let v6 = |pod: &Pod| {
                let attached = pod.attached.as_ref().unwrap_or_else(|error| panic!("{what}: {error}"));
                let last = attached[0].addresses.as_ref().unwrap()[0].to_string();
                let last = last.replace("10.20.0.", "fd00:20::");
                Pod { machine: pod.machine.clone(), ..self::pod(&[last.as_str()]) }
            };
            let pods = match address_type {
                "IPv4" => [("p1", one.clone()), ("p2", two.clone())],
                _ => [("p1", v6(&one)), ("p2", v6(&two))],
            };
            let endpoints = moving(ready, serving, terminating);
            let source = Source { content: content(address_type, endpoints), ..source(Vec::new()) };
            let text = shown(&mirrors(&web(), &world(Some(source), Vec::new(), &pods)));
            let (_, text) = text.split_once('[').unwrap();
            want.assert_eq(&text.replace("fd00:20::", "10.20.0.").replace("]\n", ""));
        }
    }
}

#[test]
fn a_machine_without_a_name_and_one_with_too_many_pods_keep_what_kubernetes_says() {
    let nameless = |created| {
        let pod = machine_pod("10.20.0.5", created, false, false);
        Pod { machine: pod.machine.map(|machine| Box::new(Machine { domain: None, ..*machine })), ..pod }
    };
    let third = machine_pod("10.20.0.5", 3, false, false);
    let named = |created| machine_pod("10.20.0.5", created, false, false);
    for pods in [
        vec![("p1", nameless(1)), ("p2", nameless(2))],
        vec![("p1", named(1)), ("p2", named(2)), ("p3", third)],
    ] {
        check(
            &world(Some(source(moving(false, true, false))), Vec::new(), &pods),
            &expect![[r"
                create web- of uid-web: web@7 on blue_net, IPv4: [10.20.0.5 serving; 10.20.0.5 serving]
            "]],
        );
    }
}
