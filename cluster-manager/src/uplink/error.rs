//! Why a pass over one Uplink failed.

use std::time::Duration;

use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::writer::WriteError;

use super::watched::{StateKey, UplinkName};

/// Why a pass over one Uplink failed. What a user's spec says is never a failure: it becomes a condition.
#[derive(Debug, thiserror::Error)]
pub(super) enum UplinkError {
    /// A kind has not been listed yet, so that absence means nothing.
    #[error("objects of kind {kind} have not been listed yet")]
    NotListed {
        /// The kind.
        kind: String,
    },
    /// The Uplink exists, but not in a form that this version understands.
    #[error("Uplink {uplink} cannot be read ({error}); its states are left alone")]
    Unreadable {
        /// The Uplink.
        uplink: UplinkName,
        /// What is wrong with it.
        error: String,
    },
    /// What the watches say and what the API server says differ: a watch is behind.
    #[error("the API server does not confirm that state {state} has to go; its watch is behind")]
    Behind {
        /// The state that was to be deleted.
        state: StateKey,
    },
    /// A network uses an Uplink that seemed to be used by none: a watch is behind.
    #[error(
        "the API server says that network {network} uses Uplink {uplink}, which was to be given up; a watch is behind"
    )]
    Used {
        /// The Uplink.
        uplink: UplinkName,
        /// The ClusterUserDefinedNetwork.
        network: String,
    },
    /// An object could not be read from the API server.
    #[error("cannot read {kind} {name} from the API server")]
    Read {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A read took too long.
    #[error("the API server did not answer a read of {kind} {name} within {after:?}")]
    ReadDeadline {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The status of an Uplink could not be written.
    #[error("cannot write the status of Uplink {uplink}")]
    Status {
        /// The Uplink.
        uplink: UplinkName,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// A state could not be deleted.
    #[error("cannot delete state {state}")]
    Delete {
        /// The state.
        state: StateKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// Our finalizer could not be taken off.
    #[error("cannot take the finalizer off Uplink {uplink}")]
    Finalizer {
        /// The Uplink.
        uplink: UplinkName,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for UplinkError {
    fn retry(&self) -> Retry {
        match self {
            Self::NotListed { .. }
            | Self::Behind { .. }
            | Self::Used { .. }
            | Self::Read { .. }
            | Self::ReadDeadline { .. } => Retry::Backoff,
            Self::Unreadable { .. } => Retry::Never,
            Self::Status { source, .. } | Self::Delete { source, .. } | Self::Finalizer { source, .. } => {
                source.retry()
            }
        }
    }
}
