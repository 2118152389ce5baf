//! Open vSwitch in a node, with the userspace datapath.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::inside::Inside;
use crate::node::Node;
use crate::process::{Process, Program};
use crate::wait::wait_for;

/// The database's socket inside a node, where every client looks for it.
pub const OVS_SOCKET: &str = "/run/openvswitch/db.sock";
const DATABASE: &str = "/etc/openvswitch/conf.db";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// How long a server may take to open its socket.
const SOCKET_DEADLINE: Duration = Duration::from_secs(15);

/// A running Open vSwitch. Dropping it kills both servers; ports and bridges of its datapath go with them.
#[derive(Debug)]
pub struct Ovs {
    inside: Inside,
    socket: PathBuf,
    server: Process,
    switch: Process,
}

impl Ovs {
    pub(crate) async fn start(node: &Node) -> anyhow::Result<Self> {
        node.exec(["mkdir", "-p", "/etc/openvswitch", "/run/openvswitch", "/var/log/openvswitch"]).await?;
        node.exec(["ovsdb-tool", "create", DATABASE, SCHEMA])
            .await
            .context("making the switch's database")?;
        let server =
            Program::new("ovsdb-server").arg(DATABASE).arg(format!("--remote=punix:{OVS_SOCKET}")).args([
                "--remote=db:Open_vSwitch,Open_vSwitch,manager_options",
                "--pidfile=/run/openvswitch/ovsdb-server.pid",
                "--unixctl=/run/openvswitch/ovsdb-server.ctl",
                "--no-chdir",
            ]);
        let server = node.spawn(server).await?;
        let socket = node.path(OVS_SOCKET);
        wait_socket(&socket, &server).await?;
        let system_id = format!("external_ids:system-id={}", node.name());
        // Without a kernel datapath br-int of OVN has to be told too.
        let setup = ["--no-wait", "init", "--", "set", "Open_vSwitch", ".", &system_id];
        let setup = setup.into_iter().chain(["external_ids:ovn-bridge-datapath-type=netdev"]);
        vsctl(&node.inside, setup).await?;
        let switch = Program::new("ovs-vswitchd").arg(format!("unix:{OVS_SOCKET}")).args([
            "--pidfile=/run/openvswitch/ovs-vswitchd.pid",
            "--unixctl=/run/openvswitch/ovs-vswitchd.ctl",
            "--no-chdir",
        ]);
        let switch = node.spawn(switch).await?;
        let this = Self { inside: node.inside.clone(), socket, server, switch };
        // A write that waits for the switch returns when it has read the whole database.
        this.vsctl(["--timeout=30", "set", "Open_vSwitch", ".", "external_ids:rig=up"]).await?;
        Ok(this)
    }

    /// The database's socket as the test process can open it.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// ovs-vsctl, which waits until the switch has done what the command asks for.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn vsctl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        vsctl(&self.inside, arguments).await
    }

    /// A bridge to be.
    #[must_use]
    pub fn add_bridge<'a>(&'a self, node: &'a Node, name: impl Into<String>) -> BridgeBuilder<'a> {
        let (ports, physical) = (Vec::new(), Vec::new());
        BridgeBuilder { ovs: self, node, name: name.into(), ports, physical, addresses: Vec::new() }
    }

    /// ovsdb-server: kill, pause or restart it to see what its clients do.
    #[must_use]
    pub fn server(&self) -> &Process {
        &self.server
    }

    /// ovs-vswitchd.
    #[must_use]
    pub fn switch(&self) -> &Process {
        &self.switch
    }

    /// Kills ovsdb-server. Its database stays, its socket file is gone.
    ///
    /// # Errors
    /// If it does not go.
    pub async fn stop_server(&self) -> anyhow::Result<()> {
        self.server.kill().await?;
        // A killed server leaves the file; one that is not started on a machine leaves none.
        std::fs::remove_file(&self.socket).ok();
        Ok(())
    }

    /// Starts ovsdb-server again on the same database and waits for its socket.
    ///
    /// # Errors
    /// If it does not come up.
    pub async fn start_server(&self) -> anyhow::Result<()> {
        self.server.restart().await?;
        wait_socket(&self.socket, &self.server).await
    }
}

/// What a bridge will be.
#[derive(Debug)]
pub struct BridgeBuilder<'a> {
    ovs: &'a Ovs,
    node: &'a Node,
    name: String,
    /// Arguments of `add-port`, one port each.
    ports: Vec<Vec<String>>,
    physical: Vec<String>,
    addresses: Vec<String>,
}

impl BridgeBuilder<'_> {
    /// An internal port beside the bridge's own.
    #[must_use]
    pub fn internal_port(mut self, name: &str) -> Self {
        let arguments = ["--", "add-port", &self.name, name, "--", "set", "Interface", name, "type=internal"];
        self.ports.push(arguments.map(str::to_owned).into());
        self
    }

    /// A physical port: made as [`Node::physical_port`] if the node has no link of this name.
    #[must_use]
    pub fn physical(mut self, name: &str) -> Self {
        self.physical.push(name.to_owned());
        self.port(name)
    }

    /// A link that the node has.
    #[must_use]
    pub fn port(mut self, name: &str) -> Self {
        self.ports.push(["--", "add-port", &self.name, name].map(str::to_owned).into());
        self
    }

    /// An address, with prefix length, of the bridge's own interface.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// Makes it; its interface is up when this returns.
    ///
    /// # Errors
    /// If the switch or the kernel refuses.
    pub async fn create(self) -> anyhow::Result<()> {
        for name in &self.physical {
            if !self.node.path(format!("/sys/class/net/{name}")).exists() {
                self.node.physical_port(name).await?;
            }
        }
        let name = self.name.as_str();
        let bridge = ["--timeout=30", "add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev"];
        let mut arguments: Vec<String> = bridge.map(str::to_owned).into();
        arguments.extend(["fail_mode=standalone".to_owned()]);
        arguments.extend(self.ports.into_iter().flatten());
        self.ovs.vsctl(arguments).await?;
        let mut links = format!("link set {name} up\n");
        for address in &self.addresses {
            let family = if address.contains(':') { " nodad" } else { "" };
            writeln!(links, "addr add {address} dev {name}{family}").ok();
        }
        self.node.ip_batch(&links).await
    }
}

async fn vsctl<A: AsRef<OsStr>>(
    inside: &Inside,
    arguments: impl IntoIterator<Item = A>,
) -> anyhow::Result<String> {
    let mut argv: Vec<OsString> = vec!["ovs-vsctl".into()];
    argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
    inside.exec(argv).await
}

/// Waits until a server listens, by connecting: the file is there a moment earlier.
pub(crate) async fn wait_socket(socket: &Path, server: &Process) -> anyhow::Result<()> {
    let what = format!("{} to listen on {}", server.name(), socket.display());
    wait_for(&what, SOCKET_DEADLINE, || async {
        if !server.is_running() {
            return Err(format!("it has exited: {}", server.log_text().unwrap_or_default()));
        }
        tokio::net::UnixStream::connect(socket).await.map(drop).map_err(|error| error.to_string())
    })
    .await
}
