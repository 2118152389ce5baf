//! Places inside a test kernel: namespaces with what a node has at the same paths, joined by a bridge of the kernel.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::place::LINKS;
use super::pods::Side;

/// The bridge between the places.
const FABRIC: &str = "fab0";

/// Process 1 of a place; `$1` is its name. Servers go with the kernel.
const INIT: &str = r#"
set -e
mount -t sysfs sysfs /sys
for folder in /run /etc/openvswitch /var/lib/ovn /var/log/openvswitch /var/log/ovn; do
    mkdir -p $folder
    mount -t tmpfs tmpfs $folder
done
mkdir -p /run/openvswitch /run/ovn /run/netns
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward

database() { # NAME SCHEMA FILE SOCKET REMOTE...
    ovsdb-tool create "$3" "$2"
    ovsdb-server "$3" --remote=punix:"$4" --unixctl=/run/$1.ctl --pidfile=/run/$1.pid --log-file=/run/$1.log --detach --no-chdir
}
database vswitch /usr/share/openvswitch/vswitch.ovsschema /etc/openvswitch/conf.db /run/openvswitch/db.sock
ovs-vsctl --no-wait init -- set Open_vSwitch . external_ids:system-id="$1" external_ids:ovn-remote=unix:/run/ovn/ovnsb_db.sock
ovs-vswitchd unix:/run/openvswitch/db.sock --unixctl=/run/openvswitch/ovs-vswitchd.ctl --pidfile=/run/openvswitch/ovs-vswitchd.pid \
    --log-file=/run/openvswitch/ovs-vswitchd.log --detach --no-chdir
for kind in nb sb; do
    database ovn$kind /usr/share/ovn/ovn-$kind.ovsschema /var/lib/ovn/ovn${kind}_db.db /run/ovn/ovn${kind}_db.sock
    ovn-${kind}ctl --no-leader-only init
done
ovn-nbctl set NB_Global . name="$1" options:name="$1"
ovn-northd --ovnnb-db=unix:/run/ovn/ovnnb_db.sock --ovnsb-db=unix:/run/ovn/ovnsb_db.sock --unixctl=/run/ovn/ovn-northd.ctl \
    --pidfile=/run/ovn/ovn-northd.pid --log-file=/run/ovn/ovn-northd.log --detach --no-chdir
ovn-controller unix:/run/openvswitch/db.sock --unixctl=/run/ovn/ovn-controller.ctl --pidfile=/run/ovn/ovn-controller.pid \
    --log-file=/run/ovn/ovn-controller.log --detach --no-chdir
echo up
read -r _
"#;

/// A place. It ends with the kernel that it is in.
#[derive(Debug)]
pub struct Guest {
    name: String,
    init: Child,
    id: u32,
}

impl Guest {
    /// Starts a place for each side, and joins them.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn start() -> anyhow::Result<[Self; 2]> {
        command(["ip", "link", "add", FABRIC, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"])
            .await?;
        command(["ip", "link", "set", FABRIC, "up"]).await?;
        Ok([Self::start_one(Side::West).await?, Self::start_one(Side::East).await?])
    }

    async fn start_one(side: Side) -> anyhow::Result<Self> {
        let (name, number) = (side.name(), side.number());
        let mut init = Command::new("unshare")
            .args(["--net", "--mount", "--propagation", "private", "bash", "-c", INIT, "init", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let id = init.id().context("a process")?;
        let stdout = init.stdout.take().context("its output")?;
        let mut lines = BufReader::new(stdout).lines();
        loop {
            match lines.next_line().await? {
                Some(line) if line == "up" => break,
                Some(_) => {}
                None => anyhow::bail!("place {name} does not come up: {}", init.wait().await?),
            }
        }
        for (link, _) in LINKS {
            let outside = format!("f{number}{link}");
            let (id, end) = (id.to_string(), outside.as_str());
            command(["ip", "link", "add", end, "type", "veth", "peer", "name", link, "netns", &id]).await?;
            command(["ip", "link", "set", end, "master", FABRIC, "up"]).await?;
        }
        let guest = Self { name: name.to_owned(), init, id };
        for (link, _) in LINKS {
            guest.exec(&["ip", "link", "set", link, "up"]).await?;
        }
        Ok(guest)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path inside as this process can open it.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.id)).join(inside.trim_start_matches('/'))
    }

    /// Runs a program inside to its end; what it printed.
    ///
    /// # Errors
    /// If it fails, with what it printed.
    pub async fn exec(&self, argv: &[&str]) -> anyhow::Result<String> {
        ensure!(self.init.id().is_some(), "place {} has ended", self.name);
        let id = self.id.to_string();
        // With its root: a kernel whose tree has no pivot_root is in a chroot.
        let entered = ["nsenter", "--target", &id, "--mount", "--net", "--root", "--wd", "--"];
        command(entered.iter().chain(argv).copied()).await
    }
}

async fn command<'w>(argv: impl IntoIterator<Item = &'w str>) -> anyhow::Result<String> {
    let argv: Vec<&str> = argv.into_iter().collect();
    let (program, arguments) = argv.split_first().context("a program")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().await?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}\n{stdout}{stderr}", argv.join(" "), output.status);
    Ok(stdout)
}
