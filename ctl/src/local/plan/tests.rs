use super::*;
use crate::agent::view::StoreView;
use crate::check::Level;

fn agent(role: &str) -> AgentView {
    AgentView {
        socket: "/run/a.sock".into(),
        program: "dpu-agent".into(),
        version: "0.1.0".into(),
        role: role.into(),
        node: "node-a".into(),
        pid: 1,
        started: None,
        taken: None,
        notes: Vec::new(),
        stores: vec![StoreView { name: "ovsdb".into(), ready: true, reason: String::new(), objects: None }],
        uplinks: None,
        kubelet: None,
        isolation: None,
        topology: None,
        candidates: Vec::new(),
    }
}

/// A card in switchdev mode that offloads.
fn good() -> Facts {
    Facts {
        ovs: Ok(OvsFacts { hw_offload: Some("true".into()), version: Some("3.5.0".into()) }),
        eswitches: Eswitches::Found(vec![
            Eswitch { device: "pci/0000:03:00.0".into(), mode: Some(Mode::Switchdev) },
            Eswitch { device: "auxiliary/mlx5_core.eth.0".into(), mode: None },
        ]),
        interfaces: Ok(vec![
            Interface { name: "p0".into(), is_port: true, hw_tc_offload: Some(true) },
            Interface { name: "oob".into(), is_port: false, hw_tc_offload: Some(false) },
        ]),
        agent: Ok(agent("dpu")),
    }
}

fn mode(mode: Mode) -> Eswitches {
    Eswitches::Found(vec![Eswitch { device: "pci/0000:03:00.0".into(), mode: Some(mode) }])
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
fn a_card_that_offloads_has_only_good_findings() {
    assert_eq!(odd(|_| {}), Vec::<String>::new());
}

#[test]
fn a_machine_without_a_card_is_good_too() {
    let plain = |facts: &mut Facts| {
        facts.ovs = Ok(OvsFacts::default());
        facts.eswitches = Eswitches::Found(Vec::new());
        facts.interfaces = Ok(Vec::new());
    };
    assert_eq!(odd(plain), Vec::<String>::new());
}

#[test]
fn each_thing_that_is_wrong_is_one_finding() {
    type Change = fn(&mut Facts);
    let cases: &[(Change, &[&str])] = &[
        (|facts| facts.agent = Err("nobody answers".into()), &["Problem agent"]),
        (|facts| facts.agent.as_mut().unwrap().stores[0].ready = false, &["Problem dpu-agent: ovsdb"]),
        (|facts| facts.ovs = Err("refused".into()), &["Problem Open vSwitch database"]),
        (|facts| facts.ovs.as_mut().unwrap().hw_offload = None, &["Problem hw-offload"]),
        (|facts| facts.ovs.as_mut().unwrap().hw_offload = Some("false".into()), &["Problem hw-offload"]),
        (|facts| facts.eswitches = mode(Mode::Legacy), &["Problem eswitch of pci/0000:03:00.0"]),
        (
            |facts| {
                facts.eswitches = mode(Mode::Legacy);
                facts.ovs = Ok(OvsFacts::default());
            },
            &["Note eswitch of pci/0000:03:00.0"],
        ),
        (|facts| facts.eswitches = mode(Mode::Other(7)), &["Note eswitch of pci/0000:03:00.0"]),
        (|facts| facts.eswitches = Eswitches::NoFamily, &["Note eswitch"]),
        (|facts| facts.eswitches = Eswitches::Failed("denied".into()), &["Note eswitch"]),
        (
            |facts| facts.interfaces.as_mut().unwrap()[0].hw_tc_offload = Some(false),
            &["Problem interface p0"],
        ),
        (|facts| facts.interfaces = Err("denied".into()), &["Note interface features"]),
    ];
    for (change, want) in cases {
        assert_eq!(odd(change), *want);
    }
}

#[test]
fn the_host_of_a_card_needs_no_open_vswitch() {
    let host = |facts: &mut Facts| {
        facts.agent = Ok(agent("dpu-host"));
        facts.ovs = Err("no such file".into());
    };
    assert_eq!(odd(host), Vec::<String>::new());
}
