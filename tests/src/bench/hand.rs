//! Changes facts of a node by its kernel's own interface, so that no program's start is part of what is measured.
//!
//! Each change returns when its request was about to be sent.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use anyhow::{Context, anyhow};
use causeway_rig::Node;
use futures::TryStreamExt;
use nix::sched::{CloneFlags, setns};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::{
    AddressMessageBuilder, Handle, LinkMessageBuilder, LinkUnspec, RouteMessageBuilder, new_connection,
};

/// A hand in a node's network namespace.
pub struct Hand {
    handle: Handle,
}

impl Hand {
    /// Reaches into a node. Has to be called on a runtime.
    ///
    /// # Errors
    /// The namespace is gone, or the kernel refuses a socket.
    pub fn in_node(node: &Node) -> anyhow::Result<Self> {
        let (connection, handle, _) = inside(node, new_connection)?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// Reaches into the network namespace of this process. Has to be called on a runtime.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn here() -> anyhow::Result<Self> {
        let (connection, handle, _) = new_connection().context("a netlink socket")?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// Number of a link.
    ///
    /// # Errors
    /// There is no such link.
    pub async fn index(&self, link: &str) -> anyhow::Result<u32> {
        let mut found = self.handle.link().get().match_name(link.to_owned()).execute();
        let link = found.try_next().await?.with_context(|| format!("there is no link {link}"))?;
        Ok(link.header.index)
    }

    /// Gives a link another MAC address.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_mac(&self, index: u32, mac: [u8; 6]) -> anyhow::Result<Instant> {
        self.set(link(index).address(mac.to_vec()).build()).await.context("setting a MAC address")
    }

    /// Sets a link up or down.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_up(&self, index: u32, up: bool) -> anyhow::Result<Instant> {
        let message = if up { link(index).up() } else { link(index).down() };
        self.set(message.build()).await.context("setting a link up or down")
    }

    /// Gives a link another name.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn rename(&self, index: u32, name: &str) -> anyhow::Result<Instant> {
        self.set(link(index).name(name).build()).await.context("renaming a link")
    }

    /// Gives a link another MTU.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_mtu(&self, index: u32, mtu: u32) -> anyhow::Result<Instant> {
        self.set(link(index).mtu(mtu).build()).await.context("setting an MTU")
    }

    /// Puts a link into a VRF, a bridge or a bond; 0 takes it out.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_master(&self, index: u32, master: u32) -> anyhow::Result<Instant> {
        self.set(link(index).controller(master).build()).await.context("setting a master")
    }

    async fn set(&self, message: LinkMessage) -> anyhow::Result<Instant> {
        let request = self.handle.link().set(message);
        let start = Instant::now();
        request.execute().await?;
        Ok(start)
    }

    /// Adds an address, or removes it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_address(
        &self,
        index: u32,
        address: (IpAddr, u8),
        there: bool,
    ) -> anyhow::Result<Instant> {
        let (ip, prefix) = address;
        if there {
            let request = self.handle.address().add(index, ip, prefix);
            let start = Instant::now();
            request.execute().await.context("adding an address")?;
            return Ok(start);
        }
        let message = match ip {
            IpAddr::V4(ip) => {
                AddressMessageBuilder::<Ipv4Addr>::new().index(index).address(ip, prefix).build()
            }
            IpAddr::V6(ip) => {
                AddressMessageBuilder::<Ipv6Addr>::new().index(index).address(ip, prefix).build()
            }
        };
        let request = self.handle.address().del(message);
        let start = Instant::now();
        request.execute().await.context("removing an address")?;
        Ok(start)
    }

    /// Replaces the default route of a metric. IPv6 has routes of one metric side by side, so the one to be replaced is
    /// named, and goes after the other has come.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn replace_default(
        &self,
        index: u32,
        [from, to]: [IpAddr; 2],
        metric: u32,
    ) -> anyhow::Result<Instant> {
        let request = self.handle.route().add(default_route(index, to, metric)?).replace();
        let start = Instant::now();
        request.execute().await.context("replacing the default route")?;
        if from.is_ipv6() {
            // An error means that the replacement took it away.
            self.handle.route().del(default_route(index, from, metric)?).execute().await.ok();
        }
        Ok(start)
    }
}

/// Opens a socket in the network namespace of a node. Has to be called on a runtime.
///
/// # Errors
/// The namespace is gone, or the kernel refuses the socket.
pub(super) fn inside<T: Send + 'static>(
    node: &Node,
    open: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let path = format!("/proc/{}/ns/net", node.init());
    let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
    let runtime = tokio::runtime::Handle::current();
    // A socket belongs to the namespace of the thread that makes it: a thread of its own, which then ends.
    let opened = std::thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).context("entering the node's network namespace")?;
        let _entered = runtime.enter();
        open().context("a netlink socket")
    });
    opened.join().map_err(|_| anyhow!("the thread in the namespace died"))?
}

fn link(index: u32) -> LinkMessageBuilder<LinkUnspec> {
    LinkUnspec::new_with_index(index)
}

fn default_route(index: u32, gateway: IpAddr, metric: u32) -> anyhow::Result<RouteMessage> {
    let builder = RouteMessageBuilder::<IpAddr>::new().output_interface(index).priority(metric);
    let destination = match gateway {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let builder = builder.destination_prefix(destination, 0).context("a default route")?;
    Ok(builder.gateway(gateway).context("a gateway")?.build())
}
