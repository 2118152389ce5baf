//! An agent's answer as `causewayctl` shows it: the contract's messages with times and decisions as text.

use std::collections::BTreeMap;
use std::path::Path;

use causeway_proto::introspect::{self, Decision, DescribeResponse};
use causeway_proto::skew::{self, Skew};
use jiff::Timestamp;
use serde::Serialize;

use super::guard::{IsolationView, KubeletView};
use super::topology::TopologyView;

/// The sections that this version can show.
const KNOWN_SECTIONS: &[&str] = &["uplinks", "kubelet", "isolation", "topology"];

/// What one agent says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Socket that was asked.
    pub socket: String,
    /// Program: `host-agent`, `dpu-agent` or `node-agent`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Its part of the node's work.
    pub role: String,
    /// The Node that it serves.
    pub node: String,
    /// Process id in its own namespace.
    pub pid: u32,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it answered.
    pub taken: Option<Timestamp>,
    /// What to keep in mind when reading: another version, sections that are not shown.
    pub notes: Vec<String>,
    /// What it observes.
    pub stores: Vec<StoreView>,
    /// What it decided about Uplinks; none if it has no discovery.
    pub uplinks: Option<Vec<UplinkView>>,
    /// What it could choose from.
    pub candidates: Vec<CandidateView>,
    /// How the kubelet is told apart; none if it does not isolate pods.
    pub kubelet: Option<KubeletView>,
    /// Which pods it isolates; none if it does not.
    pub isolation: Option<IsolationView>,
    /// Which networks it writes to OVN; none if it writes none.
    pub topology: Option<TopologyView>,
}

/// One thing that an agent observes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreView {
    /// Name.
    pub name: String,
    /// Whether what it holds is complete and current.
    pub ready: bool,
    /// Why not.
    pub reason: String,
    /// How many objects it holds.
    pub objects: Option<u64>,
}

/// What an agent decided about one Uplink.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UplinkView {
    /// The Uplink.
    pub name: String,
    /// What the agent does about it.
    pub decision: &'static str,
    /// More about that.
    pub detail: String,
    /// Interface that it looks at.
    pub interface: Option<String>,
    /// What its answer rests on.
    pub rests_on: Vec<String>,
    /// MAC, addresses, gateways and function of the interface, as it sees them.
    pub host: BTreeMap<&'static str, String>,
    /// Bridge that it found.
    pub bridge: Option<String>,
    /// What it says in its condition.
    pub verdict: Option<VerdictView>,
    /// Why its last pass did not end well.
    pub failure: Option<FailureView>,
    /// When its last pass ended.
    pub last_pass: Option<Timestamp>,
    /// Passes since it started.
    pub passes: u64,
    /// Writes since it started.
    pub writes: u64,
    /// When its last write succeeded.
    pub last_write: Option<Timestamp>,
}

/// What an agent says in its condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictView {
    /// Type of the condition.
    pub condition: String,
    /// Whether it is true.
    pub holds: bool,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// Why a pass did not end well.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureView {
    /// What went wrong.
    pub message: String,
    /// What happens next.
    pub retry: String,
    /// When.
    pub at: Option<Timestamp>,
}

/// Something that an agent could choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CandidateView {
    /// What it is.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Facts about it.
    pub facts: BTreeMap<String, String>,
}

impl AgentView {
    /// The view of an answer that came over `socket`.
    #[must_use]
    pub fn of(socket: &Path, answer: DescribeResponse) -> Self {
        let agent = answer.agent.unwrap_or_default();
        let mut notes: Vec<String> =
            version_note(env!("CARGO_PKG_VERSION"), &agent.version).into_iter().collect();
        let unknown = answer.sections.iter().filter(|name| !KNOWN_SECTIONS.contains(&name.as_str()));
        notes.extend(unknown.map(|name| {
            format!("the agent tells about {name} too, which this causewayctl is too old to show")
        }));
        let (uplinks, candidates) = match answer.uplinks {
            Some(section) => {
                let candidates = section.candidates.into_iter().map(|candidate| CandidateView {
                    kind: candidate.kind,
                    name: candidate.name,
                    facts: candidate.facts,
                });
                let candidates = candidates.collect();
                (Some(section.uplinks.into_iter().map(UplinkView::of).collect()), candidates)
            }
            None => (None, Vec::new()),
        };
        Self {
            socket: socket.display().to_string(),
            program: agent.program,
            version: agent.version,
            role: agent.role,
            node: agent.node,
            pid: agent.pid,
            started: time(agent.started_unix_ms),
            taken: time(answer.taken_unix_ms),
            notes,
            stores: answer.stores.into_iter().map(StoreView::of).collect(),
            uplinks,
            candidates,
            kubelet: answer.kubelet.map(KubeletView::of),
            isolation: answer.isolation.map(IsolationView::of),
            topology: answer.topology.map(TopologyView::of),
        }
    }

