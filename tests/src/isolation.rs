//! A node with an agent that isolates pods, pods that exist on the API server alone, and nftables of the node as it is.
//!
//! In: a rig. Out: [`World`]: pods are written as the network stack would annotate them, and the sets are read back with
//! `nft` and with nothing of Causeway. [`wanted`] says what the sets should hold, in code of its own.
//!
//! Never decides what is right for rules: tests compare listings.

pub mod kubelet;
pub mod pods;
pub mod prober;
pub mod systemd;
pub mod table;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::Context;
use causeway_rig::{KUBECONFIG, Node, Process, Program, Rig};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

pub use self::pods::{PodSpec, wanted};
pub use self::table::{Monitor, Sets};

/// Where the agent serves `/metrics` and `/readyz` in its node.
const HEALTH: &str = "127.0.0.1:9410";

/// How long anything that is waited for may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// What switches isolation on.
pub const ON: [&str; 2] = ["--enable-multi-network", "--enable-network-segmentation"];

/// Cluster subnets of each family.
pub const V4: [&str; 2] = ["--cluster-subnets=10.128.0.0/14/24", "--k8s-service-cidrs=10.96.0.0/16"];
/// Cluster subnets of IPv6 alone.
pub const V6: [&str; 2] = ["--cluster-subnets=fd00:10:128::/48/64", "--k8s-service-cidrs=fd00:10:96::/112"];
/// Cluster subnets of both families.
pub const DUAL: [&str; 2] = [
    "--cluster-subnets=10.128.0.0/14/24,fd00:10:128::/48/64",
    "--k8s-service-cidrs=10.96.0.0/16,fd00:10:96::/112",
];

/// The sets are about all pods of a cluster: who counts transactions has to be the only one who changes pods.
static QUIET: LazyLock<Arc<RwLock<()>>> = LazyLock::new(Arc::default);

/// Who else may change pods meanwhile.
enum Turn {
    Shared {
        _guard: OwnedRwLockReadGuard<()>,
    },
    Alone {
        _guard: OwnedRwLockWriteGuard<()>,
    },
    /// That of another world of the same test.
    Others,
}

/// A node, and where its agent is started.
pub struct World {
    /// The node.
    pub node: Node,
    /// The namespace of its pods, which is the node's own.
    pub namespace: String,
    rig: Arc<Rig>,
    _turn: Turn,
}

