//! Why a command could not do its work.

use std::io;
use std::path::PathBuf;

use crate::agent::AgentError;
use crate::exit::Exit;
use crate::topology::observe::DatabaseError;
use crate::topology::plan::UnknownNetwork;

/// Why a command could not do its work. A problem that it found is not an error.
#[derive(Debug, thiserror::Error)]
pub enum CtlError {
    /// There is no way to the API server.
    #[error("cannot use the kubeconfig or the pod's account (give --kubeconfig or set KUBECONFIG)")]
    Access(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server refuses.
    #[error("cannot {what}: {message}")]
    Refused {
        /// What was tried.
        what: String,
        /// The API server's words.
        message: String,
    },
    /// The API server does not answer.
    #[error("cannot {what}")]
    Cluster {
        /// What was tried.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no such object.
    #[error("there is no {kind} named {name}")]
    NotFound {
        /// Kind of the object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An agent answers that serves another node.
    #[error("the agent on {} serves node {node}, not {wanted}: call this on node {wanted}, or give its --socket", socket.display())]
    OtherNode {
        /// The node that was asked for.
        wanted: String,
        /// The socket.
        socket: PathBuf,
        /// The node of its agent.
        node: String,
    },
    /// An agent does not answer.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The Northbound database cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The network that was asked for is not in the database.
    #[error(transparent)]
    UnknownNetwork(#[from] UnknownNetwork),
    /// The result has no form as a picture.
    #[error("only `topology` can be drawn: use --output text or json")]
    NoPicture,
    /// The result cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The runtime does not start.
    #[error("cannot start")]
    Start(#[source] io::Error),
}

impl CtlError {
    /// The exit code that tells it to a script.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Access(_) | Self::Refused { .. } | Self::Cluster { .. } => Exit::Cluster,
            Self::NotFound { .. } | Self::UnknownNetwork(_) => Exit::NotFound,
            Self::Database(_) => Exit::Database,
            Self::NoPicture => Exit::Usage,
            Self::Agent(_) | Self::OtherNode { .. } => Exit::Agent,
            Self::Write { .. } | Self::Start(_) => Exit::Output,
        }
    }
}
