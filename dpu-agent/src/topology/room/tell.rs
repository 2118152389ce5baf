//! What people are told: Events on the Node or the NetworkAttachmentDefinition that something is wrong with, and a line of
//! the log, each once for as long as it is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_api::network_condition::NetworkEvent;
use causeway_net::network::name::{NadKey, NodeName};
use causeway_runtime::events::{Happening, Recorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{info, warn};

use super::inbox::Key;

/// Reason of Events on Nodes. Source: ovn-kubernetes `base_network_controller.go`, `recordNodeErrorEvent`.
const NODE_REASON: &str = "ErrorReconcilingNode";

/// An object that something is wrong with. The order is of no meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A node.
    Node {
        /// Its name.
        name: NodeName,
        /// Its uid; empty where it is not known.
        uid: Box<str>,
    },
    /// A NetworkAttachmentDefinition.
    Nad {
        /// Its key.
        key: NadKey,
        /// Its uid.
        uid: Box<str>,
    },
    /// None: the log has it, and somebody else tells the object's owner.
    Log,
    /// None, and nothing is wrong: the log has it for whoever wonders.
    Remark,
}

/// Something that is wrong.
pub(super) type Said = (Subject, String);

/// Tells. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    recorder: Recorder,
    said: Arc<Mutex<Record>>,
}

#[derive(Debug, Default)]
struct Record {
    by_key: BTreeMap<Key, BTreeSet<Said>>,
    /// How many keys say the same.
    counts: BTreeMap<Said, usize>,
}

impl Record {
    /// What is wrong from the point of view of one key; returns what nobody said before, and what nobody says any more.
    fn set(&mut self, key: &Key, now: &BTreeSet<Said>) -> (Vec<Said>, Vec<Said>) {
        let before = if now.is_empty() {
            self.by_key.remove(key).unwrap_or_default()
        } else {
            self.by_key.insert(key.clone(), now.clone()).unwrap_or_default()
        };
        let (mut new, mut over) = (Vec::new(), Vec::new());
        for said in now.difference(&before) {
            let count = self.counts.entry(said.clone()).or_default();
            *count += 1;
            if *count == 1 {
                new.push(said.clone());
            }
        }
        for said in before.difference(now) {
            let Some(count) = self.counts.get_mut(said) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(said);
                over.push(said.clone());
            }
        }
        (new, over)
    }
}

impl Voice {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, said: Arc::default() }
    }

    /// What is wrong now from the point of view of one key: what is new is told.
    pub(super) fn set(&self, key: &Key, now: &BTreeSet<Said>) {
        let (new, over) = self.said.lock().unwrap_or_else(PoisonError::into_inner).set(key, now);
        for (subject, note) in new {
            if subject == Subject::Remark {
                info!(what = %key, remark = note, "Topology goes without something");
                continue;
            }
            warn!(what = %key, problem = note, "Topology cannot be as it should");
            self.record(subject, note);
        }
        for (subject, note) in over {
            if subject == Subject::Remark {
                info!(what = %key, remark = note, "No longer so");
                continue;
            }
            info!(what = %key, problem = note, "Problem of the topology is over");
        }
    }

    fn record(&self, subject: Subject, note: String) {
        let (regarding, reason) = match subject {
            Subject::Log | Subject::Remark => return,
            Subject::Node { name, uid } => (
                ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Node".to_owned()),
                    name: Some(name.to_string()),
                    uid: Some(uid.to_string()).filter(|uid| !uid.is_empty()),
                    ..ObjectReference::default()
                },
                NODE_REASON,
            ),
            Subject::Nad { key, uid } => (
                ObjectReference {
                    api_version: Some("k8s.cni.cncf.io/v1".to_owned()),
                    kind: Some("NetworkAttachmentDefinition".to_owned()),
                    namespace: Some(key.namespace().as_str().to_owned()),
                    name: Some(key.name().to_owned()),
                    uid: Some(uid.to_string()).filter(|uid| !uid.is_empty()),
                    ..ObjectReference::default()
                },
                NetworkEvent::InvalidConfig.as_str(),
            ),
        };
        self.recorder.record(Happening {
            regarding,
            related: None,
            severity: Severity::Warning,
            reason: reason.to_owned(),
            action: "WriteTopology",
            note,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_networks_meet_is_told_once_and_again_after_it_was_over() {
        let mut record = Record::default();
        let (blue, red) = (Key::Network("blue".into()), Key::Network("red".into()));
        let said = |note: &str| (Subject::Node { name: "n2".into(), uid: "u".into() }, note.to_owned());
        let now = |notes: &[&str]| notes.iter().map(|note| said(note)).collect::<BTreeSet<_>>();
        let new = |notes: &[&str]| notes.iter().map(|note| said(note)).collect::<Vec<_>>();
        assert_eq!(record.set(&blue, &now(&["no id"])), (new(&["no id"]), vec![]));
        assert_eq!(record.set(&red, &now(&["no id"])), (vec![], vec![]));
        assert_eq!(record.set(&red, &now(&["no id", "other"])), (new(&["other"]), vec![]));
        assert_eq!(record.set(&blue, &now(&[])), (vec![], vec![]));
        assert_eq!(record.set(&red, &now(&[])), (vec![], new(&["no id", "other"])));
        assert_eq!(record.set(&blue, &now(&["no id"])), (new(&["no id"]), vec![]));
    }
}
