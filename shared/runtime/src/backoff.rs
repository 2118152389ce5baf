//! Delays between retries: exponential, capped, jittered.

use std::time::Duration;

/// How long to wait after repeated failures.
///
/// The n-th failure in a row waits between half and all of `first * 2^(n-1)`, never more than `cap`. The jitter
/// keeps many keys, or many nodes, that failed together from coming back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
}

impl Backoff {
    /// Delays that start at `first` and double up to `cap` (raised to `first` if smaller).
    #[must_use]
    pub const fn new(first: Duration, cap: Duration) -> Self {
        let cap = if cap.as_nanos() < first.as_nanos() { first } else { cap };
        Self { first, cap }
    }

    /// The delay after `failures` failures in a row; `roll` in `0.0..=1.0` chooses the point between half and all.
    #[must_use]
    pub fn delay(&self, failures: u32, roll: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let full = self.first.saturating_mul(1 << doublings).min(self.cap);
        full.mul_f64(f64::midpoint(roll.clamp(0.0, 1.0), 1.0))
    }

    /// [`Backoff::delay`] with a random roll.
    #[must_use]
    pub fn random_delay(&self, failures: u32) -> Duration {
        self.delay(failures, fastrand::f64())
    }
}

/// `period` changed at random by up to a tenth in either direction, so that many processes spread out.
#[must_use]
pub fn jittered(period: Duration) -> Duration {
    period.mul_f64(0.9 + 0.2 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let delays: Vec<u128> = (1..=6).map(|n| backoff.delay(n, 1.0).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn a_cap_below_the_first_delay_is_raised() {
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(1));
        assert_eq!(backoff.delay(9, 1.0), Duration::from_secs(2));
    }

    proptest! {
        #[test]
        fn every_delay_lies_between_half_the_first_and_the_cap(failures: u32, roll in 0.0..=1.0) {
            let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(30));
            let delay = backoff.delay(failures, roll);
            prop_assert!(delay >= Duration::from_millis(25) && delay <= Duration::from_secs(30));
        }
    }
}
