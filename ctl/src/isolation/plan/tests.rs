use super::*;
use crate::agent::guard::{IsolationView, TrackingView};

const CGROUP: &str = "kubelet.slice/kubelet.service";

fn element(set: &str, element: &str) -> ElementView {
    ElementView { set: set.into(), element: element.into() }
}

fn kubelet() -> KubeletView {
    KubeletView {
        mode: "kubelet".into(),
        cgroup: Some(CGROUP.into()),
        generation: 1,
        source: "process".into(),
        reason: String::new(),
        tracking: vec![TrackingView { by: "directory", works: true, reason: String::new() }],
    }
}

/// The worked example of the isolation rules: a dual-stack pod that opens tcp 80 and icmp.
fn world() -> World {
    let elements = vec![
        element("udn-pod-default-ips-v4", "10.244.0.6"),
        element("udn-pod-default-ips-v6", "fd00:10:244:1::6"),
        element("udn-open-ports-v4", "10.244.0.6 . tcp . 80"),
        element("udn-open-ports-v6", "fd00:10:244:1::6 . tcp . 80"),
        element("udn-open-ports-icmp-v4", "10.244.0.6"),
        element("udn-open-ports-icmp-v6", "fd00:10:244:1::6"),
    ];
    let seen = IsolatedPodView {
        name: "blue/web-0".into(),
        standing: "isolated".into(),
        elements,
        ..IsolatedPodView::default()
    };
    World {
        node: "node-a".into(),
        kubelet: Some(kubelet()),
        isolation: Some(IsolationView { families: vec!["IPv4", "IPv6"], pods: 1, pod: Some(seen) }),
        pod: Some(PodRow {
            name: "blue/web-0".into(),
            node: Some("node-a".into()),
            host_network: false,
            phase: "Running".into(),
            addresses: vec!["10.244.0.6".into(), "fd00:10:244:1::6".into()],
            default_network: DefaultNetwork::Role(LOCKED.into()),
        }),
        process: Some(process("user.slice/session-1.scope")),
        port: None,
    }
}

fn process(cgroup: &str) -> ProcessRow {
    ProcessRow { name: "process 7".into(), cgroup: cgroup.into() }
}

fn with(change: impl FnOnce(&mut World)) -> World {
    let mut world = world();
    change(&mut world);
    world
}

fn unseen(world: &mut World) {
    if let Some(isolation) = &mut world.isolation {
        isolation.pod = None;
    }
}

#[test]
fn processes_of_the_host_reach_open_ports_and_the_kubelet_all_of_them() {
    for (cgroup, port, want) in [
        ("user.slice/session-1.scope", Some(Port::Of("tcp", 80)), true),
        ("user.slice/session-1.scope", Some(Port::Icmp), true),
        ("user.slice/session-1.scope", Some(Port::Of("tcp", 8080)), false),
        ("user.slice/session-1.scope", Some(Port::Of("udp", 80)), false),
        ("user.slice/session-1.scope", None, false),
        ("", None, false),
        (CGROUP, Some(Port::Of("tcp", 8080)), true),
        (CGROUP, None, true),
        ("kubelet.slice/kubelet.service/below", None, true),
        ("kubelet.slice/kubelet.service2", None, false),
        ("kubelet.slice", None, false),
        ("other/kubelet.slice/kubelet.service", None, false),
    ] {
        let world = with(|world| (world.process, world.port) = (Some(process(cgroup)), port));
        let verdicts = explain(&world).verdicts;
        let passes: Vec<bool> = verdicts.iter().map(|verdict| verdict.passes).collect();
        assert_eq!(passes, [want, want], "{cgroup} {port:?}: {verdicts:?}");
    }
}

#[test]
fn without_the_kubelets_rule_only_open_ports_pass() {
    for mode in ["closed", "looking"] {
        let closed = KubeletView { mode: mode.into(), cgroup: None, ..kubelet() };
        let world = with(|world| {
            (world.kubelet, world.process) = (Some(closed), Some(process(CGROUP)));
        });
        assert!(explain(&world).verdicts.iter().all(|verdict| !verdict.passes));
        let open = World { port: Some(Port::Of("tcp", 80)), ..world };
        assert!(explain(&open).verdicts.iter().all(|verdict| verdict.passes));
    }
}

