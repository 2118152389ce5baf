//! Why a pass over one network object failed.

use causeway_net::network::name::NadKey;
use causeway_runtime::engine::{Retry, Retryable};
use causeway_runtime::writer::WriteError;

use crate::observed::Unreadable;
use crate::observed::cr::CrKey;

/// Why a pass over one network object failed. What stands in the way of a network is never a failure: it becomes a
/// condition.
#[derive(Debug, thiserror::Error)]
pub(super) enum NetworkError {
    /// The object exists, but not in a form that this version understands.
    #[error("{network} cannot be read ({error}); its NetworkAttachmentDefinitions are left alone")]
    Unreadable {
        /// The object.
        network: CrKey,
        /// What is wrong with it.
        error: Unreadable,
    },
    /// Our finalizer could not be put on, or taken off.
    #[error("cannot write the finalizer of {network}")]
    Finalizer {
        /// The object.
        network: CrKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// What keeps a NetworkAttachmentDefinition alive could not be read from the API server itself.
    #[error("cannot read {network} before what it left behind is removed")]
    Confirm {
        /// The object.
        network: CrKey,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server has the object that the watch does not show: the event is on its way.
    #[error("{network} exists, and is not seen yet: what it has is kept")]
    Behind {
        /// The object.
        network: CrKey,
    },
    /// A NetworkAttachmentDefinition could not be written.
    #[error("cannot write NetworkAttachmentDefinition {nad}")]
    Nad {
        /// Which.
        nad: NadKey,
        /// Why.
        #[source]
        source: WriteError,
    },
    /// The status could not be written.
    #[error("cannot write the status of {network}")]
    Status {
        /// The object.
        network: CrKey,
        /// Why.
        #[source]
        source: WriteError,
    },
}

impl Retryable for NetworkError {
    fn retry(&self) -> Retry {
        match self {
            Self::Unreadable { .. } => Retry::Never,
            Self::Confirm { .. } | Self::Behind { .. } => Retry::Backoff,
            Self::Finalizer { source, .. } | Self::Nad { source, .. } | Self::Status { source, .. } => {
                source.retry()
            }
        }
    }
}
