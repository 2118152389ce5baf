//! Opens the byte stream of a remote.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::ConnectionError;
use crate::remote::{HostPort, Remote};
use crate::tls::{TlsError, TlsFiles, server_name};

/// A byte stream of any kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) async fn open(
    remote: &Remote,
    tls: Option<&TlsFiles>,
) -> Result<Box<dyn Stream>, ConnectionError> {
    let failed = |source| ConnectionError::opening(remote, source);
    match remote {
        Remote::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
        Remote::Tcp(address) => Ok(Box::new(tcp(address).await.map_err(failed)?)),
        Remote::Ssl(address) => {
            let tls_failed =
                |source| ConnectionError::Tls { remote: remote.clone(), source: Box::new(source) };
            let config =
                tls.ok_or(TlsError::NotConfigured).map_err(tls_failed)?.load().await.map_err(tls_failed)?;
            let name = server_name(&address.host).map_err(tls_failed)?;
            let stream = tcp(address).await.map_err(failed)?;
            let stream = TlsConnector::from(config).connect(name, stream).await;
            Ok(Box::new(
                stream.map_err(|source| ConnectionError::Handshake { remote: remote.clone(), source })?,
            ))
        }
    }
}

async fn tcp(address: &HostPort) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?; // requests are small, and each is waited for
    Ok(stream)
}
