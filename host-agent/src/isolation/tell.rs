//! What people are told: an Event on the pod whose annotation cannot be used, by the agent of its node.

use causeway_runtime::events::{Happening, Recorder, Severity};
use causeway_runtime::watch::NamespacedName;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::pod::{DefaultNetwork, PodFacts};
use super::ports::OPEN_DEFAULT_PORTS;

/// Upstream's reason for a pod whose annotation cannot be used. Source: OVN-Kubernetes,
/// `go-controller/pkg/retry/obj_retry.go`, `ErrorUpdatingResource`.
const REASON: &str = "ErrorUpdatingResource";

/// Tells.
#[derive(Debug, Clone)]
pub(super) struct Voice {
    recorder: Recorder,
}

impl Voice {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    /// Tells what of a pod cannot be used. Who repeats it is merged by the recorder.
    pub(super) fn tell(&self, pod: &NamespacedName, facts: &PodFacts) {
        let Some(note) = note(pod, facts) else { return };
        if !facts.here {
            return;
        }
        warn!(%pod, error = note, "Annotation of a pod cannot be used");
        self.recorder.record(Happening {
            regarding: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                uid: Some(facts.uid.to_string()),
                ..ObjectReference::default()
            },
            related: None,
            severity: Severity::Warning,
            reason: REASON.to_owned(),
            action: "IsolatePod",
            note,
        });
    }
}

/// What is wrong, and what comes of it.
fn note(pod: &NamespacedName, facts: &PodFacts) -> Option<String> {
    match &facts.network {
        DefaultNetwork::Locked { ports: Err(error), .. } => Some(format!(
            "Annotation {OPEN_DEFAULT_PORTS} is not used, and no port of the pod is open to its host: {error}"
        )),
        DefaultNetwork::Unreadable(error) => {
            Some(format!("failed to check if pod {pod} is in primary UDN: {error}"))
        }
        DefaultNetwork::Locked { ports: Ok(_), .. } | DefaultNetwork::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named_with_what_comes_of_it() {
        let pod = NamespacedName { namespace: "blue".into(), name: "web".into() };
        let facts = |network| PodFacts { uid: "u".into(), here: true, network };
        let addresses = || Box::from(["192.0.2.1".parse().unwrap()]);
        let bad_ports =
            DefaultNetwork::Locked { addresses: addresses(), ports: Err("invalid protocol ppp".into()) };
        let want = "Annotation k8s.ovn.org/open-default-ports is not used, and no port of the pod is open to its host: \
                    invalid protocol ppp";
        assert_eq!(note(&pod, &facts(bad_ports)).as_deref(), Some(want));
        let unreadable = DefaultNetwork::Unreadable("EOF".into());
        let want = "failed to check if pod blue/web is in primary UDN: EOF";
        assert_eq!(note(&pod, &facts(unreadable)).as_deref(), Some(want));
        let good = DefaultNetwork::Locked { addresses: addresses(), ports: Ok(Box::default()) };
        assert_eq!(note(&pod, &facts(good)), None);
        assert_eq!(note(&pod, &facts(DefaultNetwork::Unknown)), None);
    }
}
