//! What a connection or store has done so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// Counts since the store or client was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Statistics {
            $($(#[$meta])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Bytes received (inside TLS).
    bytes_in,
    /// Bytes sent (inside TLS).
    bytes_out,
    /// Connections that were established.
    connections,
    /// Times that the contents of all tables were read.
    full_reads,
    /// Reconnections that needed only what had changed meanwhile.
    resumes,
    /// Updates applied after the first contents.
    updates,
    /// Transactions sent.
    transactions,
    /// Echo requests of the server that were answered.
    echoes_answered,
    /// Inactivity probes sent.
    probes,
}

/// One count. Only ever shown, never used to order anything: relaxed access is enough.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, amount: usize) {
        self.0.fetch_add(amount as u64, Ordering::Relaxed);
    }
}

/// When something last happened, in milliseconds since 1970; zero for never.
#[derive(Debug, Default)]
pub(crate) struct Moment(AtomicU64);

impl Moment {
    pub(crate) fn is_now(&self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.0.store(u64::try_from(since.as_millis()).unwrap_or_default(), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Option<SystemTime> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(millis))
    }
}
