//! From what the API server and the agents say about an Uplink to what is wrong with it. Pure.
//!
//! The rules are the agents' and the cluster manager's own (`causeway-net`); this module only finds the first that says
//! no, and what to do about it.

use causeway_api::condition::{self, ConditionStatus};
use causeway_api::uplink::{NodeConfig, UplinkReason, UplinkSpec, UplinkType};
use causeway_api::uplink_state::{DiscoveryReason, StateCondition, UplinkState};
use causeway_net::selection::{NodeConfigs, Selection};
use causeway_net::state_name::StateName;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};

use super::model::{ConditionView, EntryView, Explanation, NodeView, Step, Stop, World};
use crate::agent::AgentView;
use crate::cluster::NodeRow;
use crate::remedy::{self, Remedy};

/// Explains.
#[must_use]
pub fn explain(world: &World) -> Explanation {
    let name = world.uplink.metadata.name.clone().unwrap_or_default();
    let entries: Vec<EntryView> = entries(&world.uplink.spec, &world.nodes);
    let mut nodes: Vec<NodeView> = world
        .nodes
        .iter()
        .filter(|row| world.only.as_ref().is_none_or(|only| *only == row.name))
        .filter_map(|row| node(world, &name, row, &entries))
        .collect();
    nodes.sort_by(|left, right| left.node.cmp(&right.node));
    let selected = nodes.iter().filter(|node| !node.entries.is_empty());
    let resolved = selected.clone().filter(|node| node.stops_at.is_none()).count();
    let ready = condition::find(world.uplink.conditions(), "Ready");
    let outdated = ready.is_some_and(|ready| ready.observed_generation < world.uplink.metadata.generation)
        && ready.is_some_and(|ready| ready.observed_generation.is_some());
    let stops_at = stop(world, &entries, &nodes, ready.filter(|_| !outdated));
    Explanation {
        uplink: name,
        ready: ready.map(|ready| condition_view(ready, None)),
        outdated,
        selected: selected.count(),
        resolved,
        entries,
        nodes,
        stops_at,
    }
}

fn entries(spec: &UplinkSpec, nodes: &[NodeRow]) -> Vec<EntryView> {
    let view = |(index, config): (usize, &NodeConfig)| {
        // Alone, so that one bad selector does not hide what the others select.
        let alone = NodeConfigs::parse(&UplinkSpec { node_configs: vec![config.clone()] });
        let (invalid, selected) = match alone {
            Err(error) => (Some(error.cause.to_string()), Vec::new()),
            Ok(parsed) => {
                let selects = |row: &&NodeRow| matches!(parsed.select(&row.labels), Selection::One(_));
                (None, nodes.iter().filter(selects).map(|row| row.name.clone()).collect())
            }
        };
        EntryView {
            index,
            type_: match &config.type_ {
                UplinkType::OvsBridge => "OVSBridge".to_owned(),
                UplinkType::Unknown(other) => other.clone(),
            },
            interface: config.host_interface_name.clone(),
            selector: selector_text(&config.node_selector),
            invalid,
            nodes: selected,
        }
    };
    spec.node_configs.iter().enumerate().map(view).collect()
}

/// A selector in kubectl's notation; `<all>` for one that selects every node.
fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let (key, values) = (&expression.key, expression.values.as_deref().unwrap_or_default().join(","));
        match expression.operator.as_str() {
            "Exists" if values.is_empty() => key.clone(),
            "DoesNotExist" if values.is_empty() => format!("!{key}"),
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            other => format!("{key} {other} ({values})"),
        }
    });
    let all: Vec<String> = labels.chain(expressions).collect();
    if all.is_empty() { "<all>".to_owned() } else { all.join(", ") }
}