impl World {
    /// Starts a node called `name`, with a namespace of the same name. No agent runs yet.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start(rig: Arc<Rig>, name: &str) -> anyhow::Result<Self> {
        let turn = Turn::Shared { _guard: QUIET.clone().read_owned().await };
        Self::with(rig, name, turn).await
    }

    /// As [`World::start`], while no other world changes pods.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn alone(rig: Arc<Rig>, name: &str) -> anyhow::Result<Self> {
        let turn = Turn::Alone { _guard: QUIET.clone().write_owned().await };
        Self::with(rig, name, turn).await
    }

    /// As [`World::start`], beside this one and for no longer.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn another(&self, name: &str) -> anyhow::Result<Self> {
        Self::with(self.rig.clone(), name, Turn::Others).await
    }

    async fn with(rig: Arc<Rig>, name: &str, turn: Turn) -> anyhow::Result<Self> {
        let node = rig.node(name).start().await?;
        rig.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")).await?;
        Ok(Self { node, namespace: name.to_owned(), rig, _turn: turn })
    }

    /// The rig.
    #[must_use]
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    /// The agent's program with these arguments beside those that all need.
    #[must_use]
    pub fn program(&self, binary: &str, arguments: &[&[&str]]) -> Program {
        let usual = ["--init-node", self.node.name(), "--k8s-kubeconfig", KUBECONFIG];
        let program = Program::built(binary).args(usual).args(["--metrics-bind-address", HEALTH]);
        arguments.iter().fold(program, |program, arguments| program.args(*arguments))
    }

    /// Starts the agent of a regular node with isolation on, and waits until it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn agent(&self, families: &[&str]) -> anyhow::Result<Process> {
        let process = self.node.spawn(self.program("node-agent", &[&ON, families])).await?;
        self.ready().await?;
        Ok(process)
    }

    /// What the agent answers at a path.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn ask(&self, path: &str) -> anyhow::Result<String> {
        self.node.exec(["curl", "-s", "-S", "--max-time", "5", &format!("http://{HEALTH}{path}")]).await
    }

    /// Waits until the agent is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn ready(&self) -> anyhow::Result<()> {
        self.until_readiness("that it is ready", |text| text.starts_with("ok")).await
    }

    /// Waits until the agent's readiness is a text that `accept` likes.
    ///
    /// # Errors
    /// It stays another.
    pub async fn until_readiness(&self, what: &str, accept: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let accept = &accept;
        let look = || async move {
            let text = self.ask("/readyz").await.map_err(|error| format!("{error:#}"))?;
            if accept(text.trim()) { Ok(()) } else { Err(text) }
        };
        self.rig.wait_for(&format!("the agent to report {what}"), DEADLINE, look).await
    }

    /// Sum of a metric over all its labels that hold `labels`.
    ///
    /// # Errors
    /// The agent does not answer.
    pub async fn metric(&self, name: &str, labels: &str) -> anyhow::Result<u64> {
        let text = self.ask("/metrics").await?;
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        let values = lines.map(|line| {
            let (_, value) = line.rsplit_once(' ').with_context(|| format!("metric line {line:?}"))?;
            value.parse::<u64>().with_context(|| format!("metric line {line:?}"))
        });
        values.sum()
    }

    /// `nft` in the node.
    ///
    /// # Errors
    /// It fails.
    pub async fn nft(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.node.exec(["nft"].iter().chain(arguments)).await
    }

    /// Gives nft something to do.
    ///
    /// # Errors
    /// It fails.
    pub async fn nft_run(&self, text: &str) -> anyhow::Result<()> {
        self.node.exec_with_input(["nft", "-f", "-"], text).await.map(drop)
    }

    /// The sets of isolation as they are.
    ///
    /// # Errors
    /// There is no table.
    pub async fn sets(&self) -> anyhow::Result<Sets> {
        Sets::read(&self.nft(&["-j", "list", "table", "inet", "ovn-kubernetes"]).await?)
    }

    /// Waits until the chain's rules are these, a line each.
    ///
    /// # Errors
    /// They stay others.
    pub async fn until_rules(&self, what: &str, want: &[&str]) -> anyhow::Result<()> {
        let look = || async move {
            let found = self.rules().await.map_err(|error| format!("{error:#}"))?;
            if found == want { Ok(()) } else { Err(format!("{found:?}")) }
        };
        self.rig.wait_for(&format!("the rules {what}"), DEADLINE, look).await
    }

    /// The rules of the chain, a line each.
    ///
    /// # Errors
    /// There is no chain.
    pub async fn rules(&self) -> anyhow::Result<Vec<String>> {
        let text = self.nft(&["list", "chain", "inet", "ovn-kubernetes", "udn-isolation"]).await?;
        let lines = text.lines().map(str::trim).filter(|line| {
            let head = ["table", "chain", "comment", "type", "}"];
            !line.is_empty() && !head.iter().any(|word| line.starts_with(word))
        });
        Ok(lines.map(str::to_owned).collect())
    }

    /// Waits until the sets are those that the pods of the API server call for.
    ///
    /// # Errors
    /// They stay others.
    pub async fn converged(&self) -> anyhow::Result<Sets> {
        let client = self.rig.client();
        let client = &client;
        let look = || async move {
            let want = wanted(client).await.map_err(|error| format!("{error:#}"))?;
            let found = self.sets().await.map_err(|error| format!("{error:#}"))?;
            if found == want { Ok(found) } else { Err(format!("{found:?}, wanted {want:?}")) }
        };
        self.rig.wait_for("the sets to be those of the pods there are", DEADLINE, look).await
    }
}
