//! The programs of Causeway with their numbers and readiness served, so that it can be told when they have come to rest.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use causeway_rig::{KUBECONFIG, Node, Process};

use crate::blue::BlueWorld;

/// Where every program serves `/metrics` and `/readyz`, in the network namespace of its node.
const HEALTH: &str = "127.0.0.1:9410";
/// How long a program may take for what it has to do after trouble: its waits between attempts have grown by then.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// One program of Causeway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agent {
    /// The cluster manager.
    #[default]
    ClusterManager,
    /// The host agent of `node-a`.
    Host,
    /// The DPU agent on the card of `node-a`.
    Dpu,
    /// The agent of `node-b`.
    Node,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ClusterManager, Self::Host, Self::Dpu, Self::Node];

    fn command(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::ClusterManager => ("cluster-manager", &["--init-cluster-manager", "control"]),
            Self::Host => {
                let role = &["--init-node", "node-a", "--ovnkube-node-mode", "dpu-host", "--simulate-dpu"];
                ("host-agent", role)
            }
            Self::Dpu => {
                ("dpu-agent", &["--init-node", "node-a", "--ovnkube-node-mode", "dpu", "--simulate-dpu"])
            }
            Self::Node => ("node-agent", &["--init-node", "node-b"]),
        }
    }

    fn place(self, world: &BlueWorld) -> &Node {
        match self {
            Self::ClusterManager => &world.control,
            Self::Host => &world.pair.host,
            Self::Dpu => &world.pair.card,
            Self::Node => &world.node_b,
        }
    }

    /// Where the scenario keeps the running program.
    pub fn slot(self, world: &mut BlueWorld) -> &mut Option<Process> {
        match self {
            Self::ClusterManager => &mut world.agents.cluster_manager,
            Self::Host => &mut world.agents.host,
            Self::Dpu => &mut world.agents.dpu,
            Self::Node => &mut world.agents.node,
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn spawn(self, world: &BlueWorld) -> anyhow::Result<Process> {
        let (binary, role) = self.command();
        let arguments = [
            "--enable-multi-network",
            "--enable-network-segmentation",
            "--enable-uplink",
            "--k8s-kubeconfig",
            KUBECONFIG,
            "--metrics-bind-address",
            HEALTH,
        ];
        self.place(world).spawn_built(binary, arguments.into_iter().chain(role.iter().copied())).await
    }

    /// The program, which has to be running.
    ///
    /// # Errors
    /// It has ended by itself; the text says how.
    pub async fn running(self, world: &BlueWorld) -> anyhow::Result<&Process> {
        let process = self.process(world)?;
        if process.is_running() {
            return Ok(process);
        }
        let status = process.wait_exit(Duration::ZERO).await?;
        bail!("{self:?} has ended by itself: {status}")
    }

    /// Starts it again, and returns when the new process is the program itself: the shell that starts it waits for a
    /// child of its own, and cannot be stopped together with that.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart(self, world: &BlueWorld) -> anyhow::Result<()> {
        let process = self.process(world)?;
        process.restart().await?;
        let (binary, name) = (self.command().0, format!("/proc/{}/comm", process.pid()));
        let look = || async {
            let now = std::fs::read_to_string(&name).map_err(|error| error.to_string())?;
            if now.trim_end() == binary { Ok(()) } else { Err(now) }
        };
        causeway_rig::wait_for(&format!("{binary} to be what was started"), PATIENCE, look).await
    }

    /// The program, running or not.
    ///
    /// # Errors
    /// It was never started.
    pub fn process(self, world: &BlueWorld) -> anyhow::Result<&Process> {
        let process = match self {
            Self::ClusterManager => &world.agents.cluster_manager,
            Self::Host => &world.agents.host,
            Self::Dpu => &world.agents.dpu,
            Self::Node => &world.agents.node,
        };
        process.as_ref().with_context(|| format!("{self:?} was not started"))
    }

    /// Waits until it says that it is ready, has looked at something, and has nothing due.
    ///
    /// # Errors
    /// After [`PATIENCE`], with what it said last.
    pub async fn idle(self, world: &BlueWorld) -> anyhow::Result<()> {
        let look = || async {
            let seen: anyhow::Result<()> = async {
                self.running(world).await?;
                let (status, text) = self.ask(world, "/readyz").await?;
                ensure!(status == "200", "{text}");
                let (_, metrics) = self.ask(world, "/metrics").await?;
                let passes = sum(&metrics, |name| name == "causeway_reconcile_passes_total")?;
                // Of all engines of a program: each group of rooms has numbers of its own.
                let due = sum(&metrics, |name| name.ends_with("reconcile_unfinished"))?;
                ensure!(due == 0 && passes > 0, "{passes} passes, {due} due");
                Ok(())
            }
            .await;
            seen.map_err(|error| format!("{error:#}"))
        };
        causeway_rig::wait_for(&format!("{self:?} to be idle"), PATIENCE, look).await
    }

    /// What it answers at a path: HTTP status and body.
    async fn ask(self, world: &BlueWorld, path: &str) -> anyhow::Result<(String, String)> {
        let url = format!("http://{HEALTH}{path}");
        let argv = ["curl", "-s", "-S", "--max-time", "5", "-w", "\n%{http_code}", &url];
        let answer = self.place(world).exec(argv).await?;
        let (body, status) = answer.rsplit_once('\n').context("an answer without a status")?;
        Ok((status.to_owned(), body.to_owned()))
    }
}

/// Sum of the metrics whose name is good for `accept`, over their labels.
fn sum(metrics: &str, accept: impl Fn(&str) -> bool) -> anyhow::Result<u64> {
    let mut sum = 0;
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
        if series.split('{').next().is_some_and(&accept) {
            sum += value.parse::<u64>().with_context(|| format!("metric line {line:?}"))?;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let text = "# TYPE depth gauge\ndepth{room=\"a\"} 2\ndepth{room=\"b\"} 3\nother_depth 7\n";
        assert_eq!(sum(text, |name| name == "depth").unwrap(), 5);
        assert_eq!(sum(text, |name| name.ends_with("depth")).unwrap(), 12);
        assert_eq!(sum(text, |name| name == "absent").unwrap(), 0);
        assert!(sum("depth x\n", |name| name == "depth").is_err());
    }
}