/// One node; none if no entry selects it and there is no state of it.
fn node(world: &World, uplink: &str, row: &NodeRow, entries: &[EntryView]) -> Option<NodeView> {
    let selecting: Vec<&EntryView> = entries.iter().filter(|entry| entry.nodes.contains(&row.name)).collect();
    let name = StateName::of(uplink, &row.name);
    let state = world.states.iter().find(|state| state.metadata.name.as_deref() == Some(name.as_str()));
    if selecting.is_empty() && state.is_none() {
        return None;
    }
    let judged = judge(uplink, row, &selecting, state);
    let agents = world.agents.iter().filter(|agent| agent.node == row.name);
    let ours = state.filter(|state| is_of(state, uplink, &row.name));
    Some(NodeView {
        node: row.name.clone(),
        entries: selecting.iter().map(|entry| entry.index).collect(),
        state: name.to_string(),
        published: state.is_some(),
        found: ours.map(found).unwrap_or_default(),
        conditions: state.map(conditions).unwrap_or_default(),
        agents: agents.flat_map(|agent| agent_says(agent, uplink, ours)).collect(),
        rule: judged.rule,
        warnings: ours.map(|state| warnings(state, &row.name)).unwrap_or_default(),
        stops_at: judged.stop,
    })
}

/// A rule and what it stops.
struct Judged {
    rule: String,
    stop: Option<Stop>,
}

fn judge(uplink: &str, row: &NodeRow, selecting: &[&EntryView], state: Option<&UplinkState>) -> Judged {
    let node = row.name.as_str();
    let stop = |step, reason: &str, message: String, remedy: Remedy| {
        Some(Stop {
            step,
            node: Some(node.to_owned()),
            reason: reason.to_owned(),
            message,
            means: remedy.means.to_owned(),
            remedy: remedy.action.to_owned(),
        })
    };
    let (entry, others) = match selecting {
        [] => {
            let rule = "no entry selects the node; its state is left over and goes by itself".to_owned();
            return Judged { rule, stop: None };
        }
        [entry, others @ ..] => (entry, others),
    };
    if !others.is_empty() {
        let numbers: Vec<String> = selecting.iter().map(|entry| entry.index.to_string()).collect();
        let message = format!("entries {} all select node {node}", numbers.join(", "));
        let reason = UplinkReason::NodeSelectorOverlap;
        return Judged {
            rule: "at most one entry may select a node".to_owned(),
            stop: stop(Step::Selection, reason.as_str(), message, remedy::of_uplink(reason)),
        };
    }
    let Some(state) = state else {
        let reason = UplinkReason::MissingUplinkState;
        let message = format!("there is no UplinkState for node {node}");
        return Judged {
            rule: "every selected node has to publish an UplinkState".to_owned(),
            stop: stop(Step::State, reason.as_str(), message, remedy::of_uplink(reason)),
        };
    };
    if !is_of(state, uplink, node) {
        let reason = UplinkReason::UplinkStateIdentityError;
        let message = format!(
            "the object says uplinkName {:?} and nodeName {:?}",
            state.spec.uplink_name, state.spec.node_name
        );
        return Judged {
            rule: "what a state's spec says decides whose it is, not its name".to_owned(),
            stop: stop(Step::State, reason.as_str(), message, remedy::of_uplink(reason)),
        };
    }
    let (rule, stopped) = halves(entry, state);
    let stop = stopped.and_then(|(step, reason, message, remedy)| stop(step, &reason, message, remedy));
    Judged { rule, stop }
}

type Stopped = (Step, String, String, Remedy);

