//! Numbers about the kubelet's cgroup.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Kubelet;

/// The modes, as labels.
const MODES: [&str; 3] = ["looking", "kubelet", "closed"];

/// Where the numbers go.
#[derive(Clone, Debug)]
pub struct Metrics {
    mode: Family<[(&'static str, &'static str); 1], Gauge>,
    tracking: Family<[(&'static str, &'static str); 1], Gauge>,
    reloads: Counter,
}

impl Metrics {
    /// Adds them to a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("isolation");
        let metrics =
            Self { mode: Family::default(), tracking: Family::default(), reloads: Counter::default() };
        registry.register(
            "mode",
            "1 for the way in which the kubelet is told apart from other processes of the host: its cgroup is being \
             looked for, the kubelet passes, or closed (the kubelet's probes are dropped too)",
            metrics.mode.clone(),
        );
        registry.register(
            "restart_tracking",
            "1 where a kubelet that starts again is noticed by that means",
            metrics.tracking.clone(),
        );
        registry.register(
            "cgroup_generations",
            "How often rules had to be loaded for the kubelet's cgroup",
            metrics.reloads.clone(),
        );
        metrics
    }

    pub(super) fn published(&self, kubelet: &Kubelet) {
        for mode in MODES {
            self.mode.get_or_create(&[("mode", mode)]).set(i64::from(mode == kubelet.mode()));
        }
        if matches!(kubelet, Kubelet::Cgroup { .. }) {
            self.reloads.inc();
        }
    }

    pub(super) fn tracked(&self, means: &'static str, works: bool) {
        self.tracking.get_or_create(&[("by", means)]).set(i64::from(works));
    }
}
