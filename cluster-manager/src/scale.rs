//! Metrics with a series for each network, kept only where `--metrics-enable-scale` asks for them.
//!
//! Names, labels and buckets are those of ovn-kubernetes `pkg/metrics/cluster_manager.go`.

use std::time::Duration;

use causeway_net::network::name::NetworkName;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

type ByName = Family<[(&'static str, String); 1], Histogram, fn() -> Histogram>;

/// The metrics; cheap to clone. Without the switch it keeps nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScaleMetrics(Option<Series>);

#[derive(Clone, Debug)]
struct Series {
    annotations: ByName,
    nads: ByName,
}

impl ScaleMetrics {
    /// Adds the metrics to `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let series = Series {
            annotations: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.01, 2.0, 13))),
            nads: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.0, 14))),
        };
        registry.register_with_unit(
            "udn_update_node_annotation_duration",
            "Time spent updating node annotations during UDN network allocation",
            Unit::Seconds,
            series.annotations.clone(),
        );
        registry.register_with_unit(
            "udn_nad_sync_duration",
            "Time spent syncing NetworkAttachmentDefinitions during UDN reconciliation",
            Unit::Seconds,
            series.nads.clone(),
        );
        Self(Some(series))
    }

    /// Whether anything is kept: what costs something to find out need not be found out otherwise.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A pass over the NetworkAttachmentDefinitions of a network is over.
    pub(crate) fn nads_synced(&self, network: &NetworkName, took: Duration) {
        if let Some(series) = &self.0 {
            series.nads.get_or_create(&labels(network)).observe(took.as_secs_f64());
        }
    }

    /// A Node was annotated, for these networks.
    pub(crate) fn node_annotated<'n>(
        &self,
        networks: impl IntoIterator<Item = &'n NetworkName>,
        took: Duration,
    ) {
        let Some(series) = &self.0 else { return };
        for network in networks {
            series.annotations.get_or_create(&labels(network)).observe(took.as_secs_f64());
        }
    }

    /// A network is gone.
    pub(crate) fn forget(&self, network: &NetworkName) {
        if let Some(series) = &self.0 {
            series.annotations.remove(&labels(network));
            series.nads.remove(&labels(network));
        }
    }
}

fn labels(network: &NetworkName) -> [(&'static str, String); 1] {
    [("name", network.as_str().to_owned())]
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_network_has_its_series_until_it_is_gone() {
        let mut registry = Registry::with_prefix("ovnkube_clustermanager");
        let metrics = ScaleMetrics::register(&mut registry);
        let blue = NetworkName::from("blue_net");
        metrics.nads_synced(&blue, Duration::from_millis(7));
        metrics.node_annotated([&blue], Duration::from_millis(30));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        for line in [
            r#"ovnkube_clustermanager_udn_nad_sync_duration_seconds_bucket{le="0.005",name="blue_net"} 0"#,
            r#"ovnkube_clustermanager_udn_nad_sync_duration_seconds_bucket{le="0.01",name="blue_net"} 1"#,
            r#"ovnkube_clustermanager_udn_update_node_annotation_duration_seconds_bucket{le="0.02",name="blue_net"} 0"#,
            r#"ovnkube_clustermanager_udn_update_node_annotation_duration_seconds_count{name="blue_net"} 1"#,
        ] {
            assert!(text().lines().any(|found| found == line), "{line} in\n{}", text());
        }
        metrics.forget(&blue);
        assert!(!text().contains("blue_net"), "{}", text());
    }

    #[test]
    fn without_the_switch_nothing_is_kept() {
        let metrics = ScaleMetrics::default();
        metrics.nads_synced(&NetworkName::from("blue_net"), Duration::from_millis(7));
        assert!(!metrics.is_on());
    }
}
