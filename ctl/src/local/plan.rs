//! What is wrong with a node, from what was observed on it. Pure.

use std::collections::BTreeSet;

use crate::agent::AgentView;
use crate::check::Finding;

const AREA: &str = "local";

/// What was observed on this machine; each part, or why it could not be.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Open vSwitch's database.
    pub ovs: Result<OvsFacts, String>,
    /// Devices with an eswitch.
    pub eswitches: Eswitches,
    /// Interfaces of cards.
    pub interfaces: Result<Vec<Interface>, String>,
    /// The agent of this machine.
    pub agent: Result<AgentView, String>,
}

/// What the database says about offload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OvsFacts {
    /// `other_config:hw-offload`.
    pub hw_offload: Option<String>,
    /// Version of the switch.
    pub version: Option<String>,
}

/// What devlink says about eswitches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eswitches {
    /// The kernel has no devlink.
    NoFamily,
    /// It could not be asked.
    Failed(String),
    /// Every device, with its mode where it has an eswitch.
    Found(Vec<Eswitch>),
}

/// One devlink device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eswitch {
    /// Bus and name, as `pci/0000:03:00.0`.
    pub device: String,
    /// Mode; none if the device has no eswitch.
    pub mode: Option<Mode>,
}

/// Mode of an eswitch. Source: linux/devlink.h, `enum devlink_eswitch_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No representors.
    Legacy,
    /// With representors.
    Switchdev,
    /// Newer than this list.
    Other(u16),
}

/// One interface of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is a port of a switch: it has a `phys_switch_id`.
    pub is_port: bool,
    /// Feature `hw-tc-offload`: on, off, or none if the interface cannot do it.
    pub hw_tc_offload: Option<bool>,
}

/// Judges a machine.
#[must_use]
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let role = facts.agent.as_ref().map(|agent| agent.role.as_str()).ok();
    let mut findings = vec![agent(&facts.agent)];
    findings.extend(facts.agent.iter().flat_map(stores));
    findings.push(ovs(&facts.ovs, role));
    findings.extend(eswitches(facts));
    findings.extend(interfaces(facts));
    findings
}

fn agent(agent: &Result<AgentView, String>) -> Finding {
    match agent {
        Ok(agent) => {
            let found = format!("{} {} serves node {}", agent.program, agent.version, agent.node);
            Finding::good(AREA, "agent", found)
        }
        Err(error) => Finding::problem(
            AREA,
            "agent",
            error.clone(),
            "start the agent of this machine, or give its --introspect-socket by --socket; the socket is root's alone",
        ),
    }
}

fn stores(agent: &AgentView) -> Vec<Finding> {
    let one = |name: &str, ready: bool, reason: &str| {
        let subject = format!("{}: {name}", agent.program);
        if ready {
            return Finding::good(AREA, subject, "ready");
        }
        let remedy = match name {
            "ovsdb" => "see that ovsdb-server runs, and that --ovsdb-address of the agent is its socket",
            "kernel" => "see the agent's log; it needs to open netlink sockets",
            _ => "see that the API server can be reached and that the agent's account may list the kind",
        };
        Finding::problem(AREA, subject, reason.to_owned(), remedy)
    };
    let notes = agent.notes.iter().map(|note| Finding::note(AREA, agent.program.clone(), note.clone()));
    let stores = agent.stores.iter().map(|store| one(&store.name, store.ready, &store.reason));
    notes.chain(stores).collect()
}

fn ovs(ovs: &Result<OvsFacts, String>, role: Option<&str>) -> Finding {
    const SUBJECT: &str = "Open vSwitch database";
    match ovs {
        Ok(facts) => {
            let version = facts.version.as_deref().unwrap_or("unknown");
            Finding::good(AREA, SUBJECT, format!("reachable, switch version {version}"))
        }
        Err(_) if role == Some("dpu-host") => {
            Finding::good(AREA, SUBJECT, "none here, as it should be on the host of a card")
        }
        Err(error) => Finding::problem(
            AREA,
            SUBJECT,
            error.clone(),
            "start Open vSwitch (systemctl start openvswitch-switch), or give its socket by --ovsdb-address",
        ),
    }
}