/// Which half stops, host first: the card's half rests on it.
fn halves(entry: &EntryView, state: &UplinkState) -> (String, Option<Stopped>) {
    let host = condition::find(state.conditions(), StateCondition::HostDataReady.as_str());
    let bridge = condition::find(state.conditions(), StateCondition::Resolved.as_str());
    let waiting = DiscoveryReason::WaitingForDpuHost.as_str();
    let stopped = |step, condition: &Condition| {
        let remedy = remedy::of_text(&condition.reason).unwrap_or(UNKNOWN);
        Some((step, condition.reason.clone(), condition.message.clone(), remedy))
    };
    let silent = |step, message: &str, remedy| Some((step, "Silent".to_owned(), message.to_owned(), remedy));
    match (host, bridge) {
        (Some(host), _) if !is_true(host) => (
            "the host's half comes first: the card looks for what it says".to_owned(),
            stopped(Step::Host, host),
        ),
        (None, Some(bridge)) if bridge.reason == waiting => (
            "the card needs the host's half".to_owned(),
            silent(Step::Host, &bridge.message, remedy::HOST_SILENT),
        ),
        (Some(_), None) => (
            "the host's half is there; the card decides".to_owned(),
            silent(Step::Bridge, "the condition Resolved is absent", remedy::CARD_SILENT),
        ),
        (None, None) => (
            "a state without conditions decides nothing".to_owned(),
            silent(
                Step::State,
                "the state has no conditions",
                remedy::of_uplink(UplinkReason::MissingUplinkState),
            ),
        ),
        (_, Some(bridge)) if !is_true(bridge) => {
            ("the condition Resolved decides".to_owned(), stopped(Step::Bridge, bridge))
        }
        (_, Some(bridge)) => {
            let published = state.status_or_default().host_interface_name.clone();
            if let Some(published) = published.filter(|published| *published != entry.interface) {
                let message =
                    format!("the state is about {published}, the Uplink's entry about {}", entry.interface);
                return (
                    "a state has to be about the interface that the entry names".to_owned(),
                    silent(Step::Host, &message, remedy::STALE),
                );
            }
            (format!("the condition Resolved is true: {}", bridge.message), None)
        }
    }
}

/// For a reason of a newer version.
const UNKNOWN: Remedy = Remedy {
    means: "this causewayctl does not know the reason",
    action: "read the message; a newer causewayctl knows more",
};

/// The first thing that keeps the Uplink from being ready.
fn stop(world: &World, entries: &[EntryView], nodes: &[NodeView], ready: Option<&Condition>) -> Option<Stop> {
    let of = |step, reason: UplinkReason, message: String| {
        let remedy = remedy::of_uplink(reason);
        Some(Stop {
            step,
            node: None,
            reason: reason.as_str().to_owned(),
            message,
            means: remedy.means.to_owned(),
            remedy: remedy.action.to_owned(),
        })
    };
    if let Some((index, cause)) =
        entries.iter().find_map(|entry| Some((entry.index, entry.invalid.as_ref()?)))
    {
        let message = format!("entry {index} has an invalid nodeSelector: {cause}");
        return of(Step::Spec, UplinkReason::InvalidSpec, message);
    }
    let selected = nodes.iter().filter(|node| !node.entries.is_empty());
    if let Some(stopped) = selected.clone().find_map(|node| node.stops_at.clone()) {
        return Some(stopped);
    }
    if world.only.is_some() && selected.count() > 0 {
        return None; // one node alone was asked about, and it is well
    }
    if entries.iter().all(|entry| entry.nodes.is_empty()) {
        let message = format!("none of {} node(s) is selected", world.nodes.len());
        return of(Step::Selection, UplinkReason::NoMatchingNodes, message);
    }
    if let Some(only) = &world.only {
        let message = format!("no entry selects node {only}");
        return of(Step::Selection, UplinkReason::NoMatchingNodes, message);
    }
    if world.uplink.metadata.deletion_timestamp.is_some() {
        return of(Step::Manager, UplinkReason::UplinkTerminating, "the Uplink is being deleted".to_owned());
    }
    if ready.is_some_and(is_true) {
        return None;
    }
    let (reason, message) = match ready {
        Some(ready) => (ready.reason.clone(), ready.message.clone()),
        None => ("Silent".to_owned(), "there is no Ready about the present spec".to_owned()),
    };
    let Remedy { means, action } = remedy::MANAGER_SILENT;
    let (means, remedy) = (means.to_owned(), action.to_owned());
    Some(Stop { step: Step::Manager, node: None, reason, message, means, remedy })
}

fn is_true(condition: &Condition) -> bool {
    condition.status == ConditionStatus::True.as_str()
}

fn is_of(state: &UplinkState, uplink: &str, node: &str) -> bool {
    state.spec.uplink_name == uplink && state.spec.node_name == node
}

