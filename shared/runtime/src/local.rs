//! HTTP/2 services (gRPC) on a unix socket of this machine.
//!
//! In: a path and a service. Out: answers to whoever may open the socket, which is root alone. Nothing runs while nobody
//! asks. Never does: take a socket away from a living process, delete a file that is no socket.

use std::error::Error;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Connections served at a time; more wait in the kernel's queue.
const CONNECTIONS: usize = 16;

/// Length of the kernel's queue.
const BACKLOG: u32 = 16;

/// Who may open the socket: its owner.
const SOCKET_MODE: u32 = 0o600;

/// Permissions of the folder, if it has to be made.
const FOLDER_MODE: u32 = 0o755;

/// How long a client may hold a connection without answering a ping.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Pause after the kernel could not hand out a connection (out of descriptors, usually).
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why a path cannot be served on.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A living process listens there.
    #[error("another process serves {}", .0.display())]
    InUse(PathBuf),
    /// Something that is no socket is there.
    #[error("{} is there and is no socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refuses.
    #[error("cannot serve on {}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A bound socket. Its file goes with it, unless somebody put another one in its place.
#[derive(Debug)]
pub struct LocalServer {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket, told from others by device and inode.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl LocalServer {
    /// Binds `path` for the owner of this process alone, making its folder if needed. A socket that nobody listens on
    /// any more, as a killed process leaves it, is replaced.
    ///
    /// # Errors
    /// Somebody listens there, a file is there, or the system refuses. Needs a tokio runtime.
    pub async fn bind(path: &Path) -> Result<Self, LocalError> {
        let refused = |source| LocalError::Refused { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(refused)?;
        }
        make_way(path).await?;
        let socket = UnixSocket::new_stream().map_err(refused)?;
        socket.bind(path).map_err(refused)?;
        // Before anybody can connect: a socket that does not listen yet refuses everyone.
        fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE)).map_err(refused)?;
        let identity = fs::symlink_metadata(path).map(|file| identity(&file)).map_err(refused)?;
        let listener = socket.listen(BACKLOG).map_err(refused)?;
        Ok(Self { listener, file: SocketFile { path: path.to_owned(), identity } })
    }

    /// Answers by `service` until `stop` is cancelled; open connections are then dropped.
    pub async fn run<S, B>(self, service: S, stop: CancellationToken)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Future<Output = Result<Response<B>, S::Error>> + Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { listener, file: _file } = self;
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_ended) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok((stream, _peer)) => {
                        connections.spawn(serve(stream, service.clone()));
                    }
                    Err(error) => {
                        warn!(%error, "Connection to the local socket lost");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            // The next start replaces what stays.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Removes a socket that nobody listens on.
async fn make_way(path: &Path) -> Result<(), LocalError> {
    let refused = |source| LocalError::Refused { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(LocalError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(refused)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(error)),
        Ok(_) => Err(LocalError::InUse(path.to_owned())),
    }
}

async fn serve<S, B>(stream: UnixStream, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "Local request broken off");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt, Empty, Full};
    use hyper::client::conn::http2::handshake;
    use hyper::service::service_fn;

    use super::*;

    fn echo()
    -> impl Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
    + Clone
    + Send {
        service_fn(|request: Request<Incoming>| async move {
            let path = request.uri().path().to_owned();
            Ok(Response::new(Full::new(Bytes::from(path))))
        })
    }

    async fn ask(path: &Path) -> String {
        let stream = UnixStream::connect(path).await.unwrap();
        let (mut sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("a handshake");
        tokio::spawn(connection);
        let request = Request::get("http://local/hello").body(Empty::<Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_owner_is_answered_and_the_file_goes_with_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/agent.sock");
        let server = LocalServer::bind(&path).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let stop = CancellationToken::new();
        let running = tokio::spawn(server.run(echo(), stop.clone()));
        assert_eq!(ask(&path).await, "/hello");
        stop.cancel();
        running.await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_nobody_listens_on_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        // Dropping a listener leaves its file, as a kill does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        LocalServer::bind(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_living_process_and_a_plain_file_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let living = LocalServer::bind(&path).await.unwrap();
        let refused = LocalServer::bind(&path).await.unwrap_err();
        assert!(matches!(refused, LocalError::InUse(_)), "{refused}");
        drop(living);
        fs::write(&path, "precious").unwrap();
        let refused = LocalServer::bind(&path).await.unwrap_err();
        assert!(matches!(refused, LocalError::NotASocket(_)), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_server_that_goes_leaves_its_successors_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let old = LocalServer::bind(&path).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _new = LocalServer::bind(&path).await.unwrap();
        drop(old);
        assert!(path.exists());
    }
}
