use causeway_api::uplink::{NodeConfig, UplinkSpec, UplinkType};
use causeway_api::uplink_state::UplinkStateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::*;
use crate::check::Level;

fn node(name: &str, labels: &[&str], annotations: &[(&str, &str)]) -> NodeRow {
    NodeRow {
        name: name.into(),
        labels: labels.iter().map(|&label| (label.to_owned(), String::new())).collect(),
        annotations: annotations.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(),
    }
}

fn pod(program: &str, node: &str, ready: bool) -> PodRow {
    PodRow {
        name: format!("{program}-x"),
        namespace: "ovn-kubernetes".into(),
        program: program.into(),
        node: Some(node.into()),
        ready,
        state: if ready { "Running".into() } else { "Pending, ImagePullBackOff".into() },
        image: "causeway".into(),
    }
}

fn state(node: &str, resolved: bool) -> UplinkState {
    let spec = UplinkStateSpec { uplink_name: "blue".into(), node_name: node.into() };
    let mut state = UplinkState::new(&format!("blue.{node}"), spec);
    let status = serde_json::json!({"conditions": [{
        "type": "Resolved", "status": if resolved { "True" } else { "False" }, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    state.status = Some(serde_json::from_value(status).unwrap());
    state
}

fn good() -> Facts {
    let entry = NodeConfig {
        type_: UplinkType::OvsBridge,
        node_selector: LabelSelector::default(),
        host_interface_name: "br0".into(),
    };
    let crds = causeway_api::crd::all();
    Facts {
        server: ("1".into(), "37".into(), "v1.37.2".into()),
        definitions: crds.into_iter().map(|crd| (crd.clone(), Ok(Some(crd)))).collect(),
        permissions: NEEDS.iter().map(|need| (*need, Ok(true))).collect(),
        nodes: Ok(vec![node("node-a", &[DPU_HOST], &[(DPU_IDENTITY, "card-a")]), node("node-b", &[], &[])]),
        uplinks: Ok(vec![Uplink::new("blue", UplinkSpec { node_configs: vec![entry] })]),
        states: Ok(vec![state("node-a", true), state("node-b", true)]),
        pods: Ok(vec![
            pod("causeway-cluster-manager", "node-b", true),
            pod("causeway-host-agent", "node-a", true),
            pod("causeway-node-agent", "node-b", true),
        ]),
    }
}

/// `level subject` of everything that is not good.
fn odd(change: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = good();
    change(&mut facts);
    let findings = judge(&facts);
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem);
    assert!(problems.clone().all(|problem| !problem.remedy.is_empty()), "a problem without a remedy");
    let odd = findings.iter().filter(|finding| finding.level != Level::Good);
    odd.map(|finding| format!("{:?} {}", finding.level, finding.subject)).collect()
}

#[test]
fn a_good_cluster_has_only_good_findings() {
    assert_eq!(odd(|_| {}), Vec::<String>::new());
}

#[test]
fn each_thing_that_is_wrong_is_one_finding() {
    type Change = fn(&mut Facts);
    let cases: &[(Change, &[&str])] = &[
        (|facts| facts.server.1 = "31+".into(), &["Problem API server"]),
        (|facts| facts.server.1 = "?".into(), &["Note API server"]),
        (|facts| facts.definitions[0].1 = Ok(None), &["Problem uplinks.k8s.ovn.org"]),
        (
            |facts| {
                if let Ok(Some(have)) = &mut facts.definitions[1].1 {
                    have.spec.versions[0].served = false;
                }
            },
            &["Problem uplinkstates.k8s.ovn.org"],
        ),
        (|facts| facts.definitions[0].1 = Err("forbidden".into()), &["Note uplinks.k8s.ovn.org"]),
        (|facts| facts.permissions[2].1 = Ok(false), &["Note list nodes"]),
        (|facts| facts.pods = Ok(Vec::new()), &["Note pods"]),
        (|facts| drop(facts.pods.as_mut().unwrap().pop()), &["Problem causeway-node-agent on node-b"]),
        (
            |facts| facts.pods.as_mut().unwrap()[1] = pod("causeway-host-agent", "node-a", false),
            &["Problem causeway-host-agent on node-a"],
        ),
        (|facts| facts.pods.as_mut().unwrap()[0].ready = false, &["Problem causeway-cluster-manager"]),
        (|facts| drop(facts.states.as_mut().unwrap().pop()), &["Problem node node-b"]),
        (
            |facts| facts.states = Ok(vec![state("node-a", true), state("node-b", false)]),
            &["Problem node node-b"],
        ),
        (|facts| facts.states = Err("forbidden".into()), &["Note Uplinks"]),
        (|facts| facts.nodes.as_mut().unwrap()[0].annotations.clear(), &["Note node node-a"]),
        (
            |facts| facts.nodes.as_mut().unwrap()[1] = node("node-b", &[], &[(DPU_IDENTITY, "card-b")]),
            &["Note node node-b"],
        ),
        (|facts| facts.nodes = Err("forbidden".into()), &["Note nodes"]),
    ];
    for (change, want) in cases {
        assert_eq!(odd(change), *want);
    }
}

#[test]
fn a_card_that_serves_two_nodes_is_noted() {
    let two = |facts: &mut Facts| {
        let nodes = facts.nodes.as_mut().unwrap();
        nodes[1] = node("node-b", &[DPU_HOST], &[(DPU_IDENTITY, "card-a")]);
        facts.pods.as_mut().unwrap()[2] = pod("causeway-host-agent", "node-b", true);
    };
    assert_eq!(odd(two), ["Note user card-a"]);
}
