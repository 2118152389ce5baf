//! A control plane with replicas of the cluster manager, which log in with their own account.

use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Mark, Node, Process, Program, Rig, RigOptions, Side, wait_for};
use causeway_tests::access::{self, Account};
use causeway_tests::manifests;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};

/// How long a busy machine may take for what usually takes milliseconds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// Where a program serves its metrics, inside its node.
const METRICS: &str = "127.0.0.1:9102";

/// Timing of the election, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lease: u64,
    pub(crate) renew: u64,
    pub(crate) retry: u64,
}

/// For tests that wait for a lease to run out.
pub(crate) const QUICK: Timing = Timing { lease: 3, renew: 2, retry: 1 };
/// Upstream's defaults.
pub(crate) const UPSTREAM: Timing = Timing { lease: 137, renew: 107, retry: 26 };

impl Timing {
    pub(crate) fn lease(self) -> Duration {
        Duration::from_secs(self.lease)
    }
}

/// The control plane.
pub(crate) struct World {
    pub(crate) rig: Rig,
    /// Of the cluster manager's own account; without one it is an administrator.
    token: Option<String>,
}

/// A program in a node of its own.
pub(crate) struct Replica {
    pub(crate) process: Process,
    node: Node,
}

impl World {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let Self { rig, .. } = Self::without_namespace().await?;
        access::install(&rig).await?;
        let token = access::token(&rig, access::NAMESPACE, Account::ClusterManager.name(), None).await?;
        access::wait_roles(&rig, &token).await?;
        Ok(Self { rig, token: Some(token) })
    }

    pub(crate) async fn without_namespace() -> anyhow::Result<Self> {
        let rig = Rig::start(RigOptions::bare()).await?;
        rig.apply(&manifests::folder("crds")?).await?;
        Ok(Self { rig, token: None })
    }

    pub(crate) fn client(&self) -> Client {
        self.rig.client()
    }

    /// Starts the cluster manager under an identity.
    pub(crate) async fn replica(&self, identity: &str, timing: Timing) -> anyhow::Result<Replica> {
        let [lease, renew, retry] = [timing.lease, timing.renew, timing.retry].map(|part| part.to_string());
        let election = [
            ["--cluster-manager-ha-election-lease-duration", &lease],
            ["--cluster-manager-ha-election-renew-deadline", &renew],
            ["--cluster-manager-ha-election-retry-period", &retry],
        ];
        let flags = ["--init-cluster-manager", identity].into_iter().chain(election.into_iter().flatten());
        self.program("cluster-manager", &format!("place-{identity}"), self.token.as_deref(), flags).await
    }

    /// Starts two replicas of which the first leads: two that start at once would leave that to chance.
    pub(crate) async fn pair(&self, timing: Timing) -> anyhow::Result<(Replica, Replica)> {
        let leader = self.replica("a", timing).await?;
        leader.leads().await?;
        let standby = self.replica("b", timing).await?;
        standby.ready().await?;
        Ok((leader, standby))
    }

    /// Starts a program of Causeway, under the account of a token or as an administrator.
    pub(crate) async fn program<'f>(
        &self,
        name: &str,
        place: &str,
        token: Option<&str>,
        flags: impl IntoIterator<Item = &'f str>,
    ) -> anyhow::Result<Replica> {
        let node = self.rig.node(place).unregistered().start().await?;
        if let Some(token) = token {
            node.write(KUBECONFIG, self.rig.kubeconfig_of(token, Side::Inside)?)?;
        }
        let usual = ["--enable-multi-network", "--enable-network-segmentation", "--enable-uplink"];
        let edges = ["--k8s-kubeconfig", KUBECONFIG, "--metrics-bind-address", METRICS];
        let program = Program::built(name).args(usual).args(edges).args(flags);
        Ok(Replica { process: node.spawn(program).await?, node })
    }

    /// The lease as it is.
    pub(crate) async fn lease(&self) -> anyhow::Result<LeaseSpec> {
        let api: Api<Lease> = Api::namespaced(self.client(), "ovn-kubernetes");
        api.get("ovn-kubernetes-master").await?.spec.context("a lease without a spec")
    }
}

