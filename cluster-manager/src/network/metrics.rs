//! Numbers of network objects under the names of OVN-Kubernetes, for the dashboards that read them.
//!
//! They are counted when somebody asks, from the newest snapshots: nothing drifts, and a restart changes nothing (upstream
//! counts UserDefinedNetworks as it writes their finalizer, so that those of before a restart are missing).
//! Source: ovn-kubernetes `pkg/metrics/cluster_manager.go` and `clustermanager/userdefinednetwork/controller_metrics.go`.

use std::collections::BTreeMap;
use std::fmt;

use causeway_api::condition::ConditionStatus;
use causeway_api::network::{NetworkSpec, Role};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::observed::Stores;
use crate::observed::cr::{Cr, CrKey};
use crate::wake::Wake;

/// The transport of a network that names none.
const DEFAULT_TRANSPORT: &str = "Default";

/// Counts network objects, as long as this process leads: of several replicas only one tells, as upstream's.
#[derive(Debug)]
pub(super) struct Objects {
    stores: Stores,
    wake: Wake<CrKey>,
}

type ByKind = BTreeMap<[(&'static str, String); 2], i64>;
type ByKindAndTransport = BTreeMap<[(&'static str, String); 3], i64>;

impl Objects {
    pub(super) const fn new(stores: Stores, wake: Wake<CrKey>) -> Self {
        Self { stores, wake }
    }
}

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if !self.wake.leads() {
            return Ok(());
        }
        let (mut udns, mut cudns) = (ByKind::new(), ByKindAndTransport::new());
        let mut conditions = BTreeMap::new();
        for (key, cr) in self.stores.crs() {
            let [role, topology, transport] = labels(&cr.network);
            match &key {
                CrKey::Udn(_) if cr.is_protected() => *udns.entry([role, topology]).or_default() += 1,
                CrKey::Cudn(_) if cr.is_protected() => {
                    *cudns.entry([role, topology, transport]).or_default() += 1;
                }
                // One without our finalizer is not ours yet, or not any more.
                CrKey::Udn(_) | CrKey::Cudn(_) => {}
            }
            if let CrKey::Cudn(name) = &key {
                conditions.extend(statuses(name, &cr));
            }
        }
        let help = "The total number of UserDefinedNetworks in the cluster";
        gauges(&mut encoder, "user_defined_networks", help, &udns)?;
        let help = "The total number of ClusterUserDefinedNetworks in the cluster";
        gauges(&mut encoder, "cluster_user_defined_networks", help, &cudns)?;
        let help =
            "Status condition of ClusterUserDefinedNetwork resources: 1 for the status that it has, else 0";
        gauges(&mut encoder, "cluster_user_defined_network_condition", help, &conditions)
    }
}

/// Role, topology and transport, as the object spells them.
fn labels(network: &NetworkSpec) -> [(&'static str, String); 3] {
    let roles = [
        network.layer2.as_ref().map(|part| &part.role),
        network.layer3.as_ref().map(|part| &part.role),
        network.localnet.as_ref().map(|part| &part.role),
    ];
    let role = roles.into_iter().flatten().next().map(Role::as_str).unwrap_or_default();
    let transport = network.transport.as_ref().map_or(DEFAULT_TRANSPORT, |transport| transport.as_str());
    [
        ("role", role.to_owned()),
        ("topology", network.topology.as_str().to_owned()),
        ("transport", transport.to_owned()),
    ]
}

/// Each condition twice: for each status that it can have, whether it has it.
fn statuses(name: &str, cr: &Cr) -> Vec<([(&'static str, String); 3], i64)> {
    let both = [("true", ConditionStatus::True), ("false", ConditionStatus::False)];
    let of = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        both.map(|(text, status)| {
            let labels = [
                ("name", name.to_owned()),
                ("condition", condition.type_.clone()),
                ("status", text.to_owned()),
            ];
            (labels, i64::from(condition.status == status.as_str()))
        })
    };
    cr.conditions.iter().flat_map(of).collect()
}

/// Writes one metric with a series for each set of labels; nothing where there is none.
pub(crate) fn gauges<Labels: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    series: &BTreeMap<Labels, i64>,
) -> Result<(), fmt::Error> {
    if series.is_empty() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        ConstGauge::new(*value).encode(metric.encode_family(labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use causeway_net::uplinks_ready::GatewayMode;
    use causeway_runtime::engine::KeyQueue;
    use causeway_runtime::leader::{LeaderMetrics, Leadership};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::observed::fixtures::{Seen, cudn, layer2_secondary, layer3, udn, with};

    fn text(seen: &Seen) -> String {
        let mut registry = causeway_runtime::telemetry::upstream_registry();
        let metrics = LeaderMetrics::register(&mut Registry::default());
        let leadership = Leadership::alone(&CancellationToken::new(), &metrics);
        let objects = Objects::new(
            seen.stores(GatewayMode::Shared.into()),
            Wake::new(&KeyQueue::default(), &leadership),
        );
        registry.sub_registry_with_prefix("clustermanager").register_collector(Box::new(objects));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn objects_are_counted_by_what_they_ask_for_under_upstreams_names() {
        let condition = |status: &str| {
            json!({"conditions": [{"type": "NetworkCreated", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
        };
        let mut no_overlay = layer3();
        no_overlay["transport"] = json!("NoOverlay");
        let seen = Seen {
            udns: vec![
                udn("a", "one", layer3()),
                udn("a", "two", layer2_secondary()),
                udn("b", "three", layer2_secondary()),
                with(udn("b", "unprotected", layer3()), "/metadata/finalizers", json!([])),
            ],
            cudns: vec![
                with(cudn("prod", layer3()), "/status", condition("True")),
                with(cudn("bgp", no_overlay), "/status", condition("False")),
            ],
            ..Seen::default()
        };
        let text = text(&seen);
        for line in [
            r#"ovnkube_clustermanager_user_defined_networks{role="Primary",topology="Layer3"} 1"#,
            r#"ovnkube_clustermanager_user_defined_networks{role="Secondary",topology="Layer2"} 2"#,
            r#"ovnkube_clustermanager_cluster_user_defined_networks{role="Primary",topology="Layer3",transport="Default"} 1"#,
            r#"ovnkube_clustermanager_cluster_user_defined_networks{role="Primary",topology="Layer3",transport="NoOverlay"} 1"#,
            r#"ovnkube_clustermanager_cluster_user_defined_network_condition{name="prod",condition="NetworkCreated",status="true"} 1"#,
            r#"ovnkube_clustermanager_cluster_user_defined_network_condition{name="prod",condition="NetworkCreated",status="false"} 0"#,
            r#"ovnkube_clustermanager_cluster_user_defined_network_condition{name="bgp",condition="NetworkCreated",status="false"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 3, "{text}");
    }

    #[test]
    fn without_objects_there_are_no_series() {
        assert_eq!(text(&Seen::default()), "# EOF\n");
    }
}
