//! What has to be written so that a Node tells the facts. Pure.

use std::collections::BTreeMap;

use causeway_api::annotation::NODE_CHASSIS_ID;
use causeway_api::annotation::node::LAYER2_TOPOLOGY_VERSION;
use serde_json::{Value, json};

use super::Facts;
use super::view::NodeView;

/// Annotations that may not be allowed to change once they are set, as upstream's webhook for node identities holds it.
/// Source: ovn-kubernetes, `ovnwebhook/nodeadmission.go`.
const FIXED: [&str; 2] = [NODE_CHASSIS_ID, LAYER2_TOPOLOGY_VERSION];

/// Annotations to write, in requests that do not depend on each other: one that is refused keeps no other fact away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// What anybody in charge may write.
    pub free: Annotations,
    /// A change of what may be fixed.
    pub fixed: Annotations,
}

/// Annotations by key; none removes one.
pub type Annotations = BTreeMap<&'static str, Option<String>>;

impl Change {
    /// What of the facts the Node does not hold.
    #[must_use]
    pub fn between(facts: &Facts, node: &NodeView) -> Self {
        let mut change = Self::default();
        for (key, wanted) in &facts.annotations {
            let have = node.annotations.get(*key);
            if have == wanted.as_ref() {
                continue;
            }
            let is_refusable = FIXED.contains(key) && have.is_some();
            let part = if is_refusable { &mut change.fixed } else { &mut change.free };
            part.insert(key, wanted.clone());
        }
        change
    }

    /// The parts that have something in them.
    pub fn requests(self) -> impl Iterator<Item = Annotations> {
        [self.free, self.fixed].into_iter().filter(|part| !part.is_empty())
    }
}

/// The request's body. Each annotation has one writer, so nothing else on the Node matters but that it is the same Node.
#[must_use]
pub fn patch(node: &NodeView, annotations: &Annotations) -> Value {
    json!({"metadata": {"uid": node.uid, "annotations": annotations}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotations: &[(&str, &str)]) -> NodeView {
        let annotations = annotations.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        NodeView { uid: "u".into(), annotations: annotations.collect(), ..NodeView::default() }
    }

    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.tell("k8s.ovn.org/host-cidrs", "[]");
        facts.tell(NODE_CHASSIS_ID, "c1");
        facts.remove("k8s.ovn.org/gateway-mtu-support");
        facts
    }

    #[test]
    fn only_what_differs_is_written_and_a_node_that_tells_the_facts_is_left_alone() {
        let change = Change::between(&facts(), &node(&[("k8s.ovn.org/node-id", "2")]));
        let written: Vec<_> = change.clone().requests().collect();
        assert_eq!(written.len(), 1);
        let patch = patch(&node(&[]), &written[0]);
        let annotations = json!({"k8s.ovn.org/host-cidrs": "[]", "k8s.ovn.org/node-chassis-id": "c1"});
        assert_eq!(patch, json!({"metadata": {"uid": "u", "annotations": annotations}}));
        let told = node(&[("k8s.ovn.org/host-cidrs", "[]"), (NODE_CHASSIS_ID, "c1"), ("other", "kept")]);
        assert_eq!(Change::between(&facts(), &told), Change::default());
    }

    #[test]
    fn an_annotation_that_should_not_be_there_is_removed() {
        let mut told = node(&[("k8s.ovn.org/host-cidrs", "[]"), (NODE_CHASSIS_ID, "c1")]);
        told.annotations.insert("k8s.ovn.org/gateway-mtu-support".into(), "false".into());
        let change = Change::between(&facts(), &told);
        assert_eq!(change.free, [("k8s.ovn.org/gateway-mtu-support", None)].into());
        let patch = patch(&told, &change.free);
        assert_eq!(patch["metadata"]["annotations"]["k8s.ovn.org/gateway-mtu-support"], Value::Null);
    }

    #[test]
    fn a_change_of_what_may_be_fixed_is_a_request_of_its_own() {
        let change = Change::between(&facts(), &node(&[(NODE_CHASSIS_ID, "other")]));
        assert_eq!(change.fixed, [(NODE_CHASSIS_ID, Some("c1".to_owned()))].into());
        assert_eq!(change.free, [("k8s.ovn.org/host-cidrs", Some("[]".to_owned()))].into());
        assert_eq!(change.requests().count(), 2);
    }
}
