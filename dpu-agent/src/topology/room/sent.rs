//! How much is sent to each database, told at each scrape: transactions, and what a connection itself needs.
//!
//! The connections count their bytes anyway, so this costs a write nothing.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};

/// The databases whose numbers are told, by name.
pub(super) struct Sent<const N: usize>(pub(super) [(&'static str, ovsdb::Store); N]);

impl<const N: usize> Sent<N> {
    /// Adds the numbers to `registry`.
    pub(super) fn register(self, registry: &mut Registry) {
        registry.sub_registry_with_prefix("topology").register_collector(Box::new(self));
    }
}

impl<const N: usize> fmt::Debug for Sent<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl<const N: usize> Collector for Sent<N> {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let help = "Sent to the database: transactions, and what following it needs";
        let counter = ConstCounter::new(0_u64).metric_type();
        let mut sent = encoder.encode_descriptor("sent", help, Some(&Unit::Bytes), counter)?;
        for (name, store) in &self.0 {
            let value = ConstCounter::new(store.statistics().bytes_out);
            value.encode(sent.encode_family(&[("database", *name)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_tells_what_was_sent_to_it_under_its_own_name() {
        let store = |name| ovsdb::Store::builder("unix:/nowhere".parse::<ovsdb::Remotes>().unwrap(), name);
        let (northbound, _driver) = store("OVN_Northbound").build();
        let (southbound, _driver) = store("OVN_Southbound").build();
        let mut registry = Registry::with_prefix("causeway");
        Sent([("northbound", northbound), ("southbound", southbound)]).register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "causeway_topology_sent_bytes_total{database=\"northbound\"} 0",
                "causeway_topology_sent_bytes_total{database=\"southbound\"} 0",
            ]
        );
    }
}
