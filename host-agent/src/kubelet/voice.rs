//! What is told about the node: Events on it, word for word as operators know them, and a line in the log for each.
//! Source of reasons and texts: OVN-Kubernetes, `pkg/node/udn_isolation.go`.

use causeway_runtime::events::{Happening, Recorder, Severity};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::warn;

use super::state::Telling;

/// Tells about one node.
#[derive(Clone, Debug)]
pub struct Voice {
    node: String,
    recorder: Recorder,
}

impl Voice {
    /// A voice about the node of this name.
    #[must_use]
    pub fn new(node: &str, recorder: Recorder) -> Self {
        Self { node: node.to_owned(), recorder }
    }

    pub(super) fn tell(&self, telling: &Telling) {
        let happening = happening(&self.node, telling);
        warn!(
            node = self.node,
            reason = happening.reason,
            note = happening.note,
            "Kubelet's probes are limited"
        );
        self.recorder.record(happening);
    }
}

fn happening(about: &str, telling: &Telling) -> Happening {
    let (reason, action, note) = match telling {
        Telling::ProbesNotSupported(reason) => (
            "UDNKubeletProbesNotSupported",
            "IsolateHost",
            format!(
                "Kubelet probes to primary UDN pods are not supported on node {about}: {reason}. Use the \
                 k8s.ovn.org/open-default-ports pod annotation to allow the probe ports from the host."
            ),
        ),
        Telling::RestartTrackingUnavailable(error) => (
            "UDNKubeletRestartTrackingUnavailable",
            "TrackKubelet",
            format!(
                "Kubelet restarts are not tracked on node {about}: {error}. Kubelet probes to primary UDN pods will stop \
                 working if kubelet is restarted."
            ),
        ),
    };
    Happening {
        regarding: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(about.to_owned()),
            // As kubelets do: `kubectl describe node` looks for this one too, and no uid is read here.
            uid: Some(about.to_owned()),
            ..ObjectReference::default()
        },
        related: None,
        severity: Severity::Warning,
        reason: reason.to_owned(),
        action,
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_upstreams_reasons_and_texts() {
        for (telling, reason, note) in [
            (
                Telling::ProbesNotSupported("the node uses cgroup v1".to_owned()),
                "UDNKubeletProbesNotSupported",
                "Kubelet probes to primary UDN pods are not supported on node node-a: the node uses cgroup v1. Use the k8s.ovn.org/open-default-ports pod annotation to allow the probe ports from the host.",
            ),
            (
                Telling::RestartTrackingUnavailable(
                    "no systemd unit corresponds to cgroup \"podruntime/kubelet\"".to_owned(),
                ),
                "UDNKubeletRestartTrackingUnavailable",
                "Kubelet restarts are not tracked on node node-a: no systemd unit corresponds to cgroup \"podruntime/kubelet\". Kubelet probes to primary UDN pods will stop working if kubelet is restarted.",
            ),
        ] {
            let told = happening("node-a", &telling);
            assert_eq!((told.reason.as_str(), told.note.as_str()), (reason, note));
            assert_eq!(told.severity, Severity::Warning);
            let object = told.regarding;
            assert_eq!((object.kind.as_deref(), object.name.as_deref()), (Some("Node"), Some("node-a")));
        }
    }
}
