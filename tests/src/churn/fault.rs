//! Who can be away for a while: programs, the API server, databases, and Node objects.

use std::fmt::{self, Display};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, ensure};
use causeway_rig::{KUBECONFIG, Ovs, Side};
use fastrand::Rng;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use nix::sys::signal::Signal;
use serde_json::json;

use super::act::Machine;
use super::agents::Agent;
use crate::access;
use crate::blue::{self, BlueWorld};
use crate::states::DEADLINE;

/// How long a program may take to end in order while a loaded machine restarts everything else.
const TERMINATION: Duration = Duration::from_secs(10);

/// Who is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A program of Causeway.
    Agent(Agent),
    /// The API server.
    Api,
    /// The database of the card's switch.
    CardDatabase,
    /// The database of the regular node's switch.
    RegularDatabase,
    /// A Node object.
    Node(Machine),
}

/// In which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Killed, and started again.
    Killed,
    /// Stopped with all its connections open, and let go on.
    Paused,
    /// Asked to end, and started again; for a Node object: deleted, and made again.
    Ended,
}

/// Somebody is away in some way.
#[derive(Debug, Clone)]
pub struct Fault {
    subject: Subject,
    way: Way,
}

/// What can be reached while somebody is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five parts that are away independently of each other")]
pub struct Reach {
    /// The API server.
    pub api: bool,
    /// The database of the card's switch.
    pub card_database: bool,
    /// The database of the regular node's switch.
    pub regular_database: bool,
    /// Node object of the host.
    pub host: bool,
    /// Node object of the regular node.
    pub regular: bool,
}

impl Reach {
    /// What these faults leave.
    #[must_use]
    pub fn under(faults: &[Fault]) -> Self {
        let has = |subject| !faults.iter().any(|fault| fault.subject == subject);
        Self {
            api: has(Subject::Api),
            card_database: has(Subject::CardDatabase),
            regular_database: has(Subject::RegularDatabase),
            host: has(Subject::Node(Machine::Host)),
            regular: has(Subject::Node(Machine::Regular)),
        }
    }

    /// Whether the Node object is there.
    #[must_use]
    pub fn has(self, machine: Machine) -> bool {
        match machine {
            Machine::Host => self.host,
            Machine::Regular => self.regular,
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.subject, self.way)
    }
}

impl Fault {
    /// One to three faults that can be there together.
    pub fn draw(rng: &mut Rng) -> Vec<Self> {
        let mut faults: Vec<Self> = Vec::new();
        for _ in 0..rng.u8(1..=3) {
            let fault = Self::one(rng);
            if !faults.iter().any(|other| other.excludes(&fault) || fault.excludes(other)) {
                faults.push(fault);
            }
        }
        faults
    }

    fn one(rng: &mut Rng) -> Self {
        let subject = match rng.u8(0..16) {
            0 | 1 => Subject::Agent(Agent::ClusterManager),
            2 | 3 => Subject::Agent(Agent::Host),
            4..=6 => Subject::Agent(Agent::Dpu),
            7..=9 => Subject::Agent(Agent::Node),
            10 => Subject::Api,
            11 | 12 => Subject::CardDatabase,
            13 | 14 => Subject::RegularDatabase,
            _ => Subject::Node(if rng.bool() { Machine::Host } else { Machine::Regular }),
        };
        let way = match (subject, rng.u8(0..5)) {
            (Subject::Node(_), _) | (Subject::Agent(_), 0) => Way::Ended,
            (_, 0..=2) => Way::Killed,
            _ => Way::Paused,
        };
        Self { subject, way }
    }

    /// Whether no object of the API server goes with it.
    #[must_use]
    pub fn leaves_objects(&self) -> bool {
        !matches!(self.subject, Subject::Node(_))
    }

    /// Whether the other cannot begin or end beside this one.
    fn excludes(&self, other: &Self) -> bool {
        match (self.subject, other.subject) {
            // The card of a new Node needs a new token, and with it a new start.
            (Subject::Node(Machine::Host), Subject::Agent(Agent::Dpu)) | (Subject::Node(_), Subject::Api) => {
                true
            }
            (one, two) => one == two,
        }
    }

