//! The section `uplinks`: what discovery sees and decided.

use causeway_api::condition::ConditionStatus;
use causeway_api::uplink_state::UplinkStateStatus;
use causeway_net::lifecycle::{self, Next, World};
use causeway_net::publish::{Findings, Half};
use causeway_net::role::Role;
use causeway_net::state_name::StateName;
use causeway_proto::introspect::{
    Candidate, Decision, DescribeRequest, DescribeResponse, HostData, PassFailure, RestsOn, Store, Uplink,
    UplinkSection, Verdict,
};
use causeway_runtime::engine::Retry;
use causeway_runtime::watch::{self, Lookup};
use jiff::Timestamp;

use super::ledger::{Entry, Ledger};
use super::{Section, store};
use crate::half::RelyOn;
use crate::stores::Stores;

/// What a side could choose from.
type Candidates = Box<dyn Fn() -> Vec<Candidate> + Send + Sync>;

/// Tells about discovery.
pub struct UplinkRoom {
    node: String,
    role: Role,
    stores: Stores,
    ledger: Ledger,
    candidates: Vec<Candidates>,
}

impl UplinkRoom {
    pub(crate) fn new(node: &str, role: Role, stores: Stores, ledger: Ledger) -> Self {
        Self { node: node.to_owned(), role, stores, ledger, candidates: Vec::new() }
    }

    /// Tells also what this side could choose from; asked when somebody wants to know.
    #[must_use]
    pub fn candidates(mut self, seen: impl Fn() -> Vec<Candidate> + Send + Sync + 'static) -> Self {
        self.candidates.push(Box::new(seen));
        self
    }

    /// What is decided now, from the newest snapshots: the same rule that the passes follow.
    fn decision(&self, uplink: &str) -> (Decision, String, Option<causeway_net::publish::Failure>) {
        let (uplinks, nodes, states) =
            (self.stores.uplinks.snapshot(), self.stores.node.snapshot(), self.stores.states.snapshot());
        let name = StateName::of(uplink, &self.node);
        let found = (uplinks.lookup(uplink), nodes.lookup(&self.node), states.lookup(name.as_str()));
        for (kind, lookup) in
            [("Uplink", told(&found.0)), ("Node", told(&found.1)), ("UplinkState", told(&found.2))]
        {
            if let Some(cause) = lookup {
                return (Decision::Unreadable, format!("{kind} cannot be read: {cause}"), None);
            }
        }
        let world = World {
            role: self.role,
            uplink_name: uplink,
            node_name: &self.node,
            uplink: present(&found.0),
            node: present(&found.1),
            state: present(&found.2),
        };
        match lifecycle::next(&world) {
            Next::Nothing => (Decision::NotSelected, String::new(), None),
            Next::ForeignState(foreign) => (Decision::ForeignState, foreign.to_string(), None),
            Next::NodeMissing => {
                (Decision::NodeMissing, format!("there is no Node named {}", self.node), None)
            }
            Next::Delete { .. } => (Decision::Delete, String::new(), None),
            Next::Discover { .. } => (Decision::Discover, String::new(), None),
            Next::Refuse { failure, .. } => (Decision::Refuse, failure.to_string(), Some(failure)),
        }
    }

    fn uplink(&self, name: String, entry: Entry) -> Uplink {
        let (decision, decision_detail, refused) = self.decision(&name);
        let mut uplink = Uplink {
            name,
            decision: decision.into(),
            decision_detail,
            failure: entry.failure.map(|failure| PassFailure {
                message: failure.message,
                retry: retry(failure.retry).to_owned(),
                at_unix_ms: failure.at.as_millisecond(),
            }),
            last_pass_unix_ms: entry.last_pass.as_millisecond(),
            passes: entry.passes,
            writes: entry.writes,
            last_write_unix_ms: entry.last_write.map(Timestamp::as_millisecond),
            ..Uplink::default()
        };
        match (refused, entry.answer) {
            (Some(failure), _) => {
                uplink.verdict = Some(self.verdict(Findings::failed(failure), entry.last_pass));
            }
            (None, Some(answer)) if decision == Decision::Discover => {
                let RelyOn { interface, bridge, complete, .. } = answer.relied_on;
                uplink.interface = Some(answer.interface);
                uplink.rests_on = Some(RestsOn { interface, bridge, complete });
                uplink.host = answer.findings.host.as_ref().map(host_data);
                uplink.bridge.clone_from(&answer.findings.bridge);
                uplink.verdict = Some(self.verdict(answer.findings, answer.since));
            }
            (None, _) => {}
        }
        uplink
    }

    /// The condition that these findings make.
    fn verdict(&self, findings: Findings, since: Timestamp) -> Verdict {
        let half = Half::new(self.role, None, &UplinkStateStatus::default(), findings);
        let condition = half.condition();
        Verdict {
            condition: condition.type_.to_owned(),
            holds: condition.status == ConditionStatus::True,
            reason: condition.reason.to_owned(),
            message: condition.message.clone(),
            since_unix_ms: since.as_millisecond(),
        }
    }
}