/// The setting of hardware offload, where it can be known.
fn offload(facts: &Facts) -> Option<bool> {
    facts.ovs.as_ref().ok().map(|ovs| ovs.hw_offload.as_deref() == Some("true"))
}

fn eswitches(facts: &Facts) -> Vec<Finding> {
    let devices = match &facts.eswitches {
        Eswitches::NoFamily => {
            return vec![Finding::note(
                AREA,
                "eswitch",
                "this kernel has no devlink: modes of eswitches cannot be told",
            )];
        }
        Eswitches::Failed(error) => {
            return vec![Finding::note(AREA, "eswitch", format!("devlink could not be asked: {error}"))];
        }
        Eswitches::Found(devices) => devices,
    };
    let with_mode: Vec<(&str, Mode)> =
        devices.iter().filter_map(|device| Some((device.device.as_str(), device.mode?))).collect();
    if with_mode.is_empty() {
        return vec![Finding::good(AREA, "eswitch", "no device with an eswitch here")];
    }
    let mut findings: Vec<Finding> =
        with_mode.iter().map(|(device, mode)| eswitch(device, *mode, offload(facts))).collect();
    let switchdev = with_mode.iter().any(|(_, mode)| *mode == Mode::Switchdev);
    match offload(facts) {
        Some(true) => findings.push(Finding::good(AREA, "hw-offload", "on")),
        Some(false) if switchdev => findings.push(Finding::problem(
            AREA,
            "hw-offload",
            "off, although a card here is in switchdev mode: all traffic goes through this machine's CPU",
            "ovs-vsctl set Open_vSwitch . other_config:hw-offload=true, then restart ovs-vswitchd",
        )),
        Some(false) => findings.push(Finding::good(AREA, "hw-offload", "off, and nothing here offloads")),
        None => {}
    }
    findings
}

fn eswitch(device: &str, mode: Mode, offload: Option<bool>) -> Finding {
    let subject = format!("eswitch of {device}");
    match mode {
        Mode::Switchdev => Finding::good(AREA, subject, "mode switchdev"),
        Mode::Other(number) => {
            Finding::note(AREA, subject, format!("mode {number}, which this version does not know"))
        }
        Mode::Legacy if offload == Some(true) => Finding::problem(
            AREA,
            subject,
            "mode legacy, although Open vSwitch has hw-offload on: there are no representors to put on a bridge",
            format!("devlink dev eswitch set {device} mode switchdev (functions in use go away meanwhile)"),
        ),
        Mode::Legacy => Finding::note(
            AREA,
            subject,
            "mode legacy: its virtual functions cannot be reached through a bridge",
        ),
    }
}

fn interfaces(facts: &Facts) -> Vec<Finding> {
    const SUBJECT: &str = "interface features";
    let interfaces = match &facts.interfaces {
        Ok(interfaces) => interfaces,
        Err(error) => {
            return vec![Finding::note(AREA, SUBJECT, format!("ethtool could not be asked: {error}"))];
        }
    };
    let ports: Vec<&Interface> = interfaces.iter().filter(|interface| interface.is_port).collect();
    let off: BTreeSet<&str> = ports
        .iter()
        .filter(|interface| interface.hw_tc_offload == Some(false))
        .map(|interface| interface.name.as_str())
        .collect();
    match (offload(facts), off.is_empty()) {
        (Some(true), false) => off
            .into_iter()
            .map(|name| {
                Finding::problem(
                    AREA,
                    format!("interface {name}"),
                    "hw-tc-offload is off, although Open vSwitch has hw-offload on",
                    format!("ethtool -K {name} hw-tc-offload on"),
                )
            })
            .collect(),
        _ if ports.is_empty() => {
            vec![Finding::good(AREA, SUBJECT, format!("{} interface(s), none of a switch", interfaces.len()))]
        }
        _ => {
            let on = ports.iter().filter(|interface| interface.hw_tc_offload == Some(true)).count();
            vec![Finding::good(AREA, SUBJECT, format!("{on} of {} switch port(s) offload", ports.len()))]
        }
    }
}

#[cfg(test)]
mod tests;