    /// What it says about one Uplink.
    #[must_use]
    pub fn uplink(&self, name: &str) -> Option<&UplinkView> {
        self.uplinks.iter().flatten().find(|uplink| uplink.name == name)
    }
}

/// What to keep in mind when versions differ.
fn version_note(ours: &str, theirs: &str) -> Option<String> {
    let (Ok(our), Ok(their)) = (ours.parse(), theirs.parse()) else {
        return Some(format!(
            "the agent's version {theirs:?} cannot be compared with this causewayctl's {ours}"
        ));
    };
    match skew::between(our, their) {
        Skew::Same => None,
        Skew::OneStep => Some(format!(
            "the agent has version {theirs}, this causewayctl {ours}: what only one of them knows is not shown"
        )),
        Skew::Unsupported => Some(format!(
            "the agent has version {theirs}, this causewayctl {ours}: more than one minor version apart, the answer may be incomplete"
        )),
    }
}

impl StoreView {
    fn of(store: introspect::Store) -> Self {
        let introspect::Store { name, ready, reason, objects } = store;
        Self { name, ready, reason, objects }
    }
}

impl UplinkView {
    fn of(uplink: introspect::Uplink) -> Self {
        let decision = decision(uplink.decision());
        let rests_on = uplink.rests_on.unwrap_or_default();
        let mut grounds = Vec::new();
        grounds.extend(rests_on.interface.map(|name| format!("interface {name}")));
        grounds.extend(rests_on.bridge.map(|name| format!("bridge {name}")));
        if uplink.verdict.is_some() && !rests_on.complete {
            grounds.push("everything that changes".to_owned());
        }
        let host = uplink.host.map(host).unwrap_or_default();
        Self {
            name: uplink.name,
            decision,
            detail: uplink.decision_detail,
            interface: uplink.interface,
            rests_on: grounds,
            host,
            bridge: uplink.bridge,
            verdict: uplink.verdict.map(|verdict| VerdictView {
                condition: verdict.condition,
                holds: verdict.holds,
                reason: verdict.reason,
                message: verdict.message,
                since: time(verdict.since_unix_ms),
            }),
            failure: uplink.failure.map(|failure| FailureView {
                message: failure.message,
                retry: failure.retry,
                at: time(failure.at_unix_ms),
            }),
            last_pass: time(uplink.last_pass_unix_ms),
            passes: uplink.passes,
            writes: uplink.writes,
            last_write: uplink.last_write_unix_ms.and_then(time),
        }
    }
}

fn host(host: introspect::HostData) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::from([
        ("mac", host.mac),
        ("addresses", host.addresses.join(" ")),
        ("gateways", host.gateways.join(" ")),
    ]);
    facts.extend(host.function.map(|function| ("function", function)));
    facts
}

fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Unspecified => "unknown",
        Decision::NotSelected => "not selected",
        Decision::ForeignState => "foreign state",
        Decision::NodeMissing => "node missing",
        Decision::Delete => "delete state",
        Decision::Discover => "discover",
        Decision::Refuse => "refuse",
        Decision::Unreadable => "unreadable",
    }
}

/// Zero is how the contract says that there is no time.
fn time(unix_ms: i64) -> Option<Timestamp> {
    (unix_ms != 0).then(|| Timestamp::from_millisecond(unix_ms).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(version: &str, sections: &[&str]) -> AgentView {
        let agent = introspect::Agent { version: version.into(), ..introspect::Agent::default() };
        let sections = sections.iter().map(|&name| name.to_owned()).collect();
        AgentView::of(
            Path::new("/run/a.sock"),
            DescribeResponse { agent: Some(agent), sections, ..DescribeResponse::default() },
        )
    }

    #[test]
    fn an_agent_of_another_version_is_shown_with_a_note() {
        let ours = env!("CARGO_PKG_VERSION");
        assert_eq!(view(ours, &["uplinks"]).notes, Vec::<String>::new());
        assert!(view("0.2.0", &[]).notes[0].contains("what only one of them knows is not shown"));
        assert!(view("0.9.0", &[]).notes[0].contains("more than one minor version apart"));
        assert!(view("banana", &[]).notes[0].contains("cannot be compared"));
    }

    #[test]
    fn a_section_from_the_future_is_named_and_a_missing_one_is_not_an_empty_one() {
        let newer = view(env!("CARGO_PKG_VERSION"), &["uplinks", "gateways"]);
        assert_eq!(newer.notes.len(), 1);
        assert!(newer.notes[0].contains("tells about gateways too"));
        assert_eq!(newer.uplinks, None);
    }

    #[test]
    fn a_decision_from_the_future_is_unknown() {
        let uplink = introspect::Uplink { decision: 99, ..introspect::Uplink::default() };
        assert_eq!(UplinkView::of(uplink).decision, "unknown");
    }
}
