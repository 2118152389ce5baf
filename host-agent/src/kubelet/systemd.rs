//! systemd, asked to tell when the kubelet's unit becomes active.
//!
//! In: systemd's private socket (a path) and the unit. Out: [`Words`]. The private socket is a peer, not a bus: there is
//! no `Hello`, and every signal arrives. A connection that is lost, or talks nonsense, is opened again after a pause that
//! grows. Never says more than *look again*: what changed is looked up.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use causeway_runtime::backoff::Backoff;
use causeway_runtime::telemetry::chain;
use futures::StreamExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};
use zbus::connection::{AuthMechanism, Builder};
use zbus::{Connection, Message, MessageStream};

use super::unit::became_active;

/// How long opening and subscribing may take: systemd is on the same machine.
const DEADLINE: Duration = Duration::from_secs(5);

/// Messages that wait to be read. Source: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
const QUEUE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// What is asked for. Source: the same.
const RULE: &str = "type='signal',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'";

/// Longest pause between two attempts. A connection that lasted longer was a good one.
const LONGEST: Duration = Duration::from_secs(30);

/// Pauses between attempts.
pub(super) const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), LONGEST);

/// Why systemd tells nothing. Source of the texts: OVN-Kubernetes, `pkg/node/udn_isolation.go`.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error("failed to connect to systemd: {0}")]
    Connect(io::Error),
    #[error("{0}")]
    Authenticate(zbus::Error),
    #[error("failed to subscribe to systemd: {0}")]
    Subscribe(zbus::Error),
    #[error("failed to subscribe to systemd: it does not answer")]
    Silent,
    #[error("the connection to systemd was lost: {0}")]
    Broken(zbus::Error),
    #[error("the connection to systemd was closed")]
    Closed,
}

/// What systemd says, for whoever waits for it.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// The unit became active, at least once since somebody waited last.
    pub(super) active: Arc<Notify>,
    /// Whether it would be told; `None` before the first attempt has ended.
    pub(super) link: watch::Sender<Option<Result<(), String>>>,
}

impl Default for Words {
    fn default() -> Self {
        Self { active: Arc::default(), link: watch::Sender::new(None) }
    }
}

/// Follows the unit that `unit` names, for ever. Without one there is no connection.
pub(super) async fn follow(
    socket: PathBuf,
    mut unit: watch::Receiver<Option<String>>,
    words: Words,
    pauses: Backoff,
) {
    let mut failures = 0;
    loop {
        // The sender lives as long as this does.
        if unit.wait_for(Option::is_some).await.is_err() {
            return std::future::pending().await;
        }
        let begun = Instant::now();
        let Err(error) = listen(&socket, &mut unit, &words).await else {
            words.link.send_replace(None);
            continue;
        };
        if begun.elapsed() > LONGEST {
            failures = 0;
        }
        failures += 1;
        let error = chain(&error).to_string();
        debug!(error, failures, "systemd tells nothing");
        words.link.send_if_modified(|link| {
            let same = matches!(link, Some(Err(_)));
            *link = Some(Err(error));
            !same
        });
        sleep(pauses.random_delay(failures)).await;
    }
}

/// Listens until there is no unit any more.
async fn listen(
    socket: &Path,
    unit: &mut watch::Receiver<Option<String>>,
    words: &Words,
) -> Result<(), LinkError> {
    let opening = timeout(DEADLINE, open(socket)).await;
    let connection = opening.map_err(|_| LinkError::Connect(io::ErrorKind::TimedOut.into()))??;
    let mut stream = MessageStream::from(&connection);
    let hear = |message: &Message, unit: &watch::Receiver<Option<String>>| {
        if unit.borrow().as_deref().is_some_and(|unit| became_active(unit, message)) {
            words.active.notify_one();
        }
    };
    let subscribing = timeout(DEADLINE, subscribe(&connection));
    tokio::pin!(subscribing);
    loop {
        // Messages are taken meanwhile: a full queue would keep the answer away.
        tokio::select! {
            answer = &mut subscribing => {
                answer.map_err(|_| LinkError::Silent)?.map_err(LinkError::Subscribe)?;
                break;
            }
            message = stream.next() => hear(&taken(message)?, unit),
        }
    }
    info!("systemd tells about the kubelet's unit");
    words.link.send_replace(Some(Ok(())));
    loop {
        tokio::select! {
            message = stream.next() => hear(&taken(message)?, unit),
            changed = unit.changed() => {
                if changed.is_err() || unit.borrow().is_none() {
                    return Ok(());
                }
            }
        }
    }
}

fn taken(message: Option<zbus::Result<Message>>) -> Result<Message, LinkError> {
    message.ok_or(LinkError::Closed)?.map_err(LinkError::Broken)
}

async fn open(socket: &Path) -> Result<Connection, LinkError> {
    let stream = UnixStream::connect(socket).await.and_then(UnixStream::into_std);
    let builder = Builder::unix_stream(stream.map_err(LinkError::Connect)?);
    let builder = builder.p2p().auth_mechanism(AuthMechanism::External).max_queued(QUEUE);
    builder.build().await.map_err(LinkError::Authenticate)
}

async fn subscribe(connection: &Connection) -> zbus::Result<()> {
    let (bus, bus_path) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");
    let matched = connection.call_method(Some(bus), bus_path, Some(bus), "AddMatch", &(RULE,)).await;
    // A peer is no bus and has no such method; what counts is the next call.
    if let Err(error @ zbus::Error::InputOutput(_)) = matched {
        return Err(error);
    }
    let (systemd, path) = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1");
    let manager = "org.freedesktop.systemd1.Manager";
    connection.call_method(Some(systemd), path, Some(manager), "Subscribe", &()).await.map(drop)
}

#[cfg(test)]
mod tests;