impl Section for UplinkRoom {
    fn name(&self) -> &'static str {
        "uplinks"
    }

    fn stores(&self) -> Vec<Store> {
        fn api<T: PartialEq>(kind: &str, objects: &watch::Store<String, T>) -> Store {
            let ready = objects.readiness().map_err(|error| error.to_string());
            store(kind, ready, u64::try_from(objects.snapshot().len()).ok())
        }
        let Stores { uplinks, states, node, .. } = &self.stores;
        vec![api("api/Uplink", uplinks), api("api/UplinkState", states), api("api/Node", node)]
    }

    fn describe(&self, request: &DescribeRequest, answer: &mut DescribeResponse) {
        let mut entries = self.ledger.entries();
        // Uplinks that no pass has looked at yet belong to the picture too.
        let snapshot = self.stores.uplinks.snapshot();
        let names = snapshot.iter().map(|(name, _)| name).chain(snapshot.unreadable().map(|(name, _)| name));
        for name in names {
            entries.entry(name.clone()).or_default();
        }
        if let Some(only) = &request.uplink {
            entries.retain(|name, _| name == only);
        }
        answer.uplinks = Some(UplinkSection {
            uplinks: entries.into_iter().map(|(name, entry)| self.uplink(name, entry)).collect(),
            candidates: self.candidates.iter().flat_map(|seen| seen()).collect(),
        });
    }
}

fn told<'l, T>(lookup: &Lookup<'l, T>) -> Option<&'l str> {
    match lookup {
        Lookup::Unreadable(cause) => Some(cause),
        Lookup::Present(_) | Lookup::Absent => None,
    }
}

fn present<'l, T>(lookup: &'l Lookup<'_, T>) -> Option<&'l T> {
    match lookup {
        Lookup::Present(object) => Some(object.as_ref()),
        Lookup::Unreadable(_) | Lookup::Absent => None,
    }
}

fn host_data(host: &causeway_net::host_data::HostData) -> HostData {
    HostData {
        mac: host.mac.to_string(),
        addresses: host.addresses.iter().map(ToString::to_string).collect(),
        gateways: host.gateways.iter().map(ToString::to_string).collect(),
        function: host.function.map(|function| function.to_string()),
    }
}

fn retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Backoff => "backoff",
        Retry::Never => "event",
        Retry::After(_) => "after",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use causeway_api::uplink::{NodeConfig, UplinkSpec, UplinkType};
    use causeway_net::facts::{NodeFacts, UplinkFacts};
    use causeway_net::selection::NodeConfigs;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    use super::*;
    use crate::introspect::Introspection;

    fn uplink(name: &str, label: &str, entries: usize) -> (String, UplinkFacts) {
        let selector = LabelSelector {
            match_labels: Some(BTreeMap::from([("side".to_owned(), label.to_owned())])),
            match_expressions: None,
        };
        let config = NodeConfig {
            type_: UplinkType::OvsBridge,
            node_selector: selector,
            host_interface_name: "eth1".into(),
        };
        let configs = NodeConfigs::parse(&UplinkSpec { node_configs: vec![config; entries] });
        (name.into(), UplinkFacts { name: name.into(), uid: "u".into(), terminating: false, configs })
    }

    fn describe(request: &DescribeRequest) -> DescribeResponse {
        let labels = BTreeMap::from([("side".to_owned(), "left".to_owned())]);
        let node = NodeFacts::of("node-a", labels, &BTreeMap::new());
        let stores = Stores {
            uplinks: watch::Store::fixed(
                "Uplink",
                [uplink("blue", "left", 1), uplink("green", "left", 2), uplink("red", "right", 1)],
            ),
            states: watch::Store::fixed("UplinkState", []),
            node: watch::Store::fixed("Node", [("node-a".to_owned(), node)]),
        };
        let room = UplinkRoom::new("node-a", Role::Dpu, stores, Ledger::default()).candidates(|| {
            vec![Candidate { kind: "bridge".into(), name: "br-one".into(), ..Candidate::default() }]
        });
        Introspection::new(Role::Dpu, "node-a")
            .section(room)
            .store("ovsdb", || Err("away".to_owned()))
            .describe(request)
    }

    #[test]
    fn every_uplink_is_told_with_what_is_decided_about_it() {
        let answer = describe(&DescribeRequest::default());
        let uplinks = answer.uplinks.unwrap();
        let decisions: Vec<_> =
            uplinks.uplinks.iter().map(|uplink| (uplink.name.as_str(), uplink.decision())).collect();
        assert_eq!(
            decisions,
            [("blue", Decision::Discover), ("green", Decision::Refuse), ("red", Decision::NotSelected)]
        );
        let verdict = uplinks.uplinks[1].verdict.clone().unwrap();
        assert_eq!(
            (verdict.condition.as_str(), verdict.reason.as_str()),
            ("Resolved", "NodeSelectorOverlap")
        );
        assert_eq!(uplinks.candidates[0].name, "br-one");
        assert_eq!(answer.sections, ["uplinks"]);
    }

    #[test]
    fn one_uplink_alone_can_be_asked_for() {
        let answer = describe(&DescribeRequest { uplink: Some("red".into()), ..DescribeRequest::default() });
        assert_eq!(answer.uplinks.unwrap().uplinks.len(), 1);
    }

    #[test]
    fn stores_say_whether_they_are_ready_and_why_not() {
        let answer = describe(&DescribeRequest::default());
        let stores: Vec<_> =
            answer.stores.iter().map(|store| (store.name.as_str(), store.ready, store.objects)).collect();
        assert_eq!(
            stores,
            [
                ("api/Uplink", true, Some(3)),
                ("api/UplinkState", true, Some(0)),
                ("api/Node", true, Some(1)),
                ("ovsdb", false, None)
            ]
        );
        assert_eq!(answer.stores[3].reason, "away");
        assert_eq!(answer.agent.unwrap().program, "dpu-agent");
    }
}
