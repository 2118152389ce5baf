//! What a zone has whatever networks there are.

use super::super::cluster::Cluster;
use super::super::mark::pairs;
use super::super::northbound::{Copp, Global, Meter, MeterBand};
use super::super::rows::{Limit, Rows};

/// Name of the limits of controllers. Source: ovn-kubernetes `pkg/ovn/copp.go`.
pub const COPP: &str = "ovnkube-default";

/// Name of the limit of the log.
pub(super) const ACL_METER: &str = "acl-logging";

/// What OVN has limits for that upstream sets.
const PROTOCOLS: [&str; 9] = [
    "arp",
    "arp-resolve",
    "bfd",
    "event-elb",
    "icmp4-error",
    "icmp6-error",
    "reject",
    "tcp-reset",
    "svc-monitor",
];

/// Settings of northd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneOptions {
    /// How long northd may wait for more changes before it computes.
    pub northd_backoff_ms: Option<u32>,
    /// Whether flows match on invalid connections; none leaves it to OVN. Hardware that cannot offload that wants
    /// `false`.
    pub ct_inv_match: Option<bool>,
}

/// The rows of a zone. Its name is the node's.
#[must_use]
pub fn zone(cluster: &Cluster, node: &str, options: &ZoneOptions) -> Rows {
    let mut rows = Rows::default();
    let mut settings = pairs([("name", node)]);
    let set = [
        ("northd-backoff-interval-ms", options.northd_backoff_ms.map(|ms| ms.to_string())),
        ("use_ct_inv_match", options.ct_inv_match.map(|on| on.to_string())),
    ];
    settings.extend(set.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    rows.global = Some(Global { name: node.to_owned(), options: settings, ..Global::default() });
    let meter_of = |protocol: &str| format!("{protocol}-rate-limiter");
    rows.copps = vec![Copp {
        name: COPP.to_owned(),
        meters: PROTOCOLS.iter().map(|protocol| ((*protocol).to_owned(), meter_of(protocol))).collect(),
    }];
    rows.limits = PROTOCOLS.iter().map(|protocol| limit(meter_of(protocol), cluster.copp_rate)).collect();
    rows.limits.push(limit(ACL_METER.to_owned(), cluster.acl_log_rate));
    rows
}

fn limit(name: String, rate: i64) -> Limit {
    Limit {
        meter: Meter { name, unit: "pktps".to_owned(), fair: Some(true), ..Meter::default() },
        band: MeterBand { action: "drop".to_owned(), rate, burst_size: 0 },
    }
}