/// What is told of the wire, and false conditions that this version does not know.
fn warnings(state: &UplinkState, node: &str) -> Vec<Stop> {
    let discovery = [StateCondition::HostDataReady, StateCondition::Resolved].map(StateCondition::as_str);
    let others = state.conditions().iter().filter(|one| !discovery.contains(&one.type_.as_str()));
    let bad = others.filter(|condition| !is_true(condition));
    bad.map(|condition| {
        let remedy = remedy::of_text(&condition.reason).unwrap_or(UNKNOWN);
        Stop {
            step: Step::Link,
            node: Some(node.to_owned()),
            reason: condition.reason.clone(),
            message: format!("{}: {}", condition.type_, condition.message),
            means: remedy.means.to_owned(),
            remedy: remedy.action.to_owned(),
        }
    })
    .collect()
}

fn found(state: &UplinkState) -> Vec<(&'static str, String)> {
    let status = state.status_or_default();
    let function = status.host_function.map(|function| {
        let vf = function.vf_id.map(|vf| format!("vf{vf}")).unwrap_or_default();
        format!("pf{}{vf}", function.pf_id)
    });
    let list = |items: &[String]| (!items.is_empty()).then(|| items.join(" "));
    let facts = [
        ("interface", status.host_interface_name.clone()),
        ("mac", status.mac_address.clone()),
        ("addresses", list(&status.ip_addresses)),
        ("gateways", list(&status.default_gateways)),
        ("function", function),
        ("bridge", status.ovs_bridge.as_ref().and_then(|bridge| bridge.name.clone())),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
}

fn conditions(state: &UplinkState) -> Vec<ConditionView> {
    state.conditions().iter().map(|one| condition_view(one, writer(state, &one.type_))).collect()
}

fn condition_view(condition: &Condition, written: Option<(Timestamp, String)>) -> ConditionView {
    ConditionView {
        type_: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: condition.last_transition_time.0,
        written,
    }
}

/// Which field manager holds a condition, and when it wrote last.
fn writer(state: &UplinkState, type_: &str) -> Option<(Timestamp, String)> {
    let key = format!(r#"k:{{"type":"{type_}"}}"#);
    let managers = state.metadata.managed_fields.iter().flatten();
    let holder = managers.clone().find(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let conditions = fields.and_then(|fields| fields.get("f:status")?.get("f:conditions"));
        conditions.is_some_and(|conditions| conditions.get(&key).is_some())
    })?;
    Some((holder.time.as_ref()?.0, holder.manager.clone()?))
}

/// What an agent says about the node's state, where it differs from the state or from what is good.
fn agent_says(agent: &AgentView, uplink: &str, state: Option<&UplinkState>) -> Vec<String> {
    let who = &agent.program;
    let mut said: Vec<String> = agent.notes.iter().map(|note| format!("{who}: {note}")).collect();
    let broken = agent.stores.iter().filter(|store| !store.ready);
    said.extend(broken.map(|store| format!("{who}: {} is not ready: {}", store.name, store.reason)));
    let Some(view) = agent.uplink(uplink) else {
        said.push(format!("{who}: has not heard of this Uplink"));
        return said;
    };
    let detail = if view.detail.is_empty() { String::new() } else { format!(" ({})", view.detail) };
    said.push(format!("{who}: {}{detail}, {} passes, {} writes", view.decision, view.passes, view.writes));
    if let Some(failure) = &view.failure {
        said.push(format!("{who}: last error: {}", failure.message));
    }
    if let Some(verdict) = &view.verdict {
        let published =
            state.and_then(|state| condition::find(state.conditions(), &verdict.condition)).is_some_and(
                |condition| is_true(condition) == verdict.holds && condition.reason == verdict.reason,
            );
        if !published {
            said.push(format!(
                "{who}: says {}={}/{}, which is not (yet) in the state",
                verdict.condition,
                if verdict.holds { "True" } else { "False" },
                verdict.reason
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests;