#[test]
fn a_family_without_rules_and_a_pod_without_elements_are_open() {
    let single = with(|world| {
        if let Some(isolation) = &mut world.isolation {
            isolation.families = vec!["IPv4"];
        }
    });
    let passes: Vec<bool> = explain(&single).verdicts.iter().map(|verdict| verdict.passes).collect();
    assert_eq!(passes, [false, true]);
    let exempt = with(|world| {
        unseen(world);
        if let Some(pod) = &mut world.pod {
            pod.default_network = DefaultNetwork::Role("primary".into());
        }
    });
    let explained = explain(&exempt);
    assert!(explained.verdicts.iter().all(|verdict| verdict.passes));
    assert_eq!(explained.problems, []);
}

#[test]
fn every_element_is_explained() {
    let pod = explain(&world()).pod.unwrap();
    assert!(pod.isolated);
    assert_eq!(pod.elements.len(), 6);
    let why: Vec<&str> = pod.elements.iter().map(|element| element.because).collect();
    let (address, port, icmp) = (
        "an address of the pod on the default network",
        "the annotation k8s.ovn.org/open-default-ports opens the port",
        "the annotation k8s.ovn.org/open-default-ports opens icmp",
    );
    assert_eq!(why, [address, address, port, port, icmp, icmp]);
}

#[test]
fn a_pod_that_is_not_isolated_is_told_why() {
    type Change = fn(&mut PodRow);
    let cases: [(Change, &str, usize); 8] = [
        (|pod| pod.host_network = true, "it has the network of its node (hostNetwork)", 0),
        (
            |pod| pod.phase = "Succeeded".into(),
            "it has ended (Succeeded): its addresses are free for others",
            0,
        ),
        (|pod| pod.phase = "Failed".into(), "it has ended (Failed): its addresses are free for others", 0),
        (
            |pod| pod.default_network = DefaultNetwork::Role("primary".into()),
            "the default network is its primary network, not one for probes alone",
            0,
        ),
        (
            |pod| pod.default_network = DefaultNetwork::Unknown,
            "nothing has given it networks yet (annotation k8s.ovn.org/pod-networks)",
            0,
        ),
        (
            |pod| pod.default_network = DefaultNetwork::Unreadable("EOF".into()),
            "its annotation k8s.ovn.org/pod-networks cannot be read: EOF",
            1,
        ),
        (|pod| pod.addresses.clear(), "no address of it on the default network is known yet", 0),
        (|_| {}, "the agent has not seen it yet", 1),
    ];
    for (change, want, problems) in cases {
        let world = with(|world| {
            unseen(world);
            world.pod.iter_mut().for_each(change);
        });
        let explained = explain(&world);
        let pod = explained.pod.unwrap();
        assert_eq!((pod.isolated, pod.because.as_str()), (false, want));
        assert_eq!(explained.problems.len(), problems, "{want}: {:?}", explained.problems);
    }
}

#[test]
fn what_is_not_as_it_should_be_is_a_problem_with_a_remedy() {
    let tracking = vec![TrackingView { by: "systemd", works: false, reason: "no".into() }];
    for (world, want) in [
        (with(|world| world.kubelet = None), "does not isolate pods"),
        (
            with(|world| {
                let reason = "the node uses cgroup v1".into();
                world.kubelet =
                    Some(KubeletView { mode: "closed".into(), reason, cgroup: None, ..kubelet() });
            }),
            "are dropped: the node uses cgroup v1",
        ),
        (
            with(|world| {
                world.kubelet = Some(KubeletView { mode: "looking".into(), cgroup: None, ..kubelet() });
            }),
            "gone and not back yet",
        ),
        (with(|world| world.kubelet = Some(KubeletView { tracking, ..kubelet() })), "nothing would tell"),
        (
            with(|world| {
                let pod = world.isolation.as_mut().and_then(|isolation| isolation.pod.as_mut());
                pod.unwrap().ports_error = "invalid protocol ppp".into();
            }),
            "opens nothing: invalid protocol ppp",
        ),
    ] {
        let problems = explain(&world).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].found.contains(want), "{problems:?}");
        assert!(!problems[0].remedy.is_empty());
    }
    assert_eq!(explain(&world()).problems, []);
}

#[test]
fn without_an_agent_that_isolates_nothing_is_claimed_about_packets() {
    let world = with(|world| world.isolation = None);
    assert_eq!(explain(&world).verdicts, []);
}
