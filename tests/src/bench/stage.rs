//! The cluster of the main job with programs whose numbers can be read, as every bench needs it.

use std::collections::BTreeMap;

use anyhow::Context;
use causeway_rig::{KUBECONFIG, Node, Process, Rig, RigOptions};

use super::audit::Audit;
use super::probe::Probe;
use crate::blue::{self, BlueWorld};
use crate::states::uplink_says;

/// Where every program serves its numbers, inside its node.
pub const NUMBERS: &str = "127.0.0.1:9410";
/// Every program's features.
pub const FEATURES: [&str; 5] = [
    "--enable-multi-network",
    "--enable-network-segmentation",
    "--enable-uplink",
    "--k8s-kubeconfig",
    KUBECONFIG,
];
/// The cluster uses both families.
pub const DUAL_STACK: [&str; 4] = [
    "--cluster-subnets",
    "10.128.0.0/14/23,fd01::/48/64",
    "--k8s-service-cidrs",
    "10.96.0.0/16,fd00:10:96::/112",
];

/// One program of Causeway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The cluster manager.
    ClusterManager,
    /// The host agent of `node-a`.
    Host,
    /// The DPU agent on the card of `node-a`.
    Dpu,
    /// The agent of `node-b`.
    Node,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ClusterManager, Self::Host, Self::Dpu, Self::Node];

    /// File name of the program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::ClusterManager => "cluster-manager",
            Self::Host => "host-agent",
            Self::Dpu => "dpu-agent",
            Self::Node => "node-agent",
        }
    }

    /// Name of a measure of this program.
    #[must_use]
    pub fn measure(self, kind: &str) -> String {
        format!("{kind}_{}", self.program().replace('-', "_"))
    }

    /// Names of a measure of each program.
    #[must_use]
    pub fn measures(kind: &str) -> [String; 4] {
        Self::ALL.map(|part| part.measure(kind))
    }

    /// What tells the program its role on a node.
    #[must_use]
    pub fn role(self) -> &'static [&'static str] {
        match self {
            Self::ClusterManager => &["--init-cluster-manager", "control"],
            Self::Host => &["--init-node", "node-a", "--ovnkube-node-mode", "dpu-host", "--simulate-dpu"],
            Self::Dpu => &["--init-node", "node-a", "--ovnkube-node-mode", "dpu", "--simulate-dpu"],
            Self::Node => &["--init-node", "node-b"],
        }
    }

    /// Part of the user names under which it logs in.
    #[must_use]
    pub fn user(self) -> &'static str {
        match self {
            Self::ClusterManager => "causeway-cluster-manager",
            Self::Host => "causeway-host-agent",
            Self::Dpu => blue::CARD,
            Self::Node => "causeway-node-agent",
        }
    }

    /// Where it runs.
    #[must_use]
    pub fn place(self, world: &BlueWorld) -> &Node {
        match self {
            Self::ClusterManager => &world.control,
            Self::Host => &world.pair.host,
            Self::Dpu => &world.pair.card,
            Self::Node => &world.node_b,
        }
    }
}

/// The cluster, everything of Causeway on it, and what the API server notes of them.
pub struct Stage {
    /// What the API server notes.
    pub audit: Audit,
    /// The cluster.
    pub world: BlueWorld,
    parts: BTreeMap<Part, Process>,
}

impl Stage {
    /// Starts the cluster. No program of Causeway runs yet.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn set() -> anyhow::Result<Self> {
        let (audit, options) = Audit::new(RigOptions::bare())?;
        let world = BlueWorld::on(Rig::start(options).await?).await?;
        Ok(Self { audit, world, parts: BTreeMap::new() })
    }

    /// Starts all programs, with more arguments than the usual ones, applies the scenario's Uplink, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// It does not get ready.
    pub async fn open(&mut self, more: &[&str]) -> anyhow::Result<()> {
        for part in Part::ALL {
            self.start(part, more).await?;
        }
        self.world.rig.apply(blue::UPLINK_YAML).await?;
        let ready = uplink_says(&self.world.client(), blue::UPLINK, "True/Ready").await;
        ready.map(drop).with_context(|| self.world.rig.log_tails())
    }

    /// Starts one program.
    ///
    /// # Errors
    /// It was not built or cannot be started.
    pub async fn start(&mut self, part: Part, more: &[&str]) -> anyhow::Result<()> {
        let numbers = ["--metrics-bind-address", NUMBERS];
        let arguments = FEATURES.iter().chain(&numbers).chain(part.role()).chain(more);
        let process = part.place(&self.world).spawn_built(part.program(), arguments.copied()).await?;
        self.parts.insert(part, process);
        Ok(())
    }

    /// A program that was started.
    ///
    /// # Errors
    /// It was not.
    pub fn process(&self, part: Part) -> anyhow::Result<&Process> {
        self.parts.get(&part).with_context(|| format!("{part:?} was never started"))
    }

    /// Asks a program.
    ///
    /// # Errors
    /// Its node is gone.
    pub fn probe(&self, part: Part) -> anyhow::Result<Probe> {
        Probe::new(part.place(&self.world), NUMBERS)
    }

    /// Waits until all programs have looked at what there is and have nothing to do.
    ///
    /// # Errors
    /// One does not come to rest.
    pub async fn rests(&self) -> anyhow::Result<()> {
        for part in Part::ALL {
            self.probe(part)?.rests(self.process(part)?, 1.0).await?;
        }
        Ok(())
    }
}
