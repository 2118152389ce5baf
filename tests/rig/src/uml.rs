//! A User Mode Linux kernel: what the machine's own kernel lacks (VRF, the kernel datapath of Open vSwitch, switchdev).
//!
//! The kernel runs as processes inside a node of the rig, whose root file system it mounts read-only below an overlay
//! in its own memory, and takes over the node's addresses by way of a tap. So it ends with the node, and reaches the
//! API server as a node does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::ground::{API_V4, API_V6};
use crate::node::{KUBECONFIG, Node, NodeBuilder};
use crate::process::{Process, Program};
use crate::rig::Rig;

/// Where a folder given by [`UmlBuilder::work`] is inside the kernel, read-only.
pub const UML_WORK: &str = "/causeway/work";
/// Where the program inside writes files that shall outlive the kernel; see [`Uml::out`].
pub const UML_OUT: &str = "/causeway/out";
/// Files of the rig's own inside the node: start script, command, exit status.
const GUEST: &str = "/causeway/guest";

/// Process 1 of the kernel. The command is in `argv`, words ended by NUL; its exit status goes to `status`, as the
/// kernel itself exits with 0 unless it panics, which it also does when process 1 gives up.
const INIT: &str = r#"#!/bin/bash
export PATH=/causeway/bin:/causeway/kube:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t tmpfs memory /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || exit
cd /mnt/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t debugfs debugfs sys/kernel/debug
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t devtmpfs dev dev
mkdir -p dev/pts dev/shm dev/net
[[ -e dev/net/tun ]] || mknod dev/net/tun c 10 200
ln -sfn /proc/self/fd dev/fd
mount -t devpts devpts dev/pts
mount -t tmpfs shm dev/shm
mount -t tmpfs run run
mount -t tmpfs tmp tmp
mount -t hostfs none causeway/out -o hostfs=/causeway/out
pivot_root . .old
exec chroot . /bin/bash -c '
set -a; . /causeway/guest/environment; set +a
ip -batch /causeway/guest/links
mapfile -d "" -t argv </causeway/guest/argv
"${argv[@]}"
echo $? >/causeway/out/.status
sync
echo o >/proc/sysrq-trigger
exec sleep infinity
' </dev/console >/dev/console 2>&1
"#;

/// Starts the kernel so that nothing of it survives: it is many processes, and all are in a pid namespace of their
/// own. The shell is process 1 there because the kernel in that place would hang when it panics.
const START: &str = r#""$@"; exit $?"#;

/// What a kernel will be.
#[derive(Debug)]
pub struct UmlBuilder {
    node: NodeBuilder,
    memory_mib: u32,
    command: Vec<OsString>,
}

impl Rig {
    /// A kernel to be; `name` is that of the node it runs in, which is no node of the cluster.
    #[must_use]
    pub fn uml(&self, name: &str) -> UmlBuilder {
        UmlBuilder { node: self.node(name).unregistered(), memory_mib: 512, command: Vec::new() }
    }
}

impl UmlBuilder {
    /// Memory of the kernel in MiB; 512 without this. Unused memory costs nothing.
    #[must_use]
    pub fn memory_mib(mut self, memory: u32) -> Self {
        self.memory_mib = memory;
        self
    }

    /// A folder of the machine that the kernel sees at [`UML_WORK`].
    #[must_use]
    pub fn work(mut self, folder: impl Into<PathBuf>) -> Self {
        self.node = self.node.show(folder, UML_WORK);
        self
    }

    /// What to run inside. `KUBECONFIG` is set; cargo's programs are in [`PROGRAMS`](crate::PROGRAMS).
    #[must_use]
    pub fn command<A: Into<OsString>>(mut self, argv: impl IntoIterator<Item = A>) -> Self {
        self.command = argv.into_iter().map(Into::into).collect();
        self
    }

    /// Boots it.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn boot(self) -> anyhow::Result<Uml> {
        let node = self.node.start().await?;
        node.ip_batch(
            "link add um0 type bridge forward_delay 0 mcast_snooping 0\naddr flush dev eth0\n\
             link set eth0 master um0\ntuntap add tap0 mode tap\nlink set tap0 master um0 up\nlink set um0 up\n",
        )
        .await
        .context("the kernel's network")?;
        write_guest(&node, &self.command)?;
        let program = Program::new("unshare")
            .named("uml")
            .args(["--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", START, "sh"])
            .args(["/causeway/uml/linux", "umid=guest", "uml_dir=/run/uml/"])
            .arg(format!("mem={}M", self.memory_mib))
            .args(["root=/dev/root", "rootfstype=hostfs", "ro", "quiet", "con=null", "con0=fd:0,fd:1"])
            .arg(format!("init={GUEST}/init"))
            // Without gro the kernel drops what the tap hands over in large pieces, and TCP crawls.
            .arg("vec0:transport=tap,ifname=tap0,depth=128,gro=1")
            // The kernel's memory is a file there.
            .env("TMPDIR", "/dev/shm");
        let process = node.spawn(program).await.context("starting the kernel")?;
        Ok(Uml { process, node })
    }
}

/// A running kernel. Dropping it kills all its processes.
#[derive(Debug)]
pub struct Uml {
    process: Process,
    node: Node,
}

/// What a kernel left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UmlOutput {
    /// Exit status of the command.
    pub status: i32,
    /// What command and kernel printed.
    pub console: String,
}

impl Uml {
    /// Waits until the command has ended and the kernel is off.
    ///
    /// # Errors
    /// If it takes longer than `deadline`, or the kernel ends without a status, as in a panic; with the console's end.
    pub async fn finish(&self, deadline: Duration) -> anyhow::Result<UmlOutput> {
        let exit = self.process.wait_exit(deadline).await?;
        let console = self.process.log_text()?;
        match std::fs::read_to_string(self.node.path(UML_OUT).join(".status")) {
            Ok(text) if exit.success() => {
                Ok(UmlOutput { status: text.trim().parse().context("the status")?, console })
            }
            Ok(_) => bail!("the kernel failed ({exit}) after its command had ended; its console:\n{console}"),
            Err(_) => bail!("the kernel ended ({exit}) before its command did; its console:\n{console}"),
        }
    }

    /// Folder of the files that the command wrote to [`UML_OUT`].
    #[must_use]
    pub fn out(&self) -> PathBuf {
        self.node.path(UML_OUT)
    }

    /// The console so far.
    #[must_use]
    pub fn console(&self) -> &Path {
        self.process.log()
    }

    /// The kernel's main process: pause or kill it as a machine that hangs or loses its power.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn write_guest(node: &Node, command: &[OsString]) -> anyhow::Result<()> {
    let mut argv = Vec::new();
    for word in command {
        argv.extend_from_slice(word.as_encoded_bytes());
        argv.push(0);
    }
    let (v4, v6) = (node.v4(), node.v6());
    let links = format!(
        "link set lo up\nlink set vec0 up\naddr add {v4}/24 dev vec0\naddr add {v6}/64 dev vec0 nodad\n\
         route add default via {API_V4}\nroute add default via {API_V6}\n"
    );
    let script = format!("{GUEST}/init");
    node.write(&script, INIT)?;
    node.write(format!("{GUEST}/argv"), argv)?;
    node.write(format!("{GUEST}/links"), links)?;
    node.write(format!("{GUEST}/environment"), format!("KUBECONFIG={KUBECONFIG}\n"))?;
    std::fs::create_dir_all(node.path(UML_OUT)).context("the folder of results")?;
    std::fs::set_permissions(node.path(script), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .context("making the start script executable")
}
