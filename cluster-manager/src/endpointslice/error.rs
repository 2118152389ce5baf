//! Why a pass over the mirrors of one slice failed.

use std::time::Duration;

use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::writer::WriteError;

use super::watched::SliceKey;

/// Why a pass failed. An endpoint without an address is never a failure: it is left out.
#[derive(Debug, thiserror::Error)]
pub(super) enum MirrorError {
    /// A kind has not been listed yet, so that absence means nothing.
    #[error("objects of kind {kind} have not been listed yet")]
    NotListed {
        /// The kind.
        kind: String,
    },
    /// An object exists, but not in a form that this version understands.
    #[error("{object} cannot be read ({error}); mirrors are left alone")]
    Unreadable {
        /// The object.
        object: String,
        /// What is wrong with it.
        error: String,
    },
    /// What the watches say and what the API server says differ: a watch is behind.
    #[error("namespace {namespace} has a primary network; the watch of networks is behind")]
    Behind {
        /// The namespace.
        namespace: String,
    },
    /// The networks of a namespace could not be read from the API server.
    #[error("cannot read the networks of namespace {namespace} from the API server")]
    Read {
        /// The namespace.
        namespace: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A read took too long.
    #[error("the API server did not list the networks of namespace {namespace} within {after:?}")]
    ReadDeadline {
        /// The namespace.
        namespace: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// A mirror could not be made.
    #[error("cannot make a mirror of EndpointSlice {slice}")]
    Create {
        /// What was to be mirrored.
        slice: SliceKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// A mirror could not be changed.
    #[error("cannot change mirrored EndpointSlice {mirror}")]
    Update {
        /// The mirror.
        mirror: SliceKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// A mirror could not be deleted.
    #[error("cannot delete mirrored EndpointSlice {mirror}")]
    Delete {
        /// The mirror.
        mirror: SliceKey,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for MirrorError {
    fn retry(&self) -> Retry {
        match self {
            Self::NotListed { .. } | Self::Behind { .. } | Self::Read { .. } | Self::ReadDeadline { .. } => {
                Retry::Backoff
            }
            Self::Unreadable { .. } => Retry::Never,
            Self::Create { source, .. } | Self::Update { source, .. } | Self::Delete { source, .. } => {
                source.retry()
            }
        }
    }
}
