//! Pauses between connection attempts: doubling, capped, jittered.

use std::time::Duration;

/// Where the doubling stands.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), failures: 0 }
    }

    /// The next pause: between half and all of the capped exponential. `unit` is a random number in `0.0..1.0`.
    pub(crate) fn next(&mut self, unit: f64) -> Duration {
        let full = self.min.saturating_mul(2u32.saturating_pow(self.failures)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        full.mul_f64(0.5 + unit.clamp(0.0, 1.0) / 2.0)
    }

    /// After a success: the next failure is the first one again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_start_again_after_success() {
        let mut backoff = Backoff::new(millis(50), millis(300));
        let pauses: Vec<_> = (0..5).map(|_| backoff.next(1.0)).collect();
        assert_eq!(pauses, [50, 100, 200, 300, 300].map(millis));
        backoff.reset();
        assert_eq!(backoff.next(1.0), millis(50));
    }

    proptest! {
        #[test]
        fn every_pause_is_between_half_the_minimum_and_the_cap(
            min in 1u64..1000, max in 1u64..100_000, attempts in 1usize..80, unit in 0.0f64..1.0,
        ) {
            let mut backoff = Backoff::new(millis(min), millis(max));
            for _ in 0..attempts {
                let pause = backoff.next(unit);
                prop_assert!(pause >= millis(min) / 2 && pause <= millis(max.max(min)));
            }
        }
    }
}
