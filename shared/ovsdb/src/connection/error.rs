//! Why a connection is over, or a request failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::decoder::DecodeError;
use crate::remote::Remote;
use crate::rpc::RpcError;
use crate::tls::TlsError;

/// The end of a connection, or the reason that there was none.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The socket file does not exist: the server is not running, or listens elsewhere.
    #[error("socket {path} does not exist", path = .path.display())]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// Nobody listens.
    #[error("{remote} refuses connections: no server listens there")]
    ConnectionRefused {
        /// The remote.
        remote: Remote,
    },
    /// This process may not use the socket.
    #[error("no permission to use {remote}")]
    Denied {
        /// The remote.
        remote: Remote,
    },
    /// Any other failure to connect.
    #[error("cannot connect to {remote}")]
    Unreachable {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No connection in time.
    #[error("no connection to {remote} within {after:?}")]
    ConnectTimeout {
        /// The remote.
        remote: Remote,
        /// The deadline.
        after: Duration,
    },
    /// The TLS set-up on this side is not usable.
    #[error("TLS for {remote}")]
    Tls {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: Box<TlsError>,
    },
    /// Server and client could not agree on TLS; also a certificate that the CA did not sign.
    #[error("TLS handshake with {remote} failed")]
    Handshake {
        /// The remote.
        remote: Remote,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("server closed the connection{}", if *.mid_frame { " in the middle of a message" } else { "" })]
    Closed {
        /// Whether a message had begun.
        mid_frame: bool,
    },
    /// Reading or writing failed.
    #[error("connection broken")]
    Broken(#[source] io::Error),
    /// The server's bytes are not JSON.
    #[error("server sends garbage")]
    Garbage(#[from] DecodeError),
    /// The server's JSON is no JSON-RPC message.
    #[error("server sends no JSON-RPC: {found}")]
    NotJsonRpc {
        /// The start of it.
        found: String,
    },
    /// The server did not answer the inactivity probe.
    #[error("server silent for {idle:?}, echo unanswered")]
    Unanswered {
        /// Time since the last byte.
        idle: Duration,
    },
}

impl ConnectionError {
    pub(super) fn opening(remote: &Remote, source: io::Error) -> Self {
        let known = remote.clone();
        match (source.kind(), remote) {
            (io::ErrorKind::NotFound, Remote::Unix(path)) => Self::NoSocket { path: path.clone() },
            (io::ErrorKind::ConnectionRefused, _) => Self::ConnectionRefused { remote: known },
            (io::ErrorKind::PermissionDenied, _) => Self::Denied { remote: known },
            _ => Self::Unreachable { remote: known, source },
        }
    }
}

/// A request that got no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server refused.
    #[error("request {method} refused")]
    Refused {
        /// The method.
        method: &'static str,
        /// The server's answer.
        #[source]
        source: RpcError,
    },
    /// No reply in time.
    #[error("no reply to {method} within {after:?}")]
    Deadline {
        /// The method.
        method: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// The connection ended first.
    #[error("connection lost")]
    Connection(#[from] ConnectionError),
}

impl CallError {
    /// Whether the server does not know the method.
    #[must_use]
    pub fn is_unknown_method(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_unknown_method())
    }
}
