//! Random trouble for the topology, and what has to be true after it.
//!
//! In: a seed. Out: a zone in which networks and nodes came and went, hands took rows away, and the databases' servers,
//! northd, ovn-controller and the agent were killed at random points ([`Churn::shake`]); and a verdict ([`Churn::settles`]).
//! The same seed draws the same things in the same order; how far everybody was meanwhile is the machine's business.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_rig::Process;
use fastrand::Rng;
use ovsdb::Uuid;

use super::world::{Kind, NetworkSpec, World, rows};

/// Networks that nobody touches: their rows have to be the same ones at the end.
const KEPT: [(&str, Kind); 3] =
    [("ns_kept3", Kind::Layer3), ("ns_kept2", Kind::Layer2), ("ns_keptflat", Kind::Layer2Secondary)];
/// The first id of networks that come and go.
const FIRST: u32 = 20;
/// How many of them there can be at a time.
const MANY: u32 = 24;
/// Nodes that come and go; 1 is the agent's, 2 stays.
const NODES: std::ops::RangeInclusive<u16> = 3..=6;
/// The longest time between two things, in milliseconds.
const PAUSE: u64 = 120;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// A network comes, or goes where it is there.
    Network(u32),
    /// A node comes, or goes where it is there.
    Node(u16),
    /// A hand takes a row of a network that comes and goes.
    Hand(u32),
    /// A process is killed and started again.
    Kill(Victim),
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Agent,
    Northbound,
    Southbound,
    Northd,
    Controller,
}

impl Act {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..10) {
            0..=4 => Self::Network(FIRST + rng.u32(0..MANY)),
            5 | 6 => Self::Node(rng.u16(NODES)),
            7 => Self::Hand(FIRST + rng.u32(0..MANY)),
            _ => Self::Kill(match rng.u8(0..8) {
                0..=2 => Victim::Agent,
                3 | 4 => Victim::Northbound,
                5 => Victim::Southbound,
                6 => Victim::Northd,
                _ => Victim::Controller,
            }),
        }
    }
}

fn spec(id: u32) -> NetworkSpec {
    let kinds = [
        Kind::Layer3,
        Kind::Layer2,
        Kind::Layer3Secondary,
        Kind::Layer2Secondary,
        Kind::Layer3,
        Kind::Localnet,
    ];
    let at = usize::try_from(id).unwrap_or_default() % kinds.len();
    NetworkSpec::new(&format!("ns_churn{id}"), id, kinds.get(at).copied().unwrap_or(Kind::Layer3))
}

/// The zone and what happened to it.
pub struct Churn {
    /// The zone.
    pub world: World,
    agent: Process,
    kept: BTreeSet<(&'static str, Uuid)>,
    acts: usize,
    kills: usize,
}

impl Churn {
    /// Starts everything, with the networks that stay.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let mut world = World::start().await?;
        world.join(2).await?;
        let kept = KEPT.iter().zip(1..).map(|((name, kind), id)| NetworkSpec::new(name, id, *kind));
        world.add(&kept.collect::<Vec<_>>()).await?;
        let agent = world.agent().await?;
        world.ready().await?;
        let have = world.converged().await?;
        let is_kept = |row: &String| row.contains("ns_kept");
        let kept = rows(&have).into_iter().filter(|(_, row)| is_kept(row)).map(|(key, _)| key).collect();
        Ok(Self { world, agent, kept, acts: 0, kills: 0 })
    }

    /// Lets things happen for a time. All processes run when this returns.
    ///
    /// # Errors
    /// Something that has to work does not.
    pub async fn shake(&mut self, seed: u64, time: Duration) -> anyhow::Result<()> {
        let mut rng = Rng::with_seed(seed);
        let end = Instant::now() + time;
        while Instant::now() < end {
            let act = Act::draw(&mut rng);
            self.happen(act).await.with_context(|| format!("{act:?}"))?;
            self.acts += 1;
            if rng.bool() {
                // Not to wait for anything: things happen while the agent is at any point of its work.
                tokio::time::sleep(Duration::from_millis(rng.u64(0..PAUSE))).await;
            }
        }
        Ok(())
    }

    async fn happen(&mut self, act: Act) -> anyhow::Result<()> {
        match act {
            Act::Network(id) => {
                let spec = spec(id);
                if self.world.networks.contains_key(&spec.name) {
                    self.world.remove(&[&spec.name]).await
                } else {
                    self.world.add(&[spec]).await
                }
            }
            Act::Node(n) if self.world.nodes.contains_key(&n) => self.world.leave(n).await,
            Act::Node(n) => self.world.join(n).await,
            Act::Hand(id) => {
                let name = spec(id).name;
                let switch = format!("{name}_node1");
                // A server that is being started again, or a row that is not there, is no matter.
                let commands = [
                    vec!["--if-exists".to_owned(), "ls-del".to_owned(), switch],
                    vec!["--if-exists".to_owned(), "lr-del".to_owned(), format!("GR_{name}_node1")],
                    vec!["--if-exists".to_owned(), "lsp-del".to_owned(), format!("{name}_tstor-node2")],
                ];
                let at = usize::try_from(id).unwrap_or_default() % commands.len();
                if let Some(command) = commands.get(at) {
                    let limited = ["--timeout=2".to_owned()];
                    drop(self.world.zone.nbctl(limited.iter().chain(command)).await);
                }
                Ok(())
            }
            Act::Kill(victim) => {
                self.kills += 1;
                let [northbound, southbound, northd, controller] = self.world.zone.daemons();
                let process = match victim {
                    Victim::Agent => &self.agent,
                    Victim::Northbound => northbound,
                    Victim::Southbound => southbound,
                    Victim::Northd => northd,
                    Victim::Controller => controller,
                };
                process.kill().await?;
                process.restart().await
            }
        }
    }

    /// Waits until everything is as it has to be, and until a restart of the agent writes nothing.
    ///
    /// # Errors
    /// Something is not as it has to be.
    pub async fn settles(&self) -> anyhow::Result<()> {
        let have = self.world.converged().await?;
        self.world.ready().await?;
        let now = rows(&have);
        let lost: Vec<_> = self.kept.iter().filter(|key| !now.contains_key(*key)).collect();
        ensure!(lost.is_empty(), "rows of networks that nobody touched are others: {lost:?}");
        self.agent.kill().await?;
        self.agent.restart().await?;
        self.world.ready().await?;
        let sent = self.world.transactions().await?;
        ensure!(sent == 0, "the restart made {sent} transactions");
        ensure!(rows(&self.world.converged().await?) == now, "the restart changed rows");
        Ok(())
    }

    /// One line about what happened.
    #[must_use]
    pub fn summary(&self) -> String {
        let (networks, nodes) = (self.world.networks.len(), self.world.nodes.len());
        format!(
            "{} things, {} of them kills; {networks} networks and {nodes} nodes at the end",
            self.acts, self.kills
        )
    }
}
