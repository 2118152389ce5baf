//! What an agent says about isolation of pods from its host, as `causewayctl` shows it.

use causeway_proto::introspect;
use serde::Serialize;

/// How the kubelet is told apart from other processes of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletView {
    /// `looking`, `kubelet` or `closed`.
    pub mode: String,
    /// Its cgroup, relative to the cgroup root.
    pub cgroup: Option<String>,
    /// How often rules were loaded for it.
    pub generation: u64,
    /// How it was found.
    pub source: String,
    /// Why the mode is `closed`.
    pub reason: String,
    /// Means by which a restart is noticed, and why not, where one does not work.
    pub tracking: Vec<TrackingView>,
}

/// One means by which a kubelet that starts again is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrackingView {
    /// `systemd` or `directory`.
    pub by: &'static str,
    /// Whether it works.
    pub works: bool,
    /// Why not.
    pub reason: String,
}

/// Which pods an agent isolates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IsolationView {
    /// Families with rules.
    pub families: Vec<&'static str>,
    /// Pods with elements in the sets.
    pub pods: u64,
    /// The pod that was asked for.
    pub pod: Option<IsolatedPodView>,
}

/// One pod, as isolation sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IsolatedPodView {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// `isolated`, `waiting`, `unreadable` or `absent`.
    pub standing: String,
    /// Why it is unreadable.
    pub reason: String,
    /// What it has in the sets.
    pub elements: Vec<ElementView>,
    /// Why its ports are not open.
    pub ports_error: String,
}

/// An element of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ElementView {
    /// The set.
    pub set: String,
    /// The element.
    pub element: String,
}

impl KubeletView {
    pub(super) fn of(section: introspect::KubeletSection) -> Self {
        let means = [("systemd", section.systemd), ("directory", section.directory)];
        let tracking = means.into_iter().filter_map(|(by, tracking)| {
            let introspect::Tracking { works, reason } = tracking?;
            Some(TrackingView { by, works, reason })
        });
        Self {
            mode: section.mode,
            cgroup: section.cgroup,
            generation: section.generation,
            source: section.source,
            reason: section.reason,
            tracking: tracking.collect(),
        }
    }

    /// The mode in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match (&self.cgroup, self.mode.as_str()) {
            (Some(cgroup), "kubelet") => {
                format!(
                    "let through by its cgroup {cgroup} (found by: {}, loaded {} time(s))",
                    self.source, self.generation
                )
            }
            (_, "looking") => "its cgroup is being looked for; until then its probes are dropped".to_owned(),
            (_, "closed") => format!("its probes are dropped: {}", self.reason),
            (_, mode) => format!("in a mode that this causewayctl does not know: {mode}"),
        }
    }
}

impl IsolationView {
    pub(super) fn of(section: introspect::IsolationSection) -> Self {
        let families = [("IPv4", section.ipv4), ("IPv6", section.ipv6)];
        let families = families.into_iter().filter_map(|(name, there)| there.then_some(name)).collect();
        let pod = section.pod.map(|pod| IsolatedPodView {
            name: pod.name,
            standing: pod.standing,
            reason: pod.reason,
            elements: pod
                .elements
                .into_iter()
                .map(|introspect::SetElement { set, element }| ElementView { set, element })
                .collect(),
            ports_error: pod.ports_error,
        });
        Self { families, pods: section.pods, pod }
    }
}
