//! A place for a zone: something with the file system and the network of a node, in which Open vSwitch and OVN run.

use std::path::PathBuf;

use causeway_rig::{Node, OvnZone, Ovs, Rig};

use super::guest::Guest;
use super::pods::Side;

/// Links of a place that lead to the others, with the bridge that each is a port of: the default gateway's, the
/// tunnels' and that of localnet networks.
pub const LINKS: [(&str, &str); 3] = [("eth1", "br-ex"), ("eth2", "br-phy"), ("eth3", "br-loc")];

/// A place.
#[derive(Debug)]
pub enum Place {
    /// A node of the rig, with Open vSwitch's userspace datapath.
    Node(Box<Running>),
    /// A place inside the test kernel, with the kernel's datapath.
    Guest(Box<Guest>),
}

/// A node of the rig with what runs in it.
#[derive(Debug)]
pub struct Running {
    // In this order: what runs ends before the node does.
    _zone: OvnZone,
    _ovs: Ovs,
    node: Node,
}

impl Place {
    /// Starts a node of the rig with a switch and a zone.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn node(rig: &Rig, side: Side) -> anyhow::Result<Self> {
        let node = rig.node(side.name()).unregistered().start().await?;
        for (link, _) in LINKS {
            node.physical_port(link).await?;
        }
        let ovs = node.ovs().await?;
        let zone = node.ovn_zone(&ovs).await?;
        Ok(Self::Node(Box::new(Running { _zone: zone, _ovs: ovs, node })))
    }

    /// Its name, which is that of its chassis too.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Node(running) => running.node.name(),
            Self::Guest(guest) => guest.name(),
        }
    }

    /// The datapath of its bridges.
    #[must_use]
    pub fn datapath(&self) -> &'static str {
        match self {
            Self::Node(_) => "netdev",
            Self::Guest(_) => "system",
        }
    }

    /// A path inside as this process can open it.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        match self {
            Self::Node(running) => running.node.path(inside),
            Self::Guest(guest) => guest.path(inside),
        }
    }

    /// Runs a program inside to its end; what it printed.
    ///
    /// # Errors
    /// If it fails, with what it printed.
    pub async fn exec(&self, argv: &[&str]) -> anyhow::Result<String> {
        match self {
            Self::Node(running) => running.node.exec(argv).await,
            Self::Guest(guest) => guest.exec(argv).await,
        }
    }

    /// Runs a script inside.
    ///
    /// # Errors
    /// At its first command that fails, with what it printed.
    pub async fn script(&self, script: &str) -> anyhow::Result<String> {
        self.exec(&["bash", "-c", &format!("set -e\n{script}")]).await
    }
}