impl Replica {
    /// What it answers at a path.
    pub(crate) async fn ask(&self, path: &str) -> anyhow::Result<String> {
        self.node.exec(["curl", "-sf", "--max-time", "5", &format!("http://{METRICS}{path}")]).await
    }

    /// Sum of a metric over its labels; a name with labels means one of them. 0 if there is none yet.
    pub(crate) async fn count(&self, metric: &str) -> anyhow::Result<usize> {
        self.sum(|name| name == metric || name.starts_with(&format!("{metric}{{"))).await
    }

    async fn sum(&self, counts: impl Fn(&str) -> bool) -> anyhow::Result<usize> {
        let text = self.ask("/metrics").await?;
        let mut sum = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
            if counts(name) {
                sum += value.parse::<usize>().with_context(|| format!("metric line {line:?}"))?;
            }
        }
        Ok(sum)
    }

    /// Requests that change Uplinks or their states. (Nodes get numbers whether there are Uplinks or not.)
    pub(crate) async fn writes(&self) -> anyhow::Result<usize> {
        let of_uplinks =
            ["causeway_api_writes_total{kind=\"Uplink\"", "causeway_api_writes_total{kind=\"UplinkState\""];
        self.sum(|name| of_uplinks.iter().any(|beginning| name.starts_with(beginning))).await
    }

    /// Waits until it counted so many of them: a watcher sees an object before its writer has the answer and counts it.
    /// More than that is an error at once.
    pub(crate) async fn wrote(&self, writes: usize) -> anyhow::Result<()> {
        let look = || async {
            match self.writes().await {
                Ok(seen) if seen >= writes => Ok(seen),
                seen => Err(format!("{seen:?}")),
            }
        };
        let seen = wait_for(&format!("{writes} writes"), DEADLINE, look).await?;
        ensure!(seen == writes, "{seen} writes instead of {writes}");
        Ok(())
    }

    async fn becomes(&self, what: &str, leader: usize) -> anyhow::Result<()> {
        let look = || async {
            match self.count("causeway_leader").await {
                Ok(seen) if seen == leader => Ok(()),
                seen => Err(format!("{seen:?}; its log:\n{}", self.process.log_text().unwrap_or_default())),
            }
        };
        wait_for(what, DEADLINE, look).await
    }

    /// Waits until it leads.
    pub(crate) async fn leads(&self) -> anyhow::Result<()> {
        self.becomes("a replica to lead", 1).await
    }

    /// Waits until it does not lead.
    pub(crate) async fn stands_by(&self) -> anyhow::Result<()> {
        self.becomes("a replica to stand by", 0).await
    }

    /// Waits until it is ready; what it says then.
    pub(crate) async fn ready(&self) -> anyhow::Result<String> {
        let look = || async { self.ask("/readyz").await.map_err(|error| format!("{error:#}")) };
        wait_for("a replica to be ready", DEADLINE, look).await
    }

    /// Waits until it made so many passes and has nothing left to look at.
    pub(crate) async fn quiet(&self, passes: usize) -> anyhow::Result<()> {
        let look = || async {
            let made = self.count("causeway_reconcile_passes_total").await;
            let depth = self.count("causeway_reconcile_unfinished").await;
            match (made, depth) {
                (Ok(made), Ok(0)) if made >= passes => Ok(()),
                seen => Err(format!("passes and depth {seen:?}")),
            }
        };
        wait_for("a replica to be quiet", DEADLINE, look).await
    }

    /// Waits until its log holds a text.
    pub(crate) async fn says(&self, text: &str) -> anyhow::Result<()> {
        self.process.says(Mark::START, text, DEADLINE).await
    }
}

/// An Uplink of one nodeConfig on interface `br`, for nodes with this label, as YAML; for no node if it is empty.
pub(crate) fn uplink(name: &str, label: &str) -> String {
    let label = if label.is_empty() { "selects: nothing" } else { label };
    manifests::uplink(name, &[(&format!("{{matchLabels: {{{label}}}}}"), "br")])
}
