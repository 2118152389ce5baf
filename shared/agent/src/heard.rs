//! Whether and since when what is known of the kernel and of Open vSwitch is current, told at each scrape: for them what
//! `watch_last_event_timestamp` is for the API server.

use std::fmt;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The stores of one process whose numbers are told.
#[derive(Default)]
pub struct Stores(Vec<Store>);

struct Store {
    name: &'static str,
    last_event: Box<dyn Fn() -> Option<SystemTime> + Send + Sync>,
    check: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Stores {
    /// Adds a store: when it last heard of something, and whether it is current.
    #[must_use]
    pub fn store(
        mut self,
        name: &'static str,
        last_event: impl Fn() -> Option<SystemTime> + Send + Sync + 'static,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.0.push(Store { name, last_event: Box::new(last_event), check: Box::new(check) });
        self
    }

    /// Adds the numbers to `registry`.
    pub fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|store| store.name)).finish()
    }
}

impl Collector for Stores {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(0_i64).metric_type();
        let help = "1 while what is known of the store is complete and follows it, else 0";
        let mut current = encoder.encode_descriptor("store_current", help, None, gauge)?;
        for store in &self.0 {
            let value = ConstGauge::new(i64::from((store.check)().is_ok()));
            value.encode(current.encode_family(&[("store", store.name)])?)?;
        }
        let help = "When the store last heard of something; a store that nobody changes is silent for long";
        let seconds = Some(&Unit::Seconds);
        let mut last = encoder.encode_descriptor("store_last_event_timestamp", help, seconds, gauge)?;
        for store in &self.0 {
            let Some(since) =
                (store.last_event)().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok())
            else {
                continue;
            };
            ConstGauge::new(since.as_secs_f64()).encode(last.encode_family(&[("store", store.name)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_store_tells_whether_it_is_current_and_when_it_last_heard_of_something() {
        let mut registry = Registry::with_prefix("causeway");
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        Stores::default()
            .store("kernel", move || Some(at), || Ok(()))
            .store("ovsdb", || None, || Err("no socket".to_owned()))
            .register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "causeway_store_current{store=\"kernel\"} 1",
                "causeway_store_current{store=\"ovsdb\"} 0",
                "causeway_store_last_event_timestamp_seconds{store=\"kernel\"} 1.5",
            ]
        );
    }
}
