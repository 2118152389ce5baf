//! Numbers of node subnets under the names of OVN-Kubernetes, read from the ledger when somebody asks.
//!
//! Source: ovn-kubernetes `pkg/metrics/cluster_manager.go`.

use std::collections::BTreeMap;
use std::fmt;

use causeway_net::network::name::NetworkName;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Book;
use crate::network::gauges;
use crate::observed::cr::CrKey;

/// How many node subnets a network has, and on how many nodes it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    /// Subnets that there are, and those that nodes have, IPv4 first; none where the network gives nodes no subnets.
    pub(super) subnets: Option<[(u128, usize); 2]>,
    /// On how many nodes it is; none where networks are on all of them.
    pub(super) rendered: Option<usize>,
}

/// Tells the figures of the term; nothing while another process leads.
#[derive(Debug)]
pub(super) struct Subnets(pub(super) Book);

type ByNetwork = BTreeMap<[(&'static str, String); 1], i64>;

impl Collector for Subnets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let figures = self.0.figures();
        let series = |value: &dyn Fn(&NetworkName, &Figures) -> Option<i64>| -> ByNetwork {
            let values = figures.iter().filter_map(|(network, figures)| {
                Some(([("network_name", network.as_str().to_owned())], value(network, figures)?))
            });
            values.collect()
        };
        let subnets = |family: usize, taken: bool| {
            series(&|_, figures| {
                let (total, allocated) = figures.subnets.as_ref()?.get(family).copied()?;
                let many = if taken { i64::try_from(allocated) } else { i64::try_from(total) };
                Some(many.unwrap_or(i64::MAX))
            })
        };
        let rows = [
            ("num_v4_host_subnets", "The total number of v4 host subnets possible per network", 0, false),
            ("num_v6_host_subnets", "The total number of v6 host subnets possible per network", 1, false),
            (
                "allocated_v4_host_subnets",
                "The total number of v4 host subnets currently allocated per network",
                0,
                true,
            ),
            (
                "allocated_v6_host_subnets",
                "The total number of v6 host subnets currently allocated per network",
                1,
                true,
            ),
        ];
        for (name, help, family, taken) in rows {
            gauges(&mut encoder, name, help, &subnets(family, taken))?;
        }
        let rendered = series(&|network, figures| {
            CrKey::of_network(network)?;
            figures.rendered.map(|nodes| i64::try_from(nodes).unwrap_or(i64::MAX))
        });
        let help =
            "Number of nodes on which the network of a UserDefinedNetwork or ClusterUserDefinedNetwork is";
        gauges(&mut encoder, "udn_nodes_rendered", help, &rendered)
    }
}
