//! Events: what somebody was told about an object. How often, when and by whom is not compared, and not which nodes a pool
//! that is too small is out for: that depends on the order in which they come.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::normal::{Difference, at};

/// What an Event says: `Kind/namespace/name: Type Reason: message`.
type Heard = String;

/// What Events said in a recorded run, up to a step of it.
#[derive(Clone, Debug)]
pub(super) struct Hearing {
    /// What was first heard, or heard again, in each step.
    steps: BTreeMap<u32, BTreeSet<Heard>>,
    so_far: BTreeSet<Heard>,
}

impl Hearing {
    /// Of the lines of a run's `events.txt`, before its first step.
    ///
    /// # Errors
    /// One of them is no Event.
    pub(super) fn recorded(text: &str) -> anyhow::Result<Self> {
        Ok(Self { steps: recorded(text)?, so_far: BTreeSet::new() })
    }

    /// Goes on to a step.
    pub(super) fn step(&mut self, number: u32) {
        self.so_far.extend(self.steps.get(&number).into_iter().flatten().cloned());
    }

    /// What a list of Events (core/v1) says and these did not, and the other way round.
    pub(super) fn differences(&self, list: &Value) -> Vec<Difference> {
        differences(&self.so_far, &listed(list))
    }
}

/// A line of a run's `events.txt`.
#[derive(Debug, Deserialize)]
struct Recorded {
    step: u32,
    #[serde(rename = "type")]
    severity: String,
    reason: String,
    /// `Kind namespace/name`; without a namespace `Kind /name`.
    object: String,
    message: String,
}

/// What was first heard, or heard again, in each step of a run.
fn recorded(text: &str) -> anyhow::Result<BTreeMap<u32, BTreeSet<Heard>>> {
    let mut all: BTreeMap<u32, BTreeSet<Heard>> = BTreeMap::new();
    for line in text.lines() {
        let Recorded { step, severity, reason, object, message } =
            serde_json::from_str(line).with_context(|| format!("event {line}"))?;
        let (kind, name) = object.split_once(' ').with_context(|| format!("{object} is no object"))?;
        ensure!(name.contains('/'), "{object} is no object");
        let heard = format!("{kind}/{name}: {severity} {reason}: {}", whoever(&message));
        all.entry(step).or_default().insert(heard);
    }
    Ok(all)
}

/// What the API server says of a Service whose address is not noted as taken yet when it looks whether all are, now and then.
/// Source: Kubernetes, pkg/registry/core/service/ipallocator/controller/repairip.go.
const REPAIRED: &str = "ClusterIPNotAllocated";

/// What a list of Events (core/v1) says, but for [`REPAIRED`].
fn listed(list: &Value) -> BTreeSet<Heard> {
    let events = at(list, "/items").as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |event: &Value, place: &str| at(event, place).as_str().unwrap_or_default().to_owned();
    let heard = events.iter().filter_map(|event| {
        let [kind, namespace, name] =
            ["kind", "namespace", "name"].map(|field| word(event, &format!("/involvedObject/{field}")));
        let [severity, reason, message] = ["/type", "/reason", "/message"].map(|place| word(event, place));
        if kind == "Service" && reason == REPAIRED {
            return None;
        }
        Some(format!("{kind}/{namespace}/{name}: {severity} {reason}: {}", whoever(&message)))
    });
    heard.collect()
}

/// The text about a node that got no subnet, whichever node that is.
fn whoever(message: &str) -> String {
    let about = message.strip_prefix("Error occurred for node ").and_then(|rest| rest.split_once(": "));
    match about.filter(|_| message.ends_with(": no subnets available")) {
        Some((node, _)) => message.replace(&format!("node {node}"), "node *"),
        None => message.to_owned(),
    }
}

/// What was heard here or there alone.
fn differences(theirs: &BTreeSet<Heard>, ours: &BTreeSet<Heard>) -> Vec<Difference> {
    let [told, silent] = [json!("told"), json!("not told")];
    let alone = theirs.symmetric_difference(ours).map(|heard| {
        let (theirs, ours) = if ours.contains(heard) { (&silent, &told) } else { (&told, &silent) };
        Difference::new(&format!("Event on {heard}"), theirs, ours)
    });
    alone.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"step": 3, "type": "Warning", "reason": "R", "object": "Pod a/p", "message": "m", "count": 2}"#;

    fn event(message: &str) -> Value {
        json!({
            "involvedObject": {"kind": "Pod", "namespace": "a", "name": "p", "uid": "1"},
            "type": "Warning", "reason": "R", "message": message, "count": 7, "lastTimestamp": "t",
        })
    }

    fn found(ours: &Value) -> Vec<String> {
        let mut theirs = Hearing::recorded(LINE).unwrap();
        theirs.step(3);
        theirs.differences(ours).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_was_said_counts_and_not_how_often_or_when() {
        assert_eq!(found(&json!({"items": [event("m"), event("m")]})), Vec::<String>::new());
    }

    #[test]
    fn what_the_api_server_repairs_about_a_service_does_not_count_and_what_others_say_does() {
        let of = |kind: &str, reason: &str| {
            let object = json!({"kind": kind, "namespace": "default", "name": "kubernetes"});
            json!({"items": [{"involvedObject": object, "type": "Warning", "reason": reason, "message": "m"}]})
        };
        assert!(listed(&of("Service", "ClusterIPNotAllocated")).is_empty());
        assert_eq!(listed(&of("Service", "EndpointsNotMirrored")).len(), 1);
        assert_eq!(listed(&of("Pod", "ClusterIPNotAllocated")).len(), 1);
    }

    #[test]
    fn what_one_alone_said_is_a_difference() {
        let both = found(&json!({"items": [event("n")]}));
        assert_eq!(
            both,
            [
                r#"Event on Pod/a/p: Warning R: m: theirs "told" ours "not told""#,
                r#"Event on Pod/a/p: Warning R: n: theirs "not told" ours "told""#,
            ]
        );
    }

    #[test]
    fn which_node_got_no_subnet_does_not_count_and_which_cannot_be_annotated_does() {
        let all = |text: &str| ["n1", "n2"].map(|node| whoever(&text.replace('N', node)));
        let [one, other] = all(
            "Error occurred for node N: error allocating network for node N, network name x: no subnets available",
        );
        assert_eq!(one, other);
        assert_eq!(
            one,
            "Error occurred for node *: error allocating network for node *, network name x: no subnets available"
        );
        let [one, other] = all("Error occurred for node N: failed to update node N annotation: broken");
        assert_ne!(one, other);
    }

    #[test]
    fn an_event_on_an_object_without_namespace_is_the_same_in_the_recording_and_in_the_list() {
        let line = r#"{"step": 1, "type": "Normal", "reason": "R", "object": "Uplink /u", "message": "m"}"#;
        let of_it = json!({"involvedObject": {"kind": "Uplink", "name": "u"}, "type": "Normal", "reason": "R", "message": "m"});
        assert_eq!(recorded(line).unwrap().remove(&1).unwrap(), listed(&json!({"items": [of_it]})));
        assert!(
            recorded(r#"{"step": 1, "type": "", "reason": "", "object": "Uplink", "message": ""}"#).is_err()
        );
    }
}
