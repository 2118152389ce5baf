//! A way from the machine to a server inside a rig's network namespace.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::ns::Namespaces;

/// Listens on a free port of 127.0.0.1 and connects from inside the namespace. Ends when dropped.
#[derive(Debug)]
pub(crate) struct Forward {
    port: u16,
    _stop: DropGuard,
}

impl Forward {
    /// Starts forwarding to `target`, an address inside `namespaces`.
    ///
    /// # Errors
    /// If no port is free or the namespace is gone.
    pub(crate) async fn start(namespaces: Arc<Namespaces>, target: SocketAddr) -> anyhow::Result<Self> {
        // Made here, so it belongs to the machine; the thread that uses it makes its other sockets inside.
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a free port")?;
        listener.set_nonblocking(true).context("the listener")?;
        let port = listener.local_addr().context("the listener's port")?.port();
        let stop = CancellationToken::new();
        let (stopped, (ready, is_ready)) = (stop.clone(), oneshot::channel());
        std::thread::Builder::new()
            .name("forward".to_owned())
            .spawn(move || {
                let entered = namespaces.enter().and_then(|()| {
                    tokio::runtime::Builder::new_current_thread().enable_io().build().context("a runtime")
                });
                match entered {
                    Err(error) => drop(ready.send(Err(error))),
                    Ok(runtime) => {
                        ready.send(Ok(())).ok();
                        runtime.block_on(stopped.run_until_cancelled(accept(listener, target)));
                    }
                }
            })
            .context("starting a thread")?;
        is_ready.await.context("the forwarding thread is gone")??;
        Ok(Self { port, _stop: stop.drop_guard() })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

async fn accept(listener: std::net::TcpListener, target: SocketAddr) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        // A failed accept is the failure of one connection.
        let Ok((outside, _)) = listener.accept().await else { continue };
        tokio::spawn(connect(outside, target));
    }
}

async fn connect(mut outside: TcpStream, target: SocketAddr) {
    // A refused connection closes the outer one at once: the client sees a server that is away.
    let Ok(mut inside) = TcpStream::connect(target).await else { return };
    // Small messages both ways; waiting to fill packets would cost 40 ms each.
    outside.set_nodelay(true).and_then(|()| inside.set_nodelay(true)).ok();
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await.ok();
}
