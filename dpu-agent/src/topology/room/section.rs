//! The section `topology` of what an agent tells about itself.

use causeway_agent::introspect::Section;
use causeway_proto::introspect::{
    DescribeRequest, DescribeResponse, Store, TopologyNetwork, TopologyPart, TopologySection,
};

use super::ledger::{Ledger, Standing};

/// Whether something is as it should be, and why not.
pub(super) type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Tells which networks have their rows.
pub struct TopologyRoomSection {
    pub(super) ledger: Ledger,
    /// The databases by name.
    pub(super) stores: Vec<(&'static str, Check)>,
    /// Whether there is meant to be an OVN. Databases of a machine without one are nobody's trouble.
    pub(super) is_meant: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether everything is known that rows are made of.
    pub(super) ready: Check,
}

impl Section for TopologyRoomSection {
    fn name(&self) -> &'static str {
        "topology"
    }

    fn stores(&self) -> Vec<Store> {
        let told = |(name, check): &(&'static str, Check)| {
            let reason = check().err();
            Store {
                name: (*name).to_owned(),
                ready: reason.is_none(),
                reason: reason.unwrap_or_default(),
                objects: None,
            }
        };
        let stores = self.stores.iter().filter(|_| (self.is_meant)());
        stores.map(told).collect()
    }

    fn describe(&self, request: &DescribeRequest, answer: &mut DescribeResponse) {
        // Before the lock: readiness asks the ledger too.
        let reason = (self.ready)().err().unwrap_or_default();
        let book = self.ledger.lock();
        let incomplete = book.networks.iter().filter(|(_, standing)| !standing.is_whole());
        let asked = |name: &str| request.network.as_deref() == Some(name);
        let described =
            book.networks.iter().filter(|(name, standing)| !standing.is_whole() || asked(name.as_str()));
        answer.topology = Some(TopologySection {
            reason,
            networks: count(book.networks.len()),
            incomplete: count(incomplete.count()),
            described: described.map(|(name, standing)| network(name.as_str(), standing)).collect(),
            problems: book.others.values().cloned().collect(),
        });
    }
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

fn network(name: &str, standing: &Standing) -> TopologyNetwork {
    let parts = standing.problems.iter().map(|(part, problem)| TopologyPart {
        name: part.to_string(),
        reason: problem.to_string(),
        waits: problem.is_quiet(),
    });
    TopologyNetwork {
        name: name.to_owned(),
        id: standing.id,
        reason: standing.why.clone().unwrap_or_default(),
        parts: parts.collect(),
        transactions: standing.transactions,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::node::Untold;
    use super::super::super::plan::{Part, PlanError};
    use super::super::super::write::Parts;
    use super::*;

    #[test]
    fn networks_that_lack_rows_are_described_and_others_when_they_are_asked_for() {
        let ledger = Ledger::default();
        let mut waits = Standing { id: Some(1), ..Standing::default() };
        let cause = Untold::Missing("k8s.ovn.org/node-chassis-id");
        waits.take(&Parts::all(), [(Part::Node, PlanError::Node { node: "n1".into(), cause })].into());
        ledger.lock().networks.insert("blue".into(), waits);
        ledger.lock().networks.insert("red".into(), Standing::default());
        let mut section = TopologyRoomSection {
            is_meant: Box::new(|| true),
            ready: {
                let ledger = ledger.clone();
                Box::new(move || ledger.readiness())
            },
            ledger,
            stores: vec![("northbound", Box::new(|| Err("away".to_owned())))],
        };
        let describe = |network: Option<&str>| {
            let request =
                DescribeRequest { network: network.map(str::to_owned), ..DescribeRequest::default() };
            let mut answer = DescribeResponse::default();
            section.describe(&request, &mut answer);
            answer.topology.unwrap()
        };
        let told = describe(None);
        assert_eq!((told.networks, told.incomplete, told.described.len()), (2, 1, 1));
        assert_eq!(told.reason, "networks are not known yet");
        let part = &told.described[0].parts[0];
        let want = ("node", "node n1: annotation k8s.ovn.org/node-chassis-id is missing", true);
        assert_eq!((part.name.as_str(), part.reason.as_str(), part.waits), want);
        let names = |section: TopologySection| section.described.into_iter().map(|network| network.name);
        assert_eq!(names(describe(Some("red"))).collect::<Vec<_>>(), ["blue", "red"]);
        assert_eq!(section.stores()[0].reason, "away");
        section.is_meant = Box::new(|| false);
        assert_eq!(section.stores(), [], "a machine without OVN misses nothing");
    }
}