    /// It goes.
    ///
    /// # Errors
    /// The program has ended by itself before, or does not do what is asked of it.
    pub async fn begin(&self, world: &BlueWorld) -> anyhow::Result<()> {
        match (self.subject, self.way) {
            (Subject::Agent(agent), way) => {
                let process = agent.running(world).await?;
                match way {
                    Way::Killed => process.kill().await,
                    Way::Paused => process.pause().await,
                    Way::Ended => {
                        let status = process.stop(TERMINATION).await?;
                        // One that has only just started does not know the signal yet.
                        let as_asked =
                            status.code() == Some(0) || status.signal() == Some(Signal::SIGTERM as i32);
                        ensure!(as_asked, "{agent:?} was asked to end and ended with {status}");
                        Ok(())
                    }
                }
            }
            (Subject::Api, Way::Paused) => world.rig.pause_api().await,
            (Subject::Api, _) => world.rig.stop_api().await,
            (Subject::CardDatabase, way) => database_goes(&world.card_ovs, way).await,
            (Subject::RegularDatabase, way) => database_goes(&world.node_b_ovs, way).await,
            (Subject::Node(machine), _) => {
                let nodes: Api<Node> = Api::all(world.client());
                nodes.delete(machine.name(), &DeleteParams::default()).await.context("deleting a Node")?;
                let what = "absence";
                causeway_rig::wait_object(nodes, machine.name(), what, DEADLINE, |node| node.is_none())
                    .await
                    .map(drop)
            }
        }
    }

    /// It comes back.
    ///
    /// # Errors
    /// The program has ended by itself meanwhile, or does not start.
    pub async fn end(&self, world: &BlueWorld) -> anyhow::Result<()> {
        match (self.subject, self.way) {
            (Subject::Agent(agent), Way::Paused) => agent.running(world).await?.resume(),
            (Subject::Agent(agent), _) => agent.restart(world).await,
            (Subject::Api, Way::Paused) => {
                world.rig.resume_api()?;
                // It serves again as soon as it has seen what it missed.
                let version = || async { world.client().apiserver_version().await.map(drop) };
                causeway_rig::wait_for("the API server to go on", DEADLINE, version).await
            }
            (Subject::Api, _) => world.rig.start_api().await,
            (Subject::CardDatabase, way) => database_comes(&world.card_ovs, way).await,
            (Subject::RegularDatabase, way) => database_comes(&world.node_b_ovs, way).await,
            (Subject::Node(machine), _) => node_comes(world, machine).await,
        }
    }
}

async fn database_goes(ovs: &Ovs, way: Way) -> anyhow::Result<()> {
    match way {
        Way::Paused => ovs.server().pause().await,
        Way::Killed | Way::Ended => ovs.stop_server().await,
    }
}

async fn database_comes(ovs: &Ovs, way: Way) -> anyhow::Result<()> {
    match way {
        Way::Paused => ovs.server().resume(),
        Way::Killed | Way::Ended => ovs.start_server().await,
    }
}

/// The Node object is made again, as a kubelet would, with the labels and annotations of a new one.
async fn node_comes(world: &BlueWorld, machine: Machine) -> anyhow::Result<()> {
    let name = machine.name();
    let own = match machine {
        Machine::Host => blue::DPU_HOST,
        Machine::Regular => blue::LABEL,
    };
    let annotations = causeway_rig::UplinkAnnotations::default().render(name);
    let labels = json!({"kubernetes.io/hostname": name, own: "true"});
    let node: Node = serde_json::from_value(
        json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}}),
    )?;
    let nodes: Api<Node> = Api::all(world.client());
    nodes.create(&PostParams::default(), &node).await.context("making a Node again")?;
    if machine == Machine::Host {
        // A card's token is good for one Node object: an administrator enrols the card again.
        let token = access::enrol_card(&world.rig, blue::CARD, name).await?;
        world.pair.card.write(KUBECONFIG, world.rig.kubeconfig_of(&token, Side::Inside)?)?;
        Agent::Dpu.running(world).await?;
        Agent::Dpu.restart(world).await?;
    }
    Ok(())
}
