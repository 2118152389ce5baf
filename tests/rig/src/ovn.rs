//! An OVN zone in a node: its own databases and daemons.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::inside::Inside;
use crate::node::Node;
use crate::ovs::{OVS_SOCKET, Ovs, wait_socket};
use crate::process::{Process, Program};

/// The Northbound database's socket inside a node.
pub const NORTHBOUND_SOCKET: &str = "/run/ovn/ovnnb_db.sock";
/// The Southbound database's socket inside a node.
pub const SOUTHBOUND_SOCKET: &str = "/run/ovn/ovnsb_db.sock";

/// A running OVN zone. Dropping it kills its daemons.
#[derive(Debug)]
pub struct OvnZone {
    inside: Inside,
    northbound_socket: PathBuf,
    southbound_socket: PathBuf,
    northbound: Process,
    southbound: Process,
    northd: Process,
    controller: Process,
}

impl OvnZone {
    pub(crate) async fn start(node: &Node, ovs: &Ovs) -> anyhow::Result<Self> {
        node.exec(["mkdir", "-p", "/run/ovn", "/var/lib/ovn", "/etc/ovn", "/var/log/ovn"]).await?;
        let northbound = database(node, "nb", NORTHBOUND_SOCKET).await?;
        let southbound = database(node, "sb", SOUTHBOUND_SOCKET).await?;
        node.exec(["ovn-nbctl", "--no-leader-only", "init"]).await.context("the Northbound database")?;
        node.exec(["ovn-sbctl", "--no-leader-only", "init"]).await.context("the Southbound database")?;
        // The zone's name, as OVN-Kubernetes sets it: the node's.
        let name = format!("name={}", node.name());
        let zone = format!("options:name={}", node.name());
        node.exec(["ovn-nbctl", "set", "NB_Global", ".", &name, &zone]).await?;
        let northd = Program::new("ovn-northd")
            .arg(format!("--ovnnb-db=unix:{NORTHBOUND_SOCKET}"))
            .arg(format!("--ovnsb-db=unix:{SOUTHBOUND_SOCKET}"))
            .args(["--pidfile=/run/ovn/ovn-northd.pid", "--unixctl=/run/ovn/ovn-northd.ctl", "--no-chdir"]);
        let northd = node.spawn(northd).await?;
        // Without is-interconn OVN makes no tunnels to chassis of other zones.
        let chassis = [
            format!("external_ids:ovn-remote=unix:{SOUTHBOUND_SOCKET}"),
            "external_ids:ovn-encap-type=geneve".to_owned(),
            format!("external_ids:ovn-encap-ip={}", node.v4()),
            "external_ids:ovn-is-interconn=true".to_owned(),
        ];
        let set = ["set", "Open_vSwitch", "."].map(str::to_owned);
        ovs.vsctl(set.into_iter().chain(chassis)).await?;
        let controller = Program::new("ovn-controller").arg(format!("unix:{OVS_SOCKET}")).args([
            "--pidfile=/run/ovn/ovn-controller.pid",
            "--unixctl=/run/ovn/ovn-controller.ctl",
            "--no-chdir",
        ]);
        let controller = node.spawn(controller).await?;
        Ok(Self {
            inside: node.inside.clone(),
            northbound_socket: node.path(NORTHBOUND_SOCKET),
            southbound_socket: node.path(SOUTHBOUND_SOCKET),
            northbound,
            southbound,
            northd,
            controller,
        })
    }

    /// ovn-nbctl.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn nbctl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        self.run("ovn-nbctl", arguments).await
    }

    /// ovn-sbctl.
    ///
    /// # Errors
    /// If the command fails.
    pub async fn sbctl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        self.run("ovn-sbctl", arguments).await
    }

    /// The Northbound database's socket as the test process can open it.
    #[must_use]
    pub fn northbound_socket(&self) -> &Path {
        &self.northbound_socket
    }

    /// The Southbound database's socket as the test process can open it.
    #[must_use]
    pub fn southbound_socket(&self) -> &Path {
        &self.southbound_socket
    }

    /// The daemons: Northbound and Southbound server, northd, ovn-controller.
    #[must_use]
    pub fn daemons(&self) -> [&Process; 4] {
        [&self.northbound, &self.southbound, &self.northd, &self.controller]
    }

    async fn run<A: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<String> {
        let mut argv: Vec<OsString> = vec![program.into()];
        argv.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self.inside.exec(argv).await
    }
}

async fn database(node: &Node, kind: &str, socket: &str) -> anyhow::Result<Process> {
    let file = format!("/var/lib/ovn/ovn{kind}_db.db");
    let schema = format!("/usr/share/ovn/ovn-{kind}.ovsschema");
    node.exec(["ovsdb-tool", "create", &file, &schema]).await.with_context(|| format!("making {file}"))?;
    let server = Program::new("ovsdb-server")
        .named(format!("ovn-{kind}-server"))
        .arg(&file)
        .arg(format!("--remote=punix:{socket}"))
        .arg(format!("--unixctl=/run/ovn/ovn{kind}_db.ctl"))
        .arg(format!("--pidfile=/run/ovn/ovn{kind}_db.pid"))
        .arg("--no-chdir");
    let server = node.spawn(server).await?;
    wait_socket(&node.path(socket), &server).await?;
    Ok(server)
}
