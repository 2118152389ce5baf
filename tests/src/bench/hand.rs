//! Changes facts of a node by its kernel's own interface, so that no program's start is part of what is measured.

use std::fs::File;
use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context, anyhow};
use causeway_rig::Node;
use futures::TryStreamExt;
use nix::sched::{CloneFlags, setns};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder, new_connection};

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
        let path = format!("/proc/{}/ns/net", node.init());
        let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
        let runtime = tokio::runtime::Handle::current();
        // A socket belongs to the namespace of the thread that makes it: a thread of its own, which then ends.
        let opened = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("entering the node's network namespace")?;
            let _entered = runtime.enter();
            new_connection().context("a netlink socket")
        });
        let (connection, handle, _) =
            opened.join().map_err(|_| anyhow!("the thread in the namespace died"))??;
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

    /// Gives a link another MAC address. Returns when the request was about to be sent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_mac(&self, index: u32, mac: [u8; 6]) -> anyhow::Result<Instant> {
        let message = LinkUnspec::new_with_index(index).address(mac.to_vec()).build();
        let request = self.handle.link().set(message);
        let start = Instant::now();
        request.execute().await.context("setting a MAC address")?;
        Ok(start)
    }

    /// Replaces the default route of a metric. Returns when the request was about to be sent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn replace_default(
        &self,
        index: u32,
        gateway: Ipv4Addr,
        metric: u32,
    ) -> anyhow::Result<Instant> {
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .gateway(gateway)
            .output_interface(index)
            .priority(metric)
            .build();
        let request = self.handle.route().add(route).replace();
        let start = Instant::now();
        request.execute().await.context("replacing the default route")?;
        Ok(start)
    }
}
