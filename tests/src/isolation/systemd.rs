//! What stands for systemd on a node: a peer on its private socket that speaks D-Bus.
//!
//! In: a node. Out: [`Systemd`], which takes one connection after the other, well or badly. As the real one it is no bus:
//! it knows `Subscribe` and sends every signal to whoever is connected. Source: systemd, `src/core/dbus.c`,
//! `src/core/dbus-manager.c`.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use causeway_rig::Program;
use futures::StreamExt;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::time::timeout;
use zbus::connection::{AuthMechanism, Builder};
use zbus::{Connection, Guid, Message, Variant};

use super::{DEADLINE, World};

/// Its socket. Source: systemd, `src/shared/bus-util.c`.
const SOCKET: &str = "/run/systemd/private";

/// Where a program that must not watch directories has its filter.
const FILTER: &str = "/opt/blind/filter";

/// A listening socket.
pub struct Systemd {
    listener: UnixListener,
}

/// One connection, subscribed.
pub struct Link {
    connection: Connection,
}

impl World {
    /// Opens the socket.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn systemd(&self) -> anyhow::Result<Systemd> {
        let socket = self.node.path(SOCKET);
        let folder = socket.parent().context("a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let listener = UnixListener::bind(&socket);
        Ok(Systemd { listener: listener.with_context(|| format!("listening on {}", socket.display()))? })
    }

    /// `program`, in a world without inotify: `inotify_init1(2)` fails as it does where a user has too many of them.
    ///
    /// # Errors
    /// The filter cannot be written.
    pub fn blind(&self, program: Program) -> anyhow::Result<Program> {
        self.node.write(FILTER, filter())?;
        Ok(program.through(["setpriv", "--no-new-privs", "--seccomp-filter", FILTER]))
    }

    /// Notes of the Events about this node that have a reason.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn told_of_node(&self, reason: &str) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::default_namespaced(self.rig().client());
        let all = events.list(&ListParams::default()).await?;
        let about = |event: &Event| {
            let object = event.regarding.as_ref();
            object.is_some_and(|object| {
                (object.kind.as_deref(), object.name.as_deref()) == (Some("Node"), Some(self.node.name()))
            })
        };
        let told =
            all.items.into_iter().filter(|event| about(event) && event.reason.as_deref() == Some(reason));
        Ok(told.filter_map(|event| event.note).collect())
    }

    /// Waits until there is one Event about this node with a reason; returns its note.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub async fn until_told_of_node(&self, reason: &str) -> anyhow::Result<String> {
        let look = || async move {
            let told = self.told_of_node(reason).await.map_err(|error| format!("{error:#}"))?;
            <[String; 1]>::try_from(told).map_err(|told| format!("{told:?}"))
        };
        let [note] = self.rig().wait_for(&format!("an Event {reason} on the node"), DEADLINE, look).await?;
        Ok(note)
    }
}

/// A program for the kernel's filter of system calls, as instructions of `struct sock_filter`: this call fails with
/// `EMFILE` (24), all others go through. Source: `include/uapi/linux/filter.h`, `include/uapi/linux/seccomp.h`; the number is
/// of `arch/x86/entry/syscalls/syscall_64.tbl`, or `include/uapi/asm-generic/unistd.h` elsewhere.
fn filter() -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let inotify_init1 = if cfg!(target_arch = "x86_64") { 294_u32 } else { 26 };
    let instructions = [
        // The number of the call lies at the beginning.
        (LOAD, 0_u8, 0_u8, 0_u32),
        (IF_EQUAL, 0, 1, inotify_init1),
        (RETURN, 0, 0, 0x0005_0018),
        (RETURN, 0, 0, 0x7fff_0000),
    ];
    let bytes = |(code, if_true, if_false, value): (u16, u8, u8, u32)| {
        let [low, high] = code.to_ne_bytes();
        let [a, b, c, d] = value.to_ne_bytes();
        [low, high, if_true, if_false, a, b, c, d]
    };
    instructions.into_iter().flat_map(bytes).collect()
}

impl Systemd {
    /// Takes the next connection and answers it until it has subscribed. One that was given up while it waited for this
    /// is passed over.
    ///
    /// # Errors
    /// Nobody subscribes.
    pub async fn accept(&self) -> anyhow::Result<Link> {
        let mut last = None;
        let talk = async {
            loop {
                match self.talk().await {
                    Ok(link) => return link,
                    Err(error) => last = Some(error),
                }
            }
        };
        let link = timeout(DEADLINE, talk).await;
        link.with_context(|| format!("nobody subscribes to systemd; seen last: {last:?}"))
    }

    async fn talk(&self) -> anyhow::Result<Link> {
        let (stream, _) = self.listener.accept().await?;
        let builder = Builder::unix_stream(stream.into_std()?).server(Guid::generate()).p2p();
        // With its messages: the first may come together with the end of the handshake, and nobody would hear it.
        let mut messages = builder.auth_mechanism(AuthMechanism::External).build_message_stream().await?;
        let connection = Connection::from(&messages);
        while let Some(message) = messages.next().await {
            let message = message?;
            let header = message.header();
            let subscribes = header.member().is_some_and(|member| member.as_str() == "Subscribe");
            let reply = if subscribes {
                Message::method_return(&header).build(&())
            } else {
                Message::error(&header, "org.freedesktop.DBus.Error.UnknownMethod").build(&("unknown",))
            };
            connection.send(&reply?).await?;
            if subscribes {
                return Ok(Link { connection });
            }
        }
        anyhow::bail!("the connection was closed before it subscribed")
    }

    /// The next connection gets these bytes and no more.
    ///
    /// # Errors
    /// Nobody connects.
    pub async fn babble(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let talk = async {
            let (mut stream, _) = self.listener.accept().await?;
            // Who has had enough by now closes it.
            stream.write_all(bytes).await.ok();
            stream.shutdown().await.ok();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.ok();
            ensure!(!heard.is_empty(), "a client said nothing");
            Ok(())
        };
        timeout(DEADLINE, talk).await.context("nobody connects to systemd")?
    }
}

impl Link {
    /// Tells that a unit, as it stands in an object path, has this state now.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn tells(&self, unit: &str, state: &str) -> anyhow::Result<()> {
        let states = HashMap::from([("ActiveState", Variant::from(state))]);
        self.sends(&format!("/org/freedesktop/systemd1/unit/{unit}"), &states).await
    }

    /// Tells that these properties of an object changed.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn sends(&self, path: &str, changed: &HashMap<&str, Variant<'_>>) -> anyhow::Result<()> {
        let signal = Message::signal(path, "org.freedesktop.DBus.Properties", "PropertiesChanged");
        let signal = signal.build(&("org.freedesktop.systemd1.Unit", changed, Vec::<String>::new()))?;
        self.connection.send(&signal).await.context("nobody listens to systemd")
    }

    /// It ends, as when systemd executes itself anew.
    ///
    /// # Errors
    /// It ended before.
    pub async fn close(self) -> anyhow::Result<()> {
        self.connection.close().await.context("the connection to systemd was closed before")
    }
}
