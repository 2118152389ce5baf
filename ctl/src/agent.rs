//! What agents say about themselves, over their sockets.

pub mod guard;
pub mod render;
pub mod topology;
pub mod view;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use causeway_proto::introspect::DescribeRequest;
use causeway_proto::introspect::introspect_client::IntrospectClient;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::Service;

pub use self::view::AgentView;

/// How long an agent may take. It answers from memory: one that takes longer is stopped or stuck.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why an agent does not answer.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nobody listens.
    #[error("no agent answers on {} (is it running here, and are you root?)", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody listens and does not speak the protocol.
    #[error("what listens on {} is no agent", socket.display())]
    Handshake {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// The agent refuses.
    #[error("the agent on {} does not answer", socket.display())]
    Call {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: Box<tonic::Status>,
    },
    /// The agent is there and silent.
    #[error("the agent on {} has not answered within five seconds: it is stopped or stuck", .0.display())]
    Silent(PathBuf),
}

/// Asks the agent behind a socket, about one Uplink or all.
///
/// # Errors
/// [`AgentError`] at the latest after five seconds.
pub async fn ask(socket: &Path, uplink: Option<&str>) -> Result<AgentView, AgentError> {
    let request = DescribeRequest { uplink: uplink.map(str::to_owned), ..DescribeRequest::default() };
    ask_for(socket, request).await
}

/// Asks the agent behind a socket.
///
/// # Errors
/// [`AgentError`] at the latest after five seconds.
pub async fn ask_for(socket: &Path, request: DescribeRequest) -> Result<AgentView, AgentError> {
    timeout(DEADLINE, answer(socket, request)).await.map_err(|_| AgentError::Silent(socket.to_owned()))?
}

async fn answer(socket: &Path, request: DescribeRequest) -> Result<AgentView, AgentError> {
    let at = || socket.to_owned();
    let stream = UnixStream::connect(socket).await;
    let stream = stream.map_err(|source| AgentError::Connect { socket: at(), source })?;
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|source| AgentError::Handshake { socket: at(), source })?;
    // Its errors reach the call.
    let running = tokio::spawn(connection);
    let mut client = IntrospectClient::with_origin(Channel(sender), Uri::from_static("http://agent"));
    let answer = client.describe(request).await;
    running.abort();
    match answer {
        Ok(answer) => Ok(AgentView::of(socket, answer.into_inner())),
        Err(status) => Err(AgentError::Call { socket: at(), source: Box::new(status) }),
    }
}

/// A connection as tonic wants it.
struct Channel(SendRequest<Body>);

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
