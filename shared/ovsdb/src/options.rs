//! Deadlines, limits and credentials of a connection.

use std::time::Duration;

use crate::tls::TlsFiles;

/// How a connection behaves. The defaults suit a server on the same machine or in the same cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Deadline for connecting, TLS handshake included. Default 5 s.
    pub connect_timeout: Duration,
    /// Deadline for a reply. Default 10 s.
    pub request_timeout: Duration,
    /// Deadline for the schema and for the first contents of the monitored tables. Default 60 s.
    pub sync_timeout: Duration,
    /// After this long without a byte from the server an echo is sent; after twice as long the connection is given up.
    /// Zero switches probing off. Default 5 s, as in OVS itself.
    pub probe_interval: Duration,
    /// Longest acceptable message, in bytes. Default 256 MiB: the first contents of a table set come as one message.
    pub max_frame: usize,
    /// Pause before the first reconnection; doubles with each failure in a row. A connection that ends within a second of
    /// its sync counts as a failure. Default 50 ms.
    pub backoff_min: Duration,
    /// Longest pause between reconnections. Default 5 s.
    pub backoff_max: Duration,
    /// Server updates that a subscriber may lag behind before it is told to look at everything again. Default 1024.
    pub event_capacity: usize,
    /// Credentials for `ssl:` remotes.
    pub tls: Option<TlsFiles>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            sync_timeout: Duration::from_mins(1),
            probe_interval: Duration::from_secs(5),
            max_frame: 256 << 20,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            event_capacity: 1024,
            tls: None,
        }
    }
}
