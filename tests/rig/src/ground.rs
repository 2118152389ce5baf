//! What a rig stands on: its folder, its cgroup and its outer namespaces with two bridges.
//!
//! `br0` links the nodes with the API server; `fab0` is the outside world of the nodes' physical ports.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use nix::sched::CloneFlags;

use crate::cgroup::RigCgroup;
use crate::folder::{Folder, sweep};
use crate::holder::Holder;
use crate::inside::{Inside, Place};
use crate::logs::Logs;
use crate::ns::Namespaces;
use crate::process::lock;
use crate::settings::Settings;

/// Address of the API server on `br0`, the same in every rig: each rig has a network namespace of its own.
pub const API_V4: Ipv4Addr = Ipv4Addr::new(10, 20, 0, 1);
/// IPv6 address of the API server.
pub const API_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x20, 0, 0, 0, 0, 0, 1);
/// The router on the fabric that the physical ports of nodes lead to.
pub const FABRIC_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// IPv6 address of the router on the fabric.
pub const FABRIC_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xe2e, 0, 0, 0, 0, 1);

/// Makes the bridges, says so, and waits for its input to close. The bridges have addresses of their own: without, a
/// bridge takes the lowest of its ports', which changes when nodes come and go, and then neighbours that know the old
/// one reach nobody for a minute.
const OUTER: &str = r"
set -e
ip -batch - <<'LINKS'
link set lo up
link add br0 address 02:0a:14:00:00:01 type bridge forward_delay 0 mcast_snooping 0
addr add 10.20.0.1/24 dev br0
addr add fd00:20::1/64 dev br0 nodad
link set br0 up
link add fab0 address 02:c0:00:02:00:01 type bridge forward_delay 0 mcast_snooping 0
addr add 192.0.2.1/24 dev fab0
addr add 2001:db8:e2e::1/64 dev fab0 nodad
link set fab0 up
LINKS
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
echo up
read -r _
";

/// Enters the cgroup `$0`, then becomes the rest.
const ENTER_CGROUP: &str = r#"echo 0 > "$0/cgroup.procs" && exec "$@""#;

/// Dropping it ends every process of the rig and removes its folder and cgroup.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) cgroup: RigCgroup,
    pub(crate) logs: Arc<Logs>,
    /// All outer namespaces, with the machine's programs: the control plane runs here.
    pub(crate) outer: Inside,
    /// Only the outer network: process ids are the machine's, as `ip link … netns PID` needs them.
    pub(crate) network: Inside,
    pub(crate) namespaces: Arc<Namespaces>,
    holder: Mutex<Holder>,
}

impl Ground {
    /// Removes what dead rigs left, then lays a new ground.
    ///
    /// # Errors
    /// If the machine refuses something.
    pub(crate) async fn lay(settings: Settings) -> anyhow::Result<Self> {
        tokio::task::spawn_blocking(move || Self::lay_blocking(settings))
            .await
            .context("laying the ground")?
    }

    fn lay_blocking(settings: Settings) -> anyhow::Result<Self> {
        sweep(&settings.base).context("removing what earlier rigs left")?;
        let folder = Folder::create(&settings.base)?;
        let cgroup = RigCgroup::of(folder.id())?;
        let started = start(&folder, &cgroup);
        let holder = match started {
            Ok(holder) => holder,
            Err(error) => {
                cgroup.remove().and_then(|()| folder.remove()).ok();
                return Err(error);
            }
        };
        let log_dir = folder.path().join("log");
        let logs = Arc::new(Logs::default());
        let place = |name: &str, kinds| {
            let namespaces = Arc::new(Namespaces::of(holder.init(), kinds)?);
            anyhow::Ok(Inside::new(Place {
                name: name.to_owned(),
                namespaces,
                env: environment(folder.path()),
                log_dir: log_dir.clone(),
                logs: Arc::clone(&logs),
                cgroups: cgroup.child("outer")?,
            }))
        };
        let all = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS;
        let outer = place("the rig", all)?;
        let network = place("the rig's network", CloneFlags::CLONE_NEWNET)?;
        let namespaces = outer.namespaces();
        Ok(Self { settings, folder, cgroup, logs, outer, network, namespaces, holder: Mutex::new(holder) })
    }

    /// Ends every process of the rig and removes all it left. Safe to call again.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        let mut holder = lock(&self.holder);
        holder.release();
        // Also waits until the processes are gone, for an occupied cgroup cannot be removed.
        self.cgroup.remove()?;
        holder.wait();
        if self.folder.path().exists() { self.folder.remove() } else { Ok(()) }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            // The next start sweeps it; somebody should know all the same.
            tracing::warn!(rig = self.folder.id(), error = format!("{error:#}"), "Rig left something behind");
        }
    }
}

fn start(folder: &Folder, cgroup: &RigCgroup) -> anyhow::Result<Holder> {
    let log_dir = folder.path().join("log");
    std::fs::create_dir(&log_dir).context("making the folder of logs")?;
    std::fs::create_dir(folder.path().join("home")).context("making a home folder")?;
    cgroup.create()?;
    let outer = cgroup.child("outer")?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER_CGROUP]).arg(outer);
    command.args(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["bash", "-c", OUTER]);
    command.env_clear().envs(environment(folder.path())).current_dir("/").process_group(0);
    let log =
        OpenOptions::new().create(true).truncate(true).read(true).write(true).open(log_dir.join("outer.log"));
    Holder::start(command, log.context("making a log")?).context("the outer namespaces")?.find_init()
}

/// Of programs of the machine that run for the rig. The home folder is the rig's: kubectl keeps a cache there.
fn environment(folder: &Path) -> Vec<(OsString, OsString)> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let home = folder.join("home").into_os_string();
    let words = [("PATH", path.into()), ("HOME", home), ("LANG", "C.UTF-8".into())];
    words.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
