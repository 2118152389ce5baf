//! What stands for the kubelet of a node without one: a root process of its name in its cgroup, that probes pods.
//!
//! It sends datagrams to a port that nobody opens, so that what gets through does so by its cgroup alone; with
//! [`prober::PORT`](super::prober::PORT) another one, its datagrams are none of those that the prober's witness counts.

use std::path::Path;

use anyhow::Context;
use causeway_rig::{KUBELET_CGROUP, Mark, Process, Program};

use super::{DEADLINE, World};

/// Where its program is. The kernel calls a process by the file that was started, also where that is a script.
const PROGRAM: &str = "/opt/stand-in/kubelet";

/// Looks at each address in turn, and says so whenever all were reached in one round. `sys.argv[1:]` are addresses.
const SCRIPT: &str = r#"#!/usr/bin/python3
import errno, socket, sys, time
targets = [(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in sys.argv[1:]]
sockets = {f: socket.socket(f, socket.SOCK_DGRAM) for f, _ in targets}
print("kubelet runs", flush=True)
while True:
    missed = []
    for family, address in targets:
        try:
            sockets[family].sendto(b"x", (address, 10))
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                missed.append(address)
    print("missed" if missed else "reached all", *missed[:3], flush=True)
    time.sleep(0.1)  # As probes, it comes again and again; nobody waits for this.
"#;

/// A running stand-in.
pub struct StandIn {
    process: Process,
}

impl World {
    /// Starts what stands for the kubelet, probing these addresses.
    ///
    /// # Errors
    /// It does not start.
    pub async fn kubelet(&self, addresses: &[String]) -> anyhow::Result<StandIn> {
        self.node.write(PROGRAM, SCRIPT)?;
        self.node.exec(["chmod", "+x", PROGRAM]).await?;
        let program = Program::new(PROGRAM).args(addresses).in_cgroup(KUBELET_CGROUP);
        let process = self.node.spawn(program).await?;
        process.says(Mark::START, "kubelet runs\n", DEADLINE).await?;
        Ok(StandIn { process })
    }

    /// Waits until the rules of both families name the kubelet's cgroup. A rule for one that is gone is listed with its
    /// number. Source: nft, `src/datatype.c`.
    ///
    /// # Errors
    /// They do not come.
    pub async fn until_kubelet_is_let_through(&self) -> anyhow::Result<()> {
        let rule = format!("socket cgroupv2 level 2 \"{KUBELET_CGROUP}\" ");
        let look = || async {
            let rules = self.rules().await.map_err(|error| format!("{error:#}"))?;
            let named = rules.iter().filter(|line| line.starts_with(&rule)).count();
            let all = rules.iter().filter(|line| line.starts_with("socket")).count();
            if (named, all) == (2, 2) { Ok(()) } else { Err(format!("{rules:?}")) }
        };
        self.rig().wait_for("rules with the kubelet's cgroup", DEADLINE, look).await
    }
}

impl StandIn {
    /// It is killed.
    ///
    /// # Errors
    /// It does not go.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Its cgroup is removed; it does not run.
    ///
    /// # Errors
    /// Somebody is in there.
    pub async fn remove_cgroup(&self, world: &World) -> anyhow::Result<()> {
        let folder = Path::new("/sys/fs/cgroup").join(KUBELET_CGROUP);
        let remove = || world.node.exec([Path::new("rmdir"), &folder]);
        // The kernel takes a moment to let go of a process that is reaped.
        world.rig().wait_for("the kubelet's cgroup to be empty", DEADLINE, remove).await.map(drop)
    }

    /// It starts again, in its cgroup, which is made if it is gone.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(&self) -> anyhow::Result<()> {
        let from = self.process.mark()?;
        self.process.restart().await?;
        self.process.says(from, "kubelet runs\n", DEADLINE).await
    }

    /// Waits until it reaches all addresses, beginning now.
    ///
    /// # Errors
    /// It does not.
    pub async fn reaches_all(&self) -> anyhow::Result<()> {
        // What it is just about to say may be of a round from before; the line that follows is not.
        let from = self.process.mark()?;
        self.process.says(from, "\n", DEADLINE).await?;
        let from = self.process.mark()?;
        self.process.says(from, "reached all\n", DEADLINE).await.context("the kubelet is kept out")
    }
}
