//! The programs under test with their numbers and readiness served, so that tests can tell what they did.

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Node, Process};
use causeway_tests::blue::BlueWorld;
use causeway_tests::states::DEADLINE;

/// Where every program serves `/metrics` and `/readyz`, in the network namespace of its node.
const HEALTH: &str = "127.0.0.1:9410";

/// One program of Causeway in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// The cluster manager.
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
    pub(crate) const ALL: [Self; 4] = [Self::ClusterManager, Self::Host, Self::Dpu, Self::Node];

    fn binary(self) -> &'static str {
        match self {
            Self::ClusterManager => "cluster-manager",
            Self::Host => "host-agent",
            Self::Dpu => "dpu-agent",
            Self::Node => "node-agent",
        }
    }

    fn role(self) -> &'static [&'static str] {
        match self {
            Self::ClusterManager => &["--init-cluster-manager", "control"],
            Self::Host => &["--init-node", "node-a", "--ovnkube-node-mode", "dpu-host", "--simulate-dpu"],
            Self::Dpu => &["--init-node", "node-a", "--ovnkube-node-mode", "dpu", "--simulate-dpu"],
            Self::Node => &["--init-node", "node-b"],
        }
    }

    /// Where it runs.
    pub(crate) fn place(self, world: &BlueWorld) -> &Node {
        match self {
            Self::ClusterManager => &world.control,
            Self::Host => &world.pair.host,
            Self::Dpu => &world.pair.card,
            Self::Node => &world.node_b,
        }
    }

    /// Where the scenario keeps the running program.
    pub(crate) fn slot(self, world: &mut BlueWorld) -> &mut Option<Process> {
        match self {
            Self::ClusterManager => &mut world.agents.cluster_manager,
            Self::Host => &mut world.agents.host,
            Self::Dpu => &mut world.agents.dpu,
            Self::Node => &mut world.agents.node,
        }
    }

    /// The running program.
    pub(crate) fn process(self, world: &BlueWorld) -> anyhow::Result<&Process> {
        let agents = &world.agents;
        let process = match self {
            Self::ClusterManager => &agents.cluster_manager,
            Self::Host => &agents.host,
            Self::Dpu => &agents.dpu,
            Self::Node => &agents.node,
        };
        process.as_ref().with_context(|| format!("{self:?} was not started"))
    }

    /// Its command line but the program's path. A flag of `more` replaces the usual one of its name.
    pub(crate) fn arguments<'a>(self, more: &[&'a str]) -> Vec<&'a str> {
        let switches = ["--enable-multi-network", "--enable-network-segmentation", "--enable-uplink"];
        let usual = [["--k8s-kubeconfig", KUBECONFIG], ["--metrics-bind-address", HEALTH]];
        let usual = usual.into_iter().filter(|[flag, _]| !more.contains(flag)).flatten();
        switches
            .into_iter()
            .chain(usual)
            .chain(self.role().iter().copied())
            .chain(more.iter().copied())
            .collect()
    }

    /// Starts it.
    pub(crate) async fn spawn(self, world: &BlueWorld, more: &[&str]) -> anyhow::Result<Process> {
        self.place(world).spawn_built(self.binary(), self.arguments(more)).await
    }

    /// What it answers at a path, with the HTTP status on the last line; an error if nobody listens.
    async fn ask(self, world: &BlueWorld, path: &str) -> anyhow::Result<(String, String)> {
        let url = format!("http://{HEALTH}{path}");
        let argv = ["curl", "-s", "-S", "--max-time", "5", "-w", "\n%{http_code}", &url];
        let answer = self.place(world).exec(argv).await?;
        let (body, status) = answer.rsplit_once('\n').context("an answer without a status")?;
        Ok((status.to_owned(), body.to_owned()))
    }

    /// The text of `/readyz`: `ok` and remarks, or what is not ready and why.
    pub(crate) async fn readiness(self, world: &BlueWorld) -> anyhow::Result<String> {
        let (status, body) = self.ask(world, "/readyz").await?;
        ensure!((status == "200") == is_ready(&body), "status {status} with {body}");
        Ok(body.trim().to_owned())
    }

    /// Waits until `/readyz` says something that `accept` likes.
    pub(crate) async fn until_readiness(
        self,
        world: &BlueWorld,
        what: &str,
        accept: impl Fn(&str) -> bool,
    ) -> anyhow::Result<String> {
        let accept = &accept;
        let look = || async move {
            let text = self.readiness(world).await.map_err(|error| format!("{error:#}"))?;
            if accept(&text) { Ok(text) } else { Err(text) }
        };
        world.rig.wait_for(&format!("{self:?} to report {what}"), DEADLINE, look).await
    }

    /// Sum of a metric over all its labels, `0` for one that has not been counted yet.
    async fn metric(self, world: &BlueWorld, name: &str, labels: &str) -> anyhow::Result<u64> {
        let (status, text) = self.ask(world, "/metrics").await?;
        ensure!(status == "200", "status {status} with {text}");
        let mut sum = 0;
        for line in text.lines().filter(|line| line.starts_with(name) && line.contains(labels)) {
            let (_, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
            sum += value.parse::<u64>().with_context(|| format!("metric line {line:?}"))?;
        }
        Ok(sum)
    }

    /// How many requests that change something this run has sent, renewals of the leader's lease apart.
    pub(crate) async fn writes(self, world: &BlueWorld) -> anyhow::Result<u64> {
        let all = self.metric(world, "causeway_api_writes_total", "").await?;
        let renewals = self.metric(world, "causeway_api_writes_total", "kind=\"Lease\"").await?;
        Ok(all - renewals)
    }

    /// How many passes this run has ended well.
    pub(crate) async fn passes(self, world: &BlueWorld) -> anyhow::Result<u64> {
        self.metric(world, "causeway_reconcile_passes_total", "outcome=\"done\"").await
    }

    /// Waits until it is ready, has looked at all that it looks at when it starts, and has nothing to do.
    pub(crate) async fn rests(self, world: &BlueWorld) -> anyhow::Result<()> {
        self.until_readiness(world, "that it is ready", is_ready).await?;
        let what = format!("{self:?} to rest");
        world.rig.wait_for(&what, DEADLINE, || self.passed(world, 0)).await
    }

    /// [`Agent::rests`], and has taken in everything that happened before this call. Passes of one key follow each other:
    /// when one that is asked for now has ended, none that was due before is still to come.
    pub(crate) async fn settle(self, world: &BlueWorld) -> anyhow::Result<()> {
        self.rests(world).await?;
        let what = format!("{self:?} to make a pass");
        let node = match self {
            // It does not look at labels that no Uplink selects by.
            Self::ClusterManager => return Ok(()),
            Self::Host | Self::Dpu => &world.pair.host,
            Self::Node => &world.node_b,
        };
        for value in [Some("true"), None] {
            let before = self.passes(world).await?;
            node.set_label("example.com/poked", value).await?;
            world.rig.wait_for(&what, DEADLINE, || self.passed(world, before)).await?;
        }
        Ok(())
    }

    /// How often each of its rooms looks at least when it starts, where there are several that write.
    fn first_looks(self) -> &'static [(&'static str, u64)] {
        match self {
            // One Uplink and two Nodes.
            Self::ClusterManager => &[("uplink", 1), ("node", 2)],
            Self::Host | Self::Dpu | Self::Node => &[],
        }
    }

    async fn passed(self, world: &BlueWorld, before: u64) -> Result<(), String> {
        let number = async |name, labels: &str| {
            self.metric(world, name, labels).await.map_err(|error| format!("{error:#}"))
        };
        for (room, looks) in self.first_looks() {
            let passes = number("causeway_reconcile_passes_total", &format!("room=\"{room}\"")).await?;
            if passes < *looks {
                return Err(format!("{passes} passes of {room}"));
            }
        }
        let passes = number("causeway_reconcile_passes_total", "outcome=\"done\"").await?;
        // Asked for last: what a pass counted above has led to is among it.
        let due = number("causeway_reconcile_unfinished", "").await?;
        if passes > before && due == 0 { Ok(()) } else { Err(format!("{passes} passes, {due} due")) }
    }
}

/// Whether a text of `/readyz` is that of a ready process, with or without remarks.
pub(crate) fn is_ready(text: &str) -> bool {
    text.lines().next() == Some("ok")
}
