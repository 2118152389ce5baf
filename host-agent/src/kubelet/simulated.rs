//! What plays the machine in tests: a program in the place of `nft`, and a peer in the place of systemd, on a real socket
//! with real D-Bus.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use zbus::connection::{AuthMechanism, Builder};
use zbus::{Connection, Guid, Message, MessageStream, Variant};

/// Makes a program. Another process writes it: a file that this one has open for writing, or a child that it starts at
/// the same moment in another test, cannot be run.
pub(super) fn write_program(path: &Path, text: &str) {
    let source = path.with_extension("text");
    std::fs::write(&source, text).unwrap();
    let installed =
        std::process::Command::new("install").arg("-m755").arg(&source).arg(path).status().unwrap();
    assert!(installed.success());
}

/// The signal that a unit, as it stands in an object path, has this state.
pub(super) fn signal(unit: &str, state: &str) -> Message {
    let path = format!("/org/freedesktop/systemd1/unit/{unit}");
    let states = HashMap::from([("ActiveState", Variant::from(state))]);
    let body = ("org.freedesktop.systemd1.Unit", states, Vec::<String>::new());
    let signal = Message::signal(path, "org.freedesktop.DBus.Properties", "PropertiesChanged");
    signal.build(&body).unwrap()
}

/// A listening socket.
pub(super) struct Peer {
    listener: UnixListener,
    refuses: bool,
    signals_before_answers: usize,
}

impl Peer {
    pub(super) fn bind(socket: &Path) -> Self {
        Self { listener: UnixListener::bind(socket).unwrap(), refuses: false, signals_before_answers: 0 }
    }

    /// One that knows no `Subscribe`.
    pub(super) fn refusing(self) -> Self {
        Self { refuses: true, ..self }
    }

    /// One that sends this many signals of others before it answers anything.
    pub(super) fn chatty(self, signals: usize) -> Self {
        Self { signals_before_answers: signals, ..self }
    }

    /// The next connection, with authentication done and calls answered.
    pub(super) async fn accept(&self) -> Systemd {
        let (stream, _) = self.listener.accept().await.unwrap();
        let builder = Builder::unix_stream(stream.into_std().unwrap()).server(Guid::generate()).p2p();
        // With its messages: the first may come together with the end of the handshake, and nobody would hear it.
        let messages = builder.auth_mechanism(AuthMechanism::External).build_message_stream().await.unwrap();
        let connection = Connection::from(&messages);
        let calls = Arc::<Mutex<Vec<String>>>::default();
        let answering = answer(messages, Arc::clone(&calls), self.refuses, self.signals_before_answers);
        Systemd { connection, calls, answering: tokio::spawn(answering) }
    }

    /// The next connection gets these bytes and no more.
    pub(super) async fn accept_and_write(&self, bytes: &[u8]) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        // A client that is gone by now has had enough.
        stream.write_all(bytes).await.ok();
        drain(stream).await;
    }

    /// The next connection is authenticated as the D-Bus specification says, then gets these bytes.
    pub(super) async fn authenticate_and_write(&self, bytes: &[u8]) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut heard = Vec::new();
        let mut answered = 0;
        while !String::from_utf8_lossy(&heard).contains("BEGIN\r\n") {
            let mut buffer = [0; 512];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the client gave up: {:?}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&heard).into_owned();
            for line in text.split_inclusive("\r\n").filter(|line| line.ends_with("\r\n")).skip(answered) {
                answered += 1;
                let answer: &[u8] = match line.trim_start_matches('\0') {
                    auth if auth.starts_with("AUTH EXTERNAL") => b"OK 1234deadbeef1234deadbeef12345678\r\n",
                    "NEGOTIATE_UNIX_FD\r\n" => b"AGREE_UNIX_FD\r\n",
                    _ => continue,
                };
                stream.write_all(answer).await.unwrap();
            }
        }
        stream.write_all(bytes).await.ok();
        drain(stream).await;
    }
}

/// Keeps the connection until the client ends it, or closes it if the client waits for more.
async fn drain(mut stream: UnixStream) {
    stream.shutdown().await.ok();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.ok();
}

/// One connection.
pub(super) struct Systemd {
    connection: Connection,
    calls: Arc<Mutex<Vec<String>>>,
    answering: JoinHandle<()>,
}

impl Systemd {
    pub(super) async fn send(&self, message: &Message) {
        self.connection.send(message).await.unwrap();
    }

    /// What was called so far.
    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(super) async fn close(self) {
        self.answering.abort();
        // The client may have ended it first.
        self.connection.clone().close().await.ok();
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

async fn answer(mut messages: MessageStream, calls: Arc<Mutex<Vec<String>>>, refuses: bool, signals: usize) {
    let connection = Connection::from(&messages);
    for _ in 0..signals {
        connection.send(&signal("crio_2eservice", "active")).await.unwrap();
    }
    while let Some(Ok(message)) = messages.next().await {
        let header = message.header();
        let (Some(interface), Some(member)) = (header.interface(), header.member()) else { continue };
        calls.lock().unwrap().push(format!("{interface}.{member}"));
        // As the real one: it is no bus.
        let known = member.as_str() == "Subscribe" && !refuses;
        let reply = if known {
            Message::method_return(&header).build(&())
        } else {
            Message::error(&header, "org.freedesktop.DBus.Error.UnknownMethod").build(&("unknown",))
        };
        connection.send(&reply.unwrap()).await.ok();
    }
}
